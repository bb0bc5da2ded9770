"""Copy what a registry offers into a folder, for `file://` registries and any web server.

    index/<hashed> > statements, bundles > index/metadata > roots > timestamp: THE COMMIT POINT > the rest

Everything is verified before it is written, and every file is written beside its place and then moved. Until
the timestamp is there, readers see the state before; what comes after it is for readers that verify nothing,
and the discovery document, whose root leads to every later one. What is there whole is not fetched again.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from plugreg.index.terms import silent
from plugreg.objects import CHUNK, FolderObjects
from plugreg.own_files import open_regular, read_small
from plugreg.plugins_root.durability import FILE_MODE, barrier, erase, make_folder, move
from plugreg.plugins_root.locking import held
from plugreg.reader import no_progress
from plugreg.selection import document_of, of_names
from plugreg_schemas.api import DISCOVERY_PATH, Locations
from plugreg_schemas.errors import Gone, IntegrityError, NotAllowed, NotAvailable
from plugreg_schemas.index import hashed_target_key, metadata_key, target_key
from plugreg_schemas.names import Digest, PluginName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from plugreg.index.whole import Whole
    from plugreg.reader import Progress, Reader
    from plugreg.selection import Select
    from plugreg_schemas.api import DocumentVersion

OWN_FOLDER: Final = ".plugreg-mirror"
"""Our part of the folder: whose mirror it is, a lock, and files that are on the way."""
PATIENCE_S: Final = 30.0
_MISSING: Final = "bundle_missing"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was done: how many plugins were looked at, and the files that were not there before."""

    folder: Path
    plugins: int
    fetched: int
    size: int

    def as_dict(self) -> dict[str, Any]:
        """Return the result of `mirror --json`."""
        counts = {"plugins": self.plugins, "fetched": self.fetched, "bytes": self.size}
        return {"folder": str(self.folder), **counts}


def mirror(
    folder: Path,
    names: Sequence[PluginName],
    registry: Reader,
    *,
    select: Select | None = None,
    say: Callable[[str], None] = silent,
    progress: Progress = no_progress,
) -> Mirrored:
    """Copy the index of a registry, and the statements and bundles of these plugins, or of all for none.

    `select` says in place of the names which plugins, and which versions of each.

    Raises:
        NotAllowed: `not_ours`: the folder is something else.
        NotAvailable: `plugin_not_found`; `bundle_missing`: all but these bundles was copied.
        IntegrityError: `digest_mismatch`, `attestation_altered`; PlugregError: as `Reader.index`.
        Temporary: `root_locked`, `download_incomplete`.
    """
    with _opened(folder, registry.discovery.registry.id, say) as copy:
        index = registry.whole_index(FolderObjects(folder))
        chosen = (select or of_names(names))(index)
        for path, digest in index.targets.items():
            copy.put(hashed_target_key(path, digest), index.target(path))
        report = _one_bar(progress, sum(entry.size for entries in chosen.values() for entry in entries))
        missing = [
            words
            for name, entries in chosen.items()
            for words in _take_plugin(copy, index, name, entries, registry, report)
        ]
        _take_index(copy, index)
    if missing:
        raise NotAvailable(
            _MISSING,
            f"the registry {registry.url} does not have the bundles of {', '.join(missing)}; "
            "everything else was copied",
            hint="tell its operator",
        )
    return Mirrored(copy.folder, len(chosen), copy.fetched, copy.size)


def _one_bar(progress: Progress, total: int) -> Callable[[int], Progress]:
    """Return what makes one report out of those of many downloads, by the bytes that were there before."""
    done = 0

    def begin(size: int) -> Progress:
        nonlocal done
        before, done = done, done + size
        progress("mirror", before, total)
        return lambda _what, now, _size: progress("mirror", before + now, total)

    return begin


def _take_plugin(
    copy: _Copy,
    index: Whole,
    name: PluginName,
    entries: Sequence[DocumentVersion],
    registry: Reader,
    report: Callable[[int], Progress],
) -> list[str]:
    """Copy the statements and bundles of a plugin; return the versions whose bundles are not there.

    Those of a plugin that is removed need not be there.
    """
    document = document_of(index, name)
    statements = (
        *document.history,
        *(digest for entry in document.versions for digest in entry.attestations),
    )
    for digest in dict.fromkeys(map(Digest, statements)):
        _take_statement(copy, digest, registry)
    missing = []
    for entry in entries:
        try:
            _take_bundle(copy, entry, registry, report(entry.size))
        except NotAvailable as error:
            if error.code != _MISSING and not isinstance(error, Gone):
                raise
            missing.append(f"`{name}` {entry.version}")
    return missing if document.status.state != "removed" else []


def _take_statement(copy: _Copy, digest: Digest, registry: Reader) -> None:
    key = Locations().attestation.replace("{hex}", digest.hex)
    if copy.digest_of(key) == digest:
        return
    content = registry.attestation(digest)
    if Digest.of(content) != digest:
        raise IntegrityError(
            "attestation_altered",
            f"the signed statement `{digest}` of {registry.url} is not the one of this digest",
            hint="it was altered on the way or in the store; try another network",
        )
    copy.put(key, content)


def _take_bundle(copy: _Copy, entry: DocumentVersion, registry: Reader, progress: Progress) -> None:
    digest = Digest(entry.digest)
    key = Locations().blob.replace("{hex}", digest.hex)
    if copy.size_of(key) == entry.size and copy.digest_of(key) == digest:
        return
    with copy.writing(key) as file:
        registry.download(digest, entry.size, file, progress)


def _take_index(copy: _Copy, index: Whole) -> None:
    """Copy the rest of the index: what nothing names yet first, the timestamp last of what is verified."""
    for path, content in index.pages():
        copy.put(target_key(path), content)
    for key, content in index.metadata.items():
        copy.put(key, content)
    barrier(copy.folder)
    for key, content in index.roots.items():
        copy.put(key, content)
    copy.put(metadata_key("timestamp"), index.timestamp)
    for path in index.targets:
        copy.put(target_key(path), index.target(path))
    copy.put(DISCOVERY_PATH, index.discovery_of_copy())


@dataclass(slots=True)
class _Copy:
    """The folder of a mirror, and how much was written."""

    folder: Path
    fetched: int = field(default=0, init=False)
    size: int = field(default=0, init=False)

    def put(self, key: str, content: bytes) -> None:
        """Write a small file, unless exactly this is there."""
        if self.digest_of(key) != Digest.of(content):
            with self.writing(key) as file:
                file.write(content)

    @contextmanager
    def writing(self, key: str) -> Iterator[BinaryIO]:
        """Yield an empty file, which takes its place when the block has ended well."""
        place, beside = self.folder / key, self.folder / OWN_FOLDER / "new"
        with beside.open("w+b") as file:
            yield file
            file.seek(0, os.SEEK_END)
            self.size += file.tell()
        beside.chmod(FILE_MODE)
        make_folder(place.parent)
        move(beside, place)
        self.fetched += 1

    def size_of(self, key: str) -> int:
        """Return the size of a file that is there, else -1."""
        try:
            return (self.folder / key).stat().st_size
        except OSError:
            return -1

    def digest_of(self, key: str) -> Digest | None:
        """Return the digest of a file that is there."""
        hashed = hashlib.sha256()
        try:
            with open_regular(self.folder / key) as file:
                for chunk in iter(partial(file.read, CHUNK), b""):
                    hashed.update(chunk)
        except OSError:
            return None
        return Digest.from_hex(hashed.hexdigest())


@contextmanager
def _opened(folder: Path, registry: str, say: Callable[[str], None]) -> Iterator[_Copy]:
    """Hold a folder that is empty, or a mirror of this registry, alone."""
    folder = folder.absolute()
    own = folder / OWN_FOLDER
    if not own.is_dir() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _not_ours(folder, "is not empty, and no mirror")
    make_folder(own)
    with held(own / "lock", PATIENCE_S, say, what=f"the mirror in {folder}"):
        copy = _Copy(folder)
        erase(own / "new")
        known = b""
        with suppress(OSError):
            known = read_small(own / "registry")
        if known not in {b"", registry.encode()}:
            raise _not_ours(folder, f"is a mirror of `{known.decode(errors='replace')}`")
        if not known:
            (own / "new").write_text(registry)
            move(own / "new", own / "registry")
        yield copy


def _not_ours(folder: Path, what: str) -> NotAllowed:
    return NotAllowed("not_ours", f"{folder} {what}, so it stays as it is", hint="name an empty folder")
