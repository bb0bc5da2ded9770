"""Questions about what is published. What exists is never answered with 404: withdrawn is an answer too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plugreg_registry.documents import (
    document_status,
    document_version,
    plain_document,
    plain_version,
    withdrawn,
)
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.errors import Gone, NotAllowed, NotAvailable
from plugreg_schemas.names import PluginName, Version
from plugreg_schemas.resolve import resolve

if TYPE_CHECKING:
    from plugreg_registry.index import Index
    from plugreg_registry.ports import Releases
    from plugreg_registry.questions import Question
    from plugreg_registry.records import PluginRecord, StoredRelease
    from plugreg_schemas.names import VersionRange
    from plugreg_schemas.resolve import Resolution
    from plugreg_schemas.tiers import TierPolicy


@dataclass(frozen=True, slots=True)
class Catalog:
    """Answers from the records, so a release is here from its commit point on."""

    releases: Releases
    tiers: TierPolicy
    index: Index

    def plugin(self, name: str) -> dict[str, Any]:
        """Return a plugin's document.

        Raises:
            InvalidInput: `name_invalid`, `name_reserved`.
            NotAvailable: `plugin_not_found`.
            Gone: `plugin_removed`.
        """
        return plain_document(self._record(name), self.tiers)

    def version(self, name: str, version: str) -> dict[str, Any]:
        """Return one version with the plugin's name and status; `yanked` says if it is withdrawn.

        `index` says whether readers see it already: `published` or `pending`.

        Raises:
            InvalidInput: `version_invalid`; and as `plugin`.
            NotAvailable: `version_not_found`.
        """
        record, wanted = self._record(name), str(Version(version))
        release = record.release(wanted)
        if release is None:
            raise NotAvailable("version_not_found", f"there is no `{name} {version}` here")
        tier = self.tiers.tier_of(record.name, release.facts.tier)
        return {
            **plain_version(release, tier),
            **withdrawn(wanted, record.history.yanked),
            "name": record.name,
            "signer": release.signer.model_dump(mode="json"),
            "status": document_status(record).model_dump(mode="json", exclude_none=True),
            "index": "published" if self.index.lists(record, wanted) else "pending",
        }

    def resolve(self, question: Question) -> Resolution:
        """Return what a host does with the best version in a range.

        Raises:
            NotAvailable: `plugin_not_found`, `version_not_found`. Gone: `plugin_removed`.
            NotAllowed: `plugin_quarantined`: nobody is to begin with it.
        """
        record = self._record(question.plugin)
        if record.history.state == "quarantined":
            raise NotAllowed(
                "plugin_quarantined", f"`{record.name}` is in quarantine: {record.history.reason}"
            )
        release = _best(record, question.range)
        tier = self.tiers.tier_of(record.name, release.facts.tier)
        offer = Offer.of_document(record.name, document_version(release, tier))
        return resolve(offer, question.host)

    def _record(self, name: str) -> PluginRecord:
        record = self.releases.find(PluginName(name))
        if record is None:
            raise NotAvailable("plugin_not_found", f"there is no plugin `{name}` here")
        if record.history.state == "removed":
            raise Gone("plugin_removed", f"`{name}` was removed from this registry: {record.history.reason}")
        return record


def _best(record: PluginRecord, wanted: VersionRange) -> StoredRelease:
    """Return what would be installed: never a yanked version, nor a prerelease, unless it is named."""
    best = wanted.choose((release.version for release in record.releases), record.history.yanked)
    found = record.release(best.text) if best else None
    if found is None:
        raise NotAvailable(
            "version_not_found",
            f"`{record.name}` has no version in `{wanted}` that is neither yanked nor a prerelease",
            hint="name a version exactly, and it is taken whatever it is",
        )
    return found
