"""Who signs: keys kept in files.

<home>/keys/<name>.pem   the private key (PKCS #8, 0600, encrypted where a passphrase is given)
<home>/keys/<name>.pub   its public half (PEM), to hand to others
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from plugreg.config import write_atomically
from plugreg.own_files import read_small
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable, UsageError
from plugreg_schemas.key_uris import PASSPHRASE
from plugreg_schemas.names import quoted
from plugreg_schemas.trust.envelope import Envelope, encode_base64, pre_authentication_encoding
from plugreg_schemas.trust.identity import KeySigner, key_signer
from plugreg_schemas.trust.keys import PrivateKey, load_public_key, public_bytes, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugreg_schemas.statement import Statement

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Signer(Protocol):
    """Something that can sign a statement."""

    @property
    def public_key(self) -> str:
        """The public half in base64 (DER SPKI); empty where the signature carries a certificate."""
        ...

    def sign(self, statement: Statement) -> Envelope:
        """Sign a statement; the envelope says who signed."""
        ...


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A private key that was read from a file."""

    path: Path
    key: PrivateKey
    timestamp: Callable[[bytes], bytes] | None = None
    """What gets a timestamp for a signature; None where none is wanted."""

    @property
    def identity(self) -> KeySigner:
        """Who the signatures are by."""
        return key_signer(public_bytes(self.key.public_key()))

    @property
    def public_key(self) -> str:
        """See `Signer`."""
        return encode_base64(public_bytes(self.key.public_key()))

    def sign(self, statement: Statement) -> Envelope:
        """See `Signer`. Raises what `timestamp` raises."""
        payload = statement.payload()
        signature = sign(self.key, pre_authentication_encoding(payload))
        stamps = (self.timestamp(signature),) if self.timestamp else ()
        return Envelope.make(payload, signature, self.identity, timestamps=stamps)

    def as_dict(self) -> dict[str, str]:
        """Return what `plugreg key show --json` prints."""
        return {"id": self.identity.words, "path": str(self.path), "public": self.public_key}


def new_key(
    folder: Path, name: str = "default", *, algorithm: str = "ed25519", passphrase: str = ""
) -> KeyFile:
    """Make a key pair in `folder`. An existing key is never overwritten.

    Raises:
        UsageError: `key_name_invalid`.
        Conflict: `key_exists`.
    """
    path = _path(folder, name)
    key: PrivateKey = (
        ed25519.Ed25519PrivateKey.generate()
        if algorithm == "ed25519"
        else ec.generate_private_key(ec.SECP256R1())
    )
    encryption = (
        serialization.BestAvailableEncryption(passphrase.encode())
        if passphrase
        else serialization.NoEncryption()
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.with_suffix(".pub").exists() and not path.exists():
        raise Conflict(
            "key_exists",
            f"{path.with_suffix('.pub')} is the public half of a key that is not here",
            hint="give another name: `plugreg key new NAME`, or move that file away",
        )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(
            "key_exists",
            f"there is a key named `{name}` already: {path}",
            hint="give another name: `plugreg key new NAME`",
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(private)
            file.flush()
            os.fsync(file.fileno())
        write_atomically(path.with_suffix(".pub"), public)
    except BaseException:
        path.unlink()  # half a key, or one that its owner was never told of, would only be in the way
        raise
    return KeyFile(path, key)


def key_names(folder: Path) -> list[str]:
    """Return the names of the keys in `folder`, sorted."""
    return sorted(path.stem for path in folder.glob("*.pem")) if folder.is_dir() else []


def key_identity(folder: Path, name: str) -> str:
    """Return the identity in words of the key `name`; nothing where its public half cannot be read.

    One damaged file does not keep the other keys from being listed.
    """
    try:
        return read_public_key(folder / f"{name}.pub").words
    except (NotAvailable, InvalidInput):
        return ""


def load_key(
    folder: Path, name: str, environ: Mapping[str, str], ask: Callable[[str], str] | None = None
) -> KeyFile:
    """Read the key `name` of `folder`, or the key in the file `name`.

    Raises:
        NotAvailable: `key_not_found`.
        InvalidInput: `key_invalid`, `key_passphrase_wrong`.
        UsageError: `key_passphrase_missing`.
    """
    return read_key(_existing(folder, name), environ, ask)


def read_key(path: Path, environ: Mapping[str, str], ask: Callable[[str], str] | None = None) -> KeyFile:
    """Read the key in a file that exists.

    Raises:
        InvalidInput: `key_invalid`, `key_passphrase_wrong`.
        UsageError: `key_passphrase_missing`.
    """
    content = read_small(path)
    passphrase = environ.get(PASSPHRASE, "")
    if b"ENCRYPTED" in content and not passphrase:
        if ask is None:
            raise UsageError(
                "key_passphrase_missing", f"the key {path} has a passphrase", hint=f"set {PASSPHRASE}"
            )
        passphrase = ask(f"Passphrase of {path}: ")
    try:
        key = serialization.load_pem_private_key(
            content, passphrase.encode() if b"ENCRYPTED" in content else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if b"ENCRYPTED" in content:
            raise InvalidInput("key_passphrase_wrong", f"the passphrase does not open {path}") from None
        raise _bad_key(path) from None
    if isinstance(key, ed25519.Ed25519PrivateKey) or (
        isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    ):
        return KeyFile(path, key)
    raise _bad_key(path)


def choose_key(
    folder: Path, name: str, environ: Mapping[str, str], ask: Callable[[str], str] | None = None
) -> KeyFile:
    """Return the key that was named, else the only key there is.

    Raises:
        UsageError: `key_missing`, `key_ambiguous`: nothing was named and there is not exactly one.
        PlugregError: as `load_key`.
    """
    if name:
        return load_key(folder, name, environ, ask)
    names = key_names(folder)
    if not names:
        raise UsageError("key_missing", "there is no key to sign with", hint="make one: `plugreg key new`")
    if len(names) > 1:
        raise UsageError(
            "key_ambiguous",
            f"there are several keys: {', '.join(names)}",
            hint="choose one with `--key NAME`",
        )
    return load_key(folder, names[0], environ, ask)


def read_public_key(path: Path) -> KeySigner:
    """Return the identity of the public key in a PEM or DER file.

    Raises:
        NotAvailable: `key_not_found`.
        InvalidInput: `public_key_invalid`.
    """
    try:
        content = read_small(path)
    except OSError as error:
        raise NotAvailable("key_not_found", f"{path} cannot be read: {error.strerror}") from None
    if content.lstrip().startswith(b"-----BEGIN"):
        try:
            key = serialization.load_pem_public_key(content)
            content = key.public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        except (ValueError, UnsupportedAlgorithm):
            raise InvalidInput("public_key_invalid", f"{path} does not hold a public key") from None
    try:
        load_public_key(content)
    except InvalidInput as error:
        raise InvalidInput(error.code, f"{path}: {error.message}", hint=error.hint) from None
    return key_signer(content)


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(
            "key_name_invalid",
            f"{quoted(name)} is not a name for a key",
            hint="use letters, digits, `.`, `_` and `-`",
        )
    return folder / f"{name}.pem"


def _existing(folder: Path, name: str) -> Path:
    candidates = [folder / f"{name}.pem"] if _NAME.fullmatch(name) else []
    for path in [*candidates, Path(name)]:
        if os.path.isfile(path):  # noqa: PTH113 - unlike `Path.is_file` it bears names that no file can have
            return path
    names = key_names(folder)
    raise NotAvailable(
        "key_not_found",
        f"there is no key {quoted(name)}",
        hint=f"there are: {', '.join(names)}" if names else "make one: `plugreg key new`",
    )


def _bad_key(path: Path) -> InvalidInput:
    return InvalidInput(
        "key_invalid",
        f"{path} is not an Ed25519 or ECDSA P-256 private key in PEM",
        hint="`plugreg key new` makes one that is accepted",
    )
