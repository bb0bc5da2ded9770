"""Something else stands where a file of plugreg belongs: a pipe, a device, a folder, a link, nonsense.

No command waits, fills its memory or fails with a traceback; one damaged plugin does not take another with it;
and nothing outside of plugreg's own folders is ever removed.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from plugreg import config, signing
from plugreg.inventory import verify
from plugreg.own_files import MAX_SMALL, WrongKindError, open_regular, read_small
from plugreg.plugins_root import PluginsRoot
from plugreg.plugins_root.locking import Holder
from plugreg.registries import Registries
from plugreg_schemas.errors import Conflict, IntegrityError, InvalidInput, NotAllowed, UsageError
from tests.support.roots import Here, assert_settled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    made.publish()
    made.install()
    return made


def verdict(here: Here) -> str:
    (found,) = verify(here.root, ["demo"]).plugins
    return found.verdict


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def pipe(path: Path) -> None:
    clear(path)
    os.mkfifo(path)


def folder(path: Path) -> None:
    clear(path)
    path.mkdir()
    (path / "inside").write_text("x")


def device(path: Path) -> None:
    clear(path)
    path.symlink_to("/dev/zero")


def endless_link(path: Path) -> None:
    clear(path)
    path.symlink_to(path.name)


def too_large(path: Path) -> None:
    clear(path)
    with path.open("wb") as file:
        file.truncate(MAX_SMALL + 1)


def deep(path: Path) -> None:
    clear(path)
    path.write_bytes(b"[" * 100_000)


IN_THE_WAY = [pipe, folder, device, endless_link, too_large, deep]
in_the_way = pytest.mark.parametrize("put", IN_THE_WAY)


@in_the_way
def test_in_the_place_of_a_record(here: Here, put: Callable[[Path], None]) -> None:
    put(here.root.state("demo"))
    assert here.listed() == {"demo": "1.0.0"}
    here.update()
    assert_settled(here.root)


@in_the_way
def test_in_the_place_of_the_record_of_what_is_uninstalled(here: Here, put: Callable[[Path], None]) -> None:
    here.uninstall()
    put(here.root.state("demo"))
    with pytest.raises(IntegrityError, match="state_damaged"):
        here.install()
    here.uninstall(purge_data=True)
    assert not os.path.lexists(here.root.state("demo"))
    here.install()
    assert_settled(here.root)


@in_the_way
@pytest.mark.parametrize("part", ["facts", "bundle", "attestation", "tree"])
def test_in_the_place_of_a_part_of_a_release(here: Here, part: str, put: Callable[[Path], None]) -> None:
    entry = here.root.active("demo")
    assert entry is not None
    put(getattr(entry, part))
    assert verdict(here) != "verified"
    here.uninstall()
    here.install()
    assert_settled(here.root)


@in_the_way
def test_in_the_place_of_the_lock(here: Here, put: Callable[[Path], None]) -> None:
    put(here.root.lock)
    if put in {too_large, deep}:
        here.update()  # what stands in it is not read by its holder
    else:
        with pytest.raises(NotAllowed, match="root_damaged"):
            here.update()


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"pid": "1", "host": "h", "started": "", "command": "c"}',
        b'{"pid": true, "host": "h", "started": "", "command": "c"}',
        b'{"pid": 1, "host": 5, "started": "", "command": "c"}',
        b'{"pid": 1, "host": "h", "started": "", "command": ["c"]}',
    ],
)
def test_a_lock_file_that_names_nobody(content: bytes) -> None:
    assert Holder.read(content) is None


def test_a_lock_file_that_names_a_process_that_cannot_be() -> None:
    this = Holder.this()
    for pid in (-1, 0, 2**31, 2**70):
        assert Holder(pid, this.host, "", "c").is_gone()


@in_the_way
def test_in_the_place_of_settings(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "config.toml")
    environ = {"PLUGREG_HOME": str(tmp_path)}
    with pytest.raises(UsageError, match="config_invalid"):
        config.load(environ, folder=tmp_path)


@in_the_way
def test_in_the_place_of_the_known_registries(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "registries.json")
    known = Registries(config.Config(tmp_path, tmp_path / "root")).known
    with pytest.raises(InvalidInput, match="registries_invalid"):
        known()


@in_the_way
def test_in_the_place_of_a_public_key(tmp_path: Path, put: Callable[[Path], None]) -> None:
    """One damaged key does not keep the others from being listed."""
    signing.new_key(tmp_path, "good")
    signing.new_key(tmp_path, "bad")
    put(tmp_path / "bad.pub")
    identities = {name: signing.key_identity(tmp_path, name) for name in signing.key_names(tmp_path)}
    assert identities["bad"] == ""
    assert identities["good"].startswith("key:sha256:")


def test_a_key_that_cannot_be_written_whole_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            signing.new_key(tmp_path)
    assert list(tmp_path.iterdir()) == []
    signing.new_key(tmp_path)
    with pytest.raises(Conflict, match="key_exists"):
        signing.new_key(tmp_path)


@pytest.mark.parametrize("place", [".store/other", ".store/.staging", ".store", ".state"])
def test_a_link_in_the_root_to_somebodys_files(here: Here, tmp_path: Path, place: str) -> None:
    """Whatever a link in the root leads to is left alone: nothing is tidied, healed or removed there."""
    precious = tmp_path / "precious"
    (precious / "sub").mkdir(parents=True)
    for name in ("letter", "sub/photo", "other.json", "1.0.0-0123456789ab"):
        (precious / name).write_text("keep")
    before = sorted(str(path.relative_to(precious)) for path in precious.rglob("*"))
    path = here.root.path / place
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(precious)
    for work in (here.update, here.install, here.uninstall):
        if place == ".store/other":
            work()
        else:
            with pytest.raises(NotAllowed, match="not_ours"):
                work()
    assert sorted(str(path.relative_to(precious)) for path in precious.rglob("*")) == before


def test_a_link_in_the_place_of_a_plugins_store(here: Here, tmp_path: Path) -> None:
    here.uninstall()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letter").write_text("keep")
    (here.root.store / "demo").symlink_to(precious)
    with pytest.raises(NotAllowed, match="not_ours"):
        here.install()
    assert [path.name for path in precious.iterdir()] == ["letter"]


def test_the_tree_is_swapped_for_a_link_to_equal_files(here: Here, tmp_path: Path) -> None:
    """Files that can be changed later, outside of the store, are not the installed ones."""
    tree = here.tree()
    tree.rename(tmp_path / "elsewhere")
    tree.symlink_to(tmp_path / "elsewhere")
    assert verdict(here) == "invalid"
    here.install()
    assert not tree.is_symlink()
    assert_settled(here.root)


def test_a_root_that_is_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert PluginsRoot.at(tmp_path / "loop").path == tmp_path / "loop"


def test_writing_over_a_device_leaves_the_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        with pytest.raises(NotAllowed, match="not_a_file"):
            config.write_atomically(place, b"x")


def test_settings_that_are_kept_elsewhere_stay_there(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    config.write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_reading_never_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (open_regular, read_small):
        with pytest.raises(WrongKindError):
            read(tmp_path / "pipe")


@pytest.mark.parametrize("plant", ["file", "dangling"])
def test_data_that_is_no_folder_stops_an_install_before_anything_is_active(
    tmp_path: Path, plant: str
) -> None:
    new = Here(tmp_path / "new")
    new.publish()
    data = new.root.data("demo")
    data.parent.mkdir(parents=True)
    if plant == "file":
        data.write_text("mine")
    else:
        data.symlink_to("nowhere")
    error = new.refused(new.install)
    assert error.code == "root_damaged"
    assert "demo" in error.message
    assert not new.root.link("demo").exists()
