"""What the services need of the outside, as protocols of at most five methods.

    BlobStore   immutable and replaceable objects by key          `blobs.filesystem`
    Spool       bundles while they arrive                         `blobs.spool`
    Releases    the plugins; the one place of the commit point    `metadata.releases`
    Sessions    publishes that wait for their bytes               `metadata.sessions`
    Journal     what was accepted, in order                       `metadata.journal`

Every adapter passes the contract test of its port. All of them raise `Temporary` (`database_busy`,
`store_unavailable`) when the store cannot answer now, and `NoSpace` (`disk_full`) when it is full.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol

from plugreg_schemas.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from plugreg_registry.records import AuditEntry, PluginRecord, UploadSession
    from plugreg_schemas.names import Digest

_KEY: Final = re.compile(r"(?:[.]well-known|[a-z0-9][a-z0-9._-]*)(?:/[a-z0-9][a-z0-9._-]*)*")
MAX_KEY: Final = 200

LockPurpose = Literal["session", "object", "index"]


class Lock(Protocol):
    """Makes locks that one thread of one process holds at a time, whatever the machine runs.

    Whoever holds a lock may take one of a later purpose only: `session` > `object` > `index`.
    """

    def __call__(self, purpose: LockPurpose, name: str) -> AbstractContextManager[None]:
        """Return the lock of a name for a purpose; entering it waits."""
        ...


class Source(Protocol):
    """Where an object's bytes come from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; none at the end."""
        ...


class BlobStore(Protocol):
    """Objects by key. Keys are the paths of the read plane, so a store can be served as it is."""

    def put(self, key: str, source: Source) -> None:
        """Store all of `source` under `key`, durably, in place of what was there; never seen in part.

        An error raised by `source` passes through, and nothing is stored.

        Raises:
            NoSpace: `disk_full`.
        """
        ...

    def open(self, key: str) -> BinaryIO:
        """Open an object for reading.

        Raises:
            NotAvailable: `object_not_found`.
        """
        ...

    def has(self, key: str) -> bool:
        """Whether there is such an object."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; no fault if there is none."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys below the folder `prefix`, sorted."""
        ...


class SpoolWriter(Protocol):
    """Takes the bytes of one request."""

    def write(self, chunk: bytes) -> int:
        """Append a chunk and return the new offset.

        Raises:
            NoSpace: `disk_full`, naming the folder.
        """
        ...


class Spool(Protocol):
    """Bundles while they arrive, by session id; the offset of an upload is the number of bytes here."""

    def size(self, session: str) -> int:
        """Return how many bytes have arrived; 0 if none."""
        ...

    def append(self, session: str, offset: int) -> AbstractContextManager[SpoolWriter]:
        """Write from `offset` on; `offset` 0 starts over. One writer at a time.

        Raises:
            Conflict: `upload_offset`, `upload_busy`; `details` has the offset that stands.
        """
        ...

    def open(self, session: str) -> BinaryIO:
        """Open what has arrived; an empty stream if nothing has."""
        ...

    def remove(self, session: str) -> None:
        """Forget an upload; no fault if there is none."""
        ...

    def sessions(self) -> Iterator[str]:
        """Yield the ids of all uploads."""
        ...


class Releases(Protocol):
    """The plugins. A record only grows: statements and releases are appended, never changed."""

    def find(self, name: str) -> PluginRecord | None:
        """Return the plugin's record, or None."""
        ...

    def change(self, name: str, decide: Callable[[PluginRecord | None], PluginRecord]) -> PluginRecord:
        """Let `decide` turn the present record into the next, in one serialised transaction; return it.

        What `decide` raises passes through and nothing is stored; it may be called twice. Returning the
        record that it was given stores nothing.

        Raises:
            Conflict: `name_lookalike`: a new name folds to the same text as one that exists.
        """
        ...

    def lookalike(self, name: str) -> str | None:
        """Return another plugin's name that folds to the same text, or None."""
        ...

    def unindexed(self) -> Sequence[str]:
        """Return the names whose newest record is not in the index yet."""
        ...

    def mark_indexed(self, name: str, revision: int) -> None:
        """Remember that the index shows this revision of the record, or a newer one."""
        ...


class Sessions(Protocol):
    """Publishes that were let in and wait for their bytes."""

    def add(self, session: UploadSession) -> None:
        """Keep a session."""
        ...

    def find(self, session: str) -> UploadSession | None:
        """Return the session with this id, or None."""
        ...

    def remove(self, session: str) -> None:
        """Forget a session; no fault if there is none."""
        ...

    def of(self, signer: str) -> Sequence[str]:
        """Return the ids of a signer's sessions, the oldest first."""
        ...

    def expired(self, now: datetime) -> Sequence[str]:
        """Return the ids of the sessions whose time is over."""
        ...


class Journal(Protocol):
    """What was accepted, in the order of acceptance."""

    def record(self, entries: Sequence[AuditEntry]) -> None:
        """Keep entries; one whose statement is there already is left alone."""
        ...

    def read(self, after: int = 0, limit: int = 100) -> Sequence[tuple[int, AuditEntry]]:
        """Return at most `limit` entries after serial `after`, each with its serial."""
        ...


def check_key(key: str) -> str:
    """Return `key` if it can be a key of every store.

    Raises:
        InvalidInput: `key_invalid`.
    """
    if len(key) > MAX_KEY or not _KEY.fullmatch(key):
        raise InvalidInput("key_invalid", "an object's key is lower-case path parts joined by `/`")
    return key


def blob_key(digest: Digest) -> str:
    """Return the key of a bundle."""
    return f"blobs/sha256/{digest.hex}"


def attestation_key(digest: Digest) -> str:
    """Return the key of a signed statement."""
    return f"attestations/sha256/{digest.hex}.json"


def document_key(name: str) -> str:
    """Return the key of a plugin document."""
    return f"index/plugins/{name}.json"


def lookalike(name: str, twin: str) -> Conflict:
    """Return the refusal of a new name that looks like one that exists."""
    return Conflict(
        "name_lookalike",
        f"`{name}` looks like `{twin}`, which exists",
        hint="choose a name that differs in more than `.`, `_` and `-`",
        details={"name": twin},
    )
