"""Requests that wait until the journal grows.

One look a second tells all who wait in this process, however many they are; who waits holds no thread.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from anyio.to_thread import run_sync

from plugreg_schemas.errors import Temporary

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

ON_SHUTDOWN: Final = "plugreg.on_shutdown"
"""Where in the ASGI scope stands what a connection calls when its process is to end."""
LOOK_SECONDS: Final = 1.0
SHARE: Final = 4
"""One of so many requests that a process answers at once may be one that waits."""


class Watch:
    """Looks at the journal for those who wait, and only while somebody does; at most `most` at a time."""

    def __init__(self, newest: Callable[[], int], most: int) -> None:
        self._newest = newest
        self._most = most
        self._waiting: dict[asyncio.Event, int] = {}
        self._looking: asyncio.Task[None] | None = None

    async def beyond(self, serial: int, seconds: float, request: Request) -> None:
        """Return when there are newer entries, or the time is over, the peer has gone, the process is to end.

        Raises:
            Temporary: `too_many_wait`.
        """
        if len(self._waiting) >= self._most:
            raise Temporary(
                "too_many_wait",
                f"{self._most} requests wait for changes already",
                hint="ask without `wait`, or later",
            )
        grown = asyncio.Event()
        self._waiting[grown] = serial
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        request.scope[ON_SHUTDOWN] = grown.set
        ends = [asyncio.ensure_future(grown.wait()), asyncio.ensure_future(_left(request))]
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[grown]
            for end in ends:
                end.cancel()

    async def _look(self) -> None:
        while self._waiting:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(Temporary):  # who waits asks for entries in the end, and is told then
                newest = await run_sync(self._newest)
                for grown, serial in self._waiting.items():
                    if serial < newest:
                        grown.set()


async def _left(request: Request) -> None:
    """Return when the peer has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
