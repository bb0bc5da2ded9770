"""The folders of a tree that may hold plugins, and the rule that a plugin holds no other.

Folders of tools and of what was built are passed over, links to folders are not followed, and a folder that
cannot be read holds nothing.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Boundary, Finding
from plugreg_schemas.formats.dagstack.locating import FILES
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugreg_schemas.tree import Tree

DEFAULT_IGNORE: Final = (
    *("__pycache__", ".git", ".hg", ".svn", "node_modules", ".venv", ".venv-*", "venv", ".tox", "dist"),
    *("build", ".next", ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
)
"""Names of folders that are passed over; `*`, `?` and `[abc]` stand for what they do in a shell."""


def inner_folders(tree: Tree, path: str, ignore: Sequence[str] = DEFAULT_IGNORE) -> list[str]:
    """Return the folders directly in the folder `path` that are not passed over, sorted."""
    found = []
    for name in names_in(tree, path):
        below = f"{path}/{name}" if path else name
        if any(fnmatchcase(name, pattern) for pattern in ignore):
            continue
        node = tree.node(below)
        if node is not None and node.kind == "directory":
            found.append(below)
    return found


def names_in(tree: Tree, path: str) -> Sequence[str]:
    """Return the names in a folder, none where it cannot be read."""
    try:
        return tree.children(path)
    except OSError:
        return ()


def nested(tree: Tree, manifest: str) -> Iterator[Finding]:
    """Yield a fault for each other file than `manifest` that declares a plugin: no host would find it."""
    pending = inner_folders(tree, "")
    while pending:
        here = pending.pop(0)
        for name in FILES:
            path = f"{here}/{name}"
            if name in names_in(tree, here) and path != manifest:
                message = f"{quoted(path)} declares a plugin inside a plugin; publish it by itself"
                yield Finding("plugin_nested", message, boundary=Boundary.REGISTRY, file=path)
        pending += inner_folders(tree, here)
