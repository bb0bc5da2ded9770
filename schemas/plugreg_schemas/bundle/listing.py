"""The paths of one bundle, judged together as they come.

    order        sorted by the bytes of the path, no path twice, no file that is also a folder
    twins        no two names in one folder that a file system without case or with one Unicode form merges
    links        relative, inside the bundle, ending at something, and not through another link

In sorted order all that lies in one folder comes together, so the names in a folder are kept only while it is
open: they stay few, however deep a hostile tree is. Two folders that are twins are one fault.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from plugreg_schemas.bundle.frame import over
from plugreg_schemas.bundle.limits import DEFAULT_LIMITS, Limits
from plugreg_schemas.bundle.paths import CONTROL, DRIVE, faults_of, path_bytes, printable
from plugreg_schemas.errors import Finding
from plugreg_schemas.names import quoted
from plugreg_schemas.tree import MAX_LINKS

if TYPE_CHECKING:
    from plugreg_schemas.bundle.header import Member


def _folded(name: str) -> str:
    """Return what two names share that some system takes for one (Unicode 3.13, canonical caseless match)."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class _Folder:
    """A folder that is open: by folded name its children, each with whether it is a folder."""

    __slots__ = ("children", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[str, tuple[str, bool]] = {}


class Names:
    """Sees the members of one bundle in order and says what is wrong between them.

    Raises:
        TooLarge: `bundle_too_many_members`, `bundle_too_many_folders`.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._open = [_Folder("")]
        self._last = b""
        self._targets: dict[str, str] = {}
        self._sound: list[tuple[str, str]] = []
        self._folders: set[str] = {""}

    def __len__(self) -> int:
        return len(self._targets)

    def see(self, member: Member) -> list[Finding]:
        """Judge the next member.

        Codes: those of `faults_of`, `member_order`, `member_duplicate`, `member_is_parent`, `path_case_twin`,
        `path_unicode_twin`, `link_target`, `link_escape`.
        """
        path = member.path
        faults = faults_of(path, self._limits)
        raw = path_bytes(path)
        if raw < self._last:
            faults.append(
                _fault("member_order", path, "does not stand in the order of the bytes of the paths")
            )
        self._last = raw
        if len(raw) > self._limits.path:
            return faults  # already refused, and work on it could be made to cost much
        faults += self._place(path)
        self._targets[path] = member.target
        if member.target:
            wrong = _faults_of_target(member, self._limits)
            faults += wrong
            self._sound += [] if wrong else [(path, member.target)]
        if len(self._targets) > self._limits.members:
            over("bundle_too_many_members", f"the bundle has more than {self._limits.members} members")
        if len(self._folders) > self._limits.members + 1:  # the root is one of them
            over("bundle_too_many_folders", f"the bundle has more than {self._limits.members} folders")
        return faults

    def finish(self) -> list[Finding]:
        """Judge the links, now that everything they may point at is known.

        Codes: `link_dangling`, `link_through_link`.
        """
        ends: dict[str, str] = {}
        faults: list[Finding] = []
        for path, target in self._sound:
            ends[path], reason = self._end(path, target)
            if reason:
                faults.append(_fault(reason[0], path, reason[1]))
        for path in ends:
            end, steps = path, 0
            while end in ends and steps <= MAX_LINKS:
                end, steps = ends[end], steps + 1
            if steps > MAX_LINKS:
                faults.append(
                    _fault("link_dangling", path, "is a link that leads from link to link without end")
                )
        return faults

    def _place(self, path: str) -> list[Finding]:
        """Open and close folders until the member's own is open, then enter the member."""
        *folders, name = path.split("/")
        depth = 0
        while depth < min(len(folders), len(self._open) - 1) and self._open[depth + 1].name == folders[depth]:
            depth += 1
        del self._open[depth + 1 :]
        faults: list[Finding] = []
        for index in range(depth, len(folders)):
            faults += self._enter("/".join(folders[: index + 1]), folders[index], folder=True)
            self._open.append(_Folder(folders[index]))
        return faults + self._enter(path, name, folder=False)

    def _enter(self, path: str, name: str, *, folder: bool) -> list[Finding]:
        if folder:
            self._folders.add(path)
        known, was_folder = self._open[-1].children.setdefault(_folded(name), (name, folder))
        if known != name:
            twin = path[: len(path) - len(name)] + known
            same = unicodedata.normalize("NFC", known) == unicodedata.normalize("NFC", name)
            code, how = ("path_unicode_twin", "Unicode form") if same else ("path_case_twin", "case")
            return [
                _fault(
                    code, path, f"and {quoted(twin)} differ only in {how}, many systems hold only one of them"
                )
            ]
        if was_folder != folder:
            return [_fault("member_is_parent", path, "is a member and also the folder of another member")]
        if not folder and path in self._targets:
            return [_fault("member_duplicate", path, "is there twice")]
        return []

    def _end(self, path: str, target: str) -> tuple[str, tuple[str, str] | None]:
        """Return where a link ends, with what is wrong on the way."""
        done = path.split("/")[:-1]
        for part in target.split("/"):
            here = "/".join(done)
            if self._targets.get(here):
                return "", (
                    "link_through_link",
                    f"is a link to {quoted(target)}, which leads through another link",
                )
            if here not in self._folders:
                return "", ("link_dangling", f"is a link to {quoted(target)}, which is not in the bundle")
            if part == "..":
                done.pop()
            elif part != ".":
                done.append(part)
        end = "/".join(done)
        if end not in self._folders and end not in self._targets:
            return end, ("link_dangling", f"is a link to {quoted(target)}, which is not in the bundle")
        return end, None


def _fault(code: str, path: str, message: str) -> Finding:
    return Finding(code, f"{quoted(path)} {message}", file=printable(path))


def _faults_of_target(member: Member, limits: Limits) -> list[Finding]:
    """Return what can be said of a link's target before the other members are known."""
    path, target = member.path, member.target
    what = f"is a link to {quoted(target)}, which"
    faults = []
    if not _stays_inside(path, target):
        faults.append(_fault("link_escape", path, f"{what} leads out of the plugin"))
    elif "" in target.split("/") or "\\" in target or any(unicodedata.category(c) in CONTROL for c in target):
        faults.append(
            _fault("link_target", path, f"{what} has an empty part, a backslash or a control character")
        )
    if len(path_bytes(target)) > limits.path:
        faults.append(_fault("path_too_long", path, f"{what} is longer than {limits.path} bytes"))
    return faults


def _stays_inside(path: str, target: str) -> bool:
    """Say whether a link's target never rises above the root of the bundle."""
    if target.startswith(("/", "\\")) or DRIVE.match(target):
        return False
    depth = path.count("/")
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return False
    return True
