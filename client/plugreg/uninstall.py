"""Uninstall: the link goes first, then the store, then the record; PLUGIN_DATA only when purged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg.inventory import others
from plugreg.plugins_root import writing
from plugreg.plugins_root.activation import withdraw
from plugreg.plugins_root.durability import discard, sync_folder
from plugreg.plugins_root.healing import settle_record, tidy_store
from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from plugreg.plugins_root import PluginsRoot, Workspace
    from plugreg.plugins_root.locking import Say


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """A plugin that is gone. `data` is what is kept of it, `purged` what was deleted with it."""

    name: str
    version: str = ""
    data: Path | None = None
    purged: Path | None = None

    def as_dict(self) -> dict[str, object]:
        """Return a member of `uninstalled` in `uninstall --json`."""
        return {
            "name": self.name,
            "version": self.version or None,
            "data": str(self.data) if self.data else None,
            "purged": str(self.purged) if self.purged else None,
        }


@dataclass(frozen=True, slots=True)
class Uninstallation:
    """What a command did. `notes` were told while it ran."""

    uninstalled: tuple[Uninstalled, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return what `uninstall --json` prints."""
        return {"uninstalled": [row.as_dict() for row in self.uninstalled], "notes": list(self.notes)}


def silent(text: str) -> None:
    """Tell nobody."""


def uninstall(
    root: PluginsRoot, names: Sequence[str], *, purge_data: bool = False, say: Say = silent
) -> Uninstallation:
    """Remove plugins. With `purge_data` their PLUGIN_DATA goes too, also that of a plugin uninstalled before.

    Nothing is removed unless all of them can be.

    Raises:
        NotAvailable: `not_installed`.
        NotAllowed: `not_ours`.
        Temporary: `root_locked`.
    """
    names = list(dict.fromkeys(names))
    _check(root, names, purge_data=purge_data)
    with writing(root, say) as work:
        _check(root, names, purge_data=purge_data)
        for text in _left_behind(root, names):
            work.note(text)
        rows = [_remove(work, name, purge_data=purge_data) for name in names]
        return Uninstallation(tuple(rows), tuple(work.notes))


def _check(root: PluginsRoot, names: Sequence[str], *, purge_data: bool) -> None:
    """Refuse before anything is changed."""
    missing = [
        name
        for name in names
        if root.active(name) is None and not (purge_data and os.path.lexists(root.data(name)))
    ]
    if missing:
        kept = [str(root.data(name)) for name in missing if os.path.lexists(root.data(name))]
        hint = (
            f"its data is kept in {kept[0]}; `--purge-data` deletes it"
            if kept
            else "`plugreg list` shows what is installed"
        )
        raise NotAvailable("not_installed", f"not installed: {', '.join(missing)}", hint=hint)


def _left_behind(root: PluginsRoot, names: Sequence[str]) -> Iterator[str]:
    """Say which plugins that stay depend on what goes; nothing is refused for them."""
    needs: dict[str, list[str]] = {name: [] for name in names if root.active(name) is not None}
    for other in others(root, names):
        for wanted in {need.name for need in other.requires} & needs.keys():
            needs[wanted].append(quoted(other.name))
    for name, by in needs.items():
        if by:
            depend = "depends" if len(by) == 1 else "depend"
            yield f"warning: {', '.join(by)} {depend} on {quoted(name)}, which is uninstalled"


def _remove(work: Workspace, name: str, *, purge_data: bool) -> Uninstalled:
    root, data = work.root, work.root.data(name)
    entry = root.active(name)
    withdraw(root, name)
    tidy_store(root, name, work.note)
    purged = purge_data and os.path.lexists(data)
    if purged:
        if not discard(root.staging, data):
            work.note(f"note: what was in {data} cannot be removed yet; the next command tries again")
        sync_folder(root.all_data)
    settle_record(root, name)
    return Uninstalled(
        name=name,
        version=entry.version if entry else "",
        data=data if os.path.lexists(data) else None,
        purged=data if purged else None,
    )
