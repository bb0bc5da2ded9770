"""A mirror in one file, as `plugreg export` writes it: a tar archive with one possible form.

    .well-known/plugreg.json      the first member
    attestations/ blobs/ index/   sorted by path; regular files, with headers like those in a bundle
    sha256                        the last member: 64 digits, the digest of all bytes before its header
    two blocks of zeros           the end of the archive and of the file

Nothing is unpacked: a member is read where it lies, by those who read a folder of the same objects and
verify them. So no name of a member ever becomes a path, and no size a reservation.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from plugreg.objects import CHUNK, MAX_OBJECT
from plugreg.own_files import open_regular
from plugreg_schemas.api import DISCOVERY_PATH
from plugreg_schemas.bundle.header import END, Member, decode, encode, padded
from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAvailable, TooLarge
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from plugreg.arrival import Arrival
    from plugreg.objects import Progress

CHECKSUM: Final = "sha256"
CHECKSUM_SIZE: Final = 64
MAX_MEMBERS: Final = 4_000_000
"""More than a registry of 1,000,000 plugins has objects."""
MAX_BLOB: Final = 1 << 30
"""Bytes of any member. What a bundle may have is decided where it is read."""
_HEX: Final = "[0-9a-f]{64}"
_KEY: Final = re.compile(
    rf"index/metadata/(?:timestamp|[0-9]+\.[A-Za-z0-9_-]+)\.json"
    rf"|index/(?:plugins/)?(?P<target>{_HEX})\.[a-z0-9._-]+\.json"
    rf"|index/catalog/(?P<page>{_HEX})\.json"
    rf"|blobs/sha256/(?P<blob>{_HEX})"
    rf"|attestations/sha256/(?P<statement>{_HEX})\.json"
)
"""What a client needs that verifies: the objects which others read under their plain names are left out."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the content of a member lies in the file, in bytes."""

    offset: int
    size: int


Places = Mapping[str, Place]
"""The members of an export by their names, in its order."""


def is_file(path: Path) -> bool:
    """Whether a path names a file, perhaps an export; one that cannot be looked at counts as none."""
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises where a folder above is closed


def is_key(path: str) -> bool:
    """Whether an object belongs in an export."""
    return path == DISCOVERY_PATH or _KEY.fullmatch(path) is not None


def write(folder: Path, file: BinaryIO) -> int:
    """Write the objects of a mirror in `folder` into an empty file, and return its size in bytes.

    The same objects give the same bytes.
    """
    whole = hashlib.sha256()
    for key in sorted(filter(is_key, _keys(folder))):
        for piece in _member(folder, key):
            whole.update(piece)
            file.write(piece)
    file.write(encode(Member(CHECKSUM, CHECKSUM_SIZE)) + _ending(whole.hexdigest()))
    file.flush()
    os.fsync(file.fileno())
    return file.tell()


def _ending(digits: str) -> bytes:
    """Return what follows the header of the last member."""
    return digits.encode().ljust(padded(CHECKSUM_SIZE), b"\0") + END


def _keys(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _member(folder: Path, key: str) -> Iterator[bytes]:
    with open_regular(folder / key) as file:
        size = os.fstat(file.fileno()).st_size
        yield encode(Member(key, size))
        yield from iter(partial(file.read, CHUNK), b"")
    yield bytes(padded(size) - size)


def check(path: Path) -> Places:
    """Read an export from end to end, and return where its members lie.

    Raises:
        InvalidInput: `not_an_export`.
        IntegrityError: `export_damaged`: with the place. OSError: as the system says.
    """
    with open_regular(path) as file:
        places = _scan(file, path)
        _check_contents(file, path, places)
    return places


def _scan(file: BinaryIO, path: Path) -> dict[str, Place]:
    """Return the members by their names, by reading the headers alone."""
    begin = DISCOVERY_PATH.encode() + b"\0"
    if file.read(len(begin)) != begin:
        raise InvalidInput(
            "not_an_export",
            f"{path} is not a file that `plugreg export` has made",
            hint="name such a file; a folder is added with `plugreg registry add file://...`",
        )
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    places: dict[str, Place] = {}
    last = ""
    while last != CHECKSUM:
        start = file.tell()
        member = _header(file, path, start)
        place = Place(file.tell(), member.size)
        if not _may_follow(member, last) or len(places) >= MAX_MEMBERS:
            raise _damaged(path, start, f"{quoted(member.path)} is not what comes next in an export")
        if place.offset + member.span + len(END) > end:
            raise _damaged(path, end, f"the file ends within {quoted(member.path)}")
        places[member.path] = place
        last = member.path
        file.seek(place.offset + member.span)
    if file.read(len(END) + 1) != END:
        raise _damaged(path, file.tell(), "the archive does not end as it should")
    return places


def _header(file: BinaryIO, path: Path, start: int) -> Member:
    """Return the member whose header begins here: a file, and in exactly our form."""

    def exactly(size: int) -> bytes:
        content = file.read(size)
        if len(content) != size:
            raise _damaged(path, start + len(content), "the file ends too early")
        return content

    entry = decode(exactly)
    if entry is None or entry.faults or entry.member is None:
        why = entry.faults[0].message if entry and entry.faults else "the archive ends too early"
        raise _damaged(path, start, why)
    return entry.member


def _may_follow(member: Member, last: str) -> bool:
    """Whether a member may come after the one of the name `last`; "" is before the first."""
    if member.target or member.executable:
        return False
    if member.path == DISCOVERY_PATH:
        return not last and member.size <= MAX_OBJECT
    if member.path == CHECKSUM:
        return bool(last) and member.size == CHECKSUM_SIZE
    found = _KEY.fullmatch(member.path)
    most = MAX_BLOB if found and found["blob"] else MAX_OBJECT
    return found is not None and member.path > last and member.size <= most


def _check_contents(file: BinaryIO, path: Path, places: Places) -> None:
    """Compare every content with the digest that names it, and all of it with the last member."""
    whole = hashlib.sha256()
    file.seek(0)
    for key, place in places.items():
        if key == CHECKSUM:
            break
        whole.update(file.read(place.offset - file.tell()))
        own = hashlib.sha256()
        for chunk in _pieces(file, place):
            own.update(chunk)
            whole.update(chunk)
        whole.update(file.read(padded(place.size) - place.size))
        if _named(key) not in {"", own.hexdigest()}:
            raise _damaged(path, place.offset, f"the content of {quoted(key)} is another one")
    file.seek(places[CHECKSUM].offset)
    ending = _ending(whole.hexdigest())
    if file.read(len(ending) + 1) != ending:
        raise _damaged(path, places[CHECKSUM].offset, "the digest of the whole file is another one")


def _named(key: str) -> str:
    """Return the digest that the name of an object says, or "" if it says none."""
    found = _KEY.fullmatch(key)
    return next(filter(None, found.groups()), "") if found else ""


def _pieces(file: BinaryIO, place: Place) -> Iterator[bytes]:
    file.seek(place.offset)
    left = place.size
    while left and (chunk := file.read(min(CHUNK, left))):
        left -= len(chunk)
        yield chunk


def _damaged(path: Path, offset: int, what: str) -> IntegrityError:
    return IntegrityError(
        "export_damaged",
        f"{path} was altered or cut off, at byte {offset}: {what}",
        hint="copy the file again, or make a new one with `plugreg export`; nothing was imported",
    )


class ExportObjects:
    """The objects in an export, for a registry whose URL names such a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _places(self) -> Places:
        try:
            with open_regular(self._path) as file:
                return _scan(file, self._path)
        except OSError as error:
            raise NotAvailable(
                "object_missing", f"{self._path} cannot be read: {error.strerror or error}"
            ) from None

    def read(self, path: str, limit: int = MAX_OBJECT) -> bytes:
        """See `Objects`. Raises also InvalidInput `not_an_export`, IntegrityError `export_damaged`."""
        if path in self._places and self._places[path].size > limit:
            raise TooLarge("document_too_large", f"{path} in {self._path} is larger than {limit} bytes")
        return b"".join(self._content(path))

    def receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        """See `Objects`; raises also as `read`."""
        chunks = self._content(path)
        arrival.restart()
        for chunk in chunks:
            arrival.take(chunk)
            progress("download", arrival.done, arrival.size)

    def _content(self, path: str) -> Iterable[bytes]:
        place = self._places.get(path)
        if place is None:
            raise NotAvailable("object_missing", f"{path} is not in {self._path}")
        with open_regular(self._path) as file:
            yield from _pieces(file, place)
