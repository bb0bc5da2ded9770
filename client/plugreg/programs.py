"""Which program a command stands for: one of the machine, found on `PATH`, or one that the plugin brings.

A bare command (`npx`) is looked up; a `./` command is a file of the plugin, judged when it is started.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAvailable
from plugreg_schemas.names import quoted

COMES_WITH: Final = {
    "bun": "Bun",
    "bunx": "Bun",
    "deno": "Deno",
    "docker": "Docker",
    "dotnet": "the .NET SDK",
    "go": "Go",
    "java": "a Java runtime",
    "node": "Node.js",
    "npm": "Node.js",
    "npx": "Node.js",
    "pipx": "pipx",
    "podman": "Podman",
    "python": "Python",
    "python3": "Python",
    "ruby": "Ruby",
    "uv": "uv",
    "uvx": "uv",
}
"""Which program to install for a launcher."""

_SHEBANG_BYTES: Final = 256
"""What Linux reads of the first line of a script (BINPRM_BUF_SIZE)."""


def find_program(name: str, search: str) -> str:
    """Return the absolute path of the bare command `name`, looked for in the folders of `search`.

    Raises:
        NotAvailable: `launcher_missing`.
    """
    if found := shutil.which(name, path=search):
        return os.path.abspath(found)  # noqa: PTH100 - a link must stay a link: programs look at their own name
    hint = (
        f"`{name}` comes with {COMES_WITH[name]}"
        if name in COMES_WITH
        else f"install the program that has `{name}`"
    )
    raise NotAvailable(
        "launcher_missing",
        f"the command {quoted(name)} was not found on this machine",
        hint=f"{hint}, and must be in a folder of `PATH`",
    )


def as_declared(name: str, search: str) -> str:  # noqa: ARG001 - stands in for `find_program`
    """Leave a bare command as it is, for showing what would be started on a machine that has it."""
    return name


def bundled_program(command: str, root: Path) -> str:
    """Return the absolute path of the `./` command: now, an executable file inside `root`.

    Raises:
        IntegrityError: `command_escape`.
        InvalidInput: `command_missing`, `command_not_executable`, `shebang_cr`.
    """
    path = root / os.path.normpath(command)
    if not resolved(path).is_relative_to(root):
        raise IntegrityError(
            "command_escape",
            f"the command {quoted(command)} leads out of the plugin",
            hint="a link on its path was changed after the plugin was checked; install the plugin again",
        )
    if not path.is_file():
        raise InvalidInput(
            "command_missing", f"the plugin has no file {quoted(command)}, which it declares as command"
        )
    if not os.access(path, os.X_OK):
        raise InvalidInput(
            "command_not_executable",
            f"the command {quoted(command)} is not executable",
            hint=f"run `chmod +x {command}` in the plugin's folder, or install the plugin again",
        )
    if _first_line(path).endswith(b"\r"):
        raise InvalidInput(
            "shebang_cr",
            f"line 1 of {quoted(command)} ends with a carriage return, so its interpreter is not found",
            hint="save the file with Unix line ends",
        )
    return str(path)


def _first_line(path: Path) -> bytes:
    """Return the first line of a script; nothing for another program, or one that may be run but not read."""
    try:
        with path.open("rb") as file:
            start = file.read(_SHEBANG_BYTES)
    except PermissionError:
        return b""
    return start.split(b"\n", 1)[0] if start.startswith(b"#!") else b""


def resolved(path: Path) -> Path:
    """Return `path` without links; unlike `Path.resolve`, links that go round in a circle are no error."""
    return Path(os.path.realpath(path))
