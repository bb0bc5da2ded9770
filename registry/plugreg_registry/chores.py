"""What a registry does unasked while it serves: each chore at the start, and then every so many seconds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from plugreg_registry.observing import step
from plugreg_schemas.errors import PlugregError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    Chores = Sequence[tuple[float, Callable[[], object]]]
    """Seconds between two rounds of a chore, and the chore."""

LOG: Final = logging.getLogger("plugreg.registry")
FINISH_SECONDS: Final = 10.0
"""How long a chore may go on when the process is to end."""


@asynccontextmanager
async def doing(chores: Chores) -> AsyncIterator[None]:
    """Do all chores once, and then again and again until the block ends. What has begun is finished."""
    for _, chore in chores:
        await _try(chore)
    end = asyncio.Event()
    running = [asyncio.create_task(_repeat(seconds, chore, end)) for seconds, chore in chores]
    try:
        yield
    finally:
        end.set()
        _, unfinished = await asyncio.wait(running, timeout=FINISH_SECONDS)
        for task in unfinished:
            task.cancel()


async def _repeat(seconds: float, chore: Callable[[], object], end: asyncio.Event) -> None:
    while not end.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(end.wait(), seconds)
            return
        await _try(chore)


async def _try(chore: Callable[[], object]) -> None:
    """Do a chore. What cannot be done now is said, and readers are served all the same."""
    try:
        with step(f"chore.{getattr(chore, '__qualname__', 'other')}"):
            await asyncio.to_thread(chore)
    except PlugregError as error:
        LOG.warning("this will be tried again: %s", error)
