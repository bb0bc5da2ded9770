"""The plugins below a folder, as a dagstack host discovers them.

    discover(tree)  >  Discovered*    by path: registered with its manifest, or not, with the reason

A folder with a manifest of its own is a leaf: nothing below it is looked at. Folders of tools and of what was
built are passed over. One plugin that is wrong never keeps the others out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from plugreg_schemas.errors import Finding
from plugreg_schemas.formats.dagstack import read
from plugreg_schemas.formats.dagstack.folders import DEFAULT_IGNORE, inner_folders, names_in
from plugreg_schemas.formats.dagstack.locating import FILES, embedded
from plugreg_schemas.names import quoted
from plugreg_schemas.tree import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugreg_schemas.manifest import Reading
    from plugreg_schemas.tree import Node, Tree


@dataclass(frozen=True, slots=True)
class Discovered:
    """One folder that declares a plugin; `path` is "" for the root."""

    path: str
    reading: Reading

    @property
    def registered(self) -> bool:
        """Whether a host takes it."""
        return self.reading.ok

    @property
    def reason(self) -> str:
        """Why it is not registered, "" where it is."""
        return "; ".join(str(finding) for finding in self.reading.errors) if not self.registered else ""


def discover(
    tree: Tree, *, recursive: bool = True, ignore: Sequence[str] = DEFAULT_IGNORE
) -> tuple[Discovered, ...]:
    """Return every plugin below `tree` in the order of paths; a kind and name that come again are refused.

    Unless `recursive` only the root itself is looked at. Links to folders are not followed.
    """
    taken: dict[tuple[str, str], str] = {}
    found = []
    for path in sorted(_folders(tree, ignore) if recursive else [""] if _declares(tree) else []):
        reading = read(_Below(tree, path) if path else tree)
        if reading.manifest is not None:
            key = (reading.manifest.capability_kind, reading.manifest.name)
            first = taken.setdefault(key, path)
            if first != path:
                reading = _already(reading, first)
        found.append(Discovered(path, reading))
    return tuple(found)


def _folders(tree: Tree, ignore: Sequence[str]) -> Iterator[str]:
    pending = [""]
    while pending:
        here = pending.pop()
        if _declares(_Below(tree, here)):
            yield here
        else:
            pending += inner_folders(tree, here, ignore)


def _declares(tree: Tree) -> bool:
    names = names_in(tree, "")
    return not set(FILES).isdisjoint(names) or (bool(names) and bool(embedded(tree)))


def _already(reading: Reading, first: str) -> Reading:
    name = reading.manifest.name if reading.manifest else ""
    message = f"{quoted(name)} is already registered, from {quoted(first or '.')}"
    file = reading.manifest.file if reading.manifest else ""
    return replace(
        reading, manifest=None, findings=(*reading.findings, Finding("manifest_invalid", message, file=file))
    )


@dataclass(frozen=True, slots=True)
class _Below:
    """The folder `path` of a tree as a tree of its own: nothing above it can be reached."""

    tree: Tree
    path: str

    def node(self, path: str) -> Node | None:
        return self.tree.node(self._full(path)) if path else DIRECTORY

    def children(self, path: str) -> Sequence[str]:
        return self.tree.children(self._full(path))

    def open(self, path: str) -> BinaryIO:
        return self.tree.open(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self.path}/{path}" if self.path and path else self.path or path
