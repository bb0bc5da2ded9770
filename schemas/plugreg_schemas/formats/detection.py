"""Which format a plugin announces, which files a reader wants, and what a folder is that announces none.

is_wanted      by path alone, for a bundle that is read once as a stream
announcements  format -> the files that announce it
mistaken_for   the finding for a folder that announces no format: what people publish by mistake
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Finding
from plugreg_schemas.formats import agent_plugins, keel, near_miss
from plugreg_schemas.formats.dagstack import locating
from plugreg_schemas.formats.files import Misfit, content, find, shown
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from plugreg_schemas.manifest import Format
    from plugreg_schemas.tree import Tree

DAGSTACK_FILES: Final = locating.FILES
KEEL_FILE: Final = keel.FILE
_ANYWHERE: Final = frozenset({"plugin.json", "mcp.json", "SKILL.md", *DAGSTACK_FILES})
_AT_ROOT: Final = frozenset({KEEL_FILE, locating.PYPROJECT, locating.PACKAGE})


def is_wanted(path: str) -> bool:
    """Whether a reader may want the content of `path`, judged by the name alone.

    Those of Agent Plugins and dagstack count in every directory, because a link or a path may lead there.
    """
    return path in _AT_ROOT or path in near_miss.FILES or path.rpartition("/")[2] in _ANYWHERE


def announcements(tree: Tree) -> dict[Format, list[str]]:
    """Return the files by which each format announces itself in the root of `tree`."""
    found: dict[Format, list[str]] = {}
    names = set(tree.children(""))
    if agent_plugins.announces(tree):
        found["agent-plugins"] = [agent_plugins.FILE]
    if names.intersection(DAGSTACK_FILES):
        found["dagstack"] = sorted(names.intersection(DAGSTACK_FILES))
    if KEEL_FILE in names and _has_kind(tree):
        found["keel"] = [KEEL_FILE]
    if not found and (embedded := locating.embedded(tree)):
        found["dagstack"] = embedded
    if not found and KEEL_FILE in names:
        found["keel"] = [KEEL_FILE]
    return found


def mistaken_for(tree: Tree) -> Finding:
    """Return what is said of a folder that announces no format and has no `plugin.json`."""
    names = tree.children("")
    below = [
        name
        for name in names
        if not name.startswith(".") and isinstance(_file(tree, name, "plugin.json"), str)
    ]
    if len(below) == 1:
        message = f"plugin.json is at {shown(below[0])}/plugin.json, expected at the root"
        return Finding("manifest_misplaced", message, file=agent_plugins.FILE)
    found = near_miss.recognise(tree)
    if found is not None:
        message = (
            f"there is no `plugin.json`; {quoted(found.file)} says that this is {found.what}; {found.advice}"
        )
        return Finding("manifest_missing", message, file=found.file)
    near = [name for name in names if name.lower() == "plugin.json"]
    message = "there is no `plugin.json`" + (
        f"; {quoted(near[0])} must be spelled in lower case" if near else " at the root of the plugin"
    )
    return Finding("manifest_missing", message, file=agent_plugins.FILE)


def _file(tree: Tree, folder: str, name: str) -> str | Misfit | None:
    where = find(tree, "", folder, "directory") if folder else ""
    return find(tree, where, name, "file") if isinstance(where, str) else where


def _has_kind(tree: Tree) -> bool:
    where = find(tree, "", KEEL_FILE, "file")
    if isinstance(where, Misfit) and where.reason == "wrong_kind":
        return False
    return keel.has_kind(content(tree, where, keel.MAX_DOCUMENT) if isinstance(where, str) else where or b"")
