"""Commands that run plugins: plan, tools, call."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugreg import config
from plugreg.cli.consuming import say_launchers
from plugreg_schemas.errors import InvalidInput, NotAvailable
from plugreg_schemas.names import PluginName

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from plugreg.console import Console
    from plugreg.launch import Terms
    from plugreg.run import Target
    from plugreg_schemas.manifest import Manifest


def plan(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg plan`."""
    from plugreg import run

    planned = run.plan(_target(args.target, args, console), inherit_env=args.inherit_env)
    for plugin in planned["plugins"]:
        console.say(f"{args.target}\n  root       {plugin['root']}\n  data       {plugin['data']}")
        for server in plugin["servers"]:
            _say_server(console, server)
        for skipped in plugin["skipped"]:
            console.say(f"  skipped    {skipped['name']}: {skipped['error']['detail']}")
        for skill in plugin["skills"]:
            console.say(f"  skill      {skill['name']}: {skill['path']}")
        say_launchers(console, plugin["launchers"])
    console.result(planned)
    return 0


def _say_server(console: Console, server: dict[str, Any]) -> None:
    if "url" in server:
        console.say(f"  server     {server['name']} ({server['type']}): {server['url']}")
        return
    console.say(
        f"  server     {server['name']} ({server['type']}): {' '.join([server['command'], *server['args']])}"
    )
    console.say(f"    in       {server['cwd']}")
    for name, value in sorted(server["env"].items()):
        console.say(f"    env      {name}={value}")


def tools(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg tools`."""
    from plugreg import run

    listed = run.list_tools(_target(args.name, args, console), args.server, terms=_terms(args))
    for server in listed["servers"]:
        if "error" in server:
            console.warn(f"{server['name']}: {server['error']['detail']}")
            continue
        console.say(server["name"])
        for tool in server["tools"]:
            summary = (tool.get("description") or "").strip().split("\n")[0]
            console.say(f"  {tool['name']}{': ' + summary if summary else ''}")
    console.result(listed | {"tools": _flat(listed["servers"])})
    return 0


def _flat(servers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools of all servers in one list, each naming its server."""
    return [{**tool, "server": server["name"]} for server in servers for tool in server.get("tools", [])]


def call(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg call`. A tool that reports an error of its own is exit 1."""
    from plugreg import run

    target = _target(args.name, args, console)
    result = run.call_tool(target, args.server, args.tool, _arguments(args.arguments), terms=_terms(args))
    for item in result.get("content", []):
        console.say(
            item["text"] if item.get("type") == "text" else f"({item.get('type')}; `--json` shows it)"
        )
    console.result(result)
    return 1 if result.get("isError") else 0


def _terms(args: argparse.Namespace) -> Terms:
    from plugreg.launch import Terms

    return Terms(inherit_env=args.inherit_env)


def _arguments(text: str) -> dict[str, Any]:
    from plugreg_schemas.documents import parse_json

    content = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    value = parse_json(content, "arguments")
    if not isinstance(value, dict):
        raise InvalidInput(
            "arguments_invalid",
            "the tool's arguments are not a JSON object",
            hint="""write for example '{"path": "src"}'""",
        )
    return value


def _target(name: str, args: argparse.Namespace, console: Console) -> Target:
    """Return the installed plugin of this name; for a path, the plugin in that folder.

    What its registry says against an installed plugin is told here, or is the target's refusal.
    """
    from plugreg import inventory
    from plugreg.plugins_root import PluginsRoot
    from plugreg.run import Target

    settings = config.of_command(args, os.environ)
    root = PluginsRoot.at(settings.root)
    if os.sep in name or name in {".", ".."}:
        manifest = _manifest(Path(name))
        return Target(manifest.name, Path(name).resolve(), root.data_of_folder(Path(name)), manifest)
    from plugreg.starting import Standing, standing

    row = inventory.locate(root, PluginName(name))
    found = standing(settings, row.facts) if row.facts else Standing()
    _tell((row.withdrawn, *found.notes) if row.withdrawn else found.notes, console)
    return Target(row.name, row.root, row.data, _manifest(row.root), found.refusal)


def _tell(notes: Iterable[str], console: Console) -> None:
    """Say what a person should know; a warning also where a program reads the answer."""
    for note in notes:
        if note.startswith("warning: "):
            console.warn(note.removeprefix("warning: "))
        else:
            console.note(note)


def _manifest(folder: Path) -> Manifest:
    from plugreg_schemas import formats
    from plugreg_schemas.tree import DirectoryTree

    if not folder.is_dir():
        raise NotAvailable("path_not_found", f"there is no folder `{folder}`")
    reading = formats.read(DirectoryTree(folder))
    if reading.manifest is None:
        raise InvalidInput("plugin_invalid", f"`{folder}` does not load as a plugin", findings=reading.errors)
    return reading.manifest
