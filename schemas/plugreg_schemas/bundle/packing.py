"""Make a bundle of a tree: equal trees give equal bytes.

    tree > what is left out > members, sorted > every rule on names and links > contents > tar > zstd

Every fault of a name, link or size is found before the first content is read, and all are raised together.
What reading shows (a file that changed meanwhile, one that cannot be read) is raised together as well.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import zstandard

from plugreg_schemas.bundle.frame import over, unpacked
from plugreg_schemas.bundle.header import END, Member, encode
from plugreg_schemas.bundle.limits import DEFAULT_LIMITS, Limits
from plugreg_schemas.bundle.listing import Names
from plugreg_schemas.bundle.paths import left_out, path_bytes, printable
from plugreg_schemas.errors import Collector, Finding, InvalidInput, Severity, TooLarge
from plugreg_schemas.names import Digest, quoted
from plugreg_schemas.tree import MAX_LINKS, Tree, read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

LEVEL: Final = 9
"""The best level before packing takes several times as long for the last few percent."""
IGNORE_FILE: Final = ".plugregignore"
MAX_IGNORE_FILE: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Packed:
    """A bundle. `size` counts `content`; a folder in `left_out` ends with `/`; `notes` are for the author."""

    content: bytes = field(repr=False)
    digest: Digest
    size: int
    files: tuple[Member, ...]
    left_out: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()


def pack(tree: Tree, executables: Collection[str] = (), limits: Limits = DEFAULT_LIMITS) -> Packed:
    """Return the bundle of `tree`.

    Left out: version control, AppleDouble, Finder litter, what `.plugregignore` matches, and that file.
    Executable become the files that `executables` names (paths in the plugin, links are followed), those that
    begin with `#!`, and those that already are.

    Raises:
        InvalidInput: `plugin_not_packable` or the one code that all faults share: those of `listing.Names`,
            `member_type`, `bundle_empty`, `ignore_invalid`; `file_changed`, `file_unreadable`.
        TooLarge: the tree is over one of `limits`.
    """
    survey = _survey(tree, limits)
    members = sorted(survey.members, key=lambda member: path_bytes(member.path))
    _prove(members, survey.faults, limits)
    tar, files = _tar(tree, members, _named(members, executables))
    content = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True).compress(
        tar
    )
    for _ in unpacked(io.BytesIO(content), limits):
        pass  # the limits on size and ratio are those of the reader, so the reader applies them
    return Packed(
        content, Digest.of(content), len(content), files, tuple(survey.left_out), tuple(survey.notes)
    )


@dataclass(slots=True)
class _Survey:
    """What a walk through the tree found."""

    faults: Collector = field(
        default_factory=lambda: Collector("plugin_not_packable", "the plugin cannot be packed")
    )
    members: list[Member] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @property
    def found(self) -> int:
        """How much was found so far: a folder that adds nothing to it is empty."""
        return len(self.members) + len(self.notes) + len(self.faults.findings) + self.faults.dropped


def _survey(tree: Tree, limits: Limits) -> _Survey:
    survey = _Survey()
    _visit(tree, "", survey, _ignored(tree), limits)
    return survey


def _visit(tree: Tree, folder: str, survey: _Survey, ignored: Callable[[str], bool], limits: Limits) -> None:
    """Take stock of one folder and those in it, as deep as a path may be long."""
    for name in _children(tree, folder, survey.faults):
        path = f"{folder}/{name}" if folder else name
        node = tree.node(path)
        if node is None:
            survey.faults.add("file_changed", f"{quoted(path)} went away while packing", file=printable(path))
        elif left_out(name) or path == IGNORE_FILE or ignored(path + "/" * (node.kind == "directory")):
            survey.left_out.append(path + "/" * (node.kind == "directory"))
        elif node.kind == "directory":
            _visit_below(tree, path, survey, ignored, limits)
        elif node.kind == "other":
            message = f"{quoted(path)} is neither a file nor a link nor a folder"
            survey.faults.add("member_type", message, file=printable(path))
        else:
            survey.members.append(Member(path, node.size, node.executable, node.target))


def _children(tree: Tree, folder: str, faults: Collector) -> Sequence[str]:
    try:
        return tree.children(folder)
    except OSError as error:
        message = (
            f"the folder {quoted(folder or '.')} cannot be read: {error.strerror or type(error).__name__}"
        )
        faults.add("file_unreadable", message, file=printable(folder))
        return ()


def _visit_below(
    tree: Tree, path: str, survey: _Survey, ignored: Callable[[str], bool], limits: Limits
) -> None:
    if len(path_bytes(path)) > limits.path:
        message = f"{quoted(path)} is longer than {limits.path} bytes"
        survey.faults.add("path_too_long", message, file=printable(path))
        return
    before = survey.found
    _visit(tree, path, survey, ignored, limits)
    if survey.found == before:
        survey.notes.append(_empty(path))


def _empty(path: str) -> Finding:
    message = f"the folder {quoted(path)} is empty and not carried; create it when the plugin runs"
    return Finding("empty_folder", message, Severity.NOTE, file=printable(path))


def _ignored(tree: Tree) -> Callable[[str], bool]:
    """Return whether a path (a folder ends with `/`) is matched by `.plugregignore`, written as for git."""
    node = tree.node(IGNORE_FILE)
    if node is None:
        return lambda _: False
    if node.kind != "file":
        raise _bad_ignore_file("it must be a regular file")
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only a plugin with that file needs it

    try:
        spec = GitIgnoreSpec.from_lines(read(tree, IGNORE_FILE, MAX_IGNORE_FILE).decode().splitlines())
    except TooLarge:
        raise _bad_ignore_file(f"it is larger than {MAX_IGNORE_FILE} bytes") from None
    except OSError as error:
        raise _bad_ignore_file(f"it cannot be read: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError as error:
        raise _bad_ignore_file(f"it is not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise _bad_ignore_file(str(error)) from None
    return spec.match_file


def _bad_ignore_file(reason: str) -> InvalidInput:
    message = f"{quoted(IGNORE_FILE)} cannot be used: {reason}"
    finding = Finding("ignore_invalid", message, file=IGNORE_FILE)
    return InvalidInput(
        "ignore_invalid", message, hint="write patterns as in a `.gitignore`", findings=[finding]
    )


def _prove(members: Sequence[Member], faults: Collector, limits: Limits) -> None:
    """Raise every fault that shows before a content is read."""
    names = Names(limits)
    hint = "rename or remove what is named, or list it in `.plugregignore`"
    try:
        for member in members:
            faults.extend(names.see(member))
        faults.extend(names.finish())
        if sum(len(encode(member)) + member.span for member in members) + len(END) > limits.unpacked:
            over("bundle_unpacked_too_large", f"the plugin is larger than {limits.unpacked} bytes")
    except InvalidInput as error:
        faults.extend(error.findings).raise_if_any(type(error), hint=error.hint)
    if not members and not faults.failed:
        faults.add("bundle_empty", "the plugin has no files")
    faults.raise_if_any(hint=hint)


def _named(members: Iterable[Member], executables: Collection[str]) -> set[str]:
    """Return the files that `executables` lead to; a name that leads to none is for `check` to report."""
    targets = {member.path: member.target for member in members}
    found = set()
    for name in executables:
        path = _normal(name)
        for _ in range(MAX_LINKS):
            if not targets.get(path):
                break
            path = _normal(f"{path}/../{targets[path]}")
        found.add(path)
    return found


def _normal(path: str) -> str:
    """Resolve `.` and `..` by the text alone: no link has another link on its way."""
    done: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del done[-1:]
        elif part not in {"", "."}:
            done.append(part)
    return "/".join(done)


def _tar(
    tree: Tree, members: Iterable[Member], named: Collection[str]
) -> tuple[bytearray, tuple[Member, ...]]:
    """Read every file once and return the tar with its members as they stand in it."""
    faults = Collector("plugin_not_packable", "the plugin cannot be packed")
    tar = bytearray()
    files: list[Member] = []
    for member in members:
        content = b"" if member.target else _content(tree, member, faults)
        executable = not member.target and (
            member.executable or member.path in named or content.startswith(b"#!")
        )
        files.append(replace(member, executable=executable))
        for part in (encode(files[-1]), content, bytes(member.span - member.size)):
            tar += part
    faults.raise_if_any(hint="pack again when nothing writes into the folder and every file can be read")
    return tar + END, tuple(files)


def _content(tree: Tree, member: Member, faults: Collector) -> bytes:
    try:
        with tree.open(member.path) as file:
            content = file.read(member.size + 1)
    except OSError as error:
        message = f"{quoted(member.path)} cannot be read: {error.strerror or type(error).__name__}"
        faults.add("file_unreadable", message, file=printable(member.path))
        return b""
    if len(content) != member.size:
        message = f"{quoted(member.path)} changed while packing"
        faults.add("file_changed", message, file=printable(member.path))
    return content
