"""The declared runtimes of a dagstack plugin: `runtime`, the table of each, and the flat form of the same.

    in_process   entry_point
    mcp_stdio    [mcp_stdio] command, working_dir, env, startup_timeout_sec       flat: command, env
    mcp_http     [mcp_http] url, auth_header, auth_secret_env, timeout_sec, tls_* flat: url

`command` is a program and its arguments, without a shell. Without `working_dir` it starts in the host's own
folder; a relative one lies in the plugin, because nobody can know the host's. `env` stands over the host's
environment. No placeholder is expanded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugreg_schemas.formats.dagstack import entry_points
from plugreg_schemas.formats.dagstack.fields import HttpTable, StdioTable
from plugreg_schemas.formats.entry import CONTROL, PLACEHOLDER, looks_secret
from plugreg_schemas.formats.files import Misfit, follow
from plugreg_schemas.formats.remote import HEADER_NAME, is_loopback, is_web_url, split_url
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import InProcess, McpHttp, McpStdio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.formats.dagstack.fields import Fields
    from plugreg_schemas.formats.dagstack.report import Report
    from plugreg_schemas.runtimes import Runtime
    from plugreg_schemas.tree import Tree

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:")
BEARER: Final = "Authorization"
"""The header for a secret that names none."""


def read_runtimes(fields: Fields, language: str | None, tree: Tree, report: Report) -> tuple[Runtime, ...]:
    """Return the alternatives in the author's order, after reporting every fault of each.

    Where a fault was reported the result may lack an alternative.
    """
    if not report.knows("runtime"):
        return ()
    found: list[Runtime | None] = []
    for choice in fields.runtime:
        match choice:
            case "in_process":
                found.append(_in_process(fields, language, tree, report))
            case "mcp_stdio":
                found.append(_stdio(fields, tree, report))
            case "mcp_http":
                found.append(_http(fields, report))
    _warn_of_undeclared(fields, report)
    return tuple(r.model_copy(update={"language": language}) for r in found if r is not None)


def _in_process(fields: Fields, language: str | None, tree: Tree, report: Report) -> InProcess | None:
    if not report.knows("entry_point"):
        return None
    if fields.entry_point is None:
        report.refuse("there is no `entry_point`, which `in_process` needs", "entry_point")
        return None
    fault = entry_points.fault_of(fields.entry_point, language)
    if fault:
        report.refuse(f"`entry_point` {fault}", "entry_point")
        return None
    absent = entry_points.absent_file(tree, fields.entry_point, language)
    if absent is not None and absent.reason == "escape":
        message = "`entry_point` escapes the manifest directory"
        report.refuse(message, "entry_point", code="plugin_load_error")
    elif absent is not None:
        report.forbid(f"the module of `entry_point` is not found: {absent.message}", "entry_point")
    return InProcess(entry_point=fields.entry_point, language=language)


def _stdio(fields: Fields, tree: Tree, report: Report) -> McpStdio | None:
    table = fields.mcp_stdio or StdioTable()
    _examine_twice(fields, report, "mcp_stdio", "command", "env")
    command = table.command or fields.command
    if command is None:
        if report.knows("mcp_stdio", "command"):
            report.refuse("there is no `command`, which `mcp_stdio` needs", "mcp_stdio", "command")
        return None
    at = ("mcp_stdio", "command") if table.command else ("command",)
    _examine_command(command, at, report)
    env = table.env if table.env is not None else fields.env or {}
    _examine_env(env, ("mcp_stdio", "env") if table.env is not None else ("env",), report)
    if table.working_dir is not None:
        _examine_working_dir(table.working_dir, tree, report)
    inside = table.working_dir is not None and not _ABSOLUTE.match(table.working_dir)
    return McpStdio(
        argv=command,
        cwd=table.working_dir,
        cwd_base="plugin_root" if inside else "host_cwd",
        env=env,
        env_policy="inherit",
        startup_timeout_s=table.startup_timeout_sec,
    )


def _examine_command(command: tuple[str, ...], at: tuple[str, ...], report: Report) -> None:
    if not command[0].strip() or CONTROL.search(command[0]):
        report.refuse("the first of `command` must be a program", *at, 0)
    elif re.search(r"\s", command[0]):
        message = "the first of `command` is one program and no shell; put the rest into texts of their own"
        report.warn("command_spaces", message, *at, 0)
    for index, text in enumerate(command):
        if "\0" in text:
            report.refuse("each of `command` must be free of NUL, no process could receive it", *at, index)
        elif PLACEHOLDER.search(text):
            message = "a placeholder in `command` is not expanded, it arrives as it is written"
            report.warn("placeholder_literal", message, *at, index)


def _examine_env(env: Mapping[str, str], at: tuple[str, ...], report: Report) -> None:
    for key, text in env.items():
        if not key or "=" in key or "\0" in key + text:
            message = f"{quoted(key)} in `env` is not something that an environment can hold"
            report.refuse(message, *at, key)
        elif PLACEHOLDER.search(text):
            message = f"the placeholder in the value of {quoted(key)} is not expanded, it arrives as written"
            report.warn("env_literal", message, *at, key)
        elif looks_secret(key, text):
            message = (
                f"the value of {quoted(key)} in `env` looks like a credential, and everybody can read it"
            )
            report.warn("credential_literal", message, *at, key)


def _examine_working_dir(path: str, tree: Tree, report: Report) -> None:
    at = ("mcp_stdio", "working_dir")
    if CONTROL.search(path):
        report.refuse("`working_dir` holds a control character", *at)
    elif _ABSOLUTE.match(path):
        message = "`working_dir` is absolute: the plugin starts only on machines that have this folder"
        report.warn("path_absolute", message, *at)
    elif "\\" in path:
        report.refuse("`working_dir` holds a backslash; paths are written with `/`", *at)
    elif isinstance(found := follow(tree, path, "directory"), Misfit):
        if found.reason == "escape":
            report.refuse("`working_dir` leads out of the plugin", *at)
        else:
            report.forbid("`working_dir` names no folder of the plugin", *at)


def _http(fields: Fields, report: Report) -> McpHttp | None:
    table = fields.mcp_http or HttpTable()
    _examine_twice(fields, report, "mcp_http", "url")
    url = table.url or fields.url
    if url is None:
        if report.knows("mcp_http", "url"):
            report.refuse("there is no `url`, which `mcp_http` needs", "mcp_http", "url")
        return None
    _examine_url(url, ("mcp_http", "url") if table.url else ("url",), report)
    _examine_auth(table, report)
    if not table.tls_verify:
        message = "certificates are not verified; a host in production refuses this"
        report.warn("insecure_tls", message, "mcp_http", "tls_verify")
    return McpHttp(
        url=url,
        auth_header=table.auth_header or (BEARER if table.auth_secret_env else None),
        auth_secret_env=table.auth_secret_env,
        tls_verify=table.tls_verify,
        tls_ca_bundle=table.tls_ca_bundle,
        request_timeout_s=table.timeout_sec,
    )


def _examine_url(url: str, at: tuple[str, ...], report: Report) -> None:
    parts = split_url(url)
    if parts is None or not is_web_url(parts):
        report.refuse("`url` must be an absolute http or https URL", *at)
        return
    if url.endswith("/"):
        report.refuse("`url` must not end with `/`", *at)
    if "@" in parts.netloc:
        report.refuse("`url` must not hold a user name or password", *at)
    if "#" in url:
        report.refuse("`url` must not have a fragment", *at)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        message = "`url` sends everything unencrypted; a host in production refuses this, use https"
        report.warn("insecure_url", message, *at)
    if PLACEHOLDER.search(url):
        report.warn("placeholder_literal", "the placeholder in `url` is not expanded", *at)


def _examine_auth(table: HttpTable, report: Report) -> None:
    header, secret = table.auth_header, table.auth_secret_env
    if header is not None and not HEADER_NAME.fullmatch(header):
        report.refuse("`auth_header` must be the name of an HTTP header", "mcp_http", "auth_header")
    if secret is not None and not _ENV_NAME.fullmatch(secret):
        message = "`auth_secret_env` must be the name of an environment variable, never the secret itself"
        report.refuse(message, "mcp_http", "auth_secret_env")
    if header is not None and secret is None:
        message = "there is no `auth_secret_env`, so nothing will be sent in `auth_header`"
        report.warn("auth_incomplete", message, "mcp_http", "auth_header")


def _examine_twice(fields: Fields, report: Report, table: str, *names: str) -> None:
    """Refuse a field that says one thing in its table and another in the flat form."""
    for name in names:
        flat = getattr(fields, name)
        nested = getattr(getattr(fields, table), name, None)
        if flat is not None and nested is not None and flat != nested:
            report.refuse(f"`{name}` and `{table}.{name}` differ; keep the second", name)


def _warn_of_undeclared(fields: Fields, report: Report) -> None:
    declared: set[str] = set(fields.runtime)
    belongs = {"mcp_stdio": ("mcp_stdio", "command", "env"), "mcp_http": ("mcp_http", "url", "auth")}
    for runtime, names in belongs.items():
        for name in names:
            if runtime not in declared and getattr(fields, name) is not None:
                message = f"`{name}` has no effect: `runtime` does not name `{runtime}`"
                report.warn("runtime_undeclared", message, name)
    if "in_process" not in declared and fields.entry_point is not None:
        message = "`entry_point` has no effect: `runtime` does not name `in_process`"
        report.warn("runtime_undeclared", message, "entry_point")
