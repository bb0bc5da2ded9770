"""The plugin documents, made from the records: what a reader sees of a plugin, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from plugreg_registry.records import AuditEntry, Shown
from plugreg_schemas.api import DocumentSigner, DocumentStatus, DocumentVersion, PluginDocument
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.names import Version
from plugreg_schemas.statement import Yank
from plugreg_schemas.trust.envelope import encode_base64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from plugreg_registry.records import PluginRecord, StoredRelease
    from plugreg_schemas.manifest import Tier
    from plugreg_schemas.tiers import TierPolicy
    from plugreg_schemas.trust.identity import AnySigner

SPARSE: Final = frozenset(
    {"alternatives", "core_version", "capability_kind", "launchers", "platforms", "requires", "reason"}
)
"""Members of a version and of a component that are left out where they are empty."""
SHARED: Final = ("launchers", "core_version", "capability_kind")
"""Members of a version that stand in its offer, beside the alternatives of its components."""


def plain_document(record: PluginRecord, tiers: TierPolicy) -> dict[str, Any]:
    """Return the document of a plugin as it travels: its record and the operator's policy, nothing else."""
    history = record.history
    signers, offers = _Signers(), _Offers()
    for statement in record.statements:
        signers.number(statement.signed().signer, statement.public_key)
    releases = sorted(record.releases, key=lambda release: Version(release.version))
    versions = [
        {
            **offers.share(release, tiers.tier_of(record.name, release.facts.tier)),
            "signer": signers.number(release.signer, release.public_key),
            **withdrawn(release.version, history.yanked),
        }
        for release in releases
    ]
    newest = newest_release(record)
    document = PluginDocument(
        name=record.name,
        description=newest.facts.description,
        status=document_status(record),
        history=tuple(map(str, history.digests)),
        history_times=tuple(statement.accepted_at for statement in record.statements),
        owners=history.owners,
        signers=tuple(signers.rows()),
        versions=(),
        skills=newest.facts.skills,
    )
    plain = document.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**plain, "offers": offers.rows(), "versions": versions}


def document_status(record: PluginRecord) -> DocumentStatus:
    """Return the state of a plugin as a whole."""
    history = record.history
    since = record.statements[-1].accepted_at if history.state != "active" else None
    return DocumentStatus(
        state=history.state, reason=history.reason, since=since, replacement=history.replacement
    )


def withdrawn(version: str, yanked: Mapping[str, str]) -> dict[str, Any]:
    """Return whether a version is yanked, and why."""
    return {"yanked": True, "reason": yanked[version]} if version in yanked else {"yanked": False}


def plain_version(release: StoredRelease, tier: Tier | None) -> dict[str, Any]:
    """Return the whole entry of one release as it travels alone; what says nothing is left out."""
    entry = document_version(release, tier).model_dump(mode="json", by_alias=True, exclude_none=True)
    for part in (entry, *entry["components"]):
        for key in [key for key in SPARSE & part.keys() if not part[key]]:
            del part[key]
    return entry


def document_version(release: StoredRelease, tier: Tier | None) -> DocumentVersion:
    """Return the entry of one release. Its signer, and whether it is yanked, are known to the document."""
    facts = release.facts
    return DocumentVersion(
        version=release.version,
        digest=release.digest,
        size=release.size,
        published_at=release.published_at,
        format=release.format,
        signer=0,
        attestations=(release.attestation, *((release.provenance,) if release.provenance else ())),
        components=facts.components,
        launchers=facts.launchers,
        tier=tier,
        core_version=facts.core_version,
        capability_kind=facts.capability_kind,
        platforms=facts.platforms,
        requires=facts.requires,
        counts=facts.counts,
    )


def audit_entries(record: PluginRecord, only: str | None = None) -> Iterator[AuditEntry]:
    """Yield the audit entries of what was accepted for a plugin, or of one statement, by its digest."""
    for release in record.releases:
        if only not in {None, release.attestation}:
            continue
        yield AuditEntry(
            release.attestation,
            release.published_at,
            "publish",
            record.name,
            release.version,
            release.signer.words,
        )
    for statement in record.statements[1:]:
        if only not in {None, statement.digest}:
            continue
        signed = statement.signed()
        said = signed.statement.predicate
        version = said.version if isinstance(said, Yank) else ""
        kind = signed.statement.kind
        yield AuditEntry(
            statement.digest, statement.accepted_at, kind, record.name, version, signed.signer.words
        )


def newest_release(record: PluginRecord) -> StoredRelease:
    """Return the release that speaks for the plugin: the newest that is no prerelease nor yanked, if any."""
    known, yanked = {Version(release.version): release for release in record.releases}, record.history.yanked
    return known[max(known, key=lambda v: (known[v].version not in yanked, not v.is_prerelease, v))]


class _Offers:
    """The table of offers: what many versions say alike, once, in the order of first use."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def share(self, release: StoredRelease, tier: Tier | None) -> dict[str, Any]:
        """Return the entry of a release as it stands in the document.

        A release never changes, so what is shown of it is made once.
        """
        if not release.shown:
            release.shown.append(_without_offer(plain_version(release, None)))
        entry, offer = release.shown[0]
        if offer:
            entry = {**entry, "offer": self._places.setdefault(offer, len(self._places))}
        return {**entry, "tier": tier} if tier else entry

    def rows(self) -> list[Any]:
        return [json.loads(text) for text in self._places]


def _without_offer(entry: dict[str, Any]) -> Shown:
    """Return an entry without what it may share with others, and that as text, "" for nothing."""
    offer: dict[str, Any] = {key: entry[key] for key in SHARED if key in entry}
    rows = [component.get("alternatives", []) for component in entry["components"]]
    if any(rows):
        offer["alternatives"] = rows
    components = [
        {key: value for key, value in component.items() if key != "alternatives"}
        for component in entry["components"]
    ]
    rest = {key: value for key, value in entry.items() if key not in offer}
    return Shown({**rest, "components": components}, canonical_json(offer).decode() if offer else "")


class _Signers:
    """The table of signers: each identity once, in the order of first use."""

    def __init__(self) -> None:
        self._rows: dict[str, DocumentSigner] = {}
        self._places: dict[str, int] = {}

    def number(self, signer: AnySigner, public_key: bytes) -> int:
        place = self._places.setdefault(signer.words, len(self._places))
        self._rows.setdefault(
            signer.words, DocumentSigner(signer=signer, public_key=encode_base64(public_key) or None)
        )
        return place

    def rows(self) -> Iterable[DocumentSigner]:
        return self._rows.values()
