"""Envelopes: one spelling, nothing that is not verified, and no byte that can be changed."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput, PlugregError, TooLarge, Unverifiable
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.envelope import (
    MAX_ENVELOPE,
    decode_base64,
    parse_envelope,
    pre_authentication_encoding,
    read_envelope,
)
from plugreg_schemas.trust.verify import verify
from tests.support.record import ALGORITHMS, Author, author, publish

CORPUS = Path(os.environ.get("PLUGREG_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


def envelope_value(by: Author | None = None) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((by or author()).sign(publish("1.0.0")).content)
    return value


def test_signed_bytes_are_the_pre_authentication_encoding_of_dsse_v1() -> None:
    assert pre_authentication_encoding(b"{}") == b"DSSEv1 28 application/vnd.in-toto+json 2 {}"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_envelope_reads_back_as_it_was_made(algorithm: str) -> None:
    by = author(algorithm)
    made = by.sign(publish("1.0.0"))
    assert parse_envelope(made.content) == made
    assert made.digest == Digest.of(made.content)
    signed = verify(made, {by.signer.id: by.spki})
    assert (signed.statement, signed.signer, signed.digest) == (publish("1.0.0"), by.signer, made.digest)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("mask", [0x01, 0x02, 0x20, 0x80, 0xFF])
def test_one_byte_changed_anywhere_in_an_envelope(algorithm: str, mask: int) -> None:
    by = author(algorithm)
    content = by.sign(publish("1.0.0")).content
    keys = {by.signer.id: by.spki}
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= mask
        with pytest.raises(PlugregError) as refused:
            verify(parse_envelope(bytes(changed)), keys)
        assert refused.value.code.isidentifier(), position


@pytest.mark.parametrize("change", ["dropped", "doubled"])
def test_one_byte_dropped_or_doubled_anywhere_in_an_envelope(change: str) -> None:
    by = author()
    content = by.sign(publish("1.0.0")).content
    keys = {by.signer.id: by.spki}
    for at in range(len(content)):
        rest = content[at + 1 :] if change == "dropped" else content[at:]
        with pytest.raises(PlugregError):
            verify(parse_envelope(content[: at + (change == "doubled")] + rest), keys)


@pytest.mark.parametrize(
    "respell",
    [
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, indent=1).encode(),
        lambda value: canonical_json(value) + b"\n",
        lambda value: b" " + canonical_json(value),
        lambda value: canonical_json(value).replace(b'"keyid"', b'"key\\u0069d"'),
        lambda value: json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode(),
    ],
    ids=["spaces", "indent", "newline", "leading space", "escape", "order"],
)
def test_the_same_values_in_another_spelling(respell: Any) -> None:
    with pytest.raises(IntegrityError) as refused:
        parse_envelope(respell(envelope_value()))
    assert refused.value.code == "envelope_not_canonical"


def test_a_request_may_carry_the_values_in_any_spelling() -> None:
    made = author().sign(publish("1.0.0"))
    assert read_envelope(json.loads(json.dumps(json.loads(made.content), indent=3))) == made


def test_members_that_other_writers_leave_out_may_be_missing() -> None:
    by = author()
    value = envelope_value(by)
    del value["verificationMaterial"]["tlogEntries"]
    del value["dsseEnvelope"]["signatures"][0]["keyid"]
    verify(parse_envelope(canonical_json(value)), {by.signer.id: by.spki})


@pytest.mark.parametrize(
    "text", ["QQ", "QQ=", "QR==", "QQ==\n", " QQ==", "QQ==QQ==", "Q-_=", "Q\u00e4==", "QQ==="], ids=repr
)
def test_base64_has_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|ASCII|padding"):
        decode_base64(text)


def _with(path: str, new: Any) -> Any:
    def change(value: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        place: Any = value
        for step in parents:
            place = place[int(step)] if step.isdecimal() else place[step]
        place[last] = new

    return change


HINT = base64.b64encode(b"\0" * 32).decode()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (_with("extra", 1), "/extra"),
        (_with("media_type", "x"), "/media_type"),
        (_with("mediaType", "text/plain"), "/mediaType"),
        (_with("mediaType", None), "/mediaType"),
        (_with("messageSignature", {}), "/messageSignature"),
        (_with("verificationMaterial", []), "/verificationMaterial"),
        (
            _with("verificationMaterial/timestampVerificationData", {}),
            "/verificationMaterial/timestampVerificationData/rfc3161Timestamps",
        ),
        (
            _with("verificationMaterial/timestampVerificationData", {"rfc3161Timestamps": []}),
            "/verificationMaterial/timestampVerificationData/rfc3161Timestamps",
        ),
        (
            _with("verificationMaterial/timestampVerificationData", None),
            "/verificationMaterial/timestampVerificationData",
        ),
        (
            _with(
                "verificationMaterial/timestampVerificationData",
                {"rfc3161Timestamps": [{"signedTimestamp": "AAA"}]},
            ),
            "/verificationMaterial/timestampVerificationData/rfc3161Timestamps/0/signedTimestamp",
        ),
        (
            _with(
                "verificationMaterial/timestampVerificationData",
                {"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}] * 9},
            ),
            "/verificationMaterial/timestampVerificationData/rfc3161Timestamps",
        ),
        (_with("verificationMaterial/tlogEntries", [{}]), "/verificationMaterial/tlogEntries"),
        (_with("verificationMaterial/publicKey/hint", "no base64"), "/verificationMaterial/publicKey/hint"),
        (_with("verificationMaterial/publicKey/rawBytes", ""), "/verificationMaterial/publicKey/rawBytes"),
        (_with("dsseEnvelope/payloadType", "text/plain"), "/dsseEnvelope/payloadType"),
        (_with("dsseEnvelope/payload", 3), "/dsseEnvelope/payload"),
        (_with("dsseEnvelope/signatures", []), "/dsseEnvelope/signatures"),
        (_with("dsseEnvelope/signatures", [{"sig": ""}, {"sig": ""}]), "/dsseEnvelope/signatures"),
        (_with("dsseEnvelope/signatures", [{"sig": "", "keyid": "k"}]), "/dsseEnvelope/signatures/0/keyid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_member_that_is_wrong_or_that_nothing_verifies(change: Any, pointer: str) -> None:
    value = envelope_value()
    change(value)
    with pytest.raises(InvalidInput) as refused:
        read_envelope(value)
    assert refused.value.code == "envelope_invalid"
    assert pointer in {finding.pointer for finding in refused.value.findings}


@pytest.mark.parametrize("value", [None, 1, "x", [], [{}], {}])
def test_values_that_are_no_envelope(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_envelope(value)
    assert refused.value.code == "envelope_invalid"


@pytest.mark.parametrize(
    "hint", ["", base64.b64encode(b"\0" * 31).decode(), base64.b64encode(b"\0" * 64).decode()]
)
def test_hint_that_is_no_sha256(hint: str) -> None:
    value = envelope_value()
    value["verificationMaterial"]["publicKey"]["hint"] = hint
    with pytest.raises(InvalidInput) as refused:
        read_envelope(value)
    assert refused.value.code == "envelope_invalid"


@pytest.mark.parametrize("beside", [True, False], ids=["beside the key", "instead of the key"])
def test_certificate_that_makes_no_certificate_bundle(beside: bool) -> None:
    value = envelope_value()
    value["verificationMaterial"]["certificate"] = {"rawBytes": "AAAA"}
    if not beside:
        del value["verificationMaterial"]["publicKey"]
    with pytest.raises(InvalidInput) as refused:
        read_envelope(value)
    assert refused.value.code == "envelope_invalid"


@pytest.mark.parametrize("beside", [True, False], ids=["beside the key", "instead of the key"])
def test_chain_of_certificates_cannot_be_judged(beside: bool) -> None:
    value = envelope_value()
    value["verificationMaterial"]["x509CertificateChain"] = {"certificates": []}
    if not beside:
        del value["verificationMaterial"]["publicKey"]
    with pytest.raises(Unverifiable) as refused:
        read_envelope(value)
    assert refused.value.code == "signature_kind"


@pytest.mark.parametrize(
    "kind",
    [
        "application/vnd.dev.sigstore.bundle.v0.4+json",
        "application/vnd.dev.sigstore.bundle+json;version=0.3",
        "application/vnd.dev.sigstore.bundle+json;version=0.1",
    ],
)
def test_bundle_of_another_version_cannot_be_judged(kind: str) -> None:
    value = envelope_value()
    value["mediaType"] = kind
    with pytest.raises(Unverifiable) as refused:
        read_envelope(value)
    assert refused.value.code == "envelope_version"


def test_size_is_looked_at_before_anything_is_parsed() -> None:
    with pytest.raises(TooLarge) as refused:
        parse_envelope(b"[" * (MAX_ENVELOPE + 1))
    assert refused.value.code == "envelope_too_large"


def test_an_envelope_that_is_too_large_in_a_request() -> None:
    value = envelope_value()
    value["dsseEnvelope"]["payload"] = base64.b64encode(b"x" * (MAX_ENVELOPE // 4 * 3)).decode()
    with pytest.raises(TooLarge) as refused:
        read_envelope(value)
    assert refused.value.code == "envelope_too_large"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "json_invalid"),
        (b"{", "json_invalid"),
        (b"\xff\xfe{}", "text_encoding"),
        (b"\x80", "text_encoding"),
        (b'{"mediaType":1,"mediaType":2}', "json_duplicate_key"),
        (b'{"a":NaN}', "json_number"),
        (b'{"a":"\\ud800"}', "json_surrogate"),
        (b"[" * 100_000, "json_too_deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "json_too_deep"),
        (b"9" * 5000, "json_number"),
    ],
    ids=[
        "empty",
        "cut",
        "bom",
        "not utf-8",
        "duplicate",
        "nan",
        "surrogate",
        "very deep",
        "deep",
        "huge number",
    ],
)
def test_bytes_that_two_readers_could_read_differently(content: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_envelope(content)
    assert refused.value.code == code


def test_the_payload_is_not_parsed_before_its_signature_is_proved() -> None:
    by, other = author(), author()
    forged = other.sign_payload(b"\xff not even JSON")
    with pytest.raises(IntegrityError) as refused:
        verify(forged, {other.signer.id: by.spki})
    assert refused.value.code == "public_key_mismatch"


def test_key_that_is_not_at_hand_is_not_a_verdict_on_the_signature() -> None:
    with pytest.raises(Unverifiable) as refused:
        verify(author().sign(publish("1.0.0")), {})
    assert refused.value.code == "public_key_missing"


@pytest.mark.parametrize(
    ("name", "genuine"), [("managed-key-happy-path", True), ("managed-key-wrong-key_fail", False)]
)
def test_message_signature_with_a_managed_key_is_no_statement(name: str, genuine: bool) -> None:
    """A bare message signature binds bytes only; its primitive verdict is checked to know that the case is real."""
    folder = CORPUS / "signatures" / name
    if not folder.is_dir():
        pytest.skip(f"the corpus of real bundles is not at {CORPUS}")
    content = (folder / "bundle.sigstore.json").read_bytes()
    with pytest.raises(PlugregError) as refused:
        parse_envelope(content)
    assert refused.value.code == "envelope_invalid"
    signature = base64.b64decode(json.loads(content)["messageSignature"]["signature"])
    artifact = (folder.parent / "a.txt").read_bytes()
    assert _verifies((folder / "key.pub").read_bytes(), signature, artifact) is genuine


def _verifies(pem: bytes, signature: bytes, artifact: bytes) -> bool:
    try:
        key = serialization.load_pem_public_key(pem)
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(signature, artifact, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):  # one of the real cases has a key that is not even one
        return False
    return True


def test_every_real_certificate_bundle_is_refused_on_the_key_path() -> None:
    found = sorted((CORPUS / "signatures").glob("*/bundle.sigstore.json"))
    if not found:
        pytest.skip(f"the corpus of real bundles is not at {CORPUS}")
    for path in found:
        with pytest.raises(PlugregError) as refused:
            verify(read_envelope(json.loads(path.read_bytes())), {})
        codes = {"signature_kind", "envelope_version", "envelope_invalid", "trust_material_missing"}
        assert refused.value.code in codes, path.parent.name
