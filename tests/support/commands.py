"""`plugreg` as people run it: a real process with a home and a plugins root of its own.

user = User(tmp_path / "ann")
user.run("registry", "add", url)              must succeed, returns what --json printed
user.fails("install", "nothing", code=7)      must end with this exit code, returns the problem
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAMS: Final = Path(sys.executable).parent
SCHEMAS: Final = "https://agent-plugins.org/schemas/1.0.0"
TIME_LIMIT_S: Final = 120


@dataclass
class User:
    """A person with a machine: `home` holds keys and known registries, `root` the installed plugins."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "plugins"

    def env(self) -> dict[str, str]:
        """The environment of a command: this interpreter's programs come first on the path."""
        return {
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PLUGREG_HOME": str(self.folder / "home"),
            "PLUGREG_ROOT": str(self.root),
            "LANG": "C.UTF-8",
            **self.environment,
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it."""
        return subprocess.Popen(
            [PROGRAMS / "plugreg", *words],
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        """Wait for a started command; it must not have shown a traceback."""
        stdout, stderr = process.communicate(timeout=TIME_LIMIT_S)
        assert "Traceback" not in stderr, stderr
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def raw(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is."""
        return self.end(self.start(*words))

    def run(self, *words: str) -> Any:
        """Run a command that must succeed and return the JSON it printed."""
        done = self.raw(*words, "--json")
        assert done.returncode == 0, f"plugreg {' '.join(words)}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def fails(self, *words: str, code: int) -> dict[str, Any]:
        """Run a command that must end with this exit code and return the problem it printed."""
        done = self.raw(*words, "--json")
        assert done.returncode == code, (
            f"plugreg {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}"
        )
        problem: dict[str, Any] = json.loads(done.stdout)["error"]
        return problem


def write_plugin(
    folder: Path,
    name: str = "demo",
    version: str = "1.0.0",
    servers: dict[str, Any] | None = None,
    files: Mapping[str, str | bytes] | None = None,
) -> Path:
    """Write a plugin's folder; a file whose content begins with `#!` is executable."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": name, "version": version}
    content: dict[str, str | bytes] = {"plugin.json": json.dumps(manifest), **(files or {})}
    if servers is not None:
        content["mcp.json"] = json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers})
    for path, text in content.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        body = text.encode() if isinstance(text, str) else text
        target.write_bytes(body)
        target.chmod(0o755 if body.startswith(b"#!") else 0o644)
    return folder
