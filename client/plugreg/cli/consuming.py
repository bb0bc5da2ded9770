"""Commands for users: registry, info, install, update, uninstall, list, verify."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from plugreg import config
from plugreg.registries import KnownRegistry, Registries
from plugreg_schemas.errors import Conflict, NotAvailable
from plugreg_schemas.names import PluginName, Ref

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from plugreg.console import Console
    from plugreg.install import Installation
    from plugreg.pinning import Options
    from plugreg.plugins_root import PluginsRoot


def registry_add(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg registry add`."""
    from plugreg.remote import Remote

    settings = config.load(os.environ)
    registries = Registries(settings)
    registries.known()  # a list that is damaged is refused before anyone is asked
    remote = Remote(args.url, insecure_http=args.insecure_http)
    entry = KnownRegistry(
        id=remote.ref.id,
        url=remote.url,
        name=args.name or urlsplit(remote.url).netloc,
        insecure_http=args.insecure_http,
    )

    def added(known: tuple[KnownRegistry, ...]) -> tuple[KnownRegistry, ...]:
        _check_addition(entry, known)
        return (*(k for k in known if k.url != entry.url), entry)

    registries.change(added)
    console.say(f"added {entry.name}: {entry.url}\n  id {entry.id}")
    console.result(entry.model_dump())
    return 0


def _check_addition(entry: KnownRegistry, known: tuple[KnownRegistry, ...]) -> None:
    for other in known:
        if other.url == entry.url and other.id != entry.id:
            raise Conflict(
                "registry_changed",
                f"the registry at {entry.url} was `{other.id}` and is now `{entry.id}`",
                hint=f"if that is intended, run `plugreg registry remove {other.name}` first",
            )
        if other.name == entry.name and other.url != entry.url:
            raise Conflict(
                "registry_name_taken",
                f"`{entry.name}` names {other.url} already",
                hint="give another name with `--name`",
            )


def registry_list(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg registry list`."""
    del args
    known = Registries(config.load(os.environ)).known()
    if known:
        console.table([(k.name, k.url, k.id) for k in known], ("NAME", "URL", "ID"))
    else:
        console.note("no registry is known; add one with `plugreg registry add URL`")
    console.result({"registries": [k.model_dump() for k in known]})
    return 0


def registry_remove(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg registry remove`."""
    settings = config.load(os.environ)
    known = Registries(settings).known()
    gone = [k for k in known if args.name in {k.name, k.id} or k.url.rstrip("/") == args.name.rstrip("/")]
    if not gone:
        raise NotAvailable(
            "registry_unknown",
            f"no registry `{args.name}` is known",
            hint="`plugreg registry list` shows them",
        )
    Registries(settings).change(lambda known: tuple(k for k in known if k not in gone))
    console.say(f"removed {', '.join(k.name for k in gone)}")
    console.result({"removed": [k.model_dump() for k in gone]})
    return 0


def info(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg info`."""
    from plugreg import info as looking

    ref = Ref.parse(args.ref)
    remotes = Registries(
        config.load(os.environ, registry=args.registry, trust_config=args.trust_config)
    ).remotes()
    found = looking.look_up(remotes, ref, os.environ)
    shown = found.as_dict()
    console.say(
        f"{shown['name']} {shown['version']}{'  YANKED: ' + found.entry.reason if found.entry.yanked else ''}"
    )
    if found.document.description:
        console.say(f"  {' '.join(found.document.description.split())}")
    console.say(f"  registry   {found.registry['url']} ({found.registry['id']})")
    console.say(f"  published  {shown['published_at']} by {found.signer} ({found.verdict})")
    if found.origin:
        console.say(f"  from       {found.origin}")
    console.say(f"  digest     {shown['digest']} ({shown['size']} bytes)")
    console.say(f"  owners     {', '.join(owner.words for owner in found.history.owners)}")
    for component in found.entry.components:
        console.say(f"  server     {component.id}: {' or '.join(component.runtimes)}")
    console.say(f"  skills     {found.entry.counts.skills}")
    say_launchers(console, found.launchers)
    versions = [v.version + (" (yanked)" if v.yanked else "") for v in reversed(found.document.versions)]
    console.say(f"  versions   {', '.join(versions[:10])}{' ...' if len(versions) > 10 else ''}")  # noqa: PLR2004 - a line
    console.result(shown)
    return 0


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
    settings = config.load(os.environ, root=args.root, registry=args.registry, trust_config=args.trust_config)
    with console.progress() as progress:
        done = installing.install(
            _root(settings),
            refs,
            Registries(settings).remotes(),
            options=_options(args),
            say=console.note,
            progress=progress,
        )
    return _installed(console, done)


def update(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg update`."""
    from plugreg import install as installing

    names = [PluginName(name) for name in args.names]
    settings = config.load(os.environ, root=args.root, registry=args.registry, trust_config=args.trust_config)
    with console.progress() as progress:
        done = installing.update(
            _root(settings),
            names,
            Registries(settings).remotes(),
            options=_options(args),
            say=console.note,
            progress=progress,
        )
    if not done.installed:
        console.note("nothing is installed")
    return _installed(console, done)


def uninstall(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg uninstall`."""
    from plugreg import uninstall as removing

    names = [PluginName(name) for name in args.names]
    settings = config.load(os.environ, root=args.root)
    done = removing.uninstall(_root(settings), names, purge_data=args.purge_data, say=console.note)
    for row in done.uninstalled:
        console.say(f"uninstalled {row.name} {row.version}".rstrip())
        if row.purged:
            console.say(f"  deleted its data in {row.purged}")
        elif row.data:
            console.say(f"  its data stays in {row.data}")
    console.result(done.as_dict())
    return 0


def list_installed(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg list`."""
    from plugreg import inventory

    settings = config.load(os.environ, root=args.root)
    found = inventory.list_installed(_root(settings))
    rows = [
        (row.name, row.version, row.status, row.facts.signer.words if row.facts else "?")
        for row in found.plugins
    ]
    if rows:
        console.table(rows, ("NAME", "VERSION", "STATUS", "SIGNER"))
    else:
        console.note(f"nothing is installed in {settings.root}")
    console.result(found.as_dict())
    return 0


def verify(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg verify`."""
    from plugreg import inventory

    settings = config.load(os.environ, root=args.root, trust_config=args.trust_config)
    found = inventory.verify(_root(settings), [PluginName(name) for name in args.names])
    for verdict in found.plugins:
        console.say(f"{verdict.name} {verdict.version}: {verdict.verdict}")
    if found.error is not None:
        found.error.details.update(found.as_dict())
        raise found.error
    if not found.plugins:
        console.note("nothing is installed")
    console.result(found.as_dict())
    return 0


def _root(settings: config.Config) -> PluginsRoot:
    from plugreg.plugins_root import PluginsRoot
    from plugreg.plugins_root.layout import DEFAULT_PATIENCE_S
    from plugreg.plugins_root.locking import patience_from
    from plugreg.trust_material import verifier

    return PluginsRoot.at(settings.root, patience_from(os.environ, DEFAULT_PATIENCE_S), verifier(settings))


def _options(args: argparse.Namespace) -> Options:
    from plugreg.pinning import Options

    return Options(
        prereleases=args.pre, accept_signer=args.accept_signer, accept_registry=args.accept_registry
    )


def _installed(console: Console, done: Installation) -> int:
    from plugreg.environment import launcher_state

    for row in done.installed:
        facts = row.facts
        words = {
            "installed": "installed",
            "updated": f"updated from {row.previous}:",
            "unchanged": "unchanged",
        }[row.change]
        console.say(f"{words} {facts.name} {facts.version}")
        if row.change != "unchanged":
            console.say(f"  signer     {facts.signer.words}")
            console.say(f"  root       {row.root}")
            console.say(f"  data       {row.data}")
            say_launchers(console, launcher_state(row.launchers, os.environ))
    console.result(done.as_dict())
    return 0
