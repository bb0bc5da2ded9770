"""The certificate authority of a local Sigstore: a token in, a certificate for ten minutes out, logged.

Which claims of a CI token become which extension follows Fulcio's table; an e-mail identity has its issuer only.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, GeneralName, ObjectIdentifier

ARC = "1.3.6.1.4.1.57264.1."
SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
HOST = "https://ci.example/"
CI_EXTENSIONS = {
    "9": HOST + "{job_workflow_ref}",
    "11": "{runner_environment}",
    "12": HOST + "{repository}",
    "13": "{sha}",
    "14": "{ref}",
    "15": "{repository_id}",
    "16": HOST + "{repository_owner}",
    "17": "{repository_owner_id}",
    "18": HOST + "{workflow_ref}",
    "19": "{sha}",
    "20": "{event_name}",
    "22": "public",
}


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def spki(key: Any) -> bytes:
    content: bytes = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return content


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(signs, False, False, False, False, not signs, not signs, False, False)


def authority(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: Certificate | None = None,
    issuer_key: ec.EllipticCurvePrivateKey | None = None,
    leaf: ObjectIdentifier | None = None,
) -> Certificate:
    """A certificate of ten years: a root without `issuer`, one that signs no others with `leaf`."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"plugreg test {name}")])
    signing = issuer_key or key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=leaf is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
        .add_extension(key_usage(signs=leaf is not None), critical=True)
    )
    if leaf is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([leaf]), critical=True)
    return builder.sign(signing, hashes.SHA256())


@dataclass
class Fulcio:
    """A root, an intermediate and a certificate transparency log. `without` drops extensions by number."""

    root_key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    log_key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.root = authority("root", self.root_key)
        self.intermediate = authority("intermediate", self.key, issuer=self.root, issuer_key=self.root_key)

    @property
    def chain(self) -> list[Certificate]:
        return [self.intermediate, self.root]

    @property
    def log_id(self) -> bytes:
        return sha256(spki(self.log_key))

    def certify(self, claims: dict[str, Any], request: bytes) -> list[str]:
        """The certificate for a signing request (PEM), with its chain, as PEM."""
        csr = x509.load_pem_x509_csr(request)
        if not csr.is_signature_valid:
            raise ValueError("the request is not signed by its key")
        made = self.issue(claims, csr.public_key())
        return [c.public_bytes(Encoding.PEM).decode() for c in (made, *self.chain)]

    def issue(self, claims: dict[str, Any], public: Any) -> Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.intermediate.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(key_usage(signs=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([subject_of(claims)]), critical=True)
        )
        for name, value in extensions_of(claims).items():
            if name not in self.without:
                oid = x509.ObjectIdentifier(ARC + name)
                builder = builder.add_extension(x509.UnrecognizedExtension(oid, value), critical=False)
        stamps = self._stamps(builder.sign(self.key, hashes.SHA256()).tbs_certificate_bytes)
        return builder.add_extension(x509.UnrecognizedExtension(SCTS, stamps), critical=False).sign(
            self.key, hashes.SHA256()
        )

    def _stamps(self, tbs: bytes) -> bytes:
        """The log's promise (RFC 6962) over the certificate without it, as the extension holds it."""
        moment = struct.pack("!Q", int(time.time() * 1000))
        entry = sha256(spki(self.key)) + len(tbs).to_bytes(3, "big") + tbs
        signed = b"\0\0" + moment + struct.pack("!H", 1) + entry + b"\0\0"
        signature = self.log_key.sign(signed, ec.ECDSA(hashes.SHA256()))
        stamp = b"\0" + self.log_id + moment + b"\0\0\x04\x03" + struct.pack("!H", len(signature)) + signature
        stamps = struct.pack("!H", len(stamp)) + stamp
        body = struct.pack("!H", len(stamps)) + stamps
        return b"\x04" + _length(len(body)) + body


def subject_of(claims: dict[str, Any]) -> GeneralName:
    if "job_workflow_ref" in claims:
        return x509.UniformResourceIdentifier(HOST + claims["job_workflow_ref"])
    if "email" in claims:
        return x509.RFC822Name(claims["email"])
    return x509.UniformResourceIdentifier(claims["sub"])


def extensions_of(claims: dict[str, Any]) -> dict[str, bytes]:
    texts = {"8": claims["iss"]}
    if "job_workflow_ref" in claims:
        texts |= {number: text.format_map(claims) for number, text in CI_EXTENSIONS.items()}
    old_issuer = {"1": claims["iss"].encode()}  # the first extensions were no DER
    return old_issuer | {
        number: b"\x0c" + _length(len(text.encode())) + text.encode() for number, text in texts.items()
    }


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(length)]) + length


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()
