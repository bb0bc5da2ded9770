"""From staging to the store to the link: a release becomes the active one, or stops being it.

    store      move the four parts into the store, the tree last
    activate   barrier, then the link: THE COMMIT POINT, then the folder that holds the link
    withdraw   the link goes: the commit point of an uninstall

Whatever interrupts this, the root's entry names a whole release on the disk: the old one or the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.plugins_root.durability import barrier, discard, make_folder, make_link, move, sync_folder
from plugreg.plugins_root.layout import check_ours
from plugreg_schemas.errors import NotAllowed

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg.plugins_root.layout import PluginsRoot, StoreEntry
    from plugreg.plugins_root.staging import Staged


def store(staged: Staged, entry: StoreEntry, staging: Path) -> None:
    """Move a staged release to its place in the store; what is left there of a damaged one makes way.

    Raises:
        NotAllowed: `not_ours`: the place in the store is a link.
    """
    make_folder(entry.folder)
    check_ours(entry.folder)
    for source, target in zip(staged.parts, entry.parts, strict=True):
        if target.is_dir() or source.is_dir():
            discard(staging, target)
        move(source, target)


def activate(root: PluginsRoot, entry: StoreEntry, staging: Path) -> None:
    """Make `entry` the active release of its plugin.

    A first link is created, never moved into place, so that an entry of another tool cannot be overwritten.

    Raises:
        NotAllowed: `not_ours`, `links_not_possible`.
    """
    link = root.link(entry.name)
    before = root.active(entry.name)
    barrier(root.store)
    if before is None:
        try:
            make_link(entry.target, link)
        except FileExistsError:
            root.active(entry.name)
            raise NotAllowed("not_ours", f"{link} appeared meanwhile and was not made by plugreg") from None
    elif before.key != entry.key:
        fresh = staging / f"{entry.name}.link"
        make_link(entry.target, fresh)
        move(fresh, link)
    sync_folder(root.path)


def withdraw(root: PluginsRoot, name: str) -> None:
    """Remove the link of an active plugin.

    Raises:
        NotAllowed: `not_ours`.
    """
    if root.active(name) is not None:
        root.link(name).unlink()
        sync_folder(root.path)
