"""`Tokens` in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, delete, insert, or_, select, update

from plugreg_registry.metadata.database import reading, writing
from plugreg_registry.metadata.tables import TOKENS
from plugreg_registry.records import Token

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row


@dataclass(frozen=True, slots=True)
class DatabaseTokens:
    """Who may read."""

    engine: Engine

    def add(self, token: Token) -> None:
        """See `Tokens.add`."""
        row = {
            "id": token.id,
            "name": token.name,
            "scope": token.scope,
            "hash": token.hash,
            "created": int(token.created.timestamp()),
            "expires": int(token.expires.timestamp()) if token.expires else None,
        }
        with writing(self.engine) as connection:
            connection.execute(insert(TOKENS).values(**row))

    def remove(self, token: str) -> bool:
        """See `Tokens.remove`."""
        with writing(self.engine) as connection:
            return connection.execute(delete(TOKENS).where(TOKENS.c.id == token)).rowcount > 0

    def all(self) -> Sequence[Token]:
        """See `Tokens.all`."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.id))
            return tuple(_token(row) for row in rows)

    def note_uses(self, times: Mapping[str, datetime]) -> None:
        """See `Tokens.note_uses`."""
        if not times:
            return
        with writing(self.engine) as connection:
            for token, at in sorted(times.items()):
                used = int(at.timestamp())
                older = or_(TOKENS.c.used.is_(None), TOKENS.c.used < used)
                connection.execute(update(TOKENS).where(TOKENS.c.id == token, older).values(used=used))


def _token(row: Row[Any]) -> Token:
    return Token(
        row.id, row.name, row.scope, row.hash, _time(row.created), _maybe(row.expires), _maybe(row.used)
    )


def _maybe(seconds: int | None) -> datetime | None:
    return None if seconds is None else _time(seconds)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
