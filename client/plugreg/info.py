"""`plugreg info`: what a plugin is, who signed it, and what it needs on this machine; all of it proved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from plugreg import revocations
from plugreg.environment import launcher_state
from plugreg.statements import proved
from plugreg_schemas.errors import NotAllowed, NotAvailable, Unverifiable
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import Version
from plugreg_schemas.statement import Owners, conditions_of, parse_statement
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.proof import prove_release

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from plugreg.remote import Remote
    from plugreg_schemas.api import DocumentVersion, PluginDocument
    from plugreg_schemas.history import History
    from plugreg_schemas.index import Revocation
    from plugreg_schemas.names import Ref
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.proof import ProvedRelease


@dataclass(frozen=True, slots=True)
class Reassignment:
    """That an administrator of the registry gave the name to others. `at` is when the registry took it."""

    revision: int
    by: str
    reason: str
    at: datetime | None

    def as_dict(self) -> dict[str, object]:
        """Return a member of `reassigned` in `info --json`."""
        return {**asdict(self), "at": format_time(self.at) if self.at else None}


@dataclass(frozen=True, slots=True)
class Info:
    """What `plugreg info` shows of one version of a plugin and of the plugin itself."""

    document: PluginDocument
    history: History
    entry: DocumentVersion
    verdict: str
    """`verified`, or the code that says why the release cannot be judged; it is not installed then."""
    registry: dict[str, str]
    launchers: list[dict[str, str | None]]
    signed_by: AnySigner
    """Who signed the release, with what is only shown: the repository and ref of a workflow."""
    proof: ProvedRelease | None = None
    """The release where it is `verified`."""
    reassigned: tuple[Reassignment, ...] = ()
    revoked: Revocation | None = None
    """What the registry says against this version, if anything."""
    refused: frozenset[str] = frozenset()
    """The versions that are not to be chosen."""

    @property
    def signer(self) -> str:
        """Who signed the release, in words."""
        return self.signed_by.words

    @property
    def origin(self) -> str:
        """Where a workflow signed the release: repository, ref and workflow; empty for others."""
        by = self.signed_by
        return f"{by.repository} at {by.ref}, workflow {by.workflow}" if by.kind == "ci" else ""

    @property
    def signed_at(self) -> str:
        """The proved time of the signature; empty without one."""
        return format_time(self.proof.signed_at) if self.proof and self.proof.signed_at else ""

    def as_dict(self) -> dict[str, object]:
        """Return what `plugreg info --json` prints."""
        entry = self.entry
        provenance = self.proof.provenance if self.proof else None
        return {
            "name": self.document.name,
            "description": self.document.description,
            "registry": self.registry,
            "status": self.document.status.model_dump(mode="json"),
            "owners": [owner.words for owner in self.history.owners],
            "owner_conditions": {
                owner.words: found for owner in self.history.owners if (found := conditions_of(owner))
            },
            "reassigned": [one.as_dict() for one in self.reassigned],
            "version": entry.version,
            "digest": entry.digest,
            "size": entry.size,
            "published_at": format_time(entry.published_at),
            "signed_at": self.signed_at or None,
            "provenance": asdict(provenance) if provenance else None,
            "format": entry.format,
            "signer": self.signed_by.model_dump(),
            "signer_id": self.signer,
            "verdict": self.verdict,
            "yanked": entry.yanked,
            "reason": entry.reason,
            "revoked": self.revoked.model_dump(mode="json", include={"kind", "value", "level", "reason"})
            if self.revoked
            else None,
            "components": [component.model_dump(mode="json") for component in entry.components],
            "skills": entry.counts.skills,
            "launchers": self.launchers,
            "versions": [
                {
                    "version": v.version,
                    "published_at": format_time(v.published_at),
                    "yanked": v.yanked,
                    "reason": v.reason,
                }
                for v in self.document.versions
            ],
        }


def info(remote: Remote, ref: Ref, environ: Mapping[str, str]) -> Info:
    """Look up a plugin and prove what its document says.

    Raises:
        NotAvailable: `plugin_not_found`, `version_not_found`.
        IntegrityError: the document contradicts what was signed.
    """
    document, history = proved(remote, ref.name)
    entry = _choose(document, ref)
    verdict, proof = _verdict(document, entry, remote, history)
    listed = remote.revocations
    against = {v.version: revocations.of_offer(listed, document, v) for v in document.versions}
    return Info(
        document=document,
        history=history,
        entry=entry,
        verdict=verdict,
        registry=remote.ref.model_dump(),
        launchers=launcher_state(entry.launchers, environ),
        signed_by=proof.signer if proof else document.signers[entry.signer].signer,
        proof=proof,
        reassigned=tuple(_reassignments(document, remote, history)),
        revoked=revocations.of_release(listed, proof) if proof else against[entry.version],
        refused=frozenset(v for v, found in against.items() if not revocations.may_install(found)),
    )


def _reassignments(document: PluginDocument, remote: Remote, history: History) -> Iterator[Reassignment]:
    """Yield what administrators said when they gave the name to others. The statements are proved."""
    for place in history.reassigned:
        envelope = parse_envelope(remote.attestation(history.digests[place]))
        said = parse_statement(envelope.payload).predicate
        reason = said.reason if isinstance(said, Owners) and said.reason else ""
        at = document.history_times[place] if document.history_times else None
        yield Reassignment(place, envelope.signer.words, reason, at)


def _verdict(
    document: PluginDocument, entry: DocumentVersion, remote: Remote, history: History
) -> tuple[str, ProvedRelease | None]:
    """Return the verdict on a release, and the release where it is proved."""
    try:
        release = prove_release(document, entry, remote.attestation, history, sigstore=remote.sigstore)
    except Unverifiable as error:
        return error.code, None
    return "verified", release


def look_up(remotes: Sequence[Remote], ref: Ref, environ: Mapping[str, str]) -> Info:
    """Look a plugin up in the only registry that has it.

    Raises:
        NotAvailable: `plugin_not_found`: none has it.
        NotAllowed: `name_in_several_registries`.
    """
    found: list[Info] = []
    missing: NotAvailable | None = None
    for remote in remotes:
        try:
            found.append(info(remote, ref, environ))
        except NotAvailable as error:
            if error.code != "plugin_not_found":
                raise
            missing = error
    if len(found) > 1:
        places = " and ".join(one.registry["url"] for one in found)
        raise NotAllowed(
            "name_in_several_registries",
            f"`{ref.name}` is in {places}",
            hint="choose one with `--registry NAME`",
        )
    if not found:
        raise missing or NotAvailable("plugin_not_found", f"`{ref.name}` was not found")
    return found[0]


def _choose(document: PluginDocument, ref: Ref) -> DocumentVersion:
    """The best version in the range; without one the newest release, else prerelease, else a yanked one."""
    candidates = [entry for entry in document.versions if not entry.yanked]
    for entries, prereleases in ((candidates, False), (candidates, True), (document.versions, True)):
        best = ref.range.best((Version(entry.version) for entry in entries), prereleases=prereleases)
        if best is not None:
            return next(entry for entry in entries if entry.version == best.text)
    raise NotAvailable("version_not_found", f"`{document.name}` has no version in `{ref.range}`")
