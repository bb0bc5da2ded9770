"""What a plugin depends on, and whether it is there: `plugreg deps`.

report(target, ...)        Report        each requirement with its state, and the order of installing
explain(name, manifests)   Dependency*   the plugin, then what it needs, depth first, each with its state
discovered(folder)         Discovered*   every dagstack plugin below a folder
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from plugreg.choosing import known
from plugreg.closure import MISSING, close
from plugreg.inventory import declared
from plugreg.pinning import Options
from plugreg.resolving import is_path, manifest_of_path
from plugreg_schemas.dependencies import meets, unmet
from plugreg_schemas.errors import InvalidInput, NotAvailable
from plugreg_schemas.formats.dagstack.discovery import discover
from plugreg_schemas.formats.dagstack.folders import DEFAULT_IGNORE
from plugreg_schemas.manifest import Requirement
from plugreg_schemas.names import PluginName, quoted
from plugreg_schemas.tree import DirectoryTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from plugreg.closure import Closure, Lack
    from plugreg.plugins_root import PluginsRoot
    from plugreg.sources import Registry
    from plugreg_schemas.formats.dagstack.discovery import Discovered
    from plugreg_schemas.manifest import Manifest

State = Literal["met", "missing", "other_version", "cycle", "shown_above"]
Standing = Literal["installed", "available", "missing", "unfit"]
"""In the root; in a registry that `install` would take it from; nowhere; there, and not as it is needed."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One line of the tree: `version` is what is there, `range` what is asked for, `by` who asks."""

    name: str
    depth: int
    state: State
    kind: str = ""
    range: str = ""
    version: str = ""
    by: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the line as `plugreg deps --json` prints it."""
        return {
            "name": self.name,
            "depth": self.depth,
            "state": self.state,
            "kind": self.kind or None,
            "range": self.range or None,
            "version": self.version or None,
            "required_by": self.by or None,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One line of what a plugin depends on: `version` is the one there is, "" where there is none."""

    need: Requirement
    state: Standing
    version: str = ""
    depth: int = 1
    seen: bool = False
    """Whether what it depends on itself was shown before."""

    def as_dict(self) -> dict[str, object]:
        """Return a member of `requires` in `deps --json`."""
        need = self.need
        return {
            "name": need.name,
            "kind": need.kind or None,
            "range": need.range or None,
            "state": self.state,
            "version": self.version or None,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a plugin depends on, directly and below, and the order in which all of it is installed.

    What is missing or unfit, and the rest of what only that needs, is not in the order.
    """

    plugin: Manifest
    tree: tuple[Line, ...]
    order: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Return what `deps --json` prints: what the plugin itself requires, and the whole order."""
        direct = [line.as_dict() for line in self.tree if line.depth == 1]
        return {"name": self.plugin.name, "requires": direct, "order": list(self.order)}


def report(target: str, root: PluginsRoot, registries: Callable[[], Sequence[Registry]]) -> Report:
    """Say what a plugin depends on: one in a folder or bundle, an installed one, else one of a registry.

    A registry is asked only for what is not installed, or not as it is needed.

    Raises:
        NotAvailable: `path_not_found`, `plugin_not_found`, `registry_unreachable`.
        InvalidInput: `plugin_invalid`, `name_invalid`.
        ResolutionError: `dependency_cycle`, with its chain.
        PlugregError: what `close` raises.
    """
    given = manifest_of_path(Path(target)) if is_path(target) else declared(root, PluginName(target))
    if given is not None:
        closure = close(root, (), registries, Options(), given=[given])
    else:
        closure = close(root, [known(root, target)], registries, Options())
    plugin = closure.plugins[0]
    lines = _lines(plugin, closure)
    usable = {plugin.name, *(line.need.name for line in lines if line.state in {"installed", "available"})}
    return Report(plugin, tuple(lines), tuple(name for name in closure.order() if name in usable))


def _lines(plugin: Manifest, closure: Closure) -> list[Line]:
    lacks = {(lack.by, lack.need): lack for lack in closure.lacks}
    there = {manifest.name: manifest for manifest in closure.plugins}
    lines = []
    for line in explain(plugin.name, closure.plugins)[1:]:
        need = Requirement(line.name, line.kind, line.range)
        state = _standing(need, closure, lacks.get((line.by, need)))
        version = there[need.name].version if need.name in there else ""
        lines.append(Line(need, state, version, line.depth, seen=line.state == "shown_above"))
    return lines


def _standing(need: Requirement, closure: Closure, lack: Lack | None) -> Standing:
    if lack is not None:
        return "missing" if lack.code == MISSING else "unfit"
    choice = closure.choices.get(need.name)
    return "installed" if choice is None or choice.release is None else "available"


def explain(name: str, manifests: Iterable[Manifest]) -> list[Dependency]:
    """Return the tree below a plugin; what was shown before is not opened again.

    Raises:
        NotAvailable: `plugin_not_found`: none of `manifests` has this name.
    """
    there = list(manifests)
    root = next((manifest for manifest in there if manifest.name == name), None)
    if root is None:
        raise NotAvailable("plugin_not_found", f"there is no plugin {quoted(name)} here")
    lines = [Dependency(name, 0, "met", version=root.version)]
    pending: list[tuple[tuple[Manifest, ...], Requirement]] = [
        ((root,), need) for need in reversed(root.requires)
    ]
    opened = {id(root)}
    while pending:
        path, wanted = pending.pop()
        found = next((manifest for manifest in there if meets(manifest, wanted)), None)
        lack = next((lack for lack in unmet(path[-1], there) if lack.requirement == wanted), None)
        state: State = "met"
        if found is None:
            state = "other_version" if lack is not None and lack.code == "dependency_version" else "missing"
        elif any(found is above for above in path):
            state = "cycle"
        elif id(found) in opened and found.requires:
            state = "shown_above"
        version = found.version if found else lack.found if lack else ""
        lines.append(
            Dependency(wanted.name, len(path), state, wanted.kind, wanted.range, version, path[-1].name)
        )
        if found is not None and state == "met":
            opened.add(id(found))
            pending += [((*path, found), below) for below in reversed(found.requires)]
    return lines


def discovered(
    folder: Path, *, recursive: bool = True, ignore: Sequence[str] = DEFAULT_IGNORE
) -> tuple[Discovered, ...]:
    """Return every dagstack plugin below a folder; one that is wrong is among them, with its reason.

    Raises:
        NotAvailable: `path_not_found`.
        InvalidInput: `not_a_folder`.
    """
    if not folder.exists():
        raise NotAvailable("path_not_found", f"there is no folder `{folder}`")
    if not folder.is_dir():
        raise InvalidInput(
            "not_a_folder", f"`{folder}` is not a folder", hint="name the folder that holds the plugins"
        )
    return discover(DirectoryTree(folder), recursive=recursive, ignore=ignore)
