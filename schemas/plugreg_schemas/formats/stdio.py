"""A stdio server of `mcp.json`: one executable token, its arguments, its environment, its working directory.

    command   `name`             searched on the PATH of the machine
              `./path`           inside the plugin, after following links
    cwd       (none)             the plugin root
              `./p`, `${PLUGIN_ROOT}/p`    inside the plugin root, after following links
              `${PLUGIN_DATA}/p`           inside the data directory, which exists only on the machine

Whether the file of a `./` command exists is not asked here: that is for `acceptance` and for the start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugreg_schemas.formats.entry import CONTROL, literal_placeholders, looks_secret
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import McpStdio
from plugreg_schemas.tree import PathEscapesError, locate

if TYPE_CHECKING:
    from plugreg_schemas.formats.entry import Entry
    from plugreg_schemas.runtimes import CwdBase
    from plugreg_schemas.tree import Tree

RESERVED_ENV: Final = ("PLUGIN_ROOT", "PLUGIN_DATA")

_CWD: Final = re.compile(r"(\./|\$\{PLUGIN_ROOT\}(?:/|\Z)|\$\{PLUGIN_DATA\}(?:/|\Z))(.*)", re.DOTALL)
_CWD_RULE: Final = "`cwd` must begin with `./`, `${PLUGIN_ROOT}` or `${PLUGIN_DATA}`"


def read(entry: Entry, tree: Tree) -> McpStdio | None:
    """Read a server whose `type` is `stdio`; None where it is not valid."""
    entry.closed("command", "args", "env", "cwd")
    command = entry.text("command")
    if command:
        _examine_command(entry, command, tree)
    args = _args(entry)
    env = _env(entry)
    cwd, base = _cwd(entry, tree)
    if entry.refused:
        return None
    return McpStdio(
        argv=(command, *args), cwd=cwd, cwd_base=base, env=env, env_policy="client_choice", expand=True
    )


def root_path(cwd: str) -> str | None:
    """Return the path inside the plugin that a `cwd` of the root forms names; None for the other forms.

    >>> root_path("${PLUGIN_ROOT}/work"), root_path("./"), root_path("${PLUGIN_DATA}")
    ('work', '', None)
    """
    found = _CWD.fullmatch(cwd)
    return found[2] if found and not found[1].startswith("${PLUGIN_DATA}") else None


def _examine_command(entry: Entry, command: str, tree: Tree) -> None:
    if CONTROL.search(command):
        entry.refuse("`command` holds a control character", "command")
    elif "\\" in command:
        entry.refuse("`command` holds a backslash; paths are written with `/`", "command")
    elif command.startswith("./"):
        _examine_path(entry, command, tree)
    elif "/" in command or command in {".", ".."} or re.match(r"[A-Za-z]:", command):
        entry.refuse("`command` must be a bare name or begin with `./`, and is never expanded", "command")
    elif re.search(r"\s", command):
        entry.refuse("`command` is one executable and no shell; put the rest into `args`", "command")


def _examine_path(entry: Entry, command: str, tree: Tree) -> None:
    try:
        where, node = locate(tree, command)
    except PathEscapesError:
        entry.refuse("`command` leads out of the plugin", "command")
        return
    if not where or command.endswith(("/", "/.", "/..")) or (node is not None and node.kind == "directory"):
        entry.refuse("`command` names a directory", "command")
    elif node is not None and node.kind != "file":
        entry.refuse("`command` does not name a regular file", "command")


def _args(entry: Entry) -> tuple[str, ...]:
    args = entry.texts("args")
    for index, text in enumerate(args):
        if "\0" in text:
            entry.refuse("each of `args` must be free of NUL, no process could receive it", "args", index)
        elif literal_placeholders(text):
            message = "a placeholder in `args` is not expanded, it arrives as it is written"
            entry.warn("placeholder_literal", message, "args", index)
    return args


def _env(entry: Entry) -> dict[str, str]:
    env = entry.mapping("env")
    for key, text in env.items():
        if key in RESERVED_ENV:
            entry.refuse(f"`env` must not set `{key}`, the host does", "env", key)
        elif not key or "=" in key or "\0" in key + text:
            entry.refuse(f"{quoted(key)} in `env` is not something that an environment can hold", "env", key)
        elif literal_placeholders(text):
            message = (
                f"the placeholder in the value of {quoted(key)} is not expanded, it arrives as it is written"
            )
            entry.warn("env_literal", message, "env", key)
        elif looks_secret(key, text):
            message = (
                f"the value of {quoted(key)} in `env` looks like a credential, and everybody can read it"
            )
            entry.warn("credential_literal", message, "env", key)
    return env


def _cwd(entry: Entry, tree: Tree) -> tuple[str | None, CwdBase]:
    if "cwd" not in entry.value:
        return None, "plugin_root"
    cwd = entry.value["cwd"]
    found = _CWD.fullmatch(cwd) if isinstance(cwd, str) else None
    if not found:
        entry.refuse(_CWD_RULE, "cwd")
    elif CONTROL.search(cwd) or "\\" in cwd:
        entry.refuse("`cwd` holds a control character or a backslash", "cwd")
    elif found[1].startswith("${PLUGIN_DATA}"):
        if _leaves(found[2]):
            entry.refuse("`cwd` leads out of the data directory", "cwd")
        return cwd, "plugin_data"
    else:
        _examine_root_cwd(entry, found[2], tree)
        return cwd, "plugin_root"
    return None, "plugin_root"


def _examine_root_cwd(entry: Entry, path: str, tree: Tree) -> None:
    try:
        _, node = locate(tree, path)
    except PathEscapesError:
        entry.refuse("`cwd` leads out of the plugin", "cwd")
        return
    if node is not None and node.kind != "directory":
        entry.refuse("`cwd` does not name a directory", "cwd")


def _leaves(path: str) -> bool:
    depth = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return False
