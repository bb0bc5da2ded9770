"""Read the source: who the plugin is, which servers and skills it declares, whatever wrote it down.

a plugin manifest     its fields; servers in it, in the files it names, in `.mcp.json` and `mcp.json`
an MCP bundle         its fields, its one server
a registry entry      see `registry_entry`
a configuration       its servers; the plugin is named after its folder
a skill               itself
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Any, Final

from plugreg.convert import mcpb, registry_entry, servers
from plugreg.convert.draft import Draft, Found
from plugreg_schemas.documents import parse_json
from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.formats.near_miss import servers_of
from plugreg_schemas.names import quoted
from plugreg_schemas.tree import PathEscapesError, locate, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugreg_schemas.documents import Json
    from plugreg_schemas.formats.near_miss import NearMiss
    from plugreg_schemas.tree import Tree

MAX_DOCUMENT: Final = 1024 * 1024
MCP_SCHEMAS: Final = "https://agent-plugins.org/schemas/"

_MANIFESTS: Final = frozenset(
    {"claude-plugin", "codex-plugin", "cursor-plugin", "gemini-extension", "plugin-json"}
)
_SERVER_FILES: Final = (".mcp.json", "mcp.json")
"""Where plugins keep servers that their manifest does not mention."""
_DROPPED_KINDS: Final[Mapping[str, str]] = {
    "commands": "commands",
    "agents": "agents",
    "hooks": "hooks",
    "rules": "rules",
    "lspServers": "language servers",
    "outputStyles": "output styles",
    "apps": "apps",
    "contextFileName": "a context file",
    "settings": "settings",
    "userConfig": "questions to the user",
    "user_config": "questions to the user",
}
"""What Agent Plugins have no place for."""


def draft_of(tree: Tree, source: NearMiss) -> Draft:
    """Return everything that can be taken over from the source.

    Raises:
        InvalidInput: the file that declares the plugin cannot be parsed.
    """
    draft = Draft()
    draft.taken.add(source.file)
    if source.kind == "skill":
        draft.skills[""] = ""
        draft.declares_skills = True
        return draft
    value = _document(tree, source.file)
    if not isinstance(value, dict):
        raise InvalidInput("source_invalid", f"{quoted(source.file)} must hold a JSON object")
    if source.kind in _MANIFESTS:
        _plugin(tree, source.file, value, draft)
    elif source.kind == "mcpb":
        _identity(source.file, value, draft)
        draft.found += mcpb.servers(source.file, value, draft)
    elif source.kind == "mcp-registry":
        _identity(source.file, value, draft)
        draft.found += registry_entry.servers(source.file, value, draft)
    else:
        _configuration(source.file, value, draft)
    _skills(tree, value if source.kind in _MANIFESTS else {}, source.file, draft)
    for found in draft.found:
        servers.turn(found, draft)
    return draft


def listed_folders(tree: Tree, file: str) -> list[str]:
    """Return the folders of the plugins that a marketplace lists and that are here."""
    value = _document(tree, file)
    listed = value.get("plugins") if isinstance(value, dict) else None
    found = []
    for item in listed if isinstance(listed, list) else ():
        source = item.get("source") if isinstance(item, dict) else None
        stated = (
            source.get("path") if isinstance(source, dict) and source.get("source") == "local" else source
        )
        path = _inside(stated) if isinstance(stated, str) and "://" not in stated else None
        if path and path not in found and _is_folder(tree, path):
            found.append(path)
    return found


def _document(tree: Tree, path: str) -> Json:
    try:
        where, _ = locate(tree, path)
        return parse_json(read(tree, where, MAX_DOCUMENT), path)
    except OSError as error:
        message = f"{quoted(path)} cannot be read: {error.strerror or type(error).__name__}"
        raise InvalidInput("source_invalid", message) from None


def _identity(file: str, value: Mapping[str, Any], draft: Draft) -> None:
    """Take what says who the plugin is."""
    draft.manifest.update({key: value[key] for key in _IDENTITY if key in value})
    if "websiteUrl" in value:
        draft.manifest.setdefault("homepage", value["websiteUrl"])
    for key in value:
        if key not in {*_IDENTITY, *_HANDLED, "websiteUrl", *_DROPPED_KINDS}:
            draft.lose("field_dropped", f"the field {quoted(key)} has no counterpart", file, key)
    for key, what in _DROPPED_KINDS.items():
        if value.get(key):
            message = f"{what} are no part of Agent Plugins; hosts will not find them"
            draft.lose(
                "component_dropped", message.replace("a context file are", "a context file is"), file, key
            )


_IDENTITY: Final = (
    "name",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "extensions",
)
_HANDLED: Final = frozenset(
    {"$schema", "mcpServers", "mcp", "skills", "server", "packages", "remotes", "manifest_version"}
)


def _plugin(tree: Tree, file: str, value: Mapping[str, Any], draft: Draft) -> None:
    _identity(file, value, draft)
    own = _written_for_us(tree)
    if own:
        draft.taken.add("mcp.json")
        draft.found += [Found(name, item, "mcp.json", ("mcpServers", name)) for name, item in own.items()]
    for key in ("mcpServers", "mcp"):
        for stated, steps in _each(value.get(key), key):
            if isinstance(stated, dict):
                under, inside = ("", stated) if "mcpServers" not in stated else servers_of(stated)
                draft.found += _found(inside, file, (*steps, *([under] if under else [])), draft)
            elif isinstance(stated, str):
                _from_file(tree, stated, draft, (file, *steps))
    for path in _SERVER_FILES:
        if not (own and path == "mcp.json"):
            _from_file(tree, path, draft)


def _written_for_us(tree: Tree) -> Mapping[str, Any]:
    """Return the servers of an `mcp.json` that is one of Agent Plugins already: they were meant for it."""
    if not _is_file(tree, "mcp.json"):
        return {}
    try:
        value = _document(tree, "mcp.json")
    except InvalidInput:
        return {}
    schema = value.get("$schema") if isinstance(value, dict) else None
    if not isinstance(schema, str) or not schema.startswith(MCP_SCHEMAS):
        return {}
    return {name: item for name, item in servers_of(value)[1].items() if isinstance(item, dict)}


def _from_file(tree: Tree, path: str, draft: Draft, named: tuple[str, ...] = ()) -> None:
    """Take the servers of a configuration file; `named` is the place that asks for it, if any does."""
    where = _inside(path)
    if where is None or not _is_file(tree, where):
        if named:
            message = f"the file {quoted(path)} of servers is not in the plugin"
            draft.lose("file_missing", message, *named)
        return
    if where in draft.taken:
        return
    try:
        value = _document(tree, where)
    except InvalidInput as error:
        draft.losses += [*error.findings]
        return
    draft.taken.add(where)
    _configuration(where, value, draft)


def _configuration(file: str, value: object, draft: Draft) -> None:
    key, inside = servers_of(value)
    draft.found += _found(inside, file, (key,) if key else (), draft)
    if key == "servers" and isinstance(value, dict) and value.get("inputs"):
        draft.lose("field_dropped", "`inputs` ask the user; nothing asks here", file, "inputs")


def _found(inside: Mapping[str, Any], file: str, steps: tuple[str, ...], draft: Draft) -> Iterator[Found]:
    for name, item in inside.items():
        if isinstance(item, dict):
            yield Found(name, item, file, (*steps, name))
        elif name != "$schema":
            draft.lose("server_invalid", f"server {quoted(name)} is not an object", file, *steps, name)


def _skills(tree: Tree, value: Mapping[str, Any], file: str, draft: Draft) -> None:
    """Find the folders of skills: those that the manifest names, and `skills/`."""
    for stated, steps in _each(value.get("skills"), "skills"):
        path = _inside(stated) if isinstance(stated, str) else None
        draft.declares_skills = True
        if path is None or not _take_skills(tree, path, draft):
            what = quoted(stated) if isinstance(stated, str) else "what `skills` names"
            draft.lose("skill_missing", f"{what} holds no skill in the plugin", file, *steps)
    _take_skills(tree, "skills", draft)


def _take_skills(tree: Tree, path: str, draft: Draft) -> bool:
    """Take the skill in a folder, or all of those one level below it."""
    if path and _is_file(tree, f"{path}/SKILL.md"):
        draft.skills.setdefault(posixpath.basename(path), path)
        return True
    try:
        where, node = locate(tree, path)
        names = tree.children(where) if node is not None and node.kind == "directory" else ()
    except (PathEscapesError, OSError):
        return False
    found = [
        name for name in names if _is_file(tree, f"{path}/{name}/SKILL.md" if path else f"{name}/SKILL.md")
    ]
    for name in found:
        draft.skills.setdefault(name, f"{path}/{name}" if path else name)
    return bool(found)


def _each(value: object, key: str) -> Iterator[tuple[object, tuple[str, ...]]]:
    """Yield what stands under a key, one by one where it is a list, each with its place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield item, (key, str(index))
    elif value is not None:
        yield value, (key,)


def _inside(path: str) -> str | None:
    """Return a path of the plugin in its plain form ("": the root); None where it leads out."""
    plain = posixpath.normpath(re.sub(r"\A\$\{[A-Za-z_]+\}/", "", path).replace("\\", "/"))
    if plain.startswith(("..", "/")):
        return None
    return "" if plain == "." else plain


def _is_file(tree: Tree, path: str) -> bool:
    try:
        _, node = locate(tree, path)
    except (PathEscapesError, OSError):
        return False
    return node is not None and node.kind == "file"


def _is_folder(tree: Tree, path: str) -> bool:
    try:
        _, node = locate(tree, path)
    except (PathEscapesError, OSError):
        return False
    return node is not None and node.kind == "directory"


def as_json(value: object) -> str:
    """Return JSON as people read it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
