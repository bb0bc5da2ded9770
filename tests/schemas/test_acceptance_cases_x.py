"""All formats by the same question: whatever file declares a plugin, the answer is of one shape (X1-X7, X10)."""

from __future__ import annotations

import json

import pytest

from plugreg_schemas import acceptance, formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.hosts import host_from
from plugreg_schemas.resolve import resolve
from plugreg_schemas.tree import MemoryTree

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
DAGSTACK = """[plugin]
schema_version = "1"
name = "echo"
version = "1.0.0"
kind = "tool"
kind_api_version = "1"
core_version = "^0.2"
runtime = ["in_process", "mcp_stdio"]
entry_point = "plugin:Echo"
[plugin.mcp_stdio]
command = ["python", "-m", "echo"]
"""
LOCAL = {"type": "stdio", "command": "node"}
FAR = {"type": "streamable-http", "url": "https://far.example/mcp"}


def agent(version: str = "1.0.0", *, tier: str = "", **servers: object) -> dict[str, str]:
    manifest = {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": "demo", "version": version}
    more = {"extensions": {"dev.plugreg": {"tier": tier}}} if tier else {}
    document = {"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers}
    return {"plugin.json": json.dumps(manifest | more), "mcp.json": json.dumps(document)}


KEEL = {
    "plugin.yaml": 'id: acme.notes\nversion: "1.0.0"\nkind: webview\nentry: {command: ./run}\n',
    "ui/index.html": "",
    "run": "#!/bin/sh\n",
}
FILES = {
    "dagstack": {"dagstack.toml": DAGSTACK, "plugin.py": ""},
    "agent-plugins": agent(a=LOCAL, b=FAR),
    "keel": KEEL,
}


def answer(files: dict[str, str], **words: str) -> dict[str, object]:
    manifest = formats.read(MemoryTree.of(files)).manifest
    assert manifest is not None
    found = resolve(Offer.of(manifest), host_from({key: [word] for key, word in words.items()})).as_dict()
    components = {
        one["id"]: one["runtime"] or [refusal["code"] for refusal in one["refusals"]]
        for one in found["components"]
    }
    return {"code": found.get("code", ""), **components}


@pytest.mark.parametrize(
    ("files", "words", "expected"),
    [
        pytest.param(FILES["dagstack"], {"language": "ts"}, {"code": "", "main": "mcp_stdio"}, id="X1"),
        pytest.param(
            FILES["agent-plugins"],
            {"language": "python", "supports": "mcp_http"},
            {"code": "", "a": ["runtime_not_supported"], "b": "mcp_http"},
            id="X2",
        ),
        pytest.param(
            agent(a=LOCAL),
            {"language": "python", "supports": "mcp_http"},
            {"code": "runtime_not_supported", "a": ["runtime_not_supported"]},
            id="X3",
        ),
        pytest.param(
            KEEL,
            {"language": "go", "supports": "webview"},
            {"code": "runtime_not_supported", "ui": ["backend_unavailable"], "backend": ["runtime_not_supported"]},
            id="X4",
        ),
    ],
)  # fmt: skip
def test_what_a_host_does_with_files(
    files: dict[str, str], words: dict[str, str], expected: dict[str, object]
) -> None:
    assert answer(files, **words) == expected


def test_x4_the_refusal_names_the_process() -> None:
    manifest = formats.read(MemoryTree.of(KEEL)).manifest
    assert manifest is not None
    ui, _ = resolve(
        Offer.of(manifest), host_from({"host": ["chatgpt"], "supports": ["webview,sidecar"]})
    ).components
    assert [refusal.code for refusal in ui.refusals] == ["webview_unavailable"]
    ui, _ = resolve(Offer.of(manifest), host_from({"language": ["go"], "supports": ["webview"]})).components
    assert "`backend`" in ui.refusals[0].reason


@pytest.mark.parametrize(
    "more", [FILES["dagstack"], KEEL, FILES["dagstack"] | KEEL], ids=["X5", "X5-keel", "X5-all"]
)
def test_x5_two_formats_are_a_conflict_that_names_every_file(more: dict[str, str]) -> None:
    reading = formats.read(MemoryTree.of(agent("2.0.0") | more))
    assert (reading.ok, reading.format) == (False, None)
    assert {finding.code for finding in reading.findings} == {"manifest_conflict"}
    announced = {"plugin.json", "dagstack.toml", "plugin.yaml"} & (agent().keys() | more.keys())
    assert {finding.file for finding in reading.findings} == announced


def test_x6_tier_a_over_http_is_refused_at_publish() -> None:
    tree = MemoryTree.of(agent(tier="A", far=FAR))
    found = acceptance.examine(formats.read(tree), tree)
    assert not found.publishable
    assert [finding.code for finding in found.findings] == ["transport_forbidden"]


def test_x7_an_unknown_key_means_what_its_format_says() -> None:
    dagstack = formats.read(
        MemoryTree.of({"dagstack.toml": DAGSTACK.replace("[plugin.", "hooks = 1\n[plugin.")})
    )
    manifest = json.loads(agent()["plugin.json"]) | {"hooks": 1}
    plugin = formats.read(MemoryTree.of({"plugin.json": json.dumps(manifest)}))
    assert (dagstack.ok, plugin.ok) == (False, True)
    assert "manifest_invalid" in {finding.code for finding in dagstack.findings}
    assert [finding.code for finding in plugin.findings] == ["unknown_field_ignored"]


@pytest.mark.parametrize("format_", FILES)
def test_x10_the_same_files_and_the_same_host_have_the_same_bytes(format_: str) -> None:
    words = {"host": ["cascade-ide"], "supports": ["mcp_http,mcp_stdio,webview"], "kind": ["b,a,tool"]}

    def ask(files: dict[str, str]) -> bytes:
        manifest = formats.read(MemoryTree.of(files)).manifest
        assert manifest is not None
        return json.dumps(resolve(Offer.of(manifest), host_from(words)).as_dict()).encode()

    files = FILES[format_]
    assert {ask(files) for _ in range(5)} == {ask(dict(reversed(files.items())))}
