"""The question of `GET /v1/plugins`: which plugins, in which order, from where on.

    q                                        words; a plugin is found by the beginnings of its words
    runtime, language, host, tool, skill     what its latest version has, or who can use something of it
    status                                   active, deprecated
    sort                                     relevance, name, updated
    limit, cursor                            plugins on a page; `next` of the page before

A cursor is the place where a page ended, so plugins that come or go do not move what follows. It belongs to
one question: the others have another order.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from plugreg_registry.records import ACTIVE, DEPRECATED, Lookup, Place, SearchSort
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Boundary, Collector, InvalidInput, UsageError
from plugreg_schemas.names import Digest, PluginName, quoted
from plugreg_schemas.search import FACETS, Wanted, levels, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_PAGE: Final = 100
DEFAULT_PAGE: Final = 20
SORTS: Final[tuple[SearchSort, ...]] = get_args(SearchSort)
STATUSES: Final = {"active": (ACTIVE,), "deprecated": (DEPRECATED,)}
PARAMETERS: Final = ("q", *FACETS, "status", "sort", "limit", "cursor")
_CHOICES: Final[Mapping[str, Sequence[str]]] = {"status": tuple(STATUSES), "sort": SORTS}
_MARK: Final = 12
"""Hexadecimal digits by which a cursor knows its question."""
_MOST: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """What is asked; `mark` stands for the question without its cursor and limit."""

    lookup: Lookup
    mark: str


def read_search(query: Iterable[tuple[str, str]]) -> SearchQuestion:
    """Read the parameters of a query, in any order; an empty one counts as not given.

    Raises:
        UsageError: `question_invalid`, or the one code of all faults: `parameter_unknown`,
        `parameter_repeated`, `parameter_invalid`, `runtime_unknown`, `language_unknown`, `host_unknown`,
        `search_too_long`, `limit_too_large`, `cursor_invalid`.
    """
    faults = Collector("question_invalid", "the question is not valid")
    words = _checked(_words(query, faults), faults)
    conditions = _levels(words, faults)
    sort = next((sort for sort in SORTS if sort == words.get("sort")), SORTS[0])
    lookup = Lookup(
        conditions if sort == "relevance" else conditions[-1:],
        sort,
        STATUSES.get(words.get("status", ""), (ACTIVE, DEPRECATED)),
        _limit(words.get("limit", ""), faults),
    )
    question = SearchQuestion(lookup, _mark(words))
    place = _place(words.get("cursor", ""), question, faults)
    faults.raise_if_any(UsageError, hint=f"parameters are {', '.join(PARAMETERS)}")
    return SearchQuestion(Lookup(lookup.levels, sort, lookup.standings, lookup.limit, place), question.mark)


def cursor_at(place: Place, mark: str) -> str:
    """Return the cursor of what comes after a place."""
    content = canonical_json([mark, place.level, place.standing, place.age, place.name])
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _words(query: Iterable[tuple[str, str]], faults: Collector) -> dict[str, str]:
    words: dict[str, str] = {}
    for key, value in query:
        if key not in PARAMETERS:
            _fault(faults, "parameter_unknown", f"{quoted(key)} is not a parameter")
        elif key in words:
            _fault(faults, "parameter_repeated", f"`{key}` takes one value")
        elif value.strip():
            words[key] = value.strip()
    return words


def _checked(words: Mapping[str, str], faults: Collector) -> dict[str, str]:
    """Return the words as they are usually spelled, after looking whether they are among what is known."""
    checked = dict(words)
    for key, value in words.items():
        choices = _CHOICES.get(key, (value,))
        if value not in choices:
            _fault(faults, "parameter_invalid", f"`{key}` is {' or '.join(choices)}, not {quoted(value)}")
        try:
            checked[key] = spelled(key, value) if key in FACETS else value
        except UsageError as error:
            _fault(faults, error.code, f"`{key}`: {error.message}; {error.hint}".removesuffix("; "))
    return checked


def _levels(words: Mapping[str, str], faults: Collector) -> tuple[Any, ...]:
    try:
        return levels(Wanted(words.get("q", ""), **{key: words.get(key, "") for key in FACETS}))
    except UsageError as error:
        _fault(faults, error.code, f"`q`: {error.message}")
        return ()


def _limit(text: str, faults: Collector) -> int:
    if not text:
        return DEFAULT_PAGE
    if not (text.isascii() and text.isdecimal() and text.lstrip("0")):
        _fault(faults, "parameter_invalid", f"`limit` is a number from 1 to {MAX_PAGE}")
    elif len(text.lstrip("0")) > len(str(MAX_PAGE)) or int(text) > MAX_PAGE:
        _fault(faults, "limit_too_large", f"`limit` is at most {MAX_PAGE}; `next` leads to the next page")
    else:
        return int(text)
    return DEFAULT_PAGE


def _mark(words: Mapping[str, str]) -> str:
    asked = {key: value for key, value in words.items() if key not in {"cursor", "limit"}}
    return Digest.of(canonical_json(asked)).hex[:_MARK]


def _place(text: str, question: SearchQuestion, faults: Collector) -> Place | None:
    """Return the place in a cursor; only what `cursor_at` makes for this question is one."""
    if not text:
        return None
    place = _decoded(text)
    lookup = question.lookup
    if (
        place is not None
        and place.level in range(len(lookup.levels))
        and place.standing in lookup.standings
        and abs(place.age) < _MOST
        and cursor_at(place, question.mark) == text
    ):
        return place
    _fault(faults, "cursor_invalid", "`cursor` is not one that this registry has given for this question")
    return None


def _decoded(text: str) -> Place | None:
    try:
        _, level, standing, age, name = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return Place(int(level), int(standing), int(age), PluginName(str(name)))
    except (ValueError, TypeError, OverflowError, RecursionError, InvalidInput):
        return None


def _fault(faults: Collector, code: str, message: str) -> None:
    faults.add(code, message, boundary=Boundary.REGISTRY)
