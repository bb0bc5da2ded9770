"""Native programs on this machine: `check` says where they run, and a foreign one is never started."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.check import check
from plugreg.machine import this_platform
from plugreg.run import Target, call_tool, list_tools, plan
from plugreg_schemas import formats
from plugreg_schemas.errors import Boundary, ResolutionError, Severity
from plugreg_schemas.tree import DirectoryTree
from tests.support.binaries import elf, packed, pe, plugin_of

if TYPE_CHECKING:
    from plugreg_schemas.tree import MemoryTree

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="the programs of the tests are foreign to Linux or taken from it",
)
FOREIGN = pe(0xAA64)
SCRIPT = b"#!/bin/sh\n"


def own() -> bytes:
    return Path(shutil.which("true") or "/bin/true").resolve().read_bytes()


def put(folder: Path, tree: MemoryTree) -> Path:
    for path, content in tree.contents.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if tree.nodes[path].executable else 0o644)
    return folder


def findings(path: Path) -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in check(path).findings]


def target_of(folder: Path) -> Target:
    manifest = formats.read(DirectoryTree(folder)).manifest
    assert manifest is not None
    return Target("demo", folder, folder.with_name("data"), manifest)


def test_this_machine_is_one_that_is_known() -> None:
    assert this_platform().startswith("linux-")


def test_check_says_where_commands_run_and_which_do_not_run_here(tmp_path: Path) -> None:
    tree = plugin_of({"foreign": FOREIGN, "own": own(), "script": SCRIPT})
    expected = [
        ("native_binary", "/mcpServers/foreign/command"),
        ("native_binary", "/mcpServers/own/command"),
        ("platform_missing_here", "/mcpServers/foreign/command"),
    ]
    folder = put(tmp_path / "plugin", tree)
    bundle = tmp_path / "demo-1.0.0.tar.zst"
    bundle.write_bytes(packed(tree))
    assert findings(folder) == findings(bundle) == expected
    checked = check(folder)
    assert checked.publishable
    warning = checked.findings[-1]
    assert (warning.severity, warning.boundary) == (Severity.WARNING, Boundary.PROCESS)
    assert "`windows-arm64`" in warning.message
    assert f"`{this_platform()}`" in warning.message


def test_check_has_nothing_to_say_of_scripts(tmp_path: Path) -> None:
    assert findings(put(tmp_path, plugin_of({"script": SCRIPT}))) == []


def test_a_foreign_program_is_skipped_and_the_others_are_planned(tmp_path: Path) -> None:
    target = target_of(
        put(tmp_path / "plugin", plugin_of({"foreign": FOREIGN, "own": own(), "script": SCRIPT}))
    )
    planned: Any = plan(target, host_env={"PATH": "/usr/bin:/bin"})
    (plugin,) = planned["plugins"]
    assert [server["name"] for server in plugin["servers"]] == ["own", "script"]
    (skipped,) = plugin["skipped"]
    assert (skipped["name"], skipped["error"]["code"]) == ("foreign", "platform_unsupported")
    assert skipped["error"]["hint"].startswith("use it on such a machine")
    assert [r["code"] for r in skipped["error"]["refusals"]] == ["platform_unsupported"]


@pytest.mark.parametrize("program", [FOREIGN, elf(183, abi=9)], ids=["windows", "freebsd"])
def test_a_foreign_program_is_refused_before_it_is_started(tmp_path: Path, program: bytes) -> None:
    target = target_of(put(tmp_path / "plugin", plugin_of({"foreign": program})))
    with pytest.raises(ResolutionError, match="its command runs on") as failure:
        call_tool(target, "foreign", "say", {})
    assert failure.value.code == "platform_unsupported"
    with pytest.raises(ResolutionError) as failure:
        list_tools(target)
    assert failure.value.code == "platform_unsupported"
    assert not target.data.exists()
