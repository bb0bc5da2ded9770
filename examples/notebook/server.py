"""A notebook over MCP, built with the official Python SDK.

Its notes lie in PLUGIN_DATA, so updates keep them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from mcp.server import MCPServer

VERSION = json.loads((Path(os.environ["PLUGIN_ROOT"]) / "plugin.json").read_text("utf-8"))["version"]
NOTES = Path(os.environ["NOTEBOOK_FILE"])

server = MCPServer("notebook", version=VERSION)


def _notes() -> list[str]:
    lines = NOTES.read_text("utf-8").splitlines() if NOTES.exists() else []
    return [json.loads(line) for line in lines]


@server.tool()
def add_note(text: str) -> str:
    """Write down one note."""
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(json.dumps(text) + "\n")
    return f"notebook {VERSION}: noted, {len(_notes())} in all"


@server.tool()
def list_notes() -> str:
    """Return all notes, oldest first."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(_notes(), 1)) or "no notes yet"


if __name__ == "__main__":
    server.run()
