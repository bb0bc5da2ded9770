"""Real, public plugin packages and the official schemas as oracles for the Agent Plugins reader.

Neither is part of the repository. `PLUGREG_CORPUS` names the folder of the packages; the schemas lie in `formats` beside
it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg_schemas import formats
from plugreg_schemas.tree import DirectoryTree, MemoryTree

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / os.environ.get("PLUGREG_CORPUS", "../shared/corpus")


SCHEMAS = CORPUS.parent / "formats"
NEEDS_SCHEMAS = pytest.mark.skipif(
    not (SCHEMAS / "agent-plugins-1.0.0.plugin.schema.json").is_file(),
    reason=f"no official schemas in {SCHEMAS}: set PLUGREG_CORPUS",
)
IDS = "https://agent-plugins.org/schemas/1.0.0/"
PLUGIN = json.dumps({"$schema": IDS + "plugin.schema.json", "name": "demo"})


def rows() -> list[Any]:
    file = CORPUS / "expected.jsonl"
    if not file.is_file():
        reason = f"no corpus of real packages at {CORPUS}: set PLUGREG_CORPUS"
        return [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=reason))]
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [pytest.param(row, id=f"{row['format']}-{row['id']}") for row in found]


@pytest.mark.parametrize("row", rows())
def test_verdicts_of_real_packages(row: dict[str, Any]) -> None:
    reading = formats.read(DirectoryTree(CORPUS / row["format"] / row["id"]))
    expected = row.get("expected")
    if expected is None:
        assert not reading.ok
        return
    assert reading.ok is expected["plugin"]["verdict"].startswith("accept")
    if expected["mcp"]["verdict"] != "unknown":
        servers = {
            name: "load" if server["verdict"] == "load" else "skip"
            for name, server in expected["mcp"].get("servers", {}).items()
        }
        assert {server.name: server.verdict for server in reading.servers} == servers
    skills = {name: skill["verdict"] for name, skill in expected["skills"].items()}
    listed = {name: verdict for name, verdict in skills.items() if verdict != "not-read"}
    assert {skill.name: skill.verdict for skill in reading.skills} == listed


@pytest.mark.parametrize("row", rows())
def test_a_refusal_of_a_near_miss_says_what_the_folder_is(row: dict[str, Any]) -> None:
    if not row["format"].startswith("near-miss"):
        return
    reading = formats.read(DirectoryTree(CORPUS / row["format"] / row["id"]))
    assert {f.code for f in reading.errors} & {"manifest_missing", "manifest_invalid", "schema_unsupported"}
    assert all(len(f.message) > len("there is no `plugin.json`") for f in reading.errors)


def is_valid(schema: str, value: object) -> bool:
    import jsonschema  # type: ignore[import-untyped]

    document = json.loads((SCHEMAS / f"agent-plugins-1.0.0.{schema}.schema.json").read_text())
    return bool(jsonschema.Draft202012Validator(document).is_valid(value))


texts = st.sampled_from(
    ["", "a", "My-Plugin", "a--b", "a..b", "demo", "x" * 65, "-a", "a.b-c", "./", "./x", "../x"]
)
junk = texts | st.none() | st.integers(0, 1) | st.lists(texts | st.integers(0, 1), max_size=2)
objects = st.dictionaries(
    st.sampled_from(["name", "email", "url", "com.x", "PLUGIN_ROOT", "A"]), junk, max_size=2
)
manifests = st.fixed_dictionaries(
    {"$schema": st.just(IDS + "plugin.schema.json") | texts, "name": texts},
    optional={
        "version": junk,
        "author": objects | junk,
        "keywords": junk,
        "license": junk,
        "extensions": st.dictionaries(texts, objects | junk, max_size=2),
    },
)
servers = st.fixed_dictionaries(
    {"type": st.sampled_from(["stdio", "streamable-http", "sse", "http"])},
    optional={
        "command": junk,
        "args": junk,
        "env": objects | junk,
        "cwd": st.sampled_from(["./", "./x", "x", "${PLUGIN_ROOT}", "${PLUGIN_DATA}/x", "${PLUGIN_ROOT}x"])
        | junk,
        "url": st.just("https://example.com/") | junk,
        "headers": objects | junk,
        "timeout": junk,
    },
)


@NEEDS_SCHEMAS
@given(manifests)
def test_a_manifest_loads_exactly_where_the_schema_takes_it(manifest: dict[str, object]) -> None:
    reading = formats.read(MemoryTree.of({"plugin.json": json.dumps(manifest)}))
    assert reading.ok is is_valid("plugin", manifest)


@NEEDS_SCHEMAS
@given(servers)
def test_a_server_that_loads_is_one_that_the_schema_takes(server: dict[str, object]) -> None:
    """The text demands more than the schema, of commands, directories, URLs and headers, and never less."""
    document = {"$schema": IDS + "mcp.schema.json", "mcpServers": {"a": server}}
    reading = formats.read(MemoryTree.of({"plugin.json": PLUGIN, "mcp.json": json.dumps(document)}))
    assert reading.servers[0].verdict == "skip" or is_valid("mcp", document)
