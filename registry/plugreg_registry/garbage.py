"""Removes what nothing names any more, beside publishes, without holding anybody up.

    objects > those older than the grace > those that no record names
            > looked at once more > removed > asked once more: named meanwhile? > put back

A publish puts its objects first and its record last, so an object without a record is either left over or
very new. The grace sees to the new ones: whoever publishes puts an object again, even if it is there, and
that makes it new. Between the last look and the removal a publish may still come: then either this one sees
its record afterwards and puts the object back, or the publish sees that the object is gone and puts it again
(`publishing`). What is lost if the process is killed just there is an object that was put and named within
the same milliseconds.

Files of the index are not removed here: what no state names is handed to `leftovers`, which removes it a day
later.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from plugreg_registry.named import named_by
from plugreg_registry.object_kinds import kind_of
from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.index import TARGETS_FOLDER
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from plugreg_registry.index import Index
    from plugreg_registry.ports import Inventory
    from plugreg_registry.records import StoredObject

BATCH: Final = 5000
"""Objects about which the records are asked at a time."""

_FOLDERS: Final = ("blobs/sha256", "attestations/sha256")
_DIGEST: Final = re.compile("(?:blobs/sha256/([0-9a-f]{64})|attestations/sha256/([0-9a-f]{64})[.]json)")
_EVER: Final = timedelta(days=36_500)
_ALL: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Swept:
    """What was found, and was removed unless it was only looked for."""

    objects: tuple[StoredObject, ...]
    index_files: tuple[str, ...]
    """Keys of files of the index that are removed a day later."""

    @property
    def size(self) -> int:
        """The bytes of the objects."""
        return sum(found.size for found in self.objects)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Looks for what nothing names, and removes it."""

    index: Index
    inventory: Inventory
    scratch: Path
    """A private folder for what may have to be put back."""
    before: datetime
    """Only what was last put before this time is touched."""

    def look(self) -> Swept:
        """Return what could be removed now.

        Raises:
            NotAvailable: `index_missing`. Temporary: `index_unusable`.
        """
        return Swept(tuple(self._orphans()), tuple(self._index_files()))

    def sweep(self) -> Swept:
        """Remove it, and return what was removed. Raises as `look`."""
        removed = tuple(orphan for orphan in self._orphans() if self._remove(orphan.key))
        files = tuple(self._index_files())
        self.index.leftovers.add(files, self.index.now())
        return Swept(removed, files)

    def _orphans(self) -> Iterator[StoredObject]:
        """Yield the bundles and statements that no record names."""
        some: dict[Digest, StoredObject] = {}
        for folder in _FOLDERS:
            for found in self.inventory.objects(folder):
                digest = _digest(found.key)
                if digest is not None and found.changed < self.before:
                    some[digest] = found
                if len(some) == BATCH:
                    yield from self._unnamed(some)
                    some = {}
            yield from self._unnamed(some)
            some = {}

    def _unnamed(self, some: dict[Digest, StoredObject]) -> Sequence[StoredObject]:
        named = self.index.releases.named(some.keys())
        return [found for digest, found in some.items() if digest not in named]

    def _remove(self, key: str) -> bool:
        """Remove an object if it is still as old and nothing names it; return whether it is gone."""
        changed, digest = self.inventory.changed(key), _digest(key)
        if digest is None or changed is None or changed >= self.before or self._is_named(digest):
            return False
        try:
            opened = self.index.blobs.open(key)
        except NotAvailable:
            return False
        with opened, _lasting(opened, self.scratch) as content:
            self.index.blobs.delete(key)
            if not self._is_named(digest):
                return True
            self.index.blobs.put(key, content)
        return False

    def _is_named(self, digest: Digest) -> bool:
        return bool(self.index.releases.named((digest,)))

    def _index_files(self) -> Iterator[str]:
        """Yield the versioned and hashed files that the present state does not name and nobody noted."""
        old = sorted(
            found.key
            for found in self.inventory.objects(TARGETS_FOLDER)
            if found.changed < self.before and (kind := kind_of(found.key)) is not None and kind.is_fixed
        )
        files = self.index.files
        kept = {named.key for named in named_by(files, files.state())}
        kept.update(self.index.leftovers.old(self.index.now() + _EVER, _ALL))
        yield from (key for key in old if key not in kept)


def _digest(key: str) -> Digest | None:
    found = _DIGEST.fullmatch(key)
    return Digest.from_hex(found[1] or found[2]) if found else None


@contextmanager
def _lasting(opened: BinaryIO, scratch: Path) -> Iterator[BinaryIO]:
    """Give what can be read even when its name is gone: an open file of this machine, else a copy."""
    try:
        opened.fileno()
    except io.UnsupportedOperation:
        with tempfile.TemporaryFile(dir=scratch) as copy:
            shutil.copyfileobj(opened, copy)
            copy.seek(0)
            yield cast("BinaryIO", copy)
    else:
        yield opened
