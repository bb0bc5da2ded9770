"""Packing: equal trees give equal bytes, and what cannot be carried is named."""

from __future__ import annotations

import io
import os
import tarfile
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from plugreg_schemas.bundle import (
    DEFAULT_LIMITS,
    MEDIA_TYPE,
    Limits,
    Packed,
    faults_of,
    file_name,
    node_of,
    open_bundle,
    outline,
    pack,
)
from plugreg_schemas.errors import InvalidInput, Severity, TooLarge
from plugreg_schemas.names import Digest
from plugreg_schemas.tree import DirectoryTree, MemoryTree, Node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from plugreg_schemas.tree import Tree

SCRIPT = "#!/bin/sh\nexec true\n"


def _write(
    root: Path, files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None
) -> DirectoryTree:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
    for path, target in (links or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    return DirectoryTree(root)


def _modes(packed: Packed) -> dict[str, int]:
    return {member.path: member.mode for member, _ in open_bundle(io.BytesIO(packed.content))}


def _refusal(tree: Tree, limits: Limits = DEFAULT_LIMITS) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        pack(tree, limits=limits)
    assert caught.value.hint
    return caught.value


def _faults(tree: Tree, limits: Limits = DEFAULT_LIMITS) -> list[tuple[str, str]]:
    return [(fault.code, fault.file) for fault in _refusal(tree, limits).findings]


class TestModes:
    def test_a_command_a_script_and_a_program_are_executable(self, tmp_path: Path) -> None:
        """T07, C1, C2: `bin/server` runs after the install, whatever its mode was where it was packed."""
        tree = _write(
            tmp_path, {"plugin.json": "{}", "bin/server": "\x7fELF", "run": SCRIPT, "prog": "x", "data": "y"}
        )
        (tmp_path / "prog").chmod(0o755)
        packed = pack(tree, ["./bin/server", "./nowhere"])
        expected = {"bin/server": 0o755, "data": 0o644, "plugin.json": 0o644, "prog": 0o755, "run": 0o755}
        assert _modes(packed) == expected
        assert {member.path: member.mode for member in packed.files} == expected

    def test_the_file_behind_a_command_that_is_a_link_is_executable(self) -> None:
        """T07, C4: `bin/tool -> ../lib/tool -> tool.1`."""
        tree = MemoryTree.of({"lib/tool.1": "x"}, links={"bin/tool": "../lib/tool", "lib/tool": "tool.1"})
        assert _modes(pack(tree, ["bin/tool"])) == {"bin/tool": 0o777, "lib/tool": 0o777, "lib/tool.1": 0o755}

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444, 0o4644])
    def test_odd_modes_on_disk_become_the_plain_one(self, tmp_path: Path, mode: int) -> None:
        """C11."""
        tree = _write(tmp_path, {"data": "x"})
        (tmp_path / "data").chmod(mode)
        assert _modes(pack(tree)) == {"data": 0o644}


class TestEqualTrees:
    def test_order_times_folders_and_umask_do_not_show(self, tmp_path: Path) -> None:
        """C12."""
        files = {"plugin.json": "{}", "a/b": "1", "a-b": "2", "a.b": "3", "bin/run": SCRIPT}
        one = pack(_write(tmp_path / "one", files))
        before = os.umask(0o077)
        try:
            tree = _write(tmp_path / "two", dict(reversed(files.items())))
        finally:
            os.umask(before)
        os.utime(tmp_path / "two/a/b", (1, 1))
        (tmp_path / "two/bin").chmod(0o700)
        assert pack(tree).content == one.content
        assert pack(MemoryTree.of(files)).digest == one.digest
        assert (one.digest, one.size) == (Digest.of(one.content), len(one.content))

    def test_members_stand_in_the_order_of_their_bytes(self) -> None:
        paths = ["a", "a-b/c", "a/", "a0", "\U0001f600", "\uffee", "Z"]
        packed = pack(MemoryTree.of({path + "x" * path.endswith("/"): "" for path in paths if path != "a"}))
        assert [member.path for member in packed.files] == ["Z", "a-b/c", "a/x", "a0", "\uffee", "\U0001f600"]

    def test_the_frame_keeps_its_promises(self) -> None:
        packed = pack(MemoryTree.of({"a": "x" * 3000}))
        parameters = zstandard.get_frame_parameters(packed.content)
        assert (parameters.content_size, parameters.dict_id, parameters.has_checksum) == (5120 - 512, 0, True)

    def test_the_name_and_type_of_a_bundle(self) -> None:
        assert file_name("lint3r", "1.4.0") == "lint3r-1.4.0.tar.zst"
        assert MEDIA_TYPE == "application/vnd.plugreg.bundle.v1+tar.zst"


class TestLeftOut:
    def test_litter_and_version_control_are_left_out(self, tmp_path: Path) -> None:
        """C6, C15."""
        litter = (
            "._plugin.json",
            "skills/._a/SKILL.md",
            ".DS_Store",
            "__MACOSX/x",
            ".git/config",
            "sub/.svn/x",
            "CVS/Root",
        )
        packed = pack(
            _write(tmp_path, dict.fromkeys(["plugin.json", "skills/a/SKILL.md", "sub/x", *litter], "x"))
        )
        assert [member.path for member in packed.files] == ["plugin.json", "skills/a/SKILL.md", "sub/x"]
        left_out = (".DS_Store", "._plugin.json", ".git/", "CVS/", "__MACOSX/", "skills/._a/", "sub/.svn/")
        assert packed.left_out == left_out

    def test_plugregignore_is_read_as_git_reads_its_own(self) -> None:
        ignore = "# a comment\n*.log\n!keep.log\n/build/\ndocs/**/draft\n"
        paths = [
            "a.log",
            "keep.log",
            "b/c.log",
            "build/x",
            "b/build/x",
            "docs/a/b/draft",
            "docs/a/final",
            "plugin.json",
        ]
        packed = pack(MemoryTree.of({".plugregignore": ignore} | dict.fromkeys(paths, "x")))
        assert [member.path for member in packed.files] == [
            "b/build/x",
            "docs/a/final",
            "keep.log",
            "plugin.json",
        ]
        assert packed.left_out == (".plugregignore", "a.log", "b/c.log", "build/", "docs/a/b/draft")

    def test_what_cannot_be_carried_may_be_ignored(self) -> None:
        """C4."""
        tree = MemoryTree.of(
            {".plugregignore": ".venv/", "x": ""}, links={".venv/bin/python": "/usr/bin/python3"}
        )
        assert [member.path for member in pack(tree).files] == ["x"]

    @pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (65 << 10)])
    def test_an_unreadable_plugregignore_is_refused(self, content: bytes) -> None:
        with pytest.raises(InvalidInput) as caught:
            pack(MemoryTree.of({".plugregignore": content, "x": ""}))
        assert caught.value.code == "ignore_invalid"

    def test_a_link_as_plugregignore_is_refused(self) -> None:
        tree = MemoryTree.of({".gitignore": "x"}, links={".plugregignore": ".gitignore"})
        assert _faults(tree) == [("ignore_invalid", ".plugregignore")]

    def test_empty_folders_are_named(self, tmp_path: Path) -> None:
        tree = _write(tmp_path, {"plugin.json": "{}", "only/.DS_Store": "x"})
        (tmp_path / "cache/deep").mkdir(parents=True)
        notes = pack(tree).notes
        assert [(note.code, note.severity, note.file) for note in notes] == [
            ("empty_folder", Severity.NOTE, "cache/deep"),
            ("empty_folder", Severity.NOTE, "only"),
        ]


class TestRefused:
    def test_every_fault_is_named_at_once(self, tmp_path: Path) -> None:
        """T08, T09, C4, C5, C7, C8, C9: all of them in one refusal, before a content is read."""
        nfd = unicodedata.normalize("NFD", "caf\u00e9")
        links = {"abs": "/usr/bin/python3", "up/l": "../../x", "lost": "nowhere"}
        tree = _write(
            tmp_path, {"Ref.md": "", "ref.md": "", nfd: "", "aux.txt": "", "b\\s": "", "x?y": ""}, links
        )
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / os.fsdecode(b"latin-\xe9")).write_bytes(b"")
        error = _refusal(tree)
        assert error.code == "plugin_not_packable"
        assert sorted((fault.code, fault.file) for fault in error.findings) == [
            ("link_dangling", "lost"),
            ("link_escape", "abs"),
            ("link_escape", "up/l"),
            ("member_type", "pipe"),
            ("path_backslash", "b\\s"),
            ("path_case_twin", "ref.md"),
            ("path_not_nfc", nfd),
            ("path_not_utf8", "latin-\\udce9"),
            ("path_windows_name", "aux.txt"),
            ("path_windows_name", "x?y"),
        ]

    def test_a_link_into_the_source_repository_is_named(self) -> None:
        """C5: `skills/x/SKILL.md -> ../../../SKILL.md`."""
        error = _refusal(
            MemoryTree.of({"plugin.json": "{}"}, links={"skills/x/SKILL.md": "../../../SKILL.md"})
        )
        assert error.code == "link_escape"
        assert "`skills/x/SKILL.md`" in error.message

    def test_a_link_through_a_link_is_named(self) -> None:
        """D2, T08."""
        tree = MemoryTree.of({"b/c": ""}, links={"l": "b", "m": "l/c"})
        assert _faults(tree) == [("link_through_link", "m")]

    def test_a_path_too_long_is_named_and_not_followed(self, tmp_path: Path) -> None:
        """C10."""
        deep = "/".join(["d" * 60] * 4)
        tree = _write(tmp_path, {f"{deep}/below": "", "e" * 201: ""})
        assert _faults(tree) == [("path_too_long", deep), ("path_component_too_long", "e" * 201)]

    def test_each_limit_is_enforced(self) -> None:
        """D4, C10."""
        tree = MemoryTree.of({"a": bytes(range(256)) * 20, "b/c/d": ""})
        for limits, code in (
            (Limits(compressed=100), "bundle_too_large"),
            (Limits(unpacked=4096), "bundle_unpacked_too_large"),
            (Limits(members=1), "bundle_too_many_members"),
        ):
            error = _refusal(tree, limits)
            assert isinstance(error, TooLarge)
            assert code in {fault.code for fault in error.findings}

    def test_what_no_reader_would_accept_is_not_packed(self) -> None:
        """D4: three MiB of zeros look like a bomb."""
        assert _refusal(MemoryTree.of({"zeros": bytes(3 << 20)})).code == "bundle_ratio"

    def test_an_empty_tree_is_refused(self) -> None:
        """D10."""
        assert _refusal(MemoryTree.of({})).code == "bundle_empty"
        assert _refusal(MemoryTree.of({".git/config": ""})).code == "bundle_empty"

    def test_a_file_that_changes_while_packing_is_named(self) -> None:
        tree = Changing(
            MemoryTree.of({"grows": "1", "same": "2", "shrinks": "3"}), {"grows": b"10", "shrinks": b""}
        )
        assert _faults(tree) == [("file_changed", "grows"), ("file_changed", "shrinks")]

    def test_a_file_that_cannot_be_read_is_named(self) -> None:
        nodes = {"a": Node("file", 1), "b": Node("file", 1)}
        assert _faults(MemoryTree(nodes, {"a": b"x"})) == [("file_unreadable", "b")]

    def test_a_folder_that_cannot_be_read_is_named(self) -> None:
        tree = Changing(MemoryTree.of({"plugin.json": "{}", "closed/x": ""}), {}, closed="closed")
        assert _faults(tree) == [("file_unreadable", "closed")]

    def test_no_file_is_read_twice(self) -> None:
        tree = Changing(MemoryTree.of({"plugin.json": "{}", "run": SCRIPT, "data": "x"}), {})
        pack(tree, ["data"])
        assert sorted(tree.opened) == ["data", "plugin.json", "run"]


@dataclass
class Changing:
    """A tree in which some contents are not what their nodes say and one folder is closed; it counts what is read."""

    tree: MemoryTree
    contents: Mapping[str, bytes]
    closed: str = "?"

    def __post_init__(self) -> None:
        self.opened: list[str] = []

    def node(self, path: str) -> Node | None:
        return self.tree.node(path)

    def children(self, path: str) -> Sequence[str]:
        if path == self.closed:
            raise PermissionError(13, "Permission denied")
        return self.tree.children(path)

    def open(self, path: str) -> BinaryIO:
        self.opened.append(path)
        return io.BytesIO(self.contents[path]) if path in self.contents else self.tree.open(path)


NAMES = st.text("abcXYZ019 _-.+\u00e9\u65e5\u00df\U0001f600", min_size=1, max_size=12).filter(
    lambda name: not faults_of(name)
)
FOLDERS = st.recursive(
    st.binary(max_size=1500),
    lambda inner: st.lists(st.tuples(NAMES, inner), min_size=1, max_size=4).map(dict),
    max_leaves=12,
)
TREES = st.lists(st.tuples(NAMES, FOLDERS), min_size=1, max_size=4).map(dict)


def _flat(folder: Mapping[str, object], at: str = "") -> dict[str, bytes]:
    """Return the files by path, leaving out a name of which a twin came before."""
    found: dict[str, bytes] = {}
    seen: set[str] = set()
    for name, inner in folder.items():
        folded = unicodedata.normalize("NFD", name).casefold()
        if folded in seen:
            continue
        seen.add(folded)
        if isinstance(inner, bytes):
            found[at + name] = inner
        elif isinstance(inner, dict):
            found |= _flat(inner, f"{at}{name}/")
    return found


@settings(deadline=None, max_examples=80)
@given(TREES, st.data())
def test_every_tree_is_packed_and_opened_to_itself(folder: dict[str, object], data: st.DataObject) -> None:
    files = _flat(folder)
    executable = data.draw(st.sets(st.sampled_from(sorted(files))))
    packed = pack(MemoryTree.of(files), executable)
    found = {member: b"".join(pieces) for member, pieces in open_bundle(io.BytesIO(packed.content))}
    assert {member.path: content for member, content in found.items()} == files
    assert tuple(found) == packed.files
    assert all(m.executable == (m.path in executable or files[m.path].startswith(b"#!")) for m in found)

    again = MemoryTree({member.path: node_of(member) for member in found}, files)
    assert pack(again).content == packed.content
    assert outline(io.BytesIO(packed.content), DEFAULT_LIMITS, lambda _: True).nodes == again.nodes

    with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(packed.content)), encoding="utf-8") as archive:
        theirs = {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]
    assert theirs == files
