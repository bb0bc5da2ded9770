"""A read plane with a signed index, made with `tuf.api.metadata` alone; whoever holds it may also forge it.

    index = TufRepository()
    index.documents["demo"] = b"..."                           what the bins list
    index.publish()                                            new versions of what changed, as one state
    old = index.objects()                                      path below the registry's URL -> bytes
    index.store["index/metadata/timestamp.json"] = ...         an attacker who can write to the bucket
    index.sign_with["snapshot"] = index.keys["index"]          an attacker with another key
    index.lifetimes["timestamp"] = timedelta(days=-1)          nobody renews it any more
    index.signed["snapshot"].meta.pop("bin-0.json"); index.seal()
    index.rotate("root", "timestamp")                          the next root, signed by the old and the new key
    index.take(offers)                                         documents, statements and bundles of `Offers`
    index.write(folder)                                        a mirror: `file://` + the folder
    with serving(index.answer) as server: ...                  the same over HTTP

It shares paths and models with the contract (`plugreg_schemas.index`), and nothing with the registry.
"""

from __future__ import annotations

import hashlib
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Key,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    SuccinctRoles,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer

from plugreg_schemas.api import DISCOVERY_PATH
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.index import (
    BIN_PREFIX,
    CATALOG_TARGET,
    INDEX_ROLE,
    LEAST_BITS,
    PLUGINS_PATTERN,
    REVOCATIONS_ROLE,
    REVOCATIONS_TARGET,
    ROOT_MEMBER,
    SIGSTORE_TARGET,
    TRUST_TARGET,
    hashed_target_key,
    metadata_key,
    plugin_target,
    target_key,
)
from plugreg_schemas.names import Digest
from tests.support.record import REGISTRY
from tests.support.scripted import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from securesystemslib.signer import Signer

    from tests.support.offers import Offers
    from tests.support.scripted import Request

LIMITS: Final = {
    "compressed": 64 << 20,
    "unpacked": 1 << 29,
    "members": 20000,
    "path": 240,
    "component": 200,
    "ratio": 200,
}
DAYS: Final = {
    "root": 730,
    "targets": 730,
    INDEX_ROLE: 90,
    BIN_PREFIX: 90,
    REVOCATIONS_ROLE: 7,
    "snapshot": 90,
    "timestamp": 7,
}
TOP: Final = ("root", "targets", "snapshot", "timestamp")
SERIALIZER: Final = JSONSerializer(compact=True)


class TufRepository:
    """`signed` is the state that the next `publish` or `seal` writes; `store` is what everybody can read."""

    def __init__(
        self,
        registry: str = REGISTRY,
        *,
        name: str = "small",
        admins: Iterable[dict[str, Any]] = (),
        sigstore: bytes = b"",
        bits: int = LEAST_BITS,
        now: datetime | None = None,
    ) -> None:
        self.registry = registry
        self.name = name
        self.admins = list(admins)
        """Entries `{"signer": {...}, "since": ..., "until"?: ...}` of `trust.json`."""
        self.sigstore = sigstore
        self.catalog = b""
        self.revocations: list[dict[str, Any]] = []
        self.documents: dict[str, bytes] = {}
        self.now = now or datetime.now(UTC)
        self.lifetimes = {role: timedelta(days=days) for role, days in DAYS.items()}
        self.keys = {role: CryptoSigner.generate_ed25519() for role in (*TOP, INDEX_ROLE, REVOCATIONS_ROLE)}
        self.sign_with: dict[str, Signer] = {}
        self.store: dict[str, bytes] = {}
        self.signed: dict[str, Any] = {}
        self._written: set[str] = set()
        self._lock = threading.RLock()
        self._begin(bits)
        self.publish()

    # what the registry does

    def publish(self) -> None:
        """Write what changed, then one new state of the whole."""
        with self._lock:
            trust = {"api-version": "1", "registry": self.registry, "admins": self.admins}
            offline = {TRUST_TARGET: canonical_json(trust), SIGSTORE_TARGET: self.sigstore}
            revoked = canonical_json({"api-version": "1", "entries": self.revocations})
            contents: dict[str, dict[str, bytes]] = {role: {} for role in self.bins()}
            for name, content in self.documents.items():
                contents[self.bin_of(name)][plugin_target(name)] = content
            contents[INDEX_ROLE] = {CATALOG_TARGET: self.catalog} if self.catalog else {}
            contents[REVOCATIONS_ROLE] = {REVOCATIONS_TARGET: revoked}
            contents["targets"] = {target: content for target, content in offline.items() if content}
            for role, targets in contents.items():
                if self.list_targets(role, targets) or role not in self._written:
                    self.put(role)
            self.seal()

    def seal(self) -> None:
        """Write the next snapshot and timestamp, whatever `signed` says by now."""
        with self._lock:
            content = self.put("snapshot")
            self.signed["timestamp"].snapshot_meta = MetaFile(
                self.signed["snapshot"].version, len(content), {"sha256": hashlib.sha256(content).hexdigest()}
            )
            self.put("timestamp")

    def put(self, role: str) -> bytes:
        """Write the next version of a role. A snapshot names it from the next `seal` on."""
        signed = self.signed[role]
        if role in self._written:
            signed.version += 1
        self._written.add(role)
        content = self.resign(role)
        if role not in {"root", "snapshot", "timestamp"}:
            self.signed["snapshot"].meta[f"{role}.json"] = MetaFile(signed.version)
        return content

    def resign(self, role: str, *more: Signer) -> bytes:
        """Write a role as it is, with a fresh expiry; `more` sign it as well."""
        signed = self.signed[role]
        kind = BIN_PREFIX if role.startswith(BIN_PREFIX) else role
        signed.expires = (self.now + self.lifetimes[kind]).replace(microsecond=0)
        metadata = Metadata(signed)
        for signer in (self.signer(role), *more):
            metadata.sign(signer, append=True)
        content = metadata.to_bytes(SERIALIZER)
        self.store[metadata_key(role, None if role == "timestamp" else signed.version)] = content
        return content

    def rotate(self, *roles: str) -> None:
        """Give these roles new keys: a new root, and everything that they sign again."""
        with self._lock:
            before = {role: self.keys[role] for role in roles}
            self.keys |= {role: CryptoSigner.generate_ed25519() for role in roles}
            for role, old in before.items():
                self._replace_key(role, old, self.keys[role])
            if set(roles) & set(TOP):
                self.next_root(*(old for role, old in before.items() if role == "root"))
            if {"targets", INDEX_ROLE, REVOCATIONS_ROLE} & set(roles):
                for role in ("targets", INDEX_ROLE, REVOCATIONS_ROLE, *self.bins()):
                    self.put(role)
            self.seal()

    def next_root(self, *more: Signer) -> bytes:
        """Write the next root as `signed["root"]` says, and let the discovery name it."""
        self.signed["root"].version += 1
        content = self.resign("root", *more)
        self._discover()
        return content

    def list_targets(self, role: str, targets: dict[str, bytes]) -> bool:
        """Let a role list these contents, and lay them out; says whether that is news."""
        files = {path: TargetFile.from_data(path, content, ["sha256"]) for path, content in targets.items()}
        for path, content in targets.items():
            self.store[hashed_target_key(path, Digest.of(content))] = content
            self.store[target_key(path)] = content
        news: bool = self.signed[role].targets != files
        self.signed[role].targets = files
        return news

    # what others ask of it

    @property
    def root_digest(self) -> Digest:
        return Digest.of(self.store[metadata_key("root", self.signed["root"].version)])

    def bins(self) -> list[str]:
        return list(self._succinct().get_roles())

    def bin_of(self, name: str) -> str:
        return self._succinct().get_role_for_target(plugin_target(name))

    def signer(self, role: str) -> Signer:
        """Who signs a role: its own key, or whom a test put in that place."""
        own = INDEX_ROLE if role.startswith(BIN_PREFIX) else role
        return self.sign_with.get(role, self.keys[own])

    def current(self, role: str) -> str:
        """Where the newest metadata of a role lie."""
        return metadata_key(role, None if role == "timestamp" else self.signed[role].version)

    def document_key(self, name: str) -> str:
        """Where a client that verifies the index finds a document."""
        return hashed_target_key(plugin_target(name), Digest.of(self.documents[name]))

    def objects(self) -> dict[str, bytes]:
        """Everything on the read plane: path below the registry's URL -> bytes."""
        return dict(self.store)

    def answer(self, request: Request) -> Answer:
        """What a web server in front of the store says."""
        content = self.store.get(request.path.partition("?")[0].strip("/"))
        if content is None or request.method not in {"GET", "HEAD"}:
            return Answer(404)
        return Answer(200, content, {"Content-Type": "application/json"})

    def take(self, offers: Offers) -> None:
        """Offer what a folder of `Offers` has, and publish."""
        for path in (offers.folder / "plugins").glob("*.json"):
            self.documents[path.stem] = path.read_bytes()
        for path in (offers.folder / "attestations").iterdir():
            self.store[f"attestations/sha256/{path.name}.json"] = path.read_bytes()
        for path in (offers.folder / "blobs").iterdir():
            self.store[f"blobs/sha256/{path.name}"] = path.read_bytes()
        self.publish()

    def write(self, folder: Path) -> Path:
        """Write the whole read plane into a folder."""
        for path, content in self.store.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return folder

    def _begin(self, bits: int) -> None:
        root = Root(consistent_snapshot=True, unrecognized_fields={ROOT_MEMBER: {"registry": self.registry}})
        for role in TOP:
            root.add_key(self.keys[role].public_key, role)
        index, revocations = (self.keys[role].public_key for role in (INDEX_ROLE, REVOCATIONS_ROLE))
        delegated = {
            INDEX_ROLE: DelegatedRole(
                INDEX_ROLE, [index.keyid], 1, terminating=True, paths=[PLUGINS_PATTERN, CATALOG_TARGET]
            ),
            REVOCATIONS_ROLE: DelegatedRole(
                REVOCATIONS_ROLE, [revocations.keyid], 1, terminating=True, paths=[REVOCATIONS_TARGET]
            ),
        }
        keys: dict[str, Key] = {key.keyid: key for key in (index, revocations)}
        succinct = SuccinctRoles([index.keyid], 1, bits, BIN_PREFIX)
        self.signed = {
            "root": root,
            "targets": Targets(delegations=Delegations(keys, delegated)),
            INDEX_ROLE: Targets(delegations=Delegations({index.keyid: index}, succinct_roles=succinct)),
            REVOCATIONS_ROLE: Targets(),
            **{role: Targets() for role in succinct.get_roles()},
            "snapshot": Snapshot(),
            "timestamp": Timestamp(),
        }
        self.signed["snapshot"].meta.clear()
        self.put("root")
        self._discover()

    def _discover(self) -> None:
        said = {
            "registry": {"id": self.registry, "name": self.name},
            "limits": LIMITS,
            "trust": {
                "kinds": ["key"],
                "root": {"version": self.signed["root"].version, "digest": self.root_digest},
            },
        }
        self.store[DISCOVERY_PATH] = canonical_json(said)

    def _succinct(self) -> SuccinctRoles:
        return cast("SuccinctRoles", self.signed[INDEX_ROLE].delegations.succinct_roles)

    def _replace_key(self, role: str, old: CryptoSigner, new: CryptoSigner) -> None:
        if role in TOP:
            self.signed["root"].revoke_key(old.public_key.keyid, role)
            self.signed["root"].add_key(new.public_key, role)
            return
        self.signed["targets"].revoke_key(old.public_key.keyid, role)
        self.signed["targets"].add_key(new.public_key, role)
        if role == INDEX_ROLE:
            self.signed[INDEX_ROLE].revoke_key(old.public_key.keyid)
            self.signed[INDEX_ROLE].add_key(new.public_key)
