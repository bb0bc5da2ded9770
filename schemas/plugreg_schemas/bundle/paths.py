"""Which paths a bundle may hold: it is one tree on every file system and never reaches out of its folder.

`faults_of` judges one path by itself; `listing.Names` judges the paths of a bundle together.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from plugreg_schemas.bundle.limits import DEFAULT_LIMITS, Limits
from plugreg_schemas.errors import Finding
from plugreg_schemas.names import WINDOWS_DEVICES, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PRINTED: Final = 320
"""Characters shown of a path; a longer one is over every limit."""
WINDOWS_CHARACTERS: Final = frozenset('<>:"|?*')
"""Characters that Windows keeps for itself (Microsoft, Naming Files, Paths, and Namespaces)."""

_VCS: Final = frozenset({".git", ".hg", ".svn", ".bzr", "cvs"})
_LITTER: Final = frozenset({".ds_store", "__macosx", ".appledouble"})
CONTROL: Final = frozenset({"Cc", "Zl", "Zp"})
"""Unicode categories of the characters that steer a terminal or end a line."""
_BIDIRECTIONAL: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


def printable(path: str) -> str:
    """Return `path` as it can be printed and sent: cut, undecodable bytes and control characters escaped."""
    path = path if len(path) <= MAX_PRINTED else path[:MAX_PRINTED] + "..."
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in path
    )


def path_bytes(path: str) -> bytes:
    """Return the bytes by which paths are sorted."""
    return path.encode("utf-8", "surrogateescape")


def left_out(name: str) -> str:
    """Say why a bundle never holds anything of this name: `litter`, `vcs_folder`, or "" if it may."""
    folded = name.casefold()
    if folded.startswith("._") or folded in _LITTER:
        return "litter"
    return "vcs_folder" if folded in _VCS and name != "cvs" else ""


def faults_of(path: str, limits: Limits = DEFAULT_LIMITS) -> list[Finding]:
    """Return every rule that `path` breaks by itself.

    Codes: `path_absolute`, `path_traversal`, `path_not_normal`, `path_backslash`, `path_control_character`,
    `path_not_utf8`, `path_not_nfc`, `path_too_long`, `path_component_too_long`, `path_windows_name`,
    `litter`, `vcs_folder`.
    """
    where = printable(path)
    return [Finding(code, f"{quoted(path)} {message}", file=where) for code, message in _faults(path, limits)]


def _faults(path: str, limits: Limits) -> Iterator[tuple[str, str]]:
    yield from _faults_of_place(path)
    yield from _faults_of_text(path)
    if len(path_bytes(path)) > limits.path:
        yield "path_too_long", f"is longer than {limits.path} bytes"
    for part in dict.fromkeys(path.split("/")):
        if len(path_bytes(part)) > limits.component:
            yield "path_component_too_long", f"has a part that is longer than {limits.component} bytes"
        if part not in {"", ".", ".."} and (reason := _windows_reason(part)):
            yield "path_windows_name", f"cannot be stored on Windows: {quoted(part)} {reason}"
        if kind := left_out(part):
            what = "of the version control" if kind == "vcs_folder" else "litter of a file manager"
            yield kind, f"is {what} and not part of a plugin"


def _faults_of_place(path: str) -> Iterator[tuple[str, str]]:
    absolute = path.startswith(("/", "\\\\")) or DRIVE.match(path) is not None
    parts = path.split("/")
    if absolute:
        yield "path_absolute", "is absolute"
    if ".." in parts:
        yield "path_traversal", "has a part `..`"
    if "." in parts or "" in (parts[1:] if absolute else parts):
        yield "path_not_normal", "has a part that is empty or `.`"
    if "\\" in path:
        yield "path_backslash", "has a backslash"


def _faults_of_text(path: str) -> Iterator[tuple[str, str]]:
    if path.isascii() and path.isprintable():
        return
    if any(unicodedata.category(c) in CONTROL or c in _BIDIRECTIONAL for c in path):
        yield "path_control_character", "has a control character"
    if any("\ud800" <= c <= "\udfff" for c in path):
        yield "path_not_utf8", "is not UTF-8"
    elif not unicodedata.is_normalized("NFC", path):
        yield "path_not_nfc", "is not in the Unicode form NFC, some systems would store it under another name"


def _windows_reason(part: str) -> str:
    if found := sorted(WINDOWS_CHARACTERS & set(part)):
        return f"has {quoted(found[0])}"
    if part.endswith((".", " ")):
        return "ends with a dot or a space"
    if part.split(".", 1)[0].rstrip(" ").casefold() in WINDOWS_DEVICES:
        return "is a device"
    return ""
