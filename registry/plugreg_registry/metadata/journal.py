"""`Journal` in the database: the audit part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Engine, insert, select

from plugreg_registry.metadata.database import reading, writing
from plugreg_registry.metadata.tables import AUDIT
from plugreg_registry.records import AuditEntry
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class DatabaseJournal:
    """What was accepted."""

    engine: Engine

    def record(self, entries: Sequence[AuditEntry]) -> None:
        """See `Journal.record`."""
        with writing(self.engine) as connection:
            for entry in entries:
                there = connection.execute(select(AUDIT.c.serial).where(AUDIT.c.digest == str(entry.digest)))
                if there.first() is None:
                    row = {
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
