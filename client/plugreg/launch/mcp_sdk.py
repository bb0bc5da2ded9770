"""MCP, as the official SDK speaks it: the only module that imports `mcp`, and only when a session is opened.

The SDK owns the protocol, we own the connection: a `Line` gives the SDK its two streams and knows why they
ended.

Which era a server speaks is found out by asking. `initialize` comes first: every server of the handshake era
answers it, and so does one built with a current SDK, which speaks both. The opposite order would be wrong for
many: there are servers that die of `server/discover`, or go silent. A server that refuses `initialize` gets a
new connection, and `server/discover`.

An `McpSession` has one task that enters and leaves the SDK's client, because its cancel scopes may not change
hands; whoever calls `tools`, `call` and `close` may be any task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from plugreg.streams import printable
from plugreg_schemas.errors import InvalidInput, NotAvailable, PlugregError, Temporary
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping
    from contextlib import AbstractAsyncContextManager

    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

    from plugreg.launch import JsonObject
    from plugreg.process import Process

    Streams = TransportStreams

MAX_PAGES: Final = 100
"""Pages of tools that are asked for: a server that never stops paging must not hold us for ever."""
_ERAS: Final = ("legacy", "auto")
_CONNECTION_CLOSED: Final = -32000
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602


class Line(Protocol):
    """A way to one server, which can be opened more than once."""

    name: str

    def open(self) -> AbstractAsyncContextManager[Streams]:
        """Connect, for the time of the context."""
        ...

    async def failure(self, what: str) -> PlugregError:
        """Return the error to raise when the connection failed; `what` ends a sentence about the server."""
        ...

    @property
    def refused(self) -> bool:
        """Whether the server said something that makes another attempt useless."""
        ...


class McpSession:
    """A `Session` with an MCP server."""

    def __init__(self, line: Line, client: Client, call_timeout_s: float) -> None:
        self._line = line
        self._client = client
        self._call_timeout_s = call_timeout_s
        self._lost = False
        self._stop = asyncio.Event()
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.get_running_loop().create_task(self._own())

    async def _own(self) -> None:
        try:
            async with self._client:
                self._entered.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if self._entered.done():
                raise
            self._entered.set_exception(_leaf(error))

    async def entered(self, timeout_s: float) -> None:
        """Wait for the handshake; whatever goes wrong, the connection is closed before this raises."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._entered)
        except BaseException:
            await self._abandon()
            raise

    async def _abandon(self) -> None:
        self._owner.cancel()
        await asyncio.wait([self._owner])
        if self._entered.done() and not self._entered.cancelled():
            self._entered.exception()  # looked at, so that it is not reported as forgotten

    async def tools(self) -> list[JsonObject]:
        """See `Session.tools`."""
        found: list[JsonObject] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._ask(
                self._client.list_tools(cursor=cursor, cache_mode="bypass"), absent_is_empty=True
            )
            if page is None:
                break
            found += [_plain(tool) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, tool: str, arguments: Mapping[str, object]) -> JsonObject:
        """See `Session.call`."""
        return _plain(await self._ask(self._client.call_tool(tool, dict(arguments))))

    async def _ask(self, request: Awaitable[Any], *, absent_is_empty: bool = False) -> Any:  # noqa: ANN401 - SDK results
        from mcp import MCPError
        from pydantic import ValidationError

        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await request
        except TimeoutError as error:
            raise Temporary(
                "call_timeout",
                f"the server {quoted(self._line.name)} gave no answer within {self._call_timeout_s:g} s",
                hint="try again, or allow more time",
            ) from error
        except MCPError as error:
            if absent_is_empty and error.code == _METHOD_NOT_FOUND:
                return None
            raise await self._refusal(error) from error
        except (RuntimeError, ValidationError) as error:
            raise NotAvailable(
                "server_error",
                f"the server {quoted(self._line.name)} broke the protocol: {_first_line(error)}",
                hint="report this to the author of the plugin",
            ) from error

    async def _refusal(self, error: Any) -> PlugregError:  # noqa: ANN401 - the SDK's MCPError, imported lazily
        if self._line.refused:
            return await self._line.failure(f"refuses the request: {_first_line(error.message)}")
        if error.code == _CONNECTION_CLOSED and error.message == "Connection closed":
            self._lost = True  # then closing has nothing new to report
            return await self._line.failure("ended during the request")
        if error.code in {_INVALID_PARAMS, _METHOD_NOT_FOUND}:
            return InvalidInput(
                "call_rejected",
                f"the server {quoted(self._line.name)} rejects the call: {_first_line(error.message)}",
                hint="`plugreg tools` shows the tools and the arguments they take",
            )
        return NotAvailable(
            "server_error",
            f"the server {quoted(self._line.name)} reports error {error.code}: {_first_line(error.message)}",
        )

    async def close(self) -> None:
        """See `Session.close`."""
        self._stop.set()
        await asyncio.wait([self._owner])
        error = None if self._owner.cancelled() else self._owner.exception()
        if error is not None and not self._lost:
            raise await self._line.failure(f"could not be closed: {_first_line(_leaf(error))}") from error


async def connect(line: Line, *, startup_timeout_s: float, call_timeout_s: float) -> McpSession:
    """Open a session with the server at the end of `line`.

    Raises:
        PlugregError: `line.failure(...)`: nothing answered in time, or not in MCP.
    """
    from mcp import Client, MCPError
    from mcp_types import Implementation

    _silence()
    answer = ""
    for era in _ERAS:
        client = Client(
            line.open(),
            mode=era,
            client_info=Implementation(name="plugreg", version=_version()),
        )
        session = McpSession(line, client, call_timeout_s)
        try:
            await session.entered(startup_timeout_s)
        except TimeoutError as error:
            raise await line.failure(f"did not answer `initialize` within {startup_timeout_s:g} s") from error
        except PlugregError:
            raise
        except MCPError as error:
            if line.refused:
                raise await line.failure("refuses the connection") from error
            if error.code == _CONNECTION_CLOSED:
                raise await line.failure("ended before it was ready") from error
            answer = _first_line(error.message)
        except Exception as error:  # noqa: BLE001 - whatever the SDK or the network raises means one thing to the caller
            answer = _first_line(error)
            if not isinstance(error, RuntimeError):  # the SDK's word for a protocol version it does not speak
                break
        else:
            return session
    raise await line.failure(f"could not be connected to: {answer}")


@contextlib.asynccontextmanager
async def over_pipes(process: Process) -> AsyncIterator[Streams]:
    """Give the SDK the two streams of a child process, which is closed with the context, whatever happens."""
    import anyio
    from mcp.shared.message import SessionMessage

    inward, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outward = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(_pump_in, process, inward)
            pumps.start_soon(_pump_out, process, outward, inward)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await process.close()
                pumps.cancel_scope.cancel()
    finally:
        for stream in (inward, incoming, outgoing, outward):
            stream.close()


async def _pump_in(process: Process, inward: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session has ended
        async with inward:
            while (line := await process.read()) is not None:
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    process.skip(line)
                    continue
                await inward.send(SessionMessage(message))


async def _pump_out(
    process: Process,
    outward: MemoryObjectReceiveStream[SessionMessage],
    inward: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    async with outward:
        async for item in outward:
            try:
                await process.send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
            except ConnectionError:
                inward.close()  # a request that cannot be sent has no answer: tell the session now
                return


def over_http(url: str, client: httpx2.AsyncClient) -> Transport:
    """Give the SDK the two streams of a Streamable HTTP endpoint."""
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(url, http_client=client)


def _plain(result: Any) -> JsonObject:  # noqa: ANN401 - any model of the SDK
    return dict(result.model_dump(mode="json", by_alias=True, exclude_none=True))


def _leaf(error: BaseException) -> BaseException:
    """Return the one error inside nested groups: task groups wrap whatever a connection raises."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _first_line(error: BaseException | str) -> str:
    text = printable(str(error).encode(errors="replace")) or type(error).__name__
    return text.splitlines()[0][:500]


def _silence() -> None:
    """Keep the SDK's log from the terminal if nobody asked for logs: what matters we raise."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("plugreg")
    except PackageNotFoundError:
        return "0"
