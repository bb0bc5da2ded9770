"""The online keys of a real registry in the hands of somebody who asks for no rule: served anyway.

thief = StolenKeys(registry.data)
thief.serve("demo", canonical_json(document))       a document that the registry would never have made
thief.change("demo", lambda document: ...)          the same, from what it serves now
thief.keep(envelope)                                a statement that the registry would never have taken

What is served is in the index as everything else is: documents, bin, snapshot and timestamp, signed as they
must be. So what a client refuses, it refuses by itself.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, MetaFile, TargetFile
from tuf.api.serialization.json import JSONSerializer

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.index import INDEX_ROLE, hashed_target_key, metadata_key, plugin_target, target_key
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class StolenKeys:
    """`data` is the registry's folder, with `keys` and `objects` in it."""

    data: Path

    def serve(self, name: str, document: bytes) -> None:
        """Let the signed index vouch for this document."""
        target = plugin_target(name)
        for key in (hashed_target_key(target, Digest.of(document)), target_key(target)):
            self._write(key, document)
        snapshot = self._read("snapshot", self._read("timestamp").signed.snapshot_meta.version)
        index = self._read(INDEX_ROLE, snapshot.signed.meta[f"{INDEX_ROLE}.json"].version)
        role = index.signed.delegations.succinct_roles.get_role_for_target(target)
        listed = self._read(role, snapshot.signed.meta[f"{role}.json"].version)
        listed.signed.targets[target] = TargetFile.from_data(target, document, ["sha256"])
        self._sign(role, listed, INDEX_ROLE)
        snapshot.signed.meta[f"{role}.json"] = MetaFile(listed.signed.version)
        self._show(snapshot)

    def change(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change what is served of a plugin."""
        document = self.document(name)
        change(document)
        self.serve(name, canonical_json(document))

    def document(self, name: str) -> dict[str, Any]:
        """What is served of a plugin now."""
        document: dict[str, Any] = json.loads(self._place(target_key(plugin_target(name))).read_bytes())
        return document

    def keep(self, envelope: bytes) -> Digest:
        """Put a signed statement into the store, whatever it says; returns the name that it has there."""
        digest = Digest.of(envelope)
        self._write(f"attestations/sha256/{digest.hex}.json", envelope)
        return digest

    def statement(self, digest: str) -> bytes:
        """A signed statement that is in the store."""
        return self._place(f"attestations/sha256/{digest.removeprefix('sha256:')}.json").read_bytes()

    def _show(self, snapshot: Metadata[Any]) -> None:
        content = self._sign("snapshot", snapshot, "snapshot")
        timestamp = self._read("timestamp")
        timestamp.signed.snapshot_meta = MetaFile(
            snapshot.signed.version, len(content), {"sha256": hashlib.sha256(content).hexdigest()}
        )
        self._sign("timestamp", timestamp, "timestamp")

    def _sign(self, role: str, metadata: Metadata[Any], key: str) -> bytes:
        """Write the next version of a role."""
        metadata.signed.version += 1
        private = load_pem_private_key((self.data / "keys" / f"{key}.pem").read_bytes(), None)
        metadata.sign(CryptoSigner(private))
        content = metadata.to_bytes(JSONSerializer(compact=True))
        self._write(metadata_key(role, None if role == "timestamp" else metadata.signed.version), content)
        return content

    def _read(self, role: str, version: int | None = None) -> Metadata[Any]:
        return Metadata.from_bytes(self._place(metadata_key(role, version)).read_bytes())

    def _write(self, key: str, content: bytes) -> None:
        self._place(key).write_bytes(content)

    def _place(self, key: str) -> Path:
        return self.data / "objects" / key
