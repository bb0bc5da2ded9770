"""Keys: two algorithms and nothing else, and a key is only who it hashes to."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, padding, rsa, x25519

from plugreg_schemas.errors import IntegrityError, InvalidInput, PlugregError
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.envelope import Envelope, pre_authentication_encoding
from plugreg_schemas.trust.identity import (
    CiSigner,
    KeySigner,
    OidcSigner,
    key_signer,
    parse_signer,
)
from plugreg_schemas.trust.keys import MAX_PUBLIC_KEY, load_public_key, public_bytes, sign, verify_signature
from tests.support.record import ALGORITHMS, author, publish

DER = serialization.Encoding.DER
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_a_key_signs_verifies_with_its_public_half(algorithm: str) -> None:
    by = author(algorithm)
    verify_signature(by.sign(publish("1.0.0")), by.spki)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_key_of_another_beside_a_genuine_statement(algorithm: str) -> None:
    by, other = author(algorithm), author(algorithm)
    with pytest.raises(IntegrityError) as refused:
        verify_signature(by.sign(publish("1.0.0")), other.spki)
    assert refused.value.code == "public_key_mismatch"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_signature_of_another_under_my_key_id(algorithm: str) -> None:
    by, other = author(algorithm), author(algorithm)
    payload = publish("1.0.0").payload()
    forged = Envelope.make(payload, other.sign_payload(payload).signature, by.signer)
    with pytest.raises(IntegrityError) as refused:
        verify_signature(forged, by.spki)
    assert refused.value.code == "signature_invalid"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "message",
    [b"payload", b"DSSEv1 4 text 7 payload", b"DSSEv1 28 application/vnd.in-toto+json 8 payload"],
    ids=["the bare payload", "another payload type", "another length"],
)
def test_signature_over_something_else_than_the_statement(algorithm: str, message: bytes) -> None:
    by = author(algorithm)
    envelope = Envelope.make(b"payload", sign(by.key, message), by.signer)
    with pytest.raises(IntegrityError) as refused:
        verify_signature(envelope, by.spki)
    assert refused.value.code == "signature_invalid"


def test_ecdsa_with_another_hash_is_no_signature() -> None:
    by = author("ecdsa-p256")
    assert isinstance(by.key, ec.EllipticCurvePrivateKey)
    payload = publish("1.0.0").payload()
    weak = by.key.sign(pre_authentication_encoding(payload), ec.ECDSA(hashes.SHA1()))  # noqa: S303 - the attack
    with pytest.raises(IntegrityError) as refused:
        verify_signature(Envelope.make(payload, weak, by.signer), by.spki)
    assert refused.value.code == "signature_invalid"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("signature", [b"", b"\0" * 64, b"0" * 500, b"\x30\x06\x02\x01\x00\x02\x01\x00"])
def test_bytes_that_are_no_signature(algorithm: str, signature: bytes) -> None:
    by = author(algorithm)
    with pytest.raises(IntegrityError) as refused:
        verify_signature(Envelope.make(publish("1.0.0").payload(), signature, by.signer), by.spki)
    assert refused.value.code == "signature_invalid"


def _foreign_keys() -> dict[str, bytes]:
    keys: dict[str, Any] = {
        "RSA": rsa.generate_private_key(65537, 2048),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
        "secp256k1": ec.generate_private_key(ec.SECP256K1()),
        "Ed448": ed448.Ed448PrivateKey.generate(),
        "X25519": x25519.X25519PrivateKey.generate(),
        "DSA": dsa.generate_private_key(2048),
    }
    return {name: key.public_key().public_bytes(DER, SPKI) for name, key in keys.items()}


FOREIGN = _foreign_keys()


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_other_kinds_of_key_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_public_key(FOREIGN[name])
    assert refused.value.code == "public_key_invalid"


def test_rsa_signature_is_refused_although_the_key_hashes_to_its_id() -> None:
    key = rsa.generate_private_key(65537, 2048)
    spki = key.public_key().public_bytes(DER, SPKI)
    payload = publish("1.0.0").payload()
    signature = key.sign(pre_authentication_encoding(payload), padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(InvalidInput) as refused:
        verify_signature(Envelope.make(payload, signature, key_signer(spki)), spki)
    assert refused.value.code == "public_key_invalid"


def test_public_key_in_a_second_spelling_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    point = key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    head = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    assert isinstance(serialization.load_der_public_key(head + point), ec.EllipticCurvePublicKey)
    for spelling in (head + point, public_bytes(key) + b"\0"):
        with pytest.raises(InvalidInput) as refused:
            load_public_key(spelling)
        assert refused.value.code == "public_key_invalid"


@pytest.mark.parametrize(
    "content", [b"", b"\x30", b"x" * 44, b"-----BEGIN PUBLIC KEY-----", b"\x30" * (MAX_PUBLIC_KEY + 1)]
)
def test_bytes_that_are_no_public_key(content: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_public_key(content)
    assert refused.value.code == "public_key_invalid"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_changed_byte_in_a_public_key_is_another_key(algorithm: str) -> None:
    by = author(algorithm)
    envelope = by.sign(publish("1.0.0"))
    for position in range(len(by.spki)):
        changed = bytearray(by.spki)
        changed[position] ^= 1
        with pytest.raises(PlugregError) as refused:
            verify_signature(envelope, bytes(changed))
        assert refused.value.code == "public_key_mismatch"


KEY = KeySigner(id=Digest.of(b"key"))
PERSON = OidcSigner(issuer="https://id.example", subject="ada@example.com")
WORKFLOW = CiSigner(issuer="https://ci.example", repository_id="1", owner_id="2", workflow=".ci/publish.yml")


@pytest.mark.parametrize("signer", [KEY, PERSON, WORKFLOW], ids=["key", "oidc", "ci"])
def test_words_of_an_identity_read_back_as_the_same_identity(
    signer: KeySigner | OidcSigner | CiSigner,
) -> None:
    assert parse_signer(signer.words) == signer


def test_what_is_only_shown_is_no_part_of_an_identity() -> None:
    renamed = WORKFLOW.model_copy(update={"repository": "new/name", "ref": "refs/heads/x"})
    assert renamed.words == WORKFLOW.words


@pytest.mark.parametrize(
    "words",
    [
        "",
        "key",
        "key:",
        "key:sha256:abc",
        f"key:{KEY.id}#x",
        f"KEY:{KEY.id}",
        f" {KEY.words}",
        f"{KEY.words}\n",
        "oidc:https://id.example",
        "oidc:https://id.example#",
        "oidc:#ada@example.com",
        "oidc:https://id.example#a#b",
        "oidc:https://id.example#a b",
        "oidc:https://id.example#a\x1b[2K",
        "ci:https://ci.example#1#2",
        "ci:https://ci.example#1#2#w#more",
        "x509:anything",
    ],
)
def test_words_that_are_no_identity(words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_signer(words)
    assert refused.value.code == "signer_invalid"
    assert "\x1b" not in str(refused.value)


def test_ed25519_keys_in_the_tests_are_real() -> None:
    by = author("ed25519")
    assert isinstance(by.key, ed25519.Ed25519PrivateKey)
    assert len(by.spki) == 44
