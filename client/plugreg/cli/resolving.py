"""Commands that answer what a plugin needs: resolve (which runtime a host uses), deps (other plugins)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from plugreg import config
from plugreg.registries import Registries

if TYPE_CHECKING:
    import argparse

    from plugreg.console import Console
    from plugreg.dependencies import Line
    from plugreg_schemas.resolve import Resolution

WORDS: Final = (
    "host",
    "language",
    "supports",
    "prefer",
    "kind",
    "core_version",
    "platform",
    "tunnel",
    "environment",
)
"""The options that describe a host; in a registry's query they have the same names."""


def resolve(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg resolve`."""
    from plugreg.cli import exit_code
    from plugreg.resolving import resolve_target
    from plugreg_schemas.errors import ResolutionError
    from plugreg_schemas.hosts import host_from

    words = {key: [value] for key in WORDS if (value := getattr(args, key)) is not None}
    host = host_from(words | ({"isolate": ["true"]} if args.isolate else {}))
    settings = config.of_command(args, os.environ)
    found = resolve_target(args.target, host, Registries(settings, console.note).remotes, os.environ)
    _say(found, console)
    console.result(found.as_dict())
    try:
        found.require()
    except ResolutionError as error:
        # A program has the answer already, with its code: one value on standard output is all it gets.
        if not console.as_json:
            console.error(error)
        return exit_code(error)
    return 0


def _say(found: Resolution, console: Console) -> None:
    console.say(f"{found.plugin} {found.version}".rstrip())
    for outcome in found.components:
        console.say(f"  {outcome.id}: {outcome.runtime or 'nothing'}")
        for refusal in outcome.refusals:
            console.say(f"    not {refusal.runtime}: {refusal.reason} [{refusal.code}]")
    if found.has_skills:
        console.say("  skills: usable by every host")


def deps(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg deps`."""
    from plugreg.dependencies import report
    from plugreg.plugins_root import PluginsRoot

    settings = config.of_command(args, os.environ)
    found = report(args.target, PluginsRoot.at(settings.root), Registries(settings, console.note).remotes)
    console.say(f"{found.plugin.name} {found.plugin.version}".rstrip())
    for line in found.tree:
        console.say("  " * line.depth + _words(line))
    if not found.tree:
        console.say("  depends on no other plugin")
    elif len(found.order) > 1:
        console.say(f"order: {', '.join(found.order)}")
    console.result(found.as_dict())
    return 0


def _words(line: Line) -> str:
    need = line.need
    wanted = " ".join(word for word in (need.name, need.range, f"({need.kind})" if need.kind else "") if word)
    seen = ", see above" if line.seen else ""
    return f"{wanted}: {' '.join(word for word in (line.state, line.version) if word)}{seen}"
