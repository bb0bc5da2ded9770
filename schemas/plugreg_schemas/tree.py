"""A plugin's files, wherever they lie: in a folder, in memory, in a bundle that was just read.

A path inside a tree is text with `/` between its parts, no leading `/`, no `.` or `..` parts; `""` is the
root. `Tree` never follows links; `locate` does, and it alone decides whether a path stays inside the plugin.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol

from plugreg_schemas.errors import InvalidInput, TooLarge
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MAX_LINKS: Final = 40
"""Links followed for one path before it counts as a cycle (as Linux does)."""

Kind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class Node:
    """What stands at one path: its kind, its size in bytes, whether it is executable, where a link points."""

    kind: Kind
    size: int = 0
    executable: bool = False
    target: str = ""


DIRECTORY: Final = Node("directory")


class Tree(Protocol):
    """The files of one plugin."""

    def node(self, path: str) -> Node | None:
        """Return what stands at `path` itself, not following a link there, or None.

        The parts before the last must not be links: call `locate` first.
        """
        ...

    def children(self, path: str) -> Sequence[str]:
        """Return the names in the directory `path`, sorted by their bytes."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open the regular file `path` for reading.

        Raises:
            FileNotFoundError: there is no such file, or its content is not kept in this tree.
        """
        ...


class PathEscapesError(InvalidInput):
    """A path, or a link on it, leads out of the plugin."""


def locate(tree: Tree, path: str) -> tuple[str, Node | None]:
    """Follow every link on `path` and return where it ends, with what stands there (None: nothing).

    Parts `.` and `..` are resolved as a file system does: `..` after a link starts from where the link ends.

    Raises:
        PathEscapesError: `path_escape`: the path leaves the plugin, or its links never end.
    """
    pending = path.split("/")[::-1]
    done: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            if not done:
                raise _escapes(path)
            done.pop()
            continue
        here = "/".join([*done, part])
        node = tree.node(here)
        if node is None:
            return _rest(path, here, pending), None
        if node.kind == "link":
            links += 1
            if links > MAX_LINKS or node.target.startswith("/") or "\\" in node.target:
                raise _escapes(path)
            pending += node.target.split("/")[::-1]
        elif node.kind != "directory" and any(rest not in {"", "."} for rest in pending):
            return _rest(path, here, pending), None
        else:
            done.append(part)
    where = "/".join(done)
    return where, tree.node(where) if where else DIRECTORY


def _rest(path: str, here: str, pending: Sequence[str]) -> str:
    """Name the place where nothing stands, refusing one whose remaining `..` parts would leave the plugin."""
    depth = here.count("/") + 1
    for part in reversed(pending):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            raise _escapes(path)
    return "/".join([here, *reversed(pending)])


def _escapes(path: str) -> PathEscapesError:
    return PathEscapesError("path_escape", f"{quoted(path)} leads out of the plugin")


def walk(tree: Tree, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every entry below `path` that is not a directory, directories in the order of their names."""
    pending = [path]
    while pending:
        here = pending.pop()
        node = tree.node(here) if here != path else DIRECTORY
        if node is not None and node.kind == "directory":
            prefix = f"{here}/" if here else ""
            pending += [prefix + name for name in reversed(tree.children(here))]
        elif node is not None:
            yield here, node


def read(tree: Tree, path: str, limit: int) -> bytes:
    """Return the content of the regular file `path`.

    Raises:
        TooLarge: `file_too_large`: it has more than `limit` bytes.
    """
    with tree.open(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise TooLarge("file_too_large", f"{quoted(path)} is larger than {limit} bytes")
    return content


@dataclass(frozen=True, slots=True)
class MemoryTree:
    """A tree held in memory: nodes by path, and the contents of those files that are kept."""

    nodes: Mapping[str, Node]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    _listing: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: dict[str, set[str]] = {"": set()}
        for path in self.nodes:
            parts = path.split("/")
            for depth, part in enumerate(parts):
                names.setdefault("/".join(parts[:depth]), set()).add(part)
        self._listing.update({where: sorted(found, key=str.encode) for where, found in names.items()})

    @classmethod
    def of(cls, files: Mapping[str, bytes | str], *, links: Mapping[str, str] | None = None) -> MemoryTree:
        """Build a tree from contents and link targets by path; a file with `#!` counts as executable."""
        contents = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
        nodes = {path: Node("file", len(body), body.startswith(b"#!")) for path, body in contents.items()}
        nodes |= {path: Node("link", target=target) for path, target in (links or {}).items()}
        return cls(nodes, contents)

    def node(self, path: str) -> Node | None:
        """See `Tree.node`."""
        found = self.nodes.get(path)
        return found if found is not None else DIRECTORY if path in self._listing else None

    def children(self, path: str) -> Sequence[str]:
        """See `Tree.children`."""
        return self._listing.get(path, [])

    def open(self, path: str) -> BinaryIO:
        """See `Tree.open`."""
        if path not in self.contents:
            raise FileNotFoundError(path)
        return io.BytesIO(self.contents[path])


@dataclass(frozen=True, slots=True)
class DirectoryTree:
    """A tree that is a folder on this machine."""

    root: Path

    def node(self, path: str) -> Node | None:
        """See `Tree.node`."""
        try:
            found = os.lstat(self.root / path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return None
            raise
        if stat.S_ISLNK(found.st_mode):
            return Node("link", target=str((self.root / path).readlink()).replace(os.sep, "/"))
        if stat.S_ISDIR(found.st_mode):
            return DIRECTORY
        if stat.S_ISREG(found.st_mode):
            return Node("file", found.st_size, bool(found.st_mode & stat.S_IXUSR))
        return Node("other")

    def children(self, path: str) -> Sequence[str]:
        """See `Tree.children`."""
        return sorted((child.name for child in (self.root / path).iterdir()), key=os.fsencode)

    def open(self, path: str) -> BinaryIO:
        """See `Tree.open`; a link at the end of `path` is refused, so nothing outside can be read."""
        descriptor = os.open(
            self.root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        return os.fdopen(descriptor, "rb")
