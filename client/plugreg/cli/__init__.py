"""The command line: arguments, exit codes, and nothing else. Operations do the work, `console` prints.

authoring   init, check, pack, key, publish, yank, unyank, deprecate, owner, moderate
registry    registry add, list, remove
searching   search
consuming   info, install, update, uninstall, list, verify
locking     rollback, lock, sync
resolving   resolve, deps
running     plan, tools, call
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Final

from plugreg.cli.parser import build_parser
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NoSpace,
    NotAllowed,
    NotAvailable,
    PlugregError,
    ResolutionError,
    Temporary,
    UsageError,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from plugreg.console import Console

EXIT_CODES: Final[tuple[tuple[type[PlugregError], int], ...]] = (
    (UsageError, 2),
    (InvalidInput, 3),
    (IntegrityError, 4),
    (ResolutionError, 5),
    (NotAllowed, 6),
    (NotAvailable, 7),
    (Temporary, 8),
)
EXIT_INTERNAL: Final = 1
EXIT_INTERRUPTED: Final = 130
DEBUG: Final = "PLUGREG_DEBUG"
"""The variable that shows where a fault of plugreg itself comes from."""


def exit_code(error: PlugregError) -> int:
    """Return the exit code of an error."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), EXIT_INTERNAL)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        from plugreg.console import open_missing_streams

        open_missing_streams()
    try:
        arguments = _parsed(words)
    except UsageError as error:
        from plugreg.console import Console

        return _refused(error, Console(os.environ, as_json="--json" in words))
    except OSError as error:
        from plugreg.console import Console

        _give_up_stdout()
        return 0 if isinstance(error, BrokenPipeError) else _refused(_of_system(error), Console(os.environ))
    from plugreg.console import Console

    return _run(arguments, Console(os.environ, as_json=getattr(arguments, "json", False)))


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command. Help and version are flushed, so that a stream that takes nothing is noticed."""
    try:
        return build_parser().parse_args(words)
    except SystemExit:
        sys.stdout.flush()
        raise


def _run(arguments: argparse.Namespace, console: Console) -> int:
    try:
        code: int = arguments.run(arguments, console)
    except PlugregError as error:
        return _refused(error, console)
    except KeyboardInterrupt:
        console.note("interrupted")
        return EXIT_INTERRUPTED
    except OSError as error:
        return _refused(_of_system(error), console)
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return _refused(_of_ourselves(error), console)
    return code


def _refused(error: PlugregError, console: Console) -> int:
    try:
        console.error(error)
    except OSError:
        from plugreg.console import Console as Words

        _give_up_stdout()
        Words(os.environ).error(error)
    return exit_code(error)


def _give_up_stdout() -> None:
    """Point stdout nowhere, so that the interpreter's last flush of what nobody takes fails nowhere."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - it stays open until the end


def _of_ourselves(error: Exception) -> PlugregError:
    message = f"plugreg failed, and that is its own fault: {type(error).__name__}"
    return PlugregError("internal_error", message, hint=f"please report it with what `{DEBUG}=1` shows")


def _of_system(error: OSError) -> PlugregError:
    """Say in our own words what the operating system refused."""
    place = f" `{error.filename}`" if error.filename else ""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return NoSpace("disk_full", f"there is no space left on the disk for{place or ' a file'}")
    return NotAvailable("file_unavailable", f"cannot use{place or ' a file'}: {error.strerror or error}")
