"""How long `check` and the readers take: a package with 50 servers and 50 skills, and 10,000 small manifests.

Prints milliseconds, and the share that plain parsing of the same files would take in the same run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import yaml

from plugreg.check import check
from plugreg_schemas import formats
from plugreg_schemas.tree import MemoryTree

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
ROUNDS = 20
MANIFESTS = 10_000
SKILL = "---\nname: {name}\ndescription: Does one thing, and says when to use it.\n---\n\n# {name}\n\nText.\n"


def manifest(name: str) -> str:
    """Return a `plugin.json`."""
    return json.dumps({"$schema": f"{SCHEMAS}/plugin.schema.json", "name": name, "version": "1.0.0"})


def large_package() -> dict[str, str]:
    """Return the files of a plugin with 50 servers and 50 skills."""
    servers = {
        f"server-{number}": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", f"@example/server-{number}@1.2.3", "--data", "${PLUGIN_DATA}"],
            "env": {"MODE": "plain"},
        }
        for number in range(50)
    }
    files = {
        "plugin.json": json.dumps(
            {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": "large", "version": "1.0.0"}
        ),
        "mcp.json": json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers}),
    }
    names = [f"skill-{number}" for number in range(50)]
    return files | {f"skills/{name}/SKILL.md": SKILL.format(name=name) for name in names}


def best(run: object, rounds: int = ROUNDS) -> float:
    """Return the milliseconds of the quickest of several runs."""
    if not callable(run):
        raise TypeError("a benchmark runs something")
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1000)
    return min(times)


def main() -> None:
    """Measure and print."""
    files = large_package()
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        checked = check(Path(folder))
        if not checked.publishable:
            sys.exit(f"error: the sample is not publishable: {checked.findings}")
        whole = best(lambda: check(Path(folder)))

    def plain() -> None:
        for path, text in files.items():
            if path.endswith(".json"):
                json.loads(text)
            else:
                yaml.load(text.split("---")[1], Loader=yaml.CSafeLoader)

    floor = best(plain)
    print(
        f"check of 50 servers and 50 skills (read, pack, read the bundle, judge): {whole:.1f} ms (wanted: 30)"
    )
    print(f"  plain parsing of the same files: {floor:.1f} ms, ratio {whole / floor:.1f}")

    small = MemoryTree.of({"plugin.json": manifest("small"), "mcp.json": small_servers()})
    began = time.perf_counter()
    for _ in range(MANIFESTS):
        if not formats.read(small).ok:
            sys.exit("error: the small sample does not load")
    taken = time.perf_counter() - began
    print(f"{MANIFESTS} manifests with two servers: {taken:.2f} s on one core (wanted: 10)")


def small_servers() -> str:
    """Return an `mcp.json` with two servers."""
    servers = {
        "local": {"type": "stdio", "command": "python3", "args": ["${PLUGIN_ROOT}/server.py"]},
        "remote": {"type": "streamable-http", "url": "https://tools.example.com/mcp"},
    }
    return json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers})


if __name__ == "__main__":
    main()
