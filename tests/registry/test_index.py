"""The signed index, read by the unmodified client of TUF, and its publisher: in groups, stopped, too late."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tuf.api.metadata import Metadata, Timestamp
from tuf.ngclient import Updater

from plugreg_registry.app import Registry, compose, prepare
from plugreg_registry.metadata.database import open_database, writing
from plugreg_registry.metadata.lease import LEASE_SECONDS
from plugreg_registry.metadata.tables import LEASES
from plugreg_registry.settings import read_settings
from plugreg_schemas.api import StatementRequest
from plugreg_schemas.index import bin_bits
from tests.registry.test_killed import publish
from tests.support.publisher import Answer, Author, ask, digest_of, plugin
from tests.support.registries import RegistryProcess, registry_environment, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.settings import Settings


@dataclass
class Reader:
    """A client of TUF, as python-tuf has it."""

    url: str
    folder: Path
    root: bytes | None = None

    def updater(self) -> Updater:
        """One refresh, with what earlier ones have left in the folder."""
        self.folder.mkdir(exist_ok=True)
        if self.root is None:
            self.root = ask(self.url + "index/metadata/1.root.json").body
        folder = str(self.folder)
        metadata, targets = self.url + "index/metadata/", self.url + "index/"
        updater = Updater(folder, metadata, folder, targets, bootstrap=self.root)
        updater.refresh()
        return updater

    def read(self, target: str) -> bytes | None:
        """The verified bytes of a target; None if the index does not list it."""
        updater = self.updater()
        info = updater.get_targetinfo(target)
        if info is None:
            return None
        with open(updater.download_target(info, str(self.folder / "target")), "rb") as file:  # noqa: PTH123
            return file.read()

    def versions(self, name: str) -> list[str]:
        """The versions of a plugin by the verified index."""
        content = self.read(f"plugins/{name}.json")
        return [entry["version"] for entry in json.loads(content)["versions"]] if content else []


@pytest.fixture
def reader(registry: RegistryProcess, tmp_path: Path) -> Reader:
    return Reader(registry.url, tmp_path / "reader")


@contextmanager
def here(folder: Path, **environment: str) -> Iterator[tuple[Settings, Registry]]:
    """A registry in this process, without a server."""
    settings = read_settings(
        {f"PLUGREG_REGISTRY_{name}": value for name, value in environment.items()}, str(folder)
    )
    prepare(settings)
    registry = compose(settings)
    try:
        yield settings, registry
    finally:
        registry.close()


def metadata(settings: Settings) -> Path:
    return settings.objects / "index" / "metadata"


class TestReading:
    def test_a_201_is_readable_at_once_and_proved(self, author: Author, reader: Reader, name: str) -> None:
        assert reader.read(f"plugins/{name}.json") is None
        for version in ("1.0.0", "1.1.0"):
            assert author.publish(plugin(name, version), name, version).status == 201
            assert reader.versions(name)[-1] == version
        content = reader.read(f"plugins/{name}.json")
        assert content is not None
        assert json.loads(content) == author.document(name)

    def test_a_statement_is_readable_at_once(self, author: Author, reader: Reader, name: str) -> None:
        author.publish(plugin(name), name)
        assert author.state("yank", name, version="1.0.0", yanked=True, reason="broken").status == 201
        document = json.loads(reader.read(f"plugins/{name}.json") or b"")
        assert document["versions"][0]["yanked"]
        assert len(document["history_times"]) == len(document["history"]) == 2

    def test_what_the_offline_role_says_and_an_empty_list_of_revocations(
        self, registry: RegistryProcess, reader: Reader
    ) -> None:
        trust = json.loads(reader.read("trust.json") or b"")
        assert trust == {"api-version": "1", "registry": registry.id, "admins": []}
        assert json.loads(reader.read("revocations.json") or b"") == {"api-version": "1", "entries": []}
        assert reader.read("sigstore.json") is None
        root = Metadata.from_bytes(reader.root or b"").signed
        assert root.unrecognized_fields == {"plugreg": {"registry": registry.id}}

    def test_discovery_names_the_root(self, registry: RegistryProcess) -> None:
        root = ask(registry.url + "index/metadata/1.root.json").body
        found = ask(registry.url + ".well-known/plugreg.json").json()
        assert found["trust"]["root"] == {"version": 1, "digest": digest_of(root)}
        assert (found["urls"]["metadata"], found["urls"]["targets"]) == ("index/metadata/", "index/")

    def test_what_is_named_by_a_version_or_a_hash_is_immutable(
        self, registry: RegistryProcess, author: Author, name: str
    ) -> None:
        author.publish(plugin(name), name)
        document = ask(author.at(f"index/plugins/{name}.json"))
        fixed = [
            "index/metadata/1.root.json",
            "index/metadata/1.bin-0.json",
            f"index/plugins/{digest_of(document.body)[7:]}.{name}.json",
            f"index/{digest_of(ask(author.at('index/trust.json')).body)[7:]}.trust.json",
        ]
        for path in fixed:
            answer = ask(author.at(path))
            assert (answer.status, answer.headers["cache-control"]) == (
                200,
                "public, max-age=31536000, immutable",
            ), path
        for path in ("index/metadata/timestamp.json", f"index/plugins/{name}.json", "index/trust.json"):
            answer = ask(author.at(path))
            assert (answer.status, answer.headers["cache-control"]) == (200, "no-cache"), path
            again = ask(author.at(path), headers={"if-none-match": answer.headers["etag"]})
            assert (again.status, again.body) == (304, b"")

    def test_a_plugin_whose_name_looks_like_a_digest_is_not_kept_for_a_year(self, author: Author) -> None:
        name = "ab" * 32
        author.publish(plugin(name), name)
        assert ask(author.at(f"index/plugins/{name}.json")).headers["cache-control"] == "no-cache"
        hashed = f"{digest_of(ask(author.at(f'index/plugins/{name}.json')).body)[7:]}.{name}"
        assert "immutable" in ask(author.at(f"index/plugins/{hashed}.json")).headers["cache-control"]

    def test_an_unchanged_index_costs_a_reader_less_than_a_kilobyte(
        self, author: Author, reader: Reader, name: str
    ) -> None:
        author.publish(plugin(name), name)
        reader.versions(name)
        assert len(ask(author.at("index/metadata/timestamp.json")).body) <= 1024


class TestTogether:
    def test_many_publishes_to_two_servers_and_a_reader_who_never_stops(self, tmp_path: Path) -> None:
        with running(tmp_path / "data") as one, running(tmp_path / "data") as other:
            assert one.id == other.id
            end = threading.Event()
            seen: list[int] = []

            def read() -> None:
                reader = Reader(other.url, tmp_path / "reader")
                while not end.is_set():
                    document = reader.read("plugins/first.json")
                    seen.append(len(json.loads(document)["versions"]) if document else 0)

            def release(number: int) -> tuple[Answer, list[str]]:
                server = (one, other)[number % 2]
                author = Author(server.url, one.id)
                name = f"many{number}"
                answer = author.publish(plugin(name), name)
                return answer, Reader(server.url, tmp_path / name).versions(name)

            first = Author(one.url, one.id)
            assert first.publish(plugin("first"), "first").status == 201
            with ThreadPoolExecutor(52) as pool:
                reading = pool.submit(read)
                answers = list(pool.map(release, range(50)))
                assert first.publish(plugin("first", "2.0.0"), "first", "2.0.0").status == 201
                end.set()
                reading.result(60)
            assert [answer.status for answer, _ in answers] == [201] * 50
            assert [versions for _, versions in answers] == [["1.0.0"]] * 50
            assert seen == sorted(seen), "a reader never goes back"
            reader = Reader(one.url, tmp_path / "last")
            assert all(reader.versions(f"many{number}") == ["1.0.0"] for number in range(50))
            assert reader.versions("first") == ["1.0.0", "2.0.0"]

    def test_more_plugins_get_more_bins_and_readers_lose_nothing(self, tmp_path: Path) -> None:
        with running(tmp_path / "data") as registry:
            author, reader = Author(registry.url, registry.id), Reader(registry.url, tmp_path / "reader")
            author.publish(plugin("first"), "first")
            assert reader.versions("first") == ["1.0.0"]
        with here(tmp_path / "data") as (settings, local):
            key = Author("", local.ref.id)
            for number in range(65):
                publish(local.services.publishing, key, f"more{number}")
            state = local.index.files.state()
            assert state.bins.bit_length == bin_bits(66) == 5
            assert {"bin-0.json", "bin-f.json", "bin-00.json", "bin-1f.json"} <= state.snapshot.meta.keys()
            assert metadata(settings).joinpath("timestamp.json").is_file()
        with running(tmp_path / "data") as registry:
            reader.url = registry.url
            assert reader.versions("first") == ["1.0.0"]
            assert all(reader.versions(f"more{number}") == ["1.0.0"] for number in range(0, 65, 8))
            assert Author(registry.url, registry.id).publish(plugin("last"), "last").status == 201
            assert reader.versions("last") == ["1.0.0"]

    def test_a_registry_from_before_gets_an_index_with_all_its_plugins(self, tmp_path: Path) -> None:
        with here(tmp_path / "data") as (settings, local):
            author = Author("", local.ref.id)
            for name in ("one", "two", "three"):
                publish(local.services.publishing, author, name)
        for gone in (metadata(settings), settings.keys, settings.objects / "index" / "plugins"):
            shutil.rmtree(gone)
        with running(tmp_path / "data") as registry:
            reader = Reader(registry.url, tmp_path / "reader")
            assert [reader.versions(name) for name in ("one", "two", "three")] == [["1.0.0"]] * 3


_STOPPED = """
import io, os, pathlib, signal, sys
from dataclasses import replace
from plugreg_registry.app import compose
from plugreg_registry.ports import Over
from plugreg_registry.settings import read_settings

class Stopping:
    def __init__(self, blobs):
        self.blobs, self.stopped = blobs, False
    def put(self, key, source, over=Over.ANY):
        if sys.argv[2] in key and not self.stopped:
            self.stopped = True
            os.kill(os.getpid(), signal.SIGSTOP)
        self.blobs.put(key, source, over)
    def __getattr__(self, name):
        return getattr(self.blobs, name)

registry = compose(read_settings({}, sys.argv[1]))
blobs = Stopping(registry.blobs)
index = replace(registry.index, blobs=blobs, files=replace(registry.index.files, blobs=blobs),
    lease=replace(registry.index.lease, seconds=0.2))
index.drain()
assert blobs.stopped
registry.close()
"""


class TestTooLate:
    @pytest.mark.parametrize(
        "place", [".demo.json", ".bin-", ".snapshot.json", "timestamp.json", "index/plugins/demo.json"]
    )
    def test_a_holder_that_was_stopped_takes_nothing_back(self, tmp_path: Path, place: str) -> None:
        """It goes on when its lease is over and another has published a newer state."""
        with here(tmp_path / "data") as (settings, registry):
            author = Author("", registry.ref.id)
            publishing = registry.services.publishing
            publish(publishing, author, "demo")
            state_file = settings.objects / "index" / "plugins" / "demo.json"
            _change_behind(publishing, author)
            late = subprocess.Popen(
                [sys.executable, "-c", _STOPPED, str(settings.data), place], env=registry_environment()
            )
            _, status = os.waitpid(late.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), place
            time.sleep(0.3)
            publish(replace(publishing, index=replace(registry.index, wait=60)), author, "other")
            newest = (metadata(settings) / "timestamp.json").read_bytes()
            document = state_file.read_bytes()
            late.send_signal(signal.SIGCONT)
            _, status = os.waitpid(late.pid, 0)
            assert status == 0
            late.returncode = 0
            now = (metadata(settings) / "timestamp.json").read_bytes()
            before, after = (Metadata[Timestamp].from_bytes(content).signed for content in (newest, now))
            assert after.version >= before.version
            assert after.snapshot_meta.version >= before.snapshot_meta.version
            assert state_file.read_bytes() == document
            assert registry.index.backlog.waiting(10) == ()
            registry.index.files.state()
            _lists(registry, "demo", document)
            other = settings.objects / "index" / "plugins" / "other.json"
            _lists(registry, "other", other.read_bytes())

    def test_a_publish_that_the_index_does_not_show_in_time_is_pending_and_comes(
        self, tmp_path: Path
    ) -> None:
        with running(tmp_path / "data") as registry:
            author = Author(registry.url, registry.id)
            with _held(registry.data):
                answer = author.publish(plugin("demo"), "demo")
                receipt = answer.json()
                assert (answer.status, receipt["index"]) == (202, "pending")
                assert ask(author.at("index/plugins/demo.json")).status == 404
                assert ask(author.at(receipt["url"])).json()["index"] == "pending"
            end = time.monotonic() + 60
            while ask(author.at(receipt["url"])).json()["index"] == "pending" and time.monotonic() < end:
                time.sleep(0.2)
            assert ask(author.at(receipt["url"])).json()["index"] == "published"
            assert Reader(registry.url, tmp_path / "reader").versions("demo") == ["1.0.0"]
            again = author.publish(plugin("demo"), "demo")
            assert (again.status, again.json()["index"]) == (200, "published")


def _change_behind(publishing: Any, author: Author) -> None:
    """A change of `demo` that is in the records and not in the index."""
    record = publishing.releases.find("demo")
    body = author.successor("yank", "demo", 1, str(record.history.head), version="1.0.0", yanked=True)
    quick = replace(publishing, index=replace(publishing.index, wait=0))
    quick.state(StatementRequest.model_validate_json(json.dumps(body)))


def _lists(registry: Registry, name: str, document: bytes) -> None:
    index = registry.index
    state, path = index.files.state(), f"plugins/{name}.json"
    listed = index.files.bin(state, state.bins.get_role_for_target(path)).targets[path]
    assert listed.hashes["sha256"] == digest_of(document)[7:]


@contextmanager
def _held(data: Path) -> Iterator[None]:
    """Let a process of another machine hold the lease, and prolong it as long as the block lasts."""
    engine, over = open_database(data / "registry.sqlite3"), threading.Event()

    def hold(seconds: float) -> None:
        with writing(engine) as connection:
            expires = int((time.time() + seconds) * 1000)
            connection.execute(LEASES.update().values(holder="elsewhere", expires=expires))

    def prolong() -> None:
        while not over.wait(0.5):
            hold(LEASE_SECONDS / 2)

    hold(LEASE_SECONDS / 2)
    prolonging = threading.Thread(target=prolong)
    prolonging.start()
    try:
        yield
    finally:
        over.set()
        prolonging.join()
        engine.dispose()
