"""`plugreg init`: a new plugin that passes `check` and runs with nothing but Python installed.

agent-plugins   plugin.json, mcp.json, a server, a skill
dagstack        dagstack.toml, a class for hosts in Python, the same as a server
keel            plugin.yaml, a sidecar
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, get_args

from plugreg.new_folder import new_folder
from plugreg.scaffold_files import (
    DAGSTACK_MANIFEST,
    DAGSTACK_PLUGIN,
    KEEL_MANIFEST,
    MCP_SERVER,
    SIDECAR,
    SKILL,
)
from plugreg_schemas.errors import InvalidInput, UsageError
from plugreg_schemas.manifest import Format
from plugreg_schemas.names import PluginName

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS: Final = "https://agent-plugins.org/schemas/1.0.0"

_NAMES: Final = {
    "dagstack": (re.compile(r"[a-z0-9_-]+"), "a-z 0-9 _ -"),
    "keel": (re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*"), "a-z 0-9 . -"),
    "agent-plugins": (re.compile(r"[a-z0-9.-]+"), "a-z 0-9 . -"),
}
"""What each format allows in a name, beyond what a registry demands."""


def init(folder: Path, name: str = "", format_: Format = "agent-plugins") -> list[Path]:
    """Write a new plugin into `folder`, which is made if it is missing; nothing that exists is overwritten.

    Raises:
        UsageError: `format_unknown`.
        InvalidInput: `name_invalid`: the folder's name is not a plugin name and none was given.
        Conflict: `folder_not_empty`.
    """
    if format_ not in get_args(Format):
        raise UsageError(
            "format_unknown", f"there is no format `{format_}`", hint=f"one of {get_args(Format)}"
        )
    plugin = _name(folder, name, format_)
    files = _files(format_, plugin)
    with new_folder(folder, hint="give the name of a new folder") as staged:
        for path, content in files.items():
            target = staged / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content.replace("@NAME@", plugin), encoding="utf-8")
            if content.startswith("#!"):
                target.chmod(0o755)
    return [folder / path for path in files]


def _files(format_: Format, plugin: str) -> dict[str, str]:
    if format_ == "keel":
        return {"plugin.yaml": KEEL_MANIFEST, "sidecar.py": SIDECAR}
    if format_ == "dagstack":
        return {"dagstack.toml": DAGSTACK_MANIFEST, "plugin.py": DAGSTACK_PLUGIN, "server.py": MCP_SERVER}
    manifest = {
        "$schema": f"{SCHEMAS}/plugin.schema.json",
        "name": plugin,
        "version": "0.1.0",
        "description": "Greets people.",
    }
    servers = {"greeter": {"type": "stdio", "command": "python3", "args": ["${PLUGIN_ROOT}/server.py"]}}
    return {
        "plugin.json": _json(manifest),
        "mcp.json": _json({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers}),
        "server.py": MCP_SERVER,
        "skills/greeting/SKILL.md": SKILL,
    }


def _name(folder: Path, name: str, format_: Format) -> str:
    try:
        plugin = PluginName(name or folder.resolve().name)
    except InvalidInput as error:
        raise InvalidInput(error.code, error.message, hint=f"give one with `--name`: {error.hint}") from None
    allowed, rule = _NAMES[format_]
    if not allowed.fullmatch(plugin):
        message = f"`{plugin}` is no name in the format {format_}"
        raise InvalidInput("name_invalid", message, hint=f"give one with `--name`, of {rule}")
    return plugin


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
