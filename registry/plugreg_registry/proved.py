"""Bytes that prove themselves while they are read: what is stored is what was signed."""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Final

from plugreg_schemas.errors import IntegrityError

_READ_BYTES: Final = 1 << 20


def check_digest(staged: BinaryIO, digest: str) -> None:
    """Read a file from where it stands and put it back to its beginning.

    Raises:
        IntegrityError: `digest_mismatch`.
    """
    proved = Proved(staged, digest)
    while proved.read(_READ_BYTES):
        pass
    staged.seek(0)


class Proved:
    """A file that refuses to end with another digest than the one that was signed."""

    def __init__(self, file: BinaryIO, digest: str) -> None:
        self._file = file
        self._digest = digest
        self._seen = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes.

        Raises:
            IntegrityError: `digest_mismatch`, at the end.
        """
        chunk = self._file.read(size)
        self._seen.update(chunk)
        if not chunk and f"sha256:{self._seen.hexdigest()}" != self._digest:
            raise IntegrityError(
                "digest_mismatch",
                "the uploaded bytes are not the ones that were signed",
                hint="publish again; if it happens again, something on the way alters the upload",
            )
        return chunk
