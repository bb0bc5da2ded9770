"""Uninstall: nothing is left but PLUGIN_DATA, and the data stays with whom it belongs to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from plugreg.inventory import list_installed
from plugreg.plugins_root.records import read_state
from plugreg_schemas.errors import IntegrityError, NotAllowed, NotAvailable
from tests.support.offers import Offers
from tests.support.roots import OURS, Here, assert_settled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Here:
    found = Here(tmp_path)
    found.publish()
    found.install()
    return found


def test_b3_nothing_is_left_but_the_data_which_is_named(here: Here) -> None:
    (here.root.data("demo") / "db").write_text("x")
    assert here.uninstall().as_dict() == {
        "uninstalled": [
            {"name": "demo", "version": "1.0.0", "data": str(here.root.data("demo")), "purged": None}
        ],
        "notes": [],
    }
    assert {entry.name for entry in here.root.path.iterdir()} == OURS
    assert list(here.root.store.iterdir()) == [here.root.staging]
    assert [path.name for path in here.root.all_data.rglob("*")] == ["demo", "db"]
    assert_settled(here.root)


def test_a_purge_names_what_it_deletes_and_leaves_nothing(here: Here) -> None:
    (here.root.data("demo") / "deep").mkdir(mode=0o500)
    (row,) = here.uninstall(purge_data=True).uninstalled
    assert row.purged == here.root.data("demo")
    left = [path for path in here.root.path.rglob("*") if path.is_file() or path.parent == here.root.all_data]
    assert left == [here.root.lock]


def test_data_kept_by_an_uninstall_can_be_purged_later(here: Here) -> None:
    here.uninstall()
    (row,) = here.uninstall(purge_data=True).uninstalled
    assert (row.version, row.purged) == ("", here.root.data("demo"))
    assert not here.root.state("demo").exists()


def test_a_data_folder_that_is_a_link_loses_the_link_only(here: Here, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    here.root.data("demo").rename(disk)
    (disk / "db").write_text("x")
    here.root.data("demo").symlink_to(disk)
    here.uninstall(purge_data=True)
    assert (disk / "db").read_text() == "x"
    assert not os.path.lexists(here.root.data("demo"))


def test_what_is_not_installed_cannot_be_uninstalled(here: Here) -> None:
    error = here.refused(here.uninstall, "nothing")
    assert (type(error), error.code) == (NotAvailable, "not_installed")
    here.uninstall()
    error = here.refused(here.uninstall)
    assert str(here.root.data("demo")) in error.hint


def test_nothing_is_uninstalled_unless_all_can_be(here: Here) -> None:
    here.refused(here.uninstall, "demo", "nothing")
    assert here.listed() == {"demo": "1.0.0"}


def test_an_uninstall_in_a_root_that_does_not_exist_makes_none(tmp_path: Path) -> None:
    here = Here(tmp_path)
    with pytest.raises(NotAvailable):
        here.uninstall()
    assert not here.root.path.exists()
    assert list_installed(here.root).plugins == ()


@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_c11_permissions_that_a_plugin_took_from_its_tree_are_no_obstacle(here: Here, mode: int) -> None:
    (here.tree() / "locked").mkdir()
    (here.tree() / "locked" / "file").write_text("x")
    (here.tree() / "locked").chmod(mode)
    here.uninstall()
    assert_settled(here.root)


def test_a_damaged_plugin_can_be_uninstalled(here: Here) -> None:
    entry = here.root.active("demo")
    assert entry
    entry.facts.write_text("{")
    here.root.state("demo").write_text("{")
    here.uninstall()
    assert here.listed() == {}


def test_b2_the_pin_outlives_the_plugin_as_long_as_its_data(here: Here) -> None:
    here.uninstall()
    state = read_state(here.root, "demo")
    assert state
    assert (state.digest, state.pin.signer) == ("", here.author.signer.words)
    here.install()
    assert here.listed() == {"demo": "1.0.0"}


def test_data_of_another_signer_is_refused_until_it_is_purged(here: Here) -> None:
    here.uninstall()
    here.offers.forget("demo")
    here.offers.publish(here.stranger, "demo", "2.0.0")
    error = here.refused(here.install)
    assert (type(error), error.code) == (NotAllowed, "data_belongs_to_other_signer")
    assert here.author.signer.words in error.message
    assert here.stranger.signer.words in error.message
    here.uninstall(purge_data=True)
    here.install()
    assert here.listed() == {"demo": "2.0.0"}


def test_data_of_another_signer_is_handed_over_by_naming_the_new_one(here: Here) -> None:
    (here.root.data("demo") / "db").write_text("x")
    here.uninstall()
    here.offers.forget("demo")
    here.offers.publish(here.stranger, "demo", "2.0.0")
    here.install(accept_signer=here.stranger.signer.words)
    assert here.listed() == {"demo": "2.0.0"}
    assert (here.root.data("demo") / "db").read_text() == "x"


def test_data_of_another_registry_is_refused(here: Here, tmp_path: Path) -> None:
    second = Offers.create(tmp_path / "second", "second")
    second.publish(here.author, "demo", "1.0.0")
    here.uninstall()
    error = here.refused(here.install, registries=[second])
    assert (type(error), error.code) == (NotAllowed, "data_belongs_to_other_signer")
    assert second.ref.id in error.message
    here.install(registries=[second], accept_registry=second.ref.id)
    assert here.listed() == {"demo": "1.0.0"}


def test_data_whose_pin_is_unreadable_goes_to_nobody(here: Here) -> None:
    here.uninstall()
    here.root.state("demo").write_text("{")
    error = here.refused(here.install)
    assert (type(error), error.code) == (IntegrityError, "state_damaged")
    assert "--purge-data" in error.hint
    here.uninstall(purge_data=True)
    here.install()
    assert here.listed() == {"demo": "1.0.0"}
