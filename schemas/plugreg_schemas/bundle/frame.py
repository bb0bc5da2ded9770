"""The zstd frame around the tar, walked by hand so that nothing but one plain frame passes.

    magic 28 b5 2f fd
    descriptor        1 byte: content size present, checksum present, no dictionary, no reserved bit
    window            0 or 1 byte, at most 8 MiB
    content size      1, 2, 4 or 8 bytes
    block*            3 bytes (last, type, size) and the body; at most 128 KiB each, packed and unpacked
    checksum          4 bytes, and with them the input ends

(RFC 8878, section 3.1.1.) The usual readers skip frames in front, stop before trailing bytes and do without a
checksum: two of them could see two different archives. The decoder is given one block at a time, so a
bomb costs the memory of one block and the window, whatever it claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Never

import zstandard

from plugreg_schemas.bundle.limits import DEFAULT_LIMITS, RATIO_FREE, Limits
from plugreg_schemas.errors import Collector, Finding, InvalidInput, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"\x28\xb5\x2f\xfd"
MAX_WINDOW: Final = 8 << 20
"""The window that every zstd decoder must support (RFC 8878, section 3.1.1.1.2)."""
MAX_BLOCK: Final = 128 << 10
"""RFC 8878, section 3.1.1.2.4."""
MEAN_BLOCK: Final = 1 << 10
"""Blocks must carry this many bytes on average: 64 MiB of empty blocks would cost a minute of work."""
SPARE_BLOCKS: Final = 64

_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
_OTHER_FORMATS: Final = {
    b"\x1f\x8b": "a gzip file",
    b"PK": "a zip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zX": "an xz file",
}
HINT: Final = "make bundles with `plugreg pack` and send them unchanged"


def unpacked(stream: BinaryIO, limits: Limits = DEFAULT_LIMITS) -> Iterator[bytes]:
    """Yield the content of the one zstd frame that `stream` consists of, at most 128 KiB at a time.

    What was yielded can be relied on only when the iterator has ended: the checksum comes last.

    Raises:
        InvalidInput: `bundle_not_an_archive`, `bundle_truncated`, `bundle_corrupt`, `bundle_frame_skippable`,
            `bundle_frame_dictionary`, `bundle_frame_no_checksum`, `bundle_frame_no_size`,
            `bundle_frame_window`, `bundle_frame_reserved`, `bundle_frame_blocks`, `bundle_frame_trailing`,
            `bundle_frame_invalid` for several of them.
        TooLarge: `bundle_too_large`, `bundle_unpacked_too_large`, `bundle_ratio`.
    """
    source = _Source(stream, limits.compressed)
    header = _read_header(source)
    if header.content_size > limits.unpacked:
        over("bundle_unpacked_too_large", f"the bundle unpacks to more than {limits.unpacked} bytes")
    decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).decompressobj()
    total = 0
    for piece in _pieces(source, header):
        content = _decoded(decoder, piece)
        total += len(content)
        if total > header.content_size:
            refuse("bundle_corrupt", "the bundle unpacks to more bytes than its frame declares")
        if total - RATIO_FREE > limits.ratio * source.count:
            over("bundle_ratio", f"the bundle unpacks to more than {limits.ratio} times its size")
        if content:
            yield content
    if total != header.content_size or not decoder.eof:
        refuse("bundle_corrupt", "the bundle unpacks to fewer bytes than its frame declares")


def refuse(code: str, message: str) -> Never:
    """Refuse the bundle as a whole."""
    raise InvalidInput(code, message, hint=HINT, findings=[Finding(code, message)])


def over(code: str, message: str) -> Never:
    """Refuse the bundle because of a limit."""
    hint = "leave out what the plugin does not need with `.plugregignore`"
    raise TooLarge(code, message, hint=hint, findings=[Finding(code, message)])


class _Source:
    """Reads exactly what is asked for, and counts."""

    __slots__ = ("_limit", "_stream", "count")

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self.count = 0

    def upto(self, size: int) -> bytes:
        content = self._stream.read(size)
        while len(content) < size and (more := self._stream.read(size - len(content))):
            content += more
        self.count += len(content)
        if self.count > self._limit:
            over("bundle_too_large", f"the bundle is larger than {self._limit} bytes")
        return content

    def exactly(self, size: int) -> bytes:
        content = self.upto(size)
        if len(content) < size:
            refuse("bundle_truncated", f"the bundle ends too early, after {self.count} bytes")
        return content


@dataclass(frozen=True, slots=True)
class _Header:
    raw: bytes
    content_size: int
    window: int


def _read_header(source: _Source) -> _Header:
    _check_magic(source.upto(4))
    descriptor = source.exactly(1)
    flags = descriptor[0]
    single_segment = bool(flags & 0x20)
    window_size = 0 if single_segment else 1
    dictionary_size = (0, 1, 2, 4)[flags & 3]
    content_size_size = (1 if single_segment else 0, 2, 4, 8)[flags >> 6]
    rest = source.exactly(window_size + dictionary_size + content_size_size)
    content_size = int.from_bytes(rest[window_size + dictionary_size :], "little")
    if content_size_size == 2:  # noqa: PLR2004 - RFC 8878, section 3.1.1.1.4: two bytes count from 256
        content_size += 256
    window = content_size if single_segment else _window(rest[0])
    faults = Collector("bundle_frame_invalid", "the zstd frame of the bundle is refused")
    if flags & 0x18:
        faults.add("bundle_frame_reserved", "the zstd frame uses reserved bits")
    if dictionary_size:
        faults.add("bundle_frame_dictionary", "the zstd frame needs a dictionary")
    if not flags & 0x04:
        faults.add("bundle_frame_no_checksum", "the zstd frame has no checksum")
    if not content_size_size:
        faults.add("bundle_frame_no_size", "the zstd frame does not declare its content size")
    if window > MAX_WINDOW:
        faults.add(
            "bundle_frame_window", f"the zstd frame needs a window of {window} bytes, over {MAX_WINDOW}"
        )
    faults.raise_if_any(hint=HINT)
    return _Header(MAGIC + descriptor + rest, content_size, window)


def _check_magic(head: bytes) -> None:
    if head == MAGIC:
        return
    if head and MAGIC.startswith(head):
        refuse("bundle_truncated", f"the bundle ends too early, after {len(head)} bytes")
    if len(head) == len(MAGIC) and int.from_bytes(head, "little") in _SKIPPABLE:
        refuse("bundle_frame_skippable", "a skippable frame stands before the zstd frame")
    found = next((name for start, name in _OTHER_FORMATS.items() if head.startswith(start)), "")
    found = found or ("another kind of file" if head else "an empty file")
    refuse(
        "bundle_not_an_archive", f"this is not a bundle but {found}; a bundle is one zstd frame (`.tar.zst`)"
    )


def _window(descriptor: int) -> int:
    """RFC 8878, section 3.1.1.1.2."""
    base = 1 << (10 + (descriptor >> 3))
    return base + (base >> 3) * (descriptor & 7)


def _pieces(source: _Source, header: _Header) -> Iterator[bytes]:
    """Yield the frame header, then each block; the last one with the checksum, once the input has ended."""
    yield header.raw
    largest = min(MAX_BLOCK, header.window)
    for _ in range(header.content_size // MEAN_BLOCK + SPARE_BLOCKS):
        block = source.exactly(3)
        fields = int.from_bytes(block, "little")
        last, kind, size = fields & 1, fields >> 1 & 3, fields >> 3
        if kind == 3 or size > largest:  # noqa: PLR2004 - raw 0, RLE 1, compressed 2, reserved 3
            refuse("bundle_corrupt", "the bundle is damaged: a zstd block of an impossible kind or size")
        block += source.exactly(1 if kind == 1 else size)
        if last:
            block += source.exactly(4)
            _check_end(source)
            yield block
            return
        yield block
    refuse("bundle_frame_blocks", "the zstd frame consists of far too many blocks for its size")


def _check_end(source: _Source) -> None:
    after = source.upto(4)
    if after == MAGIC:
        refuse("bundle_frame_trailing", "a second zstd frame stands after the first")
    if after:
        refuse("bundle_frame_trailing", "bytes stand after the end of the zstd frame")


def _decoded(decoder: zstandard.ZstdDecompressionObj, piece: bytes) -> bytes:
    try:
        return decoder.decompress(piece)
    except zstandard.ZstdError as error:
        refuse("bundle_corrupt", f"the bundle is damaged: {str(error).rpartition(': ')[2]}")
