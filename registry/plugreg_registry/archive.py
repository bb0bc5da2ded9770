"""A backup: a folder that holds a registry's records and objects under the digests of their bytes.

    <folder>/content/manifest.json          who, when, and which files; written last: without it, no backup
    <folder>/content/files/<ab>/<hex>       every table and every object, by digest
    <folder>/keys/                          the online keys of the index, only if they were asked for

Tables are JSON lines, a line for each row. So are the keys of the objects, each with the digest of its bytes.
What is there already is not copied again, and a copy that is cut off leaves the last manifest in force.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Literal

from pydantic import Field

from plugreg_registry.ports import Over
from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import Collector, Conflict, IntegrityError, InvalidInput, NotAvailable, UsageError
from plugreg_schemas.fields import DigestField, Open, RegistryIdField, TimeField, read_model
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from plugreg_registry.ports import BlobStore, Source
    from plugreg_schemas.documents import Json

CONTENT: Final = "content"
MANIFEST: Final = "manifest.json"
FILES: Final = "files"
KEYS: Final = "keys"
FORMAT: Final = "plugreg-backup/1"

_READ_BYTES: Final = 1 << 20


class Lines(Open):
    """A file of JSON lines."""

    digest: DigestField
    lines: Annotated[int, Field(ge=0)]


class Manifest(Open):
    """What a backup holds."""

    format: Literal["plugreg-backup/1"] = FORMAT
    registry: RegistryIdField
    made_at: TimeField
    revision: Annotated[str, Field(pattern="^[0-9]{4}$")]
    """Of the tables in the database."""
    index: Annotated[int, Field(ge=1)]
    """The version of the timestamp of the index."""
    settled: bool
    """Whether the index shows all that the rows say."""
    tables: dict[str, Lines]
    objects: Lines
    missing: tuple[str, ...] = ()
    """Keys of objects that something names and the store did not have."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A backup in a store: by digest."""

    store: BlobStore

    def manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            UsageError: `backup_missing`. InvalidInput: `backup_unusable`.
        """
        try:
            with self.store.open(MANIFEST) as file:
                content = file.read()
        except NotAvailable:
            raise UsageError(
                "backup_missing",
                "there is no finished backup in this folder",
                hint="name the folder that `plugreg-registry backup` has written",
            ) from None
        return read_model(Manifest, content, code="backup_unusable", file=MANIFEST)

    def has(self, digest: Digest) -> bool:
        """Whether a file is there."""
        return self.store.has(file_key(digest))

    def open(self, digest: Digest) -> BinaryIO:
        """Open a file. Raises `IntegrityError`: `backup_damaged`."""
        try:
            return self.store.open(file_key(digest))
        except NotAvailable:
            raise damaged(f"`{file_key(digest)}` is missing") from None

    def keep(self, digest: Digest, source: Source) -> None:
        """Keep a file whose digest is known; nothing is kept if the bytes have another."""
        self.store.put(file_key(digest), source)

    def lines(self, of: Lines) -> Iterator[Json]:
        """Yield the lines of a file. Raises `InvalidInput`: the fault of a line."""
        with self.open(Digest(of.digest)) as file:
            for line in file:
                yield parse_json(line)

    def keep_lines(self, rows: Iterable[object], scratch: Path) -> Lines:
        """Keep rows as lines."""
        seen, count = hashlib.sha256(), 0
        with tempfile.TemporaryFile(dir=scratch) as file:
            for row in rows:
                line = canonical_json(row) + b"\n"
                seen.update(line)
                file.write(line)
                count += 1
            digest = Digest.from_hex(seen.hexdigest())
            if not self.has(digest):
                file.seek(0)
                self.keep(digest, file)
        return Lines(digest=digest, lines=count)

    def objects(self, manifest: Manifest) -> dict[str, Digest]:
        """Return the digests of the objects, by key.

        Raises:
            InvalidInput: `backup_unusable`. IntegrityError: `backup_damaged`.
        """
        found: dict[str, Digest] = {}
        for line in self.lines(manifest.objects):
            if not (isinstance(line, list) and len(line) == len(("key", "digest"))):
                raise InvalidInput("backup_unusable", "a line of the objects is no pair of key and digest")
            found[str(line[0])] = Digest(str(line[1]))
        return found

    def check(self, manifest: Manifest) -> None:
        """Read every file that a manifest names, and compare it with its digest.

        Raises:
            IntegrityError: `backup_damaged`, with a finding for each file.
        """
        faults = Collector("backup_damaged", "the backup is damaged")
        for key in self.damaged(manifest):
            faults.add("backup_damaged", f"`{key}` is missing or was altered", file=key)
        faults.raise_if_any(IntegrityError, hint=_HINT)

    def damaged(self, manifest: Manifest) -> Sequence[str]:
        """Return the keys of files that are missing or altered. If those list the rest, only they."""
        lists = [Digest(lines.digest) for lines in (*manifest.tables.values(), manifest.objects)]
        return self._damaged(lists) or self._damaged(sorted(set(self.objects(manifest).values())))

    def finish(self, manifest: Manifest) -> None:
        """Make a manifest the one in force, then forget files that it does not name."""
        content = canonical_json(manifest.model_dump(mode="json"))
        self.store.put(MANIFEST, io.BytesIO(content), Over.ANY)
        named = {file_key(digest) for digest in self.objects(manifest).values()}
        lists = (*manifest.tables.values(), manifest.objects)
        named.update(file_key(Digest(lines.digest)) for lines in lists)
        for key in self.store.keys(FILES):
            if key not in named:
                self.store.delete(key)

    def _damaged(self, digests: Iterable[Digest]) -> Sequence[str]:
        return [file_key(digest) for digest in digests if not self._is_whole(digest)]

    def _is_whole(self, digest: Digest) -> bool:
        try:
            with self.store.open(file_key(digest)) as file:
                return digest_of_file(file) == digest
        except NotAvailable:
            return False


@dataclass(frozen=True, slots=True)
class Contents:
    """The objects of a backup as a store that can be read; what is put stays in memory."""

    archive: Archive
    digests: Mapping[str, Digest]
    new: dict[str, bytes]

    def put(self, key: str, source: Source, over: bytes | Literal[Over.ANY] | None = Over.ANY) -> None:
        """See `BlobStore.put`; a condition is held to what is there now."""
        present = None
        if over is not Over.ANY and self.has(key):
            with self.open(key) as file:
                present = file.read()
        if over is not Over.ANY and present != over:
            raise Conflict("object_changed", f"`{key}` is there")
        self.new[key] = b"".join(iter(lambda: source.read(_READ_BYTES), b""))

    def open(self, key: str) -> BinaryIO:
        """See `BlobStore.open`."""
        if key in self.new:
            return io.BytesIO(self.new[key])
        if key not in self.digests:
            raise NotAvailable("object_not_found", f"there is no object `{key}`")
        return self.archive.open(self.digests[key])

    def has(self, key: str) -> bool:
        """See `BlobStore.has`."""
        return key in self.new or key in self.digests

    def delete(self, key: str) -> None:
        """See `BlobStore.delete`."""
        self.new.pop(key, None)

    def keys(self, prefix: str) -> Iterator[str]:
        """See `BlobStore.keys`."""
        yield from sorted(key for key in {*self.new, *self.digests} if key.startswith(f"{prefix}/"))


def file_key(digest: Digest) -> str:
    """Return where a file lies in a backup."""
    return f"{FILES}/{digest.hex[:2]}/{digest.hex}"


def digest_of_file(file: BinaryIO) -> Digest:
    """Return the digest of the rest of a file."""
    seen = hashlib.sha256()
    while chunk := file.read(_READ_BYTES):
        seen.update(chunk)
    return Digest.from_hex(seen.hexdigest())


def damaged(what: str) -> IntegrityError:
    """Return the refusal of a backup that is not as it was written."""
    return IntegrityError("backup_damaged", f"the backup is damaged: {what}", hint=_HINT)


_HINT: Final = "take another copy of the backup; `plugreg-registry backup` writes such files anew"
