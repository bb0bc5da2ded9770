"""An MCP server without any SDK that misbehaves in the ways given as arguments, and answers between them.

before the first answer   flood (256 KiB of log), print (text on stdout), exit (status 3), spawn, spawn_clean
instead of answers        silent, modern (refuses `initialize`), ancient (dies of `server/discover`)
at the end of stdin       clean (notes the order of the end in PLUGIN_DATA), stubborn (ignores it, and SIGTERM)
on a call                 crash (status 7), hang
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

WAYS = set(sys.argv[1:])
FOREVER = [sys.executable, "-c", "import threading; threading.Event().wait()"]
TOOLS = [{"name": "say", "inputSchema": {"type": "object"}}]


def answer(request: dict[str, object], result: object, *, error: object = None) -> None:
    """Write one answer to stdout."""
    body = {"error": error} if error else {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def note(what: str) -> None:
    """Append a line to the record in PLUGIN_DATA."""
    with (Path(os.environ["PLUGIN_DATA"]) / "record").open("a") as record:
        record.write(f"{what}\n")


def misbehave() -> None:
    """Do what is to be done before the first answer."""
    if "clean" in WAYS:
        signal.signal(signal.SIGTERM, lambda *_: note("term"))
    if "stubborn" in WAYS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "flood" in WAYS:
        sys.stderr.write("log line\n" * 32768)
        sys.stderr.write("the last words\x1b[2J\n")
        sys.stderr.flush()
    if "print" in WAYS:
        sys.stdout.write("Welcome to the server\n\n" + "x" * 200_000 + "\n" + '{"level": "info"}\n')
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\xff\xfe not UTF-8\n")
        sys.stdout.buffer.flush()
    if "spawn" in WAYS:
        note(f"pid {subprocess.Popen(FOREVER, start_new_session=True).pid}")
    if "spawn_clean" in WAYS:
        note(f"pid {subprocess.Popen(FOREVER, start_new_session=True, env={}).pid}")
    if "exit" in WAYS:
        sys.stderr.write("no API key\n")
        sys.exit(3)
    if "silent" in WAYS:
        threading.Event().wait()


def serve(request: dict[str, object]) -> None:
    """Answer one request."""
    method = request.get("method")
    params = request.get("params")
    if method == "server/discover" and "ancient" in WAYS:
        sys.exit(9)
    if method == "initialize" and "modern" in WAYS:
        data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        answer(request, None, error={"code": -32022, "message": "Unsupported protocol version", "data": data})
    elif method == "initialize":
        info = {"name": "hostile", "version": "1"}
        version = os.environ.get("WIRE_VERSION", "2025-06-18")
        answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "server/discover" and "modern" in WAYS:
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        answer(request, found | {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
    elif method == "tools/list":
        answer(request, {"tools": TOOLS, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
    elif method == "tools/call" and isinstance(params, dict):
        if "crash" in WAYS:
            sys.stderr.write("out of memory\n")
            sys.exit(7)
        if "hang" in WAYS:
            threading.Event().wait()
        text = json.dumps(params.get("arguments"), ensure_ascii=False)
        answer(request, {"content": [{"type": "text", "text": text}], "resultType": "complete"})
    elif "id" in request:
        answer(request, None, error={"code": -32601, "message": "Method not found"})


def main() -> None:
    """Answer until stdin ends."""
    misbehave()
    for line in sys.stdin:
        serve(json.loads(line))
    if "clean" in WAYS:
        note("clean")
    if "stubborn" in WAYS:
        threading.Event().wait()


if __name__ == "__main__":
    main()
