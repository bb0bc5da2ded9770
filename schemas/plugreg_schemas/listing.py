"""What a host shows when it lists plugins: one short row for each, on pages that are known by their digest.

    index/catalog.json             which pages there are; signed, as a target of the index
    index/catalog/<sha256>.json    a page of rows; never changes

Rows are ordered by name. Deprecated plugins come after all others; quarantined and removed ones have no row.
A page ends where the hash of its last name says so: one plugin more changes one page and not all that follow.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from plugreg_schemas.fields import DigestField, NameField, Open, VersionField
from plugreg_schemas.runtimes import RuntimeName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE_ROWS: Final = 500
"""Rows on a page, at most."""
PAGES_FOLDER: Final = "catalog"
MAX_LINE: Final = 200
"""Characters of a description in a row."""
_ENDS_PAGE: Final = 256
"""One name in so many ends a page."""


class Listed(Open):
    """A plugin in the list: its newest version, and what kinds of runtime that has."""

    name: NameField
    latest: VersionField
    description: Annotated[str, Field(max_length=MAX_LINE)] = ""
    runtimes: tuple[RuntimeName, ...] = ()
    status: Literal["active", "deprecated"] = "active"


class ListingPage(Open):
    """`index/catalog/<sha256>.json`."""

    api_version: Annotated[Literal["1"], Field(alias="api-version")] = "1"
    plugins: Annotated[tuple[Listed, ...], Field(max_length=PAGE_ROWS)]


class PageRef(Open):
    """A page: its path relative to `/index/`, digest and size, and the names of its first and last row."""

    path: str
    digest: DigestField
    size: Annotated[int, Field(ge=0)]
    first: NameField
    last: NameField


class Listing(Open):
    """`index/catalog.json`: how many plugins are listed, and on which pages."""

    api_version: Annotated[Literal["1"], Field(alias="api-version")] = "1"
    plugins: Annotated[int, Field(ge=0)]
    pages: tuple[PageRef, ...]


def page_path(hex_digest: str) -> str:
    """Return the path of a page, relative to `/index/`."""
    return f"{PAGES_FOLDER}/{hex_digest}.json"


def one_line(text: str) -> str:
    r"""Return the beginning of a description as one line.

    >>> one_line("Finds  files.\n\nAnd more.")
    'Finds files.'
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    shown = " ".join("".join(c if c.isprintable() else " " for c in first).split())
    return shown if len(shown) <= MAX_LINE else shown[: MAX_LINE - 3] + "..."


def in_pages(rows: Iterable[Listed]) -> Iterator[tuple[Listed, ...]]:
    """Yield the pages of a list: active plugins by name, then deprecated ones by name."""
    page: list[Listed] = []
    for row in sorted(rows, key=lambda row: (row.status == "deprecated", row.name)):
        if page and (len(page) == PAGE_ROWS or _ends_page(page[-1]) or page[-1].status != row.status):
            yield tuple(page)
            page = []
        page.append(row)
    if page:
        yield tuple(page)


def _ends_page(row: Listed) -> bool:
    return int.from_bytes(hashlib.sha256(row.name.encode()).digest()[:4], "big") % _ENDS_PAGE == 0
