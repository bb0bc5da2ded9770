"""Update: within the range of the install, never to another signer, and PLUGIN_DATA as it was."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from plugreg.inventory import list_installed, verify
from plugreg.plugins_root.records import read_state
from plugreg_schemas.errors import IntegrityError, NotAllowed, NotAvailable
from plugreg_schemas.names import Digest
from tests.support import hostile_bundles as hostile
from tests.support.offers import Offers
from tests.support.roots import Here, assert_settled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_t04_b1_plugin_data_keeps_its_bytes_and_time_through_everything_but_a_purge(here: Here) -> None:
    here.publish("1.0.0")
    here.install()
    database = here.root.data("demo") / "db"
    database.write_bytes(os.urandom(1 << 20))
    before = (Digest.of(database.read_bytes()), database.stat().st_mtime_ns, database.stat().st_ino)

    def now() -> tuple[Digest, int, int]:
        return (Digest.of(database.read_bytes()), database.stat().st_mtime_ns, database.stat().st_ino)

    for version in ("1.1.0", "1.2.0"):
        here.publish(version)
        assert here.update("demo").installed[0].facts.version == version
        assert now() == before
    here.install("demo@1.0.0")
    assert now() == before
    assert here.uninstall().uninstalled[0].data == here.root.data("demo")
    assert now() == before
    here.install("demo")
    assert now() == before
    (row,) = here.uninstall(purge_data=True).uninstalled
    assert (row.purged, row.data) == (here.root.data("demo"), None)
    assert not here.root.data("demo").exists()
    assert_settled(here.root)


def test_a2_update_asks_the_registry_every_time(here: Here) -> None:
    here.publish("1.0.0")
    here.install()
    assert here.update().installed[0].change == "unchanged"
    here.publish("1.1.0")
    (row,) = here.update().installed
    assert (row.change, row.previous, row.facts.version) == ("updated", "1.0.0", "1.1.0")


@pytest.mark.parametrize(
    ("asked", "offered", "expected"),
    [
        ("demo@^1.0", "1.9.0", "1.9.0"),
        ("demo@^1.0", "2.0.0", "1.0.0"),
        ("demo@~1.0.0", "1.0.7", "1.0.7"),
        ("demo@~1.0.0", "1.1.0", "1.0.0"),
        ("demo@1.0.0", "1.0.1", "1.0.0"),
        ("demo", "2.0.0", "2.0.0"),
    ],
)
def test_update_keeps_the_range_given_at_install(here: Here, asked: str, offered: str, expected: str) -> None:
    here.publish("1.0.0")
    here.install(asked)
    here.publish(offered)
    for _ in range(2):
        here.update()
        assert here.listed() == {"demo": expected}


def test_a_new_range_replaces_the_old_one_also_where_the_version_stays(here: Here) -> None:
    here.publish("1.0.0")
    here.install("demo@1.0.0")
    assert here.install("demo@^1.0").installed[0].change == "unchanged"
    here.publish("1.3.0")
    here.update()
    assert here.listed() == {"demo": "1.3.0"}


def test_update_without_names_takes_all_and_with_names_those(here: Here) -> None:
    for name in ("one", "two"):
        here.offers.publish(here.author, name, "1.0.0")
    here.install("one", "two")
    for name in ("one", "two"):
        here.offers.publish(here.author, name, "1.1.0")
    here.update("two")
    assert here.listed() == {"one": "1.0.0", "two": "1.1.0"}
    assert [row.facts.name for row in here.update().installed] == ["one", "two"]
    assert here.listed() == {"one": "1.1.0", "two": "1.1.0"}


def test_what_is_not_installed_cannot_be_updated(here: Here) -> None:
    here.publish()
    here.install()
    error = here.refused(here.update, "demo", "nothing")
    assert (type(error), error.code) == (NotAvailable, "not_installed")


def test_a_version_that_the_registry_takes_away_is_not_silently_replaced_by_an_older_one(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    here.install()
    here.offers.alter("demo", lambda document: document["versions"].pop())
    assert here.refused(here.update).code == "version_withheld"


# --- old versions ------------------------------------------------------------------------------------------------


def test_a7_the_tree_that_a_running_server_uses_survives_the_update(here: Here) -> None:
    here.publish("1.0.0")
    here.install()
    used = here.tree()
    here.publish("1.1.0")
    here.update()
    assert here.tree() != used
    assert (used / "v.txt").read_text() == "1.0.0"


def test_only_the_newest_old_version_is_kept(here: Here) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0", "1.3.0"):
        here.publish(version)
        here.install(f"demo@{version}")
        assert_settled(here.root)
    assert [entry.version for entry in here.root.entries("demo")] == ["1.2.0", "1.3.0"]


def test_e12_an_old_tree_that_cannot_be_removed_is_a_note_and_goes_later(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        here.publish(version)
    here.install("demo@1.0.0")
    here.install("demo@1.1.0")

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", busy)
        result = here.install("demo@1.2.0")
    assert here.listed() == {"demo": "1.2.0"}
    assert any("cannot be removed yet" in note for note in result.notes)
    verify(here.root).raise_if_any()
    here.update()
    assert_settled(here.root)


# --- failures leave the old version ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["hostile", "altered", "missing-file"])
def test_a3_a9_a_failed_update_leaves_the_old_version_recorded_and_verified(here: Here, fault: str) -> None:
    here.publish("1.0.0")
    here.install()
    if fault == "hostile":
        here.offers.publish_bundle(here.author, "demo", "1.1.0", hostile.bundle(hostile.raw("../x", b"out")))
    else:
        blob = here.offers.blob(Digest(here.publish("1.1.0")))
        blob.write_bytes(blob.read_bytes()[:-9] if fault == "missing-file" else b"x" * 100)
    here.refused(here.update)
    assert here.listed() == {"demo": "1.0.0"}
    verify(here.root).raise_if_any()
    state = read_state(here.root, "demo")
    assert state
    assert state.version == "1.0.0"


# --- whose it is -------------------------------------------------------------------------------------------------


def test_a_new_owner_named_by_the_old_one_is_no_silent_change(here: Here) -> None:
    here.publish("1.0.0")
    here.install()
    here.offers.change_owners(here.author, "demo", add=[here.stranger])
    here.offers.change_owners(here.stranger, "demo", remove=[here.author])
    here.offers.publish(here.stranger, "demo", "1.1.0")
    here.update()
    (row,) = list_installed(here.root).plugins
    assert row.facts
    assert row.facts.signer.words == here.stranger.signer.words
    state = read_state(here.root, "demo")
    assert state
    assert state.pin.signer == here.stranger.signer.words
    assert_settled(here.root)


def test_a_stranger_who_took_the_name_is_another_signer(here: Here) -> None:
    here.publish("1.0.0")
    here.install()
    here.offers.forget("demo")
    here.offers.publish(here.stranger, "demo", "1.1.0")
    for operation in (here.update, here.install):
        error = here.refused(operation)
        assert (type(error), error.code) == (NotAllowed, "signer_changed")
        assert here.author.signer.words in error.message
        assert here.stranger.signer.words in error.message


@pytest.mark.parametrize("who", ["author", "nobody"])
def test_accept_signer_accepts_exactly_the_one_it_names(here: Here, who: str) -> None:
    here.publish("1.0.0")
    here.install()
    here.offers.forget("demo")
    here.offers.publish(here.stranger, "demo", "1.1.0")
    wrong = here.author.signer.words if who == "author" else "key:sha256:" + "0" * 64
    assert here.refused(here.update, accept_signer=wrong).code == "signer_changed"
    here.update(accept_signer=here.stranger.signer.words)
    assert here.listed() == {"demo": "1.1.0"}
    here.offers.publish(here.stranger, "demo", "1.2.0")
    here.update()
    assert here.listed() == {"demo": "1.2.0"}


def test_a_history_without_a_statement_seen_before_is_forked_whatever_is_accepted(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    before = here.offers.document("demo")
    here.offers.yank(here.author, "demo", "1.1.0")
    here.install()
    assert here.listed() == {"demo": "1.0.0"}
    (here.offers.folder / "plugins" / "demo.json").write_bytes(before)
    for accepted in ("", here.author.signer.words):
        error = here.refused(here.update, accept_signer=accepted)
        assert (type(error), error.code) == (IntegrityError, "history_forked")


def test_a_head_seen_without_a_change_is_remembered(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    here.install()
    before = here.offers.document("demo")
    here.offers.yank(here.author, "demo", "1.0.0")
    assert here.update().installed[0].change == "unchanged"
    (here.offers.folder / "plugins" / "demo.json").write_bytes(before)
    assert here.refused(here.update).code == "history_forked"


def test_another_registry_is_accepted_only_by_its_id(here: Here, tmp_path: Path) -> None:
    second = Offers.create(tmp_path / "second", "second")
    here.publish("1.0.0")
    here.install()
    second.publish(here.author, "demo", "1.1.0")
    both = [here.offers, second]
    assert here.refused(here.update, registries=[second]).code == "registry_changed"
    assert (
        here.refused(here.update, registries=[second], accept_registry=here.offers.ref.id).code
        == "registry_changed"
    )
    here.update(registries=both, accept_registry=second.ref.id)
    assert here.listed() == {"demo": "1.1.0"}
    state = read_state(here.root, "demo")
    assert state
    assert state.pin.registry == second.ref.id


def test_another_registry_and_another_signer_need_both_to_be_accepted(here: Here, tmp_path: Path) -> None:
    second = Offers.create(tmp_path / "second", "second")
    here.publish("1.0.0")
    here.install()
    second.publish(here.stranger, "demo", "1.1.0")
    registry, signer = second.ref.id, here.stranger.signer.words
    assert here.refused(here.update, registries=[second], accept_signer=signer).code == "registry_changed"
    assert here.refused(here.update, registries=[second], accept_registry=registry).code == "signer_changed"
    here.update(registries=[second], accept_registry=registry, accept_signer=signer)
    assert here.listed() == {"demo": "1.1.0"}
