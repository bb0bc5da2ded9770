"""The second step of a publish: the bytes of a session arrive, in as many requests as it takes.

The secret in a session's URL is the permission to write; only its hash is kept. The offset of an upload is
what has arrived, so a client that lost its connection asks for it and goes on from there.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg_schemas.errors import InvalidInput, NoSpace, NotAvailable, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from plugreg_registry.ports import Sessions, Spool, SpoolWriter
    from plugreg_registry.records import UploadSession


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes `start` to `end` (not included) of an upload of `total` bytes."""

    start: int
    end: int
    total: int


@dataclass(frozen=True, slots=True)
class Uploads:
    """Sessions and what has arrived for them."""

    sessions: Sessions
    spool: Spool
    now: Callable[[], datetime]
    most: int
    """Sessions that one signer may have open."""

    def open(self, session: UploadSession) -> None:
        """Keep a new session. If its signer has too many, the oldest without a byte gives way, or the oldest.

        The statement may be one for which a session is open already: whoever lost the address of that one
        has no other way to go on.
        """
        self.sessions.add(session)
        others = [other for other in self.sessions.of(session.signer) if other != session.id]
        for _ in range(len(others) + 1 - self.most):
            oldest = next((other for other in others if not self.spool.size(other)), others[0])
            others.remove(oldest)
            self.forget(oldest)

    def session(self, secret: str) -> UploadSession:
        """Return the session that a secret opens.

        Raises:
            NotAvailable: `session_unknown`: there is none, or its time is over.
        """
        session = self.sessions.find(session_id(secret))
        if session is None or session.expires <= self.now():
            raise NotAvailable(
                "session_unknown",
                "there is no such upload, or its time is over",
                hint="publish again: what was published already is only confirmed",
            )
        return session

    def offset(self, secret: str) -> int:
        """Return how many bytes have arrived. Raises as `session`."""
        return self.spool.size(self.session(secret).id)

    @contextmanager
    def receive(self, secret: str, part: Part | None, length: int | None) -> Iterator[PartWriter]:
        """Take one request's bytes: a part of the upload, or all of it where `part` is None.

        `length` is the size the request announces, if it does. An upload that breaks its promise is
        forgotten, so it leaves no bytes behind.

        Raises:
            Conflict: `upload_offset`, `upload_busy`.
            InvalidInput: `upload_range`: the part does not fit the session.
            TooLarge: `upload_too_large`: more bytes than the statement announced.
            NoSpace: `disk_full`.
        """
        session = self.session(secret)
        try:
            part = part or Part(0, session.size, session.size)
            _check(part, session, length)
            with self.spool.append(session.id, part.start) as writer:
                yield PartWriter(writer, part.end - part.start, part.start)
        except (TooLarge, NoSpace):
            self.forget(session.id)
            raise

    def forget(self, session: str) -> None:
        """Remove a session and its bytes."""
        self.spool.remove(session)
        self.sessions.remove(session)


@dataclass(slots=True)
class PartWriter:
    """Counts the bytes of a part while they are written."""

    writer: SpoolWriter
    left: int
    offset: int

    def write(self, chunk: bytes) -> None:
        """Write a chunk.

        Raises:
            TooLarge: `upload_too_large`.
            NoSpace: `disk_full`.
        """
        if len(chunk) > self.left:
            raise too_large()
        self.left -= len(chunk)
        self.offset = self.writer.write(chunk)


def session_id(secret: str) -> str:
    """Return the id under which a secret's session is kept."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _check(part: Part, session: UploadSession, length: int | None) -> None:
    if part.total > session.size or part.end > session.size:
        raise too_large()
    if length is not None and length > part.end - part.start:
        raise too_large()
    if part.total != session.size or (length is not None and length != part.end - part.start):
        raise InvalidInput(
            "upload_range",
            f"the range does not fit the body, or not the announced size of {session.size} bytes",
            hint="send `Content-Range: bytes FIRST-LAST/SIZE` and exactly these bytes",
        )


def too_large() -> TooLarge:
    """Return the refusal of an upload that breaks the promise of its statement."""
    return TooLarge("upload_too_large", "the upload is larger than its statement announced")
