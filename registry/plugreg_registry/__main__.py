"""The command `plugreg-registry`: what operators type.

    init      make a data folder: tables and the registry's id
    serve     serve it, after making it if need be
    migrate   bring its tables to this version
    rotate    new keys for its signed index; admins and trust configuration anew
    revoke    say that a bundle, a signer or a plugin is not to be used any more
    token     give out and take back what lets people and machines read
    gc        remove what nothing names any more
    backup    copy a registry that serves; restore brings it back, here or anywhere

Errors go to standard error as `error:` and `hint:`; the exit code says what to do next.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugreg_registry import tracing
from plugreg_registry.command_line import parse
from plugreg_registry.settings import PREFIX, check_exposure, read_settings, unknown_settings
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
    import argparse
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        arguments = parse(argv)
        _COMMANDS[arguments.command](arguments)
    except PlugregError as error:
        return _complain(error)
    except ModuleNotFoundError as error:
        return _complain(
            UsageError(
                "extra_missing",
                f"the module `{error.name}` is not installed",
                hint=f"install what is missing: `pip install 'plugreg[{_extras(error.name)}]'`",
            )
        )
    except KeyboardInterrupt:
        return 130
    return 0


def _extras(module: str | None) -> str:
    package = (module or "").partition(".")[0]
    extra = {"psycopg": "postgres", "boto3": "s3", "opentelemetry": "otel"}.get(package)
    return f"registry,{extra}" if extra else "registry"


def _init(arguments: argparse.Namespace) -> None:
    from plugreg_registry.app import prepare  # noqa: PLC0415 - the server's imports take a while

    settings = _settings(arguments)
    made = prepare(settings, arguments.id)
    data = f" --data {shlex.quote(arguments.data)}" if arguments.data else ""
    _say(
        f"registry  {made.ref.id}",
        f"data      {settings.data}",
        f"root      {made.root}",
        f"next      plugreg-registry serve{data}",
    )


def _migrate(arguments: argparse.Namespace) -> None:
    from plugreg_registry.metadata.migrate import migrate, revision_of  # noqa: PLC0415 - as above

    settings = _settings(arguments)
    if isinstance(settings.database, Path) and not settings.data.is_dir():
        raise UsageError(
            "data_missing",
            f"there is no data folder `{settings.data}`",
            hint="`plugreg-registry init` makes one; `--data` names another",
        )
    done = migrate(settings.database)
    found = revision_of(settings.database)
    _say(f"database  {settings.database}", f"revision  {found}{'' if done else ' already'}")


def _rotate(arguments: argparse.Namespace) -> None:
    from plugreg_registry.operating import default_roles, rotate  # noqa: PLC0415 - as above

    roles = () if arguments.keep_keys else arguments.roles or default_roles()
    _say(*rotate(_settings(arguments), roles, arguments.offline_keys))


def _revoke(arguments: argparse.Namespace) -> None:
    from plugreg_registry import operating  # noqa: PLC0415 - as above

    settings = _settings(arguments)
    kind, value, reason = arguments.kind, arguments.value, arguments.reason
    if arguments.list:
        _say(*operating.list_revocations(settings, as_json=arguments.json))
    elif arguments.close:
        _say(operating.close_revocation(settings, kind, value, reason=reason))
    else:
        times = {"before": arguments.before, "expires": arguments.expires}
        _say(operating.revoke(settings, kind, value, level=arguments.level, reason=reason, **times))


def _token(arguments: argparse.Namespace) -> None:
    from plugreg_registry import token_desk  # noqa: PLC0415 - as above

    settings = _settings(arguments)
    if arguments.action == "add":
        secret, said = token_desk.add(settings, arguments.name, arguments.scope, arguments.expires)
        sys.stderr.write(f"{said}\n")
        _say(secret)
    elif arguments.action == "list":
        _say(*token_desk.listed(settings, as_json=arguments.json))
    else:
        _say(token_desk.remove(settings, arguments.id))


def _gc(arguments: argparse.Namespace) -> None:
    from plugreg_registry import keeping  # noqa: PLC0415 - as above

    grace = timedelta(hours=arguments.grace)
    lines, said = keeping.collect(_settings(arguments), grace, dry_run=arguments.dry_run)
    _say(*([keeping.as_json(said)] if arguments.json else lines))


def _backup(arguments: argparse.Namespace) -> None:
    from plugreg_registry import keeping  # noqa: PLC0415 - as above

    lines, said = keeping.back_up_said(_settings(arguments), arguments.folder, keys=arguments.keys)
    _say(*([keeping.as_json(said)] if arguments.json else lines))
    keeping.check_complete(said)


def _restore(arguments: argparse.Namespace) -> None:
    from plugreg_registry import keeping  # noqa: PLC0415 - as above

    lines, said = keeping.restore_said(
        _settings(arguments),
        arguments.folder,
        keys=arguments.keys,
        compare=arguments.compare,
        unchanged=arguments.unchanged,
    )
    _say(*([keeping.as_json(said)] if arguments.json else lines))


def _serve(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments)
    check_exposure(settings, arguments.host)
    tracing.check(os.environ)
    listening = _listen(arguments.host, arguments.port)
    from plugreg_registry.app import prepare  # noqa: PLC0415 - as above
    from plugreg_registry.front import log_to_stderr  # noqa: PLC0415

    log_to_stderr()
    made = prepare(settings)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    _say(
        f"url       http://{shown}:{port}/",
        f"registry  {made.ref.id}",
        f"data      {settings.data}",
        f"root      {made.root}",
    )
    _log_start(settings, f"{shown}:{port}", arguments.workers)
    _run(settings, listening, arguments.workers)


def _log_start(settings: Settings, address: str, workers: int) -> None:
    """Say in the log what begins to serve. No secret is in it."""
    from plugreg_registry.front import LOG  # noqa: PLC0415 - as above

    operation = settings.operation
    facts = {
        "version": installed_version(),
        "address": address,
        "workers": workers,
        "data": str(settings.data),
        "objects": settings.bucket.url if settings.bucket else str(settings.objects),
        "database": str(settings.database),
        "readers": settings.readers,
        "metrics": operation.metrics,
        "drain_seconds": operation.drain_seconds,
        "purge_hook": operation.purge.host if operation.purge else "",
        "tracing": tracing.is_wanted(os.environ),
    }
    LOG.info("serving", extra={"fields": facts})


def _run(settings: Settings, listening: socket.socket, workers: int) -> None:
    import uvicorn  # noqa: PLC0415 - as above

    from plugreg_registry.connections import affordable, protocol  # noqa: PLC0415
    from plugreg_registry.draining import FINISH_SECONDS, end_quietly  # noqa: PLC0415
    from plugreg_registry.workers import serve_together  # noqa: PLC0415

    os.environ[f"{PREFIX}DATA"] = str(settings.data)  # what worker processes read
    config = uvicorn.Config(
        "plugreg_registry.app:create",
        factory=True,
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whom a proxy names is looked at by `throttle`
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FINISH_SECONDS,
        loop="uvloop" if _has("uvloop") else "asyncio",
        http=protocol(affordable(settings.connections), settings.idle_seconds),
        ws="none",
    )
    if workers == 1:
        end_quietly()
        uvicorn.Server(config).run(sockets=[listening])
    else:
        serve_together(config, listening)


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


_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], None]]] = {
    "init": _init,
    "serve": _serve,
    "migrate": _migrate,
    "rotate": _rotate,
    "revoke": _revoke,
    "token": _token,
    "gc": _gc,
    "backup": _backup,
    "restore": _restore,
}


if __name__ == "__main__":
    sys.exit(main())
