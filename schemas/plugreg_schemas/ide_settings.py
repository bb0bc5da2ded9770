"""The table `[mcp]` in the settings of a host that is a development environment (ADR 0165, section 2.3).

    settings.toml > read_ide_settings > IdeSettings > IdeSettings.offered    the servers of a session, by name

A server that the user wrote down goes before the host's own of the same name; a disabled one keeps that name
free. Nothing is opened here: the caller passes what reads the file of servers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, AliasChoices, Field

from plugreg_schemas.documents import parse_json, pointer_to
from plugreg_schemas.errors import Collector, Finding, InvalidInput, Severity, UsageError
from plugreg_schemas.fields import Closed, Open, check_model
from plugreg_schemas.formats.remote import is_loopback, is_web_url, split_url
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import McpHttp, McpStdio
from plugreg_schemas.toml import parse_toml
from plugreg_schemas.wire_names import MAX_SERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TABLE: Final = "mcp"
SERVERS: Final = "external_servers_json"
SERVERS_PATH: Final = "external_servers_json_path"
IDE_SERVER: Final = "cascade-ide"
"""The name under which the host offers itself."""
IDE_PREFIX: Final = "ide_"
MAX_SERVERS: Final = 1024 * 1024
"""Bytes of a list of servers, as of every document."""
Transport = Literal["loopback", "stdio"]
Rotation = Literal["session", "launch"]


@dataclass(frozen=True, slots=True)
class ExternalServer:
    """An MCP server that the host offers to its agents."""

    name: str
    runtime: McpStdio | McpHttp
    enabled: bool = True
    prefix: str = ""
    """What the names of its tools begin with."""


@dataclass(frozen=True, slots=True)
class Loopback:
    """Where the host serves its own tools; port 0 is any free one."""

    enabled: bool = True
    bind: str = "127.0.0.1"
    port: int = 0
    rotate: Rotation = "session"
    """Until when a token is valid: the end of the session, or of the process."""


@dataclass(frozen=True, slots=True)
class IdeSettings:
    """All of `[mcp]`; `warnings` are what was passed over."""

    loopback: Loopback = Loopback()
    transport: Transport = "loopback"
    auto_inject: bool = True
    servers: tuple[ExternalServer, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def offered(self, program: str) -> tuple[ExternalServer, ...]:
        """Return the servers of a session, the host's own last; `program` is the path of the host itself."""
        named = {server.name: server for server in self.servers}
        if self.auto_inject:
            own = McpStdio(argv=(program, "--mcp-stdio"), cwd_base="host_cwd")
            named.setdefault(IDE_SERVER, ExternalServer(IDE_SERVER, own, prefix=IDE_PREFIX))
        return tuple(server for server in named.values() if server.enabled)

    def own_transport(self, *, gui_alive: bool) -> Transport:
        """Return how an agent in the host reaches its tools: only an open window serves loopback."""
        return "loopback" if self.transport == "loopback" and self.loopback.enabled and gui_alive else "stdio"


def read_ide_settings(
    content: bytes, read: Callable[[str], bytes], file: str = "settings.toml"
) -> IdeSettings:
    """Read the settings; `read` returns the bytes of a file of servers, whose path is as it was written.

    A file that `read` cannot read (`OSError`) is a warning, and the servers in the settings count.

    Raises:
        UsageError: `setting_invalid`, `loopback_bind_forbidden`; every fault is a finding that names its key.
    """
    faults = Collector("setting_invalid", f"{quoted(file)} is not valid")
    table = _table(content, file, faults)
    values = _settings(table, file, faults)
    for key in sorted(table.keys() - _Mcp.model_fields.keys()):
        _warn(faults, "unknown_field_ignored", f"`{TABLE}.{key}` is not known here", file, TABLE, key)
    if not is_loopback(values.loopback_bind) or values.loopback_bind == "localhost":
        message = f"`{TABLE}.loopback_bind` must be an address of this machine alone, such as `127.0.0.1`"
        where = pointer_to(TABLE, "loopback_bind")
        faults.add("loopback_bind_forbidden", message, file=file, pointer=where)
    servers = _servers(values, read, file, faults)
    faults.raise_if_any(UsageError, hint=f"correct the table `[{TABLE}]`")
    loopback = Loopback(
        values.loopback_enabled, values.loopback_bind, values.loopback_port, values.loopback_token_rotate
    )
    return IdeSettings(
        loopback,
        values.acp_ide_mcp_transport,
        values.acp_auto_inject_ide_mcp,
        servers,
        tuple(faults.findings),
    )


def _web_url(text: str) -> str:
    parts = split_url(text)
    if parts is None or not is_web_url(parts):
        raise ValueError("must be an absolute http or https URL")
    return text


class _Mcp(Open):
    external_servers_json: str = "[]"
    external_servers_json_path: str = ""
    acp_auto_inject_ide_mcp: bool = True
    loopback_enabled: bool = True
    loopback_bind: str = "127.0.0.1"
    loopback_port: Annotated[int, Field(ge=0, le=65535)] = 0
    loopback_token_rotate: Rotation = "session"  # noqa: S105 - a word, no token
    acp_ide_mcp_transport: Transport = "loopback"


class _Server(Closed):
    name: Annotated[str, Field(min_length=1, max_length=MAX_SERVER)]
    enabled: bool = True
    prefix: Annotated[str, Field(alias="toolPrefix", max_length=20, pattern=r"^[A-Za-z0-9_]*$")] = ""


class _Stdio(_Server):
    type: Literal["stdio"] = "stdio"
    command: Annotated[str, Field(min_length=1)]
    arguments: Annotated[tuple[str, ...], Field(validation_alias=AliasChoices("arguments", "args"))] = ()
    env: dict[str, str] = Field(default_factory=dict)

    @property
    def runtime(self) -> McpStdio:
        return McpStdio(argv=(self.command, *self.arguments), env=self.env, cwd_base="host_cwd")


class _Remote(_Server):
    type: Literal["http", "sse"]
    url: Annotated[str, AfterValidator(_web_url)]
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def runtime(self) -> McpHttp:
        transport: Literal["sse", "streamable-http"] = "sse" if self.type == "sse" else "streamable-http"
        return McpHttp(url=self.url, headers=self.headers, transport=transport)


_TYPES: Final[Mapping[object, type[_Stdio | _Remote]]] = {"stdio": _Stdio, "http": _Remote, "sse": _Remote}


def _table(content: bytes, file: str, faults: Collector) -> Mapping[str, Any]:
    try:
        table = parse_toml(content, file, (TABLE,)).get(TABLE, {})
    except InvalidInput as error:
        _keep(error, faults, file, ())
        return {}
    if not isinstance(table, dict):
        faults.add("setting_invalid", f"`{TABLE}` must be a table", file=file, pointer=pointer_to(TABLE))
        return {}
    return table


def _settings(table: Mapping[str, Any], file: str, faults: Collector) -> _Mcp:
    """Return the settings, with the default of each that is at fault: the others are still judged."""
    try:
        return check_model(_Mcp, table, code="setting_invalid", file=file)
    except InvalidInput as error:
        _keep(error, faults, file, (TABLE,))
        bad = {finding.pointer.split("/")[1] for finding in error.findings}
    return _Mcp.model_validate({key: value for key, value in table.items() if key not in bad})


def _servers(
    values: _Mcp, read: Callable[[str], bytes], file: str, faults: Collector
) -> tuple[ExternalServer, ...]:
    """Return the servers of the file that is named, or those in the settings where it cannot be read."""
    content, origin = values.external_servers_json.encode(), file
    steps: tuple[str, ...] = (TABLE, SERVERS)
    if values.external_servers_json_path:
        try:
            content = read(values.external_servers_json_path)
            origin, steps = values.external_servers_json_path, ()
        except OSError:
            message = f"`{TABLE}.{SERVERS_PATH}` names a file that cannot be read: `{SERVERS}` counts"
            _warn(faults, "external_servers_unreadable", message, file, TABLE, SERVERS_PATH)
    found: dict[str, ExternalServer] = {}
    for place, item in enumerate(_items(content, origin, steps, faults)):
        server = _server(item, origin, (*steps, place), faults)
        if server is not None and server.name in found:
            message = f"the server {quoted(server.name)} stands twice, the first one counts"
            _warn(faults, "server_duplicate", message, origin, *steps, place)
        elif server is not None:
            found[server.name] = server
    return tuple(found.values())


def _items(content: bytes, origin: str, steps: tuple[str, ...], faults: Collector) -> list[Any]:
    where = pointer_to(*steps)
    if len(content) > MAX_SERVERS:
        message = f"{_key(origin, steps)} is larger than {MAX_SERVERS} bytes"
        faults.add("setting_invalid", message, file=origin, pointer=where)
        return []
    try:
        items = parse_json(content, origin)
    except InvalidInput as error:
        _keep(error, faults, origin, steps)
        return []
    if isinstance(items, list):
        return items
    faults.add("setting_invalid", f"{_key(origin, steps)} must be a JSON array", file=origin, pointer=where)
    return []


def _server(
    item: object, origin: str, steps: tuple[str | int, ...], faults: Collector
) -> ExternalServer | None:
    kind = item.get("type", "stdio") if isinstance(item, dict) else None
    model = _TYPES.get(kind) if isinstance(kind, str) else None
    if model is None:
        message = f"{_key(origin, steps)} must be an object whose `type` is `stdio`, `http` or `sse`"
        faults.add("setting_invalid", message, file=origin, pointer=pointer_to(*steps))
        return None
    try:
        found: _Stdio | _Remote = check_model(model, item, code="setting_invalid", file=origin)
    except InvalidInput as error:
        _keep(error, faults, origin, steps)
        return None
    return ExternalServer(found.name, found.runtime, found.enabled, found.prefix)


def _keep(error: InvalidInput, faults: Collector, file: str, steps: tuple[str | int, ...]) -> None:
    """Keep the faults of a part, each naming its key; a refusal as a whole has none of its own."""
    for fault in error.findings or (Finding(error.code, error.message),):
        below = fault.pointer.split("/")[1:]
        message = f"{_key(file, (*steps, *below))}: {fault.message[:1].lower()}{fault.message[1:]}"
        faults.keep(replace(fault, message=message, file=file, pointer=pointer_to(*steps) + fault.pointer))


def _key(file: str, steps: tuple[str | int, ...]) -> str:
    return quoted(".".join(map(str, steps)) or file)


def _warn(faults: Collector, code: str, message: str, file: str, *steps: str | int) -> None:
    faults.add(code, message, severity=Severity.WARNING, file=file, pointer=pointer_to(*steps))
