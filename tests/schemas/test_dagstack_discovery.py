"""Which plugins a dagstack host finds below a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plugreg.dependencies import discovered
from plugreg_schemas.errors import InvalidInput, NotAvailable
from plugreg_schemas.formats.dagstack.discovery import discover
from plugreg_schemas.formats.dagstack.folders import DEFAULT_IGNORE
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from pathlib import Path


def declared(name: str, kind: str = "tool") -> str:
    return (
        f'[plugin]\nschema_version = "1"\nname = "{name}"\nkind = "{kind}"\nkind_api_version = "1"\n'
        'core_version = "^0.2"\nruntime = "in_process"\nentry_point = "plugin:Echo"\n'
    )


def found(files: dict[str, str], **options: object) -> list[tuple[str, bool]]:
    tree = MemoryTree.of(files)
    return [(one.path, one.registered) for one in discover(tree, **options)]  # type: ignore[arg-type]


def test_a37_a_broken_manifest_keeps_no_other_plugin_out() -> None:
    tree = MemoryTree.of({"broken/dagstack.json": "{ not valid json", "good/dagstack.toml": declared("good")})
    broken, good = discover(tree)
    assert (broken.path, broken.registered, good.path, good.registered) == ("broken", False, "good", True)
    assert "not valid JSON" in broken.reason
    assert good.reason == ""


def test_a38_folders_of_tools_are_passed_over() -> None:
    files = {f"{name.replace('-*', '-x')}/p/dagstack.toml": declared("hidden") for name in DEFAULT_IGNORE}
    assert found(files | {"a/dagstack.toml": declared("a")}) == [("a", True)]


def test_a38_patterns_of_the_caller_are_for_the_name_of_the_folder() -> None:
    files = {
        "experiments/dagstack.toml": declared("a"),
        "b/exp/dagstack.toml": declared("b"),
        "c/dagstack.toml": declared("c"),
    }
    assert found(files, ignore=["exp*"]) == [("c", True)]


def test_a39_a_folder_that_is_missing_or_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotAvailable) as missing:
        discovered(tmp_path / "nowhere")
    with pytest.raises(InvalidInput) as no_folder:
        discovered(tmp_path / "file")
    assert (missing.value.code, no_folder.value.code) == ("path_not_found", "not_a_folder")


def test_plugins_are_found_on_disk(tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "dagstack.toml").write_text(declared("deep"))
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [(one.path, one.registered) for one in discovered(tmp_path)] == [("x/y", True)]


def test_a_folder_with_a_manifest_is_a_leaf() -> None:
    files = {"a/dagstack.toml": declared("a"), "a/inner/dagstack.toml": declared("inner")}
    assert found(files) == [("a", True)]
    assert found({"dagstack.toml": declared("root"), **files}) == [("", True)]


def test_without_recursion_only_the_root_counts() -> None:
    assert found({"a/dagstack.toml": declared("a")}, recursive=False) == []
    assert found({"dagstack.toml": declared("a")}, recursive=False) == [("", True)]


def test_a29_a_kind_and_name_that_come_again_are_refused_and_the_first_is_kept() -> None:
    files = {
        "a/dagstack.toml": declared("echo"),
        "b/dagstack.toml": declared("echo"),
        "c/dagstack.toml": declared("echo", "orchestrator"),
    }
    first, second, other_kind = discover(MemoryTree.of(files))
    assert (first.registered, second.registered, other_kind.registered) == (True, False, True)
    assert "`echo` is already registered, from `a`" in second.reason


def test_an_entry_point_of_a_plugin_below_never_leaves_its_own_folder() -> None:
    files = {"a/dagstack.toml": declared("a").replace("plugin:Echo", "../b:Echo"), "b.py": ""}
    assert found(files) == [("a", False)]


def test_package_metadata_declares_a_plugin_below() -> None:
    text = declared("a").replace("[plugin]", "[tool.dagstack.plugin]")
    assert found({"a/pyproject.toml": text, "b/pyproject.toml": '[project]\nname = "b"\n'}) == [("a", True)]
