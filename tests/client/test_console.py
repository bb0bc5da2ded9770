"""What is printed: data on stdout, the rest on stderr, and nothing that moves the cursor."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from plugreg.console import Console, problem_of
from plugreg_schemas.api import Problem
from plugreg_schemas.errors import (
    Boundary,
    Collector,
    Conflict,
    Finding,
    InvalidInput,
    NoSpace,
    NotAvailable,
    PlugregError,
    Severity,
)

if TYPE_CHECKING:
    Capture = pytest.CaptureFixture[str]

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\u202egood\x9b31m\x00"


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make both streams terminals, as far as they say."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)


def escapes(text: str) -> set[str]:
    return {c for c in text if not c.isprintable() and c not in "\n\t"}


def test_words_of_strangers_never_move_the_cursor_of_a_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    console = Console({"NO_COLOR": "1"})
    console.say(HOSTILE)
    console.note(HOSTILE)
    console.warn(HOSTILE)
    console.table([(HOSTILE, "x")], ("A", "B"))
    console.findings([Finding("x", HOSTILE, file=HOSTILE, pointer=HOSTILE)])
    console.error(
        InvalidInput("x", HOSTILE, hint=HOSTILE, findings=[Finding("x", HOSTILE), Finding("y", "b")])
    )
    out, err = capsys.readouterr()
    assert escapes(out + err) == set()


def test_colour_is_only_in_the_sign_before_the_words(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    Console({}).error(NotAvailable("x", HOSTILE, hint="do it"))
    _, err = capsys.readouterr()
    assert err.startswith("\x1b[1;31merror:\x1b[0m ")
    assert err.count("\x1b") == 4
    assert "\x1b[1;36mhint:\x1b[0m do it\n" in err


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"NO_COLOR": "0"}])
def test_no_color(capsys: Capture, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    on_terminal(monkeypatch)
    Console(environ).error(NotAvailable("x", "gone", hint="wait"))
    assert capsys.readouterr().err == "error: gone\nhint: wait\n"


def test_no_colour_without_a_terminal(capsys: Capture) -> None:
    Console({}).warn("careful")
    assert capsys.readouterr() == ("", "warning: careful\n")


def test_a_finding_cannot_pretend_to_be_another_line(capsys: Capture) -> None:
    Console({}).findings([Finding("x", "bad\nerror: all is well", severity=Severity.NOTE, file="a\nb")])
    assert capsys.readouterr().err == "note: a b: bad error: all is well [x]\n"


def test_all_findings_of_an_error_are_printed(capsys: Capture) -> None:
    faults = Collector("manifest_invalid", "the manifest is not valid")
    faults.add("name_invalid", "`name` is empty", file="plugin.json", pointer="/name")
    faults.add("key_unknown", "`x` is not known", file="plugin.json", pointer="/x", severity=Severity.WARNING)
    with pytest.raises(InvalidInput) as refused:
        faults.raise_if_any(hint="correct them")
    Console({}).error(refused.value)
    assert capsys.readouterr().err == (
        "error: the manifest is not valid: `name` is empty\n"
        "  error: plugin.json#/name: `name` is empty [name_invalid]\n"
        "  warning: plugin.json#/x: `x` is not known [key_unknown]\n"
        "hint: correct them\n"
    )


def test_findings_that_were_dropped_are_counted(capsys: Capture) -> None:
    faults = Collector("x", "bad")
    for number in range(150):
        faults.add("y", f"fault {number}")
    with pytest.raises(InvalidInput) as refused:
        faults.raise_if_any()
    Console({}).error(refused.value)
    err = capsys.readouterr().err
    assert "fault 99 [y]\n  and 50 more\n" in err
    assert "fault 100" not in err


def test_with_json_stdout_has_one_value_and_stderr_only_warnings(capsys: Capture) -> None:
    console = Console({}, as_json=True)
    console.say("words")
    console.note("a note")
    console.findings([Finding("x", "y")])
    console.table([("a",)], ("A",))
    console.warn("careful")
    console.result({"name": "d\u00e9mo\u2028"})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"name": "d\u00e9mo\u2028"}
    assert out.isascii()
    assert out.count("\n") == 1
    assert err == "warning: careful\n"


def test_a_failure_with_json_is_a_problem(capsys: Capture) -> None:
    finding = Finding(
        "name_invalid", "bad name", boundary=Boundary.REGISTRY, file="plugin.json", pointer="/name"
    )
    error = Conflict(
        "version_exists", "it exists", hint="raise it", findings=[finding], details={"digest": "sha256:1"}
    )
    Console({}, as_json=True).error(error)
    out, err = capsys.readouterr()
    problem = Problem.model_validate(json.loads(out)["error"])
    assert json.loads(out).keys() == {"error"}
    assert (problem.code, problem.status, problem.detail, problem.hint) == (
        "version_exists",
        409,
        "it exists",
        "raise it",
    )
    assert problem.errors[0].model_dump() == finding.as_dict()
    assert problem.model_extra == {"digest": "sha256:1"}
    assert err == ""


def test_details_never_hide_what_happened() -> None:
    shown = problem_of(
        PlugregError("real", "m", details={"code": "fake", "detail": "fake", "errors": ["x"], "status": 1})
    )
    assert (shown["code"], shown["detail"], shown["errors"], shown["status"]) == ("real", "m", [], 500)


@pytest.mark.parametrize(("error", "retryable"), [(NoSpace("a", "b"), True), (NotAvailable("a", "b"), False)])
def test_what_may_be_tried_again(error: PlugregError, retryable: bool) -> None:
    assert problem_of(error)["retryable"] is retryable


def test_progress_is_silent_without_a_terminal(capsys: Capture) -> None:
    with Console({}).progress() as report:
        report("upload", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_progress_goes_to_stderr_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    with Console({"NO_COLOR": "1"}).progress() as report:
        report("upload", 1, 2)
        report("upload", 2, 2)
    assert capsys.readouterr().out == ""


def test_text_that_the_terminal_cannot_encode_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Console({}).say("d\u00e9mo \udcff")
    sys.stdout.flush()
    assert raw.getvalue() == b"d?mo ?\n"
