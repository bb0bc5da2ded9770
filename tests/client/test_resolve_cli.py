"""`plugreg resolve`: the words, the exit codes and the JSON, for folders, bundles and plugins of a registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.cli import main
from plugreg.resolving import resolve_target
from plugreg_schemas.bundle import pack
from plugreg_schemas.errors import NotAvailable, PlugregError
from plugreg_schemas.hosts import host_from
from plugreg_schemas.tree import DirectoryTree
from tests.support.offers import Author, Offers, plugin_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
LOCAL = {"type": "stdio", "command": "python3", "args": ["main.py"]}
FAR = {"type": "streamable-http", "url": "https://far.example/mcp"}
DAGSTACK = """
[plugin]
schema_version = "1"
name = "echo"
version = "1.0.0"
kind = "tool"
kind_api_version = "1"
core_version = "^0.2"
runtime = ["in_process", "mcp_stdio"]
entry_point = "plugin:Echo"

[plugin.mcp_stdio]
command = ["python3", "-m", "echo"]
"""
KEEL = """
id: acme.board
version: 1.0.0
kind: webview
entry:
  command: python3
  args: [server.py]
provides:
  ui:
    entry: index.html
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUGREG_REGISTRY", raising=False)


def agent_plugin(folder: Path, *, tier: str = "", **servers: dict[str, Any]) -> Path:
    """Write an Agent Plugin with these servers."""
    manifest: dict[str, Any] = {
        "$schema": f"{SCHEMAS}/plugin.schema.json",
        "name": "demo",
        "version": "1.0.0",
    }
    if tier:
        manifest["extensions"] = {"dev.plugreg": {"tier": tier}}
    folder.mkdir()
    (folder / "plugin.json").write_text(json.dumps(manifest))
    (folder / "mcp.json").write_text(
        json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers})
    )
    (folder / "main.py").write_text("")
    return folder


def dagstack_plugin(folder: Path) -> Path:
    folder.mkdir()
    (folder / "dagstack.toml").write_text(DAGSTACK)
    (folder / "plugin.py").write_text("class Echo: ...\n")
    return folder


def ask(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any], str]:
    """Run the command with `--json`; return exit code, the one value on standard output, and standard error."""
    code = main(["resolve", *map(str, words), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_a20_a_host_of_the_plugins_language_loads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer, err = ask(capsys, dagstack_plugin(tmp_path / "echo"), "--language", "python")
    assert (code, err) == (0, "")
    reason = "it could be used; `in_process` comes first"
    assert answer == {
        "plugin": "echo",
        "version": "1.0.0",
        "components": [
            {
                "id": "main",
                "runtime": "in_process",
                "refusals": [{"runtime": "mcp_stdio", "code": "not_preferred", "reason": reason}],
            }
        ],
    }


@pytest.mark.parametrize(
    ("words", "runtime", "refusal"),
    [
        pytest.param(["--language", "node"], "mcp_stdio", "language_mismatch", id="A21"),
        pytest.param(["--language", "py", "--isolate"], "mcp_stdio", "isolation_required", id="A22"),
        pytest.param(
            ["--language", "py", "--prefer", "mcp_stdio"], "mcp_stdio", "not_preferred", id="prefer"
        ),
        pytest.param(
            ["--language", "py", "--supports", "mcp_stdio"],
            "mcp_stdio",
            "runtime_not_supported",
            id="supports",
        ),
        pytest.param(
            ["--language", "py", "--core-version", "0.2.9", "--kinds", "tool"],
            "in_process",
            "not_preferred",
            id="A17",
        ),
        pytest.param(["--host", "cursor"], "mcp_stdio", "runtime_not_supported", id="host"),
    ],
)
def test_the_options_describe_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], runtime: str, refusal: str
) -> None:
    code, answer, _ = ask(capsys, dagstack_plugin(tmp_path / "echo"), *words)
    (component,) = answer["components"]
    assert code == 0
    assert component["runtime"] == runtime
    assert [r["code"] for r in component["refusals"]] == [refusal]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        pytest.param(["--core-version", "0.3.0"], "version_incompatible", id="A17"),
        pytest.param(["--kinds", "orchestrator"], "kind_unknown", id="kinds"),
        pytest.param(["--supports", "mcp_http,sidecar"], "runtime_not_supported", id="A25"),
        pytest.param(["--supports", ""], "runtime_not_supported", id="supports-nothing"),
    ],
)
def test_where_nothing_is_usable_the_answer_is_the_same_object_with_a_code_and_exit_5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], refusal: str
) -> None:
    code, answer, err = ask(capsys, dagstack_plugin(tmp_path / "echo"), "--language", "python", *words)
    assert (code, err) == (5, "")
    assert answer["code"] == "runtime_not_supported"
    assert list(answer) == ["plugin", "version", "code", "components"]
    assert [(r["runtime"], r["code"]) for r in answer["components"][0]["refusals"]] == [
        ("in_process", refusal),
        ("mcp_stdio", refusal),
    ]


def test_people_are_told_what_is_used_and_why_not_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = agent_plugin(tmp_path / "demo", local=LOCAL, far=FAR)
    assert main(["resolve", str(plugin), "--host", "chatgpt"]) == 0
    assert capsys.readouterr().out == (
        "demo 1.0.0\n"
        "  local: nothing\n"
        "    not mcp_stdio: `chatgpt` does not support `mcp_stdio` [runtime_not_supported]\n"
        "  far: mcp_http\n"
    )


def test_x3_people_are_told_what_to_do_where_nothing_is_usable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = agent_plugin(tmp_path / "demo", local=LOCAL)
    assert main(["resolve", str(plugin), "--language", "go", "--supports", "mcp_http"]) == 5
    out, err = capsys.readouterr()
    assert out.startswith("demo 1.0.0\n  local: nothing\n")
    assert err.startswith("error: nothing of `demo` can be used here")
    assert "hint: " in err


def test_b7_tier_a_is_refused_to_a_web_host_whatever_the_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = agent_plugin(tmp_path / "demo", tier="A", local=LOCAL)
    words = ["--host", "chatgpt", "--supports", "mcp_stdio,mcp_http", "--tunnel", "read-only"]
    code, answer, _ = ask(capsys, plugin, *words)
    assert code == 5
    assert answer["components"][0]["refusals"][0]["code"] == "transport_forbidden"


def test_b5_b6_a_tunnel_needs_an_opt_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = {"type": "streamable-http", "url": "http://127.0.0.1:8771/mcp"}
    plugin = agent_plugin(tmp_path / "demo", tier="B", notes=notes)
    code, answer, _ = ask(capsys, plugin, "--host", "chatgpt")
    assert (code, answer["components"][0]["refusals"][0]["code"]) == (5, "tunnel_opt_in_required")
    code, answer, _ = ask(capsys, plugin, "--host", "chatgpt", "--tunnel", "read-only")
    assert (code, answer["components"][0]["runtime"]) == (0, "mcp_http")


def test_x4_a_user_interface_is_refused_with_its_process_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ui").mkdir()
    (tmp_path / "plugin.yaml").write_text(KEEL)
    (tmp_path / "ui" / "index.html").write_text("<!doctype html>")
    code, answer, _ = ask(capsys, tmp_path, "--host", "keel")
    assert (code, [c["runtime"] for c in answer["components"]]) == (0, ["webview", "sidecar"])
    code, answer, _ = ask(capsys, tmp_path, "--host", "keel", "--supports", "webview")
    refusals = {c["id"]: c["refusals"][0] for c in answer["components"]}
    assert (code, answer["code"]) == (5, "runtime_not_supported")
    assert refusals["ui"]["code"] == "backend_unavailable"
    assert "`backend`" in refusals["ui"]["reason"]


def test_b12_every_format_has_a_place_for_the_tier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = dagstack_plugin(tmp_path / "echo")
    with (plugin / "dagstack.toml").open("a") as file:
        file.write('[plugin.x-plugreg]\ntier = "A"\n')
    code, answer, _ = ask(capsys, plugin, "--host", "claude-ai", "--supports", "mcp_stdio")
    assert (code, answer["components"][0]["refusals"][1]["code"]) == (5, "transport_forbidden")


def test_a_bundle_resolves_as_its_folder_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = agent_plugin(tmp_path / "demo", local=LOCAL, far=FAR)
    bundle = tmp_path / "demo-1.0.0.tar.zst"
    bundle.write_bytes(pack(DirectoryTree(folder)).content)
    assert ask(capsys, bundle, "--language", "go") == ask(capsys, folder, "--language", "go")


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["./missing", "--language", "go"], 7, "path_not_found"),
        (["demo"], 2, "host_missing"),
        (["demo", "--language", "cobolt"], 2, "language_unknown"),
        (["demo", "--host", "curser"], 2, "host_unknown"),
        (["demo", "--language", "go", "--prefer", "in-process"], 2, "runtime_unknown"),
        (["demo", "--language", "go"], 2, "no_registry"),
        (["Bad Name", "--language", "go"], 3, "name_invalid"),
    ],
)
def test_a_failure_is_a_problem_document(
    capsys: pytest.CaptureFixture[str], words: Sequence[str], exit_code: int, code: str
) -> None:
    found, answer, _ = ask(capsys, *words)
    assert found == exit_code
    assert answer["error"]["code"] == code


def test_a_plugin_that_does_not_load_is_not_resolved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "plugin.json").write_text("{")
    code, answer, _ = ask(capsys, tmp_path / "bad", "--language", "go")
    assert (code, answer["error"]["code"]) == (3, "plugin_invalid")
    assert answer["error"]["errors"]


def test_a_folder_that_was_written_like_a_name_is_hinted_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent_plugin(tmp_path / "demo", local=LOCAL)
    monkeypatch.chdir(tmp_path)
    _, answer, _ = ask(capsys, "demo", "--language", "go")
    assert "`./demo`" in answer["error"]["hint"]


def registry_with(tmp_path: Path, alternatives: list[dict[str, Any]], **facts: object) -> Offers:
    """A registry whose document says this of the one component of `demo`."""
    offers = Offers.create(tmp_path / "registry")
    offers.publish(Author(), "demo", "1.0.0", plugin_files("demo", "1.0.0"))
    component = {"id": "main", "runtimes": [a["runtime"] for a in alternatives], "alternatives": alternatives}
    offers.alter(
        "demo", lambda document: document["versions"][0].update({"components": [component], **facts})
    )
    return offers


def test_a_plugin_of_a_registry_is_resolved_by_its_document(tmp_path: Path) -> None:
    offers = registry_with(
        tmp_path, [{"runtime": "in_process", "language": "python"}, {"runtime": "mcp_stdio"}]
    )
    python, node = (host_from({"language": [language]}) for language in ("python", "node"))
    found = resolve_target("demo@^1", python, lambda: [offers], {})  # type: ignore[list-item]  # the methods that it needs
    assert found.components[0].runtime == "in_process"
    found = resolve_target("demo", node, lambda: [offers], {})  # type: ignore[list-item]  # the methods that it needs
    assert found.components[0].runtime == "mcp_stdio"
    assert offers.downloads == 0


def test_the_document_carries_the_plugins_tier(tmp_path: Path) -> None:
    offers = registry_with(tmp_path, [{"runtime": "mcp_stdio"}], tier="A")
    asking = host_from({"host": ["claude-ai"]})
    found = resolve_target("demo", asking, lambda: [offers], {})  # type: ignore[list-item]  # the methods that it needs
    assert found.components[0].refusals[0].code == "transport_forbidden"


@pytest.mark.parametrize(
    ("target", "code"), [("nothing", "plugin_not_found"), ("demo@^2", "version_not_found")]
)
def test_what_a_registry_does_not_have_is_not_available(tmp_path: Path, target: str, code: str) -> None:
    offers = registry_with(tmp_path, [{"runtime": "mcp_stdio"}])
    with pytest.raises(PlugregError) as caught:
        resolve_target(target, host_from({"language": ["go"]}), lambda: [offers], {})  # type: ignore[list-item]  # as above
    assert isinstance(caught.value, NotAvailable)
    assert caught.value.code == code
