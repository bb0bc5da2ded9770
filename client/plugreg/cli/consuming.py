"""Commands for users: info, install, update, uninstall, mirror, list, verify."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg import config
from plugreg.lock_file import FILE, read_lock
from plugreg.registries import Registries
from plugreg_schemas.names import PluginName, Ref

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from plugreg.console import Console
    from plugreg.info import Info
    from plugreg.install import Installation
    from plugreg.pinning import Options
    from plugreg.plugins_root import PluginsRoot


def info(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg info`."""
    from plugreg import info as looking
    from plugreg.inventory import recorded
    from plugreg.statements import shown_owner

    ref = Ref.parse(args.ref)
    settings = config.of_command(args, os.environ)
    remotes = Registries(settings, console.note).remotes()
    found = looking.look_up(remotes, ref, os.environ)
    shown = found.as_dict()
    console.say(
        f"{shown['name']} {shown['version']}{'  YANKED: ' + found.entry.reason if found.entry.yanked else ''}"
    )
    status = found.document.status
    if status.state != "active":
        instead = f"; use {status.replacement} instead" if status.replacement else ""
        console.say(f"  status     {status.state.upper()}: {status.reason or 'no reason given'}{instead}")
    if found.revoked:
        console.say(f"  revoked    {found.revoked.level}: {found.revoked.reason}")
    if found.document.description:
        console.say(f"  {' '.join(found.document.description.split())}")
    console.say(f"  registry   {found.registry['url']} ({found.registry['id']})")
    console.say(f"  published  {shown['published_at']} by {found.signer} ({found.verdict})")
    if found.signed_at:
        console.say(f"  signed     {found.signed_at}, which is proved")
    if found.origin:
        console.say(f"  from       {found.origin}")
    _say_provenance(console, found)
    console.say(f"  digest     {shown['digest']} ({shown['size']} bytes)")
    console.say(f"  owners     {', '.join(shown_owner(owner) for owner in found.history.owners)}")
    for one in found.reassigned:
        console.say(f"  reassigned at {one.as_dict()['at']} by the administrator {one.by}: {one.reason}")
    for component in found.entry.components:
        console.say(f"  server     {component.id}: {' or '.join(component.runtimes)}")
    console.say(f"  skills     {found.entry.counts.skills}")
    say_launchers(console, found.launchers)
    versions = [v.version + (" (yanked)" if v.yanked else "") for v in reversed(found.document.versions)]
    console.say(f"  versions   {', '.join(versions[:10])}{' ...' if len(versions) > 10 else ''}")  # noqa: PLR2004 - a line
    state = recorded(root_of(settings), ref.name)
    if state is not None and state.version:
        because = f"; in spite of its quarantine, because: {state.allowed}" if state.allowed else ""
        console.say(f"  installed  {state.version}{because}")
    here = {"version": state.version, "allowed": state.allowed or None} if state and state.version else None
    console.result({**shown, "installed": here})
    return 0


def _say_provenance(console: Console, found: Info) -> None:
    provenance = found.proof.provenance if found.proof else None
    if provenance is not None:
        commit = f" from the commit {provenance.commit}" if provenance.commit else ""
        console.say(f"  built      by {provenance.builder}{commit}")


def say_launchers(console: Console, launchers: Iterable[Mapping[str, str | None]]) -> None:
    """Say which launchers a plugin needs, and whether they are on this machine."""
    for row in launchers:
        if row["found"]:
            console.say(f"  needs      {row['launcher']}: found at {row['found']}")
        else:
            source = f"; it comes with {row['comes_with']}" if row["comes_with"] else ""
            console.say(f"  needs      {row['launcher']}: MISSING on this machine{source}")


def install(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg install`."""
    from plugreg import install as installing

    refs = [Ref.parse(text) for text in args.refs]
    settings = config.of_command(args, os.environ)
    lock = read_lock(Path(FILE)) if args.frozen else None
    with console.progress() as progress:
        done = installing.install(
            root_of(settings),
            refs,
            Registries(settings, console.note, lock).remotes(),
            options=replace(options_of(args, settings), lock=lock),
            say=console.note,
            progress=progress,
        )
    return say_installed(console, done)


def update(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg update`."""
    from plugreg import install as installing

    names = [PluginName(name) for name in args.names]
    settings = config.of_command(args, os.environ)
    with console.progress() as progress:
        done = installing.update(
            root_of(settings),
            names,
            Registries(settings, console.note).remotes(),
            options=options_of(args, settings),
            say=console.note,
            progress=progress,
        )
    if not done.installed:
        console.note("nothing is installed")
    return say_installed(console, done)


def uninstall(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg uninstall`."""
    from plugreg import uninstall as removing

    names = [PluginName(name) for name in args.names]
    settings = config.of_command(args, os.environ)
    done = removing.uninstall(root_of(settings), names, purge_data=args.purge_data, say=console.note)
    for row in done.uninstalled:
        console.say(f"uninstalled {row.name} {row.version}".rstrip())
        if row.purged:
            console.say(f"  deleted its data in {row.purged}")
        elif row.data:
            console.say(f"  its data stays in {row.data}")
    console.result(done.as_dict())
    return 0


def mirror(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg mirror`."""
    from plugreg import mirror as mirroring

    names = [PluginName(name) for name in args.names]
    registry = Registries(config.of_command(args, os.environ), console.note).remote()
    folder = Path(args.folder).expanduser()
    with console.progress() as progress:
        done = mirroring.mirror(folder, names, registry, say=console.note, progress=progress)
    plural = "" if done.plugins == 1 else "s"
    console.say(f"mirrored {done.plugins} plugin{plural} of {registry.url} in {done.folder}")
    console.say(f"  new        {done.fetched} files, {done.size} bytes")
    console.result(done.as_dict())
    return 0


def list_installed(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg list`."""
    from plugreg import inventory

    settings = config.of_command(args, os.environ)
    found = inventory.list_installed(root_of(settings))
    rows = [
        (row.name, row.version, row.status, row.facts.signer.words if row.facts else "?")
        for row in found.plugins
    ]
    if rows:
        console.table(rows, ("NAME", "VERSION", "STATUS", "SIGNER"))
    else:
        console.note(f"nothing is installed in {settings.root}")
    for row in found.plugins:
        if row.withdrawn:
            console.note(row.withdrawn)
    console.result(found.as_dict())
    return 0


def verify(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg verify`."""
    from plugreg import inventory

    settings = config.of_command(args, os.environ)
    found = inventory.verify(root_of(settings), [PluginName(name) for name in args.names])
    for verdict in found.plugins:
        console.say(f"{verdict.name} {verdict.version}: {verdict.verdict}")
    if found.error is not None:
        found.error.details.update(found.as_dict())
        raise found.error
    if not found.plugins:
        console.note("nothing is installed")
    console.result(found.as_dict())
    return 0


def root_of(settings: config.Config) -> PluginsRoot:
    """Return the plugins root of a command."""
    from plugreg.plugins_root import PluginsRoot
    from plugreg.plugins_root.layout import DEFAULT_PATIENCE_S
    from plugreg.plugins_root.locking import patience_from
    from plugreg.trust_material import judges

    return PluginsRoot.at(settings.root, patience_from(os.environ, DEFAULT_PATIENCE_S), judges(settings))


def options_of(args: argparse.Namespace, settings: config.Config) -> Options:
    """Return what a person decided for a command, and the rules of this machine."""
    from plugreg import trust_policy
    from plugreg.pinning import Options

    return Options(
        prereleases=getattr(args, "pre", False),
        accept_signer=args.accept_signer,
        accept_registry=args.accept_registry,
        allow_quarantined=getattr(args, "allow_quarantined", ""),
        policy=trust_policy.load(settings),
    )


def say_installed(console: Console, done: Installation) -> int:
    """Say what a command installed."""
    from plugreg.environment import launcher_state

    for row in done.installed:
        facts = row.facts
        words = {
            "installed": "installed",
            "updated": f"updated from {row.previous}:",
            "unchanged": "unchanged",
            "rolled_back": f"rolled back from {row.previous}:",
        }[row.change]
        console.say(f"{words} {facts.name} {facts.version}")
        if row.change != "unchanged":
            console.say(f"  signer     {facts.signer.words}")
            console.say(f"  root       {row.root}")
            console.say(f"  data       {row.data}")
            say_launchers(console, launcher_state(row.launchers, os.environ))
    console.result(done.as_dict())
    return 0
