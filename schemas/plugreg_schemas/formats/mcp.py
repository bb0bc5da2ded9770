"""`mcp.json` of Agent Plugins 1.0.0: its two stages and their boundaries.

    stage 1   the document   a fault disables all servers: `mcp_disabled`, its message begins with the reason
    stage 2   each server    a fault skips that server: `server_invalid`

Both stages always run, so an author learns of every fault at once. Messages name keys and never values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Collector
from plugreg_schemas.formats import remote, stdio
from plugreg_schemas.formats.entry import Entry
from plugreg_schemas.formats.files import Misfit, collected, content, find, parsed
from plugreg_schemas.manifest import Component, Verdict
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.errors import Finding
    from plugreg_schemas.runtimes import McpHttp, McpStdio
    from plugreg_schemas.tree import Tree

FILE: Final = "mcp.json"

_SCHEMAS: Final = "https://agent-plugins.org/schemas/"
_SCHEMA: Final = re.compile(re.escape(_SCHEMAS) + r"(\d{1,4}\.\d{1,4}\.\d{1,4})/mcp\.schema\.json")
_READ: Final = "1.0.0"
_KNOWN: Final = frozenset({"$schema", "mcpServers"})

Reason = Literal[
    "invalid_json", "schema_unsupported", "schema_mismatch", "top_level_invalid", "not_a_file", "escape"
]


@dataclass(frozen=True, slots=True)
class Servers:
    """What `mcp.json` gives: a verdict for each entry, a component for each that loads."""

    verdicts: tuple[Verdict, ...] = ()
    components: tuple[Component, ...] = ()
    findings: tuple[Finding, ...] = ()


def read(tree: Tree, version: str = _READ) -> Servers:
    """Read `mcp.json`; `version` is the Agent Plugins version of `plugin.json`, which both must share."""
    faults = Collector("mcp_disabled", "`mcp.json` is not valid")
    value = _document(tree, faults)
    if value is None:
        return Servers(findings=collected(faults, FILE))
    _examine_top(value, version, faults)
    disabled = faults.failed
    servers = value.get("mcpServers")
    entries = servers if isinstance(servers, dict) else {}
    runtimes = {name: _runtime(name, entry, tree, faults) for name, entry in entries.items()}
    loaded = {} if disabled else {name: runtime for name, runtime in runtimes.items() if runtime is not None}
    return Servers(
        tuple(Verdict(name, "load" if name in loaded else "skip") for name in runtimes),
        tuple(Component(name, (runtime,)) for name, runtime in loaded.items()),
        collected(faults, FILE),
    )


def _document(tree: Tree, faults: Collector) -> dict[str, Any] | None:
    where = find(tree, "", FILE, "file")
    if where is None:
        return None
    document = where if isinstance(where, Misfit) else content(tree, where)
    if isinstance(document, Misfit):
        reasons: dict[str, Reason] = {"escape": "escape", "too_large": "invalid_json"}
        _disabled(faults, reasons.get(document.reason, "not_a_file"), document.message)
        return None
    value, found = parsed(document, FILE, Boundary.COMPONENT)
    if found:
        _disabled(faults, "invalid_json", f"`{FILE}` is not a JSON document that plugreg accepts")
        faults.extend(found)
        return None
    if not isinstance(value, dict):
        _disabled(faults, "top_level_invalid", f"`{FILE}` must hold a JSON object")
        return None
    return value


def _examine_top(value: Mapping[str, Any], version: str, faults: Collector) -> None:
    _examine_schema(value, version, faults)
    if "mcpServers" not in value:
        wrapped = (
            all(isinstance(item, dict) for key, item in value.items() if key != "$schema") and len(value) > 1
        )
        hint = "; the servers stand at the top level, put them into it" if wrapped else ""
        _disabled(faults, "top_level_invalid", f"there is no `mcpServers`{hint}")
    elif not isinstance(value["mcpServers"], dict):
        _disabled(faults, "top_level_invalid", "`mcpServers` must be an object", "mcpServers")
    for key in value:
        if key not in _KNOWN:
            message = f"only `$schema` and `mcpServers` may stand at the top level, not {quoted(key)}"
            _disabled(faults, "top_level_invalid", message, key)


def _examine_schema(value: Mapping[str, Any], version: str, faults: Collector) -> None:
    right = f"`{_SCHEMAS}{version}/mcp.schema.json`"
    schema = value.get("$schema")
    if "$schema" not in value:
        _disabled(faults, "top_level_invalid", f"there is no `$schema`; add {right}")
        return
    if not isinstance(schema, str):
        _disabled(faults, "top_level_invalid", f"`$schema` must be text; write {right}", "$schema")
        return
    found = _SCHEMA.fullmatch(schema)
    if not found:
        _disabled(
            faults, "schema_unsupported", f"`$schema` is not one of Agent Plugins; write {right}", "$schema"
        )
    elif found[1] != version:
        message = f"`$schema` is for Agent Plugins {found[1]}, `plugin.json` for {version}; write {right}"
        _disabled(faults, "schema_mismatch", message, "$schema")
    elif version != _READ:
        _disabled(
            faults, "schema_unsupported", f"this version of plugreg reads Agent Plugins {_READ}", "$schema"
        )


def _runtime(name: str, value: object, tree: Tree, faults: Collector) -> McpStdio | McpHttp | None:
    """Read one server; None where a fault of its own skips it."""
    entry = Entry(name, value if isinstance(value, dict) else {}, faults)
    if not isinstance(value, dict):
        entry.refuse("a server must be an object")
        return None
    kind = value.get("type")
    if kind == "stdio":
        return stdio.read(entry, tree)
    if kind in {"streamable-http", "sse"}:
        return remote.read(entry)
    if "type" not in value:
        guess = "stdio" if "command" in value else "streamable-http" if "url" in value else ""
        entry.refuse("there is no `type`" + (f"; add `{guess}`" if guess else ""))
    elif kind in {"http", "streamable_http", "streamableHttp", "streamableHTTP"}:
        entry.refuse("`type` is unknown; Streamable HTTP is spelled `streamable-http`", "type")
    else:
        entry.refuse("`type` must be `stdio`, `streamable-http` or `sse`", "type")
    return None


def _disabled(faults: Collector, reason: Reason, message: str, *steps: str) -> None:
    faults.add(
        "mcp_disabled",
        f"{reason}: {message}",
        boundary=Boundary.COMPONENT,
        file=FILE,
        pointer=pointer_to(*steps),
    )
