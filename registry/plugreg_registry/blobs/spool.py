"""`Spool` in a folder: a file per upload, named by the hash of its secret, growing as bytes arrive."""

from __future__ import annotations

import fcntl
import io
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from plugreg_registry.blobs.folders import store_faults
from plugreg_schemas.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.ports import SpoolWriter

_NAME: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FolderSpool:
    """The uploads in one folder; private, unlike the objects."""

    folder: Path

    def size(self, session: str) -> int:
        """See `Spool.size`."""
        try:
            return self._path(session).stat().st_size
        except FileNotFoundError:
            return 0

    @contextmanager
    def append(self, session: str, offset: int) -> Iterator[SpoolWriter]:
        """See `Spool.append`."""
        with store_faults(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path(session), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            stands = os.fstat(descriptor).st_size
            if offset == 0:
                os.ftruncate(descriptor, 0)
            elif offset != stands:
                raise Conflict(
                    "upload_offset", f"the upload continues at byte {stands}", details={"offset": stands}
                )
            yield _FileWriter(self.folder, descriptor, offset)
        finally:
            os.close(descriptor)

    def open(self, session: str) -> BinaryIO:
        """See `Spool.open`."""
        try:
            with store_faults(self.folder):
                return self._path(session).open("rb")
        except FileNotFoundError:
            return io.BytesIO()

    def remove(self, session: str) -> None:
        """See `Spool.remove`."""
        with store_faults(self.folder), suppress(FileNotFoundError):
            self._path(session).unlink()

    def sessions(self) -> Iterator[str]:
        """See `Spool.sessions`."""
        with suppress(FileNotFoundError):
            yield from sorted(entry.name for entry in os.scandir(self.folder) if _NAME.fullmatch(entry.name))

    def _path(self, session: str) -> Path:
        if not _NAME.fullmatch(session):
            raise ValueError("a session id is 64 hexadecimal digits")
        return self.folder / session


@dataclass(slots=True)
class _FileWriter:
    folder: Path
    descriptor: int
    offset: int

    def write(self, chunk: bytes) -> int:
        rest = memoryview(chunk)
        with store_faults(self.folder):
            while rest:
                written = os.pwrite(self.descriptor, rest, self.offset)
                self.offset += written
                rest = rest[written:]
        return self.offset


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(
            "upload_busy",
            "another request is writing this upload",
            hint="ask for the offset again in a moment",
            details={"offset": os.fstat(descriptor).st_size},
        ) from None
