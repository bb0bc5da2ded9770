"""What a child writes: lines cut out of its output, the end of its log. Bytes in, values out.

Lines   framing by line ends in linear time, however the bytes arrive; a line over `MAX_LINE` ends it
Ring    the last bytes of a stream that is otherwise thrown away
"""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_LINE: Final = 64 << 20
"""Bytes of one message: tools do return files, but a child must not fill our memory."""
MAX_UNREAD: Final = 4 << 20
"""Bytes of finished lines that wait to be taken; over it, the child's output is left in its pipe."""


class Lines:
    """The lines of a stream, without their ends. A last line without an end counts as a line."""

    def __init__(self, max_line: int = MAX_LINE, max_unread: int = MAX_UNREAD) -> None:
        self.ended = False
        self.overlong = False
        self._max_line, self._max_unread = max_line, max_unread
        self._finished: deque[bytes] = deque()
        self._unread = 0
        self._partial: list[bytes] = []
        self._partial_size = 0

    @property
    def full(self) -> bool:
        """Whether so much waits to be taken that no more should be fed."""
        return self._unread > self._max_unread

    def feed(self, chunk: bytes) -> None:
        """Add bytes as they come; after the end they are ignored."""
        if self.ended:
            return
        first, *others = chunk.split(b"\n")
        self._extend(first)
        for part in others:
            self._finish()
            self._extend(part)

    def pop(self) -> bytes | None:
        """Return the next finished line, or None if there is none now."""
        if not self._finished:
            return None
        line = self._finished.popleft()
        self._unread -= len(line)
        return line

    def end(self) -> None:
        """Note that no more bytes will come."""
        if self._partial_size and not self.ended:
            self._finish()
        self.ended = True

    def _extend(self, part: bytes) -> None:
        if self.overlong:
            return
        self._partial.append(part)
        self._partial_size += len(part)
        if self._partial_size > self._max_line:
            self.overlong = self.ended = True
            self._partial, self._partial_size = [], 0

    def _finish(self) -> None:
        if self.overlong:
            return
        line = b"".join(self._partial)
        self._partial, self._partial_size = [], 0
        self._finished.append(line)
        self._unread += len(line)


class Ring:
    """The last `size` bytes of a stream, and less than one chunk more."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._chunks: deque[bytes] = deque()
        self._held = 0

    def add(self, chunk: bytes) -> None:
        """Add bytes as they come."""
        self._chunks.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._chunks[0]) >= self._size:
            self._held -= len(self._chunks.popleft())

    def tail(self, limit: int) -> bytes:
        """Return the last `limit` bytes, or all that are held."""
        return b"".join(self._chunks)[-limit:]


def printable(text: bytes) -> str:
    """Decode what a stranger wrote, without what could drive a terminal: only line ends and tabs stay."""
    decoded = text.decode("utf-8", errors="replace")
    return "".join(char for char in decoded if char.isprintable() or char in "\n\t").strip()
