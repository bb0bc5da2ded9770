"""All printing. Data goes to stdout, the rest to stderr; colour only on a terminal, never as the only sign.

With `--json`, stdout carries exactly one JSON value: the result, or {"error": Problem}.

A reader that goes away (`| head`) ends its stream and nothing else: the command goes on, and its exit code
says what became of it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from plugreg_schemas.errors import Severity, Temporary, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from plugreg_schemas.errors import Finding, PlugregError

_RED, _YELLOW, _BLUE, _BOLD = "31", "33", "36", "1"
_COLOUR_OF = {Severity.ERROR: _RED, Severity.WARNING: _YELLOW, Severity.NOTE: _BLUE}


class Console:
    """Where a command's words go. `as_json` makes one JSON value of the result, and no other words."""

    def __init__(self, environ: Mapping[str, str], *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._environ = environ

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def say(self, text: str = "") -> None:
        """Print a line of the result for people."""
        if not self.as_json:
            _to_stdout(_printable(text, sys.stdout))

    def note(self, text: str) -> None:
        """Print a line about what is going on."""
        if not self.as_json and not self.quiet:
            self._stderr(text)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._stderr(text, "warning:", _YELLOW)

    def result(self, value: object) -> None:
        """Print the result as JSON, where JSON was asked for."""
        if self.as_json:
            _to_stdout(json.dumps(value, ensure_ascii=True, indent=2 if sys.stdout.isatty() else None))

    def table(self, rows: Iterable[Sequence[str]], heads: Sequence[str]) -> None:
        """Print rows in columns as wide as their widest cell."""
        cells = [list(heads), *(list(row) for row in rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
        for row in cells:
            self.say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def findings(self, findings: Iterable[Finding]) -> None:
        """Print findings, one a line: severity, place, sentence, code."""
        if self.as_json:
            return
        for finding in findings:
            self._stderr(_one_line(str(finding)), f"{finding.severity.value}:", _COLOUR_OF[finding.severity])

    def error(self, error: PlugregError) -> None:
        """Print an error: what happened, where, what to do next."""
        if self.as_json:
            self.result({"error": problem_of(error)})
            return
        self._stderr(error.message, "error:", _RED)
        if len(error.findings) > 1 or any(f.message not in error.message for f in error.findings):
            for finding in error.findings:
                self._stderr(f"  {finding.severity.value}: {_one_line(str(finding))}")
        dropped = error.details.get("findings_not_shown")
        if dropped:
            self._stderr(f"  and {dropped} more")
        if error.hint:
            self._stderr(error.hint, "hint:", _BLUE)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int], None]]:
        """Yield a callback that draws progress bars on a terminal and does nothing elsewhere."""
        if self.as_json or self.quiet or not sys.stderr.isatty():
            yield lambda _what, _done, _total: None
            return
        from rich.console import Console as RichConsole
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TaskID,
            TextColumn,
            TransferSpeedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        plain = bool(self._environ.get("NO_COLOR"))
        with Progress(*columns, console=RichConsole(stderr=True, no_color=plain), transient=True) as bars:
            tasks: dict[tuple[str, int], TaskID] = {}

            def report(what: str, done: int, total: int) -> None:
                key = (what, total)
                if key not in tasks:
                    tasks[key] = bars.add_task(what, total=total)
                bars.update(tasks[key], completed=done)

            yield report

    def ask_secret(self, prompt: str) -> str:
        """Ask a person for a secret, without showing it."""
        import getpass

        return getpass.getpass(prompt)

    def _stderr(self, text: str, sign: str = "", colour: str = "") -> None:
        painted = f"{self._paint(sign, colour)} " if sign else ""
        try:
            print(painted + _printable(text, sys.stderr), file=sys.stderr, flush=True)
        except OSError:
            sys.stderr = _nowhere()  # nobody is left to be told

    def _paint(self, text: str, colour: str) -> str:
        if self._environ.get("NO_COLOR") or not sys.stderr.isatty():
            return text
        return f"\x1b[{_BOLD};{colour}m{text}\x1b[0m"


def open_missing_streams() -> None:
    """Open the standard streams that this process was started without, on nothing.

    Without this, the next file or socket that is opened would take the number of such a stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123 - it stays open until the end
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w")  # noqa: PTH123 - it stays open until the end


def _to_stdout(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        sys.stdout = _nowhere()


def problem_of(error: PlugregError) -> dict[str, object]:
    """Return the problem document of an error, in the shape that the registry's API has (RFC 9457)."""
    return {
        **error.details,
        "type": "about:blank",
        "title": HTTPStatus(status_of(error)).phrase,
        "status": status_of(error),
        "code": error.code,
        "detail": error.message,
        "hint": error.hint,
        "errors": [finding.as_dict() for finding in error.findings],
        "request_id": str(error.details.get("request_id", "")),
        "retryable": isinstance(error, Temporary),
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _printable(text: str, stream: TextIO) -> str:
    """Replace what would move a terminal's cursor or colour it, and what the stream's encoding cannot carry.

    Words of strangers (descriptions, reasons, problem documents) go through here, so no escape ever passes.
    """
    safe = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return safe.encode(encoding, "replace").decode(encoding)
