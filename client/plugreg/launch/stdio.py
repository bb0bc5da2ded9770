"""Launcher of `mcp_stdio`: a supervised child process that speaks MCP over its standard streams."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from plugreg.environment import Launch, launch_of, make_ready
from plugreg.launch import mcp_sdk
from plugreg.process import Process
from plugreg.streams import printable
from plugreg_schemas.errors import NotAvailable, PlugregError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from plugreg.launch import Session, Terms
    from plugreg.launch.mcp_sdk import Streams
    from plugreg_schemas.runtimes import McpStdio

_LAST_WORDS_S = 1.0
"""For the system to report the end of a child whose streams have just closed."""


async def open_session(component_id: str, runtime: McpStdio, root: Path, data: Path, terms: Terms) -> Session:
    """Start the server and shake hands with it.

    Raises:
        PlugregError: what `launch_of` and `make_ready` raise; NotAvailable `server_unavailable` with the exit
        code
            and the end of the server's log.
    """
    launch = launch_of(
        component_id, runtime, root, data, terms.host_env, values=terms.values, inherit=terms.inherit_env
    )
    make_ready(launch)
    return await mcp_sdk.connect(
        ChildLine(launch, terms),
        startup_timeout_s=terms.startup_timeout_s or launch.startup_timeout_s,
        call_timeout_s=terms.call_timeout_s,
    )


class ChildLine:
    """The way to a server that is a child of ours: opening it starts a process."""

    def __init__(self, launch: Launch, terms: Terms) -> None:
        self.name = launch.name
        self._launch = launch
        self._terms = terms
        self._process: Process | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Streams]:
        """See `Line.open`."""
        process = await Process.start(self._launch, grace_s=self._terms.grace_s, term_s=self._terms.term_s)
        self._process = process
        try:
            async with mcp_sdk.over_pipes(process) as streams:
                yield streams
        finally:
            await process.close()

    @property
    def refused(self) -> bool:
        """See `Line.refused`."""
        return False

    async def failure(self, what: str) -> PlugregError:
        """See `Line.failure`: with the exit code, stray text on stdout, and the end of the log."""
        process = self._process
        if process is None:
            return NotAvailable("server_unavailable", f"the server {quoted(self.name)} {what}")
        await process.exited(_LAST_WORDS_S)
        code = None if process.signalled else process.exit_code
        details: dict[str, object] = {"stderr": process.stderr_tail()}
        if code is not None:
            details["exit_code"] = code
        return NotAvailable(
            "server_unavailable",
            f"the server {quoted(self.name)} {what}{_ending(code)}{_traces(process)}",
            hint=f"`plugreg plan` shows exactly how {quoted(self._launch.command)} is started",
            details=details,
        )


def _ending(code: int | None) -> str:
    if code is None:
        return ""
    return f" (killed by signal {-code})" if code < 0 else f" (exit code {code})"


def _traces(process: Process) -> str:
    """Say what the child left: too long a line, text among the messages, its log."""
    traces = ""
    if process.overlong:
        traces += "; it wrote a line longer than any message may be"
    if process.noise:
        first = printable(process.first_noise)
        traces += f"; {process.noise} lines on its stdout were not messages, the first was `{first}`"
    if tail := process.stderr_tail():
        traces += f"; the end of its log:\n{tail}"
    return traces
