"""Whoever serves the index shows an old state, stops time, or mixes states: refused, by HTTP and as a folder.

The attacker of the first tests can write to the bucket. Where the name says so, he holds a key as well.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tuf.api.metadata import MetaFile

from plugreg_schemas.index import metadata_key
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from tests.support.attacked import Scene

ROLLED_BACK = "index_rolled_back"
MIXED = {"index_mismatch", "index_rolled_back"}
TIMESTAMP = metadata_key("timestamp")


# --- rollback --------------------------------------------------------------------------------------------------------


def test_rollback_of_the_whole_state(scene: Scene) -> None:
    old = scene.index.objects()
    scene.publish("1.1.0")
    scene.run("update")
    scene.index.store = old
    scene.refused("update", exits=4, codes=ROLLED_BACK)
    assert scene.person.installed() == {"demo": "1.1.0"}


def test_rollback_of_the_timestamp(scene: Scene) -> None:
    old = scene.index.objects()
    scene.publish("1.1.0")
    scene.run("update")
    scene.index.store[TIMESTAMP] = old[TIMESTAMP]
    scene.refused("update", exits=4, codes=ROLLED_BACK)


def test_rollback_of_the_snapshot_with_the_key_of_the_timestamp(scene: Scene) -> None:
    old = scene.index.signed["timestamp"].snapshot_meta
    scene.publish("1.1.0")
    scene.run("update")
    scene.index.signed["timestamp"].snapshot_meta = old
    scene.index.put("timestamp")
    scene.refused("update", exits=4, codes=ROLLED_BACK)


@pytest.mark.parametrize("role", ["the bin", "index", "revocations", "targets"])
def test_rollback_of_a_role_with_the_keys_of_snapshot_and_timestamp(scene: Scene, role: str) -> None:
    """Signing states is not signing their parts: no part gets older."""
    role = scene.index.bin_of("demo") if role == "the bin" else role
    old = scene.index.signed[role].version
    scene.index.put(role)
    scene.publish("1.1.0")
    scene.run("update")
    scene.index.signed["snapshot"].meta[f"{role}.json"] = MetaFile(old)
    scene.index.seal()
    scene.refused("update", exits=4, codes=ROLLED_BACK)


@pytest.mark.parametrize("roles", [("timestamp",), ("snapshot", "timestamp")], ids=" ".join)
def test_rollback_of_the_root_to_keys_that_were_revoked(scene: Scene, roles: tuple[str, ...]) -> None:
    """The root that revoked them is hidden. A machine that has seen it stays with it."""
    old, named = scene.index.objects(), scene.index.signed["timestamp"].snapshot_meta
    stolen = {role: scene.index.keys[role] for role in roles}
    scene.index.rotate(*roles)
    scene.publish("1.1.0")
    scene.run("update")
    scene.index.store = old
    scene.index.sign_with |= stolen
    scene.index.signed["timestamp"].snapshot_meta = named
    for _ in range(5):
        scene.index.put("timestamp")
    scene.refused("update", exits=4, codes={"index_forged", ROLLED_BACK, "root_changed"})


def test_a_name_that_the_index_drops_is_gone_for_newcomers_and_pinned_people(scene: Scene) -> None:
    """The mutable copy of the document still lies there: it proves nothing."""
    document = scene.index.documents.pop("demo")
    scene.index.publish()
    assert scene.index.store["index/plugins/demo.json"] == document
    scene.refused("install", "demo", exits=7, codes="plugin_not_found", person=scene.newcomer())
    scene.refused("update", exits=7, codes="plugin_not_found")


def test_snapshot_that_loses_a_bin(scene: Scene) -> None:
    scene.index.signed["snapshot"].meta.pop(f"{scene.index.bin_of('demo')}.json")
    scene.index.seal()
    scene.refused("update", exits=4, codes={ROLLED_BACK, "index_forged", "index_invalid"})
    scene.refused(
        "install", "demo", exits=4, codes={"index_forged", "index_invalid"}, person=scene.newcomer()
    )


def test_snapshot_that_loses_a_bin_that_nobody_asked_for(scene: Scene) -> None:
    asked = scene.index.bin_of("demo")
    other = next(role for role in scene.index.bins() if role != asked)
    scene.index.signed["snapshot"].meta.pop(f"{other}.json")
    scene.index.seal()
    scene.refused("update", exits=4)


# --- freeze ----------------------------------------------------------------------------------------------------------


def test_freeze(online: Scene) -> None:
    """The newest timestamp is too old: the sentence names when it ended, and what this machine's clock says."""
    online.index.lifetimes["timestamp"] = timedelta(days=-1)
    online.publish("1.1.0")
    said = online.refused("update", exits=7, codes="index_expired")
    ended = datetime.now(UTC) - timedelta(days=1)
    assert f"{ended:%Y-%m-%d}" in said
    assert f"{datetime.now(UTC):%Y-%m-%d}" in said
    online.refused("install", "demo", exits=7, codes="index_expired", person=online.newcomer())


@pytest.mark.parametrize("role", ["snapshot", "targets", "index", "the bin"])
def test_freeze_of_a_role_under_a_fresh_timestamp(online: Scene, role: str) -> None:
    role = online.index.bin_of("demo") if role == "the bin" else role
    online.index.lifetimes["bin" if role.startswith("bin-") else role] = timedelta(days=-1)
    online.offers.publish(online.author, "demo", "1.1.0")
    online.index.take(online.offers)
    online.index.put(role)
    online.index.seal()
    online.refused("update", exits=7, codes="index_expired")
    online.refused("install", "demo", exits=7, codes="index_expired", person=online.newcomer())


def test_expired_root(scene: Scene) -> None:
    """The root is signed offline: it does not expire because nobody was online."""
    scene.index.lifetimes["root"] = timedelta(days=-1)
    scene.index.next_root()
    scene.refused("update", exits=7, codes="index_expired")
    scene.refused("install", "demo", exits=7, codes="index_expired", person=scene.newcomer())


# --- mix-and-match ---------------------------------------------------------------------------------------------------


def test_bin_of_another_state(scene: Scene) -> None:
    role = scene.index.bin_of("demo")
    old = scene.index.store[scene.index.current(role)]
    scene.publish("1.1.0")
    scene.index.store[scene.index.current(role)] = old
    scene.refused("update", exits=4, codes=MIXED)
    scene.refused("install", "demo", exits=4, codes=MIXED, person=scene.newcomer())


def test_bin_of_a_later_state(scene: Scene) -> None:
    """A state is one state: what belongs to the next one is not shown in this one."""
    now = scene.index.objects()
    role = scene.index.bin_of("demo")
    place = scene.index.current(role)
    scene.publish("1.1.0")
    later = scene.index.store[scene.index.current(role)]
    scene.index.store |= now | {place: later}
    scene.refused("install", "demo", exits=4, codes=MIXED, person=scene.newcomer())


def test_snapshot_of_another_state(scene: Scene) -> None:
    old = scene.index.store[scene.index.current("snapshot")]
    scene.publish("1.1.0")
    scene.index.store[scene.index.current("snapshot")] = old
    scene.refused("update", exits=4, codes=MIXED)
    scene.refused("install", "demo", exits=4, codes=MIXED, person=scene.newcomer())


@pytest.mark.parametrize("role", ["targets", "revocations", "index"])
def test_role_of_another_registry_of_the_same_operator(scene: Scene, role: str) -> None:
    """The same keys sign two registries: a role of one is no role of the other, if its version differs."""
    twin = TufRepository("urn:uuid:00000000-0000-4000-8000-00000000000f")
    twin.keys = scene.index.keys
    for _ in range(4):
        twin.put(role)
    scene.publish("1.1.0")
    scene.index.put(role)
    scene.index.seal()
    scene.index.store[scene.index.current(role)] = twin.store[twin.current(role)]
    scene.refused("update", exits=4, codes=MIXED)


def test_trust_document_of_another_registry_of_the_same_operator(scene: Scene) -> None:
    """The offline key signs two registries, and the trust target of one is served in the other."""
    twin = TufRepository("urn:uuid:00000000-0000-4000-8000-00000000000f")
    scene.index.registry = twin.registry
    scene.index.publish()
    scene.refused("update", exits=4, codes={"index_invalid", "registry_changed", "registry_mismatch"})


def test_bins_that_change_places_hide_and_do_not_mislead(scene: Scene) -> None:
    """Bins of one version have one signer and no name inside. A swap makes a name missing, never another."""
    scene.publish("1.0.0", "other")
    mine, theirs = (scene.index.current(scene.index.bin_of(name)) for name in ("demo", "other"))
    assert mine != theirs
    store = scene.index.store
    store[mine], store[theirs] = store[theirs], store[mine]
    scene.refused("install", "demo", exits=7, codes="plugin_not_found", person=scene.newcomer())


def test_fast_forward_is_no_way_back(scene: Scene) -> None:
    """Whoever held the online keys for a day raised all versions. New keys in a new root start again."""
    for role in ("snapshot", "timestamp"):
        scene.index.signed[role].version += 1_000_000
    scene.index.seal()
    scene.run("install", "demo")
    for role in ("snapshot", "timestamp"):
        scene.index.signed[role].version -= 1_000_000
    scene.index.seal()
    scene.refused("update", exits=4, codes=ROLLED_BACK)
    scene.publish("1.1.0", "demo")
    scene.index.rotate("snapshot", "timestamp")
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.1.0"}
