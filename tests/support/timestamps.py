"""A timestamp authority (RFC 3161) for tests: one request in, one signed token out.

DER is written with `der(tag, parts)`: nothing here reads more of a request than its imprint and its nonce.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.authorities import authority, new_key

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SEQUENCE, SET, INTEGER, OCTETS, OID, UTC_TIME, TIME = 0x30, 0x31, 0x02, 0x04, 0x06, 0x17, 0x18
SHA256 = "2.16.840.1.101.3.4.2.1"
ECDSA_SHA256 = "1.2.840.10045.4.3.2"
SIGNED_DATA = "1.2.840.113549.1.7.2"
TST_INFO = "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE = "1.2.840.113549.1.9.3"
MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
SIGNING_TIME = "1.2.840.113549.1.9.5"
SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"
POLICY = "1.3.6.1.4.1.57264.2"


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes([tag, size]) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def number(value: int) -> bytes:
    return der(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    out = b""
    for arc in (first * 40 + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        out += bytes(reversed(groups))
    return der(OID, out)


def parts_of(content: bytes) -> list[tuple[int, bytes, bytes]]:
    """The elements that stand side by side in `content`: tag, body, and the element whole."""
    found = []
    while content:
        size, start = content[1], 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(content[2:start], "big")
        found.append((content[0], content[start : start + size], content[: start + size]))
        content = content[start + size :]
    return found


@dataclass
class TimestampAuthority:
    """Signs what time it is; `at` makes it lie."""

    at: datetime | None = None
    root_key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    def __post_init__(self) -> None:
        self.root = authority("timestamp root", self.root_key)
        self.certificate = authority(
            "timestamps",
            self.key,
            issuer=self.root,
            issuer_key=self.root_key,
            leaf=ExtendedKeyUsageOID.TIME_STAMPING,
        )

    @property
    def chain(self) -> list[Certificate]:
        return [self.certificate, self.root]

    def answer(self, request: bytes) -> bytes:
        """The response to one request."""
        (_, body, _), *_ = parts_of(request)
        _version, (_, _, imprint), *options = parts_of(body)
        nonce = b"".join(whole for tag, _, whole in options if tag == INTEGER)
        with_certificate = any(tag == 0x01 and body != b"\0" for tag, body, _ in options)
        now = (self.at or datetime.now(UTC)).astimezone(UTC)
        info = der(
            SEQUENCE,
            number(1),
            oid(POLICY),
            imprint,
            number(secrets.randbits(62)),
            der(TIME, now.strftime("%Y%m%d%H%M%SZ").encode()),
            nonce,
        )
        token = der(SEQUENCE, oid(SIGNED_DATA), der(0xA0, self._signed(info, now, with_certificate)))
        return der(SEQUENCE, der(SEQUENCE, number(0)), token)

    def _signed(self, info: bytes, now: datetime, with_certificate: bool) -> bytes:
        certificate = self.certificate.public_bytes(Encoding.DER)
        name = self.certificate.issuer.public_bytes()
        sha256 = der(SEQUENCE, oid(SHA256))
        digest = hashlib.sha256(certificate).digest()
        attributes = sorted(
            der(SEQUENCE, oid(kind), der(SET, value))
            for kind, value in (
                (CONTENT_TYPE, oid(TST_INFO)),
                (SIGNING_TIME, der(UTC_TIME, now.strftime("%y%m%d%H%M%SZ").encode())),
                (MESSAGE_DIGEST, der(OCTETS, hashlib.sha256(info).digest())),
                (SIGNING_CERTIFICATE, der(SEQUENCE, der(SEQUENCE, der(SEQUENCE, der(OCTETS, digest))))),
            )
        )
        signature = self.key.sign(der(SET, *attributes), ec.ECDSA(hashes.SHA256()))
        signer = der(
            SEQUENCE,
            number(1),
            der(SEQUENCE, name, number(self.certificate.serial_number)),
            sha256,
            der(0xA0, *attributes),
            der(SEQUENCE, oid(ECDSA_SHA256)),
            der(OCTETS, signature),
        )
        return der(
            SEQUENCE,
            number(3),
            der(SET, sha256),
            der(SEQUENCE, oid(TST_INFO), der(0xA0, der(OCTETS, info))),
            der(0xA0, certificate) if with_certificate else b"",
            der(SET, signer),
        )
