"""The signed index in the store: reading one state of it, and writing the next.

    State    what timestamp.json stands for: every role in one version, as it was verified
    Draft    the next state while it is made: changed roles first, then snapshot, then timestamp

Versioned files are written only where there is none; a version that is taken is skipped. timestamp.json is
replaced only where it is still the one that was read, so of two writers one loses (`object_changed`) and
nothing is ever taken back. What is read is verified before anything is signed on top of it: whoever can write
to the store cannot have his own entries signed.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar, cast

from tuf.api.exceptions import RepositoryError, UnsignedMetadataError
from tuf.api.metadata import Metadata, MetaFile, Root, Signed, Snapshot, TargetFile, Targets, Timestamp

from plugreg_schemas.errors import Conflict, NotAvailable, Temporary
from plugreg_schemas.index import INDEX_ROLE, REVOCATIONS_ROLE, hashed_target_key, metadata_key, target_key
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from securesystemslib.signer import Signer
    from tuf.api.metadata import SuccinctRoles

    from plugreg_registry.ports import BlobStore
    from plugreg_registry.signers import Keys

LIFETIMES: Final[Mapping[str, timedelta]] = {
    "root": timedelta(days=730),
    "targets": timedelta(days=730),
    "snapshot": timedelta(days=90),
    "timestamp": timedelta(days=7),
    INDEX_ROLE: timedelta(days=90),
    REVOCATIONS_ROLE: timedelta(days=7),
}
BIN_LIFETIME: Final = timedelta(days=90)
AT_ONCE: Final = 16
"""Objects that are written at a time."""
KEPT_FILES: Final = 64
"""Verified files that one process keeps in memory."""

_S = TypeVar("_S", Root, Targets, Snapshot, Timestamp)
Delegator = Root | Targets


@dataclass(frozen=True, slots=True)
class RootFile:
    """The newest root: its version, its bytes, and what they say."""

    content: bytes
    signed: Root
    before: Root | None = None
    """The root that it replaced."""

    @property
    def version(self) -> int:
        """Its version."""
        return self.signed.version

    @property
    def digest(self) -> Digest:
        """The digest by which people know it."""
        return Digest.of(self.content)


@dataclass(frozen=True, slots=True)
class State:
    """One state of the index. Nothing in it is changed: the next state has copies."""

    root: RootFile
    timestamp: Timestamp
    timestamp_content: bytes
    snapshot: Snapshot
    targets: Targets
    index: Targets
    revocations: Targets

    @property
    def bins(self) -> SuccinctRoles:
        """The bins that hold the plugins."""
        return bins_of(self.index)

    def version(self, role: str) -> int:
        """Return the version of a role; 0 if it never had one."""
        found = self.snapshot.meta.get(f"{role}.json")
        return found.version if found else 0


class _Known:
    """Files that were verified, or written, by this process: the newest version of each, the latest used."""

    def __init__(self) -> None:
        self.root: RootFile | None = None
        self._files: OrderedDict[str, Signed] = OrderedDict()
        self._lock = Lock()

    def get(self, role: str, version: int) -> Signed | None:
        with self._lock:
            found = self._files.get(role)
            if found is None or found.version != version:
                return None
            self._files.move_to_end(role)
            return found

    def keep(self, role: str, signed: Signed) -> None:
        with self._lock:
            self._files[role] = signed
            self._files.move_to_end(role)
            if len(self._files) > KEPT_FILES:
                self._files.popitem(last=False)


@dataclass(frozen=True, slots=True)
class SignedFiles:
    """The signed files of the index in a store, and the keys that sign them."""

    blobs: BlobStore
    keys: Keys
    _known: _Known = field(default_factory=_Known, init=False, repr=False, compare=False)

    def root(self) -> RootFile | None:
        """Return the newest root, or None if there is no index yet."""
        newest = self._known.root
        while content := self._content(metadata_key("root", newest.version + 1 if newest else 1)):
            before = newest.signed if newest else None
            newest = self._known.root = RootFile(content, _next_root(content, before), before)
        return newest

    def exists(self) -> bool:
        """Whether there is an index that can be read."""
        return self.blobs.has(metadata_key("timestamp"))

    def state(self) -> State:
        """Return the present state.

        Raises:
            NotAvailable: `index_missing`. Temporary: `index_unusable`: the store was altered.
        """
        root, content = self._newest()
        return self._state(root, content, root.signed)

    def state_to_rotate(self) -> State:
        """Return the present state, even if only the root before the newest vouches for it.

        That is what a rotation leaves that was cut off between a root and its timestamp. Only a rotation may
        go on from there: the keys of the root before may be stolen.

        Raises: as `state`.
        """
        root, content = self._newest()
        try:
            return self._state(root, content, root.signed)
        except Temporary:
            if root.before is None:
                raise
            return self._state(root, content, root.before)

    def _newest(self) -> tuple[RootFile, bytes]:
        root, content = self.root(), self._content(metadata_key("timestamp"))
        if root is None or content is None:
            raise NotAvailable(
                "index_missing",
                "the store has no signed index",
                hint="`plugreg-registry init` makes it, and so does `plugreg-registry serve`",
            )
        return root, content

    def _state(self, root: RootFile, content: bytes, trusted: Root) -> State:
        timestamp = _verified(content, Timestamp, "timestamp", trusted)
        snapshot = self._read("snapshot", timestamp.snapshot_meta.version, Snapshot, trusted)
        targets = self._at(snapshot, "targets", trusted)
        return State(
            root,
            timestamp,
            content,
            snapshot,
            targets,
            self._at(snapshot, INDEX_ROLE, targets),
            self._at(snapshot, REVOCATIONS_ROLE, targets),
        )

    def bin(self, state: State, name: str) -> Targets:
        """Return one bin of a state. Raises `Temporary`: `index_unusable`."""
        return self._at(state.snapshot, name, state.index)

    def target(self, signed: Targets, path: str) -> bytes:
        """Return the bytes of a target that a role lists.

        Raises:
            NotAvailable: `target_unknown`. Temporary: `index_unusable`.
        """
        listed = signed.targets.get(path)
        if listed is None:
            raise NotAvailable("target_unknown", f"the index does not list `{path}`")
        content = self._content(hashed_target_key(path, digest_of(listed)))
        if content is None or Digest.of(content) != digest_of(listed):
            raise _unusable(path)
        return content

    def copy_targets(self, state: State) -> None:
        """Bring the copies of targets outside the bins, for readers who do not verify, up to a state."""
        for role in (state.targets, state.index, state.revocations):
            for path in role.targets:
                content = self.target(role, path)
                if self._content(target_key(path)) != content:
                    self.blobs.put(target_key(path), io.BytesIO(content))

    def next(self, state: State, now: datetime) -> Draft:
        """Begin the state that follows one."""
        return Draft(self, state, now, dict(state.snapshot.meta))

    def write(self, role: str, signed: _S, signers: Sequence[Signer], *, least: int) -> bytes:
        """Sign a role, and store it under the first free version from `least` on; return its bytes."""
        signed.version = least
        while True:
            content = serialized(signed, signers)
            try:
                self.blobs.put(metadata_key(role, signed.version), io.BytesIO(content), None)
            except Conflict:
                signed.version += 1
            else:
                self._known.keep(role, signed)
                return content

    def _at(self, snapshot: Snapshot, role: str, delegator: Delegator) -> Targets:
        meta = snapshot.meta.get(f"{role}.json")
        if meta is None:
            raise _unusable(role)
        return self._read(role, meta.version, Targets, delegator)

    def _read(self, role: str, version: int, kind: type[_S], delegator: Delegator) -> _S:
        """Return a version of a role. Versions never change, so what was verified once is not read again."""
        known = self._known.get(role, version)
        if known is not None:
            return cast("_S", known)
        content = self._content(metadata_key(role, version))
        if content is None:
            raise _unusable(role)
        signed = _verified(content, kind, role, delegator)
        if signed.version != version:
            raise _unusable(role)
        self._known.keep(role, signed)
        return signed

    def _content(self, key: str) -> bytes | None:
        try:
            with self.blobs.open(key) as file:
                return file.read()
        except NotAvailable:
            return None


@dataclass(slots=True)
class Draft:
    """The next state of the index: roles and targets are written, then `publish` shows them all at once."""

    files: SignedFiles
    state: State
    now: datetime
    meta: dict[str, MetaFile]
    replaced: list[str] = field(default_factory=list)
    """Keys of objects that the next state does not name any more."""
    changed: bool = False

    def put_target(self, path: str, content: bytes) -> TargetFile:
        """Store the bytes of a target under their hash, and return how a role lists them."""
        return self.put_targets({path: content})[path]

    def put_targets(self, contents: Mapping[str, bytes]) -> dict[str, TargetFile]:
        """Store the bytes of targets, by path, under their hashes, and return how a role lists them."""
        return put_targets(self.files.blobs, contents)

    def replace(self, old: TargetFile | None, new: TargetFile | None) -> None:
        """Note that a target took the place of another, or that it is listed no more."""
        if old is not None and (new is None or old.hashes != new.hashes):
            self.replaced.append(hashed_target_key(old.path, digest_of(old)))

    def write(self, role: str, signed: Targets, signers: Sequence[Signer] = ()) -> None:
        """Sign and store the next version of a role below the snapshot; without `signers`, by its own key.

        Raises:
            Temporary: `index_key_missing`. NotAvailable: `offline_keys_missing`.
        """
        self.write_all({role: signed}, signers)

    def write_all(self, roles: Mapping[str, Targets], signers: Sequence[Signer] = ()) -> None:
        """Sign and store the next versions of several roles, in no order. Raises as `write`."""
        olds = {role: self.meta.get(f"{role}.json") for role in roles}

        def write(role: str) -> None:
            signed, old = roles[role], olds[role]
            signed.expires = self.now + LIFETIMES.get(role, BIN_LIFETIME)
            by = signers or (self.signer(role),)
            self.files.write(role, signed, by, least=old.version + 1 if old else 1)

        at_once(write, roles)
        for role, old in olds.items():
            if old:
                self.replaced.append(metadata_key(role, old.version))
            self.meta[f"{role}.json"] = MetaFile(roles[role].version)
        self.changed = self.changed or bool(roles)

    @property
    def leaving(self) -> Sequence[str]:
        """The keys of the objects that nothing names once the draft is published."""
        snapshot = metadata_key("snapshot", self.state.timestamp.snapshot_meta.version)
        return (*self.replaced, snapshot)

    def publish(
        self, snapshot_signers: Sequence[Signer] = (), timestamp_signers: Sequence[Signer] = ()
    ) -> None:
        """Write snapshot and timestamp: from here on readers see the next state.

        Raises:
            Conflict: `object_changed`: another writer was faster; nothing of this draft is visible.
            Temporary: `index_key_missing`.
        """
        old = self.state.timestamp
        snapshot = Snapshot(expires=self.now + LIFETIMES["snapshot"], meta=self.meta)
        content = self.files.write(
            "snapshot",
            snapshot,
            snapshot_signers or (self.signer("snapshot"),),
            least=old.snapshot_meta.version + 1,
        )
        meta = MetaFile(snapshot.version, len(content), {"sha256": Digest.of(content).hex})
        self.stamp(meta, timestamp_signers)

    def stamp(self, snapshot: MetaFile, signers: Sequence[Signer] = ()) -> None:
        """Write a timestamp for a snapshot that is there. Raises as `publish`."""
        timestamp = Timestamp(
            version=self.state.timestamp.version + 1,
            expires=self.now + LIFETIMES["timestamp"],
            snapshot_meta=snapshot,
        )
        content = serialized(timestamp, signers or (self.signer("timestamp"),))
        self.files.blobs.put(metadata_key("timestamp"), io.BytesIO(content), self.state.timestamp_content)

    def signer(self, role: str) -> Signer:
        """Return the key that the present state names for a role."""
        keys, state = self.files.keys, self.state
        if role in {"snapshot", "timestamp", "targets"}:
            return keys.signer(role, state.root.signed.roles[role].keyids)
        if role in {INDEX_ROLE, REVOCATIONS_ROLE}:
            return keys.signer(role, state.targets.get_delegated_role(role).keyids)
        return keys.signer(INDEX_ROLE, state.bins.keyids)


def put_targets(blobs: BlobStore, contents: Mapping[str, bytes]) -> dict[str, TargetFile]:
    """Store the bytes of targets, by path, under their hashes, and return how a role lists them."""
    listed = {
        path: TargetFile(len(content), {"sha256": Digest.of(content).hex}, path)
        for path, content in contents.items()
    }

    def put(path: str) -> None:
        blobs.put(hashed_target_key(path, digest_of(listed[path])), io.BytesIO(contents[path]))

    at_once(put, contents)
    return listed


def at_once(work: Callable[[str], None], names: Iterable[str]) -> None:
    """Do something for each name, several at a time: a store takes its time for one, not for each of many."""
    several = tuple(names)
    if len(several) == 1:
        work(several[0])
    elif several:
        with ThreadPoolExecutor(min(AT_ONCE, len(several))) as pool:
            for done in [pool.submit(work, name) for name in several]:
                done.result()


def bins_of(index: Targets) -> SuccinctRoles:
    """Return the bins to which the role `index` delegates. Raises `Temporary`: `index_unusable`."""
    roles = index.delegations.succinct_roles if index.delegations else None
    if roles is None:
        raise _unusable(INDEX_ROLE)
    return roles


def digest_of(listed: TargetFile) -> Digest:
    """Return the digest by which a target is listed."""
    return Digest.from_hex(listed.hashes["sha256"])


def serialized(signed: _S, signers: Sequence[Signer]) -> bytes:
    """Return the bytes of signed metadata.

    Raises:
        Temporary: a key in a service cannot sign now; see `signers.ServiceSigner`.
    """
    metadata = Metadata(signed)
    for signer in signers:
        try:
            metadata.sign(signer, append=True)
        except UnsignedMetadataError as error:
            raise error.__cause__ or error from None
    return metadata.to_bytes()


def _next_root(content: bytes, before: Root | None) -> Root:
    """Return a root that the one before it, and itself, vouch for."""
    signed = _verified(content, Root, "root", before)
    if signed.version != (before.version + 1 if before else 1):
        raise _unusable("root")
    return _verified(content, Root, "root", signed)


def _verified(content: bytes, kind: type[_S], role: str, delegator: Delegator | None) -> _S:
    try:
        metadata: Metadata[_S] = Metadata.from_bytes(content)
        if delegator is not None:
            delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except (RepositoryError, ValueError, TypeError, KeyError):
        raise _unusable(role) from None
    if not isinstance(metadata.signed, kind):
        raise _unusable(role)
    return metadata.signed


def _unusable(what: str) -> Temporary:
    return Temporary(
        "index_unusable",
        f"`{what}` of the signed index in the store is missing or was altered",
        hint="the registry's operator must run a rotation again that was cut off, "
        "or bring the objects back from a copy",
    )
