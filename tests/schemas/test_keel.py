"""Keel's `plugin.yaml`: cases D1-D10, and YAML of every hostile kind."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped] # it has no types of its own
import pytest

from plugreg.check import check
from plugreg_schemas import acceptance, bundle, export, formats
from plugreg_schemas.documents import parse_yaml
from plugreg_schemas.errors import Boundary, Conflict, InvalidInput, Severity
from plugreg_schemas.tree import DirectoryTree, MemoryTree

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES = sorted((Path(__file__).parents[1] / "cases" / "keel").glob("*.json"))
GOLDENS = Path(__file__).parents[1] / "goldens" / "keel"
HEAD = 'id: acme.notes\nversion: "1.0.0"\n'
SIDECAR = HEAD + "kind: sidecar\nentry: {command: ./run}\n"


def codes(findings: Any) -> list[str]:
    return sorted({finding.code for finding in findings})


def yaml(text: str | bytes, **files: str) -> MemoryTree:
    return MemoryTree.of({"plugin.yaml": text, **files})


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = json.loads(path.read_text())
    expected = case["expected"]
    reading = formats.read(MemoryTree.of(case["files"], links=case.get("links", {})))
    assert reading.format == "keel"
    assert reading.ok is expected["ok"], reading.findings
    assert codes(reading.findings) == expected["codes"], reading.findings
    if "pointers" in expected:
        assert sorted(f.pointer for f in reading.findings) == expected["pointers"], reading.findings
    if "components" in expected:
        assert reading.manifest is not None
        found = {
            component.id: [json.loads(runtime.model_dump_json()) for runtime in component.runtimes]
            for component in reading.manifest.components
        }
        assert found.keys() == expected["components"].keys()
        for name, runtimes in expected["components"].items():
            for runtime, fields in zip(found[name], runtimes, strict=True):
                assert {key: runtime[key] for key in fields} == fields


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_stream_that_keeps_only_wanted_files_reads_the_same(path: Path) -> None:
    case = json.loads(path.read_text())
    whole = MemoryTree.of(case["files"], links=case.get("links", {}))
    kept = {name: content for name, content in whole.contents.items() if formats.is_wanted(name)}
    assert formats.read(MemoryTree(whole.nodes, kept)) == formats.read(whole)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_an_editor_never_objects_to_what_the_reader_takes(path: Path) -> None:
    case = json.loads(path.read_text())
    schema = json.loads((export.FOLDER / "keel-plugin.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"{export.BASE}keel-plugin.schema.json"
    try:
        value = parse_yaml(case["files"]["plugin.yaml"].encode())
    except InvalidInput:
        return
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert valid or not case["expected"]["ok"] or "tier_invalid" in case["expected"]["codes"]
    needs_files_or_names = ("d07", "d09", "command", "version-not", "sidecar-environment-", "hostile-date")
    if not case["expected"]["ok"] and not path.stem.startswith(needs_files_or_names):
        assert not valid


def test_the_fields_of_a_manifest_reach_the_normal_form() -> None:
    text = SIDECAR + "description: Notes.\nlicense: MIT\nhomepage: https://a.example\nauthors: [Ada]\n"
    manifest = formats.read(yaml(text, run="")).manifest
    assert manifest is not None
    assert (manifest.name, manifest.version, manifest.runtime_kind) == ("acme.notes", "1.0.0", "sidecar")
    assert (manifest.description, manifest.license, manifest.authors) == ("Notes.", "MIT", ("Ada",))


def test_d3_an_in_process_plugin_is_valid_and_cannot_be_published() -> None:
    tree = yaml(HEAD + "kind: in-process\n")
    found = acceptance.examine(formats.read(tree), tree)
    assert (found.loads, found.publishable, codes(found.findings)) == (True, False, ["kind_not_published"])


def test_d6_the_spelling_of_the_kind_is_named() -> None:
    findings = formats.read(yaml(HEAD + "kind: in_process\n")).findings
    assert "`in-process`" in findings[0].message


@pytest.mark.parametrize("now", ["webview", "in-process", ""])
def test_d10_a_kind_never_changes(now: str) -> None:
    with pytest.raises(Conflict) as raised:
        formats.check_kind("acme.notes", "sidecar", now)
    assert raised.value.code == "kind_immutable"
    assert "another name" in raised.value.hint


@pytest.mark.parametrize(("before", "now"), [("sidecar", "sidecar"), ("", "sidecar"), ("", "")])
def test_d10_the_same_kind_is_no_change(before: str, now: str) -> None:
    formats.check_kind("acme.notes", before, now)


def test_a_missing_command_is_for_the_registry_to_refuse() -> None:
    tree = yaml(SIDECAR)
    found = acceptance.examine(formats.read(tree), tree)
    (finding,) = [f for f in found.findings if f.severity is Severity.ERROR]
    assert (finding.code, finding.file, finding.pointer) == (
        "command_missing",
        "plugin.yaml",
        "/entry/command",
    )
    assert finding.boundary is Boundary.REGISTRY


def test_the_command_is_packed_as_executable(tmp_path: Path) -> None:
    (tmp_path / "plugin.yaml").write_text(SIDECAR)
    (tmp_path / "run").write_text("binary")
    reading = formats.read(DirectoryTree(tmp_path))
    assert reading.manifest is not None
    packed = bundle.pack(DirectoryTree(tmp_path), acceptance.executables(reading.manifest))
    tree = bundle.outline(io.BytesIO(packed.content), bundle.DEFAULT_LIMITS, formats.is_wanted)
    assert acceptance.examine(formats.read(tree), tree, packed=True).publishable


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (SIDECAR.encode("utf-16"), "text_encoding"),
        (b"\xef\xbb\xbf" + SIDECAR.encode(), "text_encoding"),
        (b"kind: \xff\xfe\n", "text_encoding"),
        (bytes(range(256)) * 8, "text_encoding"),
        (b"kind: sidecar\x00\n", "yaml_invalid"),
        (b"kind: sidecar\n" + b"a: b\n" * 2_000_000, "manifest_invalid"),
        (b"kind: sidecar\n" + b"? [a, b]\n: c\n", "yaml_invalid"),
        (b"kind: " + b"9" * 5000 + b"\n", "manifest_invalid"),
    ],
    ids=[
        "utf-16",
        "byte-order-mark",
        "no-utf-8",
        "binary",
        "nul",
        "10-MB",
        "key-that-is-a-list",
        "huge-number",
    ],
)
def test_hostile_bytes_are_findings(document: bytes, code: str) -> None:
    reading = formats.read(yaml(document))
    assert not reading.ok
    assert code in codes(reading.findings)


def test_a_yaml_that_cannot_be_judged_beside_a_plugin_is_a_conflict() -> None:
    plugin = '{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "demo"}'
    for document in ("kind: [", "kind: sidecar", "#" * 100_000):
        assert codes(formats.read(yaml(document, **{"plugin.json": plugin})).findings) == [
            "manifest_conflict"
        ]
    assert formats.read(yaml("apiVersion: v2", **{"plugin.json": plugin})).format == "agent-plugins"


@pytest.mark.parametrize("name", ["plugin.yaml", "ui"])
def test_a_folder_in_the_place_of_a_file_is_a_finding(name: str) -> None:
    tree = MemoryTree.of({f"{name}/x": "", "plugin.yaml" if name == "ui" else "y": HEAD + "kind: webview\n"})
    assert not formats.read(tree).ok


GOOD = {
    "plugin.yaml": HEAD
    + "kind: webview\nentry: {command: ./backend, env: [API_URL]}\nprovides: {tools: [list]}\n",
    "ui/index.html": "<!doctype html>\n",
    "backend": "#!/usr/bin/env python3\n",
}
BAD = {"plugin.yaml": "id: Acme\nkind: in_process\nentry: {command: ./run}\nversion: 1.0\ncolour: red\n"}


@pytest.mark.parametrize(("name", "files"), [("good", GOOD), ("bad", BAD)])
def test_what_check_prints(name: str, files: Mapping[str, str], tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    printed = json.dumps(check(tmp_path).as_dict(), indent=2) + "\n"
    assert printed == (GOLDENS / f"{name}.json").read_text()
