"""A registry that is a folder: the port that installing needs, over the static documents of a real one.

    author = Author()
    offers = Offers.create(tmp_path / "registry")
    offers.publish(author, "demo", "1.0.0")
    install(root, [Ref.parse("demo")], [offers])

Everything in it is really packed, signed and folded. Another process opens the same folder with `Offers(folder)`.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from cryptography.hazmat.primitives.asymmetric import ed25519

from plugreg_schemas import formats
from plugreg_schemas.api import DocumentSigner, DocumentStatus, DocumentVersion, PluginDocument, RegistryRef
from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits, pack
from plugreg_schemas.errors import IntegrityError, NotAvailable, Unverifiable
from plugreg_schemas.history import fold
from plugreg_schemas.index import Admins, RevocationList
from plugreg_schemas.manifest import Manifest
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Owners, Status, Yank, owner_of, publish_statement, successor_statement
from plugreg_schemas.tree import MemoryTree
from plugreg_schemas.trust.envelope import Envelope, decode_base64, encode_base64, parse_envelope
from plugreg_schemas.trust.identity import key_signer
from plugreg_schemas.trust.keys import public_bytes, sign
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from plugreg.histories import Histories
    from plugreg_schemas.statement import Statement
    from plugreg_schemas.trust.identity import KeySigner
    from plugreg_schemas.trust.sigstore import SigstoreVerifier

PUBLISHED_AT = "2026-01-31T12:00:00Z"
MANIFEST_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"


def plugin_files(
    name: str, version: str | None, extra: Mapping[str, str | bytes] | None = None
) -> dict[str, str | bytes]:
    """Return the files of a small plugin."""
    manifest: dict[str, str] = {"$schema": MANIFEST_SCHEMA, "name": name}
    if version is not None:
        manifest["version"] = version
    files: dict[str, str | bytes] = {"plugin.json": json.dumps(manifest), "v.txt": version or ""}
    return files | dict(extra or {})


@dataclass(frozen=True)
class Author:
    """Somebody with a key."""

    key: ed25519.Ed25519PrivateKey = field(default_factory=ed25519.Ed25519PrivateKey.generate)

    @property
    def public(self) -> bytes:
        return public_bytes(self.key.public_key())

    @property
    def signer(self) -> KeySigner:
        return key_signer(self.public)

    def sign(self, statement: Statement) -> Envelope:
        unsigned = Envelope.make(statement.payload(), b"", self.signer)
        return Envelope.make(statement.payload(), sign(self.key, unsigned.signed_bytes), self.signer)


class Offers:
    """The folder of a registry. `downloads` counts the bundles that were asked for."""

    sigstore: SigstoreVerifier | None = None
    histories: Histories | None = None
    admins = Admins()
    revocations = RevocationList()
    notes: tuple[str, ...] = ()
    index_time: datetime | None = None

    def __init__(self, folder: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self.folder = folder
        self.ref = RegistryRef.model_validate_json((folder / "registry.json").read_bytes())
        self.limits = limits
        self.downloads = 0

    @classmethod
    def create(cls, folder: Path, name: str = "local") -> Offers:
        for part in ("plugins", "attestations", "blobs"):
            (folder / part).mkdir(parents=True)
        ref = RegistryRef(id=f"urn:uuid:{uuid.uuid4()}", url=f"http://127.0.0.1:8470/{name}/", name=name)
        (folder / "registry.json").write_bytes(ref.model_dump_json().encode())
        return cls(folder)

    # the port

    def document(self, name: str) -> bytes:
        path = self.folder / "plugins" / f"{name}.json"
        if not path.exists():
            raise NotAvailable("plugin_not_found", f"`{name}` is not in the registry {self.ref.url}")
        return path.read_bytes()

    def attestation(self, digest: Digest) -> bytes:
        path = self.folder / "attestations" / digest.hex
        if not path.exists():
            raise Unverifiable(
                "attestation_missing", f"the registry does not have the signed statement `{digest}`"
            )
        return path.read_bytes()

    def download(
        self, digest: Digest, size: int, into: BinaryIO, progress: Callable[[str, int, int], None]
    ) -> None:
        self.downloads += 1
        content = (self.folder / "blobs" / digest.hex).read_bytes()
        for start in range(0, len(content), 1 << 18):
            into.write(content[start : start + (1 << 18)])
            progress("download", min(start + (1 << 18), len(content)), size)
        if len(content) > size or Digest.of(content) != digest:
            raise IntegrityError("digest_mismatch", "the bundle is not the signed one")

    # what its people do

    def publish(
        self,
        author: Author,
        name: str,
        version: str,
        files: Mapping[str, str | bytes] | None = None,
        links: Mapping[str, str] | None = None,
    ) -> Digest:
        """Publish these files, without them a small plugin."""
        tree = MemoryTree.of(plugin_files(name, version) if files is None else files, links=links)
        return self.publish_bundle(author, name, version, pack(tree).content, formats.read(tree).manifest)

    def publish_bundle(
        self, author: Author, name: str, version: str, content: bytes, manifest: Manifest | None = None
    ) -> Digest:
        """Publish bytes, whatever they are, with a statement that is right."""
        manifest = manifest or Manifest("agent-plugins", name)
        digest = Digest.of(content)
        (self.folder / "blobs" / digest.hex).write_bytes(content)
        statement = publish_statement(
            digest, registry=self.ref.id, plugin=name, version=version, format=manifest.format
        )
        envelope = self._keep(author.sign(statement))
        old = self._read(name)
        signers = self._with(old["signers"] if old else [], author)
        row = DocumentVersion.model_validate(
            {
                "version": version,
                "digest": digest,
                "size": len(content),
                "published_at": PUBLISHED_AT,
                "format": manifest.format,
                "capability_kind": manifest.capability_kind,
                "requires": [asdict(need) for need in manifest.requires],
                "signer": next(i for i, s in enumerate(signers) if s["signer"]["id"] == author.signer.id),
                "attestations": [envelope.digest],
            }
        ).model_dump(mode="json")
        history = old["history"] if old else [envelope.digest]
        self._write(name, history, signers, [*(old["versions"] if old else []), row])
        return digest

    def state(
        self, author: Author, name: str, make: Callable[[dict[str, Any]], Owners | Yank | Status]
    ) -> None:
        """Append a statement to a plugin's history; `make` gets the fields that every one has."""
        old = self._read(name)
        assert old
        common = {
            "registry": self.ref.id,
            "plugin": name,
            "revision": len(old["history"]),
            "previous": old["history"][-1],
        }
        envelope = self._keep(author.sign(successor_statement(make(common))))
        signers = self._with(old["signers"], author)
        self._write(name, [*old["history"], envelope.digest], signers, old["versions"])

    def yank(self, author: Author, name: str, version: str, reason: str = "") -> None:
        self.state(author, name, lambda common: Yank(**common, version=version, yanked=True, reason=reason))

    def change_owners(
        self, author: Author, name: str, add: Sequence[Author] = (), remove: Sequence[Author] = ()
    ) -> None:
        added, removed = tuple(owner_of(a.signer) for a in add), tuple(a.signer for a in remove)
        self.state(author, name, lambda common: Owners(**common, add=added, remove=removed))

    def alter(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a plugin's document as whoever serves it can."""
        document = json.loads(self.document(name))
        change(document)
        (self.folder / "plugins" / f"{name}.json").write_text(json.dumps(document))

    def forget(self, name: str) -> None:
        """Lose a plugin, as a registry that is set up anew does."""
        (self.folder / "plugins" / f"{name}.json").unlink()

    def blob(self, digest: Digest) -> Path:
        return self.folder / "blobs" / digest.hex

    def _keep(self, envelope: Envelope) -> Envelope:
        (self.folder / "attestations" / envelope.digest.hex).write_bytes(envelope.content)
        return envelope

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / "plugins" / f"{name}.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def _with(self, signers: list[dict[str, Any]], author: Author) -> list[dict[str, Any]]:
        if any(row["signer"]["id"] == author.signer.id for row in signers):
            return signers
        fresh = DocumentSigner(signer=author.signer, public_key=encode_base64(author.public))
        return [*signers, fresh.model_dump(mode="json")]

    def _write(
        self, name: str, digests: list[str], signers: list[dict[str, Any]], versions: list[dict[str, Any]]
    ) -> None:
        """Write the document that this history amounts to, in one step."""
        keys = {row["signer"]["id"]: DocumentSigner.model_validate(row) for row in signers}
        public = {known: decode_base64(row.public_key or "") for known, row in keys.items()}
        history = fold(verify(parse_envelope(self.attestation(Digest(d))), public) for d in digests)
        rows = [
            DocumentVersion.model_validate(
                row
                | {
                    "yanked": row["version"] in history.yanked,
                    "reason": history.yanked.get(row["version"], ""),
                }
            )
            for row in versions
        ]
        document = PluginDocument(
            name=name,
            status=DocumentStatus(
                state=history.state, reason=history.reason, replacement=history.replacement
            ),
            history=tuple(digests),
            owners=history.owners,
            signers=tuple(keys.values()),
            versions=tuple(rows),
        )
        path = self.folder / "plugins" / f"{name}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(document.model_dump_json(by_alias=True))
        fresh.replace(path)
