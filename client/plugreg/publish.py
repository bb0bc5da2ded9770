"""`plugreg publish`: check > pack > statement > sign > begin > upload > commit, each repeatable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg.check import check
from plugreg.own_files import read_small
from plugreg.reader import no_progress
from plugreg.timestamping import signed
from plugreg_schemas import acceptance
from plugreg_schemas.api import ONE_OWNER, Receipt
from plugreg_schemas.documents import parse_json
from plugreg_schemas.errors import (
    Boundary,
    Finding,
    InvalidInput,
    NotAllowed,
    NotAvailable,
    Severity,
    UsageError,
)
from plugreg_schemas.statement import publish_statement
from plugreg_schemas.trust.provenance import check_provenance, read_provenance

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg.check import Checked
    from plugreg.reader import Progress
    from plugreg.remote import Remote
    from plugreg.signing import Signer
    from plugreg_schemas.bundle import Packed
    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.identity import AnySigner

ROUNDS: Final = 3
"""Times that a publish starts over when its session has gone, as after a lost answer."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plugin that is ready to be signed and sent."""

    checked: Checked
    packed: Packed
    version: str

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.checked.manifest.name


@dataclass(frozen=True, slots=True)
class Published:
    """A publish that a registry has acknowledged; `already` if it was there before."""

    name: str
    version: str
    digest: str
    registry: dict[str, str]
    signer: AnySigner
    findings: tuple[Finding, ...]
    url: str
    already: bool
    index: str = "published"
    """`pending`: it is accepted for good, and the index does not show it yet."""
    one_owner: bool = False
    """Whether the plugin is new, and nobody but its publisher owns it."""

    def as_dict(self) -> dict[str, object]:
        """Return what `plugreg publish --json` prints."""
        return {
            "name": self.name,
            "version": self.version,
            "digest": self.digest,
            "registry": self.registry,
            "signer": self.signer.model_dump(),
            "findings": [finding.as_dict() for finding in self.findings],
            "url": self.url,
            "already": self.already,
            "index": self.index,
        }


def prepare(path: Path, version: str | None = None, *, sensitive: frozenset[str] = frozenset()) -> Prepared:
    """Check and pack the plugin in a folder.

    Files named in `sensitive` may be published although they look like secrets; `*` names all.

    Raises:
        UsageError: `not_a_folder`.
        InvalidInput: everything that stands against publishing, all at once.
    """
    if path.is_file():
        raise UsageError(
            "not_a_folder", f"`{path}` is a file", hint="publish the plugin's folder; it is packed on the way"
        )
    checked = check(path, version)
    findings = [*checked.findings, *_secrets(checked, sensitive)]
    errors = [
        f
        for f in findings
        if f.severity is Severity.ERROR and f.boundary in {Boundary.REGISTRY, Boundary.PLUGIN}
    ]
    if errors or checked.packed is None or checked.version is None:
        code = errors[0].code if len({f.code for f in errors}) == 1 else "not_publishable"
        hint = "add `--allow-sensitive` if these files hold no secret" if code == "sensitive_file" else ""
        raise InvalidInput(code, f"`{path}` cannot be published", hint=hint, findings=errors)
    return Prepared(checked, checked.packed, str(checked.version))


def publish(
    prepared: Prepared,
    remote: Remote,
    signer: Signer,
    *,
    accept_registry: str = "",
    provenance: Envelope | None = None,
    progress: Progress = no_progress,
) -> Published:
    """Sign a prepared plugin and publish it, with its provenance where one is given.

    Raises:
        IntegrityError: `provenance_mismatch`, and as `check_provenance`; nothing was sent.
        NotAllowed: `registry_not_accepted`, `not_owner`, ...
        Conflict: `version_exists`, `name_taken`, ...
    """
    registry = remote.ref
    _check_target(registry.id, remote.url, accept_registry)
    manifest = prepared.checked.manifest
    statement = publish_statement(
        prepared.packed.digest,
        registry=registry.id,
        plugin=manifest.name,
        version=prepared.version,
        format=manifest.format,
    )
    envelope = signed(signer, statement, remote.sigstore)
    if provenance is not None:
        check_provenance(
            provenance, digest=prepared.packed.digest, signer=envelope.signer, sigstore=remote.sigstore
        )
    offer = _Offer(_value(envelope), signer.public_key, _value(provenance) if provenance else None)
    receipt = _send(remote, offer, prepared.packed.content, progress)
    return Published(
        name=receipt.name,
        version=receipt.version,
        digest=receipt.digest,
        registry=registry.model_dump(),
        signer=envelope.signer,
        findings=prepared.checked.findings,
        url=receipt.url,
        already=receipt.already,
        index=receipt.index,
        one_owner=any(finding.code == ONE_OWNER for finding in receipt.findings),
    )


def read_provenance_file(path: Path) -> Envelope:
    """Read the provenance that a builder left in a file.

    Raises:
        OSError: it cannot be read.
        TooLarge, InvalidInput, Unverifiable: as `read_provenance`, or a JSON fault.
    """
    return read_provenance(parse_json(read_small(path), path.name))


@dataclass(frozen=True, slots=True)
class _Offer:
    """What is said to a registry before the bundle is sent."""

    statement: dict[str, Any]
    public_key: str
    provenance: dict[str, Any] | None


def _value(envelope: Envelope) -> dict[str, Any]:
    value = parse_json(envelope.content)
    if not isinstance(value, dict):
        raise AssertionError("an envelope is a JSON object")  # noqa: TRY004 - it is ours, not the caller's
    return value


def _send(remote: Remote, offer: _Offer, content: bytes, progress: Progress) -> Receipt:
    for last in (*(False,) * (ROUNDS - 1), True):
        answer = remote.begin_publish(offer.statement, len(content), offer.public_key, offer.provenance)
        if isinstance(answer, Receipt):
            return answer
        try:
            remote.upload(answer, content, progress)
            return remote.commit(answer)
        except NotAvailable as error:
            if error.code != "session_unknown" or last:
                raise
    raise AssertionError  # the last round returns or raises


def _check_target(registry: str, url: str, accepted: str) -> None:
    """Refuse to sign for a registry whose id is the origin of another place, unless told so."""
    if registry.startswith("https://") and not url.startswith(registry + "/") and accepted != registry:
        raise NotAllowed(
            "registry_not_accepted",
            f"the registry at {url} says that it is `{registry}`",
            hint=f"if that is right, add `--accept-registry {registry}`",
        )


def _secrets(checked: Checked, allowed: frozenset[str]) -> list[Finding]:
    if checked.packed is None or "*" in allowed:
        return []
    return [
        Finding("sensitive_file", "looks like a secret", boundary=Boundary.REGISTRY, file=member.path)
        for member in checked.packed.files
        if acceptance.sensitive(member.path) and member.path not in allowed
    ]
