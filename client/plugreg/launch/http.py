"""Launcher of `mcp_http`: an MCP server somewhere else, by Streamable HTTP.

Configured headers go to the configured origin only: a redirect to another one is not followed at all. Headers
that HTTP or MCP make themselves win over configured ones of the same name.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from plugreg.launch import mcp_sdk
from plugreg_schemas.errors import NotAvailable, PlugregError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    import httpx2

    from plugreg.launch import Session, Terms
    from plugreg.launch.mcp_sdk import Streams
    from plugreg_schemas.runtimes import McpHttp

_OURS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
    | {"last-event-id", "mcp-method", "mcp-protocol-version", "mcp-session-id", "user-agent"}
)
"""Headers that the client makes; a configured one of the same name is dropped."""

_CONNECT_S: Final = 10.0
_REFUSALS: Final = frozenset({401, 403, 407})
_FAILURES: Final = range(500, 600)


async def open_session(component_id: str, runtime: McpHttp, terms: Terms) -> Session:
    """Connect to the server and shake hands with it.

    Raises:
        NotAvailable: `server_transport_unsupported`, `server_unavailable`, `secret_missing`.
    """
    if runtime.transport == "sse":
        raise NotAvailable(
            "server_transport_unsupported",
            f"the server {quoted(component_id)} uses the `sse` transport, which plugreg does not speak",
            hint="`sse` is deprecated: ask the author for a `streamable-http` server",
        )
    return await mcp_sdk.connect(
        RemoteLine(component_id, runtime, headers_of(component_id, runtime, terms.host_env)),
        startup_timeout_s=terms.startup_timeout_s or runtime.request_timeout_s,
        call_timeout_s=terms.call_timeout_s,
    )


def headers_of(component_id: str, runtime: McpHttp, host_env: Mapping[str, str]) -> dict[str, str]:
    """Return the configured headers that are sent, with the secret of the host if one is named.

    Raises:
        NotAvailable: `secret_missing`: the variable is not set.
    """
    headers = {name: value for name, value in runtime.headers.items() if name.lower() not in _OURS}
    if runtime.auth_secret_env is None:
        return headers
    secret = host_env.get(runtime.auth_secret_env)
    if not secret:
        raise NotAvailable(
            "secret_missing",
            f"{quoted(component_id)} needs the variable {quoted(runtime.auth_secret_env)}, which is not set",
            hint=f"set {quoted(runtime.auth_secret_env)} in the environment of plugreg",
        )
    name = runtime.auth_header or "Authorization"
    return headers | {name: f"Bearer {secret}" if name.lower() == "authorization" else secret}


class RemoteLine:
    """The way to a server that is reached by URL."""

    def __init__(self, name: str, runtime: McpHttp, headers: Mapping[str, str]) -> None:
        self.name = name
        self._runtime = runtime
        self._headers = dict(headers)
        self._status = 0
        self._redirect = ""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Streams]:
        """See `Line.open`."""
        import httpx2

        timeout = httpx2.Timeout(self._runtime.request_timeout_s, connect=_CONNECT_S)
        async with (
            httpx2.AsyncClient(
                headers=self._headers,
                timeout=timeout,
                verify=_trust(self._runtime),
                event_hooks={"response": [self._note]},
            ) as client,
            mcp_sdk.over_http(self._runtime.url, client) as streams,
        ):
            yield streams

    async def _note(self, response: httpx2.Response) -> None:
        """Keep what the server said before the SDK turns it into a general error."""
        if response.request.method != "POST":  # the others carry no message, and servers may refuse them
            return
        self._status = response.status_code
        if response.next_request is not None:
            self._redirect = _origin(response.next_request.url)

    @property
    def refused(self) -> bool:
        """See `Line.refused`."""
        return self._status in _REFUSALS or self._status in _FAILURES

    async def failure(self, what: str) -> PlugregError:
        """See `Line.failure`: with the status, and never with a header."""
        import httpx2

        hint = "see whether the server runs at that address, and what it needs to be reached"
        said = ""
        if self._status in _REFUSALS:
            said = f" (HTTP status {self._status})"
            hint = "the server wants to know who calls; plugreg has no credentials for it"
        elif self._status >= 400:  # noqa: PLR2004 - where HTTP's error statuses begin
            said = f" (HTTP status {self._status})"
        elif self._redirect and self._redirect != _origin(httpx2.URL(self._runtime.url)):
            said = f" (it redirects to {quoted(self._redirect)}, which plugreg does not follow)"
            hint = "if that is the server, the plugin must name it itself"
        return NotAvailable(
            "server_unavailable",
            f"the server {quoted(self.name)} at {quoted(self._runtime.url)} {what}{said}",
            hint=hint,
        )


def _trust(runtime: McpHttp) -> ssl.SSLContext | bool:
    """Return how the server's certificate is judged."""
    if runtime.tls_ca_bundle is None:
        return runtime.tls_verify
    import ssl as tls

    return tls.create_default_context(cafile=runtime.tls_ca_bundle)


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"
