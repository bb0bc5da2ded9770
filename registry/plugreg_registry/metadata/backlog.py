"""`Backlog` in the database: what the index shows trails what the records say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine, bindparam, func, select, update

from plugreg_registry.metadata.database import alone, reading, writing
from plugreg_registry.metadata.tables import PLUGINS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class DatabaseBacklog:
    """How far the index is behind."""

    engine: Engine

    def waiting(self, limit: int) -> Sequence[str]:
        """See `Backlog.waiting`."""
        with reading(self.engine) as connection:
            behind = select(PLUGINS.c.name).where(PLUGINS.c.indexed < PLUGINS.c.revision)
            return tuple(connection.execute(behind.order_by(PLUGINS.c.name).limit(limit)).scalars())

    def shows(self, name: str, revision: int) -> bool:
        """See `Backlog.shows`."""
        with reading(self.engine) as connection:
            found = connection.execute(select(PLUGINS.c.indexed).where(PLUGINS.c.name == name)).scalar()
        return found is not None and found >= revision

    def mark(self, shown: Mapping[str, int]) -> None:
        """See `Backlog.mark`."""
        rows = [{"shown_name": name, "shown": revision} for name, revision in shown.items()]
        if not rows:
            return
        behind = (PLUGINS.c.name == bindparam("shown_name"), PLUGINS.c.indexed < bindparam("shown"))
        with writing(self.engine) as connection:
            alone(connection, "backlog")
            connection.execute(update(PLUGINS).where(*behind).values(indexed=bindparam("shown")), rows)

    def again(self, names: Sequence[str] | None = None) -> None:
        """See `Backlog.again`."""
        with writing(self.engine) as connection:
            alone(connection, "backlog")
            if names is None:
                connection.execute(update(PLUGINS).values(indexed=0))
            for name in names or ():
                connection.execute(update(PLUGINS).where(PLUGINS.c.name == name).values(indexed=0))

    def plugins(self) -> int:
        """See `Backlog.plugins`."""
        with reading(self.engine) as connection:
            return connection.execute(select(func.count()).select_from(PLUGINS)).scalar_one()
