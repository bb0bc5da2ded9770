"""Words for users who keep to releases: rollback, lock, sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import (
    accept_options,
    accept_root_option,
    ca_option,
    command,
    offline_options,
    quarantine_option,
    registry_option,
    root_option,
    trust_option,
    yes_option,
)

if TYPE_CHECKING:
    from plugreg.cli.parsing import Commands


def add_locking(commands: Commands) -> None:
    """Add rollback, lock and sync."""
    rollback = command(
        commands,
        "locking.rollback rollback",
        "go back to the release that a plugin had before; its data stays",
        "plugreg rollback lint3r",
    )
    rollback.add_argument("name", metavar="NAME", help="the plugin")
    root_option(rollback)
    ca_option(rollback)
    trust_option(rollback)
    accept_options(rollback)
    yes_option(rollback)
    lock = command(
        commands,
        "locking.lock lock",
        "write down in `plugreg.lock` which releases are used, to be obeyed elsewhere",
        "plugreg lock",
    )
    lock.add_argument(
        "refs",
        metavar="NAME[@RANGE]",
        nargs="*",
        help="plugins to lock without installing them (default: all that are installed)",
    )
    lock.add_argument("--pre", action="store_true", help="prereleases too")
    registry_option(lock)
    offline_options(lock)
    root_option(lock)
    trust_option(lock)
    accept_options(lock)
    sync = command(
        commands,
        "locking.sync sync",
        "install exactly what `plugreg.lock` says; other plugins stay as they are",
        "plugreg sync",
    )
    quarantine_option(sync)
    registry_option(sync)
    offline_options(sync)
    root_option(sync)
    trust_option(sync)
    accept_options(sync)
    accept_root_option(sync)
    yes_option(sync)
