"""dagstack manifests made to break or to hang their reader: each is a finding."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas import acceptance, formats
from plugreg_schemas.errors import MAX_FINDINGS
from plugreg_schemas.formats.dagstack import fields
from plugreg_schemas.tree import DirectoryTree, MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg_schemas.manifest import Reading

BASE = """[plugin]
schema_version = "1"
name = "echo"
kind = "tool"
kind_api_version = "1"
core_version = ">=0.2.0,<0.3.0"
runtime = "in_process"
entry_point = "plugin:Echo"
"""
MIB = 1024 * 1024
PATIENCE_S = 30
"""Seconds after which a document counts as one that hangs its reader; the worst takes about two."""


def read_toml(text: bytes) -> Reading:
    return formats.read(MemoryTree.of({"dagstack.toml": text, "plugin.py": ""}))


HOSTILE: dict[str, bytes] = {
    "a-key-of-200000-parts": b"a." * 200_000 + b"a = 1",
    "a-table-of-200000-parts": b"[" + b"a." * 200_000 + b"a]",
    "quoted-key-parts": b'"a".' * 200_000 + b"a = 1",
    "brackets": b"a = " + b"[" * (MIB - 8),
    "braces": b"a = " + b"{a = " * (MIB // 5 - 4),
    "deep-table": b"[plugin.metadata]\nx = " + b"[" * 70 + b"]" * 70,
    "huge-integer": b"a = " + b"9" * (MIB - 8),
    "huge-hexadecimal": b"a = 0x" + b"f" * (MIB - 8),
    "integer-over-2-53": BASE.encode() + b"priority = 9007199254740993",
    "not-finite": BASE.encode() + b"priority = nan",
    "one-long-word": b"a" * MIB,
    "unclosed-string": b'a = "' + b'\\"' * (MIB // 2 - 4),
    "unclosed-text": b'a = """' + b'\\"""' * (MIB // 4 - 4),
    "quotes": b"'" * MIB,
    "many-tables": b"".join(b"[a%d]\n" % number for number in range(90_000)),
    "many-keys-in-a-deep-table": b"["
    + b".".join([b"a"] * 16)
    + b"]\n"
    + b"".join(b"k%x = 1\n" % n for n in range(90_000)),
    "many-deep-keys": b"".join(b"a." * 15 + b"k%x = 1\n" % number for number in range(25_000)),
    "many-unknown-fields": BASE.encode() + b"".join(b"k%x = 1\n" % number for number in range(90_000)),
    "many-wrong-items": BASE.encode() + b"authors = [" + b"1," * (MIB // 2 - 200) + b"]",
    "duplicate-key": BASE.encode() + b'name = "other"\n',
    "duplicate-table": BASE.encode() + b"[plugin.resources]\n[plugin.resources]\n",
    "date": BASE.encode() + b"released = 1979-05-27T07:32:00Z\n",
    "impossible-date": BASE.encode() + b"released = 1979-02-30\n",
    "byte-order-mark": b"\xef\xbb\xbf" + BASE.encode(),
    "utf-16": BASE.encode("utf-16"),
    "utf-16-without-mark": BASE.encode("utf-16-le"),
    "latin-1": BASE.encode() + b'description = "\xe9"\n',
    "binary": bytes(range(256)) * 64,
    "nul": b"\0" * 1000,
    "carriage-returns": BASE.replace("\n", "\r").encode(),
    "ten-megabytes": b"#" * 10 * MIB,
    "one-byte-too-many": b"#" * (MIB + 1),
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_toml_is_a_finding(name: str) -> None:
    started = time.monotonic()
    reading = read_toml(HOSTILE[name])
    assert time.monotonic() - started < PATIENCE_S
    assert reading.format == "dagstack"
    assert not reading.ok
    assert reading.errors
    assert {f.code for f in reading.errors} <= {
        *("manifest_invalid", "toml_invalid", "toml_too_deep", "toml_number", "toml_date", "text_encoding")
    }
    assert len(reading.findings) <= MAX_FINDINGS + 1
    assert all(len(finding.message) < 400 for finding in reading.findings)
    json.dumps([finding.as_dict() for finding in reading.findings]).encode()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_package_metadata_announces_nothing(name: str) -> None:
    started = time.monotonic()
    reading = formats.read(MemoryTree.of({"pyproject.toml": HOSTILE[name]}))
    assert time.monotonic() - started < PATIENCE_S
    assert (reading.format, reading.ok) == (None, False)


@pytest.mark.parametrize(
    "content",
    [
        b'{"plugin": ' * 100_000,
        b"[" * MIB,
        b'{"name": 1, "name": 2}',
        b'{"priority": 1e999}',
        b'{"name": "\\ud800"}',
        b"\xff\xfe{}",
        b"",
        b"{" * 10,
        b"null",
    ],
    ids=["deep", "brackets", "twice", "huge", "surrogate", "utf-16", "empty", "unclosed", "null"],
)
def test_hostile_json_is_a_finding(content: bytes) -> None:
    reading = formats.read(MemoryTree.of({"dagstack.json": content}))
    assert reading.errors
    assert not reading.ok


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_a_manifest_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dagstack.toml")
    assert [f.code for f in formats.read(DirectoryTree(tmp_path)).findings] == ["manifest_invalid"]


VALUES: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], ["x"], [1], {}, {"x": 1}, [{}], [[]]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("field", [*fields.Fields.model_fields, "x-language", "x-plugreg", "x-own"])
def test_every_field_takes_any_value_without_falling(field: str, value: object) -> None:
    document = {
        "schema_version": "1",
        "name": "echo",
        "kind": "tool",
        "kind_api_version": "1",
        "core_version": ">=0.2",
        "runtime": ["in_process", "mcp_stdio", "mcp_http"],
        "entry_point": "plugin:Echo",
        "mcp_stdio": {"command": ["x"]},
        "mcp_http": {"url": "https://example.com/x"},
        field: value,
    }
    tree = MemoryTree.of({"dagstack.json": json.dumps(document), "plugin.py": ""})
    reading = formats.read(tree)
    assert bool(reading.errors) is not reading.ok
    acceptance.examine(reading, tree, "1.0.0")


@pytest.mark.parametrize("text", ["", "[plugin]", "plugin = 1", "[[plugin]]", "[plugin.x]", "[x]"])
def test_a_manifest_without_fields_is_a_finding(text: str) -> None:
    assert not read_toml(text.encode()).ok
