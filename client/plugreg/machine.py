"""The machine as a platform, in the words that are used of native programs.

sys.platform, platform.machine()   >   linux-x86_64, macos-arm64, windows-x86_64, ...   or ""
"""

from __future__ import annotations

import functools
import platform
import sys
from typing import Final

from plugreg_schemas.platforms import normal_platform

SYSTEMS: Final = ("linux", "darwin", "win32", "freebsd")
"""The systems whose programs are told from others by their first bytes."""


@functools.cache
def this_platform() -> str:
    """Return the platform of this machine, "" where it is not known: then nothing is refused by it."""
    system = next((name for name in SYSTEMS if sys.platform.startswith(name)), "")
    machine = platform.machine()
    return normal_platform(f"{system}-{machine}") if system and machine else ""
