"""From a bundle to a tree in staging, in one pass over the bundle.

Files are written while the bundle is being proved. That is safe because nothing but regular files and
folders of our own is in the tree until every member is proved: links come last, so no member can be written
through one. A bundle that turns out to be refused leaves nothing: its staging folder goes.

Modes are exactly 0644 and 0755 whatever the umask is. Nothing is synced here: one barrier follows for the
whole plugin.
"""

# ruff: noqa: PTH101, PTH102 - member paths are bytes whatever the locale is, and pathlib holds none

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from plugreg.plugins_root.durability import FOLDER_MODE, make_link
from plugreg.plugins_root.layout import too_long
from plugreg_schemas.bundle import open_bundle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from plugreg.plugins_root.layout import PluginsRoot
    from plugreg_schemas.bundle import Limits, Member

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Staged:
    """A release on its way into the store: the same four parts as there."""

    folder: Path

    @property
    def bundle(self) -> Path:
        """Where the bundle is downloaded to."""
        return self.folder / "bundle"

    @property
    def attestation(self) -> Path:
        """The signed statement."""
        return self.folder / "attestation"

    @property
    def facts(self) -> Path:
        """What was proved."""
        return self.folder / "facts"

    @property
    def tree(self) -> Path:
        """The plugin's files."""
        return self.folder / "tree"

    @property
    def parts(self) -> tuple[Path, Path, Path, Path]:
        """The four of them in the order of `StoreEntry.parts`."""
        return (self.bundle, self.attestation, self.facts, self.tree)


def check_fits(root: PluginsRoot, bundle: BinaryIO, limits: Limits) -> None:
    """Refuse a bundle with a path that is too long below this root, before anything of it is written.

    Reads the bundle only where the root leaves less room than the limits on paths grant.

    Raises:
        InvalidInput: `path_too_long_here`, or what is wrong with the bundle.
    """
    room, part = root.room()
    if limits.path <= room and limits.component <= part:
        return
    for member, _ in open_bundle(bundle, limits):
        names = [len(os.fsencode(name)) for name in member.path.split("/")]
        if len(os.fsencode(member.path)) > room or max(names) > part:
            raise too_long(member.path, min(room, part if max(names) > part else room))
    bundle.seek(0)


def unpack(bundle: BinaryIO, tree: Path, limits: Limits) -> None:
    """Write the files of a bundle to the new folder `tree`, proving its form on the way.

    Raises:
        InvalidInput: `bundle_invalid` or the one fault that it has.
        TooLarge: over `limits`.
    """
    base = os.fsencode(tree) + b"/"
    made: set[str] = set()
    links = []
    _make(base)
    for member, chunks in open_bundle(bundle, limits):
        if member.target:
            links.append(member)
        else:
            _make_above(base, member.path, made)
            _write(base + member.path.encode(), member, chunks)
    for link in links:
        _make_above(base, link.path, made)
        make_link(link.target.encode(), base + link.path.encode())


def _write(path: bytes, member: Member, chunks: Iterable[bytes]) -> None:
    descriptor = os.open(path, _CREATE, member.mode)
    try:
        if os.name == "posix":
            os.fchmod(descriptor, member.mode)
        for chunk in chunks:
            written = os.write(descriptor, chunk)
            while written < len(chunk):
                written += os.write(descriptor, chunk[written:])
    finally:
        os.close(descriptor)


def _make_above(base: bytes, path: str, made: set[str]) -> None:
    """Create the folders above `path` that are not made yet."""
    parent = path.rpartition("/")[0]
    if not parent or parent in made:
        return
    _make_above(base, parent, made)
    _make(base + parent.encode())
    made.add(parent)


def _make(folder: bytes) -> None:
    os.mkdir(folder, FOLDER_MODE)
    os.chmod(folder, FOLDER_MODE)
