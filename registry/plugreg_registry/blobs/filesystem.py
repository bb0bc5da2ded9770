"""`BlobStore` in a folder: the key is the path, so a web server can offer the folder as it is.

An object is written beside its final name, synced, and renamed over it; its folder is synced last. The
writer holds a lock on what it writes, so whatever is left half-written without a lock belongs to nobody and
is swept away.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from plugreg_registry.blobs.folders import make_public, store_faults, sync_folder
from plugreg_registry.ports import Over, check_key
from plugreg_registry.records import StoredObject
from plugreg_schemas.errors import Conflict, NotAvailable, Temporary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.ports import Source

_UNFINISHED: Final = ".unfinished-"
_COPY_BYTES: Final = 1 << 20
_PATIENCE: Final = 5.0
_POLL: Final = 0.002
FILE_MODE: Final = 0o644
"""Readable by a web server under another account; nothing below the objects folder is secret."""


@dataclass(frozen=True, slots=True)
class FilesystemBlobs:
    """The objects below one folder."""

    folder: Path

    def put(self, key: str, source: Source, over: bytes | Literal[Over.ANY] | None = Over.ANY) -> None:
        """See `BlobStore.put`."""
        target = self.folder / check_key(key)
        with store_faults(self.folder):
            if not target.parent.is_dir():
                make_public(target.parent, self.folder)
            with _unfinished(target.parent) as (path, file):
                while chunk := source.read(_COPY_BYTES):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
                _move(path, target, over)
            sync_folder(target.parent)

    def open(self, key: str) -> BinaryIO:
        """See `BlobStore.open`."""
        try:
            with store_faults(self.folder):
                return (self.folder / check_key(key)).open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotAvailable("object_not_found", f"there is no object `{key}`") from None

    def has(self, key: str) -> bool:
        """See `BlobStore.has`."""
        return (self.folder / check_key(key)).is_file()

    def delete(self, key: str) -> None:
        """See `BlobStore.delete`."""
        target = self.folder / check_key(key)
        with store_faults(self.folder), suppress(FileNotFoundError):
            target.unlink()
            sync_folder(target.parent)

    def keys(self, prefix: str) -> Iterator[str]:
        """See `BlobStore.keys`."""
        top = self.folder / check_key(prefix)
        found = (path for path in top.rglob("*") if path.is_file() and not path.name.startswith(_UNFINISHED))
        yield from sorted(path.relative_to(self.folder).as_posix() for path in found)

    def objects(self, folder: str) -> Iterator[StoredObject]:
        """See `Inventory.objects`."""
        for path in (self.folder / check_key(folder)).rglob("*"):
            if not path.name.startswith(_UNFINISHED):
                with suppress(FileNotFoundError):
                    found = path.stat()
                    if stat.S_ISREG(found.st_mode):
                        yield StoredObject(
                            path.relative_to(self.folder).as_posix(), found.st_size, _time(found.st_mtime)
                        )

    def changed(self, key: str) -> datetime | None:
        """See `Inventory.changed`."""
        try:
            return _time((self.folder / check_key(key)).stat().st_mtime)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def sweep(self) -> int:
        """Remove what crashed writers left half-written and return how much that was."""
        swept = 0
        for path in self.folder.rglob(_UNFINISHED + "*"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # its writer is alive
                path.unlink()
                swept += 1
        return swept


def _move(path: Path, target: Path, over: bytes | Literal[Over.ANY] | None) -> None:
    """Give a finished file its name, if what stands there is what the writer thinks."""
    if over is Over.ANY:
        path.replace(target)
    elif over is None:
        try:
            os.link(path, target)
        except FileExistsError:
            raise _changed(target) from None
    else:
        with _compared(target.parent):
            try:
                present = target.read_bytes()
            except FileNotFoundError:
                raise _changed(target) from None
            if present != over:
                raise _changed(target)
            path.replace(target)


@contextmanager
def _compared(folder: Path) -> Iterator[None]:
    """Be the only one, among threads and processes, who compares and replaces in a folder.

    Raises:
        Temporary: `store_unavailable`: somebody does so for too long, as a stopped process does.
    """
    end = time.monotonic() + _PATIENCE
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while not _locked(descriptor):
            if time.monotonic() > end:
                raise Temporary("store_unavailable", f"another process stopped while it wrote in `{folder}`")
            time.sleep(_POLL)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _changed(target: Path) -> Conflict:
    return Conflict("object_changed", f"another process has written `{target.name}`")


class _unfinished:  # noqa: N801 - used as a `with` function
    """A new file that is locked while it is written and gone afterwards unless it was renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> tuple[Path, BinaryIO]:
        while True:
            self.path = self.folder / f"{_UNFINISHED}{secrets.token_hex(8)}"
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
            self.file = os.fdopen(descriptor, "wb")
            os.fchmod(descriptor, FILE_MODE)  # whatever the umask has left of it
            fcntl.flock(self.file, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return self.path, self.file
            self.file.close()  # swept between its creation and its lock

    def __exit__(self, *_: object) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()
        with suppress(OSError):  # closing flushes, and on a full disk that fails again
            self.file.close()
