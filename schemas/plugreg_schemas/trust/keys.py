"""Plain keys: Ed25519, and ECDSA on P-256 with SHA-256. Nothing else, so nothing can be negotiated down.

A key is known by the SHA-256 of its public half (DER SubjectPublicKeyInfo). Whoever hands over a public key
proves nothing: it is accepted only if it hashes to the identity that the statement and the history name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from plugreg_schemas.errors import IntegrityError, InvalidInput
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.identity import key_signer

if TYPE_CHECKING:
    from plugreg_schemas.trust.envelope import Envelope

MAX_PUBLIC_KEY: Final = 1024
"""Bytes of a public key; a P-256 one has 91, an Ed25519 one 44."""

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey


def load_public_key(spki: bytes) -> PublicKey:
    """Read a public key from its DER SubjectPublicKeyInfo, which must be its only spelling.

    Raises:
        InvalidInput: `public_key_invalid`.
    """
    try:
        key = serialization.load_der_public_key(spki) if len(spki) <= MAX_PUBLIC_KEY else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if (
        isinstance(key, ed25519.Ed25519PublicKey)
        or (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1))
    ) and public_bytes(key) == spki:
        return key
    raise InvalidInput(
        "public_key_invalid",
        "the public key is not an Ed25519 or ECDSA P-256 key in DER",
        hint="`plugreg key new` makes one that is accepted",
    )


def public_bytes(key: PublicKey) -> bytes:
    """Return the DER SubjectPublicKeyInfo of a key."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def sign(key: PrivateKey, message: bytes) -> bytes:
    """Sign `message`."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    return key.sign(message, ec.ECDSA(hashes.SHA256()))


def verify_signature(envelope: Envelope, spki: bytes) -> None:
    """Prove that `envelope` is signed by the key with this public half, and that this is the key it names.

    Raises:
        IntegrityError: `public_key_mismatch`: it is not the key that the envelope names; `signature_invalid`.
        InvalidInput: `public_key_invalid`.
    """
    if envelope.signer.kind != "key" or Digest.of(spki) != envelope.signer.id:
        raise IntegrityError(
            "public_key_mismatch",
            f"the public key is `{key_signer(spki).words}`, the statement names `{envelope.signer.words}`",
        )
    key = load_public_key(spki)
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(envelope.signature, envelope.signed_bytes)
        else:
            key.verify(envelope.signature, envelope.signed_bytes, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise IntegrityError(
            "signature_invalid", f"the signature is not one by `{envelope.signer.words}` over this statement"
        ) from None
