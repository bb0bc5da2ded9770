"""An author's side of the wire, written from the protocol alone: http.client, keys and JSON.

It shares nothing with the product's client, so what both can do is what the registry does.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from plugreg_schemas.bundle import pack
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

IN_TOTO = "application/vnd.in-toto+json"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem, or empty."""
        return str(self.json().get("code", "")) if self.body else ""


def ask(
    url: str,
    method: str = "GET",
    body: bytes | Iterable[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> Answer:
    """One request on a connection of its own. A body that is no bytes is sent in chunks."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        chunked = not isinstance(body, bytes | None)
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # refused before the body was read: an answer is there
            connection.request(method, target, body, dict(headers or {}), encode_chunked=chunked)
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())
    finally:
        connection.close()


@dataclass(frozen=True)
class Key:
    """A signing key."""

    private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey = field(
        default_factory=ed25519.Ed25519PrivateKey.generate
    )

    @classmethod
    def ecdsa(cls) -> Key:
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @property
    def spki(self) -> bytes:
        return self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def id(self) -> str:
        return "sha256:" + hashlib.sha256(self.spki).hexdigest()

    @property
    def identity(self) -> dict[str, str]:
        return {"kind": "key", "id": self.id}

    def sign(self, message: bytes) -> bytes:
        if isinstance(self.private, ed25519.Ed25519PrivateKey):
            return self.private.sign(message)
        return self.private.sign(message, ec.ECDSA(hashes.SHA256()))

    def envelope(self, statement: object) -> dict[str, Any]:
        """A Sigstore bundle with the statement in a DSSE envelope."""
        payload = canonical(statement)
        return self.sealed(
            payload, self.sign(b"DSSEv1 %d %b %d %b" % (28, IN_TOTO.encode(), len(payload), payload))
        )

    def sealed(self, payload: bytes, signature: bytes) -> dict[str, Any]:
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "publicKey": {"hint": b64(hashlib.sha256(self.spki).digest())},
                "tlogEntries": [],
            },
            "dsseEnvelope": {
                "payload": b64(payload),
                "payloadType": IN_TOTO,
                "signatures": [{"sig": b64(signature), "keyid": ""}],
            },
        }


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def plugin_files(
    name: str = "demo", version: str | None = "1.0.0", **more: bytes | str
) -> dict[str, bytes | str]:
    """The files of a small plugin; keyword names stand for paths with `__` as `/`."""
    manifest = {"$schema": SCHEMA, "name": name} | ({"version": version} if version else {})
    servers = {"main": {"type": "stdio", "command": "python3", "args": ["server.py"]}}
    schema = SCHEMA.replace("plugin.schema", "mcp.schema")
    return {
        "plugin.json": json.dumps(manifest),
        "mcp.json": json.dumps({"$schema": schema, "mcpServers": servers}),
        "server.py": "print('hello')\n",
        **{path.replace("__", "/"): content for path, content in more.items()},
    }


def bundle_of(files: Mapping[str, bytes | str]) -> bytes:
    return pack(MemoryTree.of(files)).content


def plugin(name: str = "demo", version: str = "1.0.0", mark: str = "") -> bytes:
    """A bundle; another `mark` makes another digest."""
    return bundle_of(plugin_files(name, version, README=f"mark: {mark}\n"))


def publish_statement(
    registry: str, name: str, version: str, bundle: bytes, **predicate: object
) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": f"{name}-{version}.tar.zst", "digest": {"sha256": digest_of(bundle)[7:]}}],
        "predicateType": "https://plugreg.dev/attestation/publish/v1",
        "predicate": {
            "registry": registry,
            "plugin": name,
            "version": version,
            "format": "agent-plugins",
            **predicate,
        },
    }


@dataclass(frozen=True)
class Author:
    """Somebody with a key who talks to a registry."""

    url: str
    registry: str
    key: Key = field(default_factory=Key)

    def at(self, location: str) -> str:
        return urljoin(self.url, location)

    def begin(self, bundle: bytes, name: str = "demo", version: str = "1.0.0", **more: object) -> Answer:
        """The first step, with a statement that is right."""
        return self.begin_with(
            self.key.envelope(publish_statement(self.registry, name, version, bundle)), bundle, **more
        )

    def begin_with(self, envelope: object, bundle: bytes, **more: object) -> Answer:
        body = {"statement": envelope, "size": len(bundle), "public_key": b64(self.key.spki), **more}
        return self.post("v1/publish", body)

    def post(self, location: str, body: object) -> Answer:
        content = canonical(body)
        return ask(self.at(location), "POST", content, {"content-type": "application/json"})

    def upload(self, session: Mapping[str, Any], bundle: bytes) -> Answer:
        span = {"content-range": f"bytes 0-{len(bundle) - 1}/{len(bundle)}"}
        return ask(self.at(session["upload"]), "PUT", bundle, span)

    def commit(self, session: Mapping[str, Any]) -> Answer:
        return ask(self.at(session["commit"]), "POST", b"")

    def publish(self, bundle: bytes, name: str = "demo", version: str = "1.0.0") -> Answer:
        """All three steps; the answer of the step that decided."""
        return self.finish(self.begin(bundle, name, version), bundle)

    def finish(self, begun: Answer, bundle: bytes) -> Answer:
        """The second and third step of a publish that was let in."""
        if begun.status != 202:
            return begun
        session = begun.json()
        uploaded = self.upload(session, bundle)
        return self.commit(session) if uploaded.status == 204 else uploaded

    def document(self, name: str = "demo") -> Any:
        answer = ask(self.at(f"index/plugins/{name}.json"))
        assert answer.status == 200, answer
        return answer.json()

    def state(self, kind: str, name: str = "demo", **predicate: object) -> Answer:
        """Sign and send the statement that follows the newest one in the plugin's history."""
        history = self.document(name)["history"]
        return self.post("v1/statements", self.successor(kind, name, len(history), history[-1], **predicate))

    def successor(
        self, kind: str, name: str, revision: int, previous: str, **predicate: object
    ) -> dict[str, Any]:
        """The body that submits a statement."""
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": previous[7:]}}],
            "predicateType": f"https://plugreg.dev/attestation/{kind}/v1",
            "predicate": {
                "registry": self.registry,
                "plugin": name,
                "revision": revision,
                "previous": previous,
                **predicate,
            },
        }
        return {"statement": self.key.envelope(statement), "public_key": b64(self.key.spki)}
