"""The dagstack reader: every file in `tests/cases/dagstack` is one case, read from memory, from disk and from a bundle."""

from __future__ import annotations

import doctest
import io
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.check import check
from plugreg_schemas import acceptance, bundle, formats
from plugreg_schemas.errors import Boundary, Severity
from plugreg_schemas.formats import dagstack
from plugreg_schemas.formats.dagstack import entry_points, fields, hookspecs, schema_shape
from plugreg_schemas.tree import DirectoryTree, MemoryTree

if TYPE_CHECKING:
    from types import ModuleType

    from plugreg_schemas.manifest import Manifest, Reading
    from plugreg_schemas.tree import Tree

CASES = sorted((Path(__file__).parents[1] / "cases" / "dagstack").glob("*.json"))
GOLDENS = Path(__file__).parents[1] / "goldens" / "check"
BASE = """[plugin]
schema_version = "1"
name = "echo"
kind = "tool"
kind_api_version = "1"
core_version = ">=0.2.0,<0.3.0"
runtime = "in_process"
entry_point = "plugin:Echo"
"""


def read_toml(text: str | bytes) -> Reading:
    return formats.read(MemoryTree.of({"dagstack.toml": text, "plugin.py": ""}))


def manifest_of(reading: Reading) -> Manifest:
    assert reading.manifest is not None, reading.findings
    return reading.manifest


def on_disk(root: Path, files: dict[str, str], links: dict[str, str]) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    for path, target in links.items():
        (root / path).symlink_to(target)
    return DirectoryTree(root)


def check_manifest(manifest: Manifest, expected: dict[str, Any]) -> None:
    (component,) = manifest.components
    assert component.id == "main"
    runtimes = [json.loads(runtime.model_dump_json()) for runtime in component.runtimes]
    for runtime, wanted in zip(runtimes, expected.get("runtimes", runtimes), strict=True):
        assert {key: runtime[key] for key in wanted} == wanted
    for key, value in expected.get("details", {}).items():
        assert manifest.details[key] == value
    if "requires" in expected:
        assert [[r.name, r.kind, r.range] for r in manifest.requires] == expected["requires"]
    for key in {"name", "file", "tier"} & expected.keys():
        assert getattr(manifest, key) == expected[key]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, tmp_path: Path) -> None:
    case = json.loads(path.read_text())
    files, links, expected = case["files"], case.get("links", {}), case["expected"]
    tree = MemoryTree.of(files, links=links)
    reading = formats.read(tree)
    assert reading.ok is expected["ok"], reading.findings
    assert sorted([f.code, f.pointer] for f in reading.findings) == sorted(expected["findings"])
    assert reading.format == expected.get("format", "dagstack")
    assert bool(reading.errors) is not reading.ok
    if reading.manifest is not None:
        check_manifest(reading.manifest, expected)
        accepted = acceptance.examine(reading, tree, None if reading.manifest.version else "1.0.0")
        assert accepted.publishable is expected.get("publishable", True), accepted.findings
    else:
        assert not acceptance.examine(reading, tree, "1.0.0").publishable
    assert formats.read(on_disk(tmp_path, files, links)) == reading


@pytest.mark.parametrize(
    "path", [p for p in CASES if "links" not in json.loads(p.read_text())], ids=lambda path: path.stem
)
def test_case_reads_the_same_from_a_bundle(path: Path) -> None:
    files = json.loads(path.read_text())["files"]
    packed = bundle.pack(MemoryTree.of(files), frozenset())
    carried = bundle.outline(io.BytesIO(packed.content), bundle.DEFAULT_LIMITS, formats.is_wanted)
    assert formats.read(carried) == formats.read(MemoryTree.of(files))


@pytest.mark.parametrize("number", [*range(1, 20), 20, 27, 28, 37, 40, 42, 43])
def test_every_case_of_the_format_has_a_file(number: int) -> None:
    """A1 to A20, A27, A28, A37, A40, A42, A43, X5 and X7 are there."""
    assert any(path.stem.startswith(f"a{number:02}-") for path in CASES)
    assert {"x05", "x07"} <= {path.stem[:3] for path in CASES}


GOOD = {
    "dagstack.toml": BASE.replace('"in_process"', '["in_process", "mcp_stdio"]')
    + 'version = "1.0.0"\n[plugin.mcp_stdio]\ncommand = ["python", "-m", "echo.server"]\n',
    "plugin.py": "",
}
BAD = {
    "dagstack.toml": BASE.replace("in_process", "in-process").replace(">=0.2.0,<0.3.0", "0.1")
    + "colour = 1\n"
}


@pytest.mark.parametrize(("name", "files"), [("dagstack-good", GOOD), ("dagstack-bad", BAD)])
def test_what_check_prints(name: str, files: dict[str, str], tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    printed = json.dumps(check(tmp_path).as_dict(), indent=2) + "\n"
    assert printed == (GOLDENS / f"{name}.json").read_text()


def test_all_faults_are_reported_at_once_each_where_it_stands() -> None:
    reading = read_toml(
        '[plugin]\nname = 1\nfoo = 1\nruntime = "in-process"\npriority = "50"\ntryfirst = true\ntrylast = true\n'
        'core_version = "0.1"\nurl = "x"\n[plugin.mcp_stdio]\ncommand = "python -m x"\n'
        '[plugin.unit_of_work]\nidempotency_mode = "hash"\nother = 1\n'
    )
    assert not reading.ok
    assert [f.pointer.removeprefix("/plugin/") for f in reading.findings] == [
        "schema_version",
        "name",
        "kind",
        "core_version",
        "runtime",
        "priority",
        "unit_of_work/idempotency_mode",
        "unit_of_work/other",
        "mcp_stdio/command",
        "foo",
        "trylast",
    ]
    assert {f.code for f in reading.findings} == {"manifest_invalid"}


def test_a5_another_spelling_of_a_runtime_is_a_fault_with_the_right_spelling() -> None:
    (fault,) = read_toml(BASE.replace("in_process", "in-process")).findings
    assert fault.message == (
        "`runtime` must be `in_process`, `mcp_stdio` or `mcp_http`; `in-process` is spelled `in_process`"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE.replace('name = "echo"\n', ""), "there is no `name`"),
        (BASE + "foo = 1\n", "`foo` is not a field of dagstack; a field of your own begins with `x-`"),
        (BASE + "tryfirst = true\ntrylast = true\n", "`tryfirst` and `trylast` cannot both be true"),
        (BASE + "priority = -1\n", "`priority` must not be less than 0"),
        (BASE + "startup_timeout_sec = 0\n", "`startup_timeout_sec` must be more than 0"),
        (BASE + 'capabilities = ["a", 1]\n', "each of `capabilities` must be text"),
        (
            BASE.replace(">=0.2.0,<0.3.0", "0.1"),
            "`core_version` cannot be read: `0.1` is not a range of core versions: there is no operator; write `==0.1` or `^0.1`",
        ),
        (BASE.replace("plugin:Echo", "../x:Y"), "`entry_point` escapes the manifest directory"),
        (
            BASE.replace('"in_process"', '["in_process", "in_process"]'),
            "`runtime` must not name anything twice",
        ),
    ],
)
def test_messages_say_what_is_wrong(text: str, message: str) -> None:
    assert [fault.message for fault in read_toml(text).findings] == [message]


def test_messages_name_keys_and_never_values() -> None:
    secret = "s3cr3t-value"
    reading = read_toml(
        BASE.replace('"in_process"', '["mcp_stdio", "mcp_http"]')
        + f'priority = "{secret}"\nexecution_model = "{secret}"\n[plugin.mcp_stdio]\ncommand = ["x {secret}"]\n'
        f'env = {{ TOKEN = "{secret}", N = "${{{secret}}}" }}\nworking_dir = "../{secret}"\n'
        f'[plugin.mcp_http]\nurl = "https://u:{secret}@h/"\nauth_secret_env = "{secret}"\n'
        f'auth_header = " {secret}"\ntls_verify = "{secret}"\n'
    )
    assert len(reading.findings) > 5
    assert not [finding for finding in reading.findings if secret in finding.message + finding.pointer]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_boundaries_and_style_of_the_findings(path: Path) -> None:
    case = json.loads(path.read_text())
    for finding in formats.read(MemoryTree.of(case["files"], links=case.get("links", {}))).findings:
        assert finding.boundary in {Boundary.PLUGIN, Boundary.REGISTRY}
        assert finding.file
        assert "!" not in finding.message
        if finding.code == "manifest_invalid":
            assert finding.severity is Severity.ERROR


def test_the_manifest_in_the_normal_form() -> None:
    text = BASE + (
        'version = "1.2.3"\ndescription = "Says it again."\nlicense = "MIT"\nhomepage = "https://example.com"\n'
        'authors = ["A. Uthor"]\nmaintainer = "M. Aintainer"\n'
    )
    found = manifest_of(read_toml(text))
    assert (found.format, found.name, found.version) == ("dagstack", "echo", "1.2.3")
    assert (found.description, found.license, found.homepage) == (
        "Says it again.",
        "MIT",
        "https://example.com",
    )
    assert found.authors == ("A. Uthor", "M. Aintainer")
    assert (found.capability_kind, found.core_version) == ("tool", ">=0.2.0,<0.3.0")
    assert (found.file, found.at) == ("dagstack.toml", ("plugin",))


def test_x7_an_unknown_key_rejects_dagstack_and_is_a_warning_in_agent_plugins() -> None:
    schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
    agent = json.dumps({"$schema": schema, "name": "echo", "hooks": 1})
    assert not read_toml(BASE + "hooks = 1\n").ok
    reading = formats.read(MemoryTree.of({"plugin.json": agent}))
    assert reading.ok
    assert [finding.severity for finding in reading.findings] == [Severity.WARNING]


def test_x5_a_conflict_names_both_files() -> None:
    schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
    agent = json.dumps({"$schema": schema, "name": "echo", "version": "2.0.0"})
    reading = formats.read(MemoryTree.of({"plugin.json": agent, "dagstack.toml": BASE}))
    assert [(f.code, f.file) for f in reading.findings] == [
        ("manifest_conflict", "plugin.json"),
        ("manifest_conflict", "dagstack.toml"),
    ]


def test_acceptance_points_at_the_fields_where_they_stand() -> None:
    tree = MemoryTree.of(
        {"dagstack-plugin.toml": BASE.replace('"echo"', '"Echo"') + 'version = "v1"\n', "plugin.py": ""}
    )
    accepted = acceptance.examine(formats.read(tree), tree)
    assert [(f.code, f.file, f.pointer) for f in accepted.findings] == [
        ("name_invalid", "dagstack-plugin.toml", "/plugin/name"),
        ("version_invalid", "dagstack-plugin.toml", "/plugin/version"),
    ]


def test_invariant_2_a_chain_is_not_bound_to_one_process() -> None:
    chain = hookspecs.Hookspec("filter", "1.0.0", (hookspecs.Hook("apply", "chain"),))
    text = BASE.replace('"tool"', '"filter"') + "in_process_only = true\n"
    tree = MemoryTree.of({"dagstack.toml": text, "plugin.py": ""})
    assert formats.read(tree).ok
    reading = dagstack.read(tree, {"filter": chain})
    assert [(f.code, f.pointer) for f in reading.findings] == [
        ("manifest_invalid", "/plugin/in_process_only")
    ]


def test_the_kinds_of_every_core() -> None:
    tool, orchestrator = hookspecs.KINDS["tool"], hookspecs.KINDS["orchestrator"]
    assert [(hook.name, hook.dispatch, bool(hook.template)) for hook in tool.hooks] == [
        ("get_schema", "broadcast_collect", False),
        ("execute", "singleton", True),
    ]
    assert [hook.name for hook in orchestrator.hooks] == ["enqueue", "status", "backfill"]
    assert orchestrator.in_process_only
    assert orchestrator.singleton_per_runtime
    assert not any(spec.chained for spec in hookspecs.KINDS.values())


@pytest.mark.parametrize(
    ("entry_point", "stated", "language", "files"),
    [
        ("plugin:Echo", None, "python", ("plugin.py", "plugin/__init__.py")),
        ("a.b:Echo", "py", "python", ("a/b.py", "a/b/__init__.py")),
        ("src/plugin:Echo", None, "python", ("src/plugin.py", "src/plugin/__init__.py")),
        ("./dist/x.js#Echo", None, "typescript", ("./dist/x.js",)),
        ("./dist/x.mjs", None, "typescript", ("./dist/x.mjs",)),
        ("@acme/echo#Echo", None, "typescript", ()),
        ("@acme/echo", "node", "typescript", ()),
        ("echo", None, None, ()),
        ("plugin:New", "golang", "go", ()),
        (None, "Rust", "rust", ()),
        (None, None, None, ()),
    ],
)
def test_the_language_follows_from_the_entry_point_unless_it_is_stated(
    entry_point: str | None, stated: str | None, language: str | None, files: tuple[str, ...]
) -> None:
    assert entry_points.language_of(entry_point, stated) == language
    assert entry_points.files_of(entry_point or "", language) == files


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": True}},
        {"anyOf": [{"const": 1}, {"enum": []}], "items": False, "unknown": {"type": 3}},
        {"minLength": 2.0, "multipleOf": 0.5, "default": {"type": "no schema"}},
    ],
    ids=str,
)
def test_a_json_schema_has_no_faults(schema: object) -> None:
    assert not list(schema_shape.faults(schema))


def test_the_json_schema_of_the_file_accepts_what_the_reader_accepts() -> None:
    import jsonschema  # type: ignore[import-untyped]

    schema = fields.document_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    assert not list(schema_shape.faults(schema))
    judged = 0
    for path in CASES:
        files = json.loads(path.read_text())["files"]
        reading = formats.read(MemoryTree.of(files))
        if reading.ok and "dagstack.toml" in files:
            assert validator.is_valid(tomllib.loads(files["dagstack.toml"])), path.stem
            judged += 1
        elif reading.ok and "dagstack.json" in files:
            assert validator.is_valid(json.loads(files["dagstack.json"])), path.stem
            judged += 1
    assert judged > 30


@pytest.mark.parametrize(
    "text", ["foo = 1", 'runtime = "in-process"', "priority = -1", "startup_timeout_sec = 0"]
)
def test_the_json_schema_of_the_file_refuses_what_the_reader_refuses(text: str) -> None:
    import jsonschema

    validator = jsonschema.Draft202012Validator(fields.document_schema())
    document = tomllib.loads(BASE)
    assert validator.is_valid(document)
    document["plugin"] |= tomllib.loads(text)
    assert not validator.is_valid(document)
    assert not validator.is_valid(document["plugin"])


@pytest.mark.parametrize("module", [entry_points, fields], ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
