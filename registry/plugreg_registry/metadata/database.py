"""Transactions, whichever database it is. What only one of them understands is in `sqlite` and `postgres`.

    with reading(engine) as connection     a snapshot
    with writing(engine) as connection     a transaction; all of it, or nothing
    alone(connection, "audit")             from here on one transaction at a time does what has this name

SQLite lets one writer in at a time anyway. On PostgreSQL writers are concurrent, so who decides by what it
has read either locks the row that it changes or is `alone`. A transaction is alone with one name at most,
so that none waits for another that waits for it.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import extract, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from plugreg_registry.metadata import postgres, sqlite
from plugreg_schemas.errors import Temporary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy import Connection, Engine

    from plugreg_registry.databases import Database

Done = TypeVar("Done")
CONNECTIONS: Final = 10
"""Connections to a server that one process opens at most, unless it is told another number."""
ATTEMPTS: Final = 4


def open_database(database: Database, connections: int = CONNECTIONS) -> Engine:
    """Return the engine of a database. Nothing is asked of it yet."""
    if isinstance(database, Path):
        return sqlite.open_file(database)
    return postgres.open_server(database, connections)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Read one consistent state."""
    options = postgres.READING if _is_server(engine) else sqlite.READING
    with _transaction(engine, options) as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Read and write in one transaction; an exception undoes it."""
    options = postgres.WRITING if _is_server(engine) else sqlite.WRITING
    with _transaction(engine, options) as connection:
        yield connection


def alone(connection: Connection, name: str) -> None:
    """Wait until no other transaction does what has this name; others wait until this one ends."""
    if _is_server(connection.engine):
        number = int.from_bytes(hashlib.sha256(f"plugreg {name}".encode()).digest()[:8], signed=True)
        connection.execute(select(func.pg_advisory_xact_lock(number)))


def milliseconds(connection: Connection) -> int:
    """Return the time by the one clock that all users of a database share, since 1970."""
    if not _is_server(connection.engine):
        return int(time.time() * 1000)
    seconds = connection.execute(select(extract("epoch", func.clock_timestamp()))).scalar_one()
    return int(seconds * 1000)


def without_limits(connection: Connection) -> None:
    """Let this transaction take the time that it needs."""
    if _is_server(connection.engine):
        postgres.without_limits(connection)


def planned_anew(connection: Connection) -> None:
    """Let every statement of this transaction be planned by its own values, and not once for all."""
    if _is_server(connection.engine):
        postgres.planned_anew(connection)


def repeated(work: Callable[[], Done]) -> Done:
    """Do work in a transaction of its own, again if another transaction came first."""
    for _ in range(ATTEMPTS - 1):
        try:
            return work()
        except (IntegrityError, postgres.Undone):
            continue
    return work()


@contextmanager
def _transaction(engine: Engine, options: Mapping[str, Any]) -> Iterator[Connection]:
    with (
        faults(engine),
        engine.connect().execution_options(**options) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def faults(engine: Engine) -> Iterator[None]:
    """Turn what the database says into what the ports promise."""
    try:
        yield
    except IntegrityError:
        raise  # a rule of the tables, which the adapters know
    except PoolTimeout as error:
        raise Temporary("database_busy", "too many requests wait for the database") from error
    except DBAPIError as error:
        fault = postgres.fault if _is_server(engine) else sqlite.fault
        found = fault(engine, error)
        if found is None:
            raise
        raise found from error


def _is_server(engine: Engine) -> bool:
    return engine.dialect.name == "postgresql"
