"""`plugreg-registry backup`: a copy of a registry that serves, from which it can come back anywhere.

    timestamp of the index > rows, all of one moment > objects that both name > checked > manifest

In this order whatever a copy names is in the copy: a record is there before the index shows it, and objects
that the index has replaced stay for a day. Nobody is held up.
"""

from __future__ import annotations

import fcntl
import io
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

from plugreg_registry.archive import CONTENT, KEYS, Archive, Manifest
from plugreg_registry.blobs.filesystem import FilesystemBlobs
from plugreg_registry.blobs.folders import PRIVATE, set_mode, store_faults
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import HEAD, check_same
from plugreg_registry.metadata.rows import read_tables
from plugreg_registry.named import named_by
from plugreg_registry.operating import opened
from plugreg_registry.ports import attestation_key, blob_key
from plugreg_registry.proved import Proved
from plugreg_registry.signed_files import at_once
from plugreg_registry.signers import ONLINE, write_private
from plugreg_schemas.api import DISCOVERY_PATH
from plugreg_schemas.errors import IntegrityError, NotAvailable, Temporary, UsageError
from plugreg_schemas.index import metadata_key
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.metadata.rows import Row
    from plugreg_registry.ports import BlobStore
    from plugreg_registry.settings import Settings

_OURS: Final = {CONTENT, KEYS}
_RECORDED: Final = ("blobs/", "attestations/")


@dataclass(frozen=True, slots=True)
class Copied:
    """What a backup came to."""

    manifest: Manifest
    objects: int
    new: int
    """Objects that were not there from the last time."""


def back_up(settings: Settings, folder: Path, *, keys: bool) -> Copied:
    """Copy a registry into a folder, which may hold an earlier copy of it, and check the copy.

    Raises:
        UsageError: `data_missing`, `database_newer`, `backup_folder_taken`. NotAvailable: `index_missing`.
        Temporary: `backup_busy`, `index_unusable`, `store_unavailable`. NoSpace: `disk_full`. IntegrityError:
        `backup_damaged`: what was written cannot be read again.
    """
    with opened(settings) as registry, store_faults(folder), _alone(folder):
        check_same(settings.database)
        archive = Archive(FilesystemBlobs(folder / CONTENT))
        _check_same(archive, registry, folder)
        copied = _copy(settings, registry, archive, folder)
        if damaged := archive.damaged(copied.manifest):  # since the last time
            for key in damaged:
                archive.store.delete(key)
            copied = _copy(settings, registry, archive, folder)
            archive.check(copied.manifest)
        if keys:
            _copy_keys(settings.keys, folder / KEYS)
        archive.finish(copied.manifest)
    return copied


def _copy(settings: Settings, registry: Registry, archive: Archive, scratch: Path) -> Copied:
    index = registry.index
    made_at, state = index.now(), index.files.state()
    recorded: dict[str, str] = {}
    tables = {
        name: archive.keep_lines(_noting(recorded, name, rows), scratch) for name, rows in _tables(settings)
    }
    settled = not index.backlog.waiting(1) and (
        index.files.state().timestamp_content == state.timestamp_content
    )
    stamp = Digest.of(state.timestamp_content)
    archive.keep(stamp, io.BytesIO(state.timestamp_content))
    wanted = {named.key: named.digest for named in named_by(index.files, state)}
    wanted |= {metadata_key("timestamp"): stamp, DISCOVERY_PATH: None}
    wanted |= {key: _digest(key) for key in recorded}
    copying = _Copying(archive, registry.blobs, wanted)
    at_once(copying.one, wanted)
    missing = sorted(key for key in copying.missing if not _is_withdrawn(registry, key, recorded.get(key)))
    if lost := [key for key in missing if not key.startswith(_RECORDED)]:
        raise Temporary(
            "index_unusable",
            f"`{lost[0]}` of the signed index in the store is missing or was altered",
            hint="make the backup again; if it fails again, bring the objects back from an earlier one",
        )
    manifest = Manifest(
        registry=registry.ref.id,
        made_at=made_at,
        revision=HEAD,
        index=state.timestamp.version,
        settled=settled,
        tables=tables,
        objects=archive.keep_lines(sorted(copying.found.items()), scratch),
        missing=tuple(missing),
    )
    return Copied(manifest, len(copying.found), copying.new)


@dataclass(slots=True)
class _Copying:
    """Copies objects, several at a time."""

    archive: Archive
    blobs: BlobStore
    wanted: dict[str, Digest | None]
    found: dict[str, Digest] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    new: int = 0
    _lock: Lock = field(default_factory=Lock)

    def one(self, key: str) -> None:
        """Copy one object, unless its bytes are there."""
        digest = self.wanted[key]
        is_new = digest is None or not self.archive.has(digest)
        if is_new:
            digest, is_new = self._fetch(key, digest)
        with self._lock:
            if digest is None:
                self.missing.append(key)
            else:
                self.found[key] = digest
                self.new += is_new

    def _fetch(self, key: str, digest: Digest | None) -> tuple[Digest | None, bool]:
        """Return the digest of an object, None if it is not there as it was, and whether it was copied."""
        try:
            with self.blobs.open(key) as file:
                if digest is not None:
                    self.archive.keep(digest, Proved(file, digest))
                    return digest, True
                content = file.read()
        except (NotAvailable, IntegrityError):
            return None, False
        digest = Digest.of(content)
        is_new = not self.archive.has(digest)
        if is_new:
            self.archive.keep(digest, io.BytesIO(content))
        return digest, is_new


def _tables(settings: Settings) -> Iterator[tuple[str, Iterator[Row]]]:
    engine = open_database(settings.database)
    try:
        yield from read_tables(engine)
    finally:
        engine.dispose()


def _noting(recorded: dict[str, str], table: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a table, and note the keys of the objects that they name, each with its plugin."""
    for row in rows:
        if table == "releases":
            recorded[blob_key(Digest(row["digest"]))] = row["plugin"]
            recorded[attestation_key(Digest(row["attestation"]))] = row["plugin"]
            if row["provenance"]:
                recorded[attestation_key(Digest(row["provenance"]))] = row["plugin"]
        elif table == "statements":
            recorded[attestation_key(Digest(row["digest"]))] = row["plugin"]
        yield row


def _digest(key: str) -> Digest:
    """Return the digest in the key of a bundle or a statement."""
    return Digest.from_hex(key.rpartition("/")[2].removesuffix(".json"))


def _is_withdrawn(registry: Registry, key: str, plugin: str | None) -> bool:
    """Whether a removal took the bundle that lies under a key. Lifting the removal brings none back."""
    record = registry.index.releases.find(plugin) if plugin else None
    if record is None:
        return False
    removals = [
        statement.accepted_at
        for statement in record.statements
        if isinstance(said := statement.signed().statement.predicate, Status) and said.state == "removed"
    ]
    return any(
        blob_key(release.digest) == key and release.published_at <= removed
        for release in record.releases
        for removed in removals
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Make a folder private, and be the only one who writes a backup to it."""
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    if foreign := sorted({path.name for path in folder.iterdir()} - _OURS):
        raise UsageError(
            "backup_folder_taken",
            f"`{folder}` holds something else than a backup: `{foreign[0]}`",
            hint="name a folder that is empty or does not exist",
        )
    set_mode(folder, PRIVATE)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Temporary(
            "backup_busy", f"another backup is written to `{folder}`", hint="wait until it is done"
        ) from None
    finally:
        os.close(descriptor)


def _check_same(archive: Archive, registry: Registry, folder: Path) -> None:
    """Refuse to replace the backup of another registry."""
    try:
        before = archive.manifest().registry
    except UsageError:
        return
    if before != registry.ref.id:
        raise UsageError(
            "backup_folder_taken",
            f"`{folder}` holds the backup of another registry, `{before}`",
            hint="name a folder that is empty or does not exist",
        )


def _copy_keys(source: Path, target: Path) -> None:
    """Copy the online keys, for nobody else to read. Who may read them can sign as the registry's index."""
    target.mkdir(mode=PRIVATE, exist_ok=True)
    set_mode(target, PRIVATE)
    for role in ONLINE:
        for path in (source / f"{role}.pem", *sorted(source.glob(f"{role}.*.pem"))):
            if path.is_file():
                (target / path.name).unlink(missing_ok=True)
                write_private(target / path.name, path.read_bytes())
