"""Which release of a plugin a command means: from a wish to a proved choice. Nothing on disk is changed.

wish > registry > document > history > version > release > pin > choice
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from plugreg import revocations
from plugreg.frozen import check_locked, hold
from plugreg.picking import pick, ranges_in_words
from plugreg.pinning import Wish, check_pin
from plugreg.plugins_root.records import read_facts, read_state
from plugreg.proving import check_seen, prove, remember
from plugreg.sources import find
from plugreg_schemas.errors import Gone, IntegrityError, NotAllowed
from plugreg_schemas.history import MODERATED
from plugreg_schemas.names import Version, VersionRange
from plugreg_schemas.trust.proof import prove_release, read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugreg.pinning import Options
    from plugreg.plugins_root import Facts, PluginsRoot, StoreEntry
    from plugreg.sources import Registry
    from plugreg_schemas.api import DocumentVersion, PluginDocument
    from plugreg_schemas.history import History
    from plugreg_schemas.index import Revocation
    from plugreg_schemas.names import Ref
    from plugreg_schemas.statement import State
    from plugreg_schemas.trust.proof import ProvedRelease


@dataclass(frozen=True, slots=True)
class Choice:
    """What a wish comes to. `release` is None where the installed one stays; everything else is proved."""

    wish: Wish
    registry: Registry
    history: History
    release: ProvedRelease | None
    entry: DocumentVersion
    notes: tuple[str, ...] = ()
    allowed: str = ""
    """Why it is installed although the plugin is in quarantine."""


def known(root: PluginsRoot, name: str, ref: Ref | None = None) -> Wish:
    """Return a wish with what the root knows of its plugin. A damaged release counts as not installed."""
    entry = root.active(name)
    facts = _facts_of(entry)
    return Wish(
        name=name,
        asked=ref.range if ref and ref.range.text else None,
        installed=facts,
        state=read_state(root, name),
        whole=entry is not None and facts is not None and entry.is_complete(),
    )


def _facts_of(entry: StoreEntry | None) -> Facts | None:
    try:
        return read_facts(entry) if entry else None
    except IntegrityError:
        return None  # the tree is not used then, and a new one takes its place


def choose(wish: Wish, registries: Sequence[Registry], options: Options) -> Choice:
    """Choose a release and prove it.

    Raises:
        NotAvailable: `plugin_not_found`, `version_not_found`, `registry_unknown`, `registry_unreachable`.
        Gone: `plugin_removed`.
        Unverifiable: `attestation_missing`, `public_key_missing`, `trust_material_missing`.
        NotAllowed: `name_in_several_registries`, `registry_changed`, `signer_changed`,
            `data_belongs_to_other_signer`, `plugin_quarantined`, `first_use_refused`, `revoked`.
        IntegrityError: `history_forked`, `content_changed`, `release_mismatch`, `signer_not_trusted`, ...
        ResolutionError, IntegrityError: what `frozen` raises, where there is a lock file.
    """
    wish = hold(wish, options.lock)
    registry, content = find(wish, registries, options)
    document = read_document(content, wish.name)
    history = prove(registry, document)
    offer = _Offer(_held(wish, history, options), registry, document, history)
    entry, release, warnings = _not_refused(offer, options)
    digest, signer = _signed(wish, release)
    options.policy.check(wish.name, signer, known=wish.pin is not None or options.accept_signer == signer)
    check_pin(wish, registry.ref.id, signer, history, options)
    check_seen(registry, history, accepted=options.accept_signer == signer)
    _check_unchanged(wish, document, history)
    check_locked(wish, digest, signer, history)
    remember(registry, document, history)
    allowed = _reason(wish, history, options)
    notes = (*warnings, *_notes(offer, entry, allowed))
    return Choice(wish, registry, history, release, entry, notes, allowed)


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a registry offers for a wish, its history proved."""

    wish: Wish
    registry: Registry
    document: PluginDocument
    history: History

    def stays(self, entry: DocumentVersion) -> bool:
        """Whether this version is what is installed, and whole."""
        installed = self.wish.installed
        return installed is not None and entry.version == installed.version and self.wish.whole

    def hopeless(self, entry: DocumentVersion) -> Revocation | None:
        """Return what refuses a version whatever its proof says, so that nothing is fetched for it."""
        if self.stays(entry):
            return None
        found = revocations.of_offer(self.registry.revocations, self.document, entry)
        return found if found and found.before is None and not revocations.may_install(found) else None

    def prove(self, entry: DocumentVersion) -> ProvedRelease | None:
        """Prove a release; None for the one that is installed and stays."""
        if self.stays(entry):
            return None
        registry = self.registry
        return prove_release(
            self.document, entry, registry.attestation, self.history, sigstore=registry.sigstore
        )

    def revocation(self, release: ProvedRelease | None) -> Revocation | None:
        """Return what the registry says against a release, or against the one that stays."""
        listed = self.registry.revocations
        if release is not None:
            return revocations.of_release(listed, release)
        return revocations.of_installed(listed, self.wish.installed) if self.wish.installed else None


def _not_refused(
    offer: _Offer, options: Options
) -> tuple[DocumentVersion, ProvedRelease | None, tuple[str, ...]]:
    """Return the best version that is not refused, proved, with what is to be said of revocations.

    A version that is installed stays, whatever is said against it: only its start is refused.

    Raises:
        NotAllowed: `revoked`: nothing is left.
    """
    wish = offer.wish
    refused: dict[str, Revocation] = {}
    while True:
        entry = pick(wish, offer.document, offer.history, options, refused)
        hopeless = offer.hopeless(entry)
        if hopeless is not None:
            refused[entry.version] = hopeless
            continue
        release = offer.prove(entry)
        found = offer.revocation(release)
        if found is None or revocations.may_install(found) or release is None:
            break
        refused[entry.version] = found
    notes = [
        f"warning: {revocations.sentence(why, wish.name, version)}; {entry.version} is taken instead"
        for version, why in refused.items()
    ]
    if found is not None:
        notes.append(revocations.warning(found, wish.name, entry.version))
    return entry, release, tuple(notes)


def _signed(wish: Wish, release: ProvedRelease | None) -> tuple[str, str]:
    """Return the digest and the signer of what will be installed: the new release, or the one that stays."""
    made = release or wish.installed
    return (made.digest, made.signer.words) if made else ("", "")


def check_state(history: History) -> None:
    """Refuse a plugin that an administrator of its registry has withdrawn.

    Raises:
        Gone: `plugin_removed`.
        NotAllowed: `plugin_quarantined`.
    """
    refuse_withdrawn(history.plugin, history.state, history.reason)


def refuse_withdrawn(name: str, state: State, reason: str) -> None:
    """See `check_state`."""
    if state == "removed":
        raise Gone("plugin_removed", f"`{name}` was removed from its registry: {reason}")
    if state == "quarantined":
        raise NotAllowed(
            "plugin_quarantined",
            f"`{name}` is in quarantine: {reason}",
            hint="if you know better, `plugreg install` takes `--allow-quarantined REASON`",
        )


def _held(wish: Wish, history: History, options: Options) -> Wish:
    """Return the wish as far as the plugin's state lets it: of what was withdrawn, what is installed stays.

    Raises:
        Gone: `plugin_removed`.
        NotAllowed: `plugin_quarantined`.
    """
    if history.state == "quarantined" and options.allow_quarantined:
        return wish
    have = VersionRange(wish.installed.version) if wish.installed and wish.whole else None
    if have is None or have.exact is None or not wish.takes(have.exact):
        check_state(history)
        return wish
    return replace(wish, needed=(*wish.needed, have)) if history.state in MODERATED else wish


def _reason(wish: Wish, history: History, options: Options) -> str:
    """Return why a plugin in quarantine is installed: the reason given now, else the one given before."""
    if history.state != "quarantined":
        return ""
    return options.allow_quarantined or (wish.state.allowed if wish.state else "")


def _check_unchanged(wish: Wish, document: PluginDocument, history: History) -> None:
    """Refuse a registry that offers other bytes as the version that is installed: a version never changes."""
    installed = wish.installed
    if (
        installed is None
        or installed.registry.id != history.registry
        or installed.head not in history.digests
    ):
        return
    entry = document.version(installed.version)
    if entry is not None and entry.digest != installed.digest:
        raise IntegrityError(
            "content_changed",
            f"`{wish.name} {installed.version}` has the digest `{installed.digest}` here, "
            f"and the registry now offers `{entry.digest}` as the same version",
            hint="a version never changes; do not install until the registry's operator explains",
        )


def _notes(offer: _Offer, entry: DocumentVersion, allowed: str) -> list[str]:
    wish, history = offer.wish, offer.history
    notes = list(_of_administrators(history, allowed))
    if entry.version in history.yanked:
        reason = history.yanked[entry.version] or "no reason given"
        notes.append(f"warning: `{wish.name} {entry.version}` is yanked: {reason}")
    if history.state == "deprecated":
        instead = f"; its author names `{history.replacement}` instead" if history.replacement else ""
        notes.append(f"warning: `{wish.name}` is deprecated: {history.reason or 'no reason given'}{instead}")
    newest = VersionRange("").best(
        Version(v.version)
        for v in offer.document.versions
        if v.version not in history.yanked and offer.hopeless(v) is None
    )
    if wish.installed and not wish.locked and newest is not None and newest > Version(entry.version):
        limits = [limit for limit in (wish.range, *wish.needed) if limit.text] or [wish.range]
        notes.append(
            f"note: `{wish.name} {entry.version}` stays within {ranges_in_words(limits)}; "
            f"{newest} is available: `plugreg install {wish.name}@{newest}`"
        )
    return notes


def _of_administrators(history: History, allowed: str) -> Iterator[str]:
    """Say what administrators of the registry have done to a plugin."""
    name, reason = history.plugin, history.reason or "no reason given"
    if history.state == "removed":
        yield f"warning: `{name}` was removed from its registry: {reason}; what is installed here stays"
    if history.state == "quarantined":
        consequence = f"it is installed because: {allowed}" if allowed else "what is installed here stays"
        yield f"warning: `{name}` is in quarantine: {reason}; {consequence}"
    if history.reassigned:
        owners = ", ".join(f"`{owner.words}`" for owner in history.owners)
        yield f"note: `{name}` was reassigned by an administrator of its registry; its owners are {owners}"
