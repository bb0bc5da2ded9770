"""Standard streams that are closed, full, or read by somebody who goes away: no traceback, and the true exit code."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import PROGRAMS, User, write_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 60


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def in_shell(user: User, words: Sequence[str], redirections: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that redirects as told; `$?` of the command itself is the exit code."""
    script = f'"$@" {redirections}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(PROGRAMS / "plugreg"), *words],
        env=user.env(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "own fault" not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list",), 0),
        (("list", "--json"), 0),
        (("registry", "remove", "nothing"), 7),
        (("registry", "remove", "nothing", "--json"), 7),
        (("publish", ".", "--key", "none"), 3),
        (("--version",), 0),
    ],
)
def test_closed_standard_streams(user: User, words: tuple[str, ...], code: int, closed: str) -> None:
    assert in_shell(user, words, closed).returncode == code


def test_arguments_from_a_closed_stdin_are_no_arguments(user: User, tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path / "p", servers={"s": {"type": "stdio", "command": "true"}})
    done = in_shell(user, ("call", f"{plugin}/", "s", "t", "-", "--json"), "<&-")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (3, "json_invalid")


def test_a_reader_that_goes_away_does_not_turn_a_failure_into_success(user: User, tmp_path: Path) -> None:
    write_plugin(tmp_path / "p", files={f"{kind}win{n}": "" for n in range(40) for kind in "tT"})
    words = ("check", str(tmp_path / "p"), "--publish")
    for pipe in ("2>&1 | true", "| true", "2> >(true)"):
        done = in_shell(user, words, f"{pipe}; exit ${{PIPESTATUS[0]}}")
        assert done.returncode == 3, pipe


@pytest.mark.parametrize("words", [("--version",), ("list", "--json"), ("key", "list", "--json")])
def test_a_full_disk_behind_stdout(user: User, words: tuple[str, ...]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = in_shell(user, words, ">/dev/full")
    assert done.returncode == 8
    assert "no space left" in done.stderr


def test_the_folder_of_the_shell_is_gone(user: User, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(PROGRAMS / "plugreg"), "list", "--json"],
        env=user.env(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)) == (0, {"plugins": []})
