"""Commands for authors: init, check, convert, pack, key, publish, yank, deprecate, owner; and moderate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugreg import config, credentials, scaffold, signing
from plugreg.registries import Registries
from plugreg_schemas.errors import NotAvailable, UsageError
from plugreg_schemas.key_uris import PASSPHRASE
from plugreg_schemas.names import PluginName, Ref

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from plugreg.console import Console
    from plugreg.signing import Signer
    from plugreg.statements import Submitted
    from plugreg_schemas.statement import State
    from plugreg_schemas.trust.identity import AnySigner

EXIT_INVALID = 3
MODERATION: Final[dict[str, tuple[State, str]]] = {
    "quarantine": ("quarantined", "is in quarantine: nobody begins to use it"),
    "remove": ("removed", "is removed: its bundles are deleted, and what is installed stays"),
    "release": ("active", "is released: it can be chosen and published again"),
}
"""Actions of `plugreg moderate`: the state that each sets, and the words for it."""


def init(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg init`."""
    written = scaffold.init(Path(args.dir), args.name, args.format)
    for path in written:
        console.say(f"wrote {path}")
    console.note(f"next: `plugreg check {args.dir}`, then `plugreg publish {args.dir}`")
    console.result({"files": [str(path) for path in written]})
    return 0


def check(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg check`."""
    from plugreg import check as checking

    checked = checking.check(Path(args.path), args.version)
    if args.format == "github":
        from plugreg.annotations import github

        for line in github(checked.findings, Path(args.path)):
            console.say(line)
    else:
        console.findings(checked.findings)
    if checked.ok:
        manifest = checked.manifest
        what = f"{_count(len(manifest.components), 'server')}, {_count(len(manifest.skills), 'skill')}"
        console.say(
            f"{manifest.name} {checked.version or '(no version)'}: {what}; "
            f"{_outcome(publishable=checked.publishable)}"
        )
    else:
        console.say(f"{args.path} does not load as a plugin")
    console.result(checked.as_dict())
    return 0 if (checked.publishable if args.publish else checked.ok) else EXIT_INVALID


def convert(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg convert`."""
    from plugreg import convert as converting

    done = converting.convert(Path(args.dir), Path(args.output) if args.output else None, args.name)
    console.findings(done.losses)
    manifest = done.checked.manifest
    what = f"{_count(len(manifest.components), 'server')}, {_count(len(manifest.skills), 'skill')}"
    console.say(
        f"{done.path}: {manifest.name} from {done.source.what}: {what}; "
        f"{_outcome(publishable=done.checked.publishable)}"
    )
    console.note(f"next: `plugreg check {done.path}`")
    console.result(done.as_dict())
    return 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _outcome(*, publishable: bool) -> str:
    return "ready to publish" if publishable else "loads, but a registry would refuse it"


def pack(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg pack`."""
    from plugreg import publish as publishing
    from plugreg_schemas.bundle import file_name

    prepared = publishing.prepare(Path(args.dir), args.version, sensitive=frozenset({"*"}))
    path = Path(args.output or file_name(prepared.name, prepared.version))
    config.write_atomically(path, prepared.packed.content)
    packed = prepared.packed
    for left in packed.left_out:
        console.note(f"left out: {left}")
    console.say(f"{path}: {len(packed.files)} files, {packed.size} bytes, {packed.digest}")
    console.result(
        {"path": str(path), "digest": packed.digest, "size": packed.size, "files": len(packed.files)}
    )
    return 0


def key_new(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg key new`."""
    passphrase = ""
    if args.passphrase:
        passphrase = os.environ.get(PASSPHRASE) or _asked(console, "New passphrase: ")
    made = signing.new_key(
        config.load(os.environ).keys, args.name, algorithm=args.algorithm, passphrase=passphrase
    )
    console.say(
        f"{made.identity.words}\nprivate key: {made.path}\npublic key:  {made.path.with_suffix('.pub')}"
    )
    console.note(
        "Keep a copy of the private key in a safe place: "
        "who loses it cannot publish under the same name again."
    )
    console.result(made.as_dict())
    return 0


def key_list(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg key list`."""
    del args
    folder = config.load(os.environ).keys
    rows = [(name, signing.key_identity(folder, name)) for name in signing.key_names(folder)]
    if rows:
        console.table(rows, ("NAME", "IDENTITY"))
    else:
        console.note("there are no keys; make one with `plugreg key new`")
    console.result(
        {"keys": [{"name": name, "id": words, "path": str(folder / f"{name}.pem")} for name, words in rows]}
    )
    return 0


def key_show(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg key show`."""
    folder, ask = config.load(os.environ).keys, _asker(console)
    choose = credentials.named_key if args.name else signing.choose_key
    shown = choose(folder, args.name, os.environ, ask).as_dict()
    console.say(f"{shown['id']}\nprivate key: {shown['path']}\npublic half: {shown['public']}")
    console.result(shown)
    return 0


def publish(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg publish`."""
    from plugreg import publish as publishing

    settings = config.of_command(args, os.environ)
    allowed = frozenset({"*"} if args.allow_sensitive else ())
    prepared = publishing.prepare(Path(args.path), args.version, sensitive=allowed)
    provenance = publishing.read_provenance_file(Path(args.provenance)) if args.provenance else None
    console.findings(prepared.checked.findings)
    console.findings(prepared.packed.notes)
    if args.dry_run:
        packed = prepared.packed
        console.say(
            f"{prepared.name} {prepared.version}: "
            f"{len(packed.files)} files, {packed.size} bytes, {packed.digest}; not sent"
        )
        console.result(
            {"name": prepared.name, "version": prepared.version, "digest": packed.digest, "dry_run": True}
        )
        return 0
    signer = credentials.choose_signer(settings, _wanted(args), os.environ, _asker(console))
    registries = Registries(settings, console.note)
    remote = registries.remote()
    if registries.terms().first_use == "refuse":
        remote.verify_index()  # nothing is sent to a registry whose root is not pinned
    with console.progress() as progress:
        done = publishing.publish(
            prepared,
            remote,
            signer,
            accept_registry=args.accept_registry,
            provenance=provenance,
            progress=progress,
        )
    console.say(
        f"{'already published' if done.already else 'published'} {done.name} {done.version} to {remote.url}"
    )
    console.say(f"  digest {done.digest}\n  signer {done.signer.words}")
    if done.index == "pending":
        console.note("note: it is accepted for good; the registry's index will show it soon")
    if done.one_owner:
        console.note(
            f"note: you are the only owner of `{done.name}`: who loses that key or account loses the name. "
            f"A second owner is added with `plugreg owner add {done.name} ID`"
        )
    console.result(done.as_dict())
    return 0


def yank(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg yank`."""
    from plugreg import statements

    settings, signer = _signing(args, console)
    name, version = _name_and_version(args.ref)
    done = statements.yank(Registries(settings, console.note).remote(), signer, name, version, args.reason)
    return _submitted(
        console,
        done,
        f"yanked {name} {version}: it is no longer chosen, exact requests still get it with a warning",
    )


def unyank(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg unyank`."""
    from plugreg import statements

    settings, signer = _signing(args, console)
    name, version = _name_and_version(args.ref)
    done = statements.unyank(Registries(settings, console.note).remote(), signer, name, version)
    return _submitted(console, done, f"{name} {version} can be chosen again")


def deprecate(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg deprecate`."""
    from plugreg import statements

    if args.undo and args.replacement:
        raise UsageError("usage_invalid", "`--undo` takes no `--replacement`")
    settings, signer = _signing(args, console)
    remote = Registries(settings, console.note).remote()
    if args.undo:
        done = statements.set_state(remote, signer, args.name, "active", args.reason)
        return _submitted(console, done, f"{args.name} is not deprecated any more")
    replacement = PluginName(args.replacement) if args.replacement else None
    done = statements.set_state(remote, signer, args.name, "deprecated", args.reason, replacement)
    return _submitted(console, done, f"deprecated {args.name}: it can be installed as before, with a warning")


def moderate(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg moderate`."""
    from plugreg import statements
    from plugreg_schemas.trust.identity import parse_signer

    if (args.action == "reassign") != bool(args.to):
        raise UsageError("usage_invalid", "`reassign` needs `--to ID`, and no other action takes it")
    to = parse_signer(args.to) if args.to else None
    settings, signer = _signing(args, console)
    remote = Registries(settings, console.note).remote()
    if to is not None:
        done = statements.reassign(remote, signer, args.name, to, args.reason)
        return _submitted(console, done, f"{args.name} belongs to {to.words} now, and to nobody else")
    state, words = MODERATION[args.action]
    done = statements.set_state(remote, signer, args.name, state, args.reason)
    return _submitted(console, done, f"{args.name} {words}")


def owner_list(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg owner list`."""
    from plugreg import statements

    registries = Registries(config.of_command(args, os.environ), console.note)
    _, history = statements.proved(registries.remote(), args.name)
    for owner in history.owners:
        console.say(statements.shown_owner(owner))
    console.result(
        {
            "name": args.name,
            "owners": [
                {**o.model_dump(mode="json", exclude_none=True), "words": o.words} for o in history.owners
            ],
        }
    )
    return 0


def owner_add(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg owner add`."""
    from plugreg import statements

    settings, signer = _signing(args, console)
    owner = statements.owner_entry(
        _identity(args), not_before=args.not_before, not_after=args.not_after, refs=args.refs
    )
    remote = Registries(settings, console.note).remote()
    done = statements.change_owners(remote, signer, args.name, add=[owner])
    return _submitted(console, done, f"{owner.words} is now an owner of {args.name}")


def owner_remove(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg owner remove`."""
    from plugreg import statements

    settings, signer = _signing(args, console)
    owner = _identity(args)
    remote = Registries(settings, console.note).remote()
    done = statements.change_owners(remote, signer, args.name, remove=[owner])
    return _submitted(console, done, f"{owner.words} is no longer an owner of {args.name}")


def owner_resend(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg owner resend`."""
    from plugreg import statements

    registries = Registries(config.of_command(args, os.environ), console.note)
    done = statements.resend(registries.remote(), args.name)
    if done.sent:
        console.say(f"the registry has taken {_count(len(done.sent), 'lost statement')} of {args.name} again")
    else:
        console.say(f"the registry lacks nothing of what this machine has seen of {args.name}")
    console.result(done.as_dict())
    return 0


def _submitted(console: Console, done: Submitted, words: str) -> int:
    console.say(words)
    console.result(done.as_dict())
    return 0


def _signing(args: argparse.Namespace, console: Console) -> tuple[config.Config, Signer]:
    settings = config.of_command(args, os.environ)
    return settings, credentials.choose_signer(settings, _wanted(args), os.environ, _asker(console))


def _wanted(args: argparse.Namespace) -> credentials.Wanted:
    return credentials.Wanted(args.key, args.identity_token_file, args.oob)


def _identity(args: argparse.Namespace) -> AnySigner:
    from plugreg_schemas.trust.identity import parse_signer

    if bool(args.id) == bool(args.public_key):
        raise UsageError("owner_missing", "give the owner's identity, or `--public-key FILE`")
    return signing.read_public_key(Path(args.public_key)) if args.public_key else parse_signer(args.id)


def _name_and_version(text: str) -> tuple[str, str]:
    ref = Ref.parse(text)
    if ref.range.exact is None:
        raise UsageError(
            "version_missing",
            f"`{text}` does not name one version",
            hint="write NAME@VERSION, for example `lint3r@1.2.0`",
        )
    return ref.name, ref.range.exact.text


def _asked(console: Console, prompt: str) -> str:
    if not console.interactive:
        raise NotAvailable("no_terminal", "nobody can be asked for a passphrase", hint=f"set {PASSPHRASE}")
    return console.ask_secret(prompt)


def _asker(console: Console) -> Callable[[str], str] | None:
    return console.ask_secret if console.interactive else None
