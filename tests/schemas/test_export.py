"""The published JSON Schemas: each has an address, leads nowhere but into itself, and judges what readers judge."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped] # it has no types of its own
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from plugreg_schemas import export, formats
from plugreg_schemas.documents import parse_yaml
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = sorted(path.name.removesuffix(".schema.json") for path in export.FOLDER.glob("*.schema.json"))


def published(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((export.FOLDER / f"{name}.schema.json").read_bytes())
    return schema


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        yield from (found for below in value.values() for found in references(below))
    elif isinstance(value, list):
        yield from (found for below in value for found in references(below))


def test_everything_that_is_published_is_there() -> None:
    assert sorted(export.NAMES) == NAMES
    assert {"runtime", "dagstack-plugin", "keel-plugin", "plugin-document"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_has_an_address_and_every_reference_resolves_inside_the_file(name: str) -> None:
    schema = published(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"{export.BASE}{name}.schema.json"
    registry: Registry[Any] = Registry().with_resource(schema["$id"], DRAFT202012.create_resource(schema))
    resolver = registry.resolver(base_uri=schema["$id"])
    for reference in references(schema):
        assert reference.startswith("#/")
        assert isinstance(resolver.lookup(reference).contents, dict)


def test_some_schemas_have_references_at_all() -> None:
    assert {name for name in NAMES if list(references(published(name)))} >= {"runtime", "dagstack-plugin"}


DAGSTACK = """[plugin]
schema_version = "1"
name = "echo"
kind = "tool"
kind_api_version = "1"
core_version = "^0.2"
runtime = ["in_process", "mcp_stdio", "mcp_http"]
entry_point = "plugin:Echo"
[plugin.mcp_stdio]
command = ["python", "-m", "echo"]
[plugin.mcp_http]
url = "https://echo.example/mcp"
"""
KEEL = 'id: acme.notes\nversion: "1.0.0"\nkind: webview\nentry: {command: ./run}\n'


@pytest.mark.parametrize(
    "files",
    [{"dagstack.toml": DAGSTACK, "plugin.py": ""}, {"plugin.yaml": KEEL, "ui/index.html": "", "run": ""}],
    ids=["dagstack", "keel"],
)
def test_every_runtime_that_is_read_is_one_of_the_published_union(files: dict[str, str]) -> None:
    manifest = formats.read(MemoryTree.of(files)).manifest
    assert manifest is not None
    judge = jsonschema.Draft202012Validator(published("runtime"))
    runtimes = [json.loads(r.model_dump_json()) for part in manifest.components for r in part.runtimes]
    assert len(runtimes) in {2, 3}
    for runtime in runtimes:
        judge.validate(runtime)
        assert not judge.is_valid(runtime | {"extra": 1})
        assert not judge.is_valid(runtime | {"runtime": "lambda"})


@pytest.mark.parametrize(
    ("name", "document", "wrong"),
    [
        (
            "dagstack-plugin",
            tomllib.loads(DAGSTACK),
            {"plugin": tomllib.loads(DAGSTACK)["plugin"] | {"foo": 1}},
        ),
        (
            "keel-plugin",
            parse_yaml(KEEL.encode()),
            {"id": "acme.notes", "version": "1.0.0", "kind": "in_process"},
        ),
    ],
)
def test_an_editor_sees_what_check_sees(name: str, document: object, wrong: object) -> None:
    judge = jsonschema.Draft202012Validator(published(name))
    assert judge.is_valid(document)
    assert not judge.is_valid(wrong)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dagstack.toml", f"#:schema {export.BASE}dagstack-plugin.schema.json\n{DAGSTACK}"),
        ("plugin.yaml", f"# yaml-language-server: $schema={export.BASE}keel-plugin.schema.json\n{KEEL}"),
    ],
)
def test_the_line_for_the_editor_changes_nothing_for_readers(file: str, text: str) -> None:
    files = {"plugin.py": "", "ui/index.html": "", "run": ""}
    plain = "\n".join(text.splitlines()[1:])
    assert formats.read(MemoryTree.of({file: text, **files})) == formats.read(
        MemoryTree.of({file: plain, **files})
    )
