"""Transcripts of commands: what was typed, exit code, stdout, stderr, as one text file each.

`PLUGREG_GOLDENS=write` writes them anew; look at the difference before you keep it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg.cli import main

if TYPE_CHECKING:
    import pytest

FOLDER = Path(__file__).parents[1] / "goldens"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command in this process; return exit code, stdout and stderr."""
    capsys.readouterr()
    try:
        code = main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def transcript(words: tuple[str, ...], code: int, out: str, err: str) -> str:
    shown = " ".join(word if re.fullmatch(r"[\w./:@^=-]+", word) else f"'{word}'" for word in words)
    parts = [f"$ plugreg {shown}\n", out, "--- stderr\n" + err if err else "", f"--- exit {code}\n"]
    return "".join(parts)


def check_golden(name: str, text: str, *, replace: dict[str, str] | None = None) -> None:
    """Compare a transcript with its file, after replacing what differs from run to run."""
    for changing, fixed in (replace or {}).items():
        text = text.replace(changing, fixed)
    path = FOLDER / f"{name}.txt"
    if os.environ.get("PLUGREG_GOLDENS") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text("utf-8")
