"""What only PostgreSQL understands.

Readers see one snapshot; a writer sees what is committed, and locks the row of the plugin that it changes,
so that what it read of it is still so when it writes. What is committed is on the disk, because a 201 is a
promise. Every wait has an end: for a connection, a lock, an answer. A connection that is broken, as after a
restart of the server, is replaced before it is used.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import URL, create_engine, event

from plugreg_schemas.errors import NoSpace, Temporary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection as Driver
    from psycopg.abc import PQGen
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.exc import DBAPIError

    from plugreg_registry.databases import Server

Answer = TypeVar("Answer")
LOG: Final = logging.getLogger("plugreg.registry.database")
POOL_SECONDS: Final = 10
"""How long a request waits for a connection."""
LOCK_SECONDS: Final = 10
"""How long a transaction waits for the one before it."""
STATEMENT_SECONDS: Final = 15
ANSWER_SECONDS: Final = 20
"""How long a server may say nothing: longer than it takes itself to give up a statement."""
WAKE_SECONDS: Final = 0.1
"""Between two looks whether this process is to end, while it waits for an answer."""
IDLE_SECONDS: Final = 60
"""How long a transaction may do nothing: a process that stands still must not hold up the others."""
CONNECTION: Final[Mapping[str, Any]] = {
    "application_name": "plugreg-registry",
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""What libpq is told, if the address says nothing else: a server that is gone is noticed within seconds."""
READING: Final[Mapping[str, Any]] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
WRITING: Final[Mapping[str, Any]] = {"isolation_level": "READ COMMITTED", "postgresql_readonly": False}

_FULL: Final = ("53100",)
_LOST: Final = ("40001", "40P01")
"""Serialization failure, deadlock: undone because of another transaction."""
_BUSY: Final = ("53300", "55P03", "57014", "25P03")
"""Too many connections, lock not available, time-out of a statement, of a transaction that did nothing."""
_OURS: Final = "22"
"""The class of values that no column takes."""


class Undone(Temporary):
    """A transaction was undone because of another one; the same may be done again at once."""


def open_server(server: Server, connections: int) -> Engine:
    """Return the engine of a database on a server; it opens at most so many connections."""
    connect = _driver().connect
    given = {**CONNECTION, **server.parameters()}
    engine = create_engine(
        URL.create("postgresql+psycopg", database=given.get("dbname")),
        creator=lambda: connect(**given),
        pool_size=connections,
        max_overflow=0,
        pool_timeout=POOL_SECONDS,
        pool_pre_ping=True,
        pool_use_lifo=True,
        use_native_hstore=False,
    )
    event.listen(engine, "connect", _prepare)
    return engine


def without_limits(connection: Connection) -> None:
    """Let a transaction take the time that it needs; the connection is not to be used for another one."""
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
    driver: Any = connection.connection.driver_connection
    driver.patience = None


def planned_anew(connection: Connection) -> None:
    """Let every statement of a transaction be planned by its values, and not be compiled: it runs once."""
    connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off")


def fault(engine: Engine, error: DBAPIError) -> Temporary | None:
    """Return what an error of the driver means; None if it is a mistake of ours, which nobody waits out.

    What the server said goes to the log and not into the message: it tells where the server is.
    """
    state = getattr(error.orig, "sqlstate", None) or ""
    if state.startswith(_OURS):
        return None
    LOG.warning("database: %s", " ".join(str(error.orig).split()))
    name = engine.url.database
    if state in _FULL:
        return NoSpace(
            "disk_full",
            f"no space is left for the database `{name}`",
            hint="the registry's operator must free some space",
        )
    if state in _LOST:
        return Undone("database_busy", f"another change of the database `{name}` came first")
    if state in _BUSY:
        return Temporary("database_busy", f"the database `{name}` has too much to do")
    return Temporary(
        "store_unavailable",
        f"the database `{name}` cannot be used now",
        hint="the registry's log has the reason",
    )


def _driver() -> type[Driver]:
    """Return the driver's connection, but one that does not wait for ever for a server that hangs."""
    from psycopg import Connection, OperationalError  # noqa: PLC0415 - only who uses PostgreSQL has it

    class Impatient(Connection[Any]):
        patience: float | None = ANSWER_SECONDS

        def wait(
            self, gen: PQGen[Answer], interval: float = WAKE_SECONDS, timeout: float | None = None
        ) -> Answer:
            if timeout is not None:
                return super().wait(gen, interval, timeout)
            try:
                return super().wait(gen, interval, self.patience)
            except OperationalError as error:
                if error.sqlstate is None:  # not the server has said so: what it still does is not known
                    self.close()
                raise

    return Impatient


def _prepare(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(
        f"SET lock_timeout = '{LOCK_SECONDS}s'; SET statement_timeout = '{STATEMENT_SECONDS}s'; "
        f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'; "
        "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; "
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()
