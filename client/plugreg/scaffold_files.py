"""The files that `plugreg init` writes, as templates: `@NAME@` is the plugin's name.

They run with nothing but Python installed; the server counts its greetings in PLUGIN_DATA, the folder that
updates of a plugin never touch.
"""

from __future__ import annotations

from typing import Final

MCP_SERVER: Final = '''#!/usr/bin/env python3
"""A small MCP server over stdio, standard library only. Replace `greet` by what your plugin does.

It counts its greetings in PLUGIN_DATA, the folder that updates of the plugin never touch.
"""

import json
import os
import sys
from pathlib import Path

TOOLS = [
    {
        "name": "greet",
        "description": "Greet someone and count the greetings.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    }
]


def greet(name):
    counter = Path(os.environ["PLUGIN_DATA"]) / "greetings"
    count = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(count))
    return f"Hello, {name}. Greeting number {count}."


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "@NAME@", "version": "0.1.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "greet":
        arguments = params.get("arguments") or {}
        return {"content": [{"type": "text", "text": greet(arguments.get("name", "you"))}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "not known here: " + message["method"]}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
'''

SKILL: Final = """---
name: greeting
description: Greet people by name. Use it when somebody asks for a greeting.
---

# Greeting

Call the tool `greet` with the person's name and pass its answer on.
"""

SIDECAR: Final = '''#!/usr/bin/env python3
"""A small Keel sidecar over stdio, standard library only. Replace `greet` by what your plugin does.

One JSON-RPC message a line. It ends when its input ends: that is how a host stops it, or has died.
"""

import json
import sys

TOOLS = [
    {
        "name": "greet",
        "description": "Greet someone.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    }
]


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "1"),
            "kind": "sidecar",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "@NAME@", "version": "0.1.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "greet":
        name = (params.get("arguments") or {}).get("name", "you")
        return {"content": [{"type": "text", "text": f"Hello, {name}."}]}
    if method == "health":
        return {"status": "ok"}
    if method == "close":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    params = message.get("params") or {}
    result = answer(message["method"], params)
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "not known here: " + message["method"]}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
    if message["method"] == "close" and "session" not in params and "sessionId" not in params:
        break
'''

KEEL_MANIFEST: Final = """# A plugin is exactly one kind of thing: in-process, sidecar or webview.
id: @NAME@
version: "0.1.0"
description: Greets people.
kind: sidecar
entry:
  command: ./sidecar.py
  # The environment holds nothing but a few basics: name here what the plugin needs of the host's.
  env: []
provides:
  tools: [greet]
"""

DAGSTACK_MANIFEST: Final = """# The runtimes are alternatives, the best first: a host uses one of them.
[plugin]
schema_version = "1"
name = "@NAME@"
version = "0.1.0"
description = "Greets people."
kind = "tool"
kind_api_version = "1"
core_version = ">=0.1"
runtime = ["in_process", "mcp_stdio"]
entry_point = "plugin:Greeter"

[plugin.mcp_stdio]
command = ["./server.py"]
"""

DAGSTACK_PLUGIN: Final = '''"""A small tool for hosts in Python: replace `greet` by what your plugin does."""


class Greeter:
    """The constructor takes nothing and does nothing; what costs is done in `setup`."""

    def setup(self, ctx):
        self.count = 0

    def teardown(self):
        return True

    def get_schema(self):
        parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return [{"name": "greet", "description": "Greet someone.", "parameters": parameters}]

    def execute(self, function, args):
        if function != "greet":
            return {"result": None, "is_error": True, "error_message": "not known here: " + function}
        self.count += 1
        return {"result": f"Hello, {args['name']}. Greeting number {self.count}.", "is_error": False}
'''
