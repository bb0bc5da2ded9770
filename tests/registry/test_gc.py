"""What nothing names goes; what a publish needs stays, however the two meet."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import pytest

from plugreg_registry.app import compose, prepare
from plugreg_registry.blobs.filesystem import FilesystemBlobs
from plugreg_registry.garbage import Garbage
from plugreg_registry.keeping import collect
from plugreg_registry.leftovers import KEPT, Clearing
from plugreg_registry.metadata.migrate import upgrade
from plugreg_registry.ports import Over, attestation_key, blob_key
from plugreg_registry.settings import read_settings
from plugreg_schemas.index import metadata_key
from plugreg_schemas.names import Digest
from tests.registry.test_killed import publish
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import registry_environment, running
from tests.support.s3 import credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.ports import Source
    from plugreg_registry.settings import Settings
    from tests.support.s3 import S3Server

DAY = timedelta(hours=24)
SHORT = timedelta(seconds=2)
"""A grace for tests: much longer than a publish takes from its objects to its record."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({}, str(tmp_path / "data"))


@pytest.fixture
def registry(settings: Settings) -> Iterator[Registry]:
    settings.data.mkdir()
    upgrade(settings.database)
    prepare(settings)
    registry = compose(settings)
    yield registry
    registry.close()


def garbage(registry: Registry, settings: Settings, grace: timedelta = DAY) -> Garbage:
    before = registry.index.now() - grace
    return Garbage(registry.index, registry.store.inventory, settings.uploads, before)


def leave(registry: Registry, content: bytes = b"nobody's") -> str:
    key = blob_key(Digest.of(content))
    registry.blobs.put(key, io.BytesIO(content))
    return key


def age(settings: Settings, *keys: str) -> None:
    """Let objects be two days old."""
    old = time.time() - 2 * DAY.total_seconds()
    for key in keys:
        os.utime(settings.objects / key, (old, old))


def age_all(settings: Settings) -> None:
    paths = (path for path in settings.objects.rglob("*") if path.is_file())
    age(settings, *(str(path.relative_to(settings.objects)) for path in paths))


def test_what_no_record_names_goes_after_the_grace_and_what_one_names_stays(
    registry: Registry, settings: Settings
) -> None:
    author = Author("", registry.ref.id)
    publish(registry.services.publishing, author, "demo")
    before = set(registry.blobs.keys("blobs")) | set(registry.blobs.keys("attestations"))
    statement = attestation_key(Digest.of(b"statement"))
    registry.blobs.put(statement, io.BytesIO(b"statement"))
    bundle = leave(registry)
    assert garbage(registry, settings).sweep().objects == ()
    age_all(settings)
    fresh = leave(registry, b"just put")
    looked = garbage(registry, settings).look()
    assert {found.key for found in looked.objects} == {bundle, statement}
    assert looked.size == len(b"nobody's") + len(b"statement")
    assert registry.blobs.has(bundle)
    assert {found.key for found in garbage(registry, settings).sweep().objects} == {bundle, statement}
    assert set(registry.blobs.keys("blobs")) | set(registry.blobs.keys("attestations")) == {*before, fresh}


def test_a_file_of_the_index_that_no_state_names_goes_a_day_later_and_no_other(
    registry: Registry, settings: Settings
) -> None:
    author = Author("", registry.ref.id)
    for name in ("one", "two"):
        publish(registry.services.publishing, author, name)
    stray = metadata_key("snapshot", 900)
    registry.blobs.put(stray, io.BytesIO(b"{}"))
    age_all(settings)
    named = set(registry.blobs.keys("index"))
    assert garbage(registry, settings).sweep().index_files == (stray,)
    assert garbage(registry, settings).sweep().index_files == ()
    assert registry.blobs.has(stray)
    later = registry.index.now() + KEPT + timedelta(minutes=1)
    Clearing(replace(registry.index, now=lambda: later)).round()
    assert not registry.blobs.has(stray)
    registry.index.files.state()
    assert set(registry.blobs.keys("index")) < named


def test_a_file_that_is_no_object_of_ours_is_left_alone(registry: Registry, settings: Settings) -> None:
    registry.blobs.put("blobs/sha256/readme", io.BytesIO(b"?"))
    registry.blobs.put("index/mine.json", io.BytesIO(b"?"))
    age_all(settings)
    swept = garbage(registry, settings).sweep()
    assert (swept.objects, swept.index_files) == ((), ())


class PublishesFirst(FilesystemBlobs):
    """A store at which a publish comes just before a removal."""

    publish: Callable[[], None]

    def delete(self, key: str) -> None:
        self.publish()
        super().delete(key)


def test_a_record_that_came_just_before_the_removal_gets_its_object_back(
    registry: Registry, settings: Settings
) -> None:
    key = leave(registry, plugin("demo"))
    age(settings, key)
    store = PublishesFirst(settings.objects)
    author = Author("", registry.ref.id)
    object.__setattr__(store, "publish", lambda: publish(registry.services.publishing, author, "demo"))
    sweeping = replace(garbage(registry, settings), index=replace(registry.index, blobs=store))
    assert sweeping.sweep().objects == ()
    assert registry.blobs.has(key)


class SweptMeanwhile(FilesystemBlobs):
    """A store from which an object is removed after a publish has put all of its own, once."""

    victim: list[str]

    def put(self, key: str, source: Source, over: bytes | Literal[Over.ANY] | None = Over.ANY) -> None:
        super().put(key, source, over)
        if key.startswith("attestations") and self.victim:
            self.delete(self.victim.pop())


def test_a_publish_whose_object_goes_just_before_its_record_puts_it_again(
    registry: Registry, settings: Settings
) -> None:
    key = leave(registry, plugin("demo"))
    store = SweptMeanwhile(settings.objects)
    object.__setattr__(store, "victim", [key])
    publishing = replace(registry.services.publishing, blobs=store)
    publish(publishing, Author("", registry.ref.id), "demo")
    assert registry.blobs.has(key)


def test_uploads_that_nobody_will_finish_go_too(registry: Registry, settings: Settings) -> None:
    with registry.store.spool.append("0" * 64, 0) as writer:
        writer.write(b"half a bundle")
    assert collect(settings, DAY, dry_run=True)[1]["uploads"] == 0
    assert collect(settings, DAY, dry_run=False)[1]["uploads"] == 1
    assert list(registry.store.spool.sessions()) == []


def test_the_command_says_what_it_removes_and_refuses_a_grace_that_is_too_short(
    registry: Registry, settings: Settings
) -> None:
    key = leave(registry)
    age(settings, key)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "plugreg_registry", "gc", *words, "--data", str(settings.data)]
        return subprocess.run(
            command, env=registry_environment(), capture_output=True, text=True, check=False
        )

    assert json.loads(run("--dry-run", "--json").stdout)["objects"] == [{"key": key, "size": 8}]
    assert f"removed  {key}  8 bytes\n" in run().stdout
    assert not registry.blobs.has(key)
    refused = run("--grace", "1")
    assert refused.returncode == 2
    assert "from 2 to" in refused.stderr


@pytest.mark.parametrize(("store", "publishes"), [("files", 100), ("s3", 30)])
def test_sweeping_all_the_time_beside_publishes_breaks_none(
    tmp_path: Path,
    s3: S3Server,
    store: str,
    publishes: int,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    environment = s3.environment(s3.bucket()) if store == "s3" else {}
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    settings = read_settings(environment, str(tmp_path / "data"))
    bundles = {f"plugin{number}": plugin(f"plugin{number}") for number in range(publishes)}
    with running(tmp_path / "data", environment=environment) as process:
        registry = compose(settings)
        request.addfinalizer(registry.close)
        for bundle in bundles.values():
            leave(registry, bundle)
        time.sleep(SHORT.total_seconds() + 1)
        done, swept = threading.Event(), list[int]()

        def sweep() -> None:
            while not done.is_set():
                time.sleep(0.05)
                swept.append(len(garbage(registry, settings, SHORT).sweep().objects))

        def send(name: str) -> int:
            return author.publish(bundles[name], name).status

        author = Author(process.url, process.id)
        with ThreadPoolExecutor(9) as pool:
            sweeper = pool.submit(sweep)
            try:
                statuses = list(pool.map(send, bundles))
            finally:
                done.set()
            sweeper.result()
        assert set(statuses) == {201}
        assert sum(swept) > 0
        time.sleep(SHORT.total_seconds())
        assert garbage(registry, settings, timedelta()).sweep().objects == ()
        for name, bundle in bundles.items():
            [entry] = author.document(name)["versions"]
            got = ask(author.at(f"blobs/sha256/{entry['digest'][7:]}"))
            assert (got.status, got.body) == (200, bundle)
            [digest] = entry["attestations"]
            assert ask(author.at(f"attestations/sha256/{digest[7:]}.json")).status == 200
