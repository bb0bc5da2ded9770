"""`Search` in the database: from the index of the words, or along the order of what is shown.

What few plugins meet is read from the index of the words and then sorted. What many meet is read along their
order, level by level, and the first rows soon suffice. So neither costs more where there are more plugins.
Which of the two it is, a look at `FEW` entries of the index tells: no statistics have a say in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    Engine,
    and_,
    case,
    cast,
    column,
    delete,
    func,
    insert,
    literal,
    literal_column,
    not_,
    or_,
    select,
    table,
    tuple_,
)
from sqlalchemy.dialects.postgresql import TSQUERY

from plugreg_registry.metadata.database import alone, planned_anew, reading, writing
from plugreg_registry.metadata.matching import kept_words, match_query, meets, text_query
from plugreg_registry.metadata.tables import PLUGINS, SEARCH
from plugreg_registry.records import Hit, Place
from plugreg_schemas.search import Every, names_between

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from plugreg_registry.records import Lookup, SearchRow, SearchSort
    from plugreg_schemas.search import Condition

FEW: Final = 1000
"""Plugins that are sorted at most for one question."""

_ORDERS: Final[Mapping[SearchSort, tuple[str, ...]]] = {
    "relevance": ("standing", "name"),
    "name": ("name",),
    "updated": ("age", "name"),
}
_SHOWN: Final = (SEARCH.c.standing, SEARCH.c.age, SEARCH.c.name, SEARCH.c.shown)
_NOTHING: Final = Every(())
"""The condition that says nothing."""
_FTS5: Final = table("search_words", column("rowid"))


@dataclass(frozen=True, slots=True)
class DatabaseSearch:
    """What plugins are found by."""

    engine: Engine

    def keep(self, rows: Sequence[SearchRow]) -> None:
        """See `Search.keep`."""
        if not rows:
            return
        names = [row.name for row in rows]
        known = select(SEARCH.c.name, SEARCH.c.id, SEARCH.c.made, SEARCH.c.revision)
        with writing(self.engine) as connection:
            alone(connection, "search")
            present = {row.name: row for row in connection.execute(known.where(SEARCH.c.name.in_(names)))}
            free = (connection.execute(select(func.max(SEARCH.c.id))).scalar() or 0) + 1
            for row in rows:
                there = present.get(row.name)
                if there is None:
                    connection.execute(insert(SEARCH).values(**_stored(row, free)))
                    free += 1
                elif there.made <= row.made and there.revision <= row.revision:
                    connection.execute(delete(SEARCH).where(SEARCH.c.id == there.id))
                    connection.execute(insert(SEARCH).values(**_stored(row, there.id)))

    def behind(self, made: int, limit: int) -> Sequence[str]:
        """See `Search.behind`."""
        late = or_(SEARCH.c.id.is_(None), SEARCH.c.revision < PLUGINS.c.indexed, SEARCH.c.made < made)
        names = select(PLUGINS.c.name).outerjoin(SEARCH, SEARCH.c.name == PLUGINS.c.name)
        wanted = names.where(PLUGINS.c.indexed > 0, late).order_by(PLUGINS.c.name).limit(limit)
        with reading(self.engine) as connection:
            return tuple(connection.execute(wanted).scalars())

    def find(self, lookup: Lookup) -> Sequence[Hit]:
        """See `Search.find`."""
        hits: list[Hit] = []
        with reading(self.engine) as connection:
            planned_anew(connection)
            for rows in _statements(connection, lookup):
                found = connection.execute(rows.limit(lookup.limit - len(hits)))
                hits += map(_hit, found)
                if len(hits) == lookup.limit:
                    break
        return hits


def _stored(row: SearchRow, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": row.name,
        "revision": row.revision,
        "made": row.made,
        "standing": row.standing,
        "age": row.age,
        "words": kept_words(row.lexemes),
        "shown": row.shown,
    }


def _hit(row: Row[Any]) -> Hit:
    return Hit(Place(row.level, row.standing, row.age, row.name), row.shown)


def _statements(connection: Connection, lookup: Lookup) -> Iterator[Select[Any]]:
    """Yield what to read, one after the other until there is enough; nothing is in two of them."""
    first = lookup.after.level if lookup.after else 0
    levels = [(number, level) for number, level in enumerate(lookup.levels) if number >= first]
    if len(levels) > 1:
        every = _index(connection, levels[-1][1])
        if _has_few(connection, every):
            yield _sorted(lookup, first, levels[-1][0], every)
            return
    for number, level in levels:
        index = None if level == _NOTHING else _index(connection, level)
        if index is not None and _has_few(connection, index):
            yield _sorted(lookup, number, number, index)
        else:
            yield from _along(lookup, number)


def _index(connection: Connection, level: Condition) -> Select[Any]:
    """Return the ids of the rows that meet a condition, by the index of the words."""
    if connection.dialect.name == "postgresql":
        lexemes: ColumnElement[Any] = literal_column("search.lexemes")
        return select(SEARCH.c.id).where(lexemes.op("@@")(cast(text_query(level), TSQUERY)))
    return select(_FTS5.c.rowid).where(literal_column("search_words").op("MATCH")(match_query(level)))


def _has_few(connection: Connection, index: Select[Any]) -> bool:
    looked_at = index.limit(FEW + 1).subquery()
    return connection.execute(select(func.count()).select_from(looked_at)).scalar_one() <= FEW


def _sorted(lookup: Lookup, first: int, last: int, index: Select[Any]) -> Select[Any]:
    """Return those rows of an index that are on the levels from `first` to `last`, in their order."""
    on_level = case(*((meets(SEARCH.c.words, lookup.levels[n]), n) for n in range(last + 1)))
    rows = select(*_SHOWN, on_level.label("level")).where(
        SEARCH.c.id.in_(index.limit(FEW)), _plainly(SEARCH.c.standing).in_(lookup.standings)
    )
    found = rows.subquery()
    order = [found.c[name] for name in ("level", *_ORDERS[lookup.sort])]
    ranked = select(found).where(found.c.level >= first).order_by(*order)
    return ranked if lookup.after is None else ranked.where(_is_after(lookup.after, order))


def _along(lookup: Lookup, number: int) -> Iterator[Select[Any]]:
    """Yield the rows on one level along an index of their order, those that stand equally at a time."""
    order = [SEARCH.c[name] for name in _ORDERS[lookup.sort]]
    rows = select(*_SHOWN, literal(number).label("level")).where(_is_on(lookup, number)).order_by(*order)
    after = lookup.after if lookup.after is not None and lookup.after.level == number else None
    if lookup.sort != "relevance":
        plain = rows.where(_plainly(SEARCH.c.standing).in_(lookup.standings))
        yield plain if after is None else plain.where(_is_after(after, order))
        return
    first, last = names_between(lookup.levels[number])
    for standing in lookup.standings:
        if after is not None and standing < after.standing:
            continue
        start = max(first, after.name) if after is not None and standing == after.standing else first
        begun = SEARCH.c.name > start if start != first else SEARCH.c.name >= start
        yield rows.where(SEARCH.c.standing == standing, begun, SEARCH.c.name < last)


def _is_on(lookup: Lookup, number: int) -> ColumnElement[bool]:
    """Whether a row meets a level, and not the one before."""
    here = meets(SEARCH.c.words, lookup.levels[number])
    return and_(here, not_(meets(SEARCH.c.words, lookup.levels[number - 1]))) if number else here


def _is_after(place: Place, order: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    at = [literal(getattr(place, key.key or ""), key.type) for key in order]
    return tuple_(*order) > tuple_(*at)


def _plainly(number: ColumnElement[int]) -> ColumnElement[int]:
    """Return a number as no index has it: another index is the right one."""
    return number + 0
