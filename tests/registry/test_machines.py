"""Many machines: data folders of their own; they share a PostgreSQL server, a bucket, and the keys."""

from __future__ import annotations

import os
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from plugreg_registry.app import prepare
from plugreg_registry.blobs.locks import FileLocks
from plugreg_registry.metadata import advisory
from plugreg_registry.metadata.advisory import ServerLocks
from plugreg_registry.metadata.database import open_database, reading
from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import Temporary
from tests.support.postgres import INSTALLED, NEWEST, PostgresServer
from tests.support.publisher import Author, ask, bundle_of, plugin, plugin_files
from tests.support.registries import RegistryProcess, running
from tests.support.s3 import credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from plugreg_registry.databases import Server
    from plugreg_registry.ports import Lock
    from tests.support.s3 import S3Server

MACHINES = 2
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="


@pytest.fixture(scope="module")
def server(postgres: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres(NEWEST)


@pytest.fixture
def shared(server: PostgresServer, s3: S3Server) -> Mapping[str, str]:
    """The settings that all machines have: an empty database and an empty bucket."""
    return {"PLUGREG_REGISTRY_DATABASE": server.create().address, **s3.environment(s3.bucket())}


@pytest.mark.parametrize("_time", range(3))
def test_machines_that_start_at_once_make_one_registry(
    _time: int, shared: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    keys = {"PLUGREG_REGISTRY_KEYS": str(tmp_path / "keys")}
    machines = [read_settings({**shared, **keys}, str(tmp_path / str(n))) for n in range(MACHINES)]
    line = threading.Barrier(MACHINES)

    def start(number: int) -> object:
        line.wait(20)
        return prepare(machines[number])

    with ThreadPoolExecutor(MACHINES) as pool:
        assert len(set(pool.map(start, range(MACHINES)))) == 1
    assert {path.stem for path in (tmp_path / "keys").glob("*.pem")} == {
        "snapshot",
        "timestamp",
        "index",
        "revocations",
    }


@pytest.fixture
def two(shared: Mapping[str, str], tmp_path: Path) -> Iterator[tuple[RegistryProcess, RegistryProcess]]:
    """Two machines that were started at once."""
    keys = {"PLUGREG_REGISTRY_KEYS": str(tmp_path / "keys")}
    machines = [RegistryProcess(tmp_path / name, environment={**shared, **keys}) for name in ("a", "b")]
    with ExitStack() as stack:
        for machine in machines:
            stack.callback(machine.stop)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(RegistryProcess.start, machines))
        yield machines[0], machines[1]


def test_a_publish_goes_from_machine_to_machine(two: tuple[RegistryProcess, RegistryProcess]) -> None:
    here, there = two
    assert here.id == there.id
    assert len({ask(one.url + "index/metadata/1.root.json").body for one in two}) == 1
    author, other = Author(here.url, here.id), Author(there.url, there.id)
    bundle = bundle_of(plugin_files(other=os.urandom(100_000)))
    half, size = len(bundle) // 2, len(bundle)
    session = author.begin(bundle).json()
    for at, start, end in ((here, 0, half), (there, half, size)):
        span = {"content-range": f"bytes {start}-{end - 1}/{size}"}
        assert ask(at.url + session["upload"], "PUT", bundle[start:end], span).status == 204
    with ThreadPoolExecutor(4) as pool:  # who lost the answer commits again, wherever the balancer leads
        answers = list(pool.map(lambda one: one.commit(session), (other, author) * 2))
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 201], answers
    for one in (author, other):
        assert [entry["version"] for entry in one.document()["versions"]] == ["1.0.0"]
    rivals = [Author(one.url, here.id) for one in two * 4]
    with ThreadPoolExecutor(8) as pool:  # the same bytes, by different people, for a name that is free
        raced = list(pool.map(lambda rival: rival.publish(plugin("raced"), "raced"), rivals))
    statuses = [answer.status for answer in raced]
    assert statuses.count(201) == 1, raced
    assert set(statuses) <= {200, 201, 409}, raced
    digest = author.document("raced")["versions"][0]["digest"].removeprefix("sha256:")
    assert ask(f"{there.url}blobs/sha256/{digest}").status == 200


def test_a_machine_without_the_keys_serves_and_says_so(shared: Mapping[str, str], tmp_path: Path) -> None:
    with running(tmp_path / "a", environment=shared) as here:
        author = Author(here.url, here.id)
        assert author.publish(plugin()).status == 201
        with running(tmp_path / "b", environment=shared) as there:
            assert there.id == here.id
            other = Author(there.url, there.id, author.key)
            assert other.document()["versions"][0]["version"] == "1.0.0"
            assert "index_keys_missing" in ask(there.url + "readyz").json()["warnings"]
            assert "index_keys_missing" not in ask(here.url + "readyz").json()["warnings"]
            refused = other.publish(plugin(version="2.0.0"), version="2.0.0")
            assert (refused.status, refused.code) == (503, "index_key_missing")
            assert "PLUGREG_REGISTRY_KEYS" in refused.json()["hint"]
            end = time.monotonic() + 20  # what was accepted is shown by who has the keys
            while len(author.document()["versions"]) < 2 and time.monotonic() < end:
                time.sleep(0.1)
            assert other.publish(plugin(version="2.0.0"), version="2.0.0").status == 200
            assert any("index_keys_missing" in line for line in there.log)


class TestServerLocks:
    """Locks between machines."""

    @pytest.fixture
    def database(self, server: PostgresServer) -> Iterator[Server]:
        database = server.create()
        yield database
        server.drop(database)

    @pytest.fixture
    def machines(self, database: Server, tmp_path: Path) -> Iterator[tuple[Lock, Lock]]:
        engines = [open_database(database, 2) for _ in range(2)]
        yield (
            ServerLocks(engines[0], FileLocks(tmp_path / "a")),
            ServerLocks(engines[1], FileLocks(tmp_path / "b")),
        )
        for engine in engines:
            assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
            with reading(engine) as connection:  # what went back to the others holds nothing
                mine = text(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                )
                assert connection.execute(mine).scalar() == 0
            engine.dispose()

    def test_one_at_a_time_whatever_the_machine(self, machines: tuple[Lock, Lock]) -> None:
        inside, most = 0, 0

        def work(number: int) -> None:
            nonlocal inside, most
            with machines[number % 2]("object", "name"):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(40)))
        assert most == 1

    def test_names_and_purposes_are_apart_on_one_connection(self, machines: tuple[Lock, Lock]) -> None:
        here, there = machines
        with here("session", "x"), here("object", "x"), here("index", "x"), there("object", "other"):
            pass

    def test_who_holds_it_for_too_long_is_not_waited_for(
        self, machines: tuple[Lock, Lock], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(advisory.PATIENCE, "object", 0.1)
        here, there = machines
        with here("object", "x"):
            with pytest.raises(Temporary, match="database_busy"), there("object", "x"):
                pass
            with there("object", "y"):
                pass
        with there("object", "x"):
            pass

    def test_a_lost_connection_frees_the_lock_and_ends_nothing(
        self, machines: tuple[Lock, Lock], server: PostgresServer, database: Server
    ) -> None:
        here, there = machines
        name = database.parameters()["dbname"]
        with here("object", "x"), here("object", "y"):
            server.execute(f"{ENDED} '{name}'")
            with there("object", "x"):
                pass
        with here("object", "x"), there("object", "y"):
            pass

    def test_a_server_that_went_away_is_found_again(self, tmp_path: Path) -> None:
        with PostgresServer(INSTALLED[NEWEST]) as own:
            engine = open_database(own.create())
            lock = ServerLocks(engine, FileLocks(tmp_path))
            with lock("object", "x"):
                own.stop()
            with pytest.raises(Temporary, match="store_unavailable"), lock("object", "x"):
                pass
            own.start()
            with lock("object", "x"):
                pass
            engine.dispose()

    def test_an_exception_passes_and_gives_back(self, machines: tuple[Lock, Lock]) -> None:
        here, there = machines
        word = secrets.token_hex(4)
        with pytest.raises(ValueError, match=word), here("object", "x"):
            raise ValueError(word)
        with there("object", "x"):
            pass
