"""The reader of Agent Plugins 1.0.0.

    plugin.json   who the plugin is     a fault rejects the plugin
    skills/       files for the model   `skills`: a fault takes down one skill, or all of them
    mcp.json      servers               `mcp`: a fault takes down one server, or all of them

Nothing is fetched, expanded or started. Where the text of the specification and its JSON schemas differ, the
text holds. The schema identifier selects the rules, and only those of 1.0.0 are known here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Collector, Severity
from plugreg_schemas.formats import mcp, skills
from plugreg_schemas.formats.files import Misfit, collected, content, find, parsed
from plugreg_schemas.manifest import Manifest, Reading, Verdict
from plugreg_schemas.names import quoted
from plugreg_schemas.tiers import NAMESPACE, declared_tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.documents import Json
    from plugreg_schemas.errors import Finding
    from plugreg_schemas.manifest import Tier
    from plugreg_schemas.tree import Tree

FILE: Final = "plugin.json"
SCHEMA: Final = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
VERSION: Final = "1.0.0"

_SCHEMAS: Final = "https://agent-plugins.org/schemas/"
_SCHEMA: Final = re.compile(re.escape(_SCHEMAS) + r"(\d{1,4}\.\d{1,4}\.\d{1,4})/plugin\.schema\.json")
_NAME: Final = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_NAME_RULE: Final = "1-64 of a-z 0-9 . -, a letter or digit at both ends, no doubled separator"
_TEXTS: Final = ("version", "description", "homepage", "repository", "license")
_AUTHOR: Final = ("name", "email", "url")
_KNOWN: Final = frozenset({"$schema", "name", "author", "keywords", "extensions", *_TEXTS})


def announces(tree: Tree) -> bool:
    """Whether `plugin.json` says that this is an Agent Plugin; one that cannot be parsed says so too."""
    where = find(tree, "", FILE, "file")
    if not isinstance(where, str):
        return where is not None
    document = content(tree, where)
    if isinstance(document, Misfit):
        return True
    value, faults = parsed(document, FILE)
    return bool(faults) or _schema_of(value).startswith(_SCHEMAS)


def read(tree: Tree) -> Reading:
    """Read the plugin, with every fault of its three parts.

    A rejected plugin loads nothing: its servers are listed as skipped and its skills not at all.
    """
    faults = Collector("manifest_invalid", "the manifest is not valid")
    value = _document(tree, faults)
    if value is not None:
        _examine(value, faults)
    schema = _SCHEMA.fullmatch(_schema_of(value))
    found_skills = skills.read(tree)
    found_servers = mcp.read(tree, schema[1] if schema else VERSION)
    findings = (*collected(faults, FILE), *found_skills.findings, *found_servers.findings)
    # `_examine` finds errors before warnings, so the collector's limit never hides that there is an error.
    if value is None or any(f.severity is Severity.ERROR for f in faults.findings):
        skipped = tuple(Verdict(server.name, "skip") for server in found_servers.verdicts)
        return Reading("agent-plugins" if announces(tree) else None, None, skipped, (), findings)
    findings = (*findings, *_tier(value)[1])
    manifest = replace(_manifest(value), components=found_servers.components, skills=found_skills.skills)
    return Reading("agent-plugins", manifest, found_servers.verdicts, found_skills.verdicts, findings)


def _document(tree: Tree, faults: Collector) -> dict[str, Any] | None:
    where = find(tree, "", FILE, "file")
    if where is None:
        faults.add("manifest_missing", f"`{FILE}` is missing", file=FILE)
        return None
    document = where if isinstance(where, Misfit) else content(tree, where)
    if isinstance(document, Misfit):
        code = {"escape": "manifest_escape", "dangling": "manifest_missing"}.get(
            document.reason, "manifest_invalid"
        )
        faults.add(code, document.message, file=FILE)
        return None
    value, found = parsed(document, FILE)
    if found:
        faults.add("manifest_invalid", f"`{FILE}` is not a JSON document that plugreg accepts", file=FILE)
        faults.extend(found)
        return None
    if not isinstance(value, dict):
        faults.add("manifest_invalid", f"`{FILE}` must hold a JSON object", file=FILE)
        return None
    return value


def _schema_of(value: Json) -> str:
    schema = value.get("$schema") if isinstance(value, dict) else None
    return schema if isinstance(schema, str) else ""


def _examine(value: Mapping[str, Any], faults: Collector) -> None:
    """Report every fault of the manifest, errors first; of another version nothing else is judged."""
    schema = value.get("$schema")
    if isinstance(schema, str) and schema != SCHEMA:
        found = _SCHEMA.fullmatch(schema)
        message = (
            f"`$schema` is for Agent Plugins {found[1]}" if found else "`$schema` is not one of Agent Plugins"
        )
        message += f"; this version of plugreg reads {VERSION}: `{SCHEMA}`"
        faults.add("schema_unsupported", message, file=FILE, pointer="/$schema")
        return
    if "$schema" not in value:
        message = f"there is no `$schema`, so this is not an Agent Plugins {VERSION} manifest; add `{SCHEMA}`"
        message += ", or let `plugreg convert` make one of it"
        _invalid(faults, message)
    elif schema != SCHEMA:
        _invalid(faults, "`$schema` must be text", "$schema")
    _examine_name(value, faults)
    _examine_fields(value, faults)
    _warn(value, faults)


def _examine_name(value: Mapping[str, Any], faults: Collector) -> None:
    name = value.get("name")
    if "name" not in value:
        _invalid(faults, "there is no `name`")
    elif not isinstance(name, str):
        _invalid(faults, "`name` must be text", "name")
    elif not _NAME.fullmatch(name):
        _invalid(faults, f"`name` {quoted(name)} is not a plugin name: {_NAME_RULE}", "name")


def _examine_fields(value: Mapping[str, Any], faults: Collector) -> None:
    for key in _TEXTS:
        if not isinstance(value.get(key, ""), str):
            _invalid(faults, f"`{key}` must be text", key)
    _examine_author(value.get("author", {}), faults)
    keywords = value.get("keywords", [])
    if not isinstance(keywords, list):
        _invalid(faults, "`keywords` must be a list", "keywords")
        keywords = []
    for index, item in enumerate(keywords):
        if not isinstance(item, str):
            _invalid(faults, "each of `keywords` must be text", "keywords", index)
    extensions = value.get("extensions", {})
    for key, item in extensions.items() if isinstance(extensions, dict) else ():
        if not isinstance(item, dict):
            _invalid(faults, f"the extension {quoted(key)} must be an object", "extensions", key)


def _examine_author(author: Json, faults: Collector) -> None:
    if not isinstance(author, dict):
        _invalid(faults, "`author` must be an object", "author")
        return
    for key, item in author.items():
        if key not in _AUTHOR:
            _invalid(faults, f"`author` may hold `name`, `email` and `url`, not {quoted(key)}", "author", key)
        elif not isinstance(item, str):
            _invalid(faults, f"`author.{key}` must be text", "author", key)


def _warn(value: Mapping[str, Any], faults: Collector) -> None:
    if not isinstance(value.get("extensions", {}), dict):
        message = "`extensions` is not an object and is ignored"
        faults.add("extensions_ignored", message, severity=Severity.WARNING, file=FILE, pointer="/extensions")
    for key in value:
        if key not in _KNOWN:
            message = f"the field {quoted(key)} is not one of Agent Plugins {VERSION} and is ignored"
            where = pointer_to(key)
            faults.add("unknown_field_ignored", message, severity=Severity.WARNING, file=FILE, pointer=where)


def _tier(value: Mapping[str, Any]) -> tuple[Tier | None, tuple[Finding, ...]]:
    extensions = value.get("extensions")
    declaration = extensions.get(NAMESPACE) if isinstance(extensions, dict) else None
    return declared_tier(declaration, FILE, "extensions", NAMESPACE)


def _invalid(faults: Collector, message: str, *steps: str | int) -> None:
    faults.add("manifest_invalid", message, file=FILE, pointer=pointer_to(*steps))


def _manifest(value: Mapping[str, Any]) -> Manifest:
    """Build the normal form of a manifest that `_examine` found no error in."""
    author = value.get("author", {})
    known = [
        author[key] if key == "name" else f"<{author[key]}>" for key in ("name", "email") if author.get(key)
    ]
    return Manifest(
        format="agent-plugins",
        name=value["name"],
        **{key: value.get(key, "") for key in _TEXTS},
        authors=(" ".join(known),) if known else (),
        keywords=tuple(value.get("keywords", ())),
        tier=_tier(value)[0],
    )
