"""The rows of the tables as plain values, the same whatever the database: for copies that outlive it.

A row is an object of JSON by the names of its columns; bytes are base64. What is made again by itself, and
what belongs to processes that run now, is left away.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import LargeBinary, Table, insert, select

from plugreg_registry.metadata.database import reading, without_limits, writing
from plugreg_registry.metadata.tables import LEASES, LEFTOVERS, METADATA, REGISTRY, SEARCH, SESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection, Engine

    Row = Mapping[str, Any]

PASSING: Final = (SESSIONS, LEASES, LEFTOVERS, SEARCH)
"""Tables that are left away."""
KEPT: Final = {table.name: table for table in METADATA.sorted_tables if table not in PASSING}
"""Tables that are copied, in the order in which they refer to each other."""
AT_ONCE: Final = 500


def read_tables(engine: Engine) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield each table and its rows, all of one moment. Rows are to be read before the next table."""
    with reading(engine) as connection:
        without_limits(connection)
        for name, table in KEPT.items():
            yield name, _read(connection, table)


def holds_registry(engine: Engine) -> bool:
    """Whether there is the row that says who a registry is."""
    with reading(engine) as connection:
        return connection.execute(select(REGISTRY.c.id)).scalar() is not None


def write_tables(engine: Engine, tables: Mapping[str, Iterable[Row]]) -> None:
    """Write rows into empty tables, in one transaction.

    Raises:
        KeyError, ValueError: a table or a row is none of this version.
    """
    with writing(engine) as connection:
        without_limits(connection)
        for name, table in KEPT.items():
            _write(connection, table, tables.get(name, ()))


def _read(connection: Connection, table: Table) -> Iterator[Row]:
    columns = [column.name for column in table.columns]
    binary = _binary(table)
    found = connection.execution_options(yield_per=AT_ONCE).execute(
        select(table).order_by(*table.primary_key.columns)
    )
    for row in found:
        values = dict(zip(columns, row, strict=True))
        yield {
            name: _text(value) if name in binary and value is not None else value
            for name, value in values.items()
        }


def _write(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    names, binary = {column.name for column in table.columns}, _binary(table)
    batch: list[dict[str, Any]] = []
    for row in rows:
        if unknown := row.keys() - names:
            raise ValueError(f"the table {table.name} has no column {min(unknown)}")
        batch.append(
            {
                name: base64.b64decode(value, validate=True)
                if name in binary and value is not None
                else value
                for name, value in row.items()
            }
        )
        if len(batch) == AT_ONCE:
            connection.execute(insert(table), batch)
            batch = []
    if batch:
        connection.execute(insert(table), batch)


def _binary(table: Table) -> frozenset[str]:
    return frozenset(column.name for column in table.columns if isinstance(column.type, LargeBinary))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
