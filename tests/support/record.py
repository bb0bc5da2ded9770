"""A plugin's record made of real signatures: attestations by digest, and the document that lists them.

ada = author("ed25519")
record = Record.begin(ada, "1.0.0")
record.follow(ada, Yank(**record.place(), version="1.0.0", yanked=True, reason="loses data"))
prove_history(record.document(), record.fetch, REGISTRY)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from plugreg_schemas.api import PluginDocument
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Unverifiable
from plugreg_schemas.fields import format_time, read_model
from plugreg_schemas.history import History, fold
from plugreg_schemas.index import Admins
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import publish_statement, successor_statement
from plugreg_schemas.trust.envelope import (
    Envelope,
    encode_base64,
    parse_envelope,
    pre_authentication_encoding,
)
from plugreg_schemas.trust.identity import key_signer
from plugreg_schemas.trust.keys import public_bytes, sign
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from datetime import datetime

    from plugreg_schemas.statement import Owners, Statement, Status, Yank
    from plugreg_schemas.trust.identity import KeySigner
    from plugreg_schemas.trust.keys import PrivateKey
    from plugreg_schemas.trust.verify import Signed

REGISTRY = "urn:uuid:00000000-0000-4000-8000-000000000001"
OTHER_REGISTRY = "urn:uuid:00000000-0000-4000-8000-000000000002"
PUBLISHED_AT = "2026-01-31T12:00:00Z"
ALGORITHMS = ("ed25519", "ecdsa-p256")


@dataclass(frozen=True)
class Author:
    """Somebody with a key."""

    key: PrivateKey

    @property
    def spki(self) -> bytes:
        return public_bytes(self.key.public_key())

    @property
    def signer(self) -> KeySigner:
        return key_signer(self.spki)

    def sign_payload(self, payload: bytes) -> Envelope:
        return Envelope.make(payload, sign(self.key, pre_authentication_encoding(payload)), self.signer)

    def sign(self, statement: Statement) -> Envelope:
        return self.sign_payload(statement.payload())

    def signed(self, statement: Statement) -> Signed:
        return verify(self.sign(statement), {self.signer.id: self.spki})


def author(algorithm: str = "ed25519") -> Author:
    if algorithm == "ed25519":
        return Author(ed25519.Ed25519PrivateKey.generate())
    return Author(ec.generate_private_key(ec.SECP256R1()))


def bundle_digest(version: str) -> Digest:
    return Digest.of(b"the bundle of " + version.encode())


def publish(
    version: str, *, plugin: str = "demo", registry: str = REGISTRY, content: bytes = b""
) -> Statement:
    digest = Digest.of(content) if content else bundle_digest(version)
    return publish_statement(
        digest, registry=registry, plugin=plugin, version=version, format="agent-plugins"
    )


@dataclass
class Record:
    """What a registry keeps of one plugin. `value` is the document as JSON, free to be forged."""

    attestations: dict[str, bytes] = field(default_factory=dict)
    authors: dict[str, Author] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    releases: list[tuple[str, Author, Digest, Digest]] = field(default_factory=list)
    name: str = "demo"
    times: list[datetime] = field(default_factory=list)
    """When the registry took each statement; left out of the document where it is empty."""
    admins: Admins = field(default_factory=Admins)

    @classmethod
    def begin(cls, by: Author, version: str, **facts: Any) -> Record:
        record = cls(name=facts.get("plugin", "demo"))
        record.statements.append(record.publish(by, version, **facts))
        return record

    def publish(self, by: Author, version: str, **facts: Any) -> Digest:
        statement = publish(version, **{"plugin": self.name, **facts})
        digest = self.keep(by, by.sign(statement))
        self.releases.append((version, by, Digest(statement.digest), digest))
        return digest

    def follow(self, by: Author, predicate: Owners | Yank | Status) -> Digest:
        digest = self.keep(by, by.sign(successor_statement(predicate)))
        self.statements.append(digest)
        return digest

    def keep(self, by: Author, envelope: Envelope) -> Digest:
        self.authors[by.signer.id] = by
        self.attestations[envelope.digest] = envelope.content
        return envelope.digest

    def place(self) -> dict[str, Any]:
        return {
            "registry": REGISTRY,
            "plugin": self.name,
            "revision": len(self.statements),
            "previous": self.statements[-1],
        }

    def entries(self) -> list[Signed]:
        keys = {key: by.spki for key, by in self.authors.items()}
        return [verify(parse_envelope(self.attestations[digest]), keys) for digest in self.statements]

    def history(self) -> History:
        return fold(self.entries(), times=self.times, admins=self.admins)

    def value(self) -> dict[str, Any]:
        history = self.history()
        numbers = {key: number for number, key in enumerate(self.authors)}
        return {
            "api-version": "1",
            "name": self.name,
            "status": {"state": history.state, "reason": history.reason, "replacement": history.replacement},
            "history": list(self.statements),
            "history_times": [format_time(time) for time in self.times],
            "owners": [owner.model_dump(mode="json", exclude_none=True) for owner in history.owners],
            "signers": [
                {"signer": by.signer.model_dump(), "public_key": encode_base64(by.spki)}
                for by in self.authors.values()
            ],
            "versions": [
                {
                    "version": version,
                    "digest": digest,
                    "size": 100,
                    "published_at": PUBLISHED_AT,
                    "format": "agent-plugins",
                    "signer": numbers[by.signer.id],
                    "attestations": [attestation],
                    "yanked": version in history.yanked,
                    "reason": history.yanked.get(version, ""),
                }
                for version, by, digest, attestation in self.releases
            ],
        }

    def document(self, value: dict[str, Any] | None = None) -> PluginDocument:
        return read_model(PluginDocument, canonical_json(value or self.value()), code="document_invalid")

    def fetch(self, digest: Digest) -> bytes:
        try:
            return self.attestations[digest]
        except KeyError:
            raise Unverifiable("attestation_missing", f"there is no `{digest}`") from None
