"""`Leftovers` in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine, delete, insert, select

from plugreg_registry.metadata.database import alone, reading, writing
from plugreg_registry.metadata.tables import LEFTOVERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class DatabaseLeftovers:
    """The objects that the index does not name any more."""

    engine: Engine

    def add(self, keys: Sequence[str], at: datetime) -> None:
        """See `Leftovers.add`."""
        rows = [{"key": key, "at": int(at.timestamp())} for key in dict.fromkeys(keys)]
        if not rows:
            return
        with writing(self.engine) as connection:
            alone(connection, "leftovers")
            for row in rows:
                connection.execute(delete(LEFTOVERS).where(LEFTOVERS.c.key == row["key"]))
            connection.execute(insert(LEFTOVERS), rows)

    def old(self, before: datetime, limit: int = 1000) -> Sequence[str]:
        """See `Leftovers.old`."""
        with reading(self.engine) as connection:
            old = select(LEFTOVERS.c.key).where(LEFTOVERS.c.at <= int(before.timestamp()))
            return tuple(connection.execute(old.order_by(LEFTOVERS.c.at).limit(limit)).scalars())

    def remove(self, keys: Sequence[str]) -> None:
        """See `Leftovers.remove`."""
        with writing(self.engine) as connection:
            alone(connection, "leftovers")
            for key in keys:
                connection.execute(delete(LEFTOVERS).where(LEFTOVERS.c.key == key))
