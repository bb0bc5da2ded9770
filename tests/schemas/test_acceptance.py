"""What the registry demands beyond the format."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas import acceptance, bundle, formats
from plugreg_schemas.errors import MAX_FINDINGS, Boundary, Severity
from plugreg_schemas.tree import DirectoryTree, MemoryTree, Node

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg_schemas.acceptance import Acceptance

PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
MCP_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
DOCUMENT = '{"$schema":"' + MCP_SCHEMA + '","mcpServers":{HERE}}'
SERVER = {"type": "stdio", "command": "uvx", "args": ["x==1.0.0"]}


def plugin(**fields: object) -> str:
    return json.dumps({"$schema": PLUGIN_SCHEMA, "name": "demo", "version": "1.0.0", **fields})


def mcp(**servers: object) -> str:
    return json.dumps({"$schema": MCP_SCHEMA, "mcpServers": servers})


def judge(tree: MemoryTree, version: str | None = None, *, packed: bool = False) -> Acceptance:
    return acceptance.examine(formats.read(tree), tree, version, packed=packed)


def codes(found: Acceptance) -> list[str]:
    return [finding.code for finding in found.findings]


def test_a_plugin_that_the_registry_takes() -> None:
    found = judge(MemoryTree.of({"plugin.json": plugin(), "mcp.json": mcp(a=SERVER)}))
    assert (found.name, str(found.version), found.findings, found.publishable) == ("demo", "1.0.0", (), True)


def test_a_plugin_that_does_not_load_is_not_publishable() -> None:
    found = judge(MemoryTree.of({"README.md": "x"}))
    assert (found.loads, found.publishable, found.name, found.version) == (False, False, None, None)


def test_no_amount_of_advice_hides_a_reason_to_refuse() -> None:
    """Only so many findings are kept: a flood of warnings must not push the errors out."""
    advised = {
        f"a{number}": {"type": "stdio", "command": "npx", "args": ["x"]}
        for number in range(MAX_FINDINGS + 50)
    }
    forbidden = {"z": {"type": "streamable-http", "url": "https://far.example/mcp"}}
    tier = {"extensions": {"dev.plugreg": {"tier": "A"}}}
    found = judge(MemoryTree.of({"plugin.json": plugin(**tier), "mcp.json": mcp(**advised, **forbidden)}))
    assert not found.publishable
    assert (len(found.findings), set(codes(found))) == (
        MAX_FINDINGS,
        {"transport_forbidden", "launcher_unpinned"},
    )


@pytest.mark.parametrize("name", ["con", "aux.tools", "com1", "latest", "all", "plugreg"])
def test_reserved_names_load_and_are_refused(name: str) -> None:
    tree = MemoryTree.of({"plugin.json": plugin(name=name), "mcp.json": mcp(a=SERVER)})
    assert formats.read(tree).ok
    assert codes(judge(tree)) == ["name_reserved"]


def test_a_version_is_demanded_a6() -> None:
    """Field report A6: `unknown` is never a version."""
    tree = MemoryTree.of({"plugin.json": plugin(version=""), "mcp.json": mcp(a=SERVER)})
    assert codes(judge(tree)) == ["version_missing"]
    assert str(judge(tree, "1.2.3").version) == "1.2.3"
    assert codes(judge(tree, "unknown")) == ["version_invalid"]


@pytest.mark.parametrize(
    ("version", "nearest"),
    [("1.0", "`1.0.0`"), ("v1.2.3", "`1.2.3`"), ("01.2.3", "`1.2.3`"), ("1", "`1.0.0`"), ("latest", "MAJOR")],
)
def test_a_version_that_is_not_semver_names_the_nearest_one(version: str, nearest: str) -> None:
    found = judge(MemoryTree.of({"plugin.json": plugin(version=version), "mcp.json": mcp(a=SERVER)}))
    assert [(f.code, f.file, f.pointer) for f in found.findings] == [
        ("version_invalid", "plugin.json", "/version")
    ]
    assert nearest in found.findings[0].message
    assert found.version is None


def test_manifest_and_option_must_agree_on_the_version() -> None:
    tree = MemoryTree.of({"plugin.json": plugin(), "mcp.json": mcp(a=SERVER)})
    assert codes(judge(tree, "1.0.0")) == []
    assert codes(judge(tree, "1.0.1")) == ["version_mismatch"]
    assert codes(judge(tree, "1.0.0+build")) == ["version_mismatch"]


def test_nothing_that_loads_is_noted_and_publishable_c1() -> None:
    found = judge(MemoryTree.of({"plugin.json": plugin()}))
    assert [(f.code, f.severity) for f in found.findings] == [("no_components", Severity.NOTE)]
    assert found.publishable


OWN = {"type": "stdio", "command": "./bin/server"}


def test_a_command_that_is_not_there_is_named() -> None:
    found = judge(MemoryTree.of({"plugin.json": plugin(), "mcp.json": mcp(a=OWN)}))
    assert [(f.code, f.file, f.pointer) for f in found.findings] == [
        ("command_missing", "mcp.json", "/mcpServers/a/command")
    ]
    assert not found.publishable


def test_a_command_without_the_executable_bit_c2() -> None:
    """Field report C2: packing sets the bit, a bundle without it is refused."""
    files = {"plugin.json": plugin().encode(), "mcp.json": mcp(a=OWN).encode(), "bin/server": b"\x7fELF"}
    tree = MemoryTree.of(files)
    assert judge(tree).publishable
    found = judge(tree, packed=True)
    assert [(f.code, f.file) for f in found.findings] == [("command_not_executable", "bin/server")]
    executable = MemoryTree({**tree.nodes, "bin/server": Node("file", 4, executable=True)}, files)
    assert judge(executable, packed=True).publishable


def test_a_command_through_a_link_is_judged_where_the_link_ends() -> None:
    files = {"plugin.json": plugin(), "mcp.json": mcp(a=OWN), "lib/tool": "binary"}
    tree = MemoryTree.of(files, links={"bin/server": "../lib/tool"})
    assert judge(tree).publishable
    assert [f.file for f in judge(tree, packed=True).findings] == ["lib/tool"]


def test_a_shebang_with_a_carriage_return_c3() -> None:
    """Field report C3: named with file and line."""
    files = {
        "plugin.json": plugin(),
        "mcp.json": mcp(a=OWN),
        "bin/server": "#!/usr/bin/env python3\r\nprint()\r\n",
    }
    found = judge(MemoryTree.of(files))
    assert [(f.code, f.file) for f in found.findings] == [("shebang_cr", "bin/server")]
    assert "line 1 of `bin/server`" in found.findings[0].message


@pytest.mark.parametrize(
    "content", ["#!/usr/bin/env python3\nprint()\r\n", "MZ\r\n", "", "#!" + "x" * 500 + "\r\n"]
)
def test_a_file_without_such_a_shebang_passes(content: str) -> None:
    files = {"plugin.json": plugin(), "mcp.json": mcp(a=OWN), "bin/server": content}
    assert codes(judge(MemoryTree.of(files))) == []


def test_a_command_whose_content_is_not_kept_has_no_shebang() -> None:
    whole = MemoryTree.of({"plugin.json": plugin(), "mcp.json": mcp(a=OWN), "bin/server": "ELF"})
    kept = {path: content for path, content in whole.contents.items() if formats.is_wanted(path)}
    assert codes(judge(MemoryTree(whole.nodes, kept))) == []


@pytest.mark.parametrize(("cwd", "good"), [("./work", True), ("${PLUGIN_ROOT}/none", False), ("./", True)])
def test_a_working_directory_must_hold_something(cwd: str, good: bool) -> None:
    files = {"plugin.json": plugin(), "mcp.json": mcp(a={**SERVER, "cwd": cwd}), "work/x": "y"}
    assert codes(judge(MemoryTree.of(files))) == ([] if good else ["cwd_missing"])


def test_an_empty_working_directory_is_refused_bundles_do_not_carry_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "plugin.json").write_text(plugin())
    (tmp_path / "mcp.json").write_text(mcp(a={**SERVER, "cwd": "./work"}))
    tree = DirectoryTree(tmp_path)
    assert codes(acceptance.examine(formats.read(tree), tree)) == ["cwd_missing"]


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT.replace("HERE", '"a":{},"a":{}'),
        DOCUMENT.replace("HERE", '"a":NaN'),
        DOCUMENT.replace("HERE", '"a":"\\ud800"'),
        DOCUMENT.replace("HERE", '"a":123456789012345678901234567890'),
        '{"x":' + "[" * 100 + "]" * 100 + "}",
        "\ufeff{}",
    ],
    ids=["duplicate", "nan", "surrogate", "integer", "deep", "bom"],
)
def test_a_document_that_readers_read_differently_is_refused_at_publish(document: str) -> None:
    """The format only disables the servers; the registry does not publish two plugins in one."""
    tree = MemoryTree.of({"plugin.json": plugin(), "mcp.json": document})
    assert formats.read(tree).ok
    found = judge(tree)
    assert [(f.code, f.file) for f in found.findings if f.severity is Severity.ERROR] == [
        ("document_ambiguous", "mcp.json")
    ]


def test_a_manifest_link_to_another_name_is_refused() -> None:
    skill = "---\nname: a\ndescription: x\n---\n"
    files = {"plugin.json": plugin(), "docs/a.md": skill, "docs/b/SKILL.md": skill.replace("a", "b", 1)}
    renamed = MemoryTree.of(files, links={"skills/a/SKILL.md": "../../docs/a.md"})
    assert formats.read(renamed).ok
    assert codes(judge(renamed)) == ["manifest_link"]
    same = MemoryTree.of({**files, "docs/a/SKILL.md": skill}, links={"skills/a": "../docs/a"})
    assert codes(judge(same)) == []


def test_every_finding_has_the_boundary_of_the_registry() -> None:
    files = {
        "plugin.json": plugin(name="con", version="1"),
        "mcp.json": mcp(a=OWN, b={**SERVER, "cwd": "./x"}),
    }
    found = judge(MemoryTree.of(files), "2")
    assert {f.boundary for f in found.findings} == {Boundary.REGISTRY}
    assert codes(found) == [
        "name_reserved",
        "version_invalid",
        "version_invalid",
        "version_mismatch",
        "command_missing",
        "cwd_missing",
    ]


def test_executables_are_the_commands_that_a_plugin_brings() -> None:
    tree = MemoryTree.of(
        {"plugin.json": plugin(), "mcp.json": mcp(a=OWN, b=SERVER, c={**OWN, "command": "./run.sh"})}
    )
    manifest = formats.read(tree).manifest
    assert manifest is not None
    assert acceptance.executables(manifest) == {"bin/server", "run.sh"}


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env.production",
        ".env.local",
        "id_rsa",
        "keys/id_ed25519",
        "server.pem",
        "tls/server.key",
        "x.p12",
        "x.PFX",
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".git-credentials",
        "credentials.json",
        ".aws/config",
        ".ssh/known_hosts",
        "service-account.json",
        "secrets.yaml",
    ],
)
def test_files_that_usually_hold_secrets_c15(path: str) -> None:
    """Field report C15."""
    assert acceptance.sensitive(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        ".env.sample",
        ".env.template",
        "env.py",
        "environment.env.md",
        "id_rsa.pub",
        "keyboard.js",
        "certifi/cacert.pem",
        "README.md",
        "credentials.md",
        "src/secrets.py",
    ],
)
def test_files_that_only_sound_like_it_pass(path: str) -> None:
    assert not acceptance.sensitive(path)


def test_client_and_registry_reach_the_same_verdict_on_a_folder_and_its_bundle(tmp_path: Path) -> None:
    """A folder is judged as packing makes it: what its bundle says, read as a stream, is the same."""
    files = {
        "plugin.json": plugin(hooks={}),
        "mcp.json": mcp(a=OWN, b={**SERVER, "cwd": "./work"}, c={"type": "stdio", "command": "./bin/other"}),
        "bin/server": "#!/bin/sh\r\n",
        "bin/other": "no shebang",
        "work/x": "y",
        "skills/a/SKILL.md": "---\nname: a\ndescription: x\nextra: y\n---\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    folder = DirectoryTree(tmp_path)
    reading = formats.read(folder)
    assert reading.manifest is not None
    packed = bundle.pack(folder, acceptance.executables(reading.manifest))
    kept = bundle.outline(io.BytesIO(packed.content), bundle.DEFAULT_LIMITS, formats.is_wanted)
    assert formats.read(kept) == reading
    found = acceptance.examine(reading, folder)
    assert codes(found) == ["shebang_cr"]
    assert acceptance.examine(formats.read(kept), kept, packed=True) == found
