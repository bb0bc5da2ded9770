"""Revocations: `warn` warns, `disable` is not started, `refuse` is neither chosen nor installed nor started."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg import revocations, run
from plugreg.inventory import declared, locate
from plugreg.run import Target
from plugreg_schemas.errors import NotAllowed
from plugreg_schemas.index import Level, Revocation, RevocationList
from tests.support.commands import SCHEMAS
from tests.support.offers import PUBLISHED_AT, Offers
from tests.support.roots import Here

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg_schemas.names import Digest

PUBLISHED = datetime.fromisoformat(PUBLISHED_AT)
NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)
SERVER = {
    "mcp.json": json.dumps(
        {
            "$schema": f"{SCHEMAS}/mcp.schema.json",
            "mcpServers": {"one": {"type": "stdio", "command": "python3", "args": ["-c", "pass"]}},
        }
    )
}
TOP = """
[plugin]
schema_version = "1"
name = "top"
version = "1.0.0"
kind = "tool"
kind_api_version = "1"
core_version = ">=0.2.0,<0.3.0"
runtime = "in_process"
entry_point = "plugin:Echo"
depends_on = ["demo"]
"""


class Counting(Offers):
    """Counts the statements that were asked for."""

    asked = 0

    def attestation(self, digest: Digest) -> bytes:
        self.asked += 1
        return super().attestation(digest)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def entry(kind: Any, value: str, level: Level, **more: Any) -> Revocation:
    return Revocation(kind=kind, value=value, level=level, reason="steals tokens", at=NOW, **more)


def revoke(here: Here, *entries: Revocation) -> None:
    here.offers.revocations = RevocationList(entries=entries)


# chosen and installed


@pytest.mark.parametrize("level", ["warn", "disable"])
def test_what_is_warned_of_or_disabled_is_installed_with_a_warning(here: Here, level: Level) -> None:
    digest = here.publish()
    revoke(here, entry("digest", digest, level))
    here.install()
    (said,) = here.said
    assert said.startswith(
        "warning: `demo 1.0.0` is revoked: its registry withdraws this version: steals tokens"
    )
    assert ("not started" in said) == (level == "disable")
    assert here.listed() == {"demo": "1.0.0"}


@pytest.mark.parametrize("kind", ["digest", "signer", "name"])
def test_what_is_refused_is_not_installed(here: Here, kind: str) -> None:
    digest = here.publish()
    value = {"digest": digest, "signer": here.author.signer.words, "name": "demo"}[kind]
    revoke(here, entry(kind, value, "refuse"))
    error = here.refused(here.install)
    assert (type(error), error.code) == (NotAllowed, "revoked")
    assert "steals tokens" in error.message
    assert here.offers.downloads == 0


def test_a_version_named_exactly_is_refused_as_well(here: Here) -> None:
    here.publish()
    digest = here.publish("1.1.0")
    revoke(here, entry("digest", digest, "refuse"))
    assert here.refused(here.install, "demo@1.1.0").code == "revoked"


def test_the_best_version_that_is_not_refused_is_taken_and_this_is_said(here: Here) -> None:
    here.publish()
    here.publish("1.1.0")
    digest = here.publish("1.2.0")
    revoke(here, entry("digest", digest, "refuse"))
    here.install()
    assert here.listed() == {"demo": "1.1.0"}
    (said,) = here.said
    assert "`demo 1.2.0` is revoked" in said
    assert "1.1.0 is taken" in said


def test_an_update_does_not_go_to_what_is_refused(here: Here) -> None:
    here.publish()
    here.install()
    digest = here.publish("1.1.0")
    revoke(here, entry("digest", digest, "refuse"))
    here.update()
    assert here.listed() == {"demo": "1.0.0"}


def test_a_version_that_is_refused_is_not_recommended(here: Here) -> None:
    here.publish()
    here.install("demo@1.0.0")
    digest = here.publish("1.1.0")
    revoke(here, entry("digest", digest, "refuse"))
    here.said.clear()
    here.update()
    assert not any("is available" in line for line in here.said)


def test_an_update_leaves_what_was_refused_for_what_is_newer(here: Here) -> None:
    digest = here.publish()
    here.install()
    here.publish("1.1.0")
    revoke(here, entry("digest", digest, "refuse"))
    here.update()
    assert here.listed() == {"demo": "1.1.0"}


def test_what_is_installed_stays_with_its_data_and_a_warning(here: Here) -> None:
    """An older version is never taken unasked, and one plugin does not keep all others from their updates."""
    here.publish("0.9.0")
    digest = here.publish()
    here.install()
    revoke(here, entry("digest", digest, "refuse"))
    done = here.update()
    assert [row.change for row in done.installed] == ["unchanged"]
    assert here.listed() == {"demo": "1.0.0"}
    assert here.root.data("demo").is_dir()
    assert "not started" in here.said[-1]
    here.install("demo@0.9.0")
    assert here.listed() == {"demo": "0.9.0"}


def test_what_is_refused_is_not_mended_either(here: Here) -> None:
    here.publish("0.9.0")
    digest = here.publish()
    here.install()
    here.tree().joinpath("plugin.json").unlink()
    entry_of = here.root.active("demo")
    assert entry_of is not None
    entry_of.bundle.unlink()
    revoke(here, entry("digest", digest, "refuse"))
    with pytest.raises(NotAllowed) as caught:
        here.install()
    assert caught.value.code == "revoked"
    assert "demo@0.9.0" in caught.value.hint


def test_the_strongest_entry_counts_and_a_closed_one_does_not(here: Here) -> None:
    digest = here.publish()
    signer = here.author.signer.words
    revoke(here, entry("digest", digest, "warn"), entry("signer", signer, "refuse"))
    assert here.refused(here.install).code == "revoked"
    revoke(here, entry("signer", signer, "refuse"), entry("signer", signer, "refuse", expires=NOW - HOUR))
    here.install()
    assert here.said == []


def test_what_was_published_before_the_theft_of_a_key_stays_good(here: Here) -> None:
    here.publish()
    signer = here.author.signer.words
    revoke(here, entry("signer", signer, "refuse", before=PUBLISHED + HOUR))
    here.install()
    assert here.listed() == {"demo": "1.0.0"}
    revoke(here, entry("signer", signer, "refuse", before=PUBLISHED - HOUR))
    here.uninstall()
    assert here.refused(here.install).code == "revoked"


def test_for_a_refused_signer_nothing_is_fetched_version_by_version(here: Here) -> None:
    for number in range(5):
        here.publish(f"1.{number}.0")
    revoke(here, entry("signer", here.author.signer.words, "refuse"))
    counting = Counting(here.offers.folder)
    counting.revocations = here.offers.revocations
    with pytest.raises(NotAllowed, match="revoked"):
        here.install(registries=[counting])
    assert counting.asked == 1  # the history


def test_a_plugin_whose_dependency_is_refused_is_not_installed(here: Here) -> None:
    here.publish()
    here.offers.publish(here.author, "top", "1.0.0", {"dagstack.toml": TOP, "plugin.py": ""})
    revoke(here, entry("name", "demo", "refuse"))
    error = here.refused(here.install, "top")
    assert error.code == "revoked"
    assert "`top`" in error.message


# what is recorded, and judged by


def test_the_times_of_a_release_are_recorded_with_it(here: Here) -> None:
    here.publish()
    here.offers.index_time = NOW
    here.install()
    facts = locate(here.root, "demo").facts
    assert facts is not None
    assert (facts.published_at, facts.signed_at, facts.index_time) == (PUBLISHED, None, NOW)


def test_what_is_installed_is_judged_by_the_time_recorded_then(here: Here) -> None:
    """A registry that dates a release anew later cannot lift its revocation."""
    here.publish()
    here.install()
    facts = locate(here.root, "demo").facts
    assert facts is not None
    signer = here.author.signer.words
    before = RevocationList(entries=(entry("signer", signer, "disable", before=PUBLISHED + HOUR),))
    after = RevocationList(entries=(entry("signer", signer, "disable", before=PUBLISHED - HOUR),))
    undated = facts.model_copy(update={"published_at": None})
    dated = facts.model_copy(update={"signed_at": PUBLISHED + 2 * HOUR})
    assert revocations.of_installed(before, facts) is None
    assert revocations.of_installed(after, facts) is not None
    assert revocations.of_installed(before, undated) is not None
    assert revocations.of_installed(before, dated) is not None
    proved = facts.model_copy(update={"signed_at": PUBLISHED - 2 * HOUR})
    assert revocations.of_installed(after, proved) is None


# started


def target(here: Here, refusal: NotAllowed | None) -> Target:
    row = locate(here.root, "demo")
    manifest = declared(here.root, "demo")
    assert manifest is not None
    return Target(row.name, row.root, row.data, manifest, refusal)


def test_what_is_disabled_is_planned_as_skipped_and_not_started(here: Here) -> None:
    digest = here.publish(files=SERVER)
    here.install()
    why = entry("digest", digest, "disable")
    plugin = target(here, revocations.refusal(why, "demo", "1.0.0"))
    (planned,) = run.plan(plugin)["plugins"]
    assert planned["servers"] == []
    assert [(row["name"], row["error"]["code"]) for row in planned["skipped"]] == [("one", "revoked")]
    assert planned["root"]
    with pytest.raises(NotAllowed, match="revoked"):
        run.list_tools(plugin)
    with pytest.raises(NotAllowed, match="revoked"):
        run.call_tool(plugin, "one", "x", {})


def test_only_warn_lets_it_start() -> None:
    levels: tuple[Level, ...] = ("warn", "disable", "refuse")
    found = [entry("name", "demo", level) for level in levels]
    assert [revocations.may_start(one) for one in (None, *found)] == [True, True, False, False]
    assert [revocations.may_install(one) for one in (None, *found)] == [True, True, True, False]
