"""From an envelope to who signed it and what it says. Whether they may is `policy`'s question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg_schemas.errors import Unverifiable
from plugreg_schemas.statement import Statement, parse_statement
from plugreg_schemas.trust.keys import verify_signature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.names import Digest
    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.identity import KeySigner


@dataclass(frozen=True, slots=True)
class Signed:
    """A statement whose signature has been verified. `digest` names the envelope it came in."""

    digest: Digest
    statement: Statement
    signer: KeySigner
    public_key: bytes


def verify(envelope: Envelope, public_keys: Mapping[str, bytes]) -> Signed:
    """Verify an envelope with the public keys (DER SPKI) at hand, by key id, then read what it says.

    The payload is parsed only after its signature is proved.

    Raises:
        Unverifiable: `public_key_missing`.
        IntegrityError: `signature_invalid`, `public_key_mismatch`, `statement_mismatch`.
        InvalidInput: `public_key_invalid`, `statement_invalid`.
    """
    spki = public_keys.get(envelope.signer.id)
    if spki is None:
        raise Unverifiable(
            "public_key_missing", f"the public key of `{envelope.signer.words}` is not at hand"
        )
    verify_signature(envelope, spki)
    return Signed(envelope.digest, parse_statement(envelope.payload), envelope.signer, spki)
