"""Trees: one contract for a folder and for memory, and the one rule that decides what lies inside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.errors import TooLarge
from plugreg_schemas.tree import DirectoryTree, MemoryTree, PathEscapesError, locate, read, walk

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg_schemas.tree import Tree

FILES = {"plugin.json": b"{}", "a/b/c": b"12345", "a-b": b"", "bin/run": b"#!/bin/sh\n"}
LINKS = {
    "up": "a/b",
    "a/back": "../bin",
    "out": "../outside",
    "absolute": "/etc",
    "ring": "ring2",
    "ring2": "ring",
    "lost": "nowhere/x",
    "backslash": "a\\b",
    "a/chain": "back/run",
}


@pytest.fixture(params=["directory", "memory"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    if request.param == "memory":
        return MemoryTree.of(FILES, links=LINKS)
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "bin/run").chmod(0o755)
    for path, target in LINKS.items():
        (tmp_path / path).symlink_to(target)
    return DirectoryTree(tmp_path)


class TestContract:
    def test_a_node_says_what_stands_there_and_follows_no_link(self, tree: Tree) -> None:
        found = {
            path: tree.node(path)
            for path in ("plugin.json", "bin/run", "a", "up", "nothing", "plugin.json/x")
        }
        shown = {path: node and (node.kind, node.executable, node.target) for path, node in found.items()}
        assert shown == {
            "plugin.json": ("file", False, ""),
            "bin/run": ("file", True, ""),
            "a": ("directory", False, ""),
            "up": ("link", False, "a/b"),
            "nothing": None,
            "plugin.json/x": None,
        }

    def test_children_are_sorted_by_their_bytes(self, tree: Tree) -> None:
        assert list(tree.children("")) == sorted(
            {*LINKS, *FILES} - {"a/b/c", "bin/run", "a/back", "a/chain"} | {"a", "bin"}
        )
        assert list(tree.children("a")) == ["b", "back", "chain"]

    def test_a_walk_yields_everything_but_folders_and_enters_no_link(self, tree: Tree) -> None:
        assert {path: node.size for path, node in walk(tree) if node.kind == "file"} == {
            path: len(content) for path, content in FILES.items()
        }
        assert {path: node.target for path, node in walk(tree) if node.kind == "link"} == LINKS

    def test_a_file_is_read_up_to_the_limit(self, tree: Tree) -> None:
        assert read(tree, "a/b/c", 5) == b"12345"
        with pytest.raises(TooLarge) as caught:
            read(tree, "a/b/c", 4)
        assert caught.value.code == "file_too_large"

    def test_a_missing_file_cannot_be_opened(self, tree: Tree) -> None:
        with pytest.raises(FileNotFoundError):
            tree.open("nothing")

    @pytest.mark.parametrize(
        ("path", "where", "kind"),
        [
            ("", "", "directory"),
            (".", "", "directory"),
            ("a/./b//c", "a/b/c", "file"),
            ("up/c", "a/b/c", "file"),
            ("up/..", "a", "directory"),
            ("up/../../plugin.json", "plugin.json", "file"),
            ("a/back/run", "bin/run", "file"),
            ("a/chain", "bin/run", "file"),
            ("up/../back/../plugin.json", "plugin.json", "file"),
            ("nothing/x", "nothing/x", None),
            ("plugin.json/x", "plugin.json/x", None),
            ("lost", "nowhere/x", None),
        ],
    )
    def test_links_are_followed_as_a_file_system_does(
        self, tree: Tree, path: str, where: str, kind: str | None
    ) -> None:
        found, node = locate(tree, path)
        assert (found, node and node.kind) == (where, kind)

    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../x",
            "a/../../x",
            "out",
            "out/x",
            "absolute",
            "absolute/passwd",
            "ring",
            "ring/x",
            "backslash",
            "up/../../..",
        ],
    )
    def test_a_path_that_leaves_the_plugin_is_refused(self, tree: Tree, path: str) -> None:
        """D1, D2."""
        with pytest.raises(PathEscapesError) as caught:
            locate(tree, path)
        assert caught.value.code == "path_escape"

    def test_nothing_missing_hides_a_way_out(self, tree: Tree) -> None:
        """D1: `nothing/../../x` leaves the plugin as soon as somebody creates `nothing`."""
        with pytest.raises(PathEscapesError):
            locate(tree, "nothing/../../x")


class TestDirectory:
    def test_a_link_is_never_opened(self, tmp_path: Path) -> None:
        """D2: what was a file when it was looked at may be a link when it is opened."""
        (tmp_path / "secret").write_text("x")
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree/link").symlink_to("../secret")
        with pytest.raises(OSError, match="symbolic link"):
            DirectoryTree(tmp_path / "tree").open("link")

    def test_a_pipe_is_neither_file_nor_folder(self, tmp_path: Path) -> None:
        """D6."""
        os.mkfifo(tmp_path / "pipe")
        node = DirectoryTree(tmp_path).node("pipe")
        assert node is not None
        assert node.kind == "other"

    def test_a_path_with_a_nul_is_nothing(self, tmp_path: Path) -> None:
        assert DirectoryTree(tmp_path).node("a\0b") is None


class TestMemory:
    def test_a_content_that_is_not_kept_cannot_be_opened(self) -> None:
        tree = MemoryTree(MemoryTree.of({"a": "x"}).nodes)
        with pytest.raises(FileNotFoundError):
            tree.open("a")
