"""Running components: one `Session` for whatever runs, one launcher per runtime kind.

    mcp_stdio   `stdio`   a supervised child process that speaks MCP over its standard streams
    mcp_http    `http`    an MCP server somewhere else, by Streamable HTTP

Both speak through `mcp_sdk`, the only module that knows the MCP SDK. A session is opened by `open_session`
and must be closed; `close` may be called often.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from plugreg.process import GRACE_S, TERM_S
from plugreg_schemas.errors import ResolutionError
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import McpHttp, McpStdio

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from plugreg_schemas.runtimes import Runtime

JsonObject = dict[str, Any]
"""What MCP or `--json` says, as it is printed."""

CALL_TIMEOUT_S: Final = 300.0
"""For one answer. Tools do compile, download and compute; one that needs longer needs an option."""


class Session(Protocol):
    """A connection to one running component."""

    async def tools(self) -> list[JsonObject]:
        """Return the tools it offers, as MCP describes them.

        Raises:
            PlugregError: `server_unavailable`, `server_error`, `call_timeout`.
        """
        ...

    async def call(self, tool: str, arguments: Mapping[str, object]) -> JsonObject:
        """Call a tool and return the MCP result; one with `isError` is a result like any other.

        Raises:
            PlugregError: `call_rejected`, `server_unavailable`, `server_error`, `call_timeout`.
        """
        ...

    async def close(self) -> None:
        """End the session and everything that was started for it."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How a component is run: in which environment, and how long anything may take (in seconds).

    `startup_timeout_s` overrides what the plugin declares. `values` are what the user stored for its
    variables. `inherit_env`: whether a plugin that expects the whole environment gets it.
    """

    host_env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    values: Mapping[str, str] = field(default_factory=dict)
    startup_timeout_s: float | None = None
    call_timeout_s: float = CALL_TIMEOUT_S
    grace_s: float = GRACE_S
    term_s: float = TERM_S
    inherit_env: bool = False


async def open_session(component_id: str, runtime: Runtime, root: Path, data: Path, terms: Terms) -> Session:
    """Start the component, or connect to it, by the runtime that was chosen.

    Raises:
        ResolutionError: `runtime_not_supported`.
        PlugregError: what `launch_of` and `make_ready` raise; `server_unavailable`;
        `server_transport_unsupported`.
    """
    if isinstance(runtime, McpStdio):
        from plugreg.launch import stdio

        return await stdio.open_session(component_id, runtime, root, data, terms)
    if isinstance(runtime, McpHttp):
        from plugreg.launch import http

        return await http.open_session(component_id, runtime, terms)
    raise ResolutionError(
        "runtime_not_supported",
        f"{quoted(component_id)} is run by `{runtime.runtime}`, which plugreg cannot run itself",
        hint="plugreg runs `mcp_stdio` and `mcp_http`; a host may run the others",
    )
