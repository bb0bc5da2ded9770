"""Locks between machines, by name: advisory locks of the PostgreSQL server that they share.

    the machine's own lock > a lock of the server > ... > the server's lock given back > the machine's own

The machine's own lock keeps threads and processes of one machine apart, so each process needs one connection
for all its locks, and only while it holds one. It asks again and again instead of waiting in the server:
somebody else's wait must not keep it from giving back. The server frees the locks of a process that ended,
and of a machine that is gone. So it does when the connection is lost: then two may do what was locked, and
the rules of the tables and of the store still let one of them win.
"""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from plugreg_registry.metadata.database import faults
from plugreg_schemas.errors import Temporary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection, Engine

    from plugreg_registry.ports import Lock, LockPurpose

LOG: Final = logging.getLogger("plugreg.registry.database")
POLL_SECONDS: Final = 0.03
"""About how long it takes between two looks."""
PATIENCE: Final[Mapping[LockPurpose, float]] = {"session": 30.0, "object": 30.0, "index": 900.0}
"""Seconds for which another machine is waited for: much longer than it needs. A start may migrate."""
TURN_SECONDS: Final = 20.0
"""How long a thread waits for the one connection: longer than a server may say nothing."""


class ServerLocks:
    """The locks of a registry whose records are on a server. `local` are those of this machine."""

    def __init__(self, engine: Engine, local: Lock) -> None:
        self._engine = engine
        self._local = local
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._held: set[int] = set()

    @contextmanager
    def __call__(self, purpose: LockPurpose, name: str) -> Iterator[None]:
        """See `Lock`.

        Raises:
            Temporary: `database_busy`: another machine holds it for too long; `store_unavailable`.
        """
        number = _number(f"{purpose} {name}")
        with self._local(purpose, name):
            self._take(number, PATIENCE[purpose])
            try:
                yield
            finally:
                self._give_back(number)

    def _take(self, number: int, patience: float) -> None:
        end = time.monotonic() + patience
        while not self._try(number):
            if time.monotonic() > end:
                raise _busy("another machine has been at the same for too long")
            time.sleep(POLL_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - no secret

    def _try(self, number: int) -> bool:
        with self._connected() as connection:
            taken: bool = connection.execute(select(func.pg_try_advisory_lock(number))).scalar_one()
            if taken:
                self._held.add(number)
            return taken

    def _give_back(self, number: int) -> None:
        """Give a lock back. What was done under it is done, so a failure is only noted."""
        if number not in self._held:  # it was lost with its connection
            return
        try:
            with self._connected() as connection:
                connection.execute(select(func.pg_advisory_unlock(number)))
                self._held.discard(number)
        except Temporary as error:
            LOG.warning("a lock was lost: %s", error)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Give this thread the connection. One that fails is dropped, and the server frees its locks."""
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise _busy("too many requests wait for the database")
        try:
            with faults(self._engine):
                self._connection = self._connection or self._engine.connect().execution_options(
                    isolation_level="AUTOCOMMIT"
                )
                yield self._connection
            if not self._held:
                self._connection.close()  # back to the others, without a lock
                self._connection = None
        except BaseException:
            self._drop()
            raise
        finally:
            self._turn.release()

    def _drop(self) -> None:
        self._held.clear()
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"plugreg lock {name}".encode()).digest()[:8], signed=True)


def _busy(message: str) -> Temporary:
    return Temporary("database_busy", message, hint="try again in a minute")
