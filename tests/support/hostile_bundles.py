"""Bundles that break one rule each, made byte by byte: what `pack` refuses to write.

member, link     the canonical bytes of one member, whatever its name
raw              one member with any header field, as an odd or hostile tool writes it
archive          members and the end of the archive
frame            the zstd frame, with any of its promises missing
bundle           archive and frame of a plugin that is right but for the members given
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import zstandard

from plugreg_schemas.bundle.header import BLOCK, END, Member, encode, padded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLUGIN_JSON: Final = b'{"name": "demo", "version": "1.0.0", "description": "A demo."}\n'


def member(path: str, content: bytes = b"", *, executable: bool = False) -> bytes:
    """Return a regular file with a canonical header, its content and its filling."""
    return encode(Member(path, len(content), executable)) + filled(content)


def link(path: str, target: str) -> bytes:
    """Return a symbolic link with a canonical header."""
    return encode(Member(path, target=target))


def filled(content: bytes) -> bytes:
    """Return `content` with zeros up to whole blocks."""
    return content.ljust(padded(len(content)), b"\0")


def raw(
    name: str,
    content: bytes = b"",
    *,
    mode: int = 0o644,
    kind: bytes = b"0",
    target: str = "",
    size: int | None = None,
    **fields: bytes,
) -> bytes:
    """Return a member whose header says exactly this.

    `fields` are raw bytes: `uid`, `gid`, `size_field`, `mtime`, `magic`, `owner`, `group`, `device`, `prefix`,
    `filling`, `checksum`.
    """
    size_field = b"%011o\0" % (len(content) if size is None else size)
    before = (
        name.encode("utf-8", "surrogateescape")[:100].ljust(100, b"\0")
        + b"%07o\0" % mode
        + fields.get("uid", b"0000000\0")
        + fields.get("gid", b"0000000\0")
        + fields.get("size_field", size_field)
        + fields.get("mtime", b"00000000000\0")
    )
    after = (
        kind
        + target.encode("utf-8", "surrogateescape")[:100].ljust(100, b"\0")
        + fields.get("magic", b"ustar\x0000")
        + fields.get("owner", b"").ljust(32, b"\0")
        + fields.get("group", b"").ljust(32, b"\0")
        + fields.get("device", b"0000000\x000000000\0")
        + fields.get("prefix", b"").ljust(155, b"\0")
        + fields.get("filling", b"").ljust(12, b"\0")
    )
    checksum = fields.get("checksum", b"%06o\0 " % (sum(before) + sum(after) + 8 * 32))
    return before + checksum + after + filled(content)


def extended(records: bytes, *, kind: bytes = b"x", name: str = "././@PaxHeader") -> bytes:
    """Return an extended header with these records."""
    return raw(name, records, kind=kind)


def record(key: str, value: str) -> bytes:
    """Return one record of an extended header."""
    rest = f" {key}={value}\n".encode()
    length = len(rest) + 1
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def archive(*members: bytes, end: bytes = END) -> bytes:
    """Return the tar of these members."""
    return b"".join([*members, end])


def frame(
    content: bytes,
    *,
    checksum: bool = True,
) -> bytes:
    """Return one zstd frame around `content`."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3, write_checksum=checksum, write_content_size=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)


def bundle(*members: bytes, manifest: str = "plugin.json") -> bytes:
    """Return a bundle of these members and a manifest, in the order of their paths as far as they have one."""
    return frame(archive(*sorted([*members, member(manifest, PLUGIN_JSON)], key=_path)))


def _path(block: bytes) -> bytes:
    if block[156:157] == b"x" and b" path=" in block[BLOCK : 2 * BLOCK]:
        return block[BLOCK:].split(b" path=", 1)[1].split(b"\n", 1)[0]
    return block[:100].rstrip(b"\0")


@dataclass(frozen=True, slots=True)
class Hostile:
    """A bundle to be refused with `code` naming `path` (empty where the bundle as a whole is at fault)."""

    id: str
    content: bytes
    code: str
    path: str = ""


def bad_names() -> Iterator[Hostile]:
    """Yield T09: one bundle for each name that some system cannot hold or holds under another name."""
    nfc, nfd = "skills/caf\u00e9/SKILL.md", "skills/cafe\u0301/SKILL.md"
    yield _named("C6-appledouble", "litter", "._plugin.json")
    yield _named("C6-appledouble-below", "litter", "skills/._a/SKILL.md")
    yield _named("C6-ds-store", "litter", ".DS_Store")
    yield _named("C6-macosx", "litter", "__MACOSX/x")
    yield _named("C7-case-twins", "path_case_twin", "skills/a/ref.md", "skills/a/Ref.md", "skills/a/ref.md")
    yield _named("C7-case-twin-folders", "path_case_twin", "bin", "Bin/x", "bin/y")
    yield _named("C8-unicode-twins", "path_unicode_twin", nfc.rpartition("/")[0], nfd, nfc)
    yield _named("C8-nfd", "path_not_nfc", nfd)
    yield _named("C9-device-folder", "path_windows_name", "skills/aux/SKILL.md")
    yield _named("C9-device-file", "path_windows_name", "docs/con.txt")
    yield _named("C9-device-two-dots", "path_windows_name", "docs/LPT1.tar.gz")
    yield _named("C9-colon", "path_windows_name", "a:b")
    yield _named("C9-trailing-dot", "path_windows_name", "trail.")
    yield _named("C9-trailing-space", "path_windows_name", "trail ")
    yield _named("C9-backslash", "path_backslash", "back\\slash")
    yield _named("C9-question-mark", "path_windows_name", "x?y")
    yield _named("C10-path-too-long", "path_too_long", "/".join(["d" * 60] * 4))
    yield _named("C10-component-too-long", "path_component_too_long", "\u00e9" * 101)
    yield Hostile("C9-newline", bundle(member("a\nb")), "path_control_character", "a\\nb")
    yield Hostile("C9-escape", bundle(member("a\x1b[2Jb")), "path_control_character", "a\\x1b[2Jb")
    yield Hostile("C9-bidi", bundle(member("a\u202etxt.sh")), "path_control_character", "a\\u202etxt.sh")
    yield Hostile("C8-not-utf8", bundle(member("a\udcff")), "path_not_utf8", "a\\udcff")
    yield _named("C15-git", "vcs_folder", ".git/config")


def traversals() -> Iterator[Hostile]:
    """Yield T10: names that lead out of the folder they are unpacked in."""
    yield _named("D1-parent", "path_traversal", "../x")
    yield _named("D1-absolute", "path_absolute", "/etc/x")
    yield _named("D1-drive", "path_absolute", "C:\\x")
    yield _named("D1-share", "path_absolute", "\\\\srv\\x")
    yield _named("D1-inside-out", "path_traversal", "./a/../../x")
    yield _named("D1-dot", "path_not_normal", "./plugin.txt")
    yield _named("D1-empty-part", "path_not_normal", "a//b")


def bad_links() -> Iterator[Hostile]:
    """Yield T08: links that lead out, to nothing, or through another link, and files written through a link."""
    yield _linked("C4-absolute", "link_escape", ".venv/bin/python", "/usr/bin/python3")
    yield _linked("C5-dangling", "link_dangling", "skills/x/SKILL.md", "../../SKILL.md")
    yield _linked("C5-escape", "link_escape", "skills/x/SKILL.md", "../../../SKILL.md")
    yield _linked("D2-backslash", "link_target", "a", "b\\c")
    yield _linked("D2-drive", "link_escape", "a", "C:\\x")
    yield _linked("D2-itself", "link_dangling", "a", "a")
    yield Hostile("D2-ring", bundle(link("a", "b"), link("b", "a")), "link_dangling", "a")
    yield Hostile("D2-file-below-escape", bundle(link("a", ".."), member("a/evil")), "link_escape", "a")
    yield Hostile("D2-file-below-absolute", bundle(link("a", "/tmp"), member("a/evil")), "link_escape", "a")
    yield Hostile(
        "D2-file-below-link", bundle(member("b/c"), link("a", "b"), member("a/evil")), "member_is_parent", "a"
    )
    yield Hostile(
        "D2-case-below-link", bundle(member("b/c"), link("A", "b"), member("a/evil")), "path_case_twin", "a"
    )
    yield Hostile(
        "D2-through", bundle(member("b/c"), link("l", "b"), link("m", "l/c")), "link_through_link", "m"
    )
    yield Hostile(
        "D2-through-up",
        bundle(member("b/c/d"), link("l", "b/c"), link("m", "l/../c")),
        "link_through_link",
        "m",
    )


def odd_members() -> Iterator[Hostile]:
    """Yield T10 and C11: members that are no plain file, and headers that are not canonical."""
    for id_, kind in {
        "hard-link": b"1",
        "character-device": b"3",
        "block-device": b"4",
        "directory": b"5",
        "fifo": b"6",
        "contiguous": b"7",
        "gnu-sparse": b"S",
        "unknown": b"Z",
    }.items():
        yield _odd(
            f"D6-{id_}", "member_type", raw("odd", kind=kind, target="plugin.json" if kind == b"1" else "")
        )
    sparse = record("GNU.sparse.major", "1") + record("GNU.sparse.realsize", str(1 << 40))
    yield _odd("D6-pax-sparse", "member_type", extended(sparse) + raw("odd"))
    for mode in (0o000, 0o4755, 0o666, 0o755 | 0o2000, 0o1644, 0o744, 0o600):
        yield _odd(f"C11-mode-{mode:o}", "member_header", raw("odd", mode=mode))
    yield _odd("C11-owner", "member_header", raw("odd", owner=b"root"))
    yield _odd("C11-uid", "member_header", raw("odd", uid=b"0001750\0"))
    yield _odd("C11-time", "member_header", raw("odd", mtime=b"14371573020\0"))
    yield _odd("D5-old-type", "member_header", raw("odd", kind=b"\0"))
    yield _odd("D5-gnu-magic", "member_header", raw("odd", magic=b"ustar  \0"))
    yield _odd("D5-prefix", "member_header", raw("odd", prefix=b"x"), "x/odd")
    yield _odd("D5-filling", "member_header", raw("odd", filling=b"hidden"))
    yield _odd("D5-bytes-after-the-name", "member_header", raw("odd\0hidden"))
    yield _odd("D5-size-spaces", "member_header", raw("odd", size_field=b"         0 \0"))
    yield _odd("D5-needless-pax", "member_header", extended(record("path", "odd")) + raw("odd"))
    yield _odd("D5-pax-other-key", "member_header", extended(record("mtime", "1.5")) + raw("odd"))
    yield _odd("D5-pax-size", "member_header", extended(record("size", "512")) + raw("odd"))
    yield _odd(
        "D5-pax-other-name",
        "member_header",
        extended(record("path", "\u00e9"), name="pax") + raw("?"),
        "\u00e9",
    )
    twice = record("path", "\u00e9") + record("path", "\u00ea")
    yield _odd("D5-pax-path-twice", "member_header", extended(twice) + raw("?"), "\u00ea")
    yield _odd(
        "D5-link-with-content",
        "member_header",
        raw("odd", b"x" * 512, kind=b"2", mode=0o777, target="plugin.json"),
    )
    yield _odd("D5-link-without-target", "member_header", raw("odd", kind=b"2", mode=0o777))
    yield _odd(
        "D5-global-header", "member_type", extended(record("comment", "x"), kind=b"g"), "././@PaxHeader"
    )
    yield _odd(
        "D5-gnu-long-name",
        "member_type",
        raw("././@LongLink", b"odd\0", kind=b"L") + raw("o"),
        "././@LongLink",
    )
    yield _odd("D5-padding", "member_padding", member("odd", b"x")[:-1] + b"!")
    yield _odd("D5-checksum", "member_header", raw("odd", checksum=b"000000\0 "), "")
    yield _odd(
        "D4-size-base-256", "member_header", raw("odd", size_field=b"\x80" + bytes(7) + b"\0\0\2\0"), ""
    )
    yield Hostile("D4-size-huge", bundle(raw("odd", size=0o77777777777)), "bundle_unpacked_too_large")
    yield Hostile("D4-size-over-the-end", bundle(raw("zzz", size=1 << 20)), "bundle_truncated")
    one = member("plugin.json", PLUGIN_JSON)
    yield Hostile(
        "D5-duplicate", bundle(member("plugin.json", b'{"name":"x"}')), "member_duplicate", "plugin.json"
    )
    apart = frame(archive(one, member("z"), one))
    yield Hostile("D5-duplicate-apart", apart, "member_duplicate", "plugin.json")
    yield Hostile("D5-dot-duplicate", bundle(member("./plugin.json")), "path_not_normal", "./plugin.json")
    yield Hostile("D5-order", frame(archive(member("z"), one)), "member_order", "plugin.json")
    yield Hostile("D5-parent", bundle(member("a"), member("a/b")), "member_is_parent", "a")


def bad_frames() -> Iterator[Hostile]:
    """Yield D9 and D10: what is no frame, not one frame, or a frame without its promises."""
    good = bundle()
    tar = archive(member("plugin.json", PLUGIN_JSON))
    skippable = (0x184D2A50).to_bytes(4, "little") + (4).to_bytes(4, "little") + b"hide"
    yield Hostile("D10-text", b"plugreg\n" * 40, "bundle_not_an_archive")
    yield Hostile("D10-empty-file", b"", "bundle_not_an_archive")
    yield Hostile("D10-gzip", b"\x1f\x8b\x08\0rest", "bundle_not_an_archive")
    yield Hostile("D10-zip-that-reads-as-empty", b"PK\5\6" + bytes(18), "bundle_not_an_archive")
    yield Hostile("D10-bare-tar", tar, "bundle_not_an_archive")
    yield Hostile("D10-empty-archive", frame(END), "bundle_empty")
    yield Hostile("D10-nothing-inside", frame(b""), "bundle_truncated")
    yield Hostile("D10-text-inside", frame(b"plugreg\n" * 256), "member_header")
    yield Hostile("D9-trailing-bytes", good + b"signature", "bundle_frame_trailing")
    yield Hostile("D9-trailing-zero", good + b"\0", "bundle_frame_trailing")
    yield Hostile("D9-two-frames", good + good, "bundle_frame_trailing")
    yield Hostile("D9-empty-second-frame", good + frame(b""), "bundle_frame_trailing")
    yield Hostile("D9-skippable-in-front", skippable + good, "bundle_frame_skippable")
    yield Hostile("D9-skippable-behind", good + skippable, "bundle_frame_trailing")
    yield Hostile("no-checksum", frame(tar, checksum=False), "bundle_frame_no_checksum")
    yield Hostile("no-content-size", _streamed([tar]), "bundle_frame_no_size")
    yield Hostile("dictionary", with_dictionary(good), "bundle_frame_dictionary")
    yield Hostile("window-too-large", wide_window(tar), "bundle_frame_window")
    large_segment = _head(tar, 0b1010_0100, b"", (9 << 20).to_bytes(4, "little"))
    yield Hostile("segment-too-large", large_segment, "bundle_frame_window")
    yield Hostile("reserved-bit", good[:4] + bytes([good[4] | 8]) + good[5:], "bundle_frame_reserved")
    yield Hostile("empty-blocks", empty_blocks(1 << 16), "bundle_frame_blocks")
    yield Hostile(
        "one-block-of-zeros", frame(archive(member("plugin.json"), end=END[:BLOCK])), "bundle_truncated"
    )
    yield Hostile("no-end", frame(archive(member("plugin.json"), end=b"")), "bundle_truncated")
    yield Hostile("three-blocks-of-zeros", frame(archive(member("plugin.json"), end=END + END)), "bundle_end")
    yield Hostile("one-block-then-more", frame(archive(member("a"), bytes(BLOCK), member("b"))), "bundle_end")


def zero_bomb(size: int = 512 << 20) -> bytes:
    """Return D4: one file of zeros, `size` bytes, in a small bundle."""
    head = archive(encode(Member("zeros", size)), end=b"")
    step = 1 << 20
    parts = [head, *[bytes(step)] * (size // step), END]
    return _streamed(parts, len(head) + size + len(END))


def many_files(count: int = 200_000) -> bytes:
    """Return D4: `count` empty files."""
    paths = (f"f/{number:06}" for number in range(count))
    return _streamed((encode(Member(path)) for path in paths), count * BLOCK + len(END), end=END)


def many_directories(count: int = 200_000) -> bytes:
    """Return D4: `count` members of a kind that is refused, each a fault."""
    one = raw("d", kind=b"5", mode=0o755)
    return _streamed((one for _ in range(count)), count * BLOCK + len(END), end=END)


def deep_folders(count: int = 19_000) -> bytes:
    """Return D4: few files in millions of folders."""
    members = [encode(Member(f"{number:06}/" + "a/" * 110 + "f")) for number in range(count)]
    return _streamed(members, sum(map(len, members)) + len(END), end=END)


def _streamed(parts: Iterable[bytes], size: int | None = None, end: bytes = b"") -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3, write_checksum=True, write_content_size=size is not None
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    stream = compressor.compressobj(size=-1 if size is None else size)
    return b"".join([*(stream.compress(part) for part in parts), stream.compress(end), stream.flush()])


def _head(content: bytes, descriptor: int, between: bytes, size: bytes) -> bytes:
    """Return a frame in which `content` stands in one raw block, with this frame header."""
    block = (len(content) << 3 | 1).to_bytes(3, "little") + content
    checksum = frame(content)[-4:]
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + between + size + block + checksum


def with_dictionary(good: bytes) -> bytes:
    """Return the frame `good`, which now names a dictionary."""
    tar = zstandard.decompress(good)
    return _head(tar, 0b1010_0101, b"\x07", len(tar).to_bytes(4, "little"))


def wide_window(content: bytes) -> bytes:
    """Return a frame that demands a window of 16 MiB."""
    return _head(content, 0b1000_0100, bytes([14 << 3]), len(content).to_bytes(4, "little"))


def empty_blocks(count: int) -> bytes:
    """Return a frame of `count` empty blocks: much work for nothing."""
    return b"\x28\xb5\x2f\xfd" + bytes([0b1000_0100, 0x50]) + (1024).to_bytes(4, "little") + bytes(3) * count


def _named(id_: str, code: str, path: str, *paths: str) -> Hostile:
    """Return a bundle of files at `paths`, or at `path`, which is the one at fault."""
    return Hostile(id_, bundle(*(member(found) for found in paths or (path,))), code, path)


def _linked(id_: str, code: str, path: str, target: str) -> Hostile:
    return Hostile(id_, bundle(link(path, target)), code, path)


def _odd(id_: str, code: str, odd: bytes, path: str = "odd") -> Hostile:
    return Hostile(id_, bundle(odd), code, path)


def everything() -> tuple[Hostile, ...]:
    """Return every small hostile bundle."""
    return (*bad_names(), *traversals(), *bad_links(), *odd_members(), *bad_frames())
