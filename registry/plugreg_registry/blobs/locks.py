"""Locks between the threads and processes of one machine, by name; and which processes are still there.

Names are spread over a fixed number of files, so the folder does not grow with the names; two names that
share a file wait for each other, which costs time and nothing else. A dead process holds no lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg_registry.blobs.folders import store_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_registry.ports import LockPurpose

_FILES: Final = 4096
"""So many that of fifty publishes at once hardly two share one."""
_ASKED_FOR_SECONDS: Final = 3600
"""Much longer than anything that is held by a name."""


@dataclass(frozen=True, slots=True)
class FileLocks:
    """The locks in one folder."""

    folder: Path

    @contextmanager
    def __call__(self, purpose: LockPurpose, name: str) -> Iterator[None]:
        """See `Lock`."""
        place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2]) % _FILES
        with store_faults(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self.folder / f"{purpose}-{place:04}").open("ab")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class Presence:
    """A name that stands for a process as long as it lives; it tells of other names whether theirs does.

    It is a locked file: the lock ends with the process, whatever ended it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = secrets.token_hex(16)
        with store_faults(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self.path(self.name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._forget_old()

    def may_live(self, name: str) -> bool:
        """Whether the process of a name may be there; True for one of another machine."""
        try:
            with self.path(name).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # no such file here, or its process holds the lock
            return True
        return False

    def leave(self) -> None:
        """End it, as the end of the process does."""
        with suppress(FileNotFoundError):
            self.path(self.name).unlink()
        os.close(self._file)

    def _forget_old(self) -> None:
        """Remove the files of processes that died long ago; nobody asks for them any more."""
        for path in self._folder.glob("process-*"):
            with suppress(FileNotFoundError):
                old = time.time() - path.stat().st_mtime > _ASKED_FOR_SECONDS
                if old and not self.may_live(path.name.removeprefix("process-")):
                    path.unlink()

    def path(self, name: str) -> Path:
        """Return the file of a name."""
        return self._folder / f"process-{name}"
