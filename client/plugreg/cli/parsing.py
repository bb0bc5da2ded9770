"""What the words of the command line are made of: commands, groups, and the options that many share."""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from plugreg_schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg.console import Console

    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - it has no public name
    Handler = Callable[[argparse.Namespace, Console], int]


class Parser(argparse.ArgumentParser):
    """An argument parser that speaks as the rest of plugreg does."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - whatever argparse passes on
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError("usage_invalid", message, hint=f"`{self.prog} --help` explains the command")


class Version(argparse.Action):
    """Print the version; the lookup costs time, so it is made only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("plugreg")
        except PackageNotFoundError:
            found = "unknown (not installed)"
        sys.stdout.write(f"plugreg {found}\n")
        parser.exit(0)


def command(
    commands: Commands, words: str, summary: str, example: str, *, json: bool = True
) -> argparse.ArgumentParser:
    """Add one command; `words` is `module.handler name`: the module is imported only to run it."""
    handler, name = words.split(" ")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=functools.partial(_run, handler))
    if json:
        parser.add_argument("--json", action="store_true", help="print one JSON value, for programs")
    return parser


def _run(handler: str, arguments: argparse.Namespace, console: Console) -> int:
    """Import the module of a handler and call it."""
    module, _, function = handler.partition(".")
    found: Handler = getattr(importlib.import_module(f"plugreg.cli.{module}"), function)
    return found(arguments, console)


def group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a command that has commands of its own."""
    parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    found: Commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return found


def registry_option(parser: argparse.ArgumentParser) -> None:
    """Add `--registry` and `--ca-file`."""
    parser.add_argument(
        "--registry", metavar="NAME|URL", default="", help="the registry to use (default: PLUGREG_REGISTRY)"
    )
    ca_option(parser)


def offline_options(parser: argparse.ArgumentParser) -> None:
    """Add `--offline` and `--allow-old-index`."""
    parser.add_argument(
        "--offline", action="store_true", help="ask nobody: use what this machine has already verified"
    )
    parser.add_argument(
        "--allow-old-index",
        action="store_true",
        help="without a network, accept an index that is older than a year",
    )


def ca_option(parser: argparse.ArgumentParser) -> None:
    """Add `--ca-file`."""
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        default="",
        help="the certificate authorities to believe, in PEM form "
        "(default: PLUGREG_CA_FILE, SSL_CERT_FILE, REQUESTS_CA_BUNDLE, else the system's)",
    )


def root_option(parser: argparse.ArgumentParser) -> None:
    """Add `--root`."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        default="",
        help="the plugins root (default: PLUGREG_ROOT or ~/.agents/plugins)",
    )


def environment_option(parser: argparse.ArgumentParser) -> None:
    """Add `--inherit-env`."""
    parser.add_argument(
        "--inherit-env",
        action="store_true",
        help="give a plugin that expects it the whole environment, secrets included",
    )


def yes_option(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`."""
    parser.add_argument(
        "--yes",
        action="store_true",
        help="answer questions with yes; never accepts another signer, registry or root",
    )


def quarantine_option(parser: argparse.ArgumentParser) -> None:
    """Add `--allow-quarantined`."""
    parser.add_argument(
        "--allow-quarantined",
        metavar="REASON",
        default="",
        help="install a plugin that the registry holds in quarantine; the reason is recorded",
    )


def accept_options(parser: argparse.ArgumentParser) -> None:
    """Add `--accept-signer` and `--accept-registry`."""
    parser.add_argument(
        "--accept-signer",
        metavar="ID",
        default="",
        help="accept this signer in place of the one that the plugin had, or where first uses are refused",
    )
    parser.add_argument(
        "--accept-registry",
        metavar="ID",
        default="",
        help="accept that the plugin now comes from this registry",
    )


def accept_root_option(parser: argparse.ArgumentParser) -> None:
    """Add `--accept-root`."""
    parser.add_argument(
        "--accept-root",
        metavar="DIGEST",
        default="",
        help="accept that the registry now has this root, and no longer the pinned one",
    )


def signing_options(parser: argparse.ArgumentParser) -> None:
    """Add `--key`, `--timestamp-url`, `--identity-token-file`, `--oob` and `--trust-config`."""
    parser.add_argument(
        "--key",
        metavar="NAME|FILE|URI",
        default="",
        help="the key to sign with; a URI names one that is kept elsewhere, such as `awskms:alias/plugins` "
        "(default: the CI's identity, else the only key there is)",
    )
    parser.add_argument(
        "--timestamp-url",
        metavar="URL",
        default="",
        help="prove the time of a signature by a key, at this timestamp authority "
        "(default: PLUGREG_TIMESTAMP_URL, else no timestamp)",
    )
    parser.add_argument(
        "--identity-token-file",
        metavar="FILE|-",
        default="",
        help="sign without a key, by an identity token for the audience `sigstore` "
        "(default: PLUGREG_IDENTITY_TOKEN)",
    )
    parser.add_argument(
        "--oob", action="store_true", help="log in by a code to copy, without a browser on this machine"
    )
    trust_option(parser)


def trust_option(parser: argparse.ArgumentParser) -> None:
    """Add `--trust-config`."""
    parser.add_argument(
        "--trust-config",
        metavar="FILE",
        default="",
        help="the trust configuration of a Sigstore of your own "
        "(default: PLUGREG_TRUST_CONFIG, else the public one)",
    )
