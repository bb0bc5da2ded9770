"""Moves, barriers, and what a file system's refusals mean.

barrier       everything written so far is on the disk: one call for a whole plugin, not one for each file
sync_folder   the entries of one folder are on the disk
make_link     a symbolic link where nothing stands
move          a rename that waits for scanners and indexers to let go
write_file    a small file that is seen old or new and whole
discard       a tree goes away: out of sight at once, then for good
disk_faults   OSError to the refusal that tells a person what to do
"""

# ruff: noqa: PTH101, PTH102, PTH105, PTH211 - pathlib would hide which system call it is

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import InvalidInput, NoSpace, NotAllowed, Temporary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FOLDER_MODE: Final = 0o755
FILE_MODE: Final = 0o644
PRIVATE_MODE: Final = 0o700

PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0)
"""Waits between the tries of a move, 6 s in all:

scanners hold fresh files for seconds, a person waits no longer.
"""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_WRONG_KIND: Final = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL})
"""How a system says that something else stands where a file or folder was expected."""
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_PRIVILEGE: Final = 1314
"""ERROR_PRIVILEGE_NOT_HELD (Microsoft, System Error Codes)."""
_HELD: Final = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.ETXTBSY})


def barrier(folder: Path) -> None:
    """Return when everything written to the file system of `folder` is on the disk.

    One `syncfs` costs as much as one fsync or two; an fsync for each file costs that for each file. Where
    there is no `syncfs`, every file system is synced.
    """
    syncfs = _syncfs()
    if syncfs is None:
        getattr(os, "sync", lambda: None)()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        failed = syncfs(descriptor)
        if failed:
            raise OSError(failed, os.strerror(failed), str(folder))
    finally:
        os.close(descriptor)


def _syncfs() -> Callable[[int], int] | None:
    """Return the C library's `syncfs`, made to return the errno (0: done)."""
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError, TypeError):
        return None

    def call(descriptor: int) -> int:
        return 0 if function(descriptor) == 0 else ctypes.get_errno()

    return call


def sync_folder(folder: Path) -> None:
    """Return when the entries of `folder` are on the disk. Windows has no such call and keeps them itself."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path, mode: int = FOLDER_MODE) -> None:
    """Create the folder `path`, and those above it, unless it is there.

    Its mode does not depend on the umask.
    """
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    os.chmod(path, mode)


def move(source: Path, target: Path, pause: Callable[[float], None] = time.sleep) -> None:
    """Rename `source` to `target`, replacing a file or link; wait while another program holds one of them.

    Raises:
        Temporary: `file_in_use`.
    """
    for wait in (*PAUSES_S, None):
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno not in _HELD:
                raise
            if wait is None:
                raise Temporary(
                    "file_in_use",
                    f"{target} cannot be replaced: a virus scanner, an indexer or a running program holds it",
                    hint="close what uses it, or exclude the plugins root from scanning, and try again",
                ) from None
            pause(wait)
        else:
            return


def make_link(target: str | bytes, path: Path | bytes) -> None:
    """Make a symbolic link; nothing that stands at `path` is overwritten.

    Raises:
        FileExistsError: something stands there.
        NotAllowed: `links_not_possible`.
    """
    try:
        os.symlink(os.fsdecode(target), os.fsdecode(path))
    except OSError as error:
        if error.errno not in _NO_LINKS and getattr(error, "winerror", 0) != _NO_PRIVILEGE:
            raise
        raise NotAllowed(
            "links_not_possible",
            f"{os.fsdecode(path)} cannot be made: symbolic links are not possible there",
            hint="choose a plugins root on another file system; on Windows, switch on the developer mode",
        ) from error


def write_file(staging: Path, target: Path, content: bytes) -> None:
    """Put a small file in place so that it is whole whenever it is seen, after a power cut too."""
    temporary = staging / f"{secrets.token_hex(8)}.new"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), FILE_MODE
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, FILE_MODE)
    if target.is_dir() and not target.is_symlink():
        discard(staging, target)
    move(temporary, target)
    sync_folder(target.parent)


def discard(staging: Path, path: Path) -> bool:
    """Remove what stands at `path`, and return whether all of it is gone.

    It leaves its place in one step, so nobody meets half of a tree; what cannot be removed now is left in
    staging, for the next command. Only where it cannot even be moved it stays in its place.
    """
    if not os.path.lexists(path):
        return True
    grave = staging / f"{secrets.token_hex(8)}.old"
    try:
        os.replace(path, grave)
    except OSError:
        grave = path  # a full disk may refuse even a move; removing in place is what makes room again
    return erase(grave)


def erase(path: Path) -> bool:
    """Remove a file, link or tree; return whether all of it is gone.

    Folders without permissions are no obstacle.
    """
    try:
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        elif sys.version_info >= (3, 12):
            shutil.rmtree(path, onexc=_open_up)
        else:
            shutil.rmtree(path, onerror=_open_up)
    except OSError:
        return False
    return not os.path.lexists(path)


def _open_up(function: Callable[..., object], path: str, _: object) -> None:
    """Give ourselves the right to remove what a plugin protected in its own tree, and try once more."""
    for place in (os.path.dirname(path), path):  # noqa: PTH120 - rmtree speaks of text
        mode = os.lstat(place).st_mode
        if not stat.S_ISLNK(mode):
            os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)
    if function in {os.unlink, os.remove, os.rmdir}:
        function(path)
    else:
        shutil.rmtree(path)


@contextmanager
def disk_faults(where: Path, otherwise: str = "another plugins root: `--root`") -> Iterator[None]:
    """Turn what a file system refuses into what a person can act on; `otherwise` says what they may choose.

    Raises:
        NoSpace: `disk_full`.
        NotAllowed: `root_not_writable`, `root_damaged`.
        InvalidInput: `path_too_long_here`.
        Temporary: `disk_error`: everything else.
    """
    try:
        yield
    except OSError as error:
        place = error.filename or where
        place = os.fsdecode(place) if isinstance(place, bytes) else place
        if error.errno in _FULL:
            raise NoSpace(
                "disk_full",
                f"no space is left for {where}",
                hint=f"make room there, or choose {otherwise}",
            ) from error
        if error.errno in _FORBIDDEN:
            raise NotAllowed(
                "root_not_writable",
                f"{place} is not open to this user ({_user()}): {error.strerror}",
                hint=f"give this user the rights to that place, or choose {otherwise}",
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidInput(
                "path_too_long_here",
                f"the path {place} is too long here",
                hint=f"choose one with a shorter path: {otherwise}",
            ) from error
        if error.errno in _WRONG_KIND:
            raise NotAllowed(
                "root_damaged",
                f"{place} is not what belongs in that place: {error.strerror}",
                hint=f"move it away, or choose {otherwise}",
            ) from error
        raise Temporary(
            "disk_error", f"{place}: {error.strerror or error}", hint="look at the disk, then try again"
        ) from error


def _user() -> str:
    return f"uid {os.geteuid()}" if hasattr(os, "geteuid") else os.environ.get("USERNAME", "?")
