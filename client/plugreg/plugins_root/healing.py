"""What a killed command left is put right by the next one that writes.

Only the holder of the lock heals, so whatever lies in staging has no owner any more. The link is the truth:
the record of a plugin is made again from the facts beside the release that its link names.

Beside the active release of a plugin the newest other one is kept, because a server that was started before
an update still runs from it. Older ones go; what cannot be removed now is tried again by the next command.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from plugreg.plugins_root.durability import PRIVATE_MODE, discard, erase, make_folder
from plugreg.plugins_root.layout import is_folder, is_name, names_in
from plugreg.plugins_root.records import State, read_facts, read_state, write_record
from plugreg_schemas.errors import IntegrityError

if TYPE_CHECKING:
    from plugreg.plugins_root.layout import PluginsRoot, StoreEntry
    from plugreg.plugins_root.locking import Say

KEPT_BESIDE: Final = 1
"""Releases kept beside the active one."""


def heal(root: PluginsRoot, say: Say) -> None:
    """Put the whole root right."""
    for leftover in names_in(root.staging):
        if not erase(root.staging / leftover):
            _deferred(root, leftover, say)
    for name in names_in(root.store):
        if is_name(name) and is_folder(root.store / name):
            tidy_store(root, name, say)
    active = set(root.active_names())
    for name in sorted(active):
        _restore_record(root, name)
        if not os.path.lexists(root.data(name)):
            make_folder(root.data(name), PRIVATE_MODE)
    for file in names_in(root.states):
        name = file.removesuffix(".json")
        if is_name(name) and name not in active:
            settle_record(root, name)


def tidy_store(root: PluginsRoot, name: str, say: Say) -> None:
    """Remove what no plugin needs from the store of one name: unfinished ones, old ones."""
    folder = root.store / name
    if not is_folder(folder):
        return
    active = root.linked(name)
    entries = [active, *kept_beside(root, active)[:KEPT_BESIDE]] if active else []
    keep = {part.name for entry in entries for part in entry.parts}
    for found in names_in(folder):
        if found not in keep and not discard(root.staging, folder / found):
            _deferred(root, f"{name}/{found}", say)
    if active is None and not names_in(folder):
        folder.rmdir()


def kept_beside(root: PluginsRoot, active: StoreEntry) -> list[StoreEntry]:
    """Return the whole releases of a plugin beside the active one, the newest installed first."""
    others = [entry for entry in root.entries(active.name) if entry.key != active.key]
    whole = [entry for entry in others if entry.is_complete()]
    return sorted(whole, key=lambda entry: entry.facts.stat().st_mtime_ns, reverse=True)


def _restore_record(root: PluginsRoot, name: str) -> None:
    """Make the record of an active plugin agree with its link.

    A damaged release says nothing: its record stays.
    """
    entry = root.linked(name)
    if entry is None:
        return
    try:
        facts = read_facts(entry)
    except IntegrityError:
        return
    try:
        state = read_state(root, name)
    except IntegrityError:
        state = None
    if state is None or state.digest != facts.digest:
        write_record(root.staging, root.state(name), State.of(facts))


def settle_record(root: PluginsRoot, name: str) -> None:
    """A plugin that is not installed has a pin as long as it has data, and nothing else."""
    if not os.path.lexists(root.data(name)):
        discard(root.staging, root.state(name))
        return
    try:
        state = read_state(root, name)
    except IntegrityError:
        return  # whom the data belongs to is unknown: it stays, and the next install of this name says so
    if state is not None and state.digest:
        write_record(root.staging, root.state(name), State(name=name, pin=state.pin))


def _deferred(root: PluginsRoot, what: str, say: Say) -> None:
    say(f"note: `{what}` in {root.store} cannot be removed yet; the next command tries again")
