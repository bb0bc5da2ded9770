"""Commands about registries: registry add, list, remove."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from plugreg import config, tokens
from plugreg.index.folder import IndexFolder
from plugreg.registries import KnownRegistry, Registries
from plugreg_schemas.errors import Conflict, NotAvailable, UsageError
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from plugreg.console import Console


def add(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg registry add`."""
    from plugreg.remote import Remote

    registries = Registries(config.of_command(args, os.environ), console.note)
    registries.known()  # a list that is damaged is refused before anyone is asked
    terms = registries.terms(Digest(args.root_digest) if args.root_digest else "")
    token = _token(args, registries)
    remote = Remote(
        args.url, terms, insecure_http=args.insecure_http, network=registries.network(), token=token
    )
    entry = KnownRegistry(
        id=remote.ref.id,
        url=remote.url,
        name=args.name or _name(remote.url),
        insecure_http=args.insecure_http,
    )
    _check_addition(entry, registries.known())
    remote.verify_index()

    def added(known: tuple[KnownRegistry, ...]) -> tuple[KnownRegistry, ...]:
        _check_addition(entry, known)
        return (*(k for k in known if k.url != entry.url), entry)

    registries.change(added)
    if args.token_file:
        tokens.keep(terms.home, entry.url, token)
    shown = _shown(entry, terms.home)
    console.say(f"added {entry.name}: {entry.url}\n  id   {entry.id}\n  root {_root_of(shown)}")
    console.result(shown)
    return 0


def list_known(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg registry list`."""
    settings = config.of_command(args, os.environ)
    rows = [_shown(known, settings.home) for known in Registries(settings).known()]
    if rows:
        console.table(
            [(row["name"], row["url"], row["id"], _root_of(row), _token_of(row)) for row in rows],
            ("NAME", "URL", "ID", "ROOT", "TOKEN"),
        )
    else:
        console.note("no registry is known; add one with `plugreg registry add URL`")
    console.result({"registries": rows})
    return 0


def remove(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg registry remove`. With the last address of a registry, its pinned root is forgotten."""
    settings = config.of_command(args, os.environ)
    registries = Registries(settings)
    known = registries.known()
    gone = [k for k in known if args.name in {k.name, k.id} or k.url.rstrip("/") == args.name.rstrip("/")]
    if not gone:
        raise NotAvailable(
            "registry_unknown",
            f"no registry `{args.name}` is known",
            hint="`plugreg registry list` shows them",
        )
    shown = [_shown(entry, settings.home) for entry in gone]
    registries.change(lambda known: tuple(k for k in known if k not in gone))
    tokens.forget(settings.home, {entry.url for entry in gone})
    registries.forget({entry.id for entry in gone} - {entry.id for entry in registries.known()})
    console.say(f"removed {', '.join(k.name for k in gone)}")
    console.result({"removed": shown})
    return 0


def _token(args: argparse.Namespace, registries: Registries) -> str:
    """Return the token by which a registry that is added is read: what was given, else what is kept."""
    from plugreg.objects import FILE_SCHEME

    if not args.token_file:
        chosen = registries.config.token
        return tokens.checked(chosen, "`PLUGREG_TOKEN`") if chosen else registries.token(args.url)
    if args.url.startswith(FILE_SCHEME):
        raise UsageError(
            "token_not_wanted", "a folder is read without a token", hint="leave `--token-file` away"
        )
    return tokens.of_file(args.token_file)


def _name(url: str) -> str:
    """Return what to call a registry: its host, or the last part of its folder."""
    parts = urlsplit(url)
    return parts.netloc or parts.path.rstrip("/").rpartition("/")[2]


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


def _shown(entry: KnownRegistry, home: Path) -> dict[str, Any]:
    """Return a row of `registry list --json`."""
    pin = IndexFolder.of(home, entry.id).pin()
    root = {"version": pin.version, "digest": pin.digest} if pin else None
    return {**entry.model_dump(), "root": root, "token_kept": bool(tokens.kept(home, entry.url))}


def _token_of(row: dict[str, Any]) -> str:
    return "kept" if row["token_kept"] else "none"


def _root_of(row: dict[str, Any]) -> str:
    return row["root"]["digest"] if row["root"] else "not pinned"
