"""Commands for users who keep to releases: rollback, lock, sync."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg import config
from plugreg.cli.consuming import options_of, root_of, say_installed
from plugreg.lock_file import FILE, FORMAT, LockFile, read_lock, write_lock
from plugreg.registries import Registries
from plugreg_schemas.names import PluginName, Ref

if TYPE_CHECKING:
    import argparse

    from plugreg.console import Console

LOCK = Path(FILE)
"""The lock file of the current folder."""


def rollback(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg rollback`."""
    from plugreg import rollback as going_back
    from plugreg.starting import said_against

    name = PluginName(args.name)
    settings = config.of_command(args, os.environ)
    done = going_back.rollback(
        root_of(settings),
        name,
        options=options_of(args, settings),
        against=partial(said_against, settings),
        say=console.note,
    )
    return say_installed(console, done)


def lock(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg lock`."""
    from plugreg import locked

    refs = [Ref.parse(text) for text in args.refs]
    settings = config.of_command(args, os.environ)
    if refs:
        made = locked.lock_named(
            root_of(settings),
            refs,
            Registries(settings, console.note).remotes(),
            settings.home,
            before=read_lock(LOCK) if os.path.lexists(LOCK) else LockFile(version=FORMAT),
            options=options_of(args, settings),
            say=console.note,
        )
    else:
        made = locked.lock_installed(root_of(settings), settings.home)
    changed = write_lock(LOCK, made)
    plural = "" if len(made.plugins) == 1 else "s"
    console.say(f"{'locked' if changed else 'unchanged:'} {len(made.plugins)} plugin{plural} in {LOCK}")
    for name, row in sorted(made.plugins.items()):
        console.say(f"  {name} {row.version}")
    console.result({"path": str(LOCK.absolute()), "changed": changed, **made.as_dict()})
    return 0


def sync(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg sync`."""
    from plugreg import locked

    settings = config.of_command(args, os.environ)
    wanted = read_lock(LOCK)
    with console.progress() as progress:
        done = locked.sync(
            root_of(settings),
            wanted,
            Registries(settings, console.note, wanted).remotes(),
            options=options_of(args, settings),
            say=console.note,
            progress=progress,
        )
    if all(row.change == "unchanged" for row in done.installed):
        console.say(f"nothing to do: all is as {LOCK} says")
    return say_installed(console, done)
