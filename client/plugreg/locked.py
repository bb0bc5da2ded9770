"""`plugreg lock` and `plugreg sync`: what is used is written down, and made so again elsewhere.

    lock    installed, or names > chosen and proved, nothing installed > LockFile
    sync    LockFile > wishes > as `install` does, frozen

A lock may be made on one machine and obeyed on any: the rules are those of an installation, and `frozen`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from plugreg.choosing import known
from plugreg.closure import close
from plugreg.index.folder import IndexFolder
from plugreg.install import Installation, carry_out, check_distinct, no_progress, silent, utc_now
from plugreg.inventory import locate, recorded
from plugreg.lock_file import FORMAT, URL, LockedPlugin, LockedRegistry, LockFile
from plugreg.pinning import Options
from plugreg.plugins_root import State, writing
from plugreg_schemas.errors import IntegrityError, NotAvailable
from plugreg_schemas.names import VersionRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from plugreg.choosing import Choice
    from plugreg.closure import Closure
    from plugreg.pinning import Wish
    from plugreg.plugins_root import PluginsRoot
    from plugreg.plugins_root.locking import Say
    from plugreg.sources import Progress, Registry
    from plugreg_schemas.api import RegistryRef
    from plugreg_schemas.names import Ref


@dataclass(frozen=True, slots=True)
class _Row:
    """A plugin to be locked, and its registry as it was reached."""

    plugin: LockedPlugin
    registry: RegistryRef


def lock_installed(root: PluginsRoot, home: Path) -> LockFile:
    """Return a lock of everything that is installed. Nobody is asked.

    Raises:
        NotAvailable: `not_installed`: nothing is installed.
        IntegrityError: `plugin_damaged`.
    """
    rows = {name: _installed(root, name) for name in root.active_names()}
    if not rows:
        raise NotAvailable(
            "not_installed",
            f"nothing is installed in {root.path}, so there is nothing to lock",
            hint="`plugreg lock NAME` locks a plugin without installing it",
        )
    return _lock(rows, home)


def lock_named(
    root: PluginsRoot,
    refs: Sequence[Ref],
    registries: Sequence[Registry],
    home: Path,
    *,
    before: LockFile,
    options: Options = Options(),  # noqa: B008 - frozen
    say: Say = silent,
) -> LockFile:
    """Return the lock `before` with what `plugreg install` would make of these plugins; nothing is installed.

    Without a range, a locked plugin keeps the range it was locked with. What they depend on is locked too.

    Raises:
        UsageError: `name_repeated`.
        PlugregError: what `close` and `Closure.require` raise.
    """
    check_distinct([ref.name for ref in refs])
    closure = close(root, [_wish(root, ref, before) for ref in refs], lambda: registries, options)
    closure.require()
    for note in closure.notes:
        say(note)
    return _lock(dict(_rows(root, closure)), home, before)


def sync(
    root: PluginsRoot,
    lock: LockFile,
    registries: Sequence[Registry],
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    say: Say = silent,
    progress: Progress = no_progress,
    now: Callable[[], datetime] = utc_now,
) -> Installation:
    """Make the locked releases the active ones. Other plugins stay as they are.

    What was uninstalled here, and of which the data is kept, stays uninstalled: an uninstallation counts
    until somebody installs the plugin again.

    Raises:
        PlugregError: as `install`, and what `frozen` raises.
    """
    with writing(root, say) as work:
        left = [name for name in lock.plugins if _was_uninstalled(root, name)]
        for name in left:
            work.note(
                f"note: `{name}` was uninstalled here and stays so; "
                f"`plugreg install {name} --frozen` brings it back"
            )
        wishes = [known(root, name) for name in lock.plugins if name not in left]
        return carry_out(work, wishes, registries, replace(options, lock=lock), progress, now)


def _was_uninstalled(root: PluginsRoot, name: str) -> bool:
    state = recorded(root, name)
    return root.active(name) is None and state is not None and not state.digest


def _wish(root: PluginsRoot, ref: Ref, before: LockFile) -> Wish:
    wish, locked = known(root, ref.name, ref), before.plugins.get(ref.name)
    return replace(wish, asked=VersionRange(locked.range)) if locked and wish.asked is None else wish


def _rows(root: PluginsRoot, closure: Closure) -> Iterator[tuple[str, _Row]]:
    for plugin in closure.plugins:
        choice = closure.choices.get(plugin.name)
        yield plugin.name, _chosen(choice) if choice else _installed(root, plugin.name)


def _chosen(choice: Choice) -> _Row:
    made = choice.release or choice.wish.installed
    if made is None:
        raise IntegrityError("facts_damaged", f"`{choice.wish.name}` went away while it was looked at")
    plugin = LockedPlugin(
        version=made.version,
        range=choice.wish.range.text,
        digest=made.digest,
        registry=choice.registry.ref.id,
        signer=made.signer.words,
        head=choice.history.head,
    )
    return _Row(plugin, choice.registry.ref)


def _installed(root: PluginsRoot, name: str) -> _Row:
    facts, state = locate(root, name).facts, recorded(root, name)
    if facts is None:
        raise IntegrityError("facts_damaged", f"the facts of `{name}` went away while they were looked at")
    if state is None or state.digest != facts.digest:
        state = State.of(facts)
    plugin = LockedPlugin(
        version=facts.version,
        range=state.range,
        digest=facts.digest,
        registry=facts.registry.id,
        signer=facts.signer.words,
        head=state.pin.head,
    )
    return _Row(plugin, facts.registry)


def _lock(rows: Mapping[str, _Row], home: Path, before: LockFile | None = None) -> LockFile:
    """Return these rows in place of those before, with the registries that are in use."""
    before = before or LockFile(version=FORMAT)
    plugins = {**before.plugins, **{name: row.plugin for name, row in rows.items()}}
    registries = {**before.registries, **dict(_registries((row.registry for row in rows.values()), home))}
    used = {plugin.registry for plugin in plugins.values()}
    return LockFile(
        version=FORMAT,
        registries={registry: row for registry, row in registries.items() if registry in used},
        plugins=plugins,
    )


def _registries(refs: Iterable[RegistryRef], home: Path) -> Iterator[tuple[str, LockedRegistry]]:
    for ref in refs:
        pin = IndexFolder.of(home, ref.id).pin()
        url = ref.url if re.fullmatch(URL, ref.url) else ""
        yield ref.id, LockedRegistry(root=pin.digest if pin else None, url=url)
