"""Commands that carry plugins to machines without a network: export, import."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg import config
from plugreg.registries import KnownRegistry, Registries
from plugreg_schemas.errors import UsageError
from plugreg_schemas.names import Digest, Ref

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from plugreg.console import Console
    from plugreg.remote import Remote


def export(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg export`."""
    from plugreg import carrying, selection

    refs = [Ref.parse(text) for text in args.refs]
    registry = Registries(config.of_command(args, os.environ), console.note).remote()
    select = selection.of_refs(refs, latest=args.latest)
    with console.progress() as progress:
        done = carrying.export(
            Path(args.file).expanduser(), select, registry, say=console.note, progress=progress
        )
    plural = "" if done.plugins == 1 else "s"
    console.say(f"exported {done.plugins} plugin{plural} of {registry.url} to {done.path}")
    console.say(f"  size       {done.size} bytes")
    console.result(done.as_dict())
    return 0


def bring_in(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg import`: the folder is known as a registry from then on."""
    from plugreg import carrying
    from plugreg.remote import Remote

    registries = Registries(config.of_command(args, os.environ), console.note)
    registries.known()  # a list that is damaged is refused before anything is written
    terms = registries.terms(Digest(args.root_digest) if args.root_digest else "")

    def connect(url: str, say: Callable[[str], None]) -> Remote:
        return Remote(url, replace(terms, say=say))

    folder = Path(args.folder).expanduser() if args.folder else None
    with console.progress() as progress:
        done, registry = carrying.bring_in(
            Path(args.file).expanduser(), folder, terms.home, connect, say=console.note, progress=progress
        )
    entry = _remember(registries, registry.discovery.registry.id, registry.url, args.name)
    plural = "" if done.plugins == 1 else "s"
    console.say(f"imported {done.plugins} plugin{plural} of `{entry.id}` into {done.folder}")
    console.say(f"  new        {done.fetched} files, {done.size} bytes")
    console.say(f"  registry   {entry.name}")
    console.result({**done.as_dict(), "registry": {"id": entry.id, "url": entry.url, "name": entry.name}})
    return 0


def _remember(registries: Registries, registry: str, url: str, name: str) -> KnownRegistry:
    """Make a folder known as a registry; one that is known keeps its name unless another one is given."""
    added: list[KnownRegistry] = []

    def decide(known: tuple[KnownRegistry, ...]) -> tuple[KnownRegistry, ...]:
        present = next((entry.name for entry in known if entry.url == url), "")
        wanted = name or present or url.rstrip("/").rpartition("/")[2]
        if any(entry.name == wanted and entry.url != url for entry in known):
            raise UsageError(
                "registry_name_taken",
                f"`{wanted}` names another registry already; everything else was done",
                hint="run the command again with another `--name`",
            )
        added.append(KnownRegistry(id=registry, url=url, name=wanted))
        return (*(entry for entry in known if entry.url != url), added[0])

    registries.change(decide)
    return added[0]
