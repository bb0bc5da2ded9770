"""Rollback: the release before becomes active again from what is kept here, proved as if it came new."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from plugreg.inventory import list_installed, verify
from plugreg.pinning import Options
from plugreg.plugins_root import PluginsRoot
from plugreg.plugins_root.records import State, read_state, write_record
from plugreg.rollback import rollback
from plugreg.trust_policy import TrustPolicy
from plugreg_schemas.errors import Gone, IntegrityError, NotAllowed, NotAvailable, Unverifiable
from plugreg_schemas.index import Revocation
from tests.client.test_dependencies import files, need
from tests.support.attacked import attacked
from tests.support.roots import Here, Job, Running, assert_settled

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg.install import Installation
    from plugreg.plugins_root import Facts, StoreEntry
    from plugreg_schemas.index import Level


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A root in which `demo` was updated from 1.0.0 to 1.1.0."""
    made = Here(tmp_path)
    made.publish("1.0.0")
    made.install("demo@^1")
    made.publish("1.1.0")
    made.update()
    return made


def back(here: Here, name: str = "demo", **options: object) -> Installation:
    return rollback(here.root, name, say=here.said.append, **options)  # type: ignore[arg-type]


def kept(here: Here) -> StoreEntry:
    """The release that is not active."""
    (found,) = (e for e in here.root.entries("demo") if e.key != here.tree().name)
    return found


def state(here: Here) -> State:
    found = read_state(here.root, "demo")
    assert found
    return found


def test_a_rollback_makes_the_release_before_active_and_keeps_the_data(here: Here) -> None:
    database = here.root.data("demo") / "db"
    database.write_bytes(os.urandom(1000))
    before = (database.read_bytes(), database.stat().st_ino)
    downloads = here.offers.downloads
    (row,) = back(here).installed
    assert (row.change, row.previous, row.facts.version) == ("rolled_back", "1.1.0", "1.0.0")
    assert (here.tree() / "v.txt").read_text() == "1.0.0"
    assert (database.read_bytes(), database.stat().st_ino) == before
    assert here.offers.downloads == downloads
    assert (state(here).version, state(here).range) == ("1.0.0", "^1")
    assert_settled(here.root)


def test_a_rollback_of_a_rollback_leads_back(here: Here) -> None:
    for version in ("1.0.0", "1.1.0", "1.0.0"):
        back(here)
        assert here.listed() == {"demo": version}
        assert_settled(here.root)


def test_an_update_after_a_rollback_goes_forward_in_the_range_of_the_release(here: Here) -> None:
    back(here)
    (row,) = here.update().installed
    assert (row.previous, row.facts.version) == ("1.0.0", "1.1.0")
    here.publish("2.0.0")
    here.install("demo@^2")
    back(here)
    assert state(here).range == "^1", "the last one does not admit 1.1.0"
    here.publish("1.2.0")
    here.update()
    assert here.listed() == {"demo": "1.2.0"}


def test_a_range_that_was_asked_for_since_stays_where_it_admits_the_release(here: Here) -> None:
    here.install("demo@>=1.0")
    back(here)
    assert state(here).range == ">=1.0"


def test_a_running_server_keeps_the_files_that_it_was_started_from(here: Here) -> None:
    used = here.tree()
    back(here)
    assert (used / "v.txt").read_text() == "1.1.0"


@pytest.mark.parametrize("installed", [True, False])
def test_where_nothing_else_is_kept_there_is_nothing_to_go_back_to(
    tmp_path: Path, *, installed: bool
) -> None:
    here = Here(tmp_path)
    here.publish()
    here.install()
    if not installed:
        here.uninstall()
    error = here.refused(back, here)
    assert (type(error), error.code) == (NotAvailable, "nothing_kept" if installed else "not_installed")


def test_a_damaged_release_is_left_by_a_rollback(here: Here) -> None:
    (here.tree() / "v.txt").write_text("altered")
    back(here)
    assert here.listed() == {"demo": "1.0.0"}
    verify(here.root).raise_if_any()


@pytest.mark.parametrize(
    ("part", "kind", "code"),
    [
        ("tree", IntegrityError, "tree_altered"),
        ("bundle", IntegrityError, "bundle_altered"),
        ("attestation", IntegrityError, "attestation_altered"),
        ("facts", IntegrityError, "facts_damaged"),
        ("key", Unverifiable, "public_key_missing"),
    ],
)
def test_what_is_kept_is_proved_before_it_becomes_active(
    here: Here, part: str, kind: type[Exception], code: str
) -> None:
    entry = kept(here)
    if part == "tree":
        (entry.tree / "v.txt").write_text("altered")
    elif part == "key":
        facts = json.loads(entry.facts.read_bytes())
        entry.facts.write_text(json.dumps(facts | {"public_key": ""}))
    else:
        getattr(entry, part).write_bytes(b"altered")
    error = here.refused(back, here)
    assert (type(error), error.code) == (kind, code)


def test_a_release_of_another_signer_is_not_gone_back_to(here: Here) -> None:
    """The data belongs to who signs now; only naming the other one gives it back."""
    here.offers.forget("demo")
    here.offers.publish(here.stranger, "demo", "1.2.0")
    here.update(accept_signer=here.stranger.signer.words)
    error = here.refused(back, here)
    assert (type(error), error.code) == (NotAllowed, "signer_changed")
    assert here.author.signer.words in error.message
    back(here, options=Options(accept_signer=here.author.signer.words))
    assert here.listed() == {"demo": "1.1.0"}
    verify(here.root).raise_if_any()
    assert here.refused(here.update).code == "signer_changed"


def test_a_release_of_another_registry_is_not_gone_back_to(here: Here) -> None:
    pin = state(here).pin.model_copy(update={"registry": "urn:uuid:00000000-0000-4000-8000-000000000009"})
    write_record(here.root.staging, here.root.state("demo"), state(here).model_copy(update={"pin": pin}))
    with pytest.raises(NotAllowed) as caught:
        back(here)
    assert caught.value.code == "registry_changed"


def test_the_newest_statement_that_was_seen_stays_seen(here: Here) -> None:
    before = here.offers.document("demo")
    here.offers.yank(here.author, "demo", "1.1.0")
    here.update()
    back(here)
    (here.offers.folder / "plugins" / "demo.json").write_bytes(before)
    assert here.refused(here.update).code == "history_forked"


def test_a_rule_of_this_machine_counts(here: Here) -> None:
    policy = TrustPolicy(signers={"demo": (here.stranger.signer.words,)})
    assert here.refused(back, here, options=Options(policy=policy)).code == "signer_not_trusted"


def test_what_is_withdrawn_is_not_gone_back_to(here: Here) -> None:
    for withdrawn, kind in (("quarantined", NotAllowed), ("removed", Gone)):
        seen = state(here).seen.model_copy(update={"state": withdrawn, "reason": "phones home"})
        write_record(
            here.root.staging, here.root.state("demo"), state(here).model_copy(update={"seen": seen})
        )
        error = here.refused(back, here)
        assert (type(error), error.code) == (kind, f"plugin_{withdrawn}")
        assert "phones home" in error.message


@pytest.mark.parametrize(("level", "allowed"), [("warn", True), ("disable", True), ("refuse", False)])
def test_revocations_count(here: Here, level: Level, *, allowed: bool) -> None:
    def against(facts: Facts) -> tuple[Revocation, tuple[str, ...]]:
        assert facts.version == "1.0.0"
        found = Revocation(kind="digest", value=facts.digest, level=level, reason="bad", at=datetime.now(UTC))
        return found, ("note: the list is old",)

    if not allowed:
        assert here.refused(back, here, against=against).code == "revoked"
        return
    notes = back(here, against=against).notes
    assert notes[0] == "note: the list is old"
    assert "`demo 1.0.0` is revoked" in notes[1]


def test_a_plugin_that_needs_the_newer_release_is_named(tmp_path: Path) -> None:
    here = Here(tmp_path)
    for version in ("1.0.0", "2.0.0"):
        here.offers.publish(here.author, "low", version, files("low", version))
    here.offers.publish(here.author, "top", "1.0.0", files("top", "1.0.0", need("low", "^2")))
    here.install("low@1.0.0")
    here.install("low@2.0.0", "top")
    (note,) = back(here, "low").notes
    assert note == "warning: `top` depends on `low` `^2`, and this activates `1.0.0`"


def test_killed_before_every_step_of_a_rollback_either_release_is_active_and_proved(here: Here) -> None:
    job = Job(here.root.path, here.offers.folder, ("rollback", "demo"))
    end, _, steps = Running.start(job).last()
    assert (end, here.listed()) == ("done", {"demo": "1.0.0"})
    seen = []
    for cut in range(1, steps + 1, 3):
        here.root = PluginsRoot.at(here.folder / f"root{cut}", patience=60)
        here.install("demo@1.0.0")
        here.install("demo@^1")
        (here.root.data("demo") / "db").write_text("kept")
        job = Job(here.root.path, here.offers.folder, ("rollback", "demo"), cut=cut)
        assert Running.start(job).last()[0] == "killed"
        seen.append(here.listed()["demo"])
        verify(here.root).raise_if_any()
        if seen[-1] == "1.1.0":
            back(here)
        here.install("demo@1.0.0")
        assert here.listed() == {"demo": "1.0.0"}
        assert_settled(here.root)
        assert (here.root.data("demo") / "db").read_text() == "kept"
    assert seen == sorted(seen, reverse=True), "there is one commit point"


def test_the_command_asks_what_is_revoked_and_works_without_an_answer(tmp_path: Path) -> None:
    with attacked(tmp_path) as scene:
        for version in ("1.0.0", "1.1.0"):
            scene.publish(version)
            scene.run("install", f"demo@{version}")
        (row,) = scene.person.run("rollback", "demo", "--yes")["installed"]
        assert (row["change"], row["previous"], row["version"]) == ("rolled_back", "1.1.0", "1.0.0")
        newer = next(e for e in list_entries(scene.person.root) if e.version == "1.1.0")
        digest = json.loads(newer.facts.read_bytes())["digest"]
        entry = Revocation(kind="digest", value=digest, level="refuse", reason="bad", at=datetime.now(UTC))
        scene.index.revocations = [entry.model_dump(mode="json", exclude_none=True)]
        scene.index.publish()
        scene.refused("rollback", "demo", exits=6, codes="revoked")
    scene.refused("rollback", "demo", exits=6, codes="revoked")  # nobody answers: what was seen counts
    (listed,) = list_installed(PluginsRoot.at(scene.person.root)).plugins
    assert (listed.version, listed.status) == ("1.0.0", "active")


def list_entries(root: Path) -> tuple[StoreEntry, ...]:
    return PluginsRoot.at(root).entries("demo")
