"""The connections of one process: none is held by a peer that does nothing, and there are never too many.

    owes a head     it is cut when the head is not whole in time, however many bytes have come
    owes a body     it is cut when no byte of it has come for that time; an upload keeps what has arrived
    owes reading    it is cut when it has taken no byte of an answer for that time
    owes nothing    the registry is at work; it waits

Files are what runs out first, so connections are counted by the files that a process may open. When there are
too many, the one that has waited longest without a request gives way: half-sent requests and idle connections
cannot keep anybody out. How many requests are answered at once is the rule of `front`.
"""

from __future__ import annotations

import resource
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from plugreg_registry.waiting import ON_SHUTDOWN

if TYPE_CHECKING:
    import asyncio

MAX_HEAD: Final = 64 << 10
"""Bytes of a request's head, or of the lines after a body."""
MARGIN: Final = 32
"""Connections beyond the requests at once: those that wait to be refused, and those that ask if it lives."""
OWN_FILES: Final = 96
"""Files of the process itself: database, locks, listening socket, logs, the bundles of commits."""
LEAST: Final = 8
_CHECKS: Final = 4
"""How often a connection is looked at in the time that it has."""


def affordable(wanted: int) -> int:
    """Return how many requests, up to `wanted`, can be answered at once with the files a process may open.

    Each may hold two files: its connection, and what it reads or writes. The limit of this process, and of
    those that it starts, is raised as far as the system allows and `wanted` needs.
    """
    needed = 2 * wanted + MARGIN + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    return max(LEAST, (soft - MARGIN - OWN_FILES) // 2)


def protocol(requests: int, idle_seconds: int) -> type[asyncio.Protocol]:
    """Return what uvicorn makes its connections with."""
    made = partial(Connection, most=requests + MARGIN, patience=idle_seconds)
    return cast("type[asyncio.Protocol]", made)


class Connection(HttpToolsProtocol):
    """One connection, which is looked at from time to time."""

    def __init__(self, *arguments: Any, most: int, patience: float, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        self._most = most
        self._patience = patience
        self._moved = self.loop.time()
        """When the peer last did what it owed, or owed nothing."""
        self._progress = False
        self._unparsed = 0
        self._unsent = 0
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at it, and make room for it."""
        super().connection_made(transport)
        self._look_later()
        if len(self.connections) > self._most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look at it no longer."""
        super().connection_lost(exc)
        if self._next is not None:
            self._next.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and see whether they were what is owed."""
        self._progress = False
        super().data_received(data)
        if self._progress:
            self._moved = self.loop.time()
            self._unparsed = 0
            return
        self._unparsed += len(data)
        if self._unparsed > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._progress = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._progress = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered: the time for the next head begins."""
        self._moved = self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Let a request that only waits be answered at once: the process is to end."""
        super().shutdown()
        if self._asked:
            scope: dict[str, Any] = {**self.cycle.scope}
            scope.get(ON_SHUTDOWN, lambda: None)()

    @property
    def _asked(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    @property
    def _waits(self) -> bool:
        """Whether there is neither a request nor the rest of an answer."""
        return not self._asked and not self.transport.get_write_buffer_size()

    def _look_later(self) -> None:
        self._next = self.loop.call_later(self._patience / _CHECKS, self._look)

    def _look(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        at_work = self._asked and (not self.cycle.more_body or self.flow.read_paused)
        if unsent != self._unsent or (at_work and not unsent):
            self._moved, self._unsent = self.loop.time(), unsent
        if self.loop.time() - self._moved >= self._patience:
            self.transport.abort()
        else:
            self._look_later()

    def _make_room(self) -> None:
        """Close the connection that has waited longest without a request: this one if no other waits."""
        others = [
            other
            for other in self.connections
            if isinstance(other, Connection) and not other.transport.is_closing()
        ]
        if len(others) > self._most:
            waiting = [other for other in others if other._waits]  # noqa: SLF001 - of the same class
            min(waiting, key=lambda other: other._moved).transport.abort()  # noqa: SLF001 - as above
