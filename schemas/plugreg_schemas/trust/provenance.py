"""How a bundle was built, as its builder says: SLSA provenance v1, signed by the CI that signed the release.

    any bundle v0.3 > spelled as an envelope of ours > signature > same repository and owner > same bundle

It is shown to people, and no rule asks for it. What is shown of the repository, the workflow and the ref is
in the certificate; the rest is what the builder says. A provenance that speaks of something else than the
release is refused: it would be shown as if it were about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import IntegrityError, InvalidInput, TooLarge
from plugreg_schemas.fields import Open, check_model
from plugreg_schemas.names import Digest, quoted
from plugreg_schemas.trust.envelope import MAX_ENVELOPE, read_envelope
from plugreg_schemas.trust.identity import CiSigner
from plugreg_schemas.trust.verify import prove

if TYPE_CHECKING:
    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.sigstore import SigstoreVerifier

_Shown = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is shown of a provenance; texts are empty where it does not say. `commit` is a digest in Git."""

    builder: str
    build_type: str
    repository: str
    workflow: str
    ref: str
    commit: str
    invocation: str


class _Artifact(Open):
    digest: Annotated[dict[_Shown, _Shown], Field(default_factory=dict)]


class _Definition(Open):
    build_type: Annotated[_Shown, Field(alias="buildType", min_length=1)]
    dependencies: Annotated[tuple[_Artifact, ...], Field(alias="resolvedDependencies")] = ()


class _Builder(Open):
    id: Annotated[_Shown, Field(min_length=1)]


class _Metadata(Open):
    invocation: Annotated[_Shown, Field(alias="invocationId")] = ""


class _Run(Open):
    builder: _Builder
    metadata: _Metadata = _Metadata()


class _Predicate(Open):
    definition: Annotated[_Definition, Field(alias="buildDefinition")]
    run: Annotated[_Run, Field(alias="runDetails")]


class _Statement(Open):
    type: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    predicate_type: Annotated[Literal["https://slsa.dev/provenance/v1"], Field(alias="predicateType")]
    subject: Annotated[tuple[_Artifact, ...], Field(min_length=1)]
    predicate: _Predicate


def read_provenance(value: object) -> Envelope:
    """Read a provenance from anywhere, as parsed JSON, and return it in the one spelling that is stored.

    Raises:
        TooLarge: `envelope_too_large`.
        InvalidInput: `envelope_invalid`, `certificate_invalid`, `certificate_identity`.
        Unverifiable: `envelope_version`, `signature_kind`.
    """
    content = canonical_json(value)
    if len(content) > MAX_ENVELOPE:
        raise TooLarge("envelope_too_large", f"a provenance is at most {MAX_ENVELOPE} bytes")
    material = value.get("verificationMaterial") if isinstance(value, dict) else None
    if not isinstance(material, dict) or "certificate" not in material:
        return read_envelope(value)
    return read_envelope(parse_json(_spelled(content), "provenance"))


def check_provenance(
    envelope: Envelope, *, digest: str, signer: AnySigner, sigstore: SigstoreVerifier | None
) -> Provenance:
    """Prove that a provenance is about the release with this digest, by the CI that signed the release.

    Raises:
        IntegrityError: `provenance_mismatch`: it is by another, or about another bundle; `signature_invalid`,
            `envelope_not_canonical`.
        Unverifiable: `trust_material_missing`, `no_trusted_time`.
        InvalidInput: `provenance_invalid`, or a JSON fault.
        UsageError: `trust_config_invalid`.
    """
    builder = envelope.signer
    if not isinstance(builder, CiSigner) or _repository(builder) != _repository(signer):
        raise IntegrityError(
            "provenance_mismatch",
            f"the provenance is by `{builder.words}`, and the release is by `{signer.words}`",
            hint="provenance comes from the repository whose CI signs the release",
        )
    prove(envelope, {}, sigstore)
    said = check_model(
        _Statement, parse_json(envelope.payload, "provenance"), code="provenance_invalid", file="provenance"
    )
    if Digest(digest).hex not in {subject.digest.get("sha256") for subject in said.subject}:
        raise IntegrityError(
            "provenance_mismatch", f"the provenance is not about the bundle {quoted(digest)}"
        )
    definition, run = said.predicate.definition, said.predicate.run
    commits = (dependency.digest.get("gitCommit", "") for dependency in definition.dependencies)
    return Provenance(
        builder=run.builder.id,
        build_type=definition.build_type,
        repository=builder.repository,
        workflow=builder.workflow,
        ref=builder.ref,
        commit=next(filter(None, commits), ""),
        invocation=run.metadata.invocation,
    )


def _repository(signer: AnySigner) -> tuple[str, ...]:
    """Return what the workflows of one repository share; nothing for whoever is no workflow."""
    if isinstance(signer, CiSigner):
        return (signer.issuer, signer.repository_id, signer.owner_id)
    return ()


def _spelled(content: bytes) -> bytes:
    """Return a bundle as the library spells it."""
    from sigstore.models import Bundle  # noqa: PLC0415 - costly

    try:
        return Bundle.from_json(content).to_json().encode()
    except Exception as error:  # noqa: BLE001 - anybody's bytes, and a library that raises what it likes
        raise InvalidInput(
            "envelope_invalid", f"the provenance is not a Sigstore bundle v0.3 ({type(error).__name__})"
        ) from None
