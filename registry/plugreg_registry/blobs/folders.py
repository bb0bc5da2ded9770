"""What the folder adapters share: the full disk as our error, durable names, modes whatever the umask is."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import NoSpace, Temporary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRIVATE: Final = 0o700
"""Of a folder that nobody else may look into."""
PUBLIC: Final = 0o755
"""Of a folder that a web server under another account may pass through."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_BROKEN = {errno.EIO, errno.EROFS, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM}


@contextmanager
def store_faults(folder: Path) -> Iterator[None]:
    """Turn what a file system says into what a port promises.

    Raises:
        NoSpace: `disk_full`.
        Temporary: `store_unavailable`.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoSpace(
                "disk_full",
                f"no space is left in `{folder}`",
                hint="the registry's operator must free some space",
            ) from error
        if error.errno in _BROKEN:
            raise Temporary(
                "store_unavailable", f"`{folder}` cannot be used now: {error.strerror}"
            ) from error
        raise


def make_public(folder: Path, top: Path) -> None:
    """Make the folders from `top` down to `folder`, where they are missing, and readable by everyone."""
    if folder != top:
        make_public(folder.parent, top)
    folder.mkdir(parents=folder == top, exist_ok=True)
    set_mode(folder, PUBLIC)


def set_mode(path: Path, mode: int) -> None:
    """Give a file or folder its permissions, whatever the umask has left of them."""
    found = stat.S_IMODE(path.stat().st_mode)
    if found & 0o777 != mode:
        path.chmod(found & ~0o777 | mode)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
