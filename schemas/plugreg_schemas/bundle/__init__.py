"""The canonical archive of a plugin, `<name>-<version>.tar.zst`: pack, open, digest.

    limits    how large a bundle may be
    frame     the one zstd frame, block by block
    header    the one tar header of a member: encode, and decode by encoding again
    paths     which paths a bundle may hold
    listing   what must hold between its paths, and of its links
    opening   read a bundle and prove its form in constant memory
    packing   make a bundle of a tree

A bundle is the canonical encoding of a list of files: what two readers could read differently is no bundle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugreg_schemas.bundle.frame import unpacked
from plugreg_schemas.bundle.header import Member
from plugreg_schemas.bundle.limits import DEFAULT_LIMITS, Limits
from plugreg_schemas.bundle.listing import Names
from plugreg_schemas.bundle.opening import node_of, open_bundle, outline
from plugreg_schemas.bundle.packing import IGNORE_FILE, Packed, pack
from plugreg_schemas.bundle.paths import faults_of

if TYPE_CHECKING:
    from plugreg_schemas.names import PluginName, Version

MEDIA_TYPE: Final = "application/vnd.plugreg.bundle.v1+tar.zst"

__all__ = [
    "DEFAULT_LIMITS",
    "IGNORE_FILE",
    "MEDIA_TYPE",
    "Limits",
    "Member",
    "Names",
    "Packed",
    "faults_of",
    "file_name",
    "node_of",
    "open_bundle",
    "outline",
    "pack",
    "unpacked",
]


def file_name(name: PluginName | str, version: Version | str) -> str:
    """Return what the file of a bundle is called.

    >>> file_name("lint3r", "1.4.0")
    'lint3r-1.4.0.tar.zst'
    """
    return f"{name}-{version}.tar.zst"
