"""Small files of the read plane, kept in memory together with the answers made of them.

Every request looks at the file itself (one `stat`): what was replaced is read again, so nothing is ever
stale, and whatever else writes to the folder need not tell.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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


@dataclass(frozen=True, slots=True)
class Ready:
    """A small file with the ASGI messages that answer for it."""

    file: str
    identity: tuple[int, int, int]
    etag: bytes
    start: Message
    unchanged: Message
    body: Message
    size: int


class SmallFiles:
    """Small files in memory, looked at on every request: a replaced file is another one at once."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Ready] = OrderedDict()
        self._bytes = 0

    def ready(self, path: bytes) -> Ready | None:
        """Return what is known for a request path, if the file is still the one that was read."""
        known = self._known.get(path)
        if known is None:
            return None
        try:
            found = os.stat(known.file)  # noqa: PTH116 - on the path of every request
        except OSError:
            found = None
        if found is not None and known.identity == _identity(found):
            self._known.move_to_end(path)
            return known
        del self._known[path]
        self._bytes -= known.size
        return None

    def read(self, path: bytes, file: str, head: Head) -> Ready:
        """Read a file and keep it if it is small.

        Raises:
            FileNotFoundError, NotADirectoryError, IsADirectoryError: there is no such file.
        """
        with open(file, "rb") as stream:  # noqa: PTH123 - as above
            identity = _identity(os.fstat(stream.fileno()))
            body = stream.read()
        etag, always, content = head(b'"%b"' % hashlib.sha256(body).hexdigest().encode(), len(body))
        ready = Ready(
            file=file,
            identity=identity,
            etag=etag,
            start={"type": "http.response.start", "status": 200, "headers": always + content},
            unchanged={"type": "http.response.start", "status": 304, "headers": always},
            body={"type": "http.response.body", "body": body},
            size=len(body),
        )
        if len(body) <= CACHED_FILE:
            self._keep(path, ready)
        return ready

    def _keep(self, path: bytes, ready: Ready) -> None:
        old = self._known.pop(path, None)
        self._known[path] = ready
        self._bytes += ready.size - (old.size if old else 0)
        while self._bytes > CACHE_BYTES or len(self._known) > CACHED_FILES:
            self._bytes -= self._known.popitem(last=False)[1].size


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino
