"""The plugins root under several writers, full disks, odd file systems and things left behind."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from plugreg.inventory import list_installed, verify
from plugreg.plugins_root import PluginsRoot
from plugreg.plugins_root.durability import PAUSES_S, make_link, move
from plugreg.plugins_root.locking import Holder, held, patience_from
from plugreg.plugins_root.records import read_state
from plugreg_schemas.errors import NoSpace, NotAllowed, Temporary, UsageError
from plugreg_schemas.names import Digest
from tests.support.roots import Here, Job, Running, assert_settled, done

in_linux = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see that a process is stopped"
)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def job(here: Here, *words: str, **how: object) -> Job:
    return Job(here.root.path, here.offers.folder, words, **how)  # type: ignore[arg-type]


def wait_until_stopped(running: Running) -> None:
    """Return when the process is in the state `T` (proc(5))."""
    stat = Path(f"/proc/{running.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "T":
        os.sched_yield()


# --- several writers ---------------------------------------------------------------------------------------------


def test_t12_e3_eight_installs_of_one_plugin_at_once_make_one_tree(here: Here) -> None:
    here.publish()
    assert done(*[job(here, "install", "demo")] * 8) == ["done"] * 8
    assert here.listed() == {"demo": "1.0.0"}
    assert len(here.root.entries("demo")) == 1
    assert_settled(here.root)


def test_t12_e4_sixteen_installs_of_different_plugins_at_once_are_all_kept(here: Here) -> None:
    names = [f"plugin-{n:02}" for n in range(16)]
    here.publish()
    for name in names:
        here.offers.publish(here.author, name, "1.0.0")
    here.install("demo")
    assert done(*[job(here, "install", name) for name in names]) == ["done"] * 16
    assert sorted(here.listed()) == ["demo", *names]
    assert_settled(here.root)


@in_linux
def test_t12_e5_a_stopped_writer_is_waited_for_by_name_and_keeps_its_work(here: Here) -> None:
    here.publish()
    here.offers.publish(here.author, "second", "1.0.0")
    first = Running.start(job(here, "install", "demo", kind="stops"))
    wait_until_stopped(first)
    second = Running.start(job(here, "install", "second"))
    said = second.hear()[0]
    assert "waiting for" in said
    assert str(first.pid) in said
    assert list_installed(here.root).plugins == ()
    os.kill(first.pid, signal.SIGCONT)
    assert (first.last()[0], second.last()[0]) == ("done", "done")
    assert here.listed() == {"demo": "1.0.0", "second": "1.0.0"}
    assert_settled(here.root)


@in_linux
def test_e5_a_killed_writer_is_not_waited_for(here: Here) -> None:
    here.publish()
    first = Running.start(job(here, "install", "demo", kind="stops"))
    wait_until_stopped(first)
    first.process.kill()
    assert first.last()[0] == "killed"
    assert list(here.root.staging.iterdir())
    here.install()
    assert here.listed() == {"demo": "1.0.0"}
    assert_settled(here.root)


def test_e9_waiting_ends_with_the_holders_name_and_a_code_of_its_own(here: Here) -> None:
    here.publish()
    here.install()
    with held(here.root.lock, 0, here.said.append):
        here.root = PluginsRoot.at(here.root.path, patience=0.2)
        with pytest.raises(Temporary) as caught:
            here.update()
    assert caught.value.code == "root_locked"
    assert caught.value.details["pid"] == os.getpid()
    assert f"process {os.getpid()}" in caught.value.message
    assert "PLUGREG_LOCK_TIMEOUT" in caught.value.hint


def test_readers_never_wait_for_a_writer(here: Here) -> None:
    here.publish()
    here.install()
    with held(here.root.lock, 0, here.said.append):
        assert here.listed() == {"demo": "1.0.0"}
        verify(here.root).raise_if_any()


def test_readers_never_see_half_of_a_change(here: Here) -> None:
    for version in ("1.0.0", "1.1.0"):
        here.publish(version)
    here.install("demo@1.0.0")
    ended = threading.Event()
    seen: list[str] = []

    def look() -> None:
        while not ended.is_set():
            seen.extend(f"{row.version} {row.status}" for row in list_installed(here.root).plugins)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(8):
            here.install("demo@1.1.0")
            here.install("demo@1.0.0")
            here.uninstall()
            here.install("demo@1.0.0")
    finally:
        ended.set()
        reader.join()
    assert set(seen) <= {"1.0.0 active", "1.1.0 active"}


@pytest.mark.parametrize(("text", "seconds"), [("", 300.0), ("600", 600.0), ("0", 0.0)])
def test_the_patience_is_a_setting(text: str, seconds: float) -> None:
    assert patience_from({"PLUGREG_LOCK_TIMEOUT": text}, 300.0) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_patience_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="setting_invalid"):
        patience_from({"PLUGREG_LOCK_TIMEOUT": text}, 300.0)


# --- file systems without locks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EBADF, 524])
def test_e8_without_flock_a_file_stands_in_with_one_warning(
    here: Here, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def missing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", missing)
    mark = here.root.path / ".lock.held"
    here.publish()
    here.install()
    assert len(here.said) == 1
    assert "has no locks" in here.said[0]
    assert not mark.exists()
    with held(here.root.lock, 0, here.said.append):
        assert mark.exists()
        here.root = PluginsRoot.at(here.root.path, patience=0)
        with pytest.raises(Temporary, match="root_locked"):
            here.update()
    assert_settled(here.root)


@pytest.mark.parametrize(
    ("holder", "passed_over"),
    [
        pytest.param(Holder(2**22 + 1, os.uname().nodename, "1", "gone"), True, id="dead"),
        pytest.param(Holder(os.getpid(), os.uname().nodename, "1", "another"), True, id="number used again"),
        pytest.param(Holder(1, "another-machine", "1", "unknown"), False, id="another machine"),
        pytest.param(Holder.this(), False, id="alive"),
    ],
)
def test_e8_the_file_of_a_dead_writer_is_passed_over_and_of_no_other(
    here: Here, monkeypatch: pytest.MonkeyPatch, holder: Holder, passed_over: bool
) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)
    here.publish()
    here.install()
    here.publish("1.1.0")
    here.root = PluginsRoot.at(here.root.path, patience=0)
    mark = here.root.path / ".lock.held"
    mark.write_bytes(holder.encoded())
    if passed_over:
        here.update()
        assert here.listed() == {"demo": "1.1.0"}
        assert_settled(here.root)
    else:
        with pytest.raises(Temporary, match=r"another-machine|process") as caught:
            here.update()
        assert caught.value.details["pid"] == holder.pid
        assert mark.read_bytes() == holder.encoded()


# --- disks -------------------------------------------------------------------------------------------------------


def test_t13_e2_a_scanner_that_lets_go_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, waits = os.replace, list[float]()

    def held_back(source: Path, target: Path) -> None:
        if sum(waits) < 2:
            raise PermissionError(errno.EACCES, "Permission denied")
        real(source, target)

    monkeypatch.setattr(os, "replace", held_back)
    (tmp_path / "new").write_text("new")
    move(tmp_path / "new", tmp_path / "old", waits.append)
    assert (tmp_path / "old").read_text() == "new"
    assert sum(PAUSES_S) > 5


def test_t13_e2_a_file_that_is_never_let_go_is_named_and_the_old_version_stays(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.publish("1.0.0")
    here.install()
    here.publish("1.1.0")

    def held_back(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(source), None, str(target))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", held_back)
        patched.setattr(os, "rename", held_back)
        error = here.refused(here.update)
    assert (type(error), error.code) == (Temporary, "file_in_use")
    assert "scanner" in error.message
    assert here.listed() == {"demo": "1.0.0"}


def test_a_first_link_never_replaces_what_appeared_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "entry").write_text("theirs")
    with pytest.raises(FileExistsError):
        make_link(".store/demo/1.0.0-0123456789ab", tmp_path / "entry")
    assert (tmp_path / "entry").read_text() == "theirs"


def test_a_root_that_cannot_be_written_is_named(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.publish()

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(here.root.path))

    monkeypatch.setattr(os, "mkdir", read_only)
    with pytest.raises(NotAllowed) as caught:
        here.install()
    assert caught.value.code == "root_not_writable"
    assert str(here.root.path) in caught.value.message


def test_a_root_that_is_a_file_is_a_refusal(here: Here) -> None:
    here.publish()
    here.root.path.write_text("x")
    with pytest.raises(NotAllowed, match="root_damaged"):
        here.install()
    assert here.root.path.read_text() == "x"


def in_a_small_disk(here: Here, *commands: str) -> list[str]:
    """Run commands of the tests' own driver where the root is a file system of 2 MiB; return their lines."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("needs root and `unshare` to mount a tmpfs of 2 MiB")
    here.root.path.mkdir()
    driver = f"{sys.executable} -m tests.support.driver {here.root.path} {here.offers.folder}"
    script = "; ".join(
        [f"mount -t tmpfs -o size=2m tmpfs {here.root.path} || exit 77", *[f"{driver} {c}" for c in commands]]
    )
    done = subprocess.run(
        [unshare, "--mount", "sh", "-c", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("mounting a tmpfs is not permitted here")
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_t16_e7_a_full_disk_is_a_failure_and_the_old_version_stays(here: Here) -> None:
    here.publish("1.0.0", {"small": "x"})
    here.publish("2.0.0", {"big": os.urandom(5 << 20)})
    found = in_a_small_disk(
        here,
        "install demo@1.0.0",
        "install demo@2.0.0",
        "list",
        "verify",
        "settled",
        "uninstall demo",
        "list",
    )
    assert found == ["done", "NoSpace disk_full", "demo 1.0.0 active", "verified", "settled", "done"]


def test_t16_e7_a_disk_that_fills_up_while_unpacking_leaves_nothing(here: Here) -> None:
    four_letters = bytes(b"ACGT"[n % 4] for n in range(256))
    digest = here.publish("1.0.0", {"genes": os.urandom(4 << 20).translate(four_letters)})
    assert here.offers.blob(Digest(digest)).stat().st_size < 2 << 20
    assert in_a_small_disk(here, "install demo", "list", "settled") == ["NoSpace disk_full", "settled"]


def test_e7_a_full_disk_names_the_folder(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.publish()
    here.install()
    here.publish("1.1.0")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        error = here.refused(here.update)
    assert (type(error), error.code) == (NoSpace, "disk_full")
    assert str(here.root.path) in error.message


# --- what was left behind ----------------------------------------------------------------------------------------


def test_leftovers_of_every_kind_go_with_the_next_command(here: Here) -> None:
    here.publish()
    here.install()
    store = here.root.store / "demo"
    (here.root.staging / "dead" / "1" / "tree").mkdir(parents=True)
    (here.root.staging / "x.new").write_text("")
    (store / "9.9.9-0123456789ab").mkdir()
    (store / "9.9.9-0123456789ab.tar.zst").write_text("half")
    (store / "8.8.8-0123456789ab.facts.json").write_text("{}")
    (here.root.store / "never").mkdir()
    (here.root.store / "never" / "1.0.0-0123456789ab").mkdir()
    (here.root.states / "never.json").write_text("{}")
    here.update()
    assert here.listed() == {"demo": "1.0.0"}
    assert_settled(here.root)


@pytest.mark.parametrize("damage", ["gone", "unreadable", "stale"])
def test_the_record_of_an_installed_plugin_is_made_again_from_its_facts(here: Here, damage: str) -> None:
    here.publish()
    here.install("demo@^1.0")
    right = read_state(here.root, "demo")
    assert right
    path = here.root.state("demo")
    if damage == "gone":
        path.unlink()
    elif damage == "unreadable":
        path.write_text("{")
    else:
        path.write_text(json.dumps(right.model_dump() | {"digest": "sha256:" + "0" * 64, "range": "9"}))
    assert here.listed() == {"demo": "1.0.0"}
    verify(here.root).raise_if_any() if damage != "unreadable" else None
    here.offers.publish(here.author, "second", "1.0.0")
    here.install("second")
    assert read_state(here.root, "demo") == right


def test_b9_a_data_folder_that_is_gone_comes_back_private(here: Here) -> None:
    here.publish()
    here.install()
    here.root.data("demo").rmdir()
    here.update()
    assert here.root.data("demo").stat().st_mode & 0o777 == 0o700


def test_a_root_reached_through_a_link_gives_resolved_places(here: Here, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    here.root = PluginsRoot.at(tmp_path / "link")
    here.publish()
    (row,) = here.install().installed
    assert row.root.parents[2] == tmp_path / "real"
    assert row.data == tmp_path / "real" / ".data" / "demo"
