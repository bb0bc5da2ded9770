"""`Shelf` over a folder: what the read plane takes its objects from."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from plugreg_registry.small_files import SmallFiles
from plugreg_schemas.errors import NotAvailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from plugreg_registry.small_files import Head, Ready

_CHUNK: Final = 1 << 20


class FolderShelf:
    """The objects below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._small = SmallFiles()

    def ready(self, path: bytes) -> Ready | None:
        """See `Shelf.ready`."""
        return self._small.ready(path)

    async def small(self, path: bytes, key: str, head: Head) -> Ready:
        """See `Shelf.small`."""
        try:
            return self._small.read(path, f"{self._folder}/{key}", head)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise _missing(key) from None

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[FolderObject]:
        """See `Shelf.open`."""
        try:
            descriptor = os.open(f"{self._folder}/{key}", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(key) from None
        try:
            yield FolderObject(key, descriptor)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class FolderObject:
    """An open file."""

    key: str
    descriptor: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", os.fstat(self.descriptor).st_size)

    async def chunks(self, start: int, end: int) -> AsyncIterator[bytes]:
        """See `Opened.chunks`."""
        while start < end:
            chunk = await asyncio.to_thread(os.pread, self.descriptor, min(_CHUNK, end - start), start)
            if not chunk:
                raise OSError(f"{self.key} has become shorter while it was read")
            start += len(chunk)
            yield chunk


def _missing(key: str) -> NotAvailable:
    return NotAvailable("object_not_found", f"there is no object `{key}`")
