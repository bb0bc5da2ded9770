"""An MCP bundle (MCPB): one server, and settings that its user is asked for.

A setting that has a default is replaced by it, because nobody asks here; the others stay placeholders.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from plugreg.convert.draft import Found
from plugreg.convert.values import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg.convert.draft import Draft


def servers(file: str, value: Mapping[str, Any], draft: Draft) -> list[Found]:
    """Return the one server of the bundle, or none after recording why."""
    server = value.get("server")
    config = server.get("mcp_config") if isinstance(server, dict) else None
    if not isinstance(config, dict):
        config = _config_of(server) if isinstance(server, dict) else None
    if config is None:
        draft.lose("server_invalid", "`server` does not say how it is started", file, "server")
        return []
    plain = {key: item for key, item in config.items() if key != "platform_overrides"}
    if "platform_overrides" in config:
        message = "a command for one platform has no counterpart; the common one is taken"
        draft.lose("platform_dropped", message, file, "server", "mcp_config", "platform_overrides")
    settings = value.get("user_config")
    filled = _filled(plain, settings if isinstance(settings, dict) else {})
    name = value.get("name")
    label = name if isinstance(name, str) and name else "server"
    return [Found(label, filled, file, ("server", "mcp_config"))]


def _config_of(server: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return how a bundle without `mcp_config` is started: by its type and its entry point."""
    entry = server.get("entry_point")
    programs = {"node": "node", "python": "python3"}
    if not isinstance(entry, str) or not entry:
        return None
    if server.get("type") == "binary":
        return {"command": f"${{__dirname}}/{entry}"}
    program = programs.get(str(server.get("type")))
    return {"command": program, "args": [f"${{__dirname}}/{entry}"]} if program else None


def _filled(config: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `${user_config.NAME}` by the default of that setting, where it has a plain one."""

    def default(found: re.Match[str]) -> str:
        setting = settings.get(found[1])
        return as_text(setting.get("default") if isinstance(setting, dict) else None) or found[0]

    def fill(value: object) -> object:
        if isinstance(value, str):
            return re.sub(r"\$\{user_config\.([^{}]+)\}", default, value)
        if isinstance(value, list):
            return [fill(item) for item in value]
        return {key: fill(item) for key, item in value.items()} if isinstance(value, dict) else value

    return {key: fill(item) for key, item in config.items()}
