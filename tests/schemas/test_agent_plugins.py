"""The Agent Plugins reader: every file in `tests/cases/agent_plugins` is one case, read from memory and from disk."""

from __future__ import annotations

import doctest
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas import acceptance, formats
from plugreg_schemas.errors import MAX_FINDINGS, Boundary, Severity
from plugreg_schemas.formats import entry, stdio
from plugreg_schemas.tree import DirectoryTree, MemoryTree

if TYPE_CHECKING:
    from types import ModuleType

    from plugreg_schemas.manifest import Reading
    from plugreg_schemas.tree import Tree

CASES = sorted((Path(__file__).parents[1] / "cases" / "agent_plugins").glob("*.json"))
PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
MCP_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
PLUGIN = json.dumps({"$schema": PLUGIN_SCHEMA, "name": "demo"})


def texts_of(case: dict[str, Any]) -> dict[str, str]:
    return {
        path: content if isinstance(content, str) else json.dumps(content)
        for path, content in case["files"].items()
    }


def on_disk(root: Path, files: dict[str, str], links: dict[str, str]) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    return DirectoryTree(root)


def with_servers(servers: object) -> Reading:
    document = json.dumps({"$schema": MCP_SCHEMA, "mcpServers": servers})
    return formats.read(MemoryTree.of({"plugin.json": PLUGIN, "mcp.json": document}))


def check_runtimes(reading: Reading, expected: dict[str, dict[str, Any]]) -> None:
    assert reading.manifest is not None
    runtimes = {c.id: json.loads(c.runtimes[0].model_dump_json()) for c in reading.manifest.components}
    for server, fields in expected.items():
        assert {key: runtimes[server][key] for key in fields} == fields


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, tmp_path: Path) -> None:
    case = json.loads(path.read_text())
    files, links = texts_of(case), case.get("links", {})
    expected = case["expected"]
    reading = formats.read(MemoryTree.of(files, links=links))
    assert reading.ok is expected["ok"]
    assert {server.name: server.verdict for server in reading.servers} == expected["servers"]
    assert {skill.name: skill.verdict for skill in reading.skills} == expected["skills"]
    assert sorted({finding.code for finding in reading.findings}) == expected["codes"], reading.findings
    if "reason" in expected:
        reasons = {f.message.partition(":")[0] for f in reading.findings if f.code == "mcp_disabled"}
        assert reasons == {expected["reason"]}
    if "invalid" in expected:
        invalid = {f.pointer.split("/")[2] for f in reading.findings if f.code == "server_invalid"}
        assert len(invalid) == expected["invalid"]
    if "pointers" in expected:
        assert sorted(finding.pointer for finding in reading.findings) == expected["pointers"]
    if "runtimes" in expected:
        check_runtimes(reading, expected["runtimes"])
    assert formats.read(on_disk(tmp_path, files, links)) == reading


@pytest.mark.parametrize("number", range(1, 32))
def test_every_case_of_the_format_has_a_file(number: int) -> None:
    """C1 to C31 and T18 are there."""
    assert any(path.stem.startswith(f"c{number:02}-") for path in CASES)
    assert any(path.stem.startswith("t18-") for path in CASES)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_boundaries_a_rejected_plugin_has_an_error_that_says_so(path: Path) -> None:
    case = json.loads(path.read_text())
    reading = formats.read(MemoryTree.of(texts_of(case), links=case.get("links", {})))
    assert bool(reading.errors) is not reading.ok
    for finding in reading.findings:
        if finding.code in {"server_invalid", "skill_invalid", "env_literal"}:
            assert finding.boundary is Boundary.ENTRY
        if finding.code in {"mcp_disabled", "component_invalid"}:
            assert finding.boundary is Boundary.COMPONENT
        if finding.code in {"unknown_field_ignored", "extensions_ignored", "env_literal"}:
            assert finding.severity is Severity.WARNING
        assert "!" not in finding.message


def test_all_faults_of_a_manifest_are_reported_with_pointers_c9() -> None:
    manifest = {
        "$schema": PLUGIN_SCHEMA,
        "name": "Bad--Name",
        "version": 18,
        "author": {"email": 42, "handle": "x"},
        "keywords": "release",
        "extensions": {"com.x": 1},
        "hooks": {},
    }
    reading = formats.read(MemoryTree.of({"plugin.json": json.dumps(manifest)}))
    assert [(f.code, f.pointer) for f in reading.findings] == [
        ("manifest_invalid", "/name"),
        ("manifest_invalid", "/version"),
        ("manifest_invalid", "/author/email"),
        ("manifest_invalid", "/author/handle"),
        ("manifest_invalid", "/keywords"),
        ("manifest_invalid", "/extensions/com.x"),
        ("unknown_field_ignored", "/hooks"),
    ]


def test_messages_name_keys_and_never_values() -> None:
    secret = "s3cr3t-value"
    reading = with_servers(
        {
            "a": {"type": "stdio", "command": f"x {secret}", "env": {"TOKEN": secret}, "cwd": secret},
            "b": {
                "type": "streamable-http",
                "url": f"https://u:{secret}@h/",
                "headers": {"X": f"{secret}\n"},
            },
            "c": {"type": secret},
            "d": {"type": "stdio", "command": "x", "args": secret, "env": {"PASSWORD": secret}},
        }
    )
    assert reading.findings
    assert not [finding for finding in reading.findings if secret in finding.message + finding.pointer]


def test_the_normal_form_of_a_manifest() -> None:
    manifest = {
        "$schema": PLUGIN_SCHEMA,
        "name": "acme.tools",
        "version": "1.2.3",
        "description": "Tools.",
        "author": {"name": "A. Uthor", "email": "a@example.com", "url": "https://example.com"},
        "license": "MIT",
        "keywords": ["a", "b"],
    }
    servers = {
        "local": {"type": "stdio", "command": "uvx", "args": ["tool"]},
        "own": {"type": "stdio", "command": "./bin/x"},
        "far": {"type": "streamable-http", "url": "https://h/", "headers": {"X-A": "1"}},
    }
    document = json.dumps({"$schema": MCP_SCHEMA, "mcpServers": servers})
    found = formats.read(MemoryTree.of({"plugin.json": json.dumps(manifest), "mcp.json": document})).manifest
    assert found is not None
    assert (found.format, found.name, found.version, found.license) == (
        "agent-plugins",
        "acme.tools",
        "1.2.3",
        "MIT",
    )
    assert found.authors == ("A. Uthor <a@example.com>",)
    assert found.keywords == ("a", "b")
    assert [component.id for component in found.components] == ["local", "own", "far"]
    assert found.launchers == ("uvx",)


def test_more_faults_than_are_kept_still_reject_the_plugin() -> None:
    manifest = {f"x{n}": 1 for n in range(3 * MAX_FINDINGS)} | {"$schema": PLUGIN_SCHEMA, "name": "Bad"}
    reading = formats.read(MemoryTree.of({"plugin.json": json.dumps(manifest)}))
    assert not reading.ok
    assert reading.errors[0].pointer == "/name"
    assert len(reading.findings) == MAX_FINDINGS + 1
    assert reading.findings[-1].code == "findings_not_shown"


def test_more_warnings_than_are_kept_do_not_reject_the_plugin() -> None:
    manifest = {"$schema": PLUGIN_SCHEMA, "name": "demo"} | {f"x{n}": 1 for n in range(3 * MAX_FINDINGS)}
    assert formats.read(MemoryTree.of({"plugin.json": json.dumps(manifest)})).ok


def test_more_faults_than_are_kept_still_skip_the_right_servers() -> None:
    reading = with_servers(
        {f"s{n}": {} for n in range(3 * MAX_FINDINGS)} | {"good": {"type": "stdio", "command": "x"}}
    )
    assert [server.name for server in reading.servers if server.verdict == "load"] == ["good"]


def test_a_manifest_over_a_mebibyte_is_refused_without_reading_it_all() -> None:
    reading = formats.read(MemoryTree.of({"plugin.json": PLUGIN + " " * (1 << 20)}))
    assert [finding.code for finding in reading.findings] == ["manifest_invalid"]
    assert "larger than" in reading.findings[0].message


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root can read every file")
def test_a_file_without_read_permission_is_a_finding(tmp_path: Path) -> None:
    tree = on_disk(tmp_path, {"plugin.json": PLUGIN}, {})
    (tmp_path / "plugin.json").chmod(0)
    assert [finding.code for finding in formats.read(tree).findings] == ["manifest_invalid"]


def test_a_folder_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    assert [f.code for f in formats.read(DirectoryTree(tmp_path / "none")).findings] == ["manifest_missing"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_a_manifest_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plugin.json")
    assert [f.code for f in formats.read(DirectoryTree(tmp_path)).findings] == ["manifest_invalid"]


def test_a_command_longer_than_file_names_can_be_is_only_missing(tmp_path: Path) -> None:
    servers = {"a": {"type": "stdio", "command": "./" + "x" * 5000}}
    document = json.dumps({"$schema": MCP_SCHEMA, "mcpServers": servers})
    reading = formats.read(on_disk(tmp_path, {"plugin.json": PLUGIN, "mcp.json": document}, {}))
    assert [server.verdict for server in reading.servers] == ["load"]


def test_misplaced_manifest_c13_of_the_field_reports() -> None:
    reading = formats.read(MemoryTree.of({"demo-1.0.0/plugin.json": PLUGIN, "demo-1.0.0/bin/x": ""}))
    assert [f.message for f in reading.findings] == [
        "plugin.json is at demo-1.0.0/plugin.json, expected at the root"
    ]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("plugin.json", True),
        ("mcp.json", True),
        ("skills/a/SKILL.md", True),
        ("shared/a/SKILL.md", True),
        ("dagstack.toml", True),
        ("plugin.yaml", True),
        ("pyproject.toml", True),
        ("package.json", True),
        ("node_modules/x/package.json", False),
        ("bin/server", False),
        ("skills/a/reference.md", False),
    ],
)
def test_which_files_are_kept_of_a_stream(path: str, wanted: bool) -> None:
    assert formats.is_wanted(path) is wanted


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_stream_that_keeps_only_wanted_files_reads_the_same(path: Path) -> None:
    case = json.loads(path.read_text())
    whole = MemoryTree.of(texts_of(case), links=case.get("links", {}))
    kept = {name: content for name, content in whole.contents.items() if formats.is_wanted(name)}
    assert formats.read(MemoryTree(whole.nodes, kept)) == formats.read(whole)


@pytest.mark.parametrize("module", [entry, stdio, acceptance], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
