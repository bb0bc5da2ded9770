"""The transparency logs of a local Sigstore: Rekor 1 and Rekor 2 over one Merkle tree each (RFC 6962)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from tests.support.authorities import b64, new_key, sha256, spki


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def root_of(leaves: list[bytes]) -> bytes:
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"")
    half = _half(len(leaves))
    return sha256(b"\1" + root_of(leaves[:half]) + root_of(leaves[half:]))


def proof_of(leaves: list[bytes], place: int) -> list[bytes]:
    """The hashes beside the way from a leaf to the root, lowest first."""
    if len(leaves) < 2:
        return []
    half = _half(len(leaves))
    if place < half:
        return [*proof_of(leaves[:half], place), root_of(leaves[half:])]
    return [*proof_of(leaves[half:], place - half), root_of(leaves[:half])]


def _half(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1


class Log(ABC):
    """An append-only log that signs checkpoints. `at` makes it lie about the time."""

    origin = ""
    log_id = b""

    def __init__(self) -> None:
        self.leaves: list[bytes] = []
        self.lock = threading.Lock()
        self.at: int | None = None

    @abstractmethod
    def sign(self, message: bytes) -> bytes:
        """Sign with the log's key."""

    def append(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Append an entry; return its place, and its proof with bytes as they are."""
        with self.lock:
            self.leaves.append(sha256(b"\0" + body))
            place, size = len(self.leaves) - 1, len(self.leaves)
            root, path = root_of(self.leaves), proof_of(self.leaves, place)
        note = f"{self.origin}\n{size}\n{b64(root)}\n"
        signature = b64(self.log_id[:4] + self.sign(note.encode()))
        checkpoint = f"{note}\n\u2014 {self.origin} {signature}\n"
        return place, {"root": root, "size": size, "path": path, "checkpoint": checkpoint}


class Rekor1(Log):
    """Gives entries a time of its own, and promises to include them."""

    origin = "rekor1.plugreg.test"

    def __init__(self) -> None:
        super().__init__()
        self.key = new_key()
        self.log_id = sha256(spki(self.key))

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message, ec.ECDSA(hashes.SHA256()))

    def add(self, request: dict[str, Any]) -> dict[str, Any]:
        proposed = request["spec"]["proposedContent"]
        envelope = json.loads(proposed["envelope"])
        body = canonical(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": _hash(proposed["envelope"].encode()),
                    "payloadHash": _hash(base64.b64decode(envelope["payload"])),
                    "signatures": [
                        {"signature": signature["sig"], "verifier": proposed["verifiers"][0]}
                        for signature in envelope["signatures"]
                    ],
                },
            }
        )
        place, proof = self.append(body)
        entry = {
            "body": b64(body),
            "integratedTime": self.at or int(time.time()),
            "logID": self.log_id.hex(),
            "logIndex": place,
        }
        verification = {
            "signedEntryTimestamp": b64(self.sign(canonical(entry))),
            "inclusionProof": {
                "checkpoint": proof["checkpoint"],
                "hashes": [step.hex() for step in proof["path"]],
                "logIndex": place,
                "rootHash": proof["root"].hex(),
                "treeSize": proof["size"],
            },
        }
        return {secrets.token_hex(32): {**entry, "verification": verification}}


class Rekor2(Log):
    """Gives no time: a timestamp must come from elsewhere."""

    origin = "rekor2.plugreg.test"

    def __init__(self) -> None:
        super().__init__()
        self.key = ed25519.Ed25519PrivateKey.generate()
        self.log_id = sha256(self.origin.encode() + b"\n\x01" + self.key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message)

    def add(self, request: dict[str, Any]) -> dict[str, Any]:
        asked = request["hashedRekordRequestV002"]
        signature = asked["signature"]
        raw = base64.b64decode(signature["verifier"]["x509Certificate"]["rawBytes"])
        public = x509.load_der_x509_certificate(raw).public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey)
        digest = base64.b64decode(asked["digest"])
        public.verify(base64.b64decode(signature["content"]), digest, ec.ECDSA(Prehashed(hashes.SHA256())))
        data = {"algorithm": "SHA2_256", "digest": asked["digest"]}
        spec = {"hashedRekordV002": {"data": data, "signature": signature}}
        body = canonical({"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": spec})
        place, proof = self.append(body)
        return {
            "logIndex": str(place),
            "logId": {"keyId": b64(self.log_id)},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
            "inclusionProof": {
                "logIndex": str(place),
                "rootHash": b64(proof["root"]),
                "treeSize": str(proof["size"]),
                "hashes": [b64(step) for step in proof["path"]],
                "checkpoint": {"envelope": proof["checkpoint"]},
            },
            "canonicalizedBody": b64(body),
        }


def _hash(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}
