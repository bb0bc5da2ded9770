"""`plugreg convert`: what is nearly a plugin becomes one, with every loss listed, or nothing is written."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugreg.check import check
from plugreg.convert import convert, identity
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable, PlugregError, Severity
from plugreg_schemas.formats.near_miss import servers_of
from tests.support.goldens import check_golden, run, transcript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.errors import Finding

    Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).parents[2]
CORPUS = (ROOT / os.environ.get("PLUGREG_CORPUS", "../shared/corpus")).resolve()
SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
SHARE = 0.9
"""Of the near misses that declare a server or a skill, how many must convert."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, so that transcripts have no paths of this machine."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    return tmp_path / "work"


def write(folder: str, files: Mapping[str, Any]) -> Path:
    for path, content in files.items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content))
    return Path(folder)


def servers(folder: Path) -> dict[str, Any]:
    document = json.loads((folder / "mcp.json").read_text())
    assert document["$schema"] == f"{SCHEMAS}/mcp.schema.json"
    found: dict[str, Any] = document["mcpServers"]
    return found


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return sorted({finding.code for finding in findings})


def config(server: object) -> dict[str, Any]:
    return {".mcp.json": {"mcpServers": {"a": server}}}


CLAUDE = {
    ".claude-plugin/plugin.json": {
        "name": "Weather Tools",
        "version": "v1.2.0",
        "description": "The weather.",
        "author": {"name": "Ada", "email": "ada@example.com", "team": "x"},
        "repository": {"type": "git", "url": "https://host.example/weather"},
        "keywords": ["weather"],
        "mcpServers": "./servers.json",
        "commands": ["./commands/now.md"],
        "skills": ["./extra/Forecast", "./extra/none"],
    },
    "servers.json": {
        "mcpServers": {
            "weather": {
                "command": "${CLAUDE_PLUGIN_ROOT}/bin/server",
                "args": ["--data", "${CLAUDE_PLUGIN_ROOT}/data", "--user=${USER_NAME}"],
                "env": {
                    "API_KEY": "${API_KEY}",
                    "TOKEN": "ghp_0123456789012345678901234567890123456789",
                    "MODE": "x",
                },
                "cwd": "${CLAUDE_PLUGIN_ROOT}",
                "timeout": 5,
            },
            "maps": {
                "type": "http",
                "url": "https://maps.example/mcp",
                "headers": {"Authorization": "Bearer ${T}"},
            },
            "desk": {"command": "/Applications/Desk.app/desk"},
        }
    },
    "bin/server": "#!/bin/sh\n",
    "data/cities": "x",
    "commands/now.md": "x",
    "extra/Forecast/SKILL.md": "---\nname: forecast\ndescription: Forecasts.\n---\n",
    "extra/Forecast/words.md": "x",
    "skills/now/SKILL.md": "---\nname: now\ndescription: The weather now.\n---\n",
    ".env": "SECRET=1",
}


def shown(folder: Path) -> str:
    """Return the names of all files, then the two that were made."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    texts = [f"--- {name}\n{(folder / name).read_text()}" for name in ("plugin.json", "mcp.json")]
    return "--- files\n" + "\n".join(names) + "\n" + "".join(texts)


def test_a_claude_plugin_and_everything_that_it_loses(capsys: Capture) -> None:
    folder = write("weather", CLAUDE)
    words = ("convert", "weather", "-o", "new")
    text = transcript(words, *run(capsys, *words)) + shown(Path("new"))
    check_golden("convert/claude-plugin", text, replace={str(Path.cwd()): "."})
    assert check(Path("new")).publishable
    assert not (folder / "plugin.json").exists()


MCPB = {
    "manifest.json": {
        "manifest_version": "0.3",
        "name": "files",
        "version": "1.0.0",
        "server": {
            "type": "node",
            "entry_point": "server/index.js",
            "mcp_config": {
                "command": "node",
                "args": ["${__dirname}/server/index.js", "--max=${user_config.max}", "${user_config.folder}"],
                "env": {"DEBUG": "${user_config.debug}"},
                "platform_overrides": {"win32": {"command": "node.exe"}},
            },
        },
        "user_config": {"max": {"default": 5}, "debug": {"default": False}, "folder": {"type": "directory"}},
    },
    "server/index.js": "x",
}
REGISTRY = {
    "server.json": {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.acme/notes",
        "version": "1.0.0",
        "packages": [
            {"registryType": "mcpb", "identifier": "https://host.example/a.mcpb", "version": "1.0.0"},
            {
                "registryType": "pypi",
                "identifier": "acme-notes",
                "version": "1.0.0",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "serve"},
                    {"type": "named", "name": "--fast"},
                    {"type": "named", "name": "--folder", "isRequired": True, "format": "filepath"},
                ],
                "environmentVariables": [
                    {"name": "NOTES_KEY", "isSecret": True},
                    {"name": "NOTES_MODE", "default": "plain"},
                ],
            },
        ],
        "remotes": [{"type": "streamable-http", "url": "https://notes.example/mcp"}],
    }
}
GEMINI = {
    "gemini-extension.json": {
        "name": "docs",
        "version": "1.0.0",
        "contextFileName": "GEMINI.md",
        "mcpServers": {
            "docs": {
                "command": "node",
                "args": ["${extensionPath}${/}index.js"],
                "cwd": "${extensionPath}${/}lib",
            },
            "far": {"httpUrl": "https://far.example/mcp", "trust": True},
        },
    },
    "lib/x": "x",
    "index.js": "x",
}
VSCODE = {
    ".vscode/mcp.json": {
        "inputs": [{"id": "key", "type": "promptString"}],
        "servers": {
            "a": {"type": "stdio", "command": "uvx", "args": ["tool==1.0"], "env": {"K": "${input:key}"}}
        },
    }
}


@pytest.mark.parametrize(
    ("name", "files"), [("mcpb", MCPB), ("registry-entry", REGISTRY), ("gemini", GEMINI), ("vs-code", VSCODE)]
)
def test_other_sources(name: str, files: Mapping[str, Any], capsys: Capture) -> None:
    write("source", files)
    words = ("convert", "source", "--name", "demo")
    text = transcript(words, *run(capsys, *words)) + shown(Path("source-agent-plugin"))
    check_golden(f"convert/{name}", text, replace={str(Path.cwd()): "."})


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"command": "x"}, {"type": "stdio", "command": "x"}),
        (
            {"type": "local", "command": "x", "args": [1, "b"]},
            {"type": "stdio", "command": "x", "args": ["1", "b"]},
        ),
        ({"command": "npx -y tool@1.0.0"}, {"type": "stdio", "command": "npx", "args": ["-y", "tool@1.0.0"]}),
        ({"command": ["a", "b"], "args": ["c"]}, {"type": "stdio", "command": "a", "args": ["b", "c"]}),
        ({"command": "/usr/bin/env", "args": ["x"]}, {"type": "stdio", "command": "env", "args": ["x"]}),
        ({"command": "bin/x"}, {"type": "stdio", "command": "./bin/x"}),
        ({"command": "${__dirname}\\bin\\x"}, {"type": "stdio", "command": "./bin/x"}),
        ({"command": "${BIN:-tool}"}, {"type": "stdio", "command": "tool"}),
        ({"command": "x", "cwd": "."}, {"type": "stdio", "command": "x"}),
        ({"command": "x", "cwd": "lib"}, {"type": "stdio", "command": "x", "cwd": "./lib"}),
        ({"command": "x", "cwd": "/home/me"}, {"type": "stdio", "command": "x"}),
        (
            {"command": "x", "env": {"N": 1, "B": True, "E": None}},
            {"type": "stdio", "command": "x", "env": {"N": "1", "B": "true"}},
        ),
        ({"command": "x", "env": {"PLUGIN_ROOT": "/"}}, {"type": "stdio", "command": "x"}),
        ({"url": "https://a.example/mcp"}, {"type": "streamable-http", "url": "https://a.example/mcp"}),
        ({"type": "sse", "url": "https://a.example/sse"}, {"type": "sse", "url": "https://a.example/sse"}),
        ({"serverUrl": "https://a.example/mcp"}, {"type": "streamable-http", "url": "https://a.example/mcp"}),
        (
            {
                "type": "http",
                "url": "https://a.example/mcp",
                "headers": {"X-Mode": "a", "Authorization": "Bearer abc"},
            },
            {"type": "streamable-http", "url": "https://a.example/mcp", "headers": {"X-Mode": "a"}},
        ),
    ],
)
def test_what_a_server_becomes(server: object, expected: object) -> None:
    converted = convert(write("demo", config(server)))
    assert servers(converted.path) == {"a": expected}
    assert converted.checked.ok


@pytest.mark.parametrize(
    ("server", "code"),
    [
        ({}, "server_invalid"),
        ({"command": ""}, "server_invalid"),
        ({"command": 5}, "server_invalid"),
        ({"command": "x", "args": "y"}, "server_invalid"),
        ({"command": "x", "args": [{}]}, "server_invalid"),
        ({"command": "x", "env": ["A"]}, "server_invalid"),
        ({"type": "ws", "url": "wss://a.example"}, "transport_unsupported"),
        ({"command": "/opt/acme/run"}, "command_absolute"),
        ({"command": "~/run"}, "command_absolute"),
        ({"command": "C:\\run.exe"}, "command_absolute"),
        ({"command": "../run"}, "command_escape"),
        ({"command": "${HOME}/run"}, "placeholder_literal"),
        ({"url": "https://${HOST}/mcp"}, "placeholder_literal"),
        ({"url": "http://a.example/mcp"}, "server_invalid"),
        ({"url": "https://me:pass@a.example/mcp"}, "server_invalid"),
    ],
)
def test_a_server_without_a_form_in_agent_plugins_says_why(server: object, code: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        convert(write("demo", {"plugin.json": {"name": "demo", "mcpServers": {"a": server}}}))
    assert raised.value.code == "nothing_to_convert"
    assert code in {finding.code for finding in raised.value.findings}
    assert not Path("demo-agent-plugin").exists()


def test_a_credential_is_never_copied_or_shown(capsys: Capture) -> None:
    secret = "ghp_0123456789012345678901234567890123456789"
    server = {"command": "x", "env": {"GITHUB_TOKEN": secret}}
    write("demo", config(server))
    assert run(capsys, "convert", "demo")[0] == 0
    assert secret not in "".join(
        path.read_text() for path in Path("demo-agent-plugin").rglob("*") if path.is_file()
    )
    _, out, err = run(capsys, "convert", "demo", "-o", "again", "--json")
    assert secret not in out + err
    assert "credential_dropped" in out


def test_a_single_skill_becomes_a_plugin() -> None:
    files = {"SKILL.md": "---\nname: forecast\ndescription: Forecasts.\n---\n", "words.md": "x"}
    converted = convert(write("My Skill", files))
    assert [skill.name for skill in converted.checked.manifest.skills] == ["forecast"]
    assert (converted.path / "skills/forecast/words.md").is_file()
    assert converted.checked.manifest.name == "my-skill"


def test_an_mcp_json_that_was_written_for_agent_plugins_comes_first() -> None:
    own = {"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": {"a": {"type": "stdio", "command": "good"}}}
    files = {".codex-plugin/plugin.json": {"name": "demo"}, "mcp.json": own, **config({"command": "other"})}
    converted = convert(write("demo", files))
    assert servers(converted.path)["a"]["command"] == "good"
    assert codes(converted.losses) == ["server_repeated"]


def test_declared_skills_that_are_not_here_are_a_loss_and_no_obstacle() -> None:
    converted = convert(write("demo", {"plugin.json": {"name": "demo", "skills": "./skills/"}}))
    assert converted.checked.ok
    assert codes(converted.losses) == ["skill_missing"]


def test_links_stay_links_and_never_lead_out() -> None:
    folder = write("demo", {**config({"command": "./run"}), "bin/run": "#!/bin/sh\n"})
    (folder / "run").symlink_to("bin/run")
    (folder / "out").symlink_to("/etc/passwd")
    converted = convert(folder)
    assert (converted.path / "run").readlink() == Path("bin/run")
    assert not (converted.path / "out").is_symlink()
    assert "link_dropped" in codes(converted.losses)


def test_nothing_that_exists_is_overwritten() -> None:
    folder = write("demo", config({"command": "x"}))
    write("there", {"file": "x"})
    with pytest.raises(Conflict) as raised:
        convert(folder, Path("there"))
    assert raised.value.code == "folder_not_empty"
    assert [path.name for path in Path("there").iterdir()] == ["file"]
    Path("empty").mkdir()
    assert convert(folder, Path("empty")).checked.ok
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["demo", "empty", "there"]


def test_a_new_folder_inside_the_old_one_holds_no_copy_of_itself() -> None:
    folder = write("demo", config({"command": "x"}))
    converted = convert(folder, folder / "out")
    assert sorted(path.name for path in converted.path.iterdir()) == ["mcp.json", "plugin.json"]


@pytest.mark.parametrize(
    ("files", "kind", "code"),
    [
        ({}, NotAvailable, "nothing_recognised"),
        ({"plugin.yaml": "kind: sidecar"}, Conflict, "format_known"),
        (
            {"plugin.json": {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": "a"}},
            Conflict,
            "format_known",
        ),
        ({"plugin.json": {"name": "demo"}}, InvalidInput, "nothing_to_convert"),
        ({"plugin.json": []}, NotAvailable, "nothing_recognised"),
        ({".mcp.json": "{"}, InvalidInput, "json_invalid"),
        ({".mcp.json": '{"a": 1, "a": 2}'}, InvalidInput, "json_duplicate_key"),
        ({"marketplace.json": {"plugins": []}}, InvalidInput, "marketplace"),
    ],
)
def test_what_cannot_be_converted_says_so(files: dict[str, Any], kind: type[PlugregError], code: str) -> None:
    Path("demo").mkdir()
    with pytest.raises(kind) as raised:
        convert(write("demo", files))
    assert raised.value.code == code


def test_a_marketplace_names_the_folders_to_convert() -> None:
    files = {
        "marketplace.json": {
            "plugins": [{"source": "./one"}, {"source": {"source": "local", "path": "./two"}}]
        },
        "one/plugin.json": {},
    }
    with pytest.raises(InvalidInput) as raised:
        convert(write("demo", files))
    assert raised.value.hint.count("plugreg convert") == 1
    assert "one" in raised.value.hint


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("demo", "demo"),
        ("HIPAA Guardian", "hipaa-guardian"),
        ("Azure.Mcp.Server", "azure.mcp.server"),
        ("io.github.acme/notes", "notes"),
        ("--a--", "a"),
        ("${NAME}", "folder"),
        ("<<Name>>", "folder"),
        ("天気", "folder"),
        (5, "folder"),
        ("latest", "folder"),
    ],
)
def test_a_name_that_a_registry_takes_is_found(stated: object, expected: str) -> None:
    converted = convert(
        write("Folder", {"plugin.json": {"name": stated, "mcpServers": {"a": {"command": "x"}}}})
    )
    assert converted.checked.manifest.name == expected
    assert ("name_changed" in codes(converted.losses)) is (stated != expected)


def test_the_examples_in_the_docstrings_run() -> None:
    import doctest

    assert doctest.testmod(identity).failed == 0


def declares_something(folder: Path) -> bool:
    """Whether a package of the corpus declares a server or a skill anywhere."""
    for path in folder.rglob("*.json"):
        value = json.loads(path.read_text())
        if not isinstance(value, dict):
            continue
        entries = [value, *(item for item in value.get("plugins", []) if isinstance(item, dict))]
        if any(entry.get("skills") or entry.get("mcpServers") for entry in entries) or servers_of(value)[1]:
            return True
        if "packages" in value or "remotes" in value or isinstance(value.get("server"), dict):
            return True
    return bool(list(folder.glob("skills/*/SKILL.md")))


def test_of_the_near_misses_that_declare_something_nine_of_ten_convert(tmp_path: Path) -> None:
    folders = [folder for folder in sorted(CORPUS.glob("near-miss-*/*")) if declares_something(folder)]
    if not folders:
        pytest.skip(f"no corpus at {CORPUS}")
    failed = []
    for folder in folders:
        try:
            converted = convert(folder, tmp_path / "out" / folder.name)
        except PlugregError as error:
            reasons = sorted({f.code for f in error.findings if f.severity is Severity.WARNING})
            failed.append(f"{folder.parent.name}/{folder.name}: {error.code} {' '.join(reasons)}".rstrip())
            continue
        assert check(converted.path).ok
        assert all(finding.file and finding.code for finding in converted.losses)
    assert len(failed) <= (1 - SHARE) * len(folders)
    check_golden("convert/corpus-not-converted", "".join(f"{line}\n" for line in failed))


TEXTS = st.sampled_from(
    [
        "",
        "x",
        "./x",
        "../x",
        "/x",
        "\x00",
        "a b",
        "${X}",
        "${X:-y}",
        "${__dirname}/x",
        "'",
        "https://a.example/",
        "\n",
        "天",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SERVER_KEYS = (
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "name",
    "identifier",
    "registryType",
)
SERVERS = st.dictionaries(st.sampled_from(SERVER_KEYS), VALUES, max_size=5)
SHAPES: dict[str, st.SearchStrategy[Any]] = {
    "plugin.json": st.fixed_dictionaries(
        {},
        optional={
            "name": VALUES,
            "version": VALUES,
            "author": VALUES,
            "keywords": VALUES,
            "skills": VALUES,
            "repository": VALUES,
            "mcpServers": VALUES | st.dictionaries(TEXTS, SERVERS, max_size=2),
        },
    ),
    "manifest.json": st.fixed_dictionaries(
        {
            "manifest_version": st.just("0.3"),
            "server": SERVERS | st.fixed_dictionaries({"mcp_config": SERVERS}),
        },
        optional={"user_config": VALUES, "name": VALUES},
    ),
    "server.json": st.fixed_dictionaries(
        {"name": VALUES, "packages": st.lists(SERVERS | VALUES, max_size=2)},
        optional={"remotes": st.lists(SERVERS | VALUES, max_size=2), "version": VALUES},
    ),
    ".mcp.json": st.fixed_dictionaries({"mcpServers": st.dictionaries(TEXTS, SERVERS | VALUES, max_size=3)}),
    "marketplace.json": st.fixed_dictionaries({"plugins": st.lists(VALUES, max_size=3)}),
}


@pytest.mark.parametrize("file", sorted(SHAPES))
def test_whatever_stands_in_a_source_it_converts_or_says_why(file: str, tmp_path: Path) -> None:
    @settings(max_examples=60, deadline=None)
    @given(SHAPES[file])
    def converts(value: object) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            source = write(f"{folder}/demo", {file: json.dumps(value), "x": "x"})
            try:
                converted = convert(source)
            except PlugregError:
                assert not Path(folder, "demo-agent-plugin").exists()
                return
            assert converted.checked.ok
            skipped = [found.name for found in converted.checked.reading.servers if found.verdict == "skip"]
            assert skipped == []

    converts()
