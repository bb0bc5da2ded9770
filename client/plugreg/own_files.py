"""Reading the files that plugreg wrote itself, or was pointed at, whatever stands in their place by now.

    open_regular   a regular file, links followed; never waits for a pipe, never reads a device
    read_small     the whole of one, up to a limit

A settings file, a record or a key is small. What is not a regular file, or has no end, is refused before it
can hold up a command or fill its memory.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_SMALL: Final = 16 << 20
"""Bytes of any file that is read into memory: a signed statement has at most 1 MiB."""


class WrongKindError(OSError):
    """What stands at a path is there, and cannot be the file that belongs there."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        WrongKindError: it is a folder, a pipe, a device or an endless link.
        OSError: as the system says.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise WrongKindError(errno.ELOOP, "it is a link that never ends", str(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise WrongKindError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_small(path: Path, limit: int = MAX_SMALL) -> bytes:
    """Return the content of a small regular file.

    Raises:
        WrongKindError: it is a folder, a pipe or a device, or larger than `limit`.
        OSError: as the system says.
    """
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise WrongKindError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return content
