"""What an entry of a registry's `revocations.json` means here: words, refusals, and what may still be done.

    warn      a warning at every choice, installation, plan and start
    disable   not started; it may be installed, with a warning
    refuse    neither chosen nor installed nor started

What is installed stays in its place with its data, whatever the level.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from plugreg_schemas.errors import NotAllowed
from plugreg_schemas.names import quoted
from plugreg_schemas.trust.revocation import revoked

if TYPE_CHECKING:
    from plugreg.plugins_root import Facts
    from plugreg_schemas.api import DocumentVersion, PluginDocument
    from plugreg_schemas.index import Revocation, RevocationList
    from plugreg_schemas.trust.proof import ProvedRelease

CODE = "revoked"


def of_release(listed: RevocationList, release: ProvedRelease) -> Revocation | None:
    """Return the strongest entry in force for a proved release, or None."""
    return revoked(
        listed.entries,
        name=release.name,
        digest=release.digest,
        signer=release.signer.words,
        when=release.signed_at or release.published_at,
        now=datetime.now(UTC),
    )


def of_offer(listed: RevocationList, document: PluginDocument, entry: DocumentVersion) -> Revocation | None:
    """Return the strongest entry in force for a version as its document describes it, which is not proved."""
    return revoked(
        listed.entries,
        name=document.name,
        digest=entry.digest,
        signer=document.signers[entry.signer].signer.words,
        when=entry.published_at,
        now=datetime.now(UTC),
    )


def of_installed(listed: RevocationList, facts: Facts) -> Revocation | None:
    """Return the strongest entry in force for what is installed, or None.

    Its time is what was recorded when it was proved: a registry that shows another one later changes nothing.
    """
    return revoked(
        listed.entries,
        name=facts.name,
        digest=facts.digest,
        signer=facts.signer.words,
        when=facts.signed_at or facts.published_at,
        now=datetime.now(UTC),
    )


def may_install(entry: Revocation | None) -> bool:
    """Whether a release with this entry may be chosen and installed."""
    return entry is None or entry.level != "refuse"


def may_start(entry: Revocation | None) -> bool:
    """Whether a release with this entry may be started."""
    return entry is None or entry.level == "warn"


def sentence(entry: Revocation, name: str, version: str) -> str:
    """Say that a release is revoked, by what, and why."""
    by = {
        "digest": "this version",
        "name": "the plugin as a whole",
        "signer": f"everything by its signer {quoted(entry.value)}",
    }[entry.kind]
    return f"{quoted(f'{name} {version}')} is revoked: its registry withdraws {by}: {entry.reason}"


def warning(entry: Revocation, name: str, version: str) -> str:
    """Return the line that a person is told where the release is installed or started all the same."""
    consequence = "" if may_start(entry) else "; its servers are not started"
    return f"warning: {sentence(entry, name, version)}{consequence}"


def refusal(entry: Revocation, name: str, version: str, *, hint: str = "") -> NotAllowed:
    """Return the refusal to choose, install or start a release."""
    return NotAllowed(
        CODE,
        sentence(entry, name, version),
        hint=hint or f"`plugreg info {name}` shows other versions; the registry's operator knows more",
        details={"level": entry.level, "kind": entry.kind, "value": entry.value},
    )
