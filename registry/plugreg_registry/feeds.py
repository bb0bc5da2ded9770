"""What has happened, entry by entry: the changes for everybody who may read, the audit for auditors.

    since     a serial, or the word `next` of the page before: only what came later
    limit     entries on a page, at most 100
    wait      only of changes: seconds to wait for the first entry, at most 60

`next` names the entry that it stands behind: serial and the beginning of its digest. After an older backup
was restored the same serial is given again, to another entry. Then `next` does not fit any more, and who
follows learns of it (`cursor_unknown`, `cursor_ahead`) and does not miss anything in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg_schemas.api import AuditPage, AuditRow, Change, ChangesPage
from plugreg_schemas.errors import Boundary, Collector, Conflict, UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from plugreg_registry.ports import Journal
    from plugreg_registry.records import AuditEntry

    Entries = Sequence[tuple[int, AuditEntry]]

MAX_ENTRIES: Final = 100
MAX_WAIT_SECONDS: Final = 60
MARK: Final = 16
"""Hexadecimal digits of a digest in a cursor."""
CHANGES: Final = ("since", "limit", "wait")
"""The parameters of a question for changes."""
AUDIT: Final = CHANGES[:2]

_CURSOR: Final = re.compile(r"([0-9]{1,18})(?:-([0-9a-f]{16}))?")


@dataclass(frozen=True, slots=True)
class Since:
    """Behind which entry a page begins. `mark` is how that entry's digest begins; empty if not known."""

    serial: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is asked for of a feed."""

    since: Since = Since()
    limit: int = MAX_ENTRIES
    wait: int = 0


def read_slice(query: Iterable[tuple[str, str]], known: Sequence[str]) -> Slice:
    """Read the parameters of a query, in any order.

    Raises:
        UsageError: `question_invalid`, or the one code of all faults: `parameter_unknown`,
        `parameter_repeated`, `parameter_invalid`.
    """
    faults = Collector("question_invalid", "the question is not valid")
    words: dict[str, str] = {}
    for key, value in query:
        if key not in known:
            _fault(faults, "parameter_unknown", f"{quoted(key)} is not a parameter")
        elif key in words:
            _fault(faults, "parameter_repeated", f"`{key}` takes one value")
        else:
            words[key] = value
    asked = Slice(
        _since(words, faults),
        _number(words, "limit", 1, MAX_ENTRIES, MAX_ENTRIES, faults),
        _number(words, "wait", 0, MAX_WAIT_SECONDS, 0, faults),
    )
    faults.raise_if_any(UsageError, hint=f"parameters are {', '.join(known)}")
    return asked


@dataclass(frozen=True, slots=True)
class Feeds:
    """The journal, page by page."""

    journal: Journal

    def changes(self, asked: Slice) -> ChangesPage:
        """Return what has become visible.

        Raises:
            Conflict: `cursor_ahead`, `cursor_unknown`.
        """
        found = self._entries(asked)
        rows = (
            Change(serial=serial, at=e.at, action=e.action, plugin=e.plugin, version=e.version or None)
            for serial, e in found
        )
        return ChangesPage(changes=tuple(rows), next=_next(asked.since, found))

    def audit(self, asked: Slice) -> AuditPage:
        """Return the same, and who signed it by which statement. Raises as `changes`."""
        found = self._entries(asked)
        rows = (
            AuditRow(
                serial=serial,
                at=e.at,
                action=e.action,
                plugin=e.plugin,
                version=e.version or None,
                signer=e.signer,
                digest=e.digest,
            )
            for serial, e in found
        )
        return AuditPage(entries=tuple(rows), next=_next(asked.since, found))

    def _entries(self, asked: Slice) -> Entries:
        """Return the entries of a page, read together with the one that it begins behind."""
        since = asked.since
        if not since.serial:
            return self.journal.read(0, asked.limit)
        found = self.journal.read(since.serial - 1, asked.limit + 1)
        if not found:
            raise _lost("cursor_ahead", f"there is no entry {since.serial} yet")
        if since.mark and since.mark != _mark(found[0][1]):
            raise _lost("cursor_unknown", f"the entry {since.serial} is another one now")
        return found[1:]


def _next(since: Since, found: Entries) -> str:
    if not found:
        return f"{since.serial}-{since.mark}" if since.mark else str(since.serial)
    serial, entry = found[-1]
    return f"{serial}-{_mark(entry)}"


def _mark(entry: AuditEntry) -> str:
    return entry.digest.hex[:MARK]


def _lost(code: str, message: str) -> Conflict:
    return Conflict(
        code,
        message,
        hint="the registry was restored from an older backup: begin again with `since=0`",
    )


def _since(words: Mapping[str, str], faults: Collector) -> Since:
    found = _CURSOR.fullmatch(words.get("since", "0"))
    if found is None:
        _fault(
            faults, "parameter_invalid", "`since` is neither a serial nor what a page before says in `next`"
        )
        return Since()
    return Since(int(found[1]), found[2] or "")


def _number(
    words: Mapping[str, str], name: str, least: int, most: int, default: int, faults: Collector
) -> int:
    text = words.get(name, str(default))
    if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most:
        return int(text)
    _fault(faults, "parameter_invalid", f"`{name}` is a whole number from {least} to {most}")
    return default


def _fault(faults: Collector, code: str, message: str) -> None:
    faults.add(code, message, boundary=Boundary.REGISTRY)
