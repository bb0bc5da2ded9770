"""The frame around every change of a plugins root: lock, heal, work in staging, clean up."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plugreg.plugins_root.durability import PRIVATE_MODE, disk_faults, erase, make_folder
from plugreg.plugins_root.healing import heal
from plugreg.plugins_root.layout import check_ours
from plugreg.plugins_root.locking import held
from plugreg.plugins_root.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg.plugins_root.layout import PluginsRoot
    from plugreg.plugins_root.locking import Say


@dataclass(slots=True)
class Workspace:
    """What the one writer works with: its folder in staging, and the notes for whoever gave the command."""

    root: PluginsRoot
    staging: Path
    say: Say
    notes: list[str] = field(default_factory=list)
    _count: int = 0

    def note(self, text: str) -> None:
        """Tell something now, and keep it for the command's result."""
        self.notes.append(text)
        self.say(text)

    def place(self) -> Staged:
        """Return a new empty place for one release."""
        self._count += 1
        folder = self.staging / str(self._count)
        make_folder(folder)
        return Staged(folder)


@contextmanager
def writing(root: PluginsRoot, say: Say) -> Iterator[Workspace]:
    """Be the one writer of `root`, which is made if it is not there and healed first.

    Raises:
        Temporary: `root_locked`, `file_in_use`, `disk_error`.
        NoSpace: `disk_full`.
        NotAllowed: `root_not_writable`, `root_damaged`, `not_ours`.
    """
    with disk_faults(root.path):
        make_folder(root.path)
        with held(root.lock, root.patience, say):
            check_ours(root.store, root.staging, root.states)
            for folder in (root.store, root.staging, root.states):
                make_folder(folder)
            make_folder(root.all_data, PRIVATE_MODE)
            heal(root, say)
            workspace = Workspace(root, root.staging / secrets.token_hex(8), say)
            make_folder(workspace.staging)
            try:
                yield workspace
            finally:
                erase(workspace.staging)
