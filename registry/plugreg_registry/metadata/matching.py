"""Conditions of a search in the languages of the databases: all three say the same.

match_query    FTS5: `"n:git" * AND ("n:hub" * OR "d:hub" *)`
text_query     PostgreSQL: `'n:git':* & ('n:hub':* | 'd:hub':*)`
meets          SQL on the words themselves, for what an index is of no use

No lexeme has a quote or a space in it (`plugreg_schemas.search`), so none can end its own quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, and_, literal, or_, true
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from plugreg_schemas.search import Either, Every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import ColumnElement
    from sqlalchemy.sql.compiler import SQLCompiler

    from plugreg_schemas.search import Condition, Lexeme


class _Place(GenericFunction[int]):
    """Where one text stands in another, 0 if it does not; `instr` on SQLite, `strpos` on PostgreSQL."""

    type = Integer()
    inherit_cache = True
    name = "instr"


@compiles(_Place, "postgresql")
def _strpos(element: _Place, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - of the compiler
    return f"strpos({compiler.process(element.clauses, **options)})"


def kept_words(lexemes: Iterable[str]) -> str:
    """Return lexemes as one text, each with a space before and behind it."""
    return f" {' '.join(lexemes)} "


def match_query(condition: Condition) -> str:
    """Return a condition as a query of FTS5. It must have parts."""
    return _joined(condition, " AND ", " OR ", lambda one: f'"{one.text}"{" *" * one.begins}')


def text_query(condition: Condition) -> str:
    """Return a condition as a `tsquery` of PostgreSQL. It must have parts."""
    return _joined(condition, " & ", " | ", lambda one: f"'{one.text}'{':*' * one.begins}")


def meets(kept: ColumnElement[str], condition: Condition) -> ColumnElement[bool]:
    """Return a condition as SQL on the text that `kept_words` made."""
    if isinstance(condition, Every):
        return and_(true(), *(meets(kept, part) for part in condition.parts))
    if isinstance(condition, Either):
        return or_(*(meets(kept, part) for part in condition.parts))
    end = "" if condition.begins else " "
    return _Place(kept, literal(f" {condition.text}{end}")) > 0


def _joined(condition: Condition, every: str, either: str, one: Callable[[Lexeme], str]) -> str:
    if isinstance(condition, Every | Either):
        sign = every if isinstance(condition, Every) else either
        return sign.join(f"({_joined(part, every, either, one)})" for part in condition.parts)
    return one(condition)
