"""Install and update: from references to active plugins.

    lock > wishes > choices, every one proved > downloads > trees in staging > store > barrier > link > record

What the plugins depend on is chosen with them (`closure`) and comes before them.

Everything of a command is proved before anything is downloaded, and everything is downloaded before
anything becomes active. Each plugin becomes active by itself: when one fails, those before it are installed
and its own old version stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from plugreg.choosing import known
from plugreg.closure import close
from plugreg.delivery import prepare
from plugreg.frozen import hold
from plugreg.pinning import Options
from plugreg.plugins_root import State, writing
from plugreg.plugins_root.activation import activate, store
from plugreg.plugins_root.durability import PRIVATE_MODE, make_folder
from plugreg.plugins_root.healing import tidy_store
from plugreg.plugins_root.records import Seen, write_record
from plugreg_schemas import formats
from plugreg_schemas.errors import IntegrityError, NotAvailable, UsageError
from plugreg_schemas.tree import DirectoryTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from plugreg.choosing import Choice
    from plugreg.delivery import Ready
    from plugreg.pinning import Wish
    from plugreg.plugins_root import Facts, PluginsRoot, Workspace
    from plugreg.plugins_root.locking import Say
    from plugreg.sources import Progress, Registry
    from plugreg_schemas.names import Ref

Change = Literal["installed", "updated", "unchanged", "rolled_back"]


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin as a command left it.

    `previous` is the version before an update; `launchers` are the commands it needs.
    """

    facts: Facts
    root: Path
    data: Path
    change: Change
    previous: str = ""
    launchers: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return a member of `installed` in `install --json`."""
        return {
            "name": self.facts.name,
            "version": self.facts.version,
            "digest": self.facts.digest,
            "signer": self.facts.signer.model_dump(mode="json"),
            "registry": self.facts.registry.model_dump(mode="json"),
            "root": str(self.root),
            "data": str(self.data),
            "change": self.change,
            "previous": self.previous or None,
            "launchers": list(self.launchers),
        }


@dataclass(frozen=True, slots=True)
class Installation:
    """What a command did. `notes` were told while it ran."""

    installed: tuple[Installed, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return what `install --json` and `update --json` print."""
        return {"installed": [row.as_dict() for row in self.installed], "notes": list(self.notes)}


def silent(text: str) -> None:
    """Tell nobody."""


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def install(
    root: PluginsRoot,
    refs: Sequence[Ref],
    registries: Sequence[Registry],
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    say: Say = silent,
    progress: Progress = no_progress,
    now: Callable[[], datetime] = utc_now,
) -> Installation:
    """Install plugins, or bring installed ones to the best version in the range asked for.

    Without a range, an installed plugin keeps the range it has. What they depend on is installed before them
    where it is not there, or brought to a version that fits. `say` is told what a person should know while it
    runs: who is waited for, what is yanked.

    Raises:
        PlugregError: what `close` and `Closure.require` raise, for any of them, before anything is changed.
        IntegrityError: `digest_mismatch`, `manifest_mismatch`.
        InvalidInput: `plugin_invalid`, `bundle_invalid`; TooLarge `bundle_too_large`.
        NotAllowed: `not_ours`.
        Temporary: `root_locked`, `file_in_use`; NoSpace `disk_full`.
    """
    check_distinct([ref.name for ref in refs])
    with writing(root, say) as work:
        wishes = [known(root, ref.name, ref) for ref in refs]
        return carry_out(work, wishes, registries, options, progress, now)


def update(
    root: PluginsRoot,
    names: Sequence[str],
    registries: Sequence[Registry],
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    say: Say = silent,
    progress: Progress = no_progress,
    now: Callable[[], datetime] = utc_now,
) -> Installation:
    """Bring the named plugins, or all, to the newest version in the range each was installed with.

    An exact version stays. The registry is asked anew every time.

    Raises:
        NotAvailable: `not_installed`.
        PlugregError: as `install`.
    """
    check_distinct(names)
    _check_installed(root, names)
    with writing(root, say) as work:
        _check_installed(root, names)
        wishes = [known(root, name) for name in names or root.active_names()]
        return carry_out(work, wishes, registries, options, progress, now)


def carry_out(
    work: Workspace,
    wishes: Sequence[Wish],
    registries: Sequence[Registry],
    options: Options,
    progress: Progress,
    now: Callable[[], datetime],
) -> Installation:
    """Make the releases active that the wishes come to, with what they depend on. Raises as `install`."""
    held = [hold(wish, options.lock) for wish in wishes]
    closure = close(work.root, held, lambda: registries, options)
    closure.require()
    choices = closure.ordered()
    for text in closure.notes:
        work.note(text)
    ready = [prepare(work, choice, progress, now) for choice in choices]
    rows = [_finish(work, choice, made) for choice, made in zip(choices, ready, strict=True)]
    told = dict.fromkeys(note for registry in registries for note in registry.notes)
    return Installation(tuple(rows), (*told, *work.notes))


def _finish(work: Workspace, choice: Choice, ready: Ready | None) -> Installed:
    """Make one release the active one, and record it last."""
    root, name = work.root, choice.wish.name
    before = choice.wish.installed
    if ready is None:
        return _unchanged(work, choice)
    make_folder(root.data(name), PRIVATE_MODE)  # what is in its way stops us before anything moves
    if ready.staged is not None:
        store(ready.staged, ready.entry, root.staging)
    activate(root, ready.entry, work.staging)
    write_record(work.staging, root.state(name), _learned(State.of(ready.facts), choice))
    tidy_store(root, name, work.note)
    previous = before.version if before and before.version != ready.facts.version else ""
    return Installed(
        facts=ready.facts,
        root=ready.entry.tree,
        data=root.data(name),
        change="updated" if previous else "installed",
        previous=previous,
        launchers=ready.manifest.launchers,
    )


def _unchanged(work: Workspace, choice: Choice) -> Installed:
    """Keep what is installed, and remember what was learned: the range, the newest statement, a yank."""
    root, wish = work.root, choice.wish
    entry = root.active(wish.name)
    if entry is None or wish.installed is None:
        raise IntegrityError("facts_damaged", f"`{wish.name}` went away while it was looked at")
    facts = wish.installed
    state = _learned(State.of(facts), choice).model_copy(
        update={
            "range": wish.range.text,
            "pin": State.of(facts).pin.model_copy(update={"head": choice.history.head}),
            "yanked": choice.history.yanked.get(facts.version),
        }
    )
    if state != wish.state:
        write_record(work.staging, root.state(wish.name), state)
    manifest = formats.read(DirectoryTree(entry.tree)).manifest
    return Installed(
        facts, entry.tree, root.data(wish.name), "unchanged", launchers=manifest.launchers if manifest else ()
    )


def _learned(state: State, choice: Choice) -> State:
    """Return a record with what the history says of the plugin as a whole."""
    seen = Seen(state=choice.history.state, reason=choice.history.reason)
    return state.model_copy(update={"seen": seen, "allowed": choice.allowed})


def check_distinct(names: Sequence[str]) -> None:
    """Refuse a name that is given twice.

    Raises:
        UsageError: `name_repeated`.
    """
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise UsageError(
            "name_repeated", f"`{twice[0]}` is named more than once", hint="name each plugin once"
        )


def _check_installed(root: PluginsRoot, names: Sequence[str]) -> None:
    missing = [name for name in names if root.active(name) is None]
    if missing:
        raise NotAvailable(
            "not_installed",
            f"not installed: {', '.join(missing)}",
            hint=f"`plugreg install {missing[0]}` installs it",
        )
