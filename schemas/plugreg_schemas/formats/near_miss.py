"""What a folder is that is no plugin yet: the manifests and configurations that people publish by mistake.

    plugin manifests   Claude Code, Codex, Cursor, Gemini CLI, a `plugin.json` of no format that plugreg knows
    packages           MCP bundle (MCPB), entry of the MCP registry
    lists              marketplace
    configurations     the MCP servers of a client, a bare `mcp.json`
    skills             a single `SKILL.md`

A file is judged by its name and, where its content is at hand, by its shape: a `manifest.json` may belong to
a web page as well. The most telling file wins. Nothing here is ever accepted as a plugin; `plugreg convert`
makes one of most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from plugreg_schemas.formats.files import Misfit, content, find, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.tree import Tree

Kind = Literal[
    "claude-plugin",
    "codex-plugin",
    "cursor-plugin",
    "gemini-extension",
    "plugin-json",
    "mcpb",
    "mcp-registry",
    "marketplace",
    "client-config",
    "mcp-json",
    "skill",
]


@dataclass(frozen=True, slots=True)
class NearMiss:
    """What was recognised: by which file, what that is in words, and what to do."""

    kind: Kind
    file: str
    what: str

    @property
    def advice(self) -> str:
        """What its author can do."""
        if self.kind == "marketplace":
            return "run `plugreg convert` on the folder of each plugin that it lists"
        return "`plugreg convert` makes an Agent Plugins package of it"


_CLIENT: Final = "the MCP configuration of a client"
_MARKETPLACE: Final = "a marketplace, a list of plugins"

_CANDIDATES: Final[tuple[NearMiss, ...]] = (
    NearMiss("claude-plugin", ".claude-plugin/plugin.json", "a Claude Code plugin"),
    NearMiss("codex-plugin", ".codex-plugin/plugin.json", "a Codex plugin"),
    NearMiss("cursor-plugin", ".cursor-plugin/plugin.json", "a Cursor plugin"),
    NearMiss("gemini-extension", "gemini-extension.json", "a Gemini CLI extension"),
    NearMiss("plugin-json", "plugin.json", "a plugin manifest without the `$schema` of Agent Plugins"),
    NearMiss("marketplace", ".claude-plugin/marketplace.json", _MARKETPLACE),
    NearMiss("marketplace", ".cursor-plugin/marketplace.json", _MARKETPLACE),
    NearMiss("marketplace", ".agents/plugins/marketplace.json", _MARKETPLACE),
    NearMiss("marketplace", "marketplace.json", _MARKETPLACE),
    NearMiss("mcp-registry", "server.json", "an entry of the MCP registry"),
    NearMiss("mcpb", "manifest.json", "an MCP bundle (MCPB)"),
    NearMiss("client-config", ".mcp.json", _CLIENT),
    NearMiss("client-config", ".cursor/mcp.json", _CLIENT),
    NearMiss("client-config", ".vscode/mcp.json", _CLIENT),
    NearMiss("client-config", ".gemini/settings.json", _CLIENT),
    NearMiss("client-config", "claude_desktop_config.json", _CLIENT),
    NearMiss("client-config", "mcp_config.json", _CLIENT),
    NearMiss("skill", "SKILL.md", "a single skill, which belongs into `skills/<name>/`"),
    NearMiss("mcp-json", "mcp.json", "MCP servers without a plugin around them"),
)
"""What a folder may be, the most telling file first."""

FILES: Final = frozenset(candidate.file for candidate in _CANDIDATES)
SERVER_KEYS: Final = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""Under which key the clients keep their servers."""


def recognise(tree: Tree) -> NearMiss | None:
    """Return what the folder is, or None where nothing in it is known."""
    for candidate in _CANDIDATES:
        document = _document(tree, candidate.file)
        if document is not None and (found := _judged(candidate, document)):
            return found
    return None


def servers_of(value: object) -> tuple[str, Mapping[str, Any]]:
    """Return the servers of a client's configuration and the key they stand under ("": at the top)."""
    if not isinstance(value, dict):
        return "", {}
    for key in SERVER_KEYS:
        if isinstance(value.get(key), dict):
            return key, value[key]
    bare = {name: item for name, item in value.items() if name != "$schema"}
    if bare and all(isinstance(item, dict) and is_server(item) for item in bare.values()):
        return "", bare
    return "", {}


def is_server(value: Mapping[str, Any]) -> bool:
    """Whether an object looks like the entry of a server."""
    return not {"command", "url", "httpUrl", "serverUrl"}.isdisjoint(value)


def _judged(candidate: NearMiss, document: bytes) -> NearMiss | None:
    """Return the candidate, or what its content says it is; None where it is something else altogether."""
    if candidate.kind == "skill" or not document:
        return candidate  # a skill is Markdown; nothing is known of a content that was not kept
    value, faults = parsed(document, candidate.file)
    if faults:
        return candidate
    return _shaped(candidate, value) if isinstance(value, dict) else None


def _shaped(candidate: NearMiss, value: Mapping[str, Any]) -> NearMiss | None:
    if _is_registry_entry(value):
        return NearMiss("mcp-registry", candidate.file, "an entry of the MCP registry")
    if isinstance(value.get("plugins"), list):
        return NearMiss("marketplace", candidate.file, _MARKETPLACE)
    if candidate.kind == "mcpb":
        return candidate if _is_mcpb(value) else None
    if candidate.file in {".gemini/settings.json", "server.json", "marketplace.json"}:
        return candidate if servers_of(value)[1] else None
    if candidate.kind == "mcp-json" and "servers" in value:
        return NearMiss("client-config", candidate.file, _CLIENT)
    return candidate


def _is_registry_entry(value: Mapping[str, Any]) -> bool:
    schema = value.get("$schema")
    if isinstance(schema, str) and "modelcontextprotocol" in schema and schema.endswith("server.schema.json"):
        return True
    lists = [key for key in ("packages", "remotes") if isinstance(value.get(key), list)]
    return bool(lists) and "name" in value and "mcpServers" not in value


def _is_mcpb(value: Mapping[str, Any]) -> bool:
    """Tell MCPB from the manifests of browser extensions (a number as version) and of web applications."""
    stated = value.get("manifest_version", value.get("dxt_version"))
    return isinstance(stated, str) and isinstance(value.get("server"), dict)


def _document(tree: Tree, path: str) -> bytes | None:
    """Return the content of a file, empty where it cannot be read; None where there is no such file."""
    *folders, name = path.split("/")
    where: str | Misfit | None = ""
    for folder in folders:
        where = find(tree, where, folder, "directory") if isinstance(where, str) else None
    found = find(tree, where, name, "file") if isinstance(where, str) else None
    if not isinstance(found, str):
        return None
    document = content(tree, found)
    return b"" if isinstance(document, Misfit) else document
