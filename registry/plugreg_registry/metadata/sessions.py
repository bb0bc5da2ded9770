"""`Sessions` in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Engine, delete, func, insert, select

from plugreg_registry.metadata.database import alone, reading, writing
from plugreg_registry.metadata.tables import SESSIONS
from plugreg_registry.records import UploadSession

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class DatabaseSessions:
    """The publishes that wait for their bytes."""

    engine: Engine

    def add(self, session: UploadSession) -> None:
        """See `Sessions.add`."""
        row = {
            "id": session.id,
            "envelope": session.envelope,
            "public_key": session.public_key,
            "size": session.size,
            "claims": session.claims,
            "expires": int(session.expires.timestamp()),
            "signer": session.signer,
            "provenance": session.provenance,
        }
        newest = select(func.max(SESSIONS.c.serial)).where(SESSIONS.c.signer == session.signer)
        with writing(self.engine) as connection:
            alone(connection, f"sessions of {session.signer}")
            serial = (connection.execute(newest).scalar() or 0) + 1
            connection.execute(insert(SESSIONS).values(**row, serial=serial))

    def find(self, session: str) -> UploadSession | None:
        """See `Sessions.find`."""
        with reading(self.engine) as connection:
            row = connection.execute(select(SESSIONS).where(SESSIONS.c.id == session)).one_or_none()
        if row is None:
            return None
        expires = datetime.fromtimestamp(row.expires, UTC)
        return UploadSession(
            row.id,
            row.envelope,
            row.public_key,
            row.size,
            row.claims,
            expires,
            row.signer,
            row.provenance or b"",
        )

    def remove(self, session: str) -> None:
        """See `Sessions.remove`."""
        with writing(self.engine) as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.id == session))

    def of(self, signer: str) -> Sequence[str]:
        """See `Sessions.of`."""
        with reading(self.engine) as connection:
            theirs = select(SESSIONS.c.id).where(SESSIONS.c.signer == signer)
            return tuple(connection.execute(theirs.order_by(SESSIONS.c.serial)).scalars())

    def expired(self, now: datetime) -> Sequence[str]:
        """See `Sessions.expired`."""
        with reading(self.engine) as connection:
            over = select(SESSIONS.c.id).where(SESSIONS.c.expires <= int(now.timestamp()))
            return tuple(connection.execute(over.order_by(SESSIONS.c.id)).scalars())
