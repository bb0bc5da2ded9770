"""How large a bundle may be.

A registry states its limits in the discovery document; a client obeys the smaller of those and its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

MIB: Final = 1 << 20

RATIO_FREE: Final = MIB
"""Unpacked bytes that the ratio does not count: a small and very regular plugin is no bomb."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one bundle. `members` bounds the files with the links, and by itself the folders."""

    compressed: int = 64 * MIB
    """Bytes of the `.tar.zst`."""
    unpacked: int = 512 * MIB
    """Bytes of the tar inside it."""
    members: int = 20_000
    path: int = 240
    """Bytes of a path in UTF-8: Windows without long paths holds 260 characters, plugins root included."""
    component: int = 200
    """Bytes of one part of a path: file systems stop at 255, some encrypting ones at 143 characters."""
    ratio: int = 200
    """Unpacked bytes for each compressed byte, after the first MiB."""

    def scaled(self, factor: int) -> Self:
        """Return limits `factor` times as large; those on names stay, because file systems set them."""
        return type(self)(
            compressed=self.compressed * factor,
            unpacked=self.unpacked * factor,
            members=self.members * factor,
            path=self.path,
            component=self.component,
            ratio=self.ratio * factor,
        )

    def smaller(self, other: Limits) -> Self:
        """Return the smaller of each limit."""
        return type(self)(*(min(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


DEFAULT_LIMITS: Final = Limits()
