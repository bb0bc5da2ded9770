"""The list for hosts: what is in it, that a timer writes it and never a publish, and that it is signed."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry.app import compose, prepare
from plugreg_registry.leftovers import Clearing
from plugreg_registry.listing import Lister, row_of
from plugreg_registry.settings import read_settings
from plugreg_schemas.api import StatementRequest
from plugreg_schemas.documents import canonical_json
from tests.registry.test_killed import publish
from tests.support.publisher import Author, digest_of, plugin
from tests.support.registries import running
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.index import Index

DIGEST = "sha256:" + "ab" * 32


class Here:
    """A registry without a server, an author, and a clock that can be turned forward."""

    def __init__(self, folder: Path) -> None:
        settings = read_settings({}, str(folder / "data"))
        self.author = Author("", prepare(settings).ref.id)
        self.registry: Registry = compose(settings)
        self.later = timedelta()
        self.client = TufClient(folder / "client", settings.objects)
        self.objects = settings.objects
        self.lister = Lister(self.index)

    @property
    def index(self) -> Index:
        return replace(self.registry.index, now=self.now)

    def now(self) -> datetime:
        return self.registry.index.now() + self.later

    def publish(self, *names: str) -> None:
        for name in names:
            publish(self.registry.services.publishing, self.author, name)

    def state(self, kind: str, name: str, **predicate: Any) -> None:
        record = self.registry.services.publishing.releases.find(name)
        assert record is not None
        digests = record.history.digests
        body = self.author.successor(kind, name, len(digests), str(digests[-1]), **predicate)
        self.registry.services.publishing.state(StatementRequest.model_validate_json(json.dumps(body)))

    def look(self) -> bool:
        """A look of the timer, a minute after the last one."""
        self.later += timedelta(seconds=61)
        return self.lister.round()

    def rows(self) -> list[dict[str, Any]]:
        """The list, as a reader gets it who verifies everything."""
        listing = json.loads(self.client.target("catalog.json") or b"")
        rows: list[dict[str, Any]] = []
        for page in listing["pages"]:
            content = (self.objects / "index" / page["path"]).read_bytes()
            assert (digest_of(content), len(content)) == (page["digest"], page["size"])
            found = json.loads(content)["plugins"]
            assert (found[0]["name"], found[-1]["name"]) == (page["first"], page["last"])
            rows += found
        assert listing["plugins"] == len(rows)
        return rows

    def names(self) -> list[str]:
        return [row["name"] for row in self.rows()]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    here = Here(tmp_path)
    yield here
    here.registry.close()


def test_the_list_is_signed_and_empty_at_first(here: Here) -> None:
    assert here.client.target("catalog.json") is None
    assert here.lister.round()
    assert here.rows() == []


def test_a_publish_never_writes_the_list_and_the_timer_does(here: Here) -> None:
    here.lister.round()
    here.publish("zeta", "alpha")
    assert here.rows() == []
    assert here.look()
    first, second = here.rows()
    assert [first["name"], second["name"]] == ["alpha", "zeta"]
    assert (first["latest"], first["status"], first["runtimes"]) == ("1.0.0", "active", ["mcp_stdio"])
    assert (here.objects / "index" / "catalog.json").read_bytes() == here.client.target("catalog.json")


def test_at_most_once_a_minute_whoever_looks(here: Here) -> None:
    here.lister.round()
    here.publish("demo")
    other = Lister(here.index)
    for lister in (here.lister, other, other):
        assert not lister.round()
    assert here.look()
    here.publish("more")
    assert not here.lister.round()


def test_nothing_is_written_if_nothing_has_changed(here: Here) -> None:
    here.publish("demo")
    here.lister.round()
    before = here.registry.index.files.state().timestamp.version
    assert not here.look()
    assert not here.look()
    here.index.renew()
    assert not here.look()
    assert here.registry.index.files.state().timestamp.version == before


def test_only_documents_that_have_changed_are_read_again(here: Here) -> None:
    here.publish("demo", "other")
    here.look()
    for path in (here.objects / "index" / "plugins").glob("*.demo.json"):
        path.unlink()
    here.publish("third")
    assert here.look()
    assert here.names() == ["demo", "other", "third"]


def test_deprecated_plugins_are_listed_last(here: Here) -> None:
    here.publish("alpha", "zeta")
    here.state("status", "alpha", state="deprecated", reason="use zeta", replacement="zeta")
    here.look()
    assert [(row["name"], row["status"]) for row in here.rows()] == [
        ("zeta", "active"),
        ("alpha", "deprecated"),
    ]


def test_a_process_that_starts_reads_no_documents_at_once(here: Here) -> None:
    here.publish("demo")
    here.lister.round()
    here.publish("other")
    here.lister = Lister(here.index)
    assert not here.look()
    assert here.look()
    assert here.names() == ["demo", "other"]


def document(*versions: dict[str, Any], state: str = "active") -> bytes:
    entry = {
        "digest": DIGEST,
        "size": 1,
        "published_at": "2026-01-31T12:00:00Z",
        "format": "agent-plugins",
        "signer": 0,
        "attestations": [DIGEST],
    }
    return canonical_json(
        {
            "name": "demo",
            "description": "Finds files.\nAnd more.",
            "status": {"state": state},
            "history": [DIGEST],
            "owners": [{"kind": "key", "id": DIGEST}],
            "signers": [{"signer": {"kind": "key", "id": DIGEST}}],
            "versions": [entry | version for version in versions],
        }
    )


@pytest.mark.parametrize(
    ("versions", "latest"),
    [
        ([{"version": "1.0.0"}, {"version": "1.10.0"}, {"version": "1.9.0"}], "1.10.0"),
        ([{"version": "1.0.0"}, {"version": "2.0.0-rc.1"}], "1.0.0"),
        ([{"version": "1.0.0"}, {"version": "1.1.0", "yanked": True}], "1.0.0"),
        ([{"version": "1.0.0-rc.1"}, {"version": "1.1.0", "yanked": True}], "1.0.0-rc.1"),
        ([{"version": "1.0.0", "yanked": True}, {"version": "1.1.0", "yanked": True}], "1.1.0"),
    ],
)
def test_latest_is_what_would_be_installed(versions: list[dict[str, Any]], latest: str) -> None:
    row = row_of(document(*versions))
    assert row is not None
    assert (row.latest, row.description) == (latest, "Finds files.")


@pytest.mark.parametrize("state", ["quarantined", "removed"])
def test_what_is_quarantined_or_removed_has_no_row(state: str) -> None:
    assert row_of(document({"version": "1.0.0"}, state=state)) is None


def test_a_list_on_many_pages_changes_where_one_plugin_is_added(here: Here) -> None:
    rows = here.lister._listed  # noqa: SLF001 - seven hundred publishes would take a minute
    assert rows(here.index.files.state()) == []
    here.publish("demo")
    here.look()
    pages = set((here.objects / "index" / "catalog").iterdir())
    here.publish("other")
    here.look()
    assert set((here.objects / "index" / "catalog").iterdir()) > pages, "the old page stays for a day"


def test_what_the_list_has_replaced_goes_a_day_later(here: Here) -> None:
    here.publish("demo")
    here.lister.round()
    here.publish("other")
    here.look()
    clearing = Clearing(here.index)
    assert clearing.round() == 0
    here.later += timedelta(days=1, minutes=1)
    assert Clearing(here.index).round() > 0
    assert here.names() == ["demo", "other"]
    (page,) = (here.objects / "index" / "catalog").iterdir()
    assert page.name in json.loads((here.objects / "index" / "catalog.json").read_bytes())["pages"][0]["path"]


def test_a_server_writes_the_list_by_itself(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        Author(registry.url, registry.id).publish(plugin("demo"), "demo")
        client = TufClient(tmp_path / "client", registry.url)
        end = time.monotonic() + 30
        while client.target("catalog.json") is None and time.monotonic() < end:
            time.sleep(0.1)
        assert client.target("catalog.json") is not None
