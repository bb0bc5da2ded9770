"""The fixed locations of a plugin: find a file by its exact name, read it within a limit, parse it.

    find    -> where it lies, links followed | Misfit (wrong kind, escapes, leads nowhere) | None (absent)
    content -> bytes | Misfit (too large, not readable, content not kept in this tree)
    parsed  -> (value, findings): the findings are empty exactly where the document is good

A misfit is a value because what it takes down (plugin, component, entry) is for the caller to say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from plugreg_schemas.documents import parse_json
from plugreg_schemas.errors import Boundary, Finding, InvalidInput, Severity, TooLarge
from plugreg_schemas.names import quoted
from plugreg_schemas.tree import PathEscapesError, locate, read

if TYPE_CHECKING:
    from plugreg_schemas.documents import Json
    from plugreg_schemas.errors import Collector
    from plugreg_schemas.tree import Kind, Tree

MAX_DOCUMENT: Final = 1024 * 1024
"""Bytes of a manifest, `mcp.json` or `SKILL.md`: what is kept of each when a bundle is read as a stream."""

_KIND_WORDS: Final = {
    "file": "a file",
    "directory": "a directory",
    "link": "a link",
    "other": "a special file",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why something at a fixed location cannot be used."""

    reason: Literal["escape", "dangling", "wrong_kind", "too_large", "unreadable"]
    message: str


def find(tree: Tree, folder: str, name: str, kind: Kind) -> str | Misfit | None:
    """Return where `name` in the directory `folder` lies, which must be of `kind`; None where it is absent.

    The listing decides what is there, so `Plugin.json` is not taken for `plugin.json` on a file system that
    ignores case.
    """
    path = f"{folder}/{name}" if folder else name
    try:
        listed = name in tree.children(folder)
    except OSError as error:
        return _unreadable(folder, error)
    return follow(tree, path, kind) if listed else None


def follow(tree: Tree, path: str, kind: Kind) -> str | Misfit:
    """Return where `path` leads, which must be of `kind`."""
    try:
        where, node = locate(tree, path)
    except PathEscapesError:
        return Misfit("escape", f"{quoted(path)} is a link that leads out of the plugin")
    except OSError as error:
        return _unreadable(path, error)
    if node is None:
        return Misfit("dangling", f"{quoted(path)} is a link to something that is not there")
    if node.kind != kind:
        return Misfit(
            "wrong_kind", f"{quoted(path)} is {_KIND_WORDS[node.kind]}, it must be {_KIND_WORDS[kind]}"
        )
    return where


def content(tree: Tree, where: str, limit: int = MAX_DOCUMENT) -> bytes | Misfit:
    """Return the bytes of the file that `find` found."""
    try:
        return read(tree, where, limit)
    except TooLarge as error:
        return Misfit("too_large", error.message)
    except OSError as error:
        return _unreadable(where, error)


def parsed(
    document: bytes, file: str, boundary: Boundary = Boundary.PLUGIN
) -> tuple[Json, tuple[Finding, ...]]:
    """Return the value of a JSON document, or None and every fault of the document."""
    try:
        return parse_json(document, file), ()
    except InvalidInput as error:
        return None, tuple(replace(finding, boundary=boundary) for finding in error.findings)


def collected(faults: Collector, file: str) -> tuple[Finding, ...]:
    """Return the findings of one file, with a note that counts those the collector did not keep."""
    if not faults.dropped:
        return tuple(faults.findings)
    message = f"{faults.dropped} more findings are not shown"
    return (*faults.findings, Finding("findings_not_shown", message, Severity.NOTE, Boundary.ENTRY, file))


def shown(path: str) -> str:
    """Return a path as it can be printed and encoded, whatever bytes a file system put into it."""
    return path.encode("utf-8", "backslashreplace").decode()


def _unreadable(path: str, error: OSError) -> Misfit:
    return Misfit(
        "unreadable", f"{quoted(path)} cannot be read: {error.strerror or 'its content is not kept here'}"
    )
