"""Locks between the threads and processes of one machine, by name.

Names are spread over a fixed number of files, so the folder does not grow with the names; two names that
share a file wait for each other, which costs time and nothing else. A dead process holds no lock.
"""

from __future__ import annotations

import fcntl
import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg_registry.blobs.folders import store_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.ports import LockPurpose

_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class FileLocks:
    """The locks in one folder."""

    folder: Path

    @contextmanager
    def __call__(self, purpose: LockPurpose, name: str) -> Iterator[None]:
        """See `Lock`."""
        place = hashlib.sha256(name.encode()).digest()[0] % _FILES
        with store_faults(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self.folder / f"{purpose}-{place:02}").open("ab")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
