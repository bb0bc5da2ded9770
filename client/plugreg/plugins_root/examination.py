"""Whether an installed tree is still the signed one: the bundle beside it proves, the disk claims.

    bundle       its digest is the signed one
    statement    signed by the recorded key, about this plugin, version, registry and digest
    pin          the signer and registry that this name belongs to here
    tree         every file, mode and link as in the bundle, and nothing else

No index, no network and no clock is asked.
"""

# ruff: noqa: PTH115 - member paths are bytes whatever the locale is, and pathlib holds none

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, Final

from plugreg.own_files import WrongKindError, open_regular, read_small
from plugreg.plugins_root.durability import FOLDER_MODE
from plugreg_schemas.bundle import DEFAULT_LIMITS, open_bundle
from plugreg_schemas.errors import MAX_FINDINGS, Finding, IntegrityError, InvalidInput, Unverifiable
from plugreg_schemas.names import quoted
from plugreg_schemas.statement import Publish
from plugreg_schemas.trust.envelope import decode_base64, parse_envelope
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from plugreg.plugins_root.layout import StoreEntry
    from plugreg.plugins_root.records import Facts, Pin
    from plugreg_schemas.bundle import Member
    from plugreg_schemas.trust.sigstore import SigstoreVerifier
    from plugreg_schemas.trust.verify import Signed

LIMITS: Final = DEFAULT_LIMITS.scaled(4)
"""What any command of this client may have installed."""
CHUNK: Final = 1 << 18


def examine(
    entry: StoreEntry, facts: Facts, pin: Pin | None, sigstore: SigstoreVerifier | None = None
) -> None:
    """Prove an installed release; `pin` is None where nothing was pinned when it became active.

    `sigstore` judges a certificate; without it only a key is accepted.

    Raises:
        IntegrityError: `bundle_altered`, `attestation_altered`, `signature_invalid`, `public_key_mismatch`,
            `facts_contradict_statement`, `pin_mismatch`, `tree_altered` with everything that differs.
        Unverifiable: `bundle_missing`, `attestation_missing`, `public_key_missing`, `trust_material_missing`.
    """
    with _opened(entry.bundle, entry.name) as bundle:
        _check_digest(bundle, facts)
        _check_statement(_signed(entry, facts, sigstore), facts)
        _check_pin(facts, pin)
        check_tree(entry, bundle)


def check_tree(entry: StoreEntry, bundle: BinaryIO) -> None:
    """Compare an installed tree with its bundle, of which the digest is proved.

    Raises:
        IntegrityError: `tree_altered`, with everything that differs.
    """
    found = list(_differences(entry.tree, bundle))
    if found:
        raise IntegrityError(
            "tree_altered",
            f"the files of `{entry.name} {entry.version}` are not the signed ones: {len(found)} differ",
            hint=_renew(entry.name),
            findings=found[:MAX_FINDINGS],
        )


def _renew(name: str) -> str:
    return f"`plugreg uninstall {name}` and `plugreg install {name}` bring it back; its data stay"


def _opened(path: Path, name: str) -> BinaryIO:
    try:
        return open_regular(path)
    except FileNotFoundError:
        raise Unverifiable(
            "bundle_missing", f"{path} is gone, so nothing proves the installed files", hint=_renew(name)
        ) from None
    except WrongKindError as error:
        raise IntegrityError("bundle_altered", f"{path}: {error.strerror}", hint=_renew(name)) from None


def _check_digest(bundle: BinaryIO, facts: Facts) -> None:
    hashed = hashlib.sha256()
    while chunk := bundle.read(CHUNK):
        hashed.update(chunk)
    digest = f"sha256:{hashed.hexdigest()}"
    bundle.seek(0)
    if digest != facts.digest:
        raise IntegrityError(
            "bundle_altered",
            f"the bundle kept of `{facts.name} {facts.version}` has another digest than the signed one",
            hint=_renew(facts.name),
        )


def _signed(entry: StoreEntry, facts: Facts, sigstore: SigstoreVerifier | None) -> Signed:
    try:
        content = read_small(entry.attestation)
    except FileNotFoundError:
        raise Unverifiable(
            "attestation_missing",
            f"{entry.attestation} is gone, so nothing says who signed it",
            hint=_renew(entry.name),
        ) from None
    except WrongKindError as error:
        raise IntegrityError(
            "attestation_altered", f"{entry.attestation}: {error.strerror}", hint=_renew(entry.name)
        ) from None
    try:
        keys = (
            {facts.signer.id: decode_base64(facts.public_key)}
            if facts.signer.kind == "key" and facts.public_key
            else {}
        )
        return verify(parse_envelope(content), keys, sigstore)
    except (InvalidInput, ValueError) as error:
        raise IntegrityError(
            "attestation_altered",
            f"{entry.attestation} is not a signed statement any more: {error}",
            hint=_renew(entry.name),
        ) from None


def _check_statement(signed: Signed, facts: Facts) -> None:
    said = signed.statement.predicate
    wrong = not isinstance(said, Publish) or (
        (said.plugin, said.version, said.registry, signed.statement.digest, signed.signer.words)
        != (facts.name, facts.version, facts.registry.id, facts.digest, facts.signer.words)
    )
    if wrong:
        raise IntegrityError(
            "facts_contradict_statement",
            f"what is recorded of `{facts.name} {facts.version}` is not what its signer signed",
        )


def _check_pin(facts: Facts, pin: Pin | None) -> None:
    if pin is not None and (pin.registry, pin.signer) != (facts.registry.id, facts.signer.words):
        raise IntegrityError(
            "pin_mismatch",
            f"`{facts.name}` belongs to `{pin.signer}` of `{pin.registry}` here, "
            f"and its files were signed by `{facts.signer.words}` for `{facts.registry.id}`",
        )


def _differences(tree: Path, bundle: BinaryIO) -> Iterator[Finding]:
    base = os.fsencode(tree) + b"/"
    files: set[bytes] = set()
    folders: set[bytes] = set()
    if tree.is_symlink():
        yield Finding("folder_missing", f"a link to another folder stands in the place of {tree}", file="")
        return
    try:
        for member, chunks in open_bundle(bundle, LIMITS):
            path = member.path.encode()
            files.add(path)
            parts = path.split(b"/")
            folders.update(b"/".join(parts[:depth]) for depth in range(1, len(parts)))
            yield from _differences_of(base + path, member, chunks)
    except InvalidInput as error:
        yield from error.findings or [Finding(error.code, error.message)]
    yield from _unexpected(base, b"", files, folders)


def _differences_of(place: bytes, member: Member, chunks: Iterable[bytes]) -> Iterator[Finding]:
    try:
        found = os.lstat(place)
    except OSError as error:
        yield Finding("file_missing", f"{quoted(member.path)}: {error.strerror}", file=member.path)
        return
    if member.target:
        if not stat.S_ISLNK(found.st_mode) or os.readlink(place) != member.target.encode():
            yield Finding("link_altered", f"{quoted(member.path)} is not the signed link", file=member.path)
        return
    if not stat.S_ISREG(found.st_mode):
        yield Finding("file_altered", f"{quoted(member.path)} is not a regular file", file=member.path)
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode != member.mode and os.name == "posix":
        yield Finding(
            "mode_altered",
            f"{quoted(member.path)} has the mode {mode:04o}, signed is {member.mode:04o}",
            file=member.path,
        )
    if found.st_size != member.size or not _same(place, chunks):
        yield Finding(
            "file_altered", f"{quoted(member.path)} has another content than the signed one", file=member.path
        )


def _same(place: bytes, chunks: Iterable[bytes]) -> bool:
    try:
        with os.fdopen(os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            return all(file.read(len(chunk)) == chunk for chunk in chunks) and not file.read(1)
    except OSError:
        return False  # a file that cannot be read is not known to be the signed one


def _unexpected(base: bytes, folder: bytes, files: set[bytes], folders: set[bytes]) -> Iterator[Finding]:
    """Yield what is in the tree and not in the bundle, and folders that are none or have another mode."""
    try:
        found = sorted(os.scandir(base + folder), key=lambda item: item.name)
    except OSError as error:
        yield Finding(
            "folder_missing",
            f"{quoted(os.fsdecode(folder) or '.')}: {error.strerror}",
            file=os.fsdecode(folder),
        )
        return
    for item in found:
        path = folder + b"/" + item.name if folder else item.name
        shown = path.decode("utf-8", "backslashreplace")
        if path in folders and item.is_dir(follow_symlinks=False):
            mode = stat.S_IMODE(item.stat(follow_symlinks=False).st_mode)
            if mode != FOLDER_MODE and os.name == "posix":
                yield Finding(
                    "mode_altered", f"the folder {quoted(shown)} has the mode {mode:04o}", file=shown
                )
            yield from _unexpected(base, path, files, folders)
        elif path not in files:
            yield Finding("file_extra", f"{quoted(shown)} is not part of the signed plugin", file=shown)
