"""`plugreg init --format`: each format's new plugin passes `check`, resolves and runs; and `check --format github`."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from plugreg.annotations import github
from plugreg.check import check
from plugreg.scaffold import init
from plugreg_schemas.errors import Boundary, Conflict, Finding, InvalidInput, Severity, UsageError
from plugreg_schemas.manifest import Format
from tests.support.goldens import check_golden, run, transcript

if TYPE_CHECKING:
    Capture = pytest.CaptureFixture[str]

FORMATS: tuple[Format, ...] = get_args(Format)
SAFETY_S = 60


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, so that transcripts have no paths of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    return tmp_path


def talk(program: Path, *messages: dict[str, Any], data: Path) -> list[dict[str, Any]]:
    """Send messages to a server, close its input and return its answers."""
    done = subprocess.run(
        [sys.executable, program],
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
        env={"PLUGIN_DATA": str(data)},
        capture_output=True,
        text=True,
        check=True,
        timeout=SAFETY_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_new_plugin_passes_check(format_: Format) -> None:
    init(Path("demo"), format_=format_)
    checked = check(Path("demo"))
    assert checked.publishable, checked.findings
    assert [f for f in checked.findings if f.severity is not Severity.NOTE] == []
    assert (checked.reading.format, checked.manifest.name) == (format_, "demo")


@pytest.mark.parametrize(
    ("format_", "language", "expected"),
    [
        ("agent-plugins", "python", {"greeter": "mcp_stdio"}),
        ("dagstack", "python", {"main": "in_process"}),
        ("dagstack", "rust", {"main": "mcp_stdio"}),
        ("keel", "go", {"main": "sidecar"}),
    ],
)
def test_a_new_plugin_resolves(
    format_: str, language: str, expected: dict[str, str], capsys: Capture
) -> None:
    assert run(capsys, "init", "demo", "--format", format_)[0] == 0
    code, out, err = run(capsys, "resolve", "./demo", "--language", language, "--json")
    assert code == 0, out + err
    assert {c["id"]: c["runtime"] for c in json.loads(out)["components"]} == expected


def test_the_new_sidecar_speaks_the_five_methods_and_ends_with_its_input(tmp_path: Path) -> None:
    init(Path("demo"), format_="keel")
    call = {"name": "greet", "arguments": {"name": "Ada"}}
    answers = talk(
        Path("demo/sidecar.py"),
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "1"}},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": call},
        {"id": 4, "method": "health"},
        {"id": 5, "method": "close", "params": {"session": "a"}},
        {"id": 6, "method": "unknown"},
        {"id": 7, "method": "close"},
        {"id": 8, "method": "health"},
        data=tmp_path,
    )
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4, 5, 6, 7]
    assert answers[2]["result"]["content"][0]["text"] == "Hello, Ada."
    assert answers[3]["result"] == {"status": "ok"}
    assert answers[5]["error"]["code"] == -32601


def test_the_new_dagstack_plugin_runs_both_ways(tmp_path: Path) -> None:
    init(Path("demo"), format_="dagstack")
    call = {"name": "greet", "arguments": {"name": "Ada"}}
    (answer,) = talk(Path("demo/server.py"), {"id": 1, "method": "tools/call", "params": call}, data=tmp_path)
    names: dict[str, Any] = {}
    exec(Path("demo/plugin.py").read_text(), names)  # noqa: S102 - the template of this repository
    greeter = names["Greeter"]()
    greeter.setup(None)
    assert [tool["name"] for tool in greeter.get_schema()] == ["greet"]
    assert greeter.execute("greet", {"name": "Ada"})["result"] == answer["result"]["content"][0]["text"]
    assert greeter.execute("other", {})["is_error"]
    assert greeter.teardown()


def test_commands_of_a_new_plugin_are_executable() -> None:
    init(Path("demo"), format_="keel")
    assert Path("demo/sidecar.py").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("format_", "name"), [("keel", "a_b"), ("agent-plugins", "a_b"), ("dagstack", "a.b"), ("keel", "A b")]
)
def test_a_name_that_the_format_does_not_allow_is_refused(format_: Format, name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        init(Path("demo"), name, format_)
    assert raised.value.code == "name_invalid"
    assert "--name" in raised.value.hint
    assert not Path("demo").exists()


def test_a_format_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError) as raised:
        init(Path("demo"), format_="npm")  # type: ignore[arg-type]
    assert raised.value.code == "format_unknown"


@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_is_overwritten(format_: Format) -> None:
    Path("demo").mkdir()
    Path("demo/file").write_text("x")
    with pytest.raises(Conflict):
        init(Path("demo"), format_=format_)
    assert [path.name for path in Path("demo").iterdir()] == ["file"]


def test_check_prints_annotations_for_github(capsys: Capture) -> None:
    Path("plugins/demo").mkdir(parents=True)
    Path("plugins/demo/plugin.yaml").write_text("id: A\nkind: in_process\nversion: '1.0.0'\ncolour: red\n")
    words = ("check", "plugins/demo", "--format", "github")
    check_golden("convert/check-github", transcript(words, *run(capsys, *words)))


def test_no_text_of_a_plugin_becomes_a_command_of_the_workflow() -> None:
    hostile = Finding("x", "a\n::set-env name=A::b\r%", Severity.NOTE, Boundary.ENTRY, "f,title=x::y\n", "/p")
    (line,) = github([hostile], Path())
    assert line == "::notice file=f%2Ctitle=x%3A%3Ay%0A,title=x::a%0A::set-env name=A::b%0D%25 (/p)"


def test_a_command_that_this_machine_lacks_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    init(Path("demo"))
    monkeypatch.setenv("PATH", "/nowhere")
    (finding,) = check(Path("demo")).findings
    assert (finding.code, finding.severity, finding.boundary) == (
        "launcher_missing",
        Severity.NOTE,
        Boundary.PROCESS,
    )
    assert "`python3`" in finding.message
    assert check(Path("demo")).publishable


def test_a_disk_that_fills_up_leaves_no_half_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        init(tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_one_stands_in_stays_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "demo"
    here.mkdir()
    before = here.stat().st_ino
    monkeypatch.chdir(here)
    init(Path())
    assert here.stat().st_ino == before
    assert (here / "plugin.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
