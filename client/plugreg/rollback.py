"""Rollback: the release that was active before becomes active again, from what is kept in the store.

    lock > the newest other release > proved > pin, state, revocations > facts > link > record

Nothing is downloaded. Whom the name belongs to and the newest statement that was seen stay, and the range as
well if the release is in it; otherwise the range that it was installed with comes back with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg import revocations
from plugreg.choosing import known, refuse_withdrawn
from plugreg.install import Installation, Installed, silent
from plugreg.inventory import declared_in, others
from plugreg.pinning import Options, check_same
from plugreg.plugins_root import State, writing
from plugreg.plugins_root.activation import activate
from plugreg.plugins_root.durability import PRIVATE_MODE, make_folder
from plugreg.plugins_root.examination import examine
from plugreg.plugins_root.healing import kept_beside, tidy_store
from plugreg.plugins_root.records import read_facts, write_record
from plugreg_schemas.dependencies import meets
from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.names import Version, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from plugreg.pinning import Wish
    from plugreg.plugins_root import Facts, PluginsRoot, StoreEntry, Workspace
    from plugreg.plugins_root.locking import Say
    from plugreg_schemas.index import Revocation
    from plugreg_schemas.manifest import Manifest

    Against = Callable[[Facts], tuple[Revocation | None, Sequence[str]]]


def nothing_against(_: Facts) -> tuple[None, tuple[()]]:
    """Know of no revocation."""
    return None, ()


def rollback(
    root: PluginsRoot,
    name: str,
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    against: Against = nothing_against,
    say: Say = silent,
) -> Installation:
    """Make the newest other release of a plugin that is kept here the active one.

    `against` returns what revokes a release, and what a person is told of that. PLUGIN_DATA stays as it is.

    Raises:
        NotAvailable: `not_installed`, `nothing_kept`. Gone: `plugin_removed`.
        NotAllowed: `signer_changed`, `registry_changed`, `plugin_quarantined`, `revoked`, `not_ours`.
        IntegrityError: `signer_not_trusted`, and what `examine` raises: what is kept is not what was signed.
        Temporary: `root_locked`, `file_in_use`.
    """
    with writing(root, say) as work:
        entry, wish = _kept(root, name), known(root, name)
        facts = read_facts(entry)
        examine(entry, facts, None, root.judge(facts.registry.id))
        _check_allowed(wish, facts, options)
        _check_revoked(work, facts, against)
        return _switch(work, entry, facts, wish)


def _kept(root: PluginsRoot, name: str) -> StoreEntry:
    active = root.active(name)
    if active is None:
        raise NotAvailable(
            "not_installed", f"`{name}` is not installed", hint=f"`plugreg install {name}` installs it"
        )
    kept = kept_beside(root, active)
    if not kept:
        raise NotAvailable(
            "nothing_kept",
            f"no other release of `{name}` than `{active.version}` is kept here",
            hint=f"name the version that you want: `plugreg install {name}@VERSION`",
        )
    return kept[0]


def _check_allowed(wish: Wish, facts: Facts, options: Options) -> None:
    """Refuse what this machine would not install either."""
    signer = facts.signer.words
    options.policy.check(wish.name, signer, known=True)
    check_same(wish, facts.registry.id, signer, options)
    if wish.state is not None:
        refuse_withdrawn(wish.name, wish.state.seen.state, wish.state.seen.reason)


def _check_revoked(work: Workspace, facts: Facts, against: Against) -> None:
    entry, notes = against(facts)
    for note in notes:
        work.note(note)
    if entry is None:
        return
    if not revocations.may_install(entry):
        raise revocations.refusal(entry, facts.name, facts.version)
    work.note(revocations.warning(entry, facts.name, facts.version))


def _switch(work: Workspace, entry: StoreEntry, facts: Facts, wish: Wish) -> Installation:
    """Change the link. The facts go first: a record that is not written any more is made from them."""
    root, manifest = work.root, declared_in(entry)
    if facts.yanked is not None:
        work.note(f"warning: `{facts.name} {facts.version}` is yanked: {facts.yanked or 'no reason given'}")
    for text in _broken(root, wish.name, manifest):
        work.note(text)
    facts = _renewed(facts, wish)
    write_record(work.staging, entry.facts, facts)
    make_folder(root.data(wish.name), PRIVATE_MODE)
    activate(root, entry, work.staging)
    seen = {"seen": wish.state.seen} if wish.state else {}
    write_record(work.staging, root.state(wish.name), State.of(facts).model_copy(update=seen))
    tidy_store(root, wish.name, work.note)
    row = Installed(
        facts=facts,
        root=entry.tree,
        data=root.data(wish.name),
        change="rolled_back",
        previous=wish.installed.version if wish.installed else "",
        launchers=manifest.launchers if manifest else (),
    )
    return Installation((row,), tuple(work.notes))


def _renewed(facts: Facts, wish: Wish) -> Facts:
    """Return the facts with what is known since: the range, if it fits, and the newest statement."""
    own = State.of(facts).pin
    same = wish.pin is not None and (wish.pin.registry, wish.pin.signer) == (own.registry, own.signer)
    return facts.model_copy(
        update={
            "range": wish.range.text if wish.takes(Version(facts.version)) else facts.range,
            "head": wish.pin.head if wish.pin and same else facts.head,
        }
    )


def _broken(root: PluginsRoot, name: str, manifest: Manifest | None) -> Iterator[str]:
    """Warn where an installed plugin cannot use the release that becomes active."""
    for other in others(root, {name}):
        for need in other.requires:
            if manifest is not None and need.name == name and not meets(manifest, need):
                yield (
                    f"warning: {quoted(other.name)} depends on {quoted(name)} {quoted(need.range)}, "
                    f"and this activates {quoted(manifest.version)}"
                )
