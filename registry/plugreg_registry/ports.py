"""What the services need of the outside, as protocols of at most five methods.

    BlobStore   immutable and replaceable objects by key          `blobs.filesystem`, `blobs.s3`
    Inventory   what a store holds, and since when                `blobs.filesystem`, `blobs.s3`
    Spool       bundles while they arrive                         `blobs.spool`, `blobs.s3_spool`
    DirectAccess  addresses at which clients reach the store      `blobs.s3`
    Releases    the plugins; the one place of the commit point    `metadata.releases`
    Backlog     what the index does not show yet                  `metadata.backlog`
    Lease       who publishes the index now                       `metadata.lease`
    Sessions    publishes that wait for their bytes               `metadata.sessions`
    Journal     what was accepted, in order                       `metadata.journal`
    Leftovers   objects that the index has replaced               `metadata.leftovers`
    Tokens      who may read                                      `metadata.tokens`
    Search      what plugins are found by                         `metadata.search`

Every adapter passes the contract test of its port. All of them raise `Temporary` (`database_busy`,
`store_unavailable`) when the store cannot answer now, and `NoSpace` (`disk_full`) when it is full.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol

from plugreg_schemas.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from plugreg_registry.quotas import Usage
    from plugreg_registry.records import (
        AuditEntry,
        Hit,
        Lookup,
        PluginRecord,
        SearchRow,
        StoredObject,
        Token,
        UploadSession,
    )
    from plugreg_schemas.names import Digest

_KEY: Final = re.compile(r"(?:[.]well-known|[a-z0-9][a-z0-9._-]*)(?:/[a-z0-9][a-z0-9._-]*)*")
MAX_KEY: Final = 200

LockPurpose = Literal["session", "object", "index"]


class Over(Enum):
    """What may stand where an object is put, apart from nothing (None) or exactly these bytes."""

    ANY = "any"


class Lock(Protocol):
    """Makes locks that one thread of one process holds at a time, of all that work on one registry.

    Whoever holds a lock may take one of a later purpose only: `session` > `object` > `index`.
    """

    def __call__(self, purpose: LockPurpose, name: str) -> AbstractContextManager[None]:
        """Return the lock of a name for a purpose; entering it waits. Only waiting may raise `Temporary`."""
        ...


class Source(Protocol):
    """Where an object's bytes come from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; none at the end."""
        ...


class BlobStore(Protocol):
    """Objects by key. Keys are the paths of the read plane, so a store can be served as it is."""

    def put(self, key: str, source: Source, over: bytes | Literal[Over.ANY] | None = Over.ANY) -> None:
        """Store all of `source` under `key`, durably, in place of what was there; never seen in part.

        `over` says what must be there: anything, exactly these bytes, or (None) nothing. Of two writers who
        saw the same, one wins. An error raised by `source` passes through, and nothing is stored.

        Raises:
            Conflict: `object_changed`: something else is there. NoSpace: `disk_full`.
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


class Inventory(Protocol):
    """What a store holds, and since when: for those who look for what nobody needs."""

    def objects(self, folder: str) -> Iterator[StoredObject]:
        """Yield the objects below a folder, in no order."""
        ...

    def changed(self, key: str) -> datetime | None:
        """Return when an object was last put, by the clock of the store; None if there is none."""
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


class DirectAccess(Protocol):
    """Addresses at which a client reaches the store itself for a short time. Whoever has one may use it."""

    def upload_url(self, session: str, size: int, seconds: int) -> str:
        """Return where a whole upload of exactly `size` bytes can be put."""
        ...

    def download_url(self, key: str, method: str) -> str:
        """Return where an object can be had by a method, `GET` or `HEAD`."""
        ...


class Releases(Protocol):
    """The plugins. A record only grows: statements and releases are appended, never changed."""

    def find(self, name: str) -> PluginRecord | None:
        """Return the plugin's record, or None."""
        ...

    def change(
        self,
        name: str,
        decide: Callable[[PluginRecord | None], PluginRecord],
        afford: Callable[[Usage], object] = bool,
    ) -> PluginRecord:
        """Let `decide` turn the present record into the next, in one serialised transaction; return it.

        If that has a release more, `afford` is asked with what its signer has used up before it. What either
        raises passes through and nothing is stored; they may be called again. Returning the record that it
        was given stores nothing.

        Raises:
            Conflict: `name_lookalike`: a new name folds to the same text as one that exists.
        """
        ...

    def used(self, signer: str) -> Usage:
        """Return what an identity, in words, has used up."""
        ...

    def lookalike(self, name: str) -> str | None:
        """Return another plugin's name that folds to the same text, or None."""
        ...

    def named(self, digests: Collection[Digest]) -> Collection[Digest]:
        """Return which of these digests a record names: of a bundle, or of a signed statement."""
        ...


class Backlog(Protocol):
    """How far the index is behind the records. A record that is changed is waiting from then on."""

    def waiting(self, limit: int) -> Sequence[str]:
        """Return the names of at most `limit` plugins whose newest record is not in the index, sorted."""
        ...

    def shows(self, name: str, revision: int) -> bool:
        """Whether the index shows this revision of a record, or a newer one."""
        ...

    def mark(self, shown: Mapping[str, int]) -> None:
        """Remember that the index shows these revisions, by name; an older one undoes nothing."""
        ...

    def again(self, names: Sequence[str] | None = None) -> None:
        """Let plugins wait for the index again; all of them without `names`."""
        ...

    def plugins(self) -> int:
        """Return how many plugins there are."""
        ...


class Lease(Protocol):
    """Who publishes the index now: one at a time, and nobody for long if that one is gone.

    A holder that was stopped for longer may go on when another holds the lease. So whatever it writes must
    be fenced by the store (`BlobStore.put`, `over`); the lease alone only saves needless work.
    """

    def take(self) -> int | None:
        """Take the lease, or prolong it; return its token, or None while another holds it."""
        ...

    def release(self, token: int) -> None:
        """Give the lease with this token back; no fault if it is not held any more."""
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
    """What was accepted and can be seen, in the order in which it could be. Serials begin at 1, without gaps.

    Who has read up to a serial has read all up to it: no smaller one comes later.
    """

    def record(self, entries: Sequence[AuditEntry]) -> None:
        """Keep entries; one whose statement is there already is left alone."""
        ...

    def read(self, after: int = 0, limit: int = 100) -> Sequence[tuple[int, AuditEntry]]:
        """Return at most `limit` entries after serial `after`, each with its serial."""
        ...

    def newest(self) -> int:
        """Return the serial of the newest entry; 0 if there is none."""
        ...


class Leftovers(Protocol):
    """Objects that the index does not name any more. They stay a while, for readers who are under way."""

    def add(self, keys: Sequence[str], at: datetime) -> None:
        """Remember that objects were replaced at a time; the newest time counts."""
        ...

    def old(self, before: datetime, limit: int = 1000) -> Sequence[str]:
        """Return the keys of at most `limit` objects that were replaced before a time, the oldest first."""
        ...

    def remove(self, keys: Sequence[str]) -> None:
        """Forget objects; no fault if one is not known."""
        ...


class Search(Protocol):
    """What plugins are found by: a row for each, made from its record, so that it can be made again."""

    def keep(self, rows: Sequence[SearchRow]) -> None:
        """Keep rows in place of those before; an older one changes nothing."""
        ...

    def behind(self, made: int, limit: int) -> Sequence[str]:
        """Return the names of at most `limit` plugins of which the index shows more than their row, sorted.

        Also of those whose row was made by an older rule than `made`.
        """
        ...

    def find(self, lookup: Lookup) -> Sequence[Hit]:
        """Return what is found, in order. The cost does not grow with the number of plugins."""
        ...


class Tokens(Protocol):
    """Who may read, by the hash of a secret."""

    def add(self, token: Token) -> None:
        """Keep a token; its id and its hash are new."""
        ...

    def remove(self, token: str) -> bool:
        """Forget the token with this id; return whether there was one."""
        ...

    def all(self) -> Sequence[Token]:
        """Return all tokens, the oldest first, also those whose time is over."""
        ...

    def note_uses(self, times: Mapping[str, datetime]) -> None:
        """Remember when tokens were used, by id; an older time undoes nothing."""
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


def lookalike(name: str, twin: str) -> Conflict:
    """Return the refusal of a new name that looks like one that exists."""
    return Conflict(
        "name_lookalike",
        f"`{name}` looks like `{twin}`, which exists",
        hint="choose a name that differs in more than `.`, `_` and `-`",
        details={"name": twin},
    )
