"""One writer at a time, and readers that never wait.

The lock is `flock` on `.lock`: the system lets go of it when its holder dies, however it dies, so there is
nothing to clean up and nothing to mistake. The holder writes into the file who it is, for those who wait.

Where a file system has no `flock` (some network and cluster ones), a file that only one process can create
stands in for it. Its holder may die without removing it: a holder on this machine that no longer runs is
passed over, and one on another machine, of which nothing is known, is named.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shlex
import socket
import stat
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from plugreg.own_files import WrongKindError, read_small
from plugreg_schemas.errors import Temporary, UsageError
from plugreg_schemas.names import quoted

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Say = Callable[[str], None]

SETTING: Final = "PLUGREG_LOCK_TIMEOUT"
POLL_S: Final = 0.05
FIRST_WORD_S: Final = 1.0
"""Seconds of waiting before a person is told, and between one sentence and the next the first time."""
LATER_WORD_S: Final = 15.0
MARK: Final = ".held"
MAX_COMMAND: Final = 200
MAX_PID: Final = 2**31 - 1
"""What a `pid_t` holds."""
_NO_FLOCK: Final = frozenset({errno.ENOSYS, errno.EBADF, errno.EOPNOTSUPP, errno.ENOLCK, 524})
"""How file systems say that they cannot lock; 524 is the kernel's own ENOTSUPP, which some leak."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock.

    `started` tells a process from a later one with its number, where the system says it.
    """

    pid: int
    host: str
    started: str
    command: str

    @classmethod
    def this(cls) -> Holder:
        """Return this process."""
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:MAX_COMMAND]
        return cls(os.getpid(), socket.gethostname(), _started(os.getpid()), command)

    @classmethod
    def read(cls, content: bytes) -> Holder | None:
        """The holder that a lock file names, or None while it names nobody."""
        try:
            found = cls(**json.loads(content))
        except (ValueError, TypeError, RecursionError):
            return None
        words = (found.host, found.started, found.command)
        return found if type(found.pid) is int and all(isinstance(word, str) for word in words) else None

    def encoded(self) -> bytes:
        """What stands in a lock file."""
        return json.dumps(asdict(self)).encode()

    def is_gone(self) -> bool:
        """Whether this is a process of this machine that runs no more."""
        if self.host != socket.gethostname():
            return False
        if not 0 < self.pid <= MAX_PID:
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return _started(self.pid) != self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({quoted(self.command)})"


class _Lock(Protocol):
    def take(self) -> bool: ...

    def holder(self) -> Holder | None: ...

    def give_back(self) -> None: ...


class _Flock:
    """The lock of the system on an open file."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(path, flags, 0o644)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise WrongKindError(errno.EINVAL, "it is not a regular file", str(path))

    def take(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _inscribe(self._descriptor, Holder.this().encoded())
        return True

    def holder(self) -> Holder | None:
        return Holder.read(os.pread(self._descriptor, 4096, 0))

    def give_back(self) -> None:
        _inscribe(self._descriptor, b"")
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)


class _Mark:
    """A file that only one process can create."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self) -> bool:
        holder = self.holder()
        if holder is not None and holder.is_gone():
            self._pass_over(holder)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        try:
            _inscribe(descriptor, Holder.this().encoded())
        finally:
            os.close(descriptor)
        return True

    def holder(self) -> Holder | None:
        try:
            return Holder.read(read_small(self._path))
        except FileNotFoundError:
            return None

    def give_back(self) -> None:
        self._path.unlink(missing_ok=True)

    def _pass_over(self, gone: Holder) -> None:
        """Take the mark of a dead process away; put it back if a faster waiter has made it his by now."""
        aside = self._path.with_name(f"{self._path.name}-{secrets.token_hex(8)}")
        try:
            self._path.rename(aside)
        except FileNotFoundError:
            return
        if Holder.read(read_small(aside)) == gone:
            aside.unlink()
        else:
            aside.rename(self._path)


@contextmanager
def held(
    path: Path,
    patience: float,
    say: Say,
    pause: Callable[[float], None] = time.sleep,
    what: str = "the plugins root",
) -> Iterator[None]:
    """Hold the lock `path`, after waiting at most `patience` seconds for whoever has it.

    `what` is what the lock stands for, in messages.

    Raises:
        Temporary: `root_locked`, naming the holder.
    """
    lock = _locked(path, patience, say, pause, what)
    try:
        yield
    finally:
        lock.give_back()


def _locked(path: Path, patience: float, say: Say, pause: Callable[[float], None], what: str) -> _Lock:
    if fcntl is not None:
        flock = _Flock(path)
        try:
            return _wait(flock, patience, say, pause, what)
        except OSError as error:
            flock.close()
            if error.errno not in _NO_FLOCK:
                raise
            say(
                f"warning: the file system of {path.parent} has no locks; "
                f"the file `{path.name}{MARK}` stands in for them"
            )
        except BaseException:
            flock.close()
            raise
    return _wait(_Mark(path.with_name(path.name + MARK)), patience, say, pause, what)


def _wait(lock: _Lock, patience: float, say: Say, pause: Callable[[float], None], what: str) -> _Lock:
    began = time.monotonic()
    next_word = FIRST_WORD_S
    while not lock.take():
        waited = time.monotonic() - began
        holder = lock.holder() or "another process"
        if waited >= patience:
            raise Temporary(
                "root_locked",
                f"{what} is in use by {holder}, for longer than {patience:g} s",
                hint=f"wait until it ends, or wait longer: `{SETTING}=SECONDS`",
                details={"pid": holder.pid, "host": holder.host} if isinstance(holder, Holder) else {},
            )
        if waited >= next_word:
            say(f"waiting for {holder}, for {waited:.0f} s so far")
            next_word = waited + LATER_WORD_S
        pause(POLL_S)
    return lock


def patience_from(environ: Mapping[str, str], default: float) -> float:
    """Return how many seconds to wait for another writer.

    Raises:
        UsageError: `setting_invalid`.
    """
    text = environ.get(SETTING, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(
            "setting_invalid",
            f"`{SETTING}` is not a number of seconds",
            hint=f"write for example `{SETTING}=600`",
        )
    return seconds


def _inscribe(descriptor: int, content: bytes) -> None:
    """Write who holds the lock.

    The lock holds without it: a full disk must not keep anyone from uninstalling.
    """
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, content)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks (proc(5), field 22), or "" where nothing says it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
