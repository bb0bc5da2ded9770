"""The manifest formats: which one a plugin announces, and its reading.

    agent-plugins   `plugin.json` with a `$schema` of Agent Plugins
    dagstack        `dagstack.toml`, `dagstack.json` or the older names; a table in `pyproject.toml` or
                    `package.json` counts only where nothing else announces itself
    keel            `plugin.yaml` with a `kind`, or with nothing else announced

More than one announcement is a conflict: two hosts could run two different plugins. Another format is one
more reader here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Finding
from plugreg_schemas.formats import agent_plugins, dagstack, keel, mcp
from plugreg_schemas.formats.detection import announcements, is_wanted, mistaken_for
from plugreg_schemas.formats.keel import check_kind
from plugreg_schemas.manifest import Reading
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugreg_schemas.manifest import Format, Manifest
    from plugreg_schemas.tree import Tree

__all__ = ["MANIFEST_FILES", "NAME_KEYS", "READERS", "check_kind", "command_place", "is_wanted", "read"]

READERS: Final[Mapping[Format, Callable[[Tree], Reading]]] = {
    "agent-plugins": agent_plugins.read,
    "dagstack": dagstack.read,
    "keel": keel.read,
}
"""The formats that this version reads."""

MANIFEST_FILES: Final[Mapping[Format, str]] = {
    "agent-plugins": agent_plugins.FILE,
    "dagstack": dagstack.FILE,
    "keel": keel.FILE,
}
"""The file in which a format states name and version, where the manifest itself does not name another."""

NAME_KEYS: Final[Mapping[Format, str]] = {"keel": "id"}
"""The key of the name, where it is not `name`."""


def read(tree: Tree) -> Reading:
    """Read a plugin, whatever format it announces. Bad content gives findings, never an exception."""
    try:
        announced = announcements(tree)
    except OSError as error:
        return _refused(Finding("manifest_missing", f"the folder cannot be listed: {error.strerror}"))
    files = [file for found in announced.values() for file in found]
    if len(announced) > 1:
        message = f"more than one format is announced: {', '.join(map(quoted, files))}; keep one"
        return _refused(*(Finding("manifest_conflict", message, file=file) for file in files))
    for announcement in announced:
        reader = READERS.get(announcement)
        if reader is None:
            message = f"the format {announcement} is not supported by this version of plugreg"
            return Reading(
                announcement, None, findings=(Finding("format_unsupported", message, file=files[0]),)
            )
        return reader(tree)
    if agent_plugins.FILE in tree.children(""):
        return agent_plugins.read(tree)
    servers = mcp.read(tree)
    return Reading(None, None, servers=servers.verdicts, findings=(mistaken_for(tree), *servers.findings))


def command_place(manifest: Manifest, component: str) -> tuple[str, ...]:
    """Return the file and the steps in it where the command of a component stands."""
    if manifest.format == "agent-plugins":
        return (mcp.FILE, "mcpServers", component, "command")
    return (keel.FILE, "entry", "command") if manifest.format == "keel" else (manifest.file, *manifest.at)


def _refused(*findings: Finding) -> Reading:
    return Reading(None, None, findings=findings)
