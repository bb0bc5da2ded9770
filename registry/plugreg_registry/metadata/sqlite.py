"""What only SQLite understands.

Write-ahead log, so readers never wait for the writer; `BEGIN IMMEDIATE`, so that what a transaction reads is
still so when it writes; synced at every commit, because a 201 is a promise.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, create_engine, event

from plugreg_schemas.errors import NoSpace, Temporary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.exc import DBAPIError

BUSY_TIMEOUT_MS: Final = 10_000
"""How long a writer waits for the one before it."""
CHECKPOINT_PAGES: Final = 128
"""Pages of 4 KiB after which the log goes into the database: it stays small where space is short."""
POOL_SIZE: Final = 5
FILE_MODE: Final = 0o600
"""Of the database; SQLite gives the same to the files beside it."""
_WRITES: Final = "plugreg_writes"
READING: Final[Mapping[str, Any]] = {}
WRITING: Final[Mapping[str, Any]] = {_WRITES: True}


def make_private(file: Path) -> None:
    """Make the file of a database, if there is none, and let nobody else read it, whatever the umask.

    Only before this process opens it: closing a file gives up SQLite's locks on it.

    Raises:
        Temporary: `store_unavailable`. NoSpace: `disk_full`.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != FILE_MODE:
                os.fchmod(descriptor, FILE_MODE)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _full(file) from error
        raise Temporary(
            "store_unavailable", f"the database `{file}` cannot be used now: {error.strerror}"
        ) from error


def open_file(file: Path) -> Engine:
    """Return the engine of the database in `file`, which is made if absent."""
    engine = create_engine(
        URL.create("sqlite", database=str(file)),
        pool_size=POOL_SIZE,
        max_overflow=2 * POOL_SIZE,
        pool_timeout=BUSY_TIMEOUT_MS / 1000,
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000},
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def fault(engine: Engine, error: DBAPIError) -> Temporary:
    """Return what an error of the driver means."""
    said, file = str(error.orig), engine.url.database
    if "full" in said:
        return _full(file)
    code = "database_busy" if "locked" in said or "busy" in said else "store_unavailable"
    return Temporary(code, f"the database `{file}` cannot be used now: {said}")


def _prepare(connection: DBAPIConnection, _record: object) -> None:
    connection.isolation_level = None  # `_begin` says which transaction, not the driver
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        f"wal_autocheckpoint={CHECKPOINT_PAGES}",
        f"journal_size_limit={CHECKPOINT_PAGES * 4096}",
        "cache_size=-2048",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _full(file: Path | str | None) -> NoSpace:
    return NoSpace(
        "disk_full",
        f"no space is left for the database `{file}`",
        hint="the registry's operator must free some space",
    )
