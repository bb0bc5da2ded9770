"""What a Keel plugin runs: the command of `entry`, and the page of a webview.

command   `name`     searched on the PATH of the machine
          `./path`   inside the plugin, which is also the working directory
env       [NAME, ...]              passed on from the host
          {NAME: text, NAME: }     a literal value; without one, passed on from the host
page      a file below `ui/`, after following links: nothing outside that folder is ever served
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.formats.entry import CONTROL, PLACEHOLDER, looks_secret
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import Sidecar
from plugreg_schemas.tree import PathEscapesError, locate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.formats.keel import Report
    from plugreg_schemas.tree import Tree

UI_ROOT: Final = "ui"
RESERVED: Final = frozenset({"PLUGIN_ROOT", "PLUGIN_DATA"})
"""Variables that the host sets."""

_FIELDS: Final = ("command", "args", "env")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read(value: object, kind: str, tree: Tree, report: Report) -> Sidecar | None:
    """Read `entry`; None where it starts nothing or was refused."""
    if value is None:
        value = {}  # `entry:` with nothing behind it
    if not isinstance(value, dict):
        report.refuse("`entry` must be a mapping with `command`, `args` and `env`, or empty", "entry")
        return None
    if kind == "in-process":
        if value:
            message = "`entry` must be empty: an in-process plugin is compiled into its host"
            report.refuse(message, "entry")
        return None
    for key in value:
        if key not in _FIELDS:
            report.refuse(f"`entry` may hold `command`, `args` and `env`, not {quoted(key)}", "entry", key)
    if kind != "sidecar" and not value:
        return None
    command = _command(value, kind, tree, report)
    args = _args(value, report)
    literal, passed = _env(value.get("env", []), report)
    if not command:
        return None
    return Sidecar(
        argv=(command, *args), env=literal, env_passthrough=passed, env_policy="whitelist", expand=False
    )


def page(value: object, tree: Tree, report: Report) -> str:
    """Return the page of a webview, which must be a file below `ui/`."""
    steps = ("provides", "ui", "entry")
    if not isinstance(value, str) or not value:
        report.refuse("`provides.ui.entry` must be the name of a file in `ui/`", *steps)
        return ""
    parts = value.split("/")
    if ".." in parts or value.startswith("/") or "\\" in value or CONTROL.search(value):
        report.refuse("`provides.ui.entry` must stay inside `ui/`", *steps)
        return ""
    path = f"{UI_ROOT}/{value}"
    try:
        where, node = locate(tree, path)
        home, _ = locate(tree, UI_ROOT)
    except PathEscapesError:
        report.refuse(f"the page {quoted(path)} leads out of the plugin", *steps)
        return ""
    if node is None or node.kind != "file":
        report.refuse(f"the plugin has no file {quoted(path)}, the page of the webview", *steps)
    elif not where.startswith(f"{home}/"):
        report.refuse(f"the page {quoted(path)} is a link that leads out of `ui/`", *steps)
    return value


def _command(value: Mapping[str, Any], kind: str, tree: Tree, report: Report) -> str:
    command = value.get("command")
    if "command" not in value:
        what = "a sidecar" if kind == "sidecar" else "the backend of a webview"
        report.refuse(f"there is no `command` in `entry`: {what} needs one", "entry")
        return ""
    if not isinstance(command, str) or not command:
        report.refuse("`command` must be text that is not empty", "entry", "command")
        return ""
    problem = _problem_of(command, tree)
    if problem:
        report.refuse(problem, "entry", "command")
        return ""
    return command


def _args(value: Mapping[str, Any], report: Report) -> tuple[str, ...]:
    args = report.texts(value.get("args", []), "entry", "args")
    for index, text in enumerate(args):
        if "\0" in text:
            report.refuse("each of `args` must be free of NUL", "entry", "args", index)
        elif PLACEHOLDER.search(text):
            message = "a placeholder in `args` is not expanded, it arrives as it is written"
            report.warn("placeholder_literal", message, "entry", "args", index)
    return args


def _problem_of(command: str, tree: Tree) -> str:
    if CONTROL.search(command) or "\\" in command:
        return "`command` holds a control character or a backslash; paths are written with `/`"
    if not command.startswith("./"):
        if "/" in command or command in {".", ".."} or re.match(r"[A-Za-z]:", command):
            return "`command` must be a bare name, or a path in the plugin that begins with `./`"
        if re.search(r"\s", command):
            return "`command` is one executable and no shell; put the rest into `args`"
        return ""
    try:
        where, node = locate(tree, command)
    except PathEscapesError:
        return "`command` leads out of the plugin"
    if not where or command.endswith(("/", "/.", "/..")) or (node is not None and node.kind != "file"):
        return "`command` does not name a regular file"
    return ""


def _env(value: object, report: Report) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return literal values by name, and the names that are passed on from the host."""
    if not isinstance(value, (list, dict)):
        report.refuse("`env` must be a list of names, or a mapping of names to values", "entry", "env")
        return {}, ()
    literal: dict[str, str] = {}
    passed: list[str] = []
    for key, text, steps in _variables(value, report):
        if not _NAME.fullmatch(key):
            report.refuse(f"{quoted(key)} in `env` is not the name of a variable", *steps)
        elif key in RESERVED:
            report.refuse(f"`env` must not name `{key}`, the host sets it", *steps)
        elif key in literal or key in passed:
            report.refuse(f"{quoted(key)} stands twice in `env`", *steps)
        elif text is None:
            passed.append(key)
        elif not isinstance(text, str) or "\0" in text:
            report.refuse(f"the value of {quoted(key)} in `env` must be text; put it into quotes", *steps)
        else:
            literal[key] = text
            _warn_of_value(key, text, report, steps)
    return literal, tuple(passed)


def _variables(
    value: list[Any] | dict[str, Any], report: Report
) -> list[tuple[str, object, tuple[str | int, ...]]]:
    """Return name, value (None: passed on) and place of each variable of both forms, also of a mixed list."""
    if isinstance(value, dict):
        return [(key, text, ("entry", "env", key)) for key, text in value.items()]
    found: list[tuple[str, object, tuple[str | int, ...]]] = []
    for index, item in enumerate(value):
        if isinstance(item, str):
            found.append((item, None, ("entry", "env", index)))
        elif isinstance(item, dict):
            found += [(key, text, ("entry", "env", index, key)) for key, text in item.items()]
        else:
            report.refuse("each of `env` must be a name, or a name with a value", "entry", "env", index)
    return found


def _warn_of_value(key: str, text: str, report: Report, steps: tuple[str | int, ...]) -> None:
    if PLACEHOLDER.search(text):
        message = (
            f"the placeholder in the value of {quoted(key)} is not expanded, it arrives as it is written"
        )
        report.warn("env_literal", message, *steps)
    elif looks_secret(key, text):
        message = f"the value of {quoted(key)} in `env` looks like a credential, and everybody can read it"
        report.warn("credential_literal", message, *steps)
