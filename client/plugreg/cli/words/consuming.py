"""Words for users: info, resolve, deps, install, update, uninstall, mirror, list, verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import (
    accept_options,
    accept_root_option,
    command,
    offline_options,
    quarantine_option,
    registry_option,
    root_option,
    trust_option,
    yes_option,
)

if TYPE_CHECKING:
    import argparse

    from plugreg.cli.parsing import Commands


def add_consuming(commands: Commands) -> None:
    """Add info, resolve, deps, install, update, uninstall, mirror, list and verify."""
    info = command(
        commands,
        "consuming.info info",
        "show a plugin: versions, signer, what it needs here",
        "plugreg info lint3r@^1.2",
    )
    info.add_argument("ref", metavar="NAME[@V]", help="the plugin, and a version or range")
    registry_option(info)
    offline_options(info)
    trust_option(info)

    _resolving(commands)

    install = command(
        commands, "consuming.install install", "install plugins", "plugreg install lint3r notes@^2"
    )
    install.add_argument(
        "refs", metavar="NAME[@RANGE]", nargs="+", help="a plugin, and the versions to choose from"
    )
    quarantine_option(install)
    install.add_argument(
        "--frozen",
        action="store_true",
        help="only as `plugreg.lock` in this folder says, also from a registry that is not renewed any more",
    )
    _installing_options(install)
    update = command(
        commands,
        "consuming.update update",
        "update plugins within the range they were installed with",
        "plugreg update",
    )
    update.add_argument("names", metavar="NAME", nargs="*", help="plugins (default: all)")
    _installing_options(update)

    uninstall = command(
        commands,
        "consuming.uninstall uninstall",
        "remove plugins; their data stays",
        "plugreg uninstall lint3r",
    )
    uninstall.add_argument("names", metavar="NAME", nargs="+", help="plugins")
    uninstall.add_argument(
        "--purge-data", action="store_true", help="delete the plugins' data too; there is no way back"
    )
    root_option(uninstall)
    yes_option(uninstall)

    mirror = command(
        commands,
        "consuming.mirror mirror",
        "copy what a registry offers into a folder, for machines without a network",
        "plugreg mirror /srv/plugins --registry team",
    )
    mirror.add_argument("folder", metavar="DIR", help="the folder; it is empty, or such a copy already")
    mirror.add_argument("names", metavar="NAME", nargs="*", help="plugins (default: all)")
    registry_option(mirror)

    listing = command(commands, "consuming.list_installed list", "list the installed plugins", "plugreg list")
    root_option(listing)
    verify = command(
        commands,
        "consuming.verify verify",
        "verify installed plugins: every file, every signature",
        "plugreg verify",
    )
    verify.add_argument("names", metavar="NAME", nargs="*", help="plugins (default: all)")
    root_option(verify)
    trust_option(verify)


def _resolving(commands: Commands) -> None:
    deps = command(
        commands,
        "resolving.deps deps",
        "show which plugins a plugin depends on, and whether they are there",
        "plugreg deps lint3r",
    )
    deps.add_argument(
        "target",
        metavar="NAME|PATH",
        help="an installed plugin, one of a registry, a plugin's folder, a bundle",
    )
    root_option(deps)
    registry_option(deps)
    offline_options(deps)
    resolve = command(
        commands,
        "resolving.resolve resolve",
        "say which runtime a host uses, and why not the others",
        "plugreg resolve lint3r --language python",
    )
    resolve.add_argument(
        "target", metavar="NAME[@V]|PATH", help="a plugin of a registry, a plugin's folder, or a bundle"
    )
    resolve.add_argument(
        "--language",
        metavar="L",
        default=None,
        help="the host's language: python, typescript, go, rust, java, csharp",
    )
    resolve.add_argument(
        "--host", metavar="H", default=None, help="a host by its name: cursor, claude-code, chatgpt, ..."
    )
    resolve.add_argument(
        "--supports",
        metavar="a,b",
        default=None,
        help="the runtimes that it supports (default: all of the language's or host's)",
    )
    resolve.add_argument(
        "--prefer", metavar="a,b", default=None, help="an order of runtimes, which wins over every other"
    )
    resolve.add_argument(
        "--isolate", action="store_true", help="the plugin must not run inside the host's process"
    )
    resolve.add_argument(
        "--core-version",
        metavar="V",
        default=None,
        help="the version of the host's core (default: not checked)",
    )
    resolve.add_argument(
        "--kinds",
        dest="kind",
        metavar="a,b",
        default=None,
        help="the kinds of plugin that it has a use for (default: not checked)",
    )
    resolve.add_argument(
        "--platform",
        metavar="P",
        default=None,
        help="where it runs, such as linux-x86_64 (default: not checked)",
    )
    resolve.add_argument(
        "--environment",
        choices=["dev", "production"],
        default=None,
        help="production forbids unprotected connections",
    )
    resolve.add_argument(
        "--tunnel",
        choices=["none", "read-only", "read-write"],
        default=None,
        help="opt in to a tunnel from a web host to this machine",
    )
    registry_option(resolve)
    offline_options(resolve)


def _installing_options(parser: argparse.ArgumentParser) -> None:
    registry_option(parser)
    offline_options(parser)
    root_option(parser)
    trust_option(parser)
    parser.add_argument("--pre", action="store_true", help="prereleases too")
    accept_options(parser)
    accept_root_option(parser)
    yes_option(parser)
