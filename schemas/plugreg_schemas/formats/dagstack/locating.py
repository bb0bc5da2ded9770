"""Where a dagstack manifest lies: the first of these that is there, and no other is read.

    dagstack.toml          the table `[plugin]`
    dagstack.json          the fields, or `{"plugin": {the fields}}`
    dagstack-plugin.toml   the older names of the two
    dagstack-plugin.json
    pyproject.toml         the table `[tool.dagstack.plugin]`
    package.json           `dagstack`: the fields, or `{"manifest": the path of one of the files above}`

A file that is there and broken is a fault; the next one never takes its place, or two hosts could read two
plugins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import parse_json, pointer_to
from plugreg_schemas.errors import Collector, InvalidInput, Severity
from plugreg_schemas.formats.files import Misfit, content, find, follow
from plugreg_schemas.names import quoted
from plugreg_schemas.toml import parse_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.tree import Tree

FILES: Final = ("dagstack.toml", "dagstack.json", "dagstack-plugin.toml", "dagstack-plugin.json")
"""The names of a manifest of its own, the first one wins."""
PYPROJECT: Final = "pyproject.toml"
PACKAGE: Final = "package.json"
TABLE: Final = ("tool", "dagstack", "plugin")
KEY: Final = "dagstack"


@dataclass(frozen=True, slots=True)
class Source:
    """The fields of a plugin, and where they stand: `steps` lead to them inside `file`."""

    file: str
    steps: tuple[str, ...]
    fields: Mapping[str, Any]


def embedded(tree: Tree) -> list[str]:
    """Return the package metadata that mentions dagstack; a file that cannot be read mentions nothing."""
    found = []
    for file, steps in ((PYPROJECT, TABLE[:2]), (PACKAGE, (KEY,))):
        if (
            file in tree.children("")
            and _at(_document(tree, file, Collector("", ""), TABLE), steps) is not None
        ):
            found.append(file)
    return found


def locate_manifest(tree: Tree, faults: Collector) -> Source | None:
    """Return the fields of the plugin in `tree`, or None after reporting why there are none."""
    names = tree.children("")
    present = [file for file in (*FILES, *embedded(tree)) if file in names]
    if not present:
        faults.add("manifest_missing", f"there is no `{FILES[0]}`", file=FILES[0])
        return None
    for file in present[1:]:
        message = f"`{file}` declares a plugin as well and is not read: `{present[0]}` comes first; keep one"
        faults.add("manifest_shadowed", message, severity=Severity.WARNING, file=file)
    return _source(tree, present[0], faults)


def _source(tree: Tree, file: str, faults: Collector) -> Source | None:
    value = _document(tree, file, faults, TABLE if file == PYPROJECT else ())
    if value is None:
        return None
    if file == PYPROJECT:
        return _table(value, file, TABLE, faults)
    if file == PACKAGE:
        return _of_package(tree, value[KEY], faults)
    return _of_file(value, file, faults)


def _of_file(value: Mapping[str, Any], file: str, faults: Collector) -> Source | None:
    """Return the fields of a manifest of its own."""
    if file.endswith(".json"):
        return _bare_or_wrapped(value, file, (), faults)
    for key in value:
        if key != "plugin" and not key.startswith("x-"):
            message = f"{quoted(key)} does not belong here; the fields of a plugin stand under `[plugin]`"
            faults.add("manifest_invalid", message, file=file, pointer=pointer_to(key))
    return _table(value, file, ("plugin",), faults)


def _of_package(tree: Tree, value: object, faults: Collector) -> Source | None:
    if not isinstance(value, dict):
        message = f"`{KEY}` must be an object"
        faults.add("manifest_invalid", message, file=PACKAGE, pointer=pointer_to(KEY))
        return None
    if "manifest" not in value:
        return _bare_or_wrapped(value, PACKAGE, (KEY,), faults)
    for key in value:
        if key != "manifest":
            message = f"{quoted(key)} does not belong beside `manifest`, which names the file of all fields"
            faults.add("manifest_invalid", message, file=PACKAGE, pointer=pointer_to(KEY, key))
    path = value["manifest"]
    if not isinstance(path, str) or path.rpartition("/")[2] not in FILES:
        # A bundle is read once, as a stream, and only files of these names are kept.
        message = f"`manifest` must be the path of a file named {', '.join(map(quoted, FILES))}"
        faults.add("manifest_invalid", message, file=PACKAGE, pointer=pointer_to(KEY, "manifest"))
        return None
    where = follow(tree, path, "file")
    if isinstance(where, Misfit):
        code = "manifest_escape" if where.reason == "escape" else "manifest_missing"
        message = f"`manifest` leads to no file in this plugin: {where.message}"
        faults.add(code, message, file=PACKAGE, pointer=pointer_to(KEY, "manifest"))
        return None
    found = _parsed(tree, where, faults, ())
    return _of_file(found, where, faults) if found is not None else None


def _bare_or_wrapped(
    value: Mapping[str, Any], file: str, steps: tuple[str, ...], faults: Collector
) -> Source | None:
    """Unwrap `plugin` where it is the only key and an object."""
    if not isinstance(value.get("plugin"), dict):
        return Source(file, steps, value)
    for key in value:
        if key != "plugin":
            message = f"{quoted(key)} stands beside `plugin`, which must be the only key or not be there"
            faults.add("manifest_invalid", message, file=file, pointer=pointer_to(*steps, key))
    return Source(file, (*steps, "plugin"), value["plugin"])


def _table(value: Mapping[str, Any], file: str, steps: tuple[str, ...], faults: Collector) -> Source | None:
    found = _at(value, steps)
    if isinstance(found, dict):
        return Source(file, steps, found)
    message = f"there is no table `[{'.'.join(steps)}]`"
    faults.add(
        "manifest_invalid", message, file=file, pointer=pointer_to(*steps) if found is not None else ""
    )
    return None


def _document(tree: Tree, file: str, faults: Collector, within: tuple[str, ...]) -> dict[str, Any] | None:
    where = find(tree, "", file, "file")
    if isinstance(where, str):
        return _parsed(tree, where, faults, within, file)
    if where is not None:
        codes = {"escape": "manifest_escape", "dangling": "manifest_missing"}
        faults.add(codes.get(where.reason, "manifest_invalid"), where.message, file=file)
    return None


def _parsed(
    tree: Tree, where: str, faults: Collector, within: tuple[str, ...], file: str = ""
) -> dict[str, Any] | None:
    file = file or where
    document = content(tree, where)
    if isinstance(document, Misfit):
        faults.add("manifest_invalid", document.message, file=file)
        return None
    kind = "TOML" if file.endswith(".toml") else "JSON"
    try:
        value = parse_toml(document, file, within) if kind == "TOML" else parse_json(document, file)
    except InvalidInput as error:
        faults.add("manifest_invalid", f"`{file}` is not a {kind} document that plugreg accepts", file=file)
        faults.extend(error.findings)
        return None
    if not isinstance(value, dict):
        faults.add("manifest_invalid", f"`{file}` must hold a JSON object", file=file)
        return None
    return value


def _at(value: object, steps: tuple[str, ...]) -> object:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
