"""Keep the help texts shown in the documents equal to what the programs print.

A block lies between two comments in `README.md` or `docs/*.md`; what stands between them is replaced:

    <!-- help: plugreg install -->
    (a fenced block with the output of `plugreg install --help`, 100 columns wide)
    <!-- /help -->

`python docs/help_blocks.py` rewrites the blocks, with `--check` it only compares and exits 1 on a difference.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {
    "plugreg": "from plugreg.cli import main",
    "plugreg-registry": "from plugreg_registry.__main__ import main",
}
MARK = re.compile(r"^<!-- (?:help: .*|/help) -->$", re.MULTILINE)
BLOCK = re.compile(
    r"^<!-- help: (?P<command>[^\n]+?) -->\n(?P<body>(?:(?!<!-- /?help)[^\n]*\n)*)<!-- /help -->$",
    re.MULTILINE,
)


def help_of(command: str) -> str:
    """Return the fenced output of `<command> --help`.

    Raises `ValueError` when the command is not one of ours or its help fails.
    """
    program, *words = shlex.split(command)
    if program not in PROGRAMS:
        message = f"`{command}` does not begin with one of: {', '.join(PROGRAMS)}"
        raise ValueError(message)
    # The console scripts do the same; this way works before they are installed, and names the program alike.
    script = f"import sys; {PROGRAMS[program]}; sys.argv[0] = {program!r}; sys.exit(main())"
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "--help"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"`{command} --help` failed with exit code {done.returncode}:\n{done.stderr}"
        raise ValueError(message)
    lines = "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
    return f"```text\n$ {command} --help\n{lines}\n```\n"


def regenerated(text: str) -> str:
    """Return the document with every block remade.

    Raises `ValueError` for a mark without its partner, and as `help_of`.
    """
    if len(MARK.findall(text)) != 2 * len(BLOCK.findall(text)):
        message = "a `<!-- help: ... -->` without its `<!-- /help -->`, or the other way round"
        raise ValueError(message)
    return BLOCK.sub(lambda m: f"<!-- help: {m['command']} -->\n{help_of(m['command'])}<!-- /help -->", text)


def main() -> int:
    """Rewrite or check the documents; the exit code is 1 when a check found a difference or a fault."""
    parser = argparse.ArgumentParser(description="Keep the help texts in the documents up to date.")
    parser.add_argument("--check", action="store_true", help="compare only, exit 1 on a difference")
    check = parser.parse_args().check
    failed = False
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        name = document.relative_to(ROOT)
        if not document.exists():
            continue
        before = document.read_text(encoding="utf-8")
        try:
            after = regenerated(before)
        except ValueError as fault:
            print(f"error: {name}: {fault}", file=sys.stderr)
            failed = True
            continue
        if after == before:
            continue
        if check:
            print(f"error: {name}: a help text is out of date\nhint: run `make docs`", file=sys.stderr)
            failed = True
        else:
            document.write_text(after, encoding="utf-8")
            print(f"rewrote {name}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
