"""A signed statement as bytes: a DSSE envelope inside a Sigstore bundle v0.3.

    {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
     "verificationMaterial": {"publicKey": {"hint": <base64 SHA-256 of the DER SPKI>}, "tlogEntries": []},
     "dsseEnvelope": {"payload": <base64>, "payloadType": "application/vnd.in-toto+json",
                      "signatures": [{"sig": <base64>, "keyid": ""}]}}

where the key's owner wants the time proved, with timestamps over the bytes of the signature:

     "verificationMaterial": {..., "timestampVerificationData": {"rfc3161Timestamps":
                                                                  [{"signedTimestamp": <base64 RFC 3161>}]}}

or, signed without a key of one's own, with the material of a certificate instead:

     "verificationMaterial": {"certificate": {"rawBytes": <base64 DER>}, "tlogEntries": [<one log entry>],
                              "timestampVerificationData": {"rfc3161Timestamps": [...]}}

Never both: which of the two verifiers judges it is decided here, by its form. The same values have exactly
one spelling: canonical JSON, canonical base64, no member that nothing verifies (`tlogEntries` of a key and
`keyid` may be left out; the log entry and the timestamps are read by the verifier, which compares their
spelling). The digest of an envelope names it, so a changed byte is either another name or no envelope at all.
It is not the identity of a signature: the same statement can be signed again, and then has another name. The
signature is over the DSSE v1 encoding of the payload, never the JSON.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import IntegrityError, InvalidInput, TooLarge, Unverifiable
from plugreg_schemas.fields import Closed, check_model
from plugreg_schemas.names import Digest, quoted
from plugreg_schemas.statement import PAYLOAD_TYPE
from plugreg_schemas.trust.identity import KeySigner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugreg_schemas.trust.identity import AnySigner

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
MAX_ENVELOPE: Final = 1 << 20
"""Bytes of an envelope, checked before anything is parsed."""
MAX_TIMESTAMPS: Final = 8
"""Timestamps of a signature by a key; one is enough, and each costs a verification."""


def decode_base64(text: str) -> bytes:
    """Decode base64 that has exactly one spelling.

    Raises:
        ValueError: it has another one.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None
    if base64.b64encode(content).decode() != text:
        raise ValueError("not the canonical base64 of its bytes")
    return content


def encode_base64(content: bytes) -> str:
    """Return standard base64 with padding."""
    return base64.b64encode(content).decode()


def _checked(text: str) -> str:
    decode_base64(text)
    return text


_Base64 = Annotated[str, Field(max_length=MAX_ENVELOPE), AfterValidator(_checked)]


class _PublicKey(Closed):
    hint: _Base64


class _Timestamp(Closed):
    signed: Annotated[_Base64, Field(alias="signedTimestamp")]


class _Timestamps(Closed):
    rfc3161: Annotated[
        tuple[_Timestamp, ...], Field(alias="rfc3161Timestamps", min_length=1, max_length=MAX_TIMESTAMPS)
    ]


_NO_TIMESTAMPS: Final = _Timestamps.model_construct(rfc3161=())


class _KeyMaterial(Closed):
    public_key: Annotated[_PublicKey, Field(alias="publicKey")]
    tlog_entries: Annotated[tuple[()], Field(alias="tlogEntries")] = ()
    timestamps: Annotated[_Timestamps, Field(alias="timestampVerificationData")] = _NO_TIMESTAMPS


class _Certificate(Closed):
    raw_bytes: Annotated[_Base64, Field(alias="rawBytes")]


class _CertificateMaterial(Closed):
    certificate: _Certificate
    tlog_entries: Annotated[
        tuple[dict[str, Any], ...], Field(alias="tlogEntries", min_length=1, max_length=1)
    ]
    timestamps: Annotated[dict[str, Any] | None, Field(alias="timestampVerificationData")] = None


class _Signature(Closed):
    sig: _Base64
    keyid: Literal[""] = ""


class _Dsse(Closed):
    payload: _Base64
    payload_type: Annotated[Literal["application/vnd.in-toto+json"], Field(alias="payloadType")]
    signatures: Annotated[tuple[_Signature, ...], Field(min_length=1, max_length=1)]


class _KeyBundle(Closed):
    media_type: Annotated[Literal["application/vnd.dev.sigstore.bundle.v0.3+json"], Field(alias="mediaType")]
    material: Annotated[_KeyMaterial, Field(alias="verificationMaterial")]
    envelope: Annotated[_Dsse, Field(alias="dsseEnvelope")]


class _CertificateBundle(Closed):
    media_type: Annotated[Literal["application/vnd.dev.sigstore.bundle.v0.3+json"], Field(alias="mediaType")]
    material: Annotated[_CertificateMaterial, Field(alias="verificationMaterial")]
    envelope: Annotated[_Dsse, Field(alias="dsseEnvelope")]


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed statement, not verified yet. `content` is its canonical bytes, `digest` its name."""

    content: bytes
    payload: bytes
    signature: bytes
    signer: AnySigner
    """Who the envelope claims to be signed by: the verifier decides."""
    certificate: bytes | None = None
    """The signing certificate (DER) of a keyless signature; None where a key signed."""
    timestamps: tuple[bytes, ...] = ()
    """Timestamps (RFC 3161 responses) over a signature by a key."""

    @property
    def digest(self) -> Digest:
        """The digest of the envelope's own bytes, under which it is stored."""
        return Digest.of(self.content)

    @property
    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return pre_authentication_encoding(self.payload)

    @classmethod
    def make(
        cls, payload: bytes, signature: bytes, signer: KeySigner, *, timestamps: Sequence[bytes] = ()
    ) -> Self:
        """Put a payload and its signature into an envelope, and what timestamp authorities said of it."""
        material: dict[str, object] = {
            "publicKey": {"hint": encode_base64(bytes.fromhex(Digest(signer.id).hex))},
            "tlogEntries": [],
        }
        if timestamps:
            stamps = [{"signedTimestamp": encode_base64(stamp)} for stamp in timestamps]
            material["timestampVerificationData"] = {"rfc3161Timestamps": stamps}
        content = canonical_json(
            {
                "mediaType": MEDIA_TYPE,
                "verificationMaterial": material,
                "dsseEnvelope": {
                    "payload": encode_base64(payload),
                    "payloadType": PAYLOAD_TYPE,
                    "signatures": [{"sig": encode_base64(signature), "keyid": ""}],
                },
            }
        )
        return cls(content, payload, signature, signer, timestamps=tuple(timestamps))


def pre_authentication_encoding(payload: bytes) -> bytes:
    """Return the DSSE v1 encoding of an in-toto payload, which is what gets signed."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def parse_envelope(content: bytes) -> Envelope:
    """Read an envelope from its canonical bytes.

    Raises:
        TooLarge: `envelope_too_large`.
        InvalidInput: `envelope_invalid`, `certificate_invalid`, `certificate_identity`, or a JSON fault.
        IntegrityError: `envelope_not_canonical`: the same values in another spelling.
        Unverifiable: `envelope_version`, `signature_kind`: this version cannot judge it.
    """
    if len(content) > MAX_ENVELOPE:
        raise TooLarge("envelope_too_large", f"a signed statement is at most {MAX_ENVELOPE} bytes")
    value = parse_json(content, "envelope")
    envelope = read_envelope(value)
    if envelope.content != content:
        raise IntegrityError(
            "envelope_not_canonical", "the signed statement is not spelled in its one canonical form"
        )
    return envelope


def read_envelope(value: object) -> Envelope:
    """Read an envelope from parsed JSON, such as a member of a request; see `parse_envelope`."""
    _check_version(value)
    content = canonical_json(value)
    if len(content) > MAX_ENVELOPE:
        raise TooLarge("envelope_too_large", f"a signed statement is at most {MAX_ENVELOPE} bytes")
    material = value.get("verificationMaterial") if isinstance(value, dict) else None
    if isinstance(material, dict) and "certificate" in material:
        by_certificate = check_model(_CertificateBundle, value, code="envelope_invalid", file="envelope")
        return _by_certificate(by_certificate, content)
    by_key = check_model(_KeyBundle, value, code="envelope_invalid", file="envelope")
    return _by_key(by_key, content)


def _by_key(bundle: _KeyBundle, content: bytes) -> Envelope:
    hint = decode_base64(bundle.material.public_key.hint)
    if len(hint) != 32:  # noqa: PLR2004 - SHA-256
        raise InvalidInput("envelope_invalid", "`publicKey.hint` is not the SHA-256 of a public key")
    return Envelope(
        content=content,
        payload=decode_base64(bundle.envelope.payload),
        signature=decode_base64(bundle.envelope.signatures[0].sig),
        signer=KeySigner(id=Digest.from_hex(hint.hex())),
        timestamps=tuple(decode_base64(stamp.signed) for stamp in bundle.material.timestamps.rfc3161),
    )


def _by_certificate(bundle: _CertificateBundle, content: bytes) -> Envelope:
    from plugreg_schemas.trust.certificate import read_signer  # noqa: PLC0415 - X.509 costs, and keys need none

    certificate = decode_base64(bundle.material.certificate.raw_bytes)
    return Envelope(
        content=content,
        payload=decode_base64(bundle.envelope.payload),
        signature=decode_base64(bundle.envelope.signatures[0].sig),
        signer=read_signer(certificate),
        certificate=certificate,
    )


def _check_version(value: object) -> None:
    if not isinstance(value, dict):
        raise InvalidInput("envelope_invalid", "a signed statement is a JSON object")
    kind = value.get("mediaType")
    if (
        isinstance(kind, str)
        and kind != MEDIA_TYPE
        and kind.startswith("application/vnd.dev.sigstore.bundle")
    ):
        raise Unverifiable(
            "envelope_version",
            f"the signed statement has the media type {quoted(kind)}, which this version does not read",
            hint="it may need a newer plugreg",
        )
    material = value.get("verificationMaterial")
    if isinstance(material, dict) and "x509CertificateChain" in material:
        raise Unverifiable(
            "signature_kind",
            "the statement is signed with a chain of certificates, as older signers make them",
            hint="sign it again: `plugreg publish` sends the signing certificate alone",
        )
