"""`Lease` in the database: one row, taken by whoever finds it free or over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import Engine, insert, select, update

from plugreg_registry.metadata.database import alone, milliseconds, reading, writing
from plugreg_registry.metadata.tables import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

LEASE_SECONDS: Final = 8.0
"""Less than a publish waits for the index, so the death of another machine's publisher is waited out by it.

A holder who is slower loses nothing: the store takes only the state that follows the one it has.
"""
_INDEX: Final = "index"


@dataclass(frozen=True, slots=True)
class DatabaseLease:
    """The lease on publishing the index, as one holder sees it."""

    engine: Engine
    holder: str
    may_live: Callable[[str], bool]
    """Whether a holder may still be at work; True where that cannot be known."""
    seconds: float = LEASE_SECONDS

    def take(self) -> int | None:
        """See `Lease.take`."""
        with reading(self.engine) as connection:
            if self._held(connection):
                return None
        with writing(self.engine) as connection:
            alone(connection, "lease")
            if self._held(connection):
                return None
            token = connection.execute(select(LEASES.c.token).where(LEASES.c.name == _INDEX)).scalar()
            row = {"holder": self.holder, "token": (token or 0) + 1, "expires": self._end(connection)}
            if token is None:
                connection.execute(insert(LEASES).values(name=_INDEX, **row))
            else:
                connection.execute(update(LEASES).where(LEASES.c.name == _INDEX).values(**row))
            return int(row["token"])

    def release(self, token: int) -> None:
        """See `Lease.release`."""
        mine = (LEASES.c.name == _INDEX, LEASES.c.holder == self.holder, LEASES.c.token == token)
        with writing(self.engine) as connection:
            connection.execute(update(LEASES).where(*mine).values(holder="", expires=0))

    def _held(self, connection: Connection) -> bool:
        """Whether another holds the lease and may be at work.

        None ends later than a lease from now on: the clock has gone back, and it is over.
        """
        row = connection.execute(select(LEASES).where(LEASES.c.name == _INDEX)).one_or_none()
        return (
            row is not None
            and row.holder not in {"", self.holder}
            and 0 < row.expires - milliseconds(connection) <= int(max(self.seconds, LEASE_SECONDS) * 1000)
            and self.may_live(row.holder)
        )

    def _end(self, connection: Connection) -> int:
        return milliseconds(connection) + int(self.seconds * 1000)
