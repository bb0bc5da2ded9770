"""Read a bundle and prove its form, member by member, in constant memory.

    stream > one zstd frame, block by block > header, content, filling > ... > two blocks of zeros > the end

After the first fault nothing more is yielded, but reading goes on: a bundle is refused with all its faults at
once. What was yielded is provisional until the iterator has ended, for some faults (a link to nothing, the
checksum of the frame) show only there. A consumer that writes files must throw them away when it raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from plugreg_schemas.bundle.frame import HINT, over, refuse, unpacked
from plugreg_schemas.bundle.header import BLOCK, END, Entry, Member, decode
from plugreg_schemas.bundle.limits import DEFAULT_LIMITS, MIB, Limits
from plugreg_schemas.bundle.listing import Names
from plugreg_schemas.bundle.paths import printable
from plugreg_schemas.errors import Collector, InvalidInput
from plugreg_schemas.platforms import HEAD, native_head
from plugreg_schemas.tree import MemoryTree, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_KEPT_FILE: Final = MIB
"""Bytes of one file that `outline` keeps: manifests and skills are far smaller."""
MAX_KEPT: Final = 32 * MIB
SHEBANG: Final = 128
"""Bytes kept of a file that begins with `#!`: its first line, as far as every kernel reads it."""


def open_bundle(
    stream: BinaryIO, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Yield each member with its content in pieces; a consumer may leave a content unread.

    Raises:
        InvalidInput: `bundle_invalid` or the one code that all faults share: those of `frame.unpacked`, of
            `listing.Names`, and `member_header`, `member_type`, `member_padding`, `bundle_end`,
            `bundle_empty`.
        TooLarge: the bundle is over one of `limits`.
    """
    faults = Collector("bundle_invalid", "the bundle is refused")
    try:
        yield from _members(_Tape(unpacked(stream, limits)), Names(limits), faults, limits)
    except InvalidInput as error:
        if faults.failed:
            # What ended the reading comes first: after many others it would only be counted.
            faults.findings[:0] = error.findings
            faults.raise_if_any(type(error), hint=error.hint)
        raise
    faults.raise_if_any(hint=HINT)


def _members(
    tape: _Tape, names: Names, faults: Collector, limits: Limits
) -> Iterator[tuple[Member, Iterator[bytes]]]:
    count = 0
    while (entry := decode(tape.read)) is not None:
        count += 1
        if count > limits.members:
            over("bundle_too_many_members", f"the bundle has more than {limits.members} members")
        faults.extend(entry.faults)
        if entry.member is not None:
            if entry.member.size > limits.unpacked:
                over("bundle_unpacked_too_large", f"the bundle unpacks to more than {limits.unpacked} bytes")
            faults.extend(names.see(entry.member))
        if entry.lost:
            return
        yield from _content(tape, entry, faults)
    if tape.read(BLOCK) != END[BLOCK:] or not tape.ended():
        faults.add("bundle_end", "the archive does not end with exactly two blocks of zeros")
    if not len(names) and not faults.failed:
        faults.add("bundle_empty", "the bundle holds no files")
    faults.extend(names.finish())


def _content(tape: _Tape, entry: Entry, faults: Collector) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Yield the member, unless something was wrong before, and go to where the next header begins."""
    member = entry.member
    if member is None:
        return
    content = _Content(tape, member.size)
    if not faults.failed:
        yield member, content
    content.skip()
    if any(tape.read(member.span - member.size)):
        message = "the filling after the content is not zero"
        faults.add("member_padding", message, file=printable(member.path))


class _Tape:
    """Reads exact amounts from an iterator of pieces."""

    __slots__ = ("_at", "_piece", "_pieces")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._at = 0

    def some(self, most: int) -> bytes:
        """Return between 1 and `most` bytes."""
        if self.ended():
            refuse("bundle_truncated", "the archive inside the bundle ends too early")
        found = self._piece[self._at : self._at + most]
        self._at += len(found)
        return found

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes."""
        found = self.some(size) if size else b""
        while len(found) < size:
            found += self.some(size - len(found))
        return found

    def ended(self) -> bool:
        """Say whether nothing is left, fetching the next piece if need be."""
        while self._at == len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._piece, self._at = piece, 0
        return False


class _Content:
    """The content of one member, which can be read until the next member is asked for."""

    __slots__ = ("_left", "_passed", "_tape")

    def __init__(self, tape: _Tape, size: int) -> None:
        self._tape = tape
        self._left = size
        self._passed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._passed:
            raise RuntimeError("a content must be read before the next member is asked for")
        if not self._left:
            raise StopIteration
        return self._some()

    def _some(self) -> bytes:
        piece = self._tape.some(self._left)
        self._left -= len(piece)
        return piece

    def skip(self) -> None:
        """Pass over what was not read."""
        self._passed = self._left > 0
        while self._left:
            self._some()


def outline(stream: BinaryIO, limits: Limits, wanted: Callable[[str], bool]) -> MemoryTree:
    """Prove a whole bundle and return its tree, with the content of the files whose path is `wanted`.

    Of a wanted file over `MAX_KEPT_FILE` one byte more than that is kept, so that reading it under that limit
    fails as it would on disk. Of any other file that begins with `#!` the first `SHEBANG` bytes are kept, and
    of a native program its header.

    Raises:
        InvalidInput, TooLarge: as `open_bundle`.
        TooLarge: `bundle_wanted_too_large`: the wanted files together are over `MAX_KEPT`.
    """
    nodes: dict[str, Node] = {}
    contents: dict[str, bytes] = {}
    kept = 0
    for member, pieces in open_bundle(stream, limits):
        nodes[member.path] = node_of(member)
        if member.target:
            continue
        if wanted(member.path):
            contents[member.path] = _start(pieces, MAX_KEPT_FILE + 1)
        elif first := _telling(_start(pieces, HEAD)):
            contents[member.path] = first
        kept += len(contents.get(member.path, b""))
        if kept > MAX_KEPT:
            over(
                "bundle_wanted_too_large",
                f"the manifests and skills of the bundle are larger than {MAX_KEPT} bytes",
            )
    return MemoryTree(nodes, contents)


def _telling(start: bytes) -> bytes:
    """Return what the start of a file tells about how it is run, nothing where it tells nothing."""
    return start[:SHEBANG] if start.startswith(b"#!") else native_head(start)


def node_of(member: Member) -> Node:
    """Return the node that `member` becomes in a tree."""
    if member.target:
        return Node("link", target=member.target)
    return Node("file", member.size, member.executable)


def _start(pieces: Iterator[bytes], size: int) -> bytes:
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) >= size:
            break
    return bytes(found[:size])
