"""An index without a network: verified as ever, and of any age that is bearable.

    root > timestamp > snapshot > targets > index > bin

Signatures, versions, hashes and delegations are judged as online. What the online roles sign may have
expired: nobody can renew it here, so its age is told. What the offline roles sign must not have expired.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

from plugreg.index.verdicts import expired, judged, mismatch, missing, rolled_back, signed_at
from plugreg_schemas.index import registry_of_root
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from tuf.api.metadata import MetaFile, TargetFile

    from plugreg.index.folder import IndexFolder

MAX_ROOTS: Final = 256
MAX_DELEGATIONS: Final = 32
_Signed = TypeVar("_Signed", Root, Timestamp, Snapshot, Targets)


class Source(Protocol):
    """Where metadata and the content of targets are read."""

    def metadata(self, role: str, version: int | None) -> bytes | None:
        """Return the metadata of a role in a version, or None where it is not there.

        Raises:
            NotAvailable: nobody may be asked for it.
        """
        ...

    def target(self, path: str, digest: Digest) -> bytes:
        """Return the content of a target, unverified.

        Raises:
            NotAvailable: it is not there.
        """
        ...


class Walk:
    """One state of an index. Every method is called with the folder's lock held."""

    def __init__(
        self, where: str, root: bytes, source: Source, *, allow_old: bool, folder: IndexFolder | None = None
    ) -> None:
        """Verify root, timestamp and snapshot.

        Where a folder is given, nothing older than what is kept in it is accepted, and this state is kept.

        Raises:
            PlugregError: see `verdicts`.
        """
        self._where = where
        self._source = source
        self._seen = _Seen()
        self._allow_old = allow_old
        self._folder = folder
        self._loaded: dict[tuple[str, str], Targets] = {}
        with self._judged():
            self._root = self._newest_root(root)
            self._refuse_expired("root", self._root)
            self._timestamp = self._load(Timestamp, "timestamp", None, self._root)
            meta = self._timestamp.snapshot_meta
            self._snapshot = self._load(Snapshot, "snapshot", meta, self._root)
        if folder is not None:
            self._check_not_older(folder)
            self._keep(folder)
        self.registry = registry_of_root(self._root.unrecognized_fields)
        self.signed_at = signed_at(self._seen.bytes_of("timestamp"))

    def find(self, path: str) -> TargetFile | None:
        """Return what the index says of a target, or None where it does not list it.

        Raises:
            PlugregError: see `verdicts`.
        """
        with self._judged():
            found = self._search(path)
        if self._folder is not None:
            self._keep(self._folder)
        return found

    def paths(self) -> list[str]:
        """Return the paths that the roles list, having read every role that is delegated to.

        Whether a role may speak for a path is for `find` to say.

        Raises:
            PlugregError: see `verdicts`.
        """
        found: dict[str, None] = {}
        with self._judged():
            self._list("targets", "root", set(), found)
        return list(found)

    def content(self, target: TargetFile, digest: Digest) -> bytes:
        """Return the content of a target, verified.

        Raises:
            PlugregError: see `verdicts`.
        """
        content = self._source.target(target.path, digest)
        self._seen.last = target.path
        with self._judged():
            target.verify_length_and_hashes(content)
        if self._folder is not None:
            self._folder.keep_target(target.path, digest, content)
        return content

    def _check_not_older(self, folder: IndexFolder) -> None:
        """Refuse a state that is older than what is kept of the same signers.

        Raises:
            IntegrityError: `index_rolled_back`.
        """
        kept = _kept(Timestamp, folder, "timestamp", self._root)
        if kept is not None and (
            self._timestamp.version < kept.version
            or self._timestamp.snapshot_meta.version < kept.snapshot_meta.version
        ):
            raise rolled_back(self._where, "timestamp")
        snapshot = _kept(Snapshot, folder, "snapshot", self._root)
        for name, meta in snapshot.meta.items() if snapshot else ():
            now = self._snapshot.meta.get(name)
            if now is None or now.version < meta.version:
                raise rolled_back(self._where, "snapshot")

    def _keep(self, folder: IndexFolder) -> None:
        """Keep what was verified, so that nothing older is accepted from now on."""
        for role, content in self._seen.verified.items():
            folder.keep_metadata(role, content)

    # the straight way down

    def _newest_root(self, pinned: bytes) -> Root:
        """Follow the roots one by one: each is signed by the one before and by itself.

        One that was seen counts, whatever is served: it may be the one that took a stolen key its rights.
        """
        root = _verified(Root, "root", pinned, None)
        for _ in range(MAX_ROOTS):
            seen = self._seen_root(root)
            content = None if seen else self._read("root", root.version + 1)
            fresh = _verified(Root, "root", content, root) if content is not None else seen
            if fresh is None:
                return root
            if fresh.version != root.version + 1:
                raise mismatch(self._where, "root")
            if content is not None:
                self._seen.verified[f"{fresh.version}.root"] = content
            root = fresh
        return root

    def _seen_root(self, root: Root) -> Root | None:
        """Return the root after this one, where this machine has seen it."""
        number = root.version + 1
        seen = _kept(Root, self._folder, f"{number}.root", root) if self._folder is not None else None
        return seen if seen is not None and seen.version == number else None

    def _search(self, path: str) -> TargetFile | None:
        """Ask the roles in the order in which they delegate; the first that lists the target is right."""
        waiting = [("targets", "root")]
        for _ in range(MAX_DELEGATIONS):
            if not waiting:
                break
            role, parent = waiting.pop(0)
            targets = self._targets(role, parent)
            if path in targets.targets:
                return targets.targets[path]
            children = list(targets.delegations.get_roles_for_target(path)) if targets.delegations else []
            ends = next((number for number, (_, is_last) in enumerate(children) if is_last), None)
            if ends is not None:
                children, waiting = children[: ends + 1], []
            waiting = [(child, role) for child, _ in children] + waiting
        return None

    def _list(self, role: str, parent: str, done: set[str], found: dict[str, None]) -> None:
        """Add what a role lists, and what those list to which it delegates."""
        if role in done:
            return
        done.add(role)
        targets = self._targets(role, parent)
        found.update(dict.fromkeys(targets.targets))
        for child in _children(targets):
            self._list(child, role, done, found)

    def _targets(self, role: str, parent: str) -> Targets:
        """Return a role as one parent vouches for it."""
        if (role, parent) not in self._loaded:
            delegator = self._root if parent == "root" else self._parent(parent)
            meta = self._snapshot.meta.get(f"{role}.json")
            if meta is None:
                raise RepositoryError("a role that the snapshot does not name")
            targets = self._load(Targets, role, meta, delegator)
            if role == "targets":
                self._refuse_expired(role, targets)
            self._loaded[role, parent] = targets
        return self._loaded[role, parent]

    def _parent(self, role: str) -> Targets:
        return next(targets for (name, _), targets in self._loaded.items() if name == role)

    def _load(
        self, kind: type[_Signed], role: str, meta: MetaFile | None, delegator: Root | Targets
    ) -> _Signed:
        """Return a role in the version that `meta` names, or for None in the only one that there is."""
        content = self._read(role, meta.version if meta else None)
        if content is None:
            raise missing(self._where, role)
        if meta is not None:
            meta.verify_length_and_hashes(content)
        signed = _verified(kind, role, content, delegator)
        if meta is not None and signed.version != meta.version:
            raise mismatch(self._where, role)
        self._seen.verified[role] = content
        return signed

    def _read(self, role: str, version: int | None) -> bytes | None:
        self._seen.last = role
        return self._source.metadata(role, version)

    def _refuse_expired(self, role: str, signed: Root | Targets) -> None:
        if signed.is_expired(datetime.now(UTC)) and not self._allow_old:
            raise expired(self._where, role, signed.expires)

    def _judged(self) -> AbstractContextManager[None]:
        return judged(self._where, self._seen)


class _Seen:
    def __init__(self) -> None:
        self.last = "root"
        self.verified: dict[str, bytes] = {}

    def bytes_of(self, role: str) -> bytes:
        return self.verified.get(role, b"")


def _children(targets: Targets) -> Iterable[str]:
    """Return the roles to which a role delegates."""
    delegations = targets.delegations
    if delegations is None:
        return ()
    return delegations.succinct_roles.get_roles() if delegations.succinct_roles else delegations.roles or ()


def _verified(kind: type[_Signed], role: str, content: bytes, delegator: Root | Targets | None) -> _Signed:
    """Return metadata that its delegator vouches for, and a root that vouches for itself as well."""
    metadata = Metadata[kind].from_bytes(content)  # type: ignore[valid-type]
    signed = metadata.signed
    if not isinstance(signed, kind):
        raise RepositoryError("metadata of another role")
    if delegator is not None:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    if isinstance(signed, Root):
        signed.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    return signed


def leads_to(root: bytes, source: Source, version: int, digest: Digest) -> bool:
    """Whether a root follows from another one, step by step."""
    try:
        now, content = _verified(Root, "root", root, None), root
        while now.version < version:
            content = source.metadata("root", now.version + 1) or b""
            now = _verified(Root, "root", content, now)
    except Exception:  # noqa: BLE001 - whatever is wrong with a step, it leads nowhere
        return False
    return Digest.of(content) == digest


def _kept(kind: type[_Signed], folder: IndexFolder, name: str, root: Root) -> _Signed | None:
    """Return what is kept under a name, where it is by those who sign for it now."""
    content, role = folder.kept_metadata(name), name.rpartition(".")[2]
    try:
        return _verified(kind, role, content, root) if content is not None else None
    except Exception:  # noqa: BLE001 - damaged, or signed by former keys: it says nothing
        return None
