"""`Spool` in a bucket: an upload is a chain of objects, each named by the byte at which it begins.

    staging/<session>/<run>-<first byte>     what one request brought, in pieces
    staging/<session>/direct                 all of it, if the client put it there itself

A piece is written only where nothing is, so a chain has one next piece whoever writes it: replicas need not
know of each other. Starting over begins the next run, and only the newest run counts. To be read, an upload
is copied once to a file of this machine that nobody else can open: what is checked is what is published, even
if a client changes its own object meanwhile.
"""

from __future__ import annotations

import io
import re
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, TYPE_CHECKING, BinaryIO, Final, cast

from plugreg_registry.blobs.bucket import STAGING
from plugreg_registry.blobs.folders import store_faults
from plugreg_registry.blobs.s3 import direct_key, staging_folder
from plugreg_schemas.errors import Conflict, NotAvailable, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.blobs.s3 import S3Blobs
    from plugreg_registry.ports import SpoolWriter

MOST_PIECES: Final = 10_000
"""Of one upload. The registry writes pieces of 1 MiB; only who sends crumbs gets there."""

_NAME: Final = re.compile("[0-9a-f]{64}")
_PIECE: Final = re.compile("([0-9]{6})-([0-9]{15})")
_COPY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What is there of an upload: the keys that make it up in this order, their bytes, and every key."""

    run: int = 0
    """The newest run; 0 if there is none."""
    keys: tuple[str, ...] = ()
    size: int = 0
    every: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class S3Spool:
    """The uploads in a bucket."""

    blobs: S3Blobs
    scratch: Path
    """A private folder for the one copy."""
    _busy: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def size(self, session: str) -> int:
        """See `Spool.size`."""
        return self._arrived(session).size

    @contextmanager
    def append(self, session: str, offset: int) -> Iterator[SpoolWriter]:
        """See `Spool.append`."""
        with self._alone(session):
            arrived = self._arrived(session)
            if offset == 0:
                for key in arrived.every:
                    self.blobs.delete(key)
                yield _PieceWriter(self.blobs, session, arrived.run + 1)
            elif offset == arrived.size:
                yield _PieceWriter(self.blobs, session, arrived.run, offset, len(arrived.keys))
            else:
                stands = arrived.size
                raise Conflict(
                    "upload_offset", f"the upload continues at byte {stands}", details={"offset": stands}
                )

    def open(self, session: str) -> BinaryIO:
        """See `Spool.open`. Of an object that has grown since it was looked at, the rest is left away."""
        arrived = self._arrived(session)
        if not arrived.keys:
            return io.BytesIO()
        with store_faults(self.scratch):
            copy = tempfile.TemporaryFile(dir=self.scratch)  # noqa: SIM115 - it is what is returned
            try:
                for key in arrived.keys:
                    self._copy(key, copy, arrived.size)
                copy.seek(0)
            except BaseException:
                copy.close()
                raise
        return cast("BinaryIO", copy)

    def remove(self, session: str) -> None:
        """See `Spool.remove`."""
        for key, _ in self.blobs.bucket.listed(staging_folder(_checked(session))):
            self.blobs.delete(key)

    def sessions(self) -> Iterator[str]:
        """See `Spool.sessions`."""
        folders = (key.split("/")[1] for key, _ in self.blobs.bucket.listed(STAGING))
        yield from filter(_NAME.fullmatch, dict.fromkeys(folders))

    def _arrived(self, session: str) -> _Arrived:
        folder = staging_folder(_checked(session))
        listed = dict(self.blobs.bucket.listed(folder))
        if (direct := direct_key(session)) in listed:
            return _Arrived(0, (direct,), listed[direct], tuple(listed))
        pieces = [found for key in listed if (found := _PIECE.fullmatch(key.removeprefix(folder)))]
        run = max((int(piece[1]) for piece in pieces), default=0)
        keys, size = [], 0
        while (key := piece_key(session, run, size)) in listed and listed[key]:
            keys.append(key)
            size += listed[key]
        return _Arrived(run, tuple(keys), size, tuple(listed))

    def _copy(self, key: str, copy: IO[bytes], most: int) -> None:
        with suppress(NotAvailable), self.blobs.open(key) as piece:
            while chunk := piece.read(min(_COPY_BYTES, most - copy.tell())):
                copy.write(chunk)

    @contextmanager
    def _alone(self, session: str) -> Iterator[None]:
        """Be the only writer of an upload in this process; of other processes the pieces tell."""
        with self._lock:
            taken = session in self._busy
            self._busy.add(session)
        if taken:
            raise _busy(self.size(session))
        try:
            yield
        finally:
            self._busy.discard(session)


@dataclass(slots=True)
class _PieceWriter:
    blobs: S3Blobs
    session: str
    run: int
    offset: int = 0
    pieces: int = 0

    def write(self, chunk: bytes) -> int:
        if not chunk:
            return self.offset
        if self.pieces >= MOST_PIECES:
            raise TooLarge(
                "upload_pieces",
                f"the upload came in more than {MOST_PIECES} pieces",
                hint="publish again, and send larger pieces",
            )
        try:
            self.blobs.put(piece_key(self.session, self.run, self.offset), io.BytesIO(chunk), None)
        except Conflict:
            raise _busy(self.offset) from None
        self.pieces += 1
        self.offset += len(chunk)
        return self.offset


def piece_key(session: str, run: int, start: int) -> str:
    """Return the key of the piece that begins at a byte."""
    return f"{staging_folder(session)}{run:06}-{start:015}"


def _checked(session: str) -> str:
    if not _NAME.fullmatch(session):
        raise ValueError("a session id is 64 hexadecimal digits")
    return session


def _busy(offset: int) -> Conflict:
    return Conflict(
        "upload_busy",
        "another request is writing this upload",
        hint="ask for the offset again in a moment",
        details={"offset": offset},
    )
