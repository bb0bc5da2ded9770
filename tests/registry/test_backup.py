"""A registry comes back from a backup, anywhere, and its clients go on; a backup that is not whole is refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from plugreg_registry.__main__ import main
from plugreg_registry.blobs.s3 import S3Blobs
from plugreg_registry.jump import JUMP
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import upgrade
from plugreg_registry.metadata.rows import KEPT, read_tables
from plugreg_registry.settings import read_settings
from plugreg_schemas.documents import canonical_json
from tests.support.people import identity, person, publish
from tests.support.postgres import NEWEST
from tests.support.publisher import Author, Key, plugin
from tests.support.registries import RegistryProcess, registry_environment, running
from tests.support.s3 import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.commands import User
    from tests.support.postgres import PostgresServer
    from tests.support.s3 import S3Server


@dataclass(frozen=True)
class Done:
    """What became of a command."""

    returncode: int
    stdout: str
    stderr: str


def registry(*words: object, environment: Mapping[str, str] | None = None) -> Done:
    """Run `plugreg-registry` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with patch.dict(os.environ, environment or {}), redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Done(code, out.getvalue(), err.getvalue())


def say(*words: object, environment: Mapping[str, str] | None = None) -> Any:
    """Run a command that works, and return what it says as JSON."""
    done = registry(*words, "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(code: int, *words: object, environment: Mapping[str, str] | None = None) -> str:
    """Run a command that is refused, and return the message; nobody ever sees a traceback."""
    done = registry(*words, environment=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def objects(data: Path) -> dict[str, bytes]:
    top = data / "objects"
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def rows(data: Path, environment: Mapping[str, str] | None = None) -> dict[str, list[bytes]]:
    engine = open_database(read_settings(environment or {}, str(data)).database)
    try:
        return {name: [canonical_json(row) for row in found] for name, found in read_tables(engine)}
    finally:
        engine.dispose()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a registry with some plugins, stopped."""
    data = tmp_path_factory.mktemp("source") / "data"
    with running(data) as process:
        author = Author(process.url, process.id)
        for name in ("one", "two"):
            assert author.publish(plugin(name), name).status == 201
        assert author.publish(plugin("two", "1.1.0"), "two", "1.1.0").status == 201
        assert author.state("yank", "two", version="1.0.0", yanked=True, reason="old").status == 201
    return data


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and without a row."""
    file = tmp_path_factory.mktemp("tables") / "registry.sqlite3"
    upgrade(file)
    return file


@pytest.fixture
def place(tmp_path: Path, tables: Path) -> Callable[[str], Path]:
    """Makes a data folder in which there is no registry."""

    def make(name: str = "data") -> Path:
        (tmp_path / name).mkdir()
        shutil.copy(tables, tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture(scope="module")
def backup(source: Path) -> Path:
    folder = source.parent / "backup"
    say("backup", folder, "--data", source, "--keys")
    return folder


def test_a_restore_after_the_last_publish_is_the_same_byte_for_byte(
    source: Path, backup: Path, place: Callable[[], Path]
) -> None:
    data = place()
    assert say("restore", backup, "--data", data, "--unchanged")["unchanged"]
    named = objects(data)
    assert {
        "index/metadata/timestamp.json",
        "index/plugins/two.json",
        "index/metadata/1.root.json",
    } <= named.keys()
    assert named.items() <= objects(source).items()
    assert rows(data) == rows(source)
    with running(data):
        pass
    assert named.items() <= objects(data).items()


def test_a_backup_is_private_and_holds_no_offline_key(backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o700
    assert (backup / "keys").stat().st_mode & 0o777 == 0o700
    names = {path.name: path.stat().st_mode & 0o777 for path in (backup / "keys").iterdir()}
    assert names == dict.fromkeys(("index.pem", "revocations.pem", "snapshot.pem", "timestamp.pem"), 0o600)


def test_what_came_after_a_backup_is_listed_and_what_is_there_is_not_copied_again(
    source: Path, tmp_path: Path, place: Callable[[str], Path]
) -> None:
    data = tmp_path / "newer"
    shutil.copytree(source, data)
    folder = tmp_path / "backup"
    assert say("backup", folder, "--data", data)["new"] > 0
    assert say("backup", folder, "--data", data)["new"] == 0
    with running(data) as process:
        author = Author(process.url, process.id)
        assert author.publish(plugin("three"), "three").status == 201
    restore = ("restore", folder, "--keys", data / "keys", "--compare", data / "objects")
    said = say(*restore, "--data", place("older"))
    assert said["index"] > JUMP
    lost = {(row["plugin"], row["version"]) for row in said["gone"]}
    assert lost == {("three", "1.0.0"), ("three", "")}
    assert 0 < say("backup", folder, "--data", data)["new"] < 20
    said = say(*restore, "--data", place("same"))
    assert (said["unchanged"], said["gone"]) == (True, [])


def test_from_a_folder_to_postgresql_and_s3_and_back(
    source: Path,
    backup: Path,
    tmp_path: Path,
    place: Callable[[str], Path],
    postgres: Callable[[str], PostgresServer],
    s3: S3Server,
) -> None:
    server = postgres(NEWEST)
    bucket = s3.bucket()
    environment = {
        **s3.environment(bucket),
        "PLUGREG_REGISTRY_DATABASE": server.create(server.migrated).address,
    }
    there, again = tmp_path / "there", place("again")
    say("restore", backup, "--data", there, "--unchanged", environment=environment)
    assert rows(there, environment) == rows(source)
    with opened(bucket) as client:
        store = S3Blobs(client)
        found = {key: store.open(key).read() for folder in ("blobs", "index") for key in store.keys(folder)}
    assert found.items() <= objects(source).items()
    assert "holds a registry" in refused(
        2, "restore", backup, "--data", tmp_path / "x", "--unchanged", environment=environment
    )
    with running(there, environment=environment) as process:
        author = Author(process.url, process.id)
        assert author.publish(plugin("more"), "more").status == 201
        say("backup", tmp_path / "second", "--data", there, "--keys", environment=environment)
    say("restore", tmp_path / "second", "--data", again, "--unchanged")
    assert rows(again) == rows(there, environment)
    with running(again) as process:
        assert Author(process.url, process.id).document("more")["versions"]
        assert Author(process.url, process.id).document("two")["versions"]


def versions(user: User, *words: str) -> list[str]:
    return [row["version"] for row in user.run(*words)["installed"]]


def test_clients_go_on_after_a_restore_of_an_older_backup(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "backup"
    with running(data) as process:
        ann = person(tmp_path / "ann", process)
        bob = person(tmp_path / "bob", process, key=False)
        publish(ann, "still", "1.0.0")
        publish(ann, "moved", "1.0.0")
        say("backup", folder, "--data", data, "--keys")
        ann.run("key", "new", "spare")
        ann.run("owner", "add", "moved", identity(ann, "spare"), "--key", "default")
        publish(ann, "lost", "1.0.0", "--key", "default")
        bob.run("install", "still", "moved", "lost")
        port = process.port
    data.rename(tmp_path / "broken")
    say("restore", folder, "--data", data)
    back = RegistryProcess(data, port=port)
    back.start()
    try:
        assert versions(bob, "update", "still") == ["1.0.0"]
        assert bob.fails("update", "moved", code=4)["code"] == "history_forked"
        assert bob.fails("update", "lost", code=7)["code"] == "plugin_not_found"
        carl = person(tmp_path / "carl", back, key=False)
        assert versions(carl, "install", "moved") == ["1.0.0"]
        bob.run("owner", "resend", "moved")
        assert versions(bob, "update", "moved") == ["1.0.0"]
        publish(ann, "lost", "1.0.0", "--key", "default")
        assert versions(bob, "update", "lost") == ["1.0.0"]
        publish(ann, "still", "1.1.0", "--key", "default")
        assert versions(bob, "update", "still") == ["1.1.0"]
    finally:
        back.stop()


def a_file(backup: Path) -> Path:
    """The largest file of a backup."""
    found = (path for path in (backup / "content" / "files").rglob("*") if path.is_file())
    return max(found, key=lambda path: path.stat().st_size)


@pytest.fixture
def copy(backup: Path, tmp_path: Path) -> Path:
    """A backup that a test may spoil."""
    return shutil.copytree(backup, tmp_path / "copy")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [flip, lambda path: path.unlink()], ids=["a flipped bit", "a missing file"])
def test_a_backup_that_is_damaged_is_refused_before_anything_is_written(
    copy: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(a_file(copy))
    assert "the backup is damaged" in refused(4, "restore", copy, "--data", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_damaged_file_is_found_by_the_next_backup_and_written_anew(
    copy: Path, source: Path, place: Callable[[], Path]
) -> None:
    flip(a_file(copy))
    say("backup", copy, "--data", source)
    say("restore", copy, "--data", place())


def manifest(backup: Path, **changes: object) -> None:
    path = backup / "content" / "manifest.json"
    path.write_bytes(canonical_json({**json.loads(path.read_bytes()), **changes}))


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"revision": "9999"}, 2, "a newer plugreg"),
        ({"format": "plugreg-backup/2"}, 3, "manifest.json is not valid"),
        ({"tables": {}}, 3, "does not say which registry"),
    ],
    ids=["newer tables", "another format", "no tables"],
)
def test_a_backup_that_this_version_does_not_understand_is_refused(
    copy: Path, tmp_path: Path, changes: Mapping[str, object], code: int, words: str
) -> None:
    manifest(copy, **changes)
    assert words in refused(code, "restore", copy, "--data", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_what_is_no_backup_and_places_that_are_taken_are_refused(
    backup: Path, source: Path, tmp_path: Path, place: Callable[[str], Path]
) -> None:
    before = objects(source)
    assert "no finished backup" in refused(2, "restore", tmp_path, "--data", tmp_path / "data")
    assert "holds a registry" in refused(2, "restore", backup, "--data", source)
    assert objects(source) == before
    assert "something else than a backup" in refused(2, "backup", source, "--data", source)
    other = place("other")
    assert registry("init", "--data", other).returncode == 0
    assert "another registry" in refused(2, "backup", backup, "--data", other)
    (other / "registry.sqlite3").unlink()
    assert "not of this backup" in refused(2, "restore", backup, "--data", other)


def test_without_the_keys_only_an_unchanged_registry_comes_back(
    source: Path, tmp_path: Path, place: Callable[[str], Path]
) -> None:
    say("backup", tmp_path / "backup", "--data", source)
    assert not (tmp_path / "backup" / "keys").exists()
    said = refused(2, "restore", tmp_path / "backup", "--data", tmp_path / "data")
    assert "has not the keys" in said
    assert "--unchanged" in said
    say("restore", tmp_path / "backup", "--data", place("other"), "--unchanged")


def test_an_object_that_the_store_has_lost_is_named_and_the_rest_is_kept(
    source: Path, tmp_path: Path, place: Callable[[str], Path]
) -> None:
    data = shutil.copytree(source, tmp_path / "data")
    [blob, *_] = sorted((data / "objects/blobs/sha256").iterdir())
    flip(blob)
    done = registry("backup", tmp_path / "backup", "--data", data, "--keys")
    assert done.returncode == 4
    assert f"missing   blobs/sha256/{blob.name}\n" in done.stdout
    say("restore", tmp_path / "backup", "--data", place("back"))


def kill_when(path: Path, *words: object) -> None:
    """Run a command as a process, and end it as a power cut does once something is there."""
    command = [sys.executable, "-m", "plugreg_registry", *map(str, words)]
    process = subprocess.Popen(command, env=registry_environment(), stdout=subprocess.DEVNULL)
    while not any(path.rglob("*.json" if path.name == "objects" else "*")) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_killed_in_the_middle_a_backup_and_a_restore_are_simply_run_again(
    source: Path, backup: Path, tmp_path: Path, place: Callable[[], Path]
) -> None:
    folder, data = tmp_path / "backup", place()
    kill_when(folder / "content" / "files", "backup", folder, "--data", source)
    assert "no finished backup" in refused(2, "restore", folder, "--data", data)
    say("backup", folder, "--data", source)
    kill_when(data / "objects", "restore", backup, "--data", data)
    assert not rows(data)["registry"]
    say("restore", backup, "--data", data)
    assert rows(data) == rows(source)


def test_every_table_is_kept_or_made_again(source: Path) -> None:
    assert set(rows(source)) == set(KEPT)
    assert {"registry", "plugins", "statements", "releases", "audit", "tokens"} <= set(KEPT)


def test_bundles_that_a_removal_took_are_not_missed_even_when_it_is_lifted(tmp_path: Path) -> None:
    admin = Key()
    settings = {"PLUGREG_REGISTRY_ADMINS": f"key:{admin.id}"}
    with running(tmp_path / "data", environment=settings) as process:
        author = Author(process.url, process.id)
        assert author.publish(plugin("leaky"), "leaky").status == 201
        moderator = Author(process.url, process.id, admin)
        for state in ("removed", "active"):
            assert moderator.state("status", "leaky", state=state, reason="a secret").status == 201
            done = say("backup", tmp_path / state, "--data", tmp_path / "data")
            assert done["registry"] == process.id
        time.sleep(1.1)  # times are of one second
        assert author.publish(plugin("leaky", "1.1.0"), "leaky", "1.1.0").status == 201
    newest = max((tmp_path / "data/objects/blobs/sha256").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    assert "error: 1 objects are missing" in refused(
        4, "backup", tmp_path / "lost", "--data", tmp_path / "data"
    )
