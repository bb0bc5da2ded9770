"""A bundle while it arrives, in as many answers as it takes.

    wish    the headers that ask for what is missing
    fits    whether an answer goes on where the last one stopped, or begins from the start
    take    the next bytes of it

Bytes of two answers are put together only where the second says that it begins where the first ended, and is
of the same object. Everything else begins again: a wrong offset must never look like tampering.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final

from plugreg_schemas.errors import IntegrityError
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

PARTIAL: Final = 206
"""The status of an answer that is a part."""


class Arrival:
    """What is there of `size` bytes. `into` is an empty file."""

    def __init__(self, into: BinaryIO, size: int) -> None:
        self.size = size
        self._into = into
        self.restart()

    def restart(self) -> None:
        """Drop what came."""
        self._into.seek(0)
        self._into.truncate()
        self._hashed = hashlib.sha256()
        self._tag = ""
        self.done = 0
        self.pieced = False
        """Whether the bytes come from more than one answer."""

    @property
    def complete(self) -> bool:
        """Whether all bytes are there."""
        return self.done == self.size

    @property
    def digest(self) -> Digest:
        """The digest of the bytes that are there."""
        return Digest(f"sha256:{self._hashed.hexdigest()}")

    def wish(self) -> dict[str, str]:
        """Return the headers that ask for the rest of the same object, else for all of it."""
        if not self.done:
            return {}
        same = {"If-Range": self._tag} if self._tag else {}
        return {"Range": f"bytes={self.done}-{self.size - 1}", **same}

    def fits(self, answer: BaseHTTPResponse) -> bool:
        """Whether the content of an answer can be taken; what does not go on makes everything begin again."""
        tag = str(answer.headers.get("ETag", ""))
        if answer.status == PARTIAL and self._goes_on(answer, tag):
            self.pieced = self.done > 0
            return True
        self.restart()
        self._tag = "" if tag.startswith("W/") else tag  # a weak one does not promise the same bytes
        return answer.status != PARTIAL

    def _goes_on(self, answer: BaseHTTPResponse, tag: str) -> bool:
        span = str(answer.headers.get("Content-Range", ""))
        other = bool(self._tag and tag) and tag != self._tag
        return span.startswith(f"bytes {self.done}-") and not other

    def take(self, chunk: bytes) -> None:
        """Write the next bytes.

        Raises:
            IntegrityError: `digest_mismatch`: there are more than were announced; they are not written.
        """
        if self.done + len(chunk) > self.size:
            raise IntegrityError(
                "digest_mismatch", f"the bundle is larger than the {self.size} bytes that were announced"
            )
        self._hashed.update(chunk)
        self._into.write(chunk)
        self.done += len(chunk)
