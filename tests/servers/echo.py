"""An MCP server made with the official SDK that tells how it was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def where() -> dict[str, object]:
    """Tell the arguments, the environment, the folder and whether PLUGIN_DATA was there before the start."""
    data = os.environ.get("PLUGIN_DATA", "")
    return {
        "argv": sys.argv[1:],
        "program": sys.argv[0],
        "env": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109 - exactly what the process has
        "data_writable": Path(data).is_dir() and os.access(data, os.W_OK),
    }


@server.tool()
def say(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
def fail() -> str:
    """Always fail."""
    raise ValueError("this tool always fails")


if __name__ == "__main__":
    server.run("stdio")
