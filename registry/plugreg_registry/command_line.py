"""What can be typed after `plugreg-registry`: words in, checked values out."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from plugreg_registry.records import Scope
from plugreg_registry.settings import DEFAULT_DATA, DEFAULT_HOST, DEFAULT_PORT, PREFIX
from plugreg_registry.version import installed_version
from plugreg_schemas.errors import UsageError
from plugreg_schemas.index import Level, Revocation

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_WORKERS: Final = 64
DEFAULT_GRACE: Final = 24
LEAST_GRACE: Final = 2
"""Hours: longer than a publish may take, and than clocks may differ."""
MOST_GRACE: Final = 87_600
KINDS: Final = get_args(Revocation.model_fields["kind"].annotation)
"""What can be revoked."""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return what was typed; `command` is the command's name. Nonsense ends the process with exit code 2.

    Raises:
        UsageError: `roles_not_wanted`, `revoke_unclear`: words that do not belong together.
    """
    arguments = _parser().parse_args(argv)
    if arguments.command == "rotate":
        _check_rotate(arguments)
    elif arguments.command == "revoke":
        _check_revoke(arguments)
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plugreg-registry",
        description="Run a registry of agent plugins.",
        epilog=f"Example: plugreg-registry serve --data ./data\nSettings: environment variables {PREFIX}*.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"plugreg-registry {installed_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    init = _command(commands, "init", "make a data folder", "plugreg-registry init --data /srv/plugreg")
    init.add_argument(
        "--id", metavar="ORIGIN", help="an https origin as the registry's id; default a new urn:uuid"
    )

    serve = _command(
        commands,
        "serve",
        "serve a data folder, making it if need be",
        "plugreg-registry serve --port 8470",
    )
    serve.add_argument("--host", default=DEFAULT_HOST, help=f"address to listen on (default {DEFAULT_HOST})")
    serve.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0 takes a free one"
    )
    serve.add_argument("--workers", type=_workers, default=1, metavar="N", help="processes (default 1)")

    _command(commands, "migrate", "bring the tables to this version", "plugreg-registry migrate")
    _add_rotate(commands)
    _add_revoke(commands)
    _add_token(commands)
    _add_keeping(commands)
    return parser


def _add_rotate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rotate = _command(
        commands,
        "rotate",
        "give roles of the signed index new keys, and sign the admins and the trust configuration anew",
        "plugreg-registry rotate --offline-keys /media/usb/offline",
    )
    rotate.add_argument(
        "roles",
        nargs="*",
        metavar="ROLE",
        help="root, targets, snapshot, timestamp, index or revocations; default the last four",
    )
    rotate.add_argument(
        "--keep-keys",
        action="store_true",
        help=f"no new keys: only sign {PREFIX}ADMINS and {PREFIX}TRUST_CONFIG anew, for two more years",
    )
    rotate.add_argument(
        "--offline-keys",
        type=Path,
        metavar="DIR",
        help="folder of the keys of root and targets (default: the folder `offline` beside the others)",
    )


def _add_revoke(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    revoke = _command(
        commands,
        "revoke",
        "say that something is not to be used any more, also where it is installed",
        'plugreg-registry revoke signer key:sha256:... --level refuse --reason "the key was stolen"',
    )
    revoke.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help="digest, signer or name")
    revoke.add_argument("value", nargs="?", metavar="VALUE", help="a digest, an identity, or a plugin's name")
    revoke.add_argument("--level", choices=get_args(Level), help="what happens to it")
    revoke.add_argument("--reason", metavar="TEXT", help="one line, shown to people")
    revoke.add_argument("--before", type=_time, metavar="TIME", help="what was signed earlier is not touched")
    revoke.add_argument("--expires", type=_time, metavar="TIME", help="from then on it has no effect")
    revoke.add_argument("--close", action="store_true", help="end the entry for this value now")
    revoke.add_argument("--list", action="store_true", help="show what is revoked")
    revoke.add_argument("--json", action="store_true", help="with `--list`: the list as it is signed")


def _add_token(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "give out what lets people and machines read here"
    token = commands.add_parser("token", help=summary, description=summary)
    actions = token.add_subparsers(required=True, metavar="ACTION", dest="action")
    add = _command(
        actions,
        "add",
        "make a token; its secret is printed once, and only its hash is kept",
        "plugreg-registry token add ci > token && chmod 600 token",
    )
    add.add_argument("name", metavar="NAME", help="whose it is, for the list")
    add.add_argument(
        "--scope",
        choices=get_args(Scope),
        default="read",
        help="read whatever is offered (default), or see in addition who has done what",
    )
    add.add_argument("--expires", type=_time, metavar="TIME", help="from then on it opens nothing")
    shown = _command(actions, "list", "show the tokens, not their secrets", "plugreg-registry token list")
    shown.add_argument("--json", action="store_true", help="as one JSON object")
    remove = _command(actions, "remove", "take a token back", "plugreg-registry token remove 1f9ab2c4")
    remove.add_argument("id", metavar="ID", help="the id that `token list` shows")
    for parser in (add, shown, remove):
        parser.set_defaults(command="token")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=summary, epilog=f"Example: {example}")
    parser.add_argument(
        "--data", metavar="DIR", help=f"data folder (default {PREFIX}DATA, else ./{DEFAULT_DATA})"
    )
    parser.set_defaults(command=name)
    return parser


def _add_keeping(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    gc = _command(
        commands,
        "gc",
        "remove bundles, statements and uploads that nothing names any more; publishes go on meanwhile",
        "plugreg-registry gc --dry-run",
    )
    gc.add_argument(
        "--grace",
        type=_hours,
        default=DEFAULT_GRACE,
        metavar="HOURS",
        help=f"spare what is newer (default {DEFAULT_GRACE}, at least {LEAST_GRACE})",
    )
    gc.add_argument("--dry-run", action="store_true", help="only say what would be removed")

    backup = _command(
        commands,
        "backup",
        "copy the registry into a folder while it serves, and check the copy; "
        "what is there from the last time is not copied again",
        "plugreg-registry backup /backup/plugreg",
    )
    backup.add_argument("folder", type=Path, metavar="DIR", help="an empty folder, or the last backup's")
    backup.add_argument(
        "--keys", action="store_true", help="copy the online keys of the index too: then keep the copy secret"
    )

    restore = _command(
        commands,
        "restore",
        "bring a registry back from a backup, into places that hold none",
        "plugreg-registry restore /backup/plugreg --data /srv/plugreg",
    )
    restore.add_argument("folder", type=Path, metavar="DIR", help="the folder of the backup")
    restore.add_argument(
        "--keys", type=Path, metavar="KEYS", help="folder of the online keys (default: those in the backup)"
    )
    age = restore.add_mutually_exclusive_group()
    age.add_argument(
        "--compare",
        type=Path,
        metavar="OBJECTS",
        help="folder with what is left of the objects, or a mirror: says what is lost",
    )
    age.add_argument(
        "--unchanged",
        action="store_true",
        help="nothing was accepted after the backup: sign nothing again, every byte is as it was",
    )
    for parser in (gc, backup, restore):
        parser.add_argument("--json", action="store_true", help="say it as one JSON object")


def _hours(text: str) -> int:
    return _number(text, LEAST_GRACE, MOST_GRACE)


def _number(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"write a number from {least} to {most}, not `{text}`")
    return int(text)


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"write a time such as `2026-01-31T12:00:00Z`, not `{text}`")
    return time


def _port(text: str) -> int:
    return _number(text, 0, 65535)


def _workers(text: str) -> int:
    return _number(text, 1, MAX_WORKERS)


def _check_rotate(arguments: argparse.Namespace) -> None:
    if arguments.keep_keys and arguments.roles:
        raise UsageError(
            "roles_not_wanted",
            "`--keep-keys` keeps all keys, so no role can be named with it",
            hint="name the roles that get new keys, or leave them away",
        )


def _check_revoke(arguments: argparse.Namespace) -> None:
    """Refuse words that do not belong together: three commands share one name."""
    entry = {"KIND": arguments.kind, "VALUE": arguments.value, "--reason": arguments.reason}
    strength = {"--level": arguments.level}
    times = {"--before": arguments.before, "--expires": arguments.expires}
    if arguments.list:
        wanted, unwanted, what = {}, entry | strength | times, "revoke --list"
    elif arguments.close:
        wanted, unwanted, what = entry, strength | times, "revoke --close"
    else:
        wanted, unwanted, what = entry | strength, {}, "revoke"
    missing = [word for word, given in wanted.items() if given is None]
    needless = [word for word, given in unwanted.items() if given is not None]
    if missing or needless:
        rather = f"needs `{missing[0]}`" if missing else f"does not take `{needless[0]}`"
        raise UsageError(
            "revoke_unclear", f"`{what}` {rather}", hint="`plugreg-registry revoke --help` has examples"
        )
