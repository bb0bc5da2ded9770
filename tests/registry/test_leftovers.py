"""What the index has replaced: there for a day, then gone; and never anything that a reader may still need."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.app import compose, prepare
from plugreg_registry.leftovers import KEPT, Clearing
from plugreg_registry.operating import revoke, rotate
from plugreg_registry.rotation import ROLES
from plugreg_registry.settings import read_settings
from plugreg_schemas.index import metadata_key
from tests.registry.test_killed import publish
from tests.support.publisher import Author
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({}, str(tmp_path / "data"))


@pytest.fixture
def registry(settings: Settings) -> Iterator[Registry]:
    prepare(settings)
    registry = compose(settings)
    yield registry
    registry.close()


def clear(registry: Registry, later: timedelta) -> int:
    """A round of the janitor, some time from now."""
    now = registry.index.now() + later
    return Clearing(replace(registry.index, now=lambda: now)).round()


def objects(settings: Settings) -> set[str]:
    folder = settings.objects / "index"
    return {str(path.relative_to(settings.objects)) for path in folder.rglob("*") if path.is_file()}


def republish(registry: Registry, author: Author, *names: str) -> None:
    for name in names:
        publish(registry.services.publishing, author, name)


def test_what_is_replaced_stays_a_day_and_is_then_removed(
    registry: Registry, settings: Settings, tmp_path: Path
) -> None:
    author = Author("", registry.ref.id)
    republish(registry, author, "demo")
    first = objects(settings)
    republish(registry, author, *(f"plugin{number}" for number in range(40)))
    assert first <= objects(settings)
    assert clear(registry, KEPT - timedelta(minutes=5)) == 0
    assert first <= objects(settings)
    assert clear(registry, KEPT + timedelta(minutes=5)) > 40
    state = registry.index.files.state()
    names = [f"index/metadata/{meta.version}.{role}" for role, meta in state.snapshot.meta.items()]
    documents = {path for path in objects(settings) if path.startswith("index/plugins/")}
    targets = {path for path in objects(settings) if "trust.json" in path or "revocations.json" in path}
    top = (
        metadata_key("root", 1),
        metadata_key("snapshot", state.snapshot.version),
        metadata_key("timestamp"),
    )
    assert objects(settings) == {*names, *documents, *targets, *top}
    assert len(documents) == 2 * 41
    client = TufClient(tmp_path / "client", settings.objects)
    assert client.document("demo") is not None
    assert clear(registry, KEPT + timedelta(minutes=5)) == 0


def test_roots_are_kept_for_clients_that_were_away(
    registry: Registry, settings: Settings, tmp_path: Path
) -> None:
    away = TufClient(tmp_path / "client", settings.objects)
    away.updater()
    for _ in range(2):
        rotate(settings, ROLES, None, rest=0)
    assert clear(registry, KEPT * 2) > 0
    assert away.root_version() == 3


def test_bytes_that_were_put_back_since_stay(registry: Registry, settings: Settings, tmp_path: Path) -> None:
    author = Author("", registry.ref.id)
    republish(registry, author, "demo")
    state = registry.index.files.state()
    named = {path for path in objects(settings) if len(path.rpartition("/")[2].partition(".")[0]) == 64}
    named.add(metadata_key("snapshot", state.snapshot.version))
    named |= {f"index/metadata/{meta.version}.{role}" for role, meta in state.snapshot.meta.items()}
    assert len(named) == 3 + 1 + 3 + 16
    before = objects(settings)
    registry.index.leftovers.add(sorted(named), registry.index.now() - KEPT * 2)
    assert clear(registry, timedelta()) == 0
    assert objects(settings) == before
    assert registry.index.leftovers.old(registry.index.now() - KEPT) == ()
    assert TufClient(tmp_path / "client", settings.objects).document("demo") is not None


def test_a_revocation_list_that_was_replaced_goes_too(registry: Registry, settings: Settings) -> None:
    before = {path for path in objects(settings) if path.endswith(".revocations.json")}
    revoke(settings, "name", "demo", level="warn", reason="", before=None, expires=None)
    clear(registry, KEPT + timedelta(minutes=5))
    after = {path for path in objects(settings) if path.endswith(".revocations.json")}
    assert len(after) == len(before)
    assert not before & after
    assert json.loads((settings.objects / "index" / "revocations.json").read_bytes())["entries"]
