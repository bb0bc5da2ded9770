"""`plugreg check`: the registry's verdict without a registry, on folders and bundles, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.check import check
from plugreg.run import Target, call_tool, list_tools
from plugreg.scaffold import init
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable
from tests.support.goldens import check_golden, run, transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    Capture = pytest.CaptureFixture[str]

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
PLUGIN: dict[str, Any] = {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": "demo", "version": "1.0.0"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, so that transcripts have no paths of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def write(folder: str, files: dict[str, Any]) -> Path:
    for path, content in files.items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content))
    return Path(folder)


def servers(**entries: Any) -> dict[str, Any]:
    return {"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": entries}


STDIO = {"type": "stdio", "command": "python3", "args": ["${PLUGIN_ROOT}/server.py"]}


def good(folder: str) -> None:
    init(Path(folder), "demo")


def no_manifest(folder: str) -> None:
    write(folder, {"README.md": "x"})


def cut_manifest(folder: str) -> None:
    write(folder, {"plugin.json": '{"name": "demo"'})


def many_faults(folder: str) -> None:
    write(folder, {"plugin.json": PLUGIN | {"name": "Not A Name", "version": "v1.0", "homepage": 5}})


def no_version(folder: str) -> None:
    write(
        folder,
        {"plugin.json": {k: v for k, v in PLUGIN.items() if k != "version"}, "mcp.json": servers(a=STDIO)},
    )


def one_bad_server(folder: str) -> None:
    write(folder, {"plugin.json": PLUGIN, "mcp.json": servers(good=STDIO, bad={"type": "stdio"})})


def client_configuration(folder: str) -> None:
    write(
        folder, {"plugin.json": PLUGIN, "mcp.json": {"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}}
    )


def bad_skill(folder: str) -> None:
    write(folder, {"plugin.json": PLUGIN, "skills/one/SKILL.md": "no front matter"})


def leaving_link(folder: str) -> None:
    write(folder, {"plugin.json": PLUGIN})
    Path(folder, "out").symlink_to("../../etc")


def missing_command(folder: str) -> None:
    write(
        folder, {"plugin.json": PLUGIN, "mcp.json": servers(a={"type": "stdio", "command": "./bin/server"})}
    )


def twins(folder: str) -> None:
    write(folder, {"plugin.json": PLUGIN, "README": "a", "readme": "b"})


def duplicate_key(folder: str) -> None:
    write(folder, {"plugin.json": '{"name": "demo", "name": "other"}'})


CASES: list[Callable[[str], None]] = [
    good,
    no_manifest,
    cut_manifest,
    many_faults,
    no_version,
    one_bad_server,
    client_configuration,
    bad_skill,
    leaving_link,
    missing_command,
    twins,
    duplicate_key,
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_words_of_check(capsys: Capture, make: Callable[[str], None]) -> None:
    make("demo")
    name = make.__name__.replace("_", "-")
    words = ("check", "demo", "--publish")
    check_golden(f"check/{name}", transcript(words, *run(capsys, *words)))


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_json_of_check_has_its_documented_shape(capsys: Capture, make: Callable[[str], None]) -> None:
    make("demo")
    code, out, err = run(capsys, "check", "demo", "--json")
    value = json.loads(out)
    assert list(value) == [
        "ok",
        "publishable",
        "format",
        "name",
        "version",
        "components",
        "servers",
        "skills",
        "findings",
    ]
    assert (code, err) == (0 if value["ok"] else 3, "")
    assert value["ok"] or not value["publishable"]
    assert {verdict for one in value["servers"] + value["skills"] if (verdict := one["verdict"])} <= {
        "load",
        "skip",
    }
    for finding in value["findings"]:
        assert list(finding) == ["code", "severity", "boundary", "file", "pointer", "message"]
    code, out, _ = run(capsys, "check", "demo", "--json", "--publish")
    assert code == (0 if json.loads(out)["publishable"] else 3)


def test_what_keeps_a_plugin_from_being_published_does_not_keep_it_from_loading() -> None:
    no_version("demo")
    checked = check(Path("demo"))
    assert (checked.ok, checked.publishable) == (True, False)
    assert {(f.code, f.boundary) for f in checked.findings} == {("version_missing", "registry")}
    assert check(Path("demo"), "1.2.3").publishable


def test_a_folder_and_its_bundle_have_the_same_verdict(capsys: Capture) -> None:
    good("demo")
    code, out, err = run(capsys, "pack", "demo", "-o", "out/demo.tar.zst", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["path"] == "out/demo.tar.zst"
    folder, bundle = check(Path("demo")).as_dict(), check(Path("out/demo.tar.zst")).as_dict()
    assert folder == bundle


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd" + b"\0" * 10])
def test_a_file_that_is_no_bundle(content: bytes) -> None:
    Path("x.tar.zst").write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        check(Path("x.tar.zst"))
    assert refused.value.code


def test_nothing_there() -> None:
    with pytest.raises(NotAvailable) as refused:
        check(Path("nowhere"))
    assert refused.value.code == "path_not_found"


# --- init ------------------------------------------------------------------------------------------------------------


def test_a_new_plugin_passes_check_without_a_finding() -> None:
    init(Path("new-plugin"))
    checked = check(Path("new-plugin"))
    assert checked.publishable
    assert checked.findings == ()
    assert (checked.manifest.name, str(checked.version)) == ("new-plugin", "0.1.0")


def test_the_server_of_a_new_plugin_answers_and_counts_in_its_data() -> None:
    init(Path("new-plugin"))
    root = Path("new-plugin").resolve()
    target = Target("new-plugin", root, Path("data").resolve(), check(root).manifest)
    (server,) = list_tools(target)["servers"]
    assert [tool["name"] for tool in server["tools"]] == ["greet"]
    for count in (1, 2):
        answer = call_tool(target, "greeter", "greet", {"name": "Ada"})
        assert f"Hello, Ada. Greeting number {count}." in json.dumps(answer)


def test_init_overwrites_nothing() -> None:
    write("demo", {"plugin.json": "mine"})
    with pytest.raises(Conflict) as refused:
        init(Path("demo"))
    assert refused.value.code == "folder_not_empty"
    assert Path("demo/plugin.json").read_text() == "mine"


def test_init_in_an_empty_folder_that_exists() -> None:
    Path("demo").mkdir()
    assert {str(path) for path in init(Path("demo"))} == {
        "demo/plugin.json",
        "demo/mcp.json",
        "demo/server.py",
        "demo/skills/greeting/SKILL.md",
    }


@pytest.mark.parametrize("folder", ["My Plugin", "-x", "con", "/"])
def test_a_folder_whose_name_is_no_plugin_name(folder: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        init(Path(folder))
    assert refused.value.code in {"name_invalid", "name_reserved"}
    assert "--name" in refused.value.hint
    assert not Path(folder, "plugin.json").exists()
