"""`plugreg-registry restore`: a registry comes back from a backup, into places that hold none.

    every digest checked > the places are empty > keys > objects > timestamp of the index
            > rows, in one transaction: THE COMMIT POINT

Cut off before the rows are there, it is simply run again: what was written is of this backup. The places are
those of the settings, so a registry can move from a folder to PostgreSQL and S3, and back.

A backup is taken to be older than what clients have seen, unless the operator says that nothing came after
it, or the objects of that time are at hand and say so: then every byte is as it was. Otherwise the index is
signed again (`jump`), which needs its online keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError

from plugreg_registry.app import make_folders
from plugreg_registry.archive import CONTENT, KEYS, Archive, Contents, Manifest, damaged
from plugreg_registry.blobs.filesystem import FilesystemBlobs
from plugreg_registry.blobs.folders import PRIVATE, set_mode
from plugreg_registry.blobs.locks import FileLocks
from plugreg_registry.gone import Gone, gone
from plugreg_registry.jump import jump
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import HEAD, is_there, migrate, revision
from plugreg_registry.metadata.rows import KEPT, holds_registry, write_tables
from plugreg_registry.proved import Proved
from plugreg_registry.signed_files import SignedFiles, at_once
from plugreg_registry.signers import Keys, write_private
from plugreg_registry.stores import open_store
from plugreg_schemas.api import DISCOVERY_PATH
from plugreg_schemas.errors import IntegrityError, InvalidInput, Temporary, UsageError
from plugreg_schemas.index import metadata_key
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from plugreg_registry.metadata.rows import Row
    from plugreg_registry.ports import BlobStore
    from plugreg_registry.settings import Settings

_LAST: Final = (DISCOVERY_PATH, metadata_key("timestamp"))
"""Objects that make a store a registry's: the last to be written."""
_FOLDERS: Final = ("blobs", "attestations", "index", ".well-known")


@dataclass(frozen=True, slots=True)
class Back:
    """What came back."""

    manifest: Manifest
    objects: int
    index: int
    """The version of the timestamp of the index now; that of the manifest if nothing was signed again."""
    gone: tuple[Gone, ...] | None
    """What a newer state had; None if there was nothing to compare with."""


def bring_back(
    settings: Settings, folder: Path, *, keys: Path | None, compare: Path | None, unchanged: bool
) -> Back:
    """Bring the registry of a backup into the places of the settings.

    Raises:
        UsageError: `backup_missing`, `backup_newer`, `restore_target_taken`, `restore_keys_missing`.
        InvalidInput: `backup_unusable`. IntegrityError: `backup_damaged`. NotAvailable, Temporary: as
        `gone`, of what is compared; the database or the store cannot be used. NoSpace: `disk_full`.
    """
    archive = Archive(FilesystemBlobs(folder / CONTENT))
    manifest = archive.manifest()
    _check_age(manifest)
    archive.check(manifest)
    digests = archive.objects(manifest)
    contents = Contents(archive, digests, {})
    lost, same = _compared(archive, manifest, digests, compare)
    source = next((place for place in (keys, folder / KEYS) if place and place.is_dir()), settings.keys)
    version = manifest.index if unchanged or same else _jump(contents, Keys(source, uris=settings.key_uris))
    make_folders(settings)
    with FileLocks(settings.locks)("index", "prepare"):
        store = open_store(settings)
        try:
            store.abilities()
            _check_empty(settings, store.blobs, contents)
            _copy_keys(source, settings.keys)
            _put_all(store.blobs, contents)
            _write_rows(settings, archive, manifest)
        finally:
            store.close()
    return Back(manifest, len(digests), version, lost)


def _check_age(manifest: Manifest) -> None:
    if manifest.revision > HEAD:
        raise UsageError(
            "backup_newer",
            f"the backup was made by a newer plugreg: its tables are at `{manifest.revision}`, not `{HEAD}`",
            hint="upgrade plugreg",
        )
    if "registry" not in manifest.tables or manifest.tables["registry"].lines != 1:
        raise InvalidInput("backup_unusable", "the backup does not say which registry it is of")
    if unknown := manifest.tables.keys() - KEPT.keys():
        raise InvalidInput("backup_unusable", f"the backup has a table `{min(unknown)}` that nobody knows")


def _compared(
    archive: Archive, manifest: Manifest, digests: Mapping[str, Digest], compare: Path | None
) -> tuple[tuple[Gone, ...] | None, bool]:
    """Return what a newer state had, and whether the backup is the newest state after all."""
    if compare is None:
        return None, False
    newer = SignedFiles(FilesystemBlobs(compare), Keys(compare))
    same = Digest.of(newer.state().timestamp_content) == digests[metadata_key("timestamp")]
    versions = {(row["plugin"], row["version"]) for row in _rows(archive, manifest, "releases")}
    statements = {row["digest"] for row in _rows(archive, manifest, "statements")}
    return tuple(gone(newer, digests.keys(), versions, statements)), same


def _jump(contents: Contents, keys: Keys) -> int:
    try:
        return jump(SignedFiles(contents, keys), datetime.now(UTC).replace(microsecond=0))
    except Temporary as error:
        if error.code != "index_key_missing":
            raise
        raise UsageError(
            "restore_keys_missing",
            f"`{keys.folder}` has not the keys that sign the index anew: {error.message}",
            hint="name their folder with `--keys`, or say `--unchanged` if nothing came after the backup",
        ) from None


def _check_empty(settings: Settings, blobs: BlobStore, contents: Contents) -> None:
    """Refuse places in which there is something else than what a restore that was cut off has left."""
    if _has_registry(settings):
        raise _taken(f"the database `{settings.database}` holds a registry")
    for folder in _FOLDERS:
        for key in blobs.keys(folder):
            if not contents.has(key):
                raise _taken(f"the store of objects holds `{key}`, which is not of this backup")


def _has_registry(settings: Settings) -> bool:
    if not is_there(settings.database):
        return False
    engine = open_database(settings.database)
    try:
        return revision(engine) is not None and holds_registry(engine)
    finally:
        engine.dispose()


def _taken(what: str) -> UsageError:
    return UsageError(
        "restore_target_taken",
        f"nothing was restored: {what}",
        hint="name empty places: another `--data`, database, bucket or prefix",
    )


def _copy_keys(source: Path, target: Path) -> None:
    """Bring the online keys to where the settings want them, unless they are there."""
    if source == target or not source.is_dir():
        return
    target.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    set_mode(target, PRIVATE)
    for path in sorted(source.glob("*.pem")):
        new, content = target / path.name, path.read_bytes()
        if not new.exists():
            write_private(new, content)
        elif new.read_bytes() != content:
            raise _taken(f"`{target}` holds another key `{path.name}`")


def _put_all(blobs: BlobStore, contents: Contents) -> None:
    def put(key: str) -> None:
        with contents.open(key) as file:
            blobs.put(key, file if key in contents.new else Proved(file, contents.digests[key]))

    keys = {*contents.digests, *contents.new}
    try:
        at_once(put, sorted(keys - set(_LAST)))
        for key in _LAST:
            if key in keys:
                put(key)
    except IntegrityError as error:
        raise damaged(error.message) from None


def _write_rows(settings: Settings, archive: Archive, manifest: Manifest) -> None:
    migrate(settings.database)
    tables = {name: _rows(archive, manifest, name) for name in manifest.tables}
    if not manifest.settled and "plugins" in tables:
        tables["plugins"] = ({**row, "indexed": 0} for row in tables["plugins"])
    engine = open_database(settings.database)
    try:
        write_tables(engine, tables)
    except (KeyError, TypeError, ValueError, DBAPIError) as error:
        raise InvalidInput(
            "backup_unusable", f"the rows of the backup do not fit the tables: {type(error).__name__}"
        ) from error
    finally:
        engine.dispose()


def _rows(archive: Archive, manifest: Manifest, table: str) -> Iterator[Row]:
    for line in archive.lines(manifest.tables[table]):
        if not isinstance(line, dict):
            raise InvalidInput("backup_unusable", f"a row of the table `{table}` is no object")
        yield line
