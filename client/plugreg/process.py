"""A child process of our own: its lines, its log, and an end that leaves nothing behind.

    start    own session and process group, a run tag in its environment, pipes for all three streams
    send     one line to its stdin; waits while the child does not read
    read     the next line of its stdout, None at the end; a line over `MAX_LINE` ends the reading
    close    stdin closed > grace > SIGTERM to the group > term > SIGKILL; and even after a good end
             the group is killed, then whoever left it but carries the tag or was seen among the descendants

stderr is always read, so a child that logs much never stands still; its last `STDERR_KEPT` bytes are kept. A
child that ends while a grandchild holds its pipes counts as ended.

POSIX only. On macOS there is no `/proc`: a grandchild that calls `setsid` is not found there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from typing import TYPE_CHECKING, Final, cast

from plugreg import escapees
from plugreg.streams import Lines, Ring, printable
from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from plugreg.environment import Launch

STDERR_KEPT: Final = 256 << 10
STDERR_SHOWN: Final = 8 << 10
"""What of the log an error message quotes."""
NOISE_SHOWN: Final = 200
GRACE_S: Final = 5.0
"""From closing stdin to SIGTERM."""
TERM_S: Final = 5.0
"""From SIGTERM to SIGKILL."""

_FLUSH_S: Final = 0.5
"""For a last message to leave before stdin is closed; a child that does not read gets none of it."""
_DRAIN_S: Final = 1.0
"""For output still in the pipe after the child's end, where a grandchild keeps that pipe open."""
_DEATH_S: Final = 2.0
"""For the system to report the end of a killed child."""

running: set[Process] = set()
"""The children of this process that are not closed yet, on whatever loop."""


class Process(asyncio.SubprocessProtocol):
    """One supervised child process. Made by `start`; belongs to the event loop that made it."""

    def __init__(self, name: str, *, grace_s: float = GRACE_S, term_s: float = TERM_S) -> None:
        self.name = name
        self.tag = f"{os.getpid()}-{secrets.token_hex(8)}"
        self.pid = 0
        self.exit_code: int | None = None
        self.signalled = False
        """Whether we had to end it: then its exit code says nothing about it."""
        self.noise = 0
        self.first_noise = b""
        self.loop = asyncio.get_running_loop()
        self._grace_s, self._term_s = grace_s, term_s
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited, self._readable = asyncio.Event(), asyncio.Event()
        self._drained, self._stdin_gone = asyncio.Event(), asyncio.Event()
        self._drained.set()
        self._discarding = False
        self._output, self._log = Lines(), Ring(STDERR_KEPT)
        self._closing: asyncio.Task[None] | None = None

    # --- what the owner does --------------------------------------------------------------------------------

    @classmethod
    async def start(cls, launch: Launch, *, grace_s: float = GRACE_S, term_s: float = TERM_S) -> Process:
        """Start what `launch` describes.

        Raises:
            NotAvailable: `server_unavailable`: the system refuses it; `platform_unsupported`: Windows.
        """
        if sys.platform == "win32":
            raise NotAvailable(
                "platform_unsupported",
                "plugins cannot be started on Windows yet",
                hint="run plugreg inside the Windows Subsystem for Linux",
            )
        process = cls(launch.name, grace_s=grace_s, term_s=term_s)
        escapees.become_reaper()
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: process,
                *launch.argv,
                env=dict(launch.env) | {escapees.TAG: process.tag},
                cwd=launch.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise _not_started(launch, error) from error
        except BaseException:  # cancelled between the start and our learning of it
            escapees.sweep(process.tag)
            raise
        return process

    async def send(self, line: bytes) -> None:
        """Write one line (without its end) to the child's stdin.

        Raises:
            BrokenPipeError: the child has closed its stdin, or ended.
        """
        stdin = self._pipe(0)
        if stdin is None or stdin.is_closing():
            raise BrokenPipeError
        stdin.write(line + b"\n")
        await self._drained.wait()

    async def read(self) -> bytes | None:
        """Return the next line of the child's stdout without its end, or None when there will be no more."""
        while (line := self._output.pop()) is None:
            if self._output.ended:
                return None
            self._readable.clear()
            await self._readable.wait()
        if not self._output.full:
            self._let_flow("resume_reading")
        return line

    @property
    def overlong(self) -> bool:
        """Whether the child wrote a longer line than is allowed, which ended the reading."""
        return self._output.overlong

    def skip(self, line: bytes) -> None:
        """Count a line that is not a message: text that a server prints must not end its session."""
        if line.strip():
            self.first_noise = self.first_noise or line[:NOISE_SHOWN]
            self.noise += 1

    def stderr_tail(self, limit: int = STDERR_SHOWN) -> str:
        """Return the end of the child's log, fit for a terminal."""
        return printable(self._log.tail(limit))

    async def exited(self, within_s: float) -> bool:
        """Wait for the child's end for at most `within_s` seconds and return whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._exited.wait()
        return self._exited.is_set()

    async def close(self) -> None:
        """End the child and everything it started. May be called often; a cancelled caller stops nothing."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    def kill_now(self) -> None:
        """Kill the child and everything it started, at once and without waiting: the last resort."""
        known = escapees.family(self.pid)
        self._signal_group(signal.SIGKILL)
        escapees.sweep(self.tag, known)
        running.discard(self)

    # --- how it ends ----------------------------------------------------------------------------------------

    async def _close(self) -> None:
        known = escapees.family(self.pid)
        try:
            await self._close_stdin()
            for signum, patience in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, self._term_s)):
                if await self.exited(patience):
                    break
                known |= escapees.family(self.pid)
                self.signalled = True
                self._signal_group(signum)
            await self.exited(_DEATH_S)
        finally:
            self._signal_group(signal.SIGKILL)
            escapees.sweep(self.tag, known)
            if self._transport is not None:
                self._transport.close()
            escapees.reap({process.pid for process in running})
            self._end()
            running.discard(self)

    async def _close_stdin(self) -> None:
        """Close stdin, and let the child write what it still has to say: nobody reads it any more."""
        self._discarding = True
        self._let_flow("resume_reading")
        stdin = self._pipe(0)
        if stdin is None:
            return
        stdin.close()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._stdin_gone.wait()
        except TimeoutError:
            stdin.abort()

    def _signal_group(self, signum: signal.Signals) -> None:
        # After the leader's end its number may belong to somebody else: then the sweep alone decides, where
        # there is one.
        if self.exit_code is not None and escapees.can_look():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)

    # --- what the event loop tells --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the pid: from here on the process is ours to end."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()
        running.add(self)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Take what the child wrote."""
        chunk = cast("bytes", data)
        if fd != 1:
            self._log.add(chunk)
        elif not self._discarding:
            self._output.feed(chunk)
            self._readable.set()
            if self._output.full:
                self._let_flow("pause_reading")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Note the end of a stream."""
        if fd == 1:
            self._end()
        elif fd == 0:
            self._stdin_gone.set()
            self._drained.set()

    def process_exited(self) -> None:
        """Note the child's end; what it wrote before may still be in the pipe."""
        if self._transport is not None:
            self.exit_code = self._transport.get_returncode()
        self._exited.set()
        asyncio.get_running_loop().call_later(_DRAIN_S, self._end)

    def pause_writing(self) -> None:
        """Let `send` wait: the child does not read."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Let `send` go on."""
        self._drained.set()

    def _end(self) -> None:
        self._output.end()
        self._readable.set()

    def _pipe(self, fd: int) -> asyncio.WriteTransport | None:
        return cast(
            "asyncio.WriteTransport | None", self._transport and self._transport.get_pipe_transport(fd)
        )

    def _let_flow(self, verb: str) -> None:
        stdout = self._transport and self._transport.get_pipe_transport(1)
        if stdout is not None and not stdout.is_closing():
            getattr(stdout, verb)()


def _not_started(launch: Launch, error: OSError | ValueError) -> NotAvailable:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    hint = "look at the command with `plugreg plan`"
    if isinstance(error, FileNotFoundError):
        hint = f"`{launch.argv[0]}` is there, so the interpreter in its first line is not: install that"
    return NotAvailable(
        "server_unavailable", f"the server {quoted(launch.name)} cannot be started: {reason}", hint=hint
    )
