"""Which release of a plugin a command means: from a wish to a proved choice. Nothing on disk is changed.

wish > registry > document > history > version > release > pin > choice
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg.pinning import Wish, check_pin
from plugreg.plugins_root.records import read_facts, read_state
from plugreg.sources import find
from plugreg_schemas.errors import Gone, IntegrityError, NotAllowed, NotAvailable
from plugreg_schemas.names import Version, VersionRange
from plugreg_schemas.trust.proof import prove_history, prove_release, read_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugreg.pinning import Options
    from plugreg.plugins_root import Facts, PluginsRoot, StoreEntry
    from plugreg.sources import Registry
    from plugreg_schemas.api import DocumentVersion, PluginDocument
    from plugreg_schemas.history import History
    from plugreg_schemas.names import Ref
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
            `data_belongs_to_other_signer`, `plugin_quarantined`.
        IntegrityError: `history_forked`, `content_changed`, `release_mismatch`, ...
    """
    registry, content = find(wish, registries, options)
    document = read_document(content, wish.name)
    history = prove_history(document, registry.attestation, registry.ref.id, sigstore=registry.sigstore)
    _check_state(history)
    entry = _pick(wish, document, history, options)
    stays = wish.installed is not None and entry.version == wish.installed.version and wish.whole
    release = (
        None
        if stays
        else prove_release(document, entry, registry.attestation, history, sigstore=registry.sigstore)
    )
    signer = _signer(wish, release)
    check_pin(wish, registry.ref.id, signer, history, options)
    _check_unchanged(wish, document, history)
    return Choice(wish, registry, history, release, entry, tuple(_notes(wish, document, history, entry)))


def _signer(wish: Wish, release: ProvedRelease | None) -> str:
    """Return who signed what will be installed: the new release, or the one that stays."""
    if release is not None:
        return release.signer.words
    return wish.installed.signer.words if wish.installed else ""


def _check_state(history: History) -> None:
    if history.state == "removed":
        raise Gone("plugin_removed", f"`{history.plugin}` was removed from its registry: {history.reason}")
    if history.state == "quarantined":
        raise NotAllowed("plugin_quarantined", f"`{history.plugin}` is in quarantine: {history.reason}")


def _pick(wish: Wish, document: PluginDocument, history: History, options: Options) -> DocumentVersion:
    """Return the version to have.

    Never a yanked one unless it is named exactly, never an older one without being asked.
    """
    fitting = (
        v.version for v in document.versions if all(r.matches(Version(v.version)) for r in wish.needed)
    )
    best = wish.range.choose(fitting, history.yanked, prereleases=options.prereleases)
    have = Version(wish.installed.version) if wish.installed else None
    if have and wish.range.matches(have, prereleases=True) and (best is None or have >= best):
        entry = document.version(have.text)
        if entry is None:
            raise NotAvailable(
                "version_withheld",
                f"`{wish.name} {have}` is installed, and its registry does not offer it any more",
                hint=f"to go back, name an older version: `plugreg install {wish.name}@VERSION`",
            )
        return entry
    entry = document.version(best.text) if best else None
    if entry is None:
        raise NotAvailable(
            "version_not_found",
            _none_fits(wish, document, history),
            hint=f"`plugreg info {wish.name}` shows all versions",
        )
    return entry


def _none_fits(wish: Wish, document: PluginDocument, history: History) -> str:
    fitting = [
        v.version for v in document.versions if wish.range.matches(Version(v.version), prereleases=True)
    ]
    yanked = [version for version in fitting if version in history.yanked]
    text = f"`{wish.name}` has no version in `{wish.range}`"
    if wish.needed:
        return f"{text} that other plugins can use: they need {_ranges(wish.needed)}"
    if yanked:
        return f"{text} that is not yanked; yanked are {', '.join(yanked)}"
    return f"{text} but prereleases: {', '.join(fitting)}" if fitting else text


def _ranges(ranges: Sequence[VersionRange]) -> str:
    return " and ".join(f"`{text}`" for text in dict.fromkeys(map(str, ranges)))


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


def _notes(wish: Wish, document: PluginDocument, history: History, entry: DocumentVersion) -> list[str]:
    notes = []
    if entry.version in history.yanked:
        reason = history.yanked[entry.version] or "no reason given"
        notes.append(f"warning: `{wish.name} {entry.version}` is yanked: {reason}")
    if history.state == "deprecated":
        instead = f"; its author names `{history.replacement}` instead" if history.replacement else ""
        notes.append(f"warning: `{wish.name}` is deprecated: {history.reason or 'no reason given'}{instead}")
    newest = VersionRange("").best(
        Version(v.version) for v in document.versions if v.version not in history.yanked
    )
    if wish.installed and newest is not None and newest > Version(entry.version):
        limits = [limit for limit in (wish.range, *wish.needed) if limit.text] or [wish.range]
        notes.append(
            f"note: `{wish.name} {entry.version}` stays within {_ranges(limits)}; {newest} is available: "
            f"`plugreg install {wish.name}@{newest}`"
        )
    return notes
