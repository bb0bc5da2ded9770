"""`Journal` in the database: the audit part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Engine, func, insert, select

from plugreg_registry.metadata.database import alone, reading, writing
from plugreg_registry.metadata.tables import AUDIT
from plugreg_registry.records import AuditEntry
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class DatabaseJournal:
    """What was accepted."""

    engine: Engine

    def record(self, entries: Sequence[AuditEntry]) -> None:
        """See `Journal.record`."""
        with reading(self.engine) as connection:
            new = _new(connection, entries)
        if not new:
            return
        with writing(self.engine) as connection:
            alone(connection, "audit")
            last = connection.execute(select(func.max(AUDIT.c.serial))).scalar() or 0
            for serial, entry in enumerate(_new(connection, entries), last + 1):
                row = {
                    "serial": serial,
                    "digest": str(entry.digest),
                    "at": format_time(entry.at),
                    "action": entry.action,
                    "plugin": entry.plugin,
                    "version": entry.version,
                    "signer": entry.signer,
                }
                connection.execute(insert(AUDIT).values(**row))

    def read(self, after: int = 0, limit: int = 100) -> Sequence[tuple[int, AuditEntry]]:
        """See `Journal.read`."""
        with reading(self.engine) as connection:
            newer = select(AUDIT).where(AUDIT.c.serial > after).order_by(AUDIT.c.serial).limit(limit)
            return tuple(
                (
                    row.serial,
                    AuditEntry(
                        Digest(row.digest),
                        datetime.fromisoformat(row.at),
                        row.action,
                        row.plugin,
                        row.version,
                        row.signer,
                    ),
                )
                for row in connection.execute(newer)
            )

    def newest(self) -> int:
        """See `Journal.newest`."""
        with reading(self.engine) as connection:
            return connection.execute(select(func.max(AUDIT.c.serial))).scalar() or 0


def _new(connection: Connection, entries: Sequence[AuditEntry]) -> Sequence[AuditEntry]:
    plugins = {entry.plugin for entry in entries}
    there = set(connection.execute(select(AUDIT.c.digest).where(AUDIT.c.plugin.in_(plugins))).scalars())
    return tuple({entry.digest: entry for entry in entries if entry.digest not in there}.values())
