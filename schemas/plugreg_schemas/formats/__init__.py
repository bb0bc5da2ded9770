"""The manifest formats: which one a plugin announces, and its reading.

    agent-plugins   `plugin.json` with a `$schema` of Agent Plugins
    dagstack        `dagstack.toml`, `dagstack.json` or the older names; a table in `pyproject.toml` or
                    `package.json` counts only where nothing else announces itself
    keel            `plugin.yaml` with a `kind`, or with nothing else announced

More than one announcement is a conflict: two hosts could run two different plugins. Another format is one
more reader here. What every reader has left open is added in one place: where native commands run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Finding
from plugreg_schemas.formats import agent_plugins, dagstack, keel, mcp
from plugreg_schemas.formats.detection import announcements, is_wanted, mistaken_for
from plugreg_schemas.formats.keel import check_kind
from plugreg_schemas.manifest import Reading
from plugreg_schemas.names import quoted
from plugreg_schemas.platforms import HEAD, platforms_of
from plugreg_schemas.runtimes import Command
from plugreg_schemas.tree import PathEscapesError, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugreg_schemas.manifest import Component, Format, Manifest
    from plugreg_schemas.runtimes import Runtime
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
    reading = _read(tree)
    return replace(reading, manifest=_placed(reading.manifest, tree)) if reading.manifest else reading


def _read(tree: Tree) -> Reading:
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


def _placed(manifest: Manifest, tree: Tree) -> Manifest:
    """Say of every command where the program that the plugin brings for it runs."""
    components = tuple(_placed_component(component, tree) for component in manifest.components)
    commands = [r for c in components for r in c.runtimes if isinstance(r, Command)]
    found = {platform for command in commands for platform in command.platforms}
    everywhere = any(not command.platforms for command in commands)
    return replace(manifest, components=components, platforms=() if everywhere else tuple(sorted(found)))


def _placed_component(component: Component, tree: Tree) -> Component:
    def placed(runtime: Runtime) -> Runtime:
        if not isinstance(runtime, Command) or runtime.own is None:
            return runtime
        return runtime.model_copy(update={"platforms": _platforms_of(tree, runtime.own)})

    return replace(component, runtimes=tuple(map(placed, component.runtimes)))


def _platforms_of(tree: Tree, path: str) -> tuple[str, ...]:
    """Return where the program at `path` runs; () where it cannot be read, which others say."""
    try:
        where, node = locate(tree, path)
        if node is None or node.kind != "file":
            return ()
        with tree.open(where) as file:
            return platforms_of(file.read(HEAD))
    except (PathEscapesError, OSError):
        return ()


def _refused(*findings: Finding) -> Reading:
    return Reading(None, None, findings=findings)
