"""The parser of the whole command line. Handlers are imported only when their command runs."""

from __future__ import annotations

import argparse

from plugreg.cli.parsing import Parser, Version
from plugreg.cli.words.authoring import add_authoring, add_publishing
from plugreg.cli.words.carrying import add_carrying
from plugreg.cli.words.consuming import add_consuming
from plugreg.cli.words.locking import add_locking
from plugreg.cli.words.registry import add_registry
from plugreg.cli.words.running import add_running
from plugreg.cli.words.searching import add_searching


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="plugreg",
        description="Publish, install and run plugins for AI agents. "
        "Every plugin is signed, and verified before it is used.",
        epilog="First steps: `plugreg init my-plugin`, `plugreg check my-plugin`; "
        "for users: `plugreg registry add URL`, `plugreg install NAME`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_authoring(commands)
    add_publishing(commands)
    add_registry(commands)
    add_searching(commands)
    add_consuming(commands)
    add_carrying(commands)
    add_locking(commands)
    add_running(commands)
    return parser
