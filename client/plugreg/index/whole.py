"""All of one verified state of an index, for a copy that others read.

    roots 1..N > timestamp > snapshot > every role that is delegated to > every target

The state is the one that this machine verified last. What a copy has of it already is not fetched again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg.index.folder import IndexFolder
from plugreg.index.sources import Copied, Kept
from plugreg.index.verdicts import invalid, mismatch, missing
from plugreg.index.walk import MAX_ROOTS, Walk, leads_to
from plugreg_schemas.api import Discovery, Locations, RootRef
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAvailable, TooLarge
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import (
    CATALOG_TARGET,
    PLUGINS_PATTERN,
    REVOCATIONS_TARGET,
    SIGSTORE_TARGET,
    TRUST_TARGET,
    hashed_target_key,
    metadata_key,
    plugin_target,
    target_key,
)
from plugreg_schemas.listing import Listing, page_path
from plugreg_schemas.names import Digest, PluginName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugreg.index.terms import Terms
    from plugreg.objects import Objects

_SINGLE: Final = (TRUST_TARGET, SIGSTORE_TARGET, REVOCATIONS_TARGET, CATALOG_TARGET)
_PREFIX: Final = PLUGINS_PATTERN.removesuffix("*")


@dataclass(frozen=True)
class Whole:
    """One state of an index. `roots` and `metadata` are verified bytes by key, `targets` digests by path."""

    where: str
    discovery: Discovery
    roots: Mapping[str, bytes]
    metadata: Mapping[str, bytes]
    """Without the roots and the timestamp."""
    timestamp: bytes
    targets: Mapping[str, Digest]
    _walk: Walk
    _source: _Source

    @property
    def plugins(self) -> list[PluginName]:
        """The names of all plugins."""
        found = (path for path in self.targets if path not in _SINGLE)
        return sorted(PluginName(path.removeprefix(_PREFIX).removesuffix(".json")) for path in found)

    def target(self, path: str) -> bytes:
        """Return the content of a target, verified.

        Raises:
            PlugregError: see `verdicts`; NotAvailable: it is not there.
        """
        target = self._walk.find(path)
        if target is None:
            raise mismatch(self.where, path)
        return self._walk.content(target, self.targets[path])

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yield the pages of the catalog with their paths, verified.

        Raises:
            PlugregError: see `verdicts`; NotAvailable: one is not there.
        """
        if CATALOG_TARGET not in self.targets:
            return
        try:
            listing = read_model(Listing, self.target(CATALOG_TARGET), code="index_invalid")
        except InvalidInput:
            raise invalid(self.where, CATALOG_TARGET) from None
        for page in listing.pages:
            path = page_path(Digest(page.digest).hex)
            yield path, self._source.named_by_digest(path, Digest(page.digest))

    def discovery_of_copy(self) -> bytes:
        """Return the discovery document of a copy: its parts lie where they lie by default."""
        model = self.discovery.model_copy(update={"urls": Locations()})
        return canonical_json(model.model_dump(mode="json", by_alias=True, exclude_none=True))


def whole(where: str, terms: Terms, objects: Objects, discovery: Discovery, there: Objects | None) -> Whole:
    """Return the state that this machine has verified last, with every role of it.

    Raises:
        PlugregError: see `verdicts`.
    """
    try:
        return _whole(where, terms, objects, discovery, there)
    except IntegrityError:
        if there is None:
            raise
        return _whole(where, terms, objects, discovery, None)  # what the copy has may be damaged


def _whole(where: str, terms: Terms, objects: Objects, discovery: Discovery, there: Objects | None) -> Whole:
    folder = IndexFolder.of(terms.home, discovery.registry.id)
    pin = folder.pin()
    if pin is None:
        raise missing(where, "root")
    folder = folder.of_root(pin)
    source = _Source(where, objects, discovery.urls, there)
    with folder.lock(terms.patience_s):
        root = folder.pinned_root(pin)
        if root is None:
            raise mismatch(where, "root")
        source.begin(Kept(where, folder), pin.version)
    walk = Walk(where, root, source, allow_old=False)
    targets = dict(_targets(where, walk))
    roots = _roots(where, source, {**source.roots, pin.version: root})
    newest = max(roots)
    ref = RootRef(version=newest, digest=Digest.of(roots[newest]))
    trust = discovery.trust.model_copy(update={"root": ref})
    return Whole(
        where,
        discovery.model_copy(update={"trust": trust}),
        {metadata_key("root", version): content for version, content in sorted(roots.items())},
        source.read,
        source.timestamp,
        targets,
        walk,
        source,
    )


def _targets(where: str, walk: Walk) -> Iterator[tuple[str, Digest]]:
    """Yield the targets that this client knows, as the role says that may speak for each."""
    for path in walk.paths():
        target = walk.find(path) if _is_known(path) else None
        if target is not None:
            if "sha256" not in target.hashes:
                raise invalid(where, path)
            yield path, Digest.from_hex(target.hashes["sha256"])


def _is_known(path: str) -> bool:
    if path in _SINGLE:
        return True
    name = path.removeprefix(_PREFIX).removesuffix(".json")
    try:
        return path == plugin_target(PluginName(name))
    except InvalidInput:
        return False


def _roots(where: str, source: _Source, known: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return all roots from the first on: a reader may have pinned any of them."""
    newest = max(known)
    roots = {}
    for version in range(1, newest + 1):
        content = known.get(version) or source.old_root(version)
        if content is None:
            raise missing(where, "root")
        roots[version] = content
    if not leads_to(roots[1], _Roots(roots), newest, Digest.of(roots[newest])):
        raise mismatch(where, "root")
    return roots


@dataclass(frozen=True, slots=True)
class _Roots:
    """Roots that are here, as a source."""

    roots: Mapping[int, bytes]

    def metadata(self, role: str, version: int | None) -> bytes | None:
        """See `walk.Source`."""
        return self.roots.get(version or 0) if role == "root" else None

    def target(self, path: str, digest: Digest) -> bytes:
        """See `walk.Source`; there is none."""
        raise NotAvailable("object_missing", f"{path} ({digest}) is not here")


class _Source:
    """Reads a state where it is nearest: what this machine keeps, then the copy, then the registry.

    It remembers the metadata that were asked for: once the walk is through, they are verified.
    """

    def __init__(self, where: str, objects: Objects, places: Locations, there: Objects | None) -> None:
        self._where = where
        self._objects = objects
        self._places = places
        self._served = Copied(objects, places)
        self._there = there
        self._copy = Copied(there, Locations()) if there else None
        self._snapshot = b""
        self.timestamp = b""
        self.roots: dict[int, bytes] = {}
        self.read: dict[str, bytes] = {}

    def begin(self, kept: Kept, pinned: int) -> None:
        """Take the newest roots, the timestamp and the snapshot that were verified just now."""
        for version in range(pinned + 1, pinned + MAX_ROOTS):
            root = kept.metadata("root", version)
            if root is None:
                break
            self.roots[version] = root
        self.timestamp = kept.metadata("timestamp", None) or b""
        self._snapshot = kept.metadata("snapshot", None) or b""

    def metadata(self, role: str, version: int | None) -> bytes | None:
        """See `walk.Source`."""
        if role == "root":
            return self.roots.get(version or 0)
        if role == "timestamp":
            return self.timestamp
        content = self._snapshot if role == "snapshot" else self._versioned(role, version)
        if content is not None:
            self.read[metadata_key(role, version)] = content
        return content

    def old_root(self, version: int) -> bytes | None:
        """Return a root from before the pinned one."""
        return self._versioned("root", version)

    def target(self, path: str, digest: Digest) -> bytes:
        """See `walk.Source`."""
        copied = self._copied(hashed_target_key(path, digest), digest)
        return self._served.target(path, digest) if copied is None else copied

    def named_by_digest(self, path: str, digest: Digest) -> bytes:
        """Return what lies beside the targets under its own digest, verified."""
        copied = self._copied(target_key(path), digest)
        content = self._objects.read(self._places.targets + path) if copied is None else copied
        if Digest.of(content) != digest:
            raise mismatch(self._where, path)
        return content

    def _versioned(self, role: str, version: int | None) -> bytes | None:
        copied = self._copy.metadata(role, version) if self._copy else None
        return self._served.metadata(role, version) if copied is None else copied

    def _copied(self, key: str, digest: Digest) -> bytes | None:
        """Return what the copy has under a key, if it is whole."""
        try:
            content = self._there.read(key) if self._there else None
        except (NotAvailable, TooLarge):
            return None
        return content if content is not None and Digest.of(content) == digest else None
