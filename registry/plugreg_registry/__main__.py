"""The command `plugreg-registry`: what operators type.

    init      make a data folder: tables and the registry's id
    serve     serve it, after making it if need be
    migrate   bring its tables to this version

Errors go to standard error as `error:` and `hint:`; the exit code says what to do next.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from plugreg_registry.settings import (
    DEFAULT_DATA,
    DEFAULT_HOST,
    DEFAULT_PORT,
    PREFIX,
    check_exposure,
    read_settings,
    unknown_settings,
)
from plugreg_registry.version import installed_version
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NotAllowed,
    NotAvailable,
    PlugregError,
    ResolutionError,
    Temporary,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugreg_registry.settings import Settings

EXIT: Final[Mapping[type[PlugregError], int]] = {
    UsageError: 2,
    InvalidInput: 3,
    IntegrityError: 4,
    ResolutionError: 5,
    NotAllowed: 6,
    NotAvailable: 7,
    Temporary: 8,
}
BACKLOG: Final = 2048
KEEP_ALIVE_SECONDS: Final = 20
SHUTDOWN_SECONDS: Final = 10
"""How long requests may go on after a SIGTERM."""
MAX_WORKERS: Final = 64


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], None] = arguments.run
    try:
        command(arguments)
    except PlugregError as error:
        return _complain(error)
    except ModuleNotFoundError as error:
        return _complain(
            UsageError(
                "extra_missing",
                f"the module `{error.name}` is not installed",
                hint="a registry needs the extra: `pip install 'plugreg[registry]'`",
            )
        )
    except KeyboardInterrupt:
        return 130
    return 0


def _init(arguments: argparse.Namespace) -> None:
    from plugreg_registry.app import prepare  # noqa: PLC0415 - the server's imports take a while

    settings = _settings(arguments)
    ref = prepare(settings, arguments.id)
    _say(f"registry  {ref.id}", f"data      {settings.data}", "next      plugreg-registry serve")


def _migrate(arguments: argparse.Namespace) -> None:
    from plugreg_registry.metadata.migrate import HEAD, migrate  # noqa: PLC0415 - as above

    settings = _settings(arguments)
    if not settings.data.is_dir():
        raise UsageError(
            "data_missing",
            f"there is no data folder `{settings.data}`",
            hint="`plugreg-registry init` makes one; `--data` names another",
        )
    done = migrate(settings.database)
    _say(f"database  {settings.database}", f"revision  {HEAD}{'' if done else ' already'}")


def _serve(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments)
    check_exposure(settings, arguments.host)
    listening = _listen(arguments.host, arguments.port)
    from plugreg_registry.app import prepare  # noqa: PLC0415 - as above
    from plugreg_registry.front import log_to_stderr  # noqa: PLC0415

    log_to_stderr()
    ref = prepare(settings)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    _say(f"url       http://{shown}:{port}/", f"registry  {ref.id}", f"data      {settings.data}")
    _run(settings, listening, arguments.workers)


def _run(settings: Settings, listening: socket.socket, workers: int) -> None:
    import uvicorn  # noqa: PLC0415 - as above
    from uvicorn.supervisors import Multiprocess  # noqa: PLC0415

    from plugreg_registry.connections import affordable, protocol  # noqa: PLC0415

    os.environ[f"{PREFIX}DATA"] = str(settings.data)  # what worker processes read
    config = uvicorn.Config(
        "plugreg_registry.app:create",
        factory=True,
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # no client address is looked at
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        loop="uvloop" if _has("uvloop") else "asyncio",
        http=protocol(affordable(settings.connections), settings.idle_seconds),
        ws="none",
    )
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listening])
    else:
        Multiprocess(config, sockets=[listening]).run()


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        UsageError: `address_in_use`, `address_unusable`.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError("address_unusable", f"`{host}` is not an address of this machine: {error}") from None
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        code = "address_in_use" if error.errno == 98 else "address_unusable"  # noqa: PLR2004 - EADDRINUSE
        raise UsageError(
            code,
            f"cannot listen on `{host}` port `{port}`: {error.strerror}",
            hint="is a registry running already? `--port` takes another port, 0 any free one",
        ) from None
    return listening


def _has(module: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - only a server asks

    return find_spec(module) is not None


def _settings(arguments: argparse.Namespace) -> Settings:
    for name in unknown_settings(os.environ):
        sys.stderr.write(f"warning: `{name}` is not a setting of this version\n")
    return read_settings(os.environ, arguments.data)


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _complain(error: PlugregError) -> int:
    sys.stderr.write(f"error: {error.message}\n")
    if len(error.findings) > 1:
        sys.stderr.writelines(f"  {finding.message}\n" for finding in error.findings)
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")
    return next((EXIT[kind] for kind in type(error).__mro__ if kind in EXIT), 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plugreg-registry",
        description="Run a registry of agent plugins.",
        epilog=f"Example: plugreg-registry serve --data ./data\nSettings: environment variables {PREFIX}*.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"plugreg-registry {installed_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    init = _command(
        commands, "init", _init, "make a data folder", "plugreg-registry init --data /srv/plugreg"
    )
    init.add_argument(
        "--id", metavar="ORIGIN", help="an https origin as the registry's id; default a new urn:uuid"
    )

    serve = _command(
        commands,
        "serve",
        _serve,
        "serve a data folder, making it if need be",
        "plugreg-registry serve --port 8470",
    )
    serve.add_argument("--host", default=DEFAULT_HOST, help=f"address to listen on (default {DEFAULT_HOST})")
    serve.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0 takes a free one"
    )
    serve.add_argument("--workers", type=_workers, default=1, metavar="N", help="processes (default 1)")

    _command(commands, "migrate", _migrate, "bring the tables to this version", "plugreg-registry migrate")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=summary, epilog=f"Example: {example}")
    parser.add_argument(
        "--data", metavar="DIR", help=f"data folder (default {PREFIX}DATA, else ./{DEFAULT_DATA})"
    )
    parser.set_defaults(run=run)
    return parser


def _number(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"write a number from {least} to {most}, not `{text}`")
    return int(text)


def _port(text: str) -> int:
    return _number(text, 0, 65535)


def _workers(text: str) -> int:
    return _number(text, 1, MAX_WORKERS)


if __name__ == "__main__":
    sys.exit(main())
