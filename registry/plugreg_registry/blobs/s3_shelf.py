"""`Shelf` over a bucket: small objects from memory, bundles piece by piece.

What never changes is asked for once. What changes is looked at again for every request, by the store's own
mark of it, so that a publish is seen at once whichever replica it went through. Requests that come while a
look is under way share the next one: however many there are, the store is asked once at a time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from plugreg_registry.object_kinds import kind_of
from plugreg_registry.small_files import Kept, Known, Ready, made_ready
from plugreg_schemas.errors import NotAvailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from plugreg_registry.blobs.s3 import S3Blobs
    from plugreg_registry.small_files import Head

READS_AT_ONCE: Final = 64
"""Threads that read from the store; apart from those that write, so that neither waits for the other."""

_CHUNK: Final = 1 << 20
_FIXED: Final = ""
"""In place of the store's mark where an object never changes."""


class S3Shelf:
    """The objects of a bucket for the read plane."""

    def __init__(self, blobs: S3Blobs) -> None:
        self._blobs = blobs
        self._kept: Kept[str] = Kept()
        self._looks = Looks()
        self._readers = CapacityLimiter(READS_AT_ONCE)

    def ready(self, path: bytes) -> Ready | None:
        """See `Shelf.ready`."""
        known = self._kept.get(path)
        return known.ready if known is not None and known.seen == _FIXED else None

    async def small(self, path: bytes, key: str, head: Head) -> Ready:
        """See `Shelf.small`."""
        return await self._looks.share(path, lambda: self._look(path, key, head))

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[S3Object]:
        """See `Shelf.open`."""
        size = await run_sync(self._blobs.size, key, limiter=self._readers)
        if size is None:
            raise NotAvailable("object_not_found", f"there is no object `{key}`")
        yield S3Object(self._blobs, key, size, self._readers)

    async def _look(self, path: bytes, key: str, head: Head) -> Ready:
        known = self._kept.get(path)
        try:
            found = await run_sync(self._blobs.read, key, known.seen if known else "", limiter=self._readers)
        except NotAvailable:
            self._kept.forget(path)
            raise
        if found is None and known is not None:
            return known.ready
        body, mark = found or (b"", "")
        kind = kind_of(key)
        ready = made_ready(body, head)
        self._kept.keep(path, Known(_FIXED if kind and kind.is_fixed else mark, ready))
        return ready


@dataclass(frozen=True, slots=True)
class S3Object:
    """A bundle in a bucket."""

    blobs: S3Blobs
    key: str
    size: int
    readers: CapacityLimiter

    async def chunks(self, start: int, end: int) -> AsyncIterator[bytes]:
        """See `Opened.chunks`."""
        if start >= end:
            return
        file = await run_sync(self.blobs.span, self.key, start, end, limiter=self.readers)
        try:
            while chunk := await run_sync(file.read, _CHUNK, limiter=self.readers):
                yield chunk
        finally:
            file.close()


class Looks:
    """For each name one look at a time, and one that waits for it. Nobody gets an older look than his own."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, asyncio.Task[Ready]] = {}
        self._next: dict[bytes, asyncio.Task[Ready]] = {}

    async def share(self, name: bytes, look: Callable[[], Awaitable[Ready]]) -> Ready:
        """Return what a look sees that begins after this call; what it raises passes through."""
        task = self._next.get(name)
        if task is None:
            task = asyncio.create_task(self._turn(name, self._under_way.get(name), look))
            task.add_done_callback(_noticed)
            self._next[name] = task
        return await asyncio.shield(task)

    async def _turn(
        self, name: bytes, before: asyncio.Task[Ready] | None, look: Callable[[], Awaitable[Ready]]
    ) -> Ready:
        if before is not None:
            await asyncio.wait([before])
        task = self._under_way[name] = self._next.pop(name)
        try:
            return await look()
        finally:
            if self._under_way.get(name) is task:
                del self._under_way[name]


def _noticed(task: asyncio.Task[Ready]) -> None:
    """Take note of a fault for which nobody waits any more."""
    if not task.cancelled():
        task.exception()
