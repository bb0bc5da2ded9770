"""Small files of the read plane, kept in memory together with the answers made of them.

Every request looks at the file itself (one `stat`): what was replaced is read again, so nothing is ever
stale, and whatever else writes to the folder need not tell.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from starlette.types import Message

Headers = list[tuple[bytes, bytes]]
Head = Callable[[bytes, int], tuple[bytes, Headers, Headers]]
"""ETag of the content and its size > the ETag, the headers of every answer, those with the content."""

CACHE_BYTES: Final = 32 << 20
"""Memory for small files, all together."""
CACHED_FILE: Final = 2 << 20
"""A document of 1,000 versions has half a MiB."""
CACHED_FILES: Final = 20_000
PACKED_FROM: Final = 16 << 10
"""Files from this size on are sent compressed to those who take that."""

_S = TypeVar("_S")
_FileIdentity = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """A small file as the ASGI messages that answer for it."""

    etag: bytes
    start: Message
    unchanged: Message
    body: Message
    size: int
    _packed: list[Ready] = field(default_factory=list, init=False, repr=False, compare=False)

    def packed(self) -> Ready:
        """Return the same compressed, with an ETag of its own. It is made once, which takes a while."""
        if not self._packed:
            self._packed.append(_packed(self))
        return self._packed[0]


@dataclass(frozen=True, slots=True)
class Known(Generic[_S]):
    """What is kept of a small file, and by what it is seen that it is still the same."""

    seen: _S
    ready: Ready


class Kept(Generic[_S]):
    """Small files in memory by request path: so many bytes together, those asked for latest."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Known[_S]] = OrderedDict()
        self._bytes = 0

    def get(self, path: bytes) -> Known[_S] | None:
        """Return what is kept for a path."""
        known = self._known.get(path)
        if known is not None:
            self._known.move_to_end(path)
        return known

    def forget(self, path: bytes) -> None:
        """Keep nothing for a path; no fault if nothing is."""
        known = self._known.pop(path, None)
        self._bytes -= known.ready.size if known else 0

    def keep(self, path: bytes, known: Known[_S]) -> None:
        """Keep a file, if it is small."""
        self.forget(path)
        if known.ready.size > CACHED_FILE:
            return
        self._known[path] = known
        self._bytes += known.ready.size
        while self._bytes > CACHE_BYTES or len(self._known) > CACHED_FILES:
            self._bytes -= self._known.popitem(last=False)[1].ready.size


class SmallFiles:
    """Small files in memory, looked at on every request: a replaced file is another one at once."""

    def __init__(self) -> None:
        self._kept: Kept[tuple[str, _FileIdentity]] = Kept()

    def ready(self, path: bytes) -> Ready | None:
        """Return what is known for a request path, if the file is still the one that was read."""
        known = self._kept.get(path)
        if known is None:
            return None
        file, identity = known.seen
        try:
            found = os.stat(file)  # noqa: PTH116 - on the path of every request
        except OSError:
            found = None
        if found is not None and identity == _identity(found):
            return known.ready
        self._kept.forget(path)
        return None

    def read(self, path: bytes, file: str, head: Head) -> Ready:
        """Read a file and keep it if it is small.

        Raises:
            FileNotFoundError, NotADirectoryError, IsADirectoryError: there is no such file.
        """
        with open(file, "rb") as stream:  # noqa: PTH123 - as above
            identity = _identity(os.fstat(stream.fileno()))
            ready = made_ready(stream.read(), head)
        self._kept.keep(path, Known((file, identity), ready))
        return ready


def made_ready(body: bytes, head: Head) -> Ready:
    """Return the answers that are made of the content of a small file."""
    etag, always, content = head(b'"%b"' % hashlib.sha256(body).hexdigest().encode(), len(body))
    return Ready(
        etag=etag,
        start={"type": "http.response.start", "status": 200, "headers": always + content},
        unchanged={"type": "http.response.start", "status": 304, "headers": always},
        body={"type": "http.response.body", "body": body},
        size=len(body),
    )


def _packed(ready: Ready) -> Ready:
    body = gzip.compress(ready.body["body"], mtime=0)
    etag = ready.etag.removesuffix(b'"') + b'-gzip"'
    changed = {b"etag": etag, b"content-length": b"%d" % len(body)}
    begins = [
        {**message, "headers": [(name, changed.get(name, value)) for name, value in message["headers"]]}
        for message in (ready.start, ready.unchanged)
    ]
    begins[0]["headers"].append((b"content-encoding", b"gzip"))
    return Ready(etag, begins[0], begins[1], {"type": "http.response.body", "body": body}, len(body))


def _identity(found: os.stat_result) -> _FileIdentity:
    return found.st_mtime_ns, found.st_size, found.st_ino
