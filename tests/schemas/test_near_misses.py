"""What people publish by mistake is recognised, never accepted, and told how to go on."""

from __future__ import annotations

import doctest
import json
import os
from pathlib import Path
from typing import Any

import pytest

from plugreg_schemas import acceptance, formats, launchers
from plugreg_schemas.errors import Severity
from plugreg_schemas.formats import near_miss
from plugreg_schemas.launchers import unpinned, variables_passed_by_name
from plugreg_schemas.tree import DirectoryTree, MemoryTree

ROOT = Path(__file__).parents[2]
CORPUS = (ROOT / os.environ.get("PLUGREG_CORPUS", "../shared/corpus")).resolve()
KINDS = {
    "near-miss-claude-plugin": {"claude-plugin"},
    "near-miss-codex-plugin": {"codex-plugin"},
    "near-miss-cursor-plugin": {"cursor-plugin"},
    "near-miss-gemini-extension": {"gemini-extension"},
    "near-miss-marketplace": {"marketplace"},
    "near-miss-mcp-config": {"client-config"},
    "near-miss-mcp-registry-server": {"mcp-registry"},
    "near-miss-mcpb": {"mcpb"},
    "near-miss-root-mcp-json": {"mcp-json"},
    "near-miss-root-plugin-json": {"plugin-json"},
}


def corpus() -> list[Any]:
    folders = sorted(CORPUS.glob("near-miss-*/*"))
    if not folders:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no corpus at {CORPUS}"))]
    return [pytest.param(folder, id=folder.name) for folder in folders]


@pytest.mark.parametrize("folder", corpus())
def test_every_near_miss_of_the_corpus_is_recognised_and_none_is_accepted(folder: Path) -> None:
    tree = DirectoryTree(folder)
    found = near_miss.recognise(tree)
    assert found is not None
    assert found.kind in KINDS[folder.parent.name]
    reading = formats.read(tree)
    assert not reading.ok
    assert "`plugreg convert`" in " ".join(f.message for f in reading.errors)


@pytest.mark.parametrize(
    ("file", "content", "kind"),
    [
        (".claude-plugin/plugin.json", {"name": "x"}, "claude-plugin"),
        (".codex-plugin/plugin.json", {"name": "x"}, "codex-plugin"),
        (".cursor-plugin/plugin.json", {"name": "x"}, "cursor-plugin"),
        ("gemini-extension.json", {"name": "x", "version": "1.0.0"}, "gemini-extension"),
        ("plugin.json", {"name": "x"}, "plugin-json"),
        ("manifest.json", {"manifest_version": "0.3", "name": "x", "server": {"type": "node"}}, "mcpb"),
        ("manifest.json", {"dxt_version": "0.1", "name": "x", "server": {"type": "node"}}, "mcpb"),
        ("server.json", {"name": "io.github.x/y", "packages": []}, "mcp-registry"),
        ("mcp.json", {"name": "io.github.x/y", "remotes": []}, "mcp-registry"),
        ("marketplace.json", {"name": "x", "plugins": []}, "marketplace"),
        (".claude-plugin/marketplace.json", {"name": "x", "plugins": []}, "marketplace"),
        (".agents/plugins/marketplace.json", {"name": "x", "plugins": []}, "marketplace"),
        (".mcp.json", {"mcpServers": {}}, "client-config"),
        (".vscode/mcp.json", {"servers": {}}, "client-config"),
        (".cursor/mcp.json", {"mcpServers": {}}, "client-config"),
        (".gemini/settings.json", {"mcpServers": {"a": {"command": "x"}}}, "client-config"),
        ("claude_desktop_config.json", {"mcpServers": {}}, "client-config"),
        ("mcp.json", {"servers": {}}, "client-config"),
        ("mcp.json", {"mcpServers": {}}, "mcp-json"),
        ("SKILL.md", "---\nname: x\n", "skill"),
        ("manifest.json", {"manifest_version": 3, "name": "a browser extension"}, None),
        ("manifest.json", {"name": "a web application", "icons": []}, None),
        ("server.json", {"port": 8080}, None),
        (".gemini/settings.json", {"theme": "dark"}, None),
        ("README.md", "x", None),
    ],
)
def test_a_file_is_judged_by_its_name_and_its_shape(file: str, content: object, kind: str | None) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    found = near_miss.recognise(MemoryTree.of({file: text}))
    assert (found.kind if found else None) == kind


@pytest.mark.parametrize("content", ["{", "[]", "", "\x00", '{"a":1,"a":2}'])
@pytest.mark.parametrize("file", sorted(near_miss.FILES))
def test_a_broken_file_is_a_finding(file: str, content: str) -> None:
    reading = formats.read(MemoryTree.of({file: content}))
    assert not reading.ok
    assert reading.findings


def test_a_stream_recognises_the_same() -> None:
    for file in sorted(near_miss.FILES):
        assert formats.is_wanted(file)


@pytest.mark.parametrize("module", [launchers], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_run(module: Any) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("npx tool", True),
        ("npx -y tool@latest", True),
        ("npx -y tool@^1.0.0", True),
        ("npx -y tool@1", True),
        ("npx -y @scope/tool", True),
        ("npx -y @scope/tool@1.2.3", False),
        ("npx -y tool@1.2.3-beta.1", False),
        ("npx -y -p tool@1.2.3 other", False),
        ("npx --package=tool other", True),
        ("npx ./local", False),
        ("npx -y github:acme/tool", True),
        ("npx -y github:acme/tool#v1.0.0", False),
        ("npm exec -- tool", True),
        ("npm run start", False),
        ("pnpm dlx tool@1.0.0", False),
        ("uvx tool", True),
        ("uvx tool==1.0", False),
        ("uvx tool@1.0.2", False),
        ("uvx tool>=1.0", True),
        ("uvx tool[extra]==1.0", False),
        ("uvx --python 3.12 tool", True),
        ("uvx --from tool==1.0 run", False),
        ("uvx --from git+https://host.example/a/b run", True),
        ("uvx --from git+https://host.example/a/b@v1 run", False),
        ("uv tool run tool", True),
        ("uv run server.py", False),
        ("pipx run tool==1.0.0", False),
        ("docker run -i --rm acme/tool", True),
        ("docker run -i --rm acme/tool:latest", True),
        ("docker run -i --rm -e A -v /a:/b host.example:5000/acme/tool:1.2", False),
        ("docker run -i host.example:5000/acme/tool", True),
        ("docker run --network=none acme/tool@sha256:00ff", False),
        ("docker compose up", False),
        ("dnx tool@1.2.3 --yes", False),
        ("dnx tool --yes", True),
        ("python3 server.py", False),
        ("npx", False),
        ("", False),
    ],
)
def test_which_commands_start_whatever_is_newest(words: str, expected: bool) -> None:
    assert unpinned(words.split()) is expected


def test_which_variables_a_container_gets_by_name() -> None:
    words = ["podman", "run", "-e", "A", "--env", "B=1", "--env=C", "-e", "D", "image:1"]
    assert variables_passed_by_name(words) == ("A", "C", "D")
    assert variables_passed_by_name(["npx", "-e", "A"]) == ()


def test_what_will_happen_is_said_with_its_place() -> None:
    servers = {
        "a": {"type": "stdio", "command": "npx", "args": ["-y", "tool"]},
        "b": {
            "type": "stdio",
            "command": "docker",
            "args": ["run", "-e", "TOKEN", "-e", "MODE", "acme/tool:1.0"],
            "env": {"MODE": "x"},
        },
        "c": {"type": "stdio", "command": "python3", "env": {"X": "${X}", "API_KEY": "abcdef"}},
    }
    schemas = "https://agent-plugins.org/schemas/1.0.0"
    plugin = {"$schema": f"{schemas}/plugin.schema.json", "name": "demo", "version": "1.0.0"}
    mcp = {"$schema": f"{schemas}/mcp.schema.json", "mcpServers": servers}
    tree = MemoryTree.of({"plugin.json": json.dumps(plugin), "mcp.json": json.dumps(mcp)})
    reading = formats.read(tree)
    found = acceptance.examine(reading, tree)
    assert found.publishable
    said = [(f.code, f.pointer) for f in (*reading.findings, *found.findings)]
    assert said == [
        ("env_literal", "/mcpServers/c/env/X"),
        ("credential_literal", "/mcpServers/c/env/API_KEY"),
        ("launcher_unpinned", "/mcpServers/a/command"),
        ("container_env_unset", "/mcpServers/b/command"),
    ]
    assert all(f.severity is Severity.WARNING for f in found.findings)
    assert not any("abcdef" in f.message for f in (*reading.findings, *found.findings))
