"""From an envelope to who signed it and what it says. Whether they may is `policy`'s question.

The envelope's form decides which verifier judges it: a key for a key, trust material for a certificate. None
falls back to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg_schemas.errors import Unverifiable
from plugreg_schemas.statement import Statement, parse_statement
from plugreg_schemas.trust.keys import verify_signature
from plugreg_schemas.trust.timestamps import Stamped, judge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from plugreg_schemas.names import Digest
    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.sigstore import SigstoreVerifier


@dataclass(frozen=True, slots=True)
class Signed:
    """A statement whose signature has been verified. `digest` names the envelope it came in."""

    digest: Digest
    statement: Statement
    signer: AnySigner
    public_key: bytes
    """DER SPKI of the signing key; empty where a certificate signed, which is in the envelope."""
    time: datetime | None = None
    """The proved time of the signature; None where only the signer could tell it."""
    time_missing: str = ""
    """The timestamp authority whose stamp could not be judged, where that is why there is no time."""


def verify(
    envelope: Envelope, public_keys: Mapping[str, bytes], sigstore: SigstoreVerifier | None = None
) -> Signed:
    """Verify an envelope, then read what it says: the payload is parsed only after its signature is proved.

    `public_keys` are the keys at hand (DER SPKI) by key id; `sigstore` judges certificates and timestamps.

    Raises:
        Unverifiable: `public_key_missing`, `trust_material_missing`, `no_trusted_time`.
        IntegrityError: `signature_invalid`, `public_key_mismatch`, `envelope_not_canonical`,
            `statement_mismatch`.
        InvalidInput: `public_key_invalid`, `statement_invalid`.
        UsageError: `trust_config_invalid`.
    """
    spki, stamped = prove(envelope, public_keys, sigstore)
    statement = parse_statement(envelope.payload)
    return Signed(envelope.digest, statement, envelope.signer, spki, stamped.time, stamped.missing)


def prove(
    envelope: Envelope, public_keys: Mapping[str, bytes], sigstore: SigstoreVerifier | None
) -> tuple[bytes, Stamped]:
    """Verify a signature, whatever was signed. Return the public key, as in `Signed`, and the proved time.

    Raises as `verify`, and nothing about statements.
    """
    if envelope.certificate is not None:
        if sigstore is None:
            raise Unverifiable(
                "trust_material_missing",
                f"`{envelope.signer.words}` signed with a certificate, "
                "and there is no trust material to judge it",
                hint="name the trust configuration of its Sigstore: `PLUGREG_TRUST_CONFIG=FILE`",
            )
        return b"", Stamped(sigstore.verify(envelope))
    spki = public_keys.get(envelope.signer.id) if envelope.signer.kind == "key" else None
    if spki is None:
        raise Unverifiable(
            "public_key_missing", f"the public key of `{envelope.signer.words}` is not at hand"
        )
    verify_signature(envelope, spki)
    if not envelope.timestamps or sigstore is None:
        return spki, Stamped()
    return spki, judge(envelope.timestamps, envelope.signature, sigstore.trusted_root())
