"""The documents of one verified state of a registry's index, and what a person should know of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel

from plugreg_schemas.signing_kits import import_without_kits

import_without_kits()  # before anything imports python-tuf

from plugreg.index import roots
from plugreg.index.folder import IndexFolder
from plugreg.index.online import Online
from plugreg.index.sources import Copied, Kept
from plugreg.index.verdicts import check_clock, invalid, mismatch
from plugreg.index.walk import Walk, leads_to
from plugreg.objects import offline
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAvailable, Unverifiable
from plugreg_schemas.fields import format_time, read_model
from plugreg_schemas.index import (
    REVOCATIONS_TARGET,
    SIGSTORE_TARGET,
    TRUST_TARGET,
    Admins,
    RevocationList,
    TrustDocument,
    plugin_target,
)
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.revocation import merge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from plugreg.index.folder import Pin
    from plugreg.index.terms import Terms
    from plugreg.objects import Objects
    from plugreg_schemas.api import Discovery

OLD: Final = timedelta(days=30)
"""From this age on, an index that is read without a network is warned of."""
TOO_OLD: Final = timedelta(days=365)
"""And from this age on it is refused, unless a person says otherwise."""
_Model = TypeVar("_Model", bound=BaseModel)


class SignedIndex:
    """One state of a registry's index. `notes` are sentences for people, and grow with what is read."""

    def __init__(self, where: str, folder: IndexFolder, reader: Online | Walk, terms: Terms) -> None:
        self._where = where
        self._folder = folder
        self._reader = reader
        self._terms = terms
        self._read: dict[str, bytes | None] = {}
        self.notes: list[str] = []

    def tell(self, note: str) -> None:
        """Tell a person, and keep it in `notes`."""
        self.notes.append(note)
        self._terms.say(note)

    @property
    def signed_at(self) -> datetime:
        """When this state was confirmed last, by the signed clock of the registry."""
        return self._reader.signed_at

    def document(self, name: str) -> bytes | None:
        """Return a plugin's document, or None where the index does not list the plugin."""
        return self.target(plugin_target(name))

    @cached_property
    def admins(self) -> Admins:
        """The administrators, as the offline role lists them."""
        content = self.target(TRUST_TARGET)
        if content is None:
            return Admins()
        trust = self._parsed(TrustDocument, TRUST_TARGET, content)
        if trust.registry != self._reader.registry:
            raise invalid(self._where, TRUST_TARGET)
        return Admins(trust.admins)

    @property
    def sigstore(self) -> bytes | None:
        """The trust configuration of the registry's own Sigstore, or None."""
        return self.target(SIGSTORE_TARGET)

    @cached_property
    def revocations(self) -> RevocationList:
        """Every revocation that is served now or was ever seen here.

        Raises:
            IntegrityError: see `verdicts`.
        """
        served = self._served_revocations()
        with self._folder.lock(self._terms.patience_s):
            seen, damaged = _seen(self._folder)
            if damaged and served is None:
                raise mismatch(self._where, REVOCATIONS_TARGET)
            merged = merge(seen, served or RevocationList())
            if merged != seen or damaged:
                self._folder.keep_revocations(canonical_json(merged.model_dump(mode="json", by_alias=True)))
        return merged

    def target(self, path: str) -> bytes | None:
        """Return the content of a target, verified, or None where the index does not list it.

        Raises:
            PlugregError: see `verdicts`.
        """
        if path not in self._read:
            with self._folder.lock(self._terms.patience_s):
                self._read[path] = self._fetched(path)
        return self._read[path]

    def _fetched(self, path: str) -> bytes | None:
        target = self._reader.find(path)
        if target is None:
            return None
        if "sha256" not in target.hashes:
            raise invalid(self._where, path)
        return self._reader.content(target, Digest.from_hex(target.hashes["sha256"]))

    def _served_revocations(self) -> RevocationList | None:
        try:
            content = self.target(REVOCATIONS_TARGET)
        except NotAvailable as error:
            if error.code not in {"index_expired", "offline"}:
                raise
            self.tell(f"warning: nothing says what is revoked now: {error.message}")
            return None
        if content is None:
            return RevocationList()
        return self._parsed(RevocationList, REVOCATIONS_TARGET, content)

    def _parsed(self, kind: type[_Model], path: str, content: bytes) -> _Model:
        try:
            return read_model(kind, content, code="index_invalid", file=path)
        except InvalidInput:
            raise invalid(self._where, path) from None


def from_registry(where: str, objects: Objects, discovery: Discovery, terms: Terms) -> SignedIndex:
    """Verify the newest state of an index over the network, and pin its root at the first use.

    Raises:
        PlugregError: see `verdicts` and `roots`; IntegrityError `registry_changed`.
    """

    def read(root: bytes, folder: IndexFolder) -> Online:
        return Online(where, root, folder, objects, discovery.urls)

    return _opened(where, Copied(objects, discovery.urls), discovery, terms, read)


def from_copy(where: str, objects: Objects, discovery: Discovery, terms: Terms) -> SignedIndex:
    """Verify the state that a folder, or for a lock file a registry, has; it may have any bearable age.

    Its root is pinned at the first use.

    Raises:
        PlugregError: as `from_registry`; Unverifiable `index_too_old`.
    """
    source = Copied(objects, discovery.urls)

    def read(root: bytes, folder: IndexFolder) -> Walk:
        return Walk(where, root, source, allow_old=terms.allow_old_index, folder=folder)

    return _aged(where, _opened(where, source, discovery, terms, read), terms)


def from_kept(where: str, registry: str, terms: Terms) -> SignedIndex:
    """Verify the state that this machine has; nobody is asked.

    Raises:
        PlugregError: as `from_copy`; NotAvailable `offline`: it has none.
    """
    folder = IndexFolder.of(terms.home, registry)
    pin = folder.pin()
    if pin is None:
        raise offline(f"this machine has never read the index of {where}")
    folder = folder.of_root(pin)
    with folder.lock(terms.patience_s):
        root = folder.pinned_root(pin)
        if root is None:
            raise mismatch(where, "root")
        kept = Kept(where, folder)
        reader = Walk(where, root, kept, allow_old=terms.allow_old_index)
        roots.check_locked(where, _locked_root(terms, registry), pin, root, kept, None)
    _check_registry(where, registry, reader)
    return _aged(where, SignedIndex(where, folder, reader, terms), terms)


def seen_revocations(home: Path, registry: str) -> RevocationList:
    """Return every revocation of a registry that this machine has seen; a damaged list counts as none."""
    return _seen(IndexFolder.of(home, registry))[0]


def _opened(
    where: str,
    source: Copied,
    discovery: Discovery,
    terms: Terms,
    read: Callable[[bytes, IndexFolder], Online | Walk],
) -> SignedIndex:
    """Read an index from the root on that this machine trusts, and pin it once all is verified."""
    registry = discovery.registry.id
    folder = IndexFolder.of(terms.home, registry)
    with folder.lock(terms.patience_s):
        before = folder.pin()
        pin, root = roots.choose(where, folder, source, discovery.trust.root, terms)
        folder = folder.of_root(pin)
        try:
            reader = read(root, folder)
            _check_registry(where, registry, reader)
        except IntegrityError:
            if before is not None:
                _check_root(where, pin, root, source, discovery)
            raise
        locked = _locked_root(terms, registry)
        roots.check_locked(where, locked, pin, root, source, discovery.trust.root)
        index = SignedIndex(where, folder, reader, terms)
        if before != pin:
            index.tell(f"note: pinned the root {pin.digest} of the registry {where} (`{registry}`)")
        folder.set_pin(pin, root)
    return index


def _locked_root(terms: Terms, registry: str) -> str:
    return (terms.locked_roots or {}).get(registry, "")


def _check_registry(where: str, registry: str, reader: Online | Walk) -> None:
    if reader.registry != registry:
        raise IntegrityError(
            "registry_changed",
            f"{where} says that it is `{registry}`, and its index is that of `{reader.registry}`",
            hint="do not install from it; ask its operator",
        )


def _check_root(where: str, pin: Pin, root: bytes, source: Copied, discovery: Discovery) -> None:
    """Where an index is wrong because its root is another one than ours, say that.

    Raises:
        IntegrityError: `root_changed`.
    """
    offered = discovery.trust.root
    if offered is None or offered.version < pin.version:
        return
    digest = Digest(offered.digest)
    if not leads_to(root, source, offered.version, digest):
        raise roots.changed(where, pin, digest)


def _aged(where: str, index: SignedIndex, terms: Terms) -> SignedIndex:
    """Say how old an index is that nobody could renew.

    Raises:
        Unverifiable: `index_too_old`, `clock_suspect`.
    """
    age = datetime.now(UTC) - index.signed_at
    words = f"the index of {where} is {_words(age)} old"
    if not terms.allow_old_index:
        check_clock(where, index.signed_at)
        if age >= TOO_OLD:
            raise Unverifiable(
                "index_too_old",
                f"{words}: it was signed at {format_time(index.signed_at)}",
                hint="get a newer copy; if there is none, `--allow-old-index` takes it as it is",
            )
    index.tell(
        f"warning: {words}; what was withdrawn or revoked since then is not known here"
        if age >= OLD
        else f"note: {words}"
    )
    return index


def _words(age: timedelta) -> str:
    if age < timedelta(hours=1):
        return "less than an hour"
    number, unit = (age.days, "day") if age.days > 1 else (int(age.total_seconds()) // 3600, "hour")
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _seen(folder: IndexFolder) -> tuple[RevocationList, bool]:
    contents, damaged = folder.seen_revocations()
    lists = (read_model(RevocationList, content, code="index_invalid") for content in contents)
    return reduce(merge, lists, RevocationList()), damaged
