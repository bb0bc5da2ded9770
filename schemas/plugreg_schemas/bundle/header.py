r"""The one tar header that a member may have: an encoder, and a decoder that proves it by encoding again.

    [ extended header, only if the path or the link target is longer than 100 bytes or not ASCII:
      512 bytes  name `././@PaxHeader`, mode 0644, type `x`
      records    `<length> path=<path>\n`, `<length> linkpath=<target>\n`, filled up with zeros to 512 ]
    512 bytes    offset  length
      name            0     100   the path; with an extended header its first 100, `?` for what is not ASCII
      mode          100       8   0000644, 0000755, links 0000777
      uid, gid      108      16   0
      size          124      12   11 octal digits
      mtime         136      12   0
      checksum      148       8   6 octal digits, NUL, space
      type          156       1   `0` file, `2` link
      link target   157     100
      magic         257       8   `ustar`, NUL, `00`
      owner, group  265      64   empty
      device        329      16   0
      prefix, rest  345     167   zeros

(POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header".) The decoder reads more than this,
as other programs do, only to say what is wrong with a member and to go on to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg_schemas.bundle.paths import printable
from plugreg_schemas.errors import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)
"""Two blocks of zeros end the archive."""
MAX_RECORDS: Final = 16 << 10
"""An extended header larger than this is not read: two strings of the longest path need less than 1 KiB."""

_ZERO: Final = bytes(BLOCK)
_SHORT: Final = 100
_FIELDS: Final = {
    "name": slice(0, 100),
    "mode": slice(100, 108),
    "owner id": slice(108, 116),
    "group id": slice(116, 124),
    "size": slice(124, 136),
    "time": slice(136, 148),
    "type": slice(156, 157),
    "link target": slice(157, 257),
    "magic": slice(257, 265),
    "owner name": slice(265, 297),
    "group name": slice(297, 329),
    "device": slice(329, 345),
    "prefix": slice(345, 500),
    "filling": slice(500, 512),
    "checksum": slice(148, 156),
}
_OTHER_TYPES: Final = {
    b"1": "a hard link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a directory",
    b"6": "a FIFO",
    b"7": "a contiguous file",
    b"S": "a sparse file",
    b"g": "a global extended header",
    b"x": "a second extended header",
    b"L": "a GNU long name",
    b"K": "a GNU long link target",
    b"D": "a GNU directory listing",
    b"M": "a continued file",
    b"V": "a volume label",
}
_WITHOUT_CONTENT: Final = frozenset({b"1", b"3", b"4", b"5", b"6"})


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of a bundle, or one link if `target` is not empty."""

    path: str
    size: int = 0
    executable: bool = False
    target: str = ""

    @property
    def mode(self) -> int:
        """The permission bits: 0777 for a link, 0755 or 0644 for a file."""
        return 0o777 if self.target else 0o755 if self.executable else 0o644

    @property
    def span(self) -> int:
        """Bytes of the content with its filling."""
        return padded(self.size)


def padded(size: int) -> int:
    """Return `size` rounded up to whole blocks."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


def encode(member: Member) -> bytes:
    """Return the canonical header of `member`, a multiple of 512 bytes."""
    path = member.path.encode("utf-8", "surrogateescape")
    target = member.target.encode("utf-8", "surrogateescape")
    records = b"".join(
        _record(key, value)
        for key, value in ((b"path", path), (b"linkpath", target))
        if len(value) > _SHORT or not value.isascii()
    )
    main = _block(
        _short(member.path), member.mode, member.size, b"2" if member.target else b"0", _short(member.target)
    )
    if not records:
        return main
    return (
        _block(b"././@PaxHeader", 0o644, len(records), b"x")
        + records.ljust(padded(len(records)), b"\0")
        + main
    )


def _short(text: str) -> bytes:
    return text.encode("ascii", "replace")[:_SHORT]


def _record(key: bytes, value: bytes) -> bytes:
    r"""Return `<length> key=value\n`, where the length counts its own digits."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while len(rest) + len(str(length)) != length:
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _block(name: bytes, mode: int, size: int, kind: bytes, target: bytes = b"") -> bytes:
    before = b"%b%07o\0%07o\0%07o\0%011o\0%011o\0" % (name.ljust(100, b"\0"), mode, 0, 0, size, 0)
    after = b"%b%bustar\x0000%b%07o\0%07o\0%b" % (kind, target.ljust(100, b"\0"), bytes(64), 0, 0, bytes(167))
    return b"%b%06o\0 %b" % (before, _sum(before, after), after)


def _sum(before: bytes, after: bytes) -> int:
    """Return the checksum of a block, its own 8 bytes counted as spaces."""
    return sum(before) + sum(after) + 8 * ord(" ")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one header says.

    `member` is None where it is no file and no link; `lost` means that the next one could begin anywhere.
    """

    member: Member | None
    faults: tuple[Finding, ...] = ()
    lost: bool = False


def decode(read: Callable[[int], bytes]) -> Entry | None:
    """Read one header with its extended header; None is a block of zeros, with which an archive ends.

    `read` returns exactly the number of bytes asked for, or raises. A fault is reported, never raised.
    """
    raw = block = read(BLOCK)
    if block == _ZERO:
        return None
    records: dict[bytes, bytes] = {}
    if block[156:157] == b"x":
        size = _number(block[124:136])
        if not _checksum_holds(block) or size is None or size > MAX_RECORDS:
            return _unreadable("an extended header that cannot be read")
        body = read(padded(size))
        block = read(BLOCK)
        raw += body + block
        found = _records(body[:size])
        if found is None:
            return _unreadable("an extended header that cannot be read")
        records = found
    size = _number(block[124:136])
    if not _checksum_holds(block) or size is None:
        return _unreadable("bytes that are no tar header")
    return _entry(raw, block, size, records)


def _entry(raw: bytes, block: bytes, size: int, records: dict[bytes, bytes]) -> Entry:
    path = _text(records.get(b"path", _path(block)))
    kind = block[156:157]
    sparse = any(key.startswith(b"GNU.sparse") for key in records)
    if sparse or kind not in {b"0", b"\0", b"2"}:
        what = "a sparse file" if sparse else _OTHER_TYPES.get(kind, "of an unknown type")
        message = f"{printable(path)} is {what}; a bundle holds only files and links"
        lost = sparse or size > 0 or kind not in _WITHOUT_CONTENT
        return Entry(None, (Finding("member_type", message, file=printable(path)),), lost)
    target = _text(records.get(b"linkpath", _until_nul(block[157:257]))) if kind == b"2" else ""
    mode = _number(block[100:108])
    if kind == b"2":
        member = Member(path, target=target)  # a link has no content: with a size it is not canonical
    else:
        member = Member(path, size, executable=bool((mode or 0) & 0o100))
    lost = b"size" in records or (kind == b"2" and size > 0)
    if kind == b"2" and not target:
        fault = Finding(
            "member_header", f"{printable(path)} is a link without a target", file=printable(path)
        )
        return Entry(None, (fault,), lost)
    wrong = ", ".join(_differences(raw, encode(member)))
    if not wrong:
        return Entry(member)
    message = f"the tar header of {printable(path)} is not canonical: {wrong}"
    return Entry(member, (Finding("member_header", message, file=printable(path)),), lost)


def _differences(raw: bytes, canonical: bytes) -> Iterator[str]:
    """Name what differs between the bytes that came and those that would be canonical."""
    if raw == canonical:
        return
    if raw[:-BLOCK] != canonical[:-BLOCK]:
        yield "extended header"
    main, expected = raw[-BLOCK:], canonical[-BLOCK:]
    names = [name for name, where in _FIELDS.items() if main[where] != expected[where]]
    if len(names) > 1:
        names.remove("checksum") if "checksum" in names else None
    yield from names


def _unreadable(what: str) -> Entry:
    message = f"{what} stand where a member should begin; what follows was not read"
    return Entry(None, (Finding("member_header", message),), lost=True)


def _checksum_holds(block: bytes) -> bool:
    return _number(block[148:156]) == _sum(block[:148], block[156:])


def _number(field: bytes) -> int | None:
    """Return an octal number as lenient readers see it, or None."""
    digits = field.strip(b" \0")
    if not digits:
        return 0
    return int(digits, 8) if all(digit in b"01234567" for digit in digits) else None


def _path(block: bytes) -> bytes:
    name, prefix = _until_nul(block[:100]), _until_nul(block[345:500])
    return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name


def _until_nul(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _records(body: bytes) -> dict[bytes, bytes] | None:
    """Return the records of an extended header, None if they cannot be read."""
    found: dict[bytes, bytes] = {}
    while body:
        digits, space, _ = body.partition(b" ")
        if not space or not digits.isdigit() or len(digits) > len(str(MAX_RECORDS)):
            return None
        length = int(digits)
        record, body = body[len(digits) + 1 : length], body[length:]
        key, equals, value = record.partition(b"=")
        if length <= len(digits) or not equals or not value.endswith(b"\n"):
            return None
        found[key] = value[:-1]
    return found
