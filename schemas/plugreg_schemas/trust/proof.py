"""From a plugin document and its attestations to a proved history and a proved release.

A document is a claim by whoever serves it. Every claim that matters is also in a signed statement: the name,
version, digest and signer of a release, the owners, the yanks, the state. Here the two are compared, and the
statement wins by refusing the document.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plugreg_schemas.api import PluginDocument
from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed, Unverifiable
from plugreg_schemas.fields import read_model
from plugreg_schemas.history import NOBODY, fold
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Publish, conditions_of
from plugreg_schemas.trust.envelope import decode_base64, parse_envelope
from plugreg_schemas.trust.material import TIMESTAMPS
from plugreg_schemas.trust.policy import check_registry, check_release_signer
from plugreg_schemas.trust.provenance import check_provenance
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from plugreg_schemas.api import DocumentVersion
    from plugreg_schemas.history import Administrators, History
    from plugreg_schemas.statement import AnyOwner
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.provenance import Provenance
    from plugreg_schemas.trust.sigstore import SigstoreVerifier
    from plugreg_schemas.trust.verify import Signed

    Fetch = Callable[[Digest], bytes]


@dataclass(frozen=True, slots=True)
class ProvedRelease:
    """A release of which every fact is in a verified statement. `attestation` is the envelope's bytes."""

    registry: str
    name: str
    version: str
    digest: Digest
    size: int
    signer: AnySigner
    public_key: bytes
    attestation: bytes
    yanked: str | None
    """The reason, where the version is yanked."""
    published_at: datetime
    """When the index says that it was published: a claim, as good as the index."""
    signed_at: datetime | None = None
    """The proved time of the signature."""
    provenance: Provenance | None = None
    """How it was built, where the publisher sent that along."""


@contextmanager
def _of_the_registry() -> Iterator[None]:
    """Say what a faulty document or statement is to the caller: nothing to rely on, not their input."""
    try:
        yield
    except InvalidInput as error:
        hint = error.hint or "the registry serves what it should never have taken; tell its operator"
        raise IntegrityError(error.code, error.message, hint=hint, findings=error.findings) from None


@_of_the_registry()
def read_document(content: bytes, name: str) -> PluginDocument:
    """Read a plugin document.

    Raises:
        IntegrityError: `document_invalid`, or the code of a JSON fault; `document_mismatch`: it is about
            another plugin.
    """
    document = read_model(PluginDocument, content, code="document_invalid", file="plugin document")
    if len({entry.version for entry in document.versions}) < len(document.versions):
        raise InvalidInput("document_invalid", f"the document of `{name}` lists a version more than once")
    if document.name != name:
        raise IntegrityError("document_mismatch", f"the document of `{name}` is about `{document.name}`")
    return document


@_of_the_registry()
def prove_history(
    document: PluginDocument,
    fetch: Fetch,
    registry: str,
    pinned_head: str | None = None,
    *,
    sigstore: SigstoreVerifier | None = None,
    admins: Administrators = NOBODY,
) -> History:
    """Fold the signed statements that a document lists, and refuse the document where it says otherwise.

    `fetch` returns an attestation by its digest; `pinned_head` is the newest statement seen before;
    `sigstore` judges the statements that are signed with a certificate; `admins` are those of the registry.

    Raises:
        IntegrityError: `history_forked`, `history_invalid`, `document_contradicts_history`,
            `attestation_altered`, `signature_invalid`, `registry_mismatch`, `key_outside_validity`, ...
        Unverifiable: `attestation_missing`, `public_key_missing`, `trust_material_missing`,
            `no_trusted_time`.
    """
    keys = _public_keys(document)
    if pinned_head is not None and pinned_head not in document.history:
        raise IntegrityError(
            "history_forked",
            f"the history of `{document.name}` lacks a statement that was in it before",
            hint="the registry lost or hides a statement; do not install until its operator explains",
        )
    entries = [
        verify(parse_envelope(_fetched(Digest(digest), fetch)), keys, sigstore) for digest in document.history
    ]
    history = fold(entries, times=document.history_times, admins=admins)
    check_registry(history.registry, registry)
    _compare(document, history)
    return history


@_of_the_registry()
def prove_release(
    document: PluginDocument,
    entry: DocumentVersion,
    fetch: Fetch,
    history: History,
    *,
    sigstore: SigstoreVerifier | None = None,
) -> ProvedRelease:
    """Prove that an owner signed exactly what the document says of one version.

    Raises:
        IntegrityError: `release_mismatch`: re-labelled; `signer_not_owner`; `provenance_mismatch`,
            `provenance_invalid`; and as `prove_history`.
        NotAllowed: `unsigned`: the document names no statement for this version.
        Unverifiable: `attestation_missing`, `public_key_missing`, `trust_material_missing`,
            `no_trusted_time`.
    """
    if not entry.attestations:
        raise NotAllowed(
            "unsigned",
            f"`{document.name} {entry.version}` has no signed statement",
            hint="only signed versions are installed; ask the registry's operator",
        )
    digest = Digest(entry.attestations[0])
    content = _fetched(digest, fetch)
    signed = verify(parse_envelope(content), _public_keys(document), sigstore)
    said = signed.statement.predicate
    if not isinstance(said, Publish):
        raise IntegrityError(
            "release_mismatch", f"the statement for `{document.name} {entry.version}` publishes nothing"
        )
    check_registry(said.registry, history.registry)
    claimed = (document.name, entry.version, entry.digest, entry.format)
    if (said.plugin, said.version, signed.statement.digest, said.format) != claimed:
        raise IntegrityError(
            "release_mismatch",
            f"what is offered as `{document.name} {entry.version}` was signed as "
            f"`{said.plugin} {said.version}` with the digest `{signed.statement.digest}`",
        )
    if (
        entry.signer >= len(document.signers)
        or document.signers[entry.signer].signer.words != signed.signer.words
    ):
        raise IntegrityError(
            "release_mismatch", f"the document names another signer than `{signed.signer.words}`"
        )
    _check_signer(history, signed, entry)
    return ProvedRelease(
        registry=said.registry,
        name=said.plugin,
        version=said.version,
        digest=Digest(signed.statement.digest),
        size=entry.size,
        signer=signed.signer,
        public_key=signed.public_key,
        attestation=content,
        yanked=history.yanked.get(said.version),
        published_at=entry.published_at,
        signed_at=signed.time,
        provenance=_provenance(entry, signed, fetch, sigstore),
    )


def _provenance(
    entry: DocumentVersion, signed: Signed, fetch: Fetch, sigstore: SigstoreVerifier | None
) -> Provenance | None:
    """Return the proved provenance of a version, if it has one: its second attestation."""
    if len(entry.attestations) == 1:
        return None
    envelope = parse_envelope(_fetched(Digest(entry.attestations[1]), fetch))
    return check_provenance(envelope, digest=entry.digest, signer=signed.signer, sigstore=sigstore)


def _check_signer(history: History, signed: Signed, entry: DocumentVersion) -> None:
    try:
        check_release_signer(history, signed.signer, signed.time or entry.published_at)
    except Unverifiable as error:
        if not signed.time_missing:
            raise
        raise Unverifiable(
            error.code,
            f"{error.message}; it has a timestamp by {signed.time_missing}, which is not in the trust "
            "material, or was not valid then",
            hint="name a trust configuration that has this authority: `PLUGREG_TRUST_CONFIG=FILE`",
            details={"missing": TIMESTAMPS},
        ) from None


def _public_keys(document: PluginDocument) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for row in document.signers:
        if row.public_key is not None and row.signer.kind == "key":
            try:
                keys[row.signer.id] = decode_base64(row.public_key)
            except ValueError:
                raise InvalidInput(
                    "document_invalid", f"the public key of `{row.signer.words}` is not base64"
                ) from None
    return keys


def _fetched(digest: Digest, fetch: Fetch) -> bytes:
    content = fetch(digest)
    if Digest.of(content) != digest:
        raise IntegrityError(
            "attestation_altered", f"the signed statement `{digest}` was altered: its digest is another"
        )
    return content


def _compare(document: PluginDocument, history: History) -> None:
    """Refuse a document that says something else than the history it lists."""
    said = document.status
    yanked = {entry.version: (entry.yanked, entry.reason) for entry in document.versions}
    claims = {
        "name": document.name == history.plugin,
        "owners": _conditions(document.owners) == _conditions(history.owners),
        "status": (said.state, said.reason, said.replacement)
        == (history.state, history.reason, history.replacement),
        "yanked": yanked == {v: (v in history.yanked, history.yanked.get(v, "")) for v in yanked},
    }
    wrong = [claim for claim, agrees in claims.items() if not agrees]
    if wrong:
        raise IntegrityError(
            "document_contradicts_history",
            f"the document of `{document.name}` contradicts its signed history in: {', '.join(wrong)}",
        )


def _conditions(owners: Iterable[AnyOwner]) -> dict[str, dict[str, Any]]:
    return {owner.words: conditions_of(owner) for owner in owners}
