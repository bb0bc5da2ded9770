"""On which platforms a native program runs, by the first bytes of its file.

    ELF       `7F E L F`      linux-x86_64, linux-arm64, linux-riscv64, linux-arm, freebsd-x86_64, ...
    Mach-O    thin or fat     macos-x86_64, macos-arm64; fat: all that it holds
    PE        `MZ ... PE`     windows-x86_64, windows-arm64, windows-x86
    the rest  scripts, texts  (): anywhere, as far as this can tell

A header that is cut, unknown or no program's is `()` as well: nothing is refused because of a guess. What is
said is a system and a kind of processor; a C library, a version of the system or emulation is not seen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Order = Literal["big", "little"]

HEAD: Final = 4096
"""Bytes of a file that are looked at: the PE header of every usual linker lies in them."""

_STEPS: Final = (64, 1024, HEAD)
"""How much is kept of a header: ELF and thin Mach-O, fat Mach-O and usual PE, the rest of PE."""

_MACHINES: Final[Mapping[str, str]] = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "aarch64": "arm64",
    "i386": "x86",
    "i486": "x86",
    "i586": "x86",
    "i686": "x86",
    "armv6l": "arm",
    "armv7l": "arm",
}
_SYSTEMS: Final[Mapping[str, str]] = {
    "darwin": "macos",
    "macosx": "macos",
    "osx": "macos",
    "win32": "windows",
}
"""Other names that systems and processors go by."""

_ALSO_RUNS: Final[Mapping[str, frozenset[str]]] = {
    "windows-x86_64": frozenset({"windows-x86"}),
    "windows-arm64": frozenset({"windows-x86_64", "windows-x86"}),
}
"""What a system always runs besides its own. Rosetta and the like are installed, or are not: not counted."""

_ELF_SYSTEMS: Final[Mapping[int, str]] = {0: "linux", 2: "netbsd", 3: "linux", 9: "freebsd", 12: "openbsd"}
"""`EI_OSABI`. 0 is System V, which is what nearly every program for Linux says."""
_ELF_MACHINES: Final[Mapping[tuple[int, int, int], str]] = {
    (3, 1, 1): "x86",
    (21, 2, 1): "ppc64le",
    (21, 2, 2): "ppc64",
    (22, 2, 2): "s390x",
    (40, 1, 1): "arm",
    (62, 2, 1): "x86_64",
    (183, 2, 1): "arm64",
    (243, 1, 1): "riscv32",
    (243, 2, 1): "riscv64",
    (258, 2, 1): "loongarch64",
}
"""`e_machine`, `EI_CLASS` (1: 32 bits, 2: 64), `EI_DATA` (1: little-endian, 2: big)."""
_ELF_PROGRAMS: Final = frozenset({2, 3})
"""`e_type`: `ET_EXEC`, and `ET_DYN`, which position-independent programs are."""

_MACHO_CPUS: Final[Mapping[int, str]] = {7: "x86", 0x01000007: "x86_64", 0x0100000C: "arm64"}
"""`cputype`."""
_MACHO_EXECUTE: Final = 2
"""`filetype` of a program, as against a library."""
_FAT_ENTRIES: Final[Mapping[bytes, int]] = {b"\xca\xfe\xba\xbe": 20, b"\xca\xfe\xba\xbf": 32}
"""The size of an entry in the table of a fat file."""
_MAX_FAT: Final = 30
"""Entries of a fat file. A Java class begins with the same bytes, then with its version, 45 at least."""

_PE_MACHINES: Final[Mapping[int, str]] = {0x014C: "x86", 0x01C4: "arm", 0x8664: "x86_64", 0xAA64: "arm64"}
"""`Machine` of the COFF header."""
_PE_OFFSET: Final = 0x3C
_PE_PROGRAM: Final = 0x0002
_PE_LIBRARY: Final = 0x2000
"""`Characteristics`."""
_POLYGLOT: Final = b"MZqFpD"
"""An Actually Portable Executable looks like PE, and is a shell script as well: it runs nearly everywhere."""


def platforms_of(head: bytes) -> tuple[str, ...]:
    """Return the platforms that a native program runs on, sorted; () for everything else.

    >>> platforms_of(bytes.fromhex("7f454c46020101000000000000000000" "0200b700"))
    ('linux-arm64',)
    >>> platforms_of(b"#!/bin/sh"), platforms_of(b"")
    ((), ())
    """
    for start, reader in _READERS.items():
        if head.startswith(start):
            return tuple(sorted(set(reader(head))))
    return ()


def native_head(start: bytes) -> bytes:
    """Return as much of the first `HEAD` bytes as `platforms_of` needs; nothing of what is not native."""
    found = platforms_of(start)
    return next(start[:size] for size in _STEPS if platforms_of(start[:size]) == found) if found else b""


def normal_platform(text: str) -> str:
    """Return the usual name of a platform; what is not known here stays as it is, in lower case.

    >>> normal_platform("Darwin-aarch64"), normal_platform("linux-amd64"), normal_platform("plan9-mips")
    ('macos-arm64', 'linux-x86_64', 'plan9-mips')
    """
    system, dash, machine = text.strip().lower().partition("-")
    return _SYSTEMS.get(system, system) + dash + _MACHINES.get(machine, machine)


def runs_on(platforms: Iterable[str], here: str) -> bool:
    """Return whether a program for one of `platforms` runs on the platform `here`.

    >>> runs_on(("windows-x86",), "windows-arm64"), runs_on(("macos-x86_64",), "macos-arm64")
    (True, False)
    """
    host = normal_platform(here)
    return not _ALSO_RUNS.get(host, frozenset[str]()).union({host, here}).isdisjoint(platforms)


def _elf(head: bytes) -> Iterable[str]:
    if len(head) < 20:  # noqa: PLR2004 - up to the end of `e_machine`
        return
    bits, data, abi = head[4], head[5], head[7]
    order: Order = "big" if data == 2 else "little"  # noqa: PLR2004 - `ELFDATA2MSB`
    kind, machine = _number(head, 16, 2, order), _number(head, 18, 2, order)
    processor = _ELF_MACHINES.get((machine, bits, data))
    if kind in _ELF_PROGRAMS and processor and abi in _ELF_SYSTEMS:
        yield f"{_ELF_SYSTEMS[abi]}-{processor}"


def _macho(head: bytes) -> Iterable[str]:
    if len(head) < 16:  # noqa: PLR2004 - up to the end of `filetype`
        return
    processor = _MACHO_CPUS.get(_number(head, 4, 4, "little"))
    if processor and _number(head, 12, 4, "little") == _MACHO_EXECUTE:
        yield f"macos-{processor}"


def _fat(head: bytes) -> Iterable[str]:
    size, count = _FAT_ENTRIES[head[:4]], _number(head, 4, 4, "big")
    if count > _MAX_FAT or len(head) < 8 + count * size:
        return
    for entry in range(count):
        processor = _MACHO_CPUS.get(_number(head, 8 + entry * size, 4, "big"))
        if processor:
            yield f"macos-{processor}"


def _pe(head: bytes) -> Iterable[str]:
    at = _number(head, _PE_OFFSET, 4, "little")
    if head.startswith(_POLYGLOT) or head[at : at + 4] != b"PE\0\0" or len(head) < at + 24:
        return
    processor = _PE_MACHINES.get(_number(head, at + 4, 2, "little"))
    if processor and _number(head, at + 22, 2, "little") & (_PE_PROGRAM | _PE_LIBRARY) == _PE_PROGRAM:
        yield f"windows-{processor}"


def _number(head: bytes, at: int, size: int, order: Order) -> int:
    return int.from_bytes(head[at : at + size], order)


_READERS: Final[Mapping[bytes, Callable[[bytes], Iterable[str]]]] = {
    b"\x7fELF": _elf,
    b"\xcf\xfa\xed\xfe": _macho,
    b"\xce\xfa\xed\xfe": _macho,
    **dict.fromkeys(_FAT_ENTRIES, _fat),
    b"MZ": _pe,
}
