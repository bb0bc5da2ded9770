"""What only PostgreSQL brings with it: it goes away, writers are concurrent, and its address has a password."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy import text

from plugreg_registry.metadata.backlog import DatabaseBacklog
from plugreg_registry.metadata.database import alone, milliseconds, open_database, reading, repeated, writing
from plugreg_registry.metadata.lease import DatabaseLease
from plugreg_registry.metadata.migrate import HEAD, migrate, upgrade
from plugreg_registry.metadata.releases import DatabaseReleases
from plugreg_registry.records import PluginRecord, StoredStatement
from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import Conflict, NoSpace, Temporary, UsageError
from plugreg_schemas.names import Digest
from tests.registry.test_command import command, refused
from tests.support.clocks import shifted_clock
from tests.support.postgres import GUARDED, INSTALLED, NEWEST, PostgresServer
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import registry_environment, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine

    from plugreg_registry.databases import Server

DATABASE = "PLUGREG_REGISTRY_DATABASE"
PASSWORD = "an open sesame"


@pytest.fixture(scope="module")
def server(postgres: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres(NEWEST)


@pytest.fixture
def tables(server: PostgresServer) -> Server:
    return server.create(server.migrated)


@pytest.fixture
def here(tables: Server) -> Iterator[Engine]:
    engine = open_database(tables)
    yield engine
    engine.dispose()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that a test may take away."""
    with PostgresServer(INSTALLED[NEWEST]) as server:
        yield server


def record(name: str) -> PluginRecord:
    digest = Digest.of(f"{name} {threading.get_ident()}".encode())
    statement = StoredStatement(digest, b"envelope", b"key", datetime(2026, 1, 31, tzinfo=UTC))
    return PluginRecord(name, (statement,), ())


def test_j3_the_database_goes_away_and_comes_back(tmp_path: Path, own_server: PostgresServer) -> None:
    environment = {DATABASE: own_server.create().address}
    with running(tmp_path / "data", environment=environment) as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin()).status == 201
        process = registry.process
        begun = author.begin(plugin("demo", "1.1.0"), "demo", "1.1.0")
        own_server.stop()
        for answer in (
            ask(registry.url + "readyz"),
            ask(registry.url + "v1/plugins/demo"),
            author.begin(plugin("demo", "2.0.0"), "demo", "2.0.0"),
            author.finish(begun, plugin("demo", "1.1.0")),
        ):
            assert (answer.status, answer.code) == (503, "store_unavailable"), answer
            assert (answer.json()["retryable"], answer.headers["retry-after"]) == (True, "5")
            assert str(own_server.port) not in answer.body.decode()
        assert ask(registry.url + "livez").status == 200
        assert author.document()["versions"][0]["version"] == "1.0.0"
        own_server.start()
        assert author.finish(begun, plugin("demo", "1.1.0")).status == 201
        assert author.publish(plugin("demo", "2.0.0"), "demo", "2.0.0").status == 201
        assert [entry["version"] for entry in author.document()["versions"]] == ["1.0.0", "1.1.0", "2.0.0"]
        assert ask(registry.url + "readyz").status == 200
        assert registry.process is process
        assert process is not None
        assert process.poll() is None
        assert any("database: " in line and str(own_server.port) in line for line in registry.log)
        assert not any("Traceback" in line for line in registry.log)


def test_publishes_go_on_while_the_database_crashes_and_comes_back(
    tmp_path: Path, own_server: PostgresServer
) -> None:
    environment = {DATABASE: own_server.create().address}
    with running(tmp_path / "data", workers=2, environment=environment) as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin("demo", "0.0.1"), "demo", "0.0.1").status == 201
        acknowledged: set[str] = set()
        others: set[int] = set()
        end = threading.Event()

        def publish(worker: int) -> None:
            for number in range(200):
                if end.is_set():
                    return
                version = f"{worker}.{number}.0"
                bundle = plugin("demo", version)
                for _ in range(200):
                    status = author.publish(bundle, "demo", version).status
                    if status in {200, 201}:
                        acknowledged.add(version)
                        break
                    others.add(status)

        with ThreadPoolExecutor(4) as pool:
            working = [pool.submit(publish, worker) for worker in range(1, 5)]
            for _ in range(2):
                end.wait(1.5)
                own_server.stop(signal.SIGQUIT)
                own_server.start()
            end.wait(1.5)
            end.set()
            for one in working:
                one.result()
        assert others <= {503}
        assert len(acknowledged) > 8
        shown = [entry["version"] for entry in author.document()["versions"]]
        assert acknowledged <= set(shown)
        assert len(shown) == len(set(shown))


def _ask_one_that_hangs(engine: Engine) -> None:
    with reading(engine) as connection:
        psutil.Process(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()).suspend()
        connection.execute(text("SELECT 1"))


def test_j3_a_server_that_hangs_is_not_waited_for(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugreg_registry.metadata.postgres.ANSWER_SECONDS", 1)
    engine = open_database(own_server.create(own_server.migrated))
    with reading(engine) as connection:
        backend = psutil.Process(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
    backend.suspend()
    begun = time.monotonic()
    with reading(engine) as connection:  # the connection is found to be broken, and another one is used
        assert connection.execute(text("SELECT 1")).scalar() == 1
    with pytest.raises(Temporary, match="store_unavailable"):
        _ask_one_that_hangs(engine)
    assert time.monotonic() - begun < 10
    for child in psutil.Process(own_server.process.pid if own_server.process else 0).children():
        child.resume()
    engine.dispose()


def test_two_processes_on_one_database_take_fifty_publishes_at_once(
    tmp_path: Path, server: PostgresServer
) -> None:
    environment = {DATABASE: server.create().address}
    with (
        running(tmp_path / "data", environment=environment) as one,
        running(tmp_path / "data", environment=environment) as other,
    ):
        assert one.id == other.id
        authors = [Author(registry.url, registry.id) for registry in (one, other) for _ in range(25)]
        names = [f"plugin{number:02}" for number in range(len(authors))]

        def publish(author: Author, name: str, mark: str = "") -> int:
            return author.publish(plugin(name, mark=mark), name).status

        with ThreadPoolExecutor(50) as pool:
            assert set(pool.map(publish, authors, names)) == {201}
        for name in names:
            versions = Author(other.url, other.id).document(name)["versions"]
            assert [entry["version"] for entry in versions] == ["1.0.0"]
        rivals = [Author(registry.url, registry.id) for registry in (one, other) * 4]
        with ThreadPoolExecutor(8) as pool:
            raced = pool.map(lambda rival: publish(rival, "raced", rival.key.id), rivals)
            assert sorted(raced) == [201, *[409] * 7]


def test_replicas_that_start_at_once_make_one_registry(tmp_path: Path, server: PostgresServer) -> None:
    environment = {DATABASE: server.create().address}
    with ThreadPoolExecutor(3) as pool:
        data = str(tmp_path / "data")
        made = list(pool.map(lambda _: command("init", "--data", data, environment=environment), range(3)))
    assert [done.returncode for done in made] == [0] * 3, made
    assert len({done.stdout for done in made}) == 1


def test_migrations_that_start_at_once_are_done_once(tmp_path: Path, server: PostgresServer) -> None:
    environment = {DATABASE: server.create().address}
    with ThreadPoolExecutor(3) as pool:
        folders = [str(tmp_path / f"replica{number}") for number in range(3)]
        done = list(
            pool.map(lambda data: command("migrate", "--data", data, environment=environment), folders)
        )
    assert [one.returncode for one in done] == [0] * 3, done
    assert all(f"revision  {HEAD}" in one.stdout for one in done)
    assert "postgres@" not in done[0].stdout


def test_of_two_who_claim_a_name_at_once_the_later_one_begins_again(tables: Server) -> None:
    engines = [open_database(tables) for _ in range(2)]
    line = threading.Barrier(2)
    seen: list[PluginRecord | None] = []

    def claim(engine: Engine) -> bool:
        def decide(before: PluginRecord | None) -> PluginRecord:
            seen.append(before)
            if before is not None:
                raise Conflict("name_taken", "name_taken")
            line.wait(20)
            return record("demo")

        try:
            DatabaseReleases(engine).change("demo", decide)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(claim, engines)) == [False, True]
    assert [before is None for before in seen] == [True, True, False]
    for engine in engines:
        engine.dispose()


def test_of_two_lookalikes_that_are_claimed_at_once_one_is_refused(tables: Server) -> None:
    engines = [open_database(tables) for _ in range(2)]
    line = threading.Barrier(2)

    def claim(engine: Engine, name: str) -> str:
        def decide(_: PluginRecord | None) -> PluginRecord:
            with suppress(threading.BrokenBarrierError):
                line.wait(2)
            return record(name)

        try:
            DatabaseReleases(engine).change(name, decide)
        except Conflict as error:
            return error.code
        return "claimed"

    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(claim, engines, ("acme.tools", "acme-tools")))
    assert found == ["claimed", "name_lookalike"]
    for engine in engines:
        engine.dispose()


def test_a_change_waits_for_the_one_before_it_and_sees_what_it_did(here: Engine) -> None:
    releases = DatabaseReleases(here)
    releases.change("demo", lambda _: record("demo"))
    inside, go_on = threading.Event(), threading.Event()

    def grow(before: PluginRecord | None) -> PluginRecord:
        assert before is not None
        return replace(before, statements=(*before.statements, *record("more").statements))

    def slow(before: PluginRecord | None) -> PluginRecord:
        inside.set()
        go_on.wait(20)
        return grow(before)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(releases.change, "demo", slow)
        inside.wait(20)
        second = pool.submit(releases.change, "demo", grow)
        seen = releases.find("demo")  # a reader does not wait
        assert seen is not None
        assert seen.revision == 1
        assert not second.done()
        go_on.set()
        assert first.result(20).revision == 2
        assert second.result(20).revision == 3
    assert len(second.result().statements) == 3


def test_a_deadlock_is_undone_and_done_again(here: Engine) -> None:
    releases = DatabaseReleases(here)
    for name in ("a", "b"):
        releases.change(name, lambda _, name=name: record(name))  # type: ignore[misc]
    line = threading.Barrier(2)
    turns: list[str] = []

    def lock_both(first: str, second: str) -> str:
        with writing(here) as connection:
            turns.append(first)
            for name in (first, second):
                connection.execute(
                    text("SELECT 1 FROM plugins WHERE name = :name FOR UPDATE"), {"name": name}
                )
                if len(turns) <= 2 and name == first:
                    line.wait(20)
        return "done"

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(repeated, lambda: lock_both("a", "b"))
        other = pool.submit(repeated, lambda: lock_both("b", "a"))
        assert (one.result(30), other.result(30)) == ("done", "done")
    assert len(turns) > 2


def _hurried(engine: Engine, name: str) -> None:
    with writing(engine) as connection:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '50ms'")
        alone(connection, name)


def test_alone_is_one_at_a_time_by_name(here: Engine) -> None:
    with writing(here) as connection:
        alone(connection, "one")
        with writing(here) as other:
            alone(other, "other")
        with pytest.raises(Temporary, match="database_busy"):
            _hurried(here, "one")


@pytest.mark.parametrize(
    ("statement", "kind", "code"),
    [
        ("SET LOCAL statement_timeout = '50ms'; SELECT pg_sleep(20)", Temporary, "database_busy"),
        ("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$", NoSpace, "disk_full"),
        ("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$", Temporary, "database_busy"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", Temporary, "store_unavailable"),
        ("SELECT * FROM nothing", Temporary, "store_unavailable"),
    ],
)
def test_what_the_server_says(here: Engine, statement: str, kind: type[Temporary], code: str) -> None:
    with pytest.raises(kind, match=code), writing(here) as connection:
        connection.exec_driver_sql(statement)
    with reading(here) as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_a_reader_writes_nothing(here: Engine) -> None:
    with pytest.raises(Temporary, match="store_unavailable"), reading(here) as connection:
        connection.exec_driver_sql("DELETE FROM plugins")


def test_no_more_connections_than_were_allowed(tables: Server) -> None:
    engine = open_database(tables, 2)
    line = threading.Barrier(3)

    def hold(_: int) -> None:
        with reading(engine):
            line.wait(20)

    with ThreadPoolExecutor(2) as pool:
        holding = [pool.submit(hold, number) for number in range(2)]
        engine.pool._timeout = 0.2  # type: ignore[attr-defined] # noqa: SLF001 - or the test waits ten seconds
        while engine.pool.checkedout() < 2:  # type: ignore[attr-defined]
            pass
        with pytest.raises(Temporary, match="database_busy"), reading(engine):
            pass
        line.wait(20)
        for one in holding:
            one.result()
    engine.dispose()


@pytest.mark.parametrize("days", [-1, 1])
def test_a_holder_whose_clock_is_wrong_neither_takes_nor_loses_the_lease(
    here: Engine, tables: Server, tmp_path: Path, days: int
) -> None:
    script = (
        "import sys; from plugreg_registry.databases import read_server; "
        "from plugreg_registry.metadata.database import open_database; "
        "from plugreg_registry.metadata.lease import DatabaseLease; "
        "print(DatabaseLease(open_database(read_server(sys.stdin.read())), 'wrong', lambda _: True).take())"
    )

    def take_there() -> str:
        environment = registry_environment(shifted_clock(tmp_path, days))
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=tables.address,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    right = DatabaseLease(here, "right", lambda _: True)
    token = right.take()
    assert token is not None
    assert take_there() == "None"
    right.release(token)
    assert take_there() == str(token + 1)
    assert right.take() is None
    with reading(here) as connection:
        left = connection.execute(text("SELECT expires FROM leases")).scalar_one() - milliseconds(connection)
    assert 0 < left <= 30_000


@pytest.mark.parametrize("version", INSTALLED)
def test_names_are_in_the_order_of_their_bytes_whatever_the_language_of_the_database(
    postgres: Callable[[str], PostgresServer], version: str
) -> None:
    server = postgres(version)
    try:
        server.execute("CREATE DATABASE spelt TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(str(error))
    database = server.database("spelt")
    upgrade(database)
    engine = open_database(database)
    names = ["a-b", "a.c", "aa", "ab", "a_d", "b-a", "b1"]
    for name in names:
        DatabaseReleases(engine).change(name, lambda _, name=name: record(name))  # type: ignore[misc]
    with reading(engine) as connection:
        assert connection.execute(text("SELECT 'a_d' < 'a.c'")).scalar()  # the language sorts like this
    assert list(DatabaseBacklog(engine).waiting(10)) == sorted(names)
    engine.dispose()
    server.drop(database)


def test_a_database_that_cannot_hold_every_letter_is_refused(server: PostgresServer) -> None:
    server.execute("CREATE DATABASE letters TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(UsageError, match="database_encoding"):
        migrate(server.database("letters"))


class TestPassword:
    """The password is used and never shown."""

    @pytest.fixture
    def guarded(self, server: PostgresServer) -> Iterator[str]:
        """The name of a database of a user with a password."""
        server.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
        server.execute(f"CREATE DATABASE guarded OWNER {GUARDED}")
        yield "guarded"
        server.drop(server.database("guarded"))
        server.execute(f"DROP ROLE {GUARDED}")

    def test_it_comes_from_the_address_the_environment_or_a_file(
        self, server: PostgresServer, guarded: str, tmp_path: Path
    ) -> None:
        place = f"127.0.0.1:{server.port}/{guarded}"
        file = tmp_path / "pgpass"
        file.write_text(f"*:*:*:{GUARDED}:{PASSWORD}\n")
        file.chmod(0o600)
        without = {DATABASE: f"postgresql://{GUARDED}@{place}"}
        for environment in (
            {DATABASE: f"postgresql://{GUARDED}:{PASSWORD.replace(' ', '%20')}@{place}"},
            without | {"PGPASSWORD": PASSWORD},
            without | {"PGPASSFILE": str(file)},
            {DATABASE: f"postgres://{place}", "PGUSER": GUARDED, "PGPASSWORD": PASSWORD},
        ):
            done = command("migrate", "--data", str(tmp_path), environment=environment)
            assert done.returncode == 0, done
            assert f"database  postgresql://{place}\n" in done.stdout
            assert "sesame" not in done.stdout + done.stderr

    def test_a_wrong_one_is_refused_and_not_repeated(
        self, server: PostgresServer, guarded: str, tmp_path: Path
    ) -> None:
        place = f"127.0.0.1:{server.port}/{guarded}"
        for arguments in (["migrate"], ["serve", "--port", "0"]):
            done = command(
                *arguments,
                "--data",
                str(tmp_path),
                environment={DATABASE: f"postgresql://{GUARDED}:shibboleth@{place}"},
            )
            assert done.returncode == 8, done
            assert "password authentication failed" in done.stderr
            assert "error: the database `guarded` cannot be used now" in done.stderr
            assert "Traceback" not in done.stderr
            assert "shibboleth" not in done.stderr + done.stdout

    def test_it_is_on_no_command_line_and_in_no_log_of_a_running_registry(
        self, server: PostgresServer, guarded: str, tmp_path: Path
    ) -> None:
        place = f"127.0.0.1:{server.port}/{guarded}"
        address = f"postgresql://{GUARDED}:{PASSWORD.replace(' ', '%20')}@{place}"
        with running(tmp_path / "data", workers=2, environment={DATABASE: address}) as registry:
            assert Author(registry.url, registry.id).publish(plugin()).status == 201
            process = psutil.Process(registry.pid)
            lines = [" ".join(one.cmdline()) for one in (process, *process.children(recursive=True))]
            assert not any("sesame" in line for line in (*lines, *registry.log))

    def test_it_is_not_in_the_words_of_the_settings(self, tmp_path: Path) -> None:
        address = "postgresql://user:sesame@db.example:5432/plugreg?sslmode=require&password=sesame"
        settings = read_settings({DATABASE: address}, str(tmp_path))
        assert "sesame" not in f"{settings} {settings!r} {settings.database} {settings.database!r}"
        assert str(settings.database) == "postgresql://db.example:5432/plugreg"

    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://user:ses@ame@host/db",
            "postgresql://user:ses/ame@host/db",
            "postgresql://user:ses%zzame@host/db",
            "postgresql://host/db?pasword=sesame",
            "postgresql://host:sesame/db",
            "postgresql+psycopg://user:sesame@host/db",
            "user:sesame@host/db",
        ],
    )
    def test_an_address_that_is_none_is_not_repeated(self, address: str) -> None:
        with pytest.raises(UsageError, match="setting_invalid") as caught:
            read_settings({DATABASE: address})
        assert "ame" not in f"{caught.value} {caught.value.findings}"


def test_a_server_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    environment = {DATABASE: "postgresql://postgres@127.0.0.1:1/none"}
    done = command("serve", "--port", "0", "--data", str(tmp_path), environment=environment)
    assert done.returncode == 8
    assert "error: the database `none` cannot be used now\n" in done.stderr
    assert "Connection refused" in done.stderr


def test_operators_commands_know_whether_a_registry_is_there(tmp_path: Path, server: PostgresServer) -> None:
    environment = {DATABASE: server.create().address}
    assert "there is no registry" in refused(command("rotate", cwd=tmp_path, environment=environment), 2)
    assert command("init", cwd=tmp_path, environment=environment).returncode == 0
    assert "new keys" in command("rotate", cwd=tmp_path, environment=environment).stdout
