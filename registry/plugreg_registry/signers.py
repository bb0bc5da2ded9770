"""The keys of the signed index, in a folder that nobody else may read, or in a service that signs with them.

    <keys>/snapshot.pem  timestamp.pem  index.pem  revocations.pem     online: a publish needs them
    <keys>/offline/root.pem  targets.pem                               who is trusted; may be moved away

Ed25519, PKCS #8 in PEM. A key counts only while the index names it: beside `<role>.pem` there may be
`<role>.<word>.pem`, and whichever of them is named signs. The files are read whenever something is signed, so
a rotation by another process is seen.

A role whose key the settings name by a URI (`plugreg_schemas.key_uris`) is signed for by that key, as soon as
the index names it; keys of the role in the folder sign until then, and are removed afterwards.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.exceptions import Error as SigningError
from securesystemslib.signer import CryptoSigner, Signer

from plugreg_schemas.errors import NotAvailable, PlugregError, Temporary, UsageError
from plugreg_schemas.index import INDEX_ROLE, REVOCATIONS_ROLE
from plugreg_schemas.key_uris import FILE_SCHEME, explaining, file_of, open_key, scheme_of, secrets_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from securesystemslib.signer import Key, SecretsHandler, Signature

ONLINE: Final = ("snapshot", "timestamp", INDEX_ROLE, REVOCATIONS_ROLE)
OFFLINE: Final = ("root", "targets")
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys in one folder; `offline` is another folder where the offline ones are, if not below it."""

    folder: Path
    offline: Path | None = None
    uris: Mapping[str, str] = field(default_factory=dict)
    """Online roles whose key is elsewhere, and its URI."""
    _opened: dict[str, Signer] = field(default_factory=dict, init=False, repr=False, compare=False)

    def place(self, role: str) -> Path:
        """Return the folder in which the keys of a role lie."""
        return (self.offline or self.folder / "offline") if role in OFFLINE else self.folder

    def make(self, role: str, word: str = "") -> Signer:
        """Return the key `<role>.pem`, or `<role>.<word>.pem`; it is made if it is absent.

        That of a role with a URI is there already.

        Raises:
            UsageError: `key_unreadable`, `keys_unusable`; and as `key_uris.open_key`.
        """
        if role in self.uris:
            return self._elsewhere(self.uris[role])
        name = f"{role}.{word}.pem" if word else f"{role}.pem"
        folder = self.place(role)
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            folder.chmod(FOLDER_MODE)
            write_private(folder / name, CryptoSigner.generate_ed25519().private_bytes)
        except OSError as error:
            raise _unusable(folder, error) from None
        return _read(folder / name)

    def find(self, role: str, named: Collection[str]) -> Signer | None:
        """Return a key of a role whose id is one of `named`, or None."""
        return next((key for key in self.all(role) if key.public_key.keyid in named), None)

    def signer(self, role: str, named: Collection[str]) -> Signer:
        """Return a key of a role whose id is one of `named`: the ids that the index names for the role.

        Raises:
            Temporary: `index_key_missing`: an online one; `key_service_unreachable`.
            NotAvailable: `offline_keys_missing`.
        """
        found = self.find(role, named)
        if found is not None:
            return found
        if role in self.uris:
            self._check_named(role, named)
        what = f"`{self.place(role)}` has no key `{role}.pem` that the index names for `{role}`"
        if role in OFFLINE:
            raise NotAvailable(
                "offline_keys_missing",
                what,
                hint="bring the folder with the offline keys back, or name it with `--offline-keys`",
            )
        raise Temporary(
            "index_key_missing",
            what,
            hint="the registry's operator must put it back, or rotate the keys; all machines of a registry "
            "share one folder of keys (`PLUGREG_REGISTRY_KEYS`)",
        )

    def all(self, role: str) -> Sequence[Signer]:
        """Return the keys of a role that can be read."""
        return tuple(self._readable(role))

    def _elsewhere(self, uri: str) -> Signer:
        """Return what signs with the key of a URI. It is asked for once in the life of a process."""
        if uri not in self._opened:
            self._opened[uri] = _open(uri)
        return self._opened[uri]

    def _check_named(self, role: str, named: Collection[str]) -> None:
        """Say why the key of a role's URI does not sign, if that is so.

        Raises:
            Temporary: `index_key_missing`; `key_service_unreachable`.
        """
        uri = self.uris[role]
        try:
            key = self._elsewhere(uri)
        except Temporary:
            raise
        except PlugregError as error:
            raise Temporary("index_key_missing", error.message, hint=error.hint) from None
        if key.public_key.keyid not in named:
            raise Temporary(
                "index_key_missing",
                f"the index does not name the key {uri} for `{role}`",
                hint="the registry's operator must run `plugreg-registry rotate`",
            )

    @property
    def failing(self) -> bool:
        """Whether a key in a service could not sign when it was last wanted."""
        return any(isinstance(signer, ServiceSigner) and signer.failed for signer in self._opened.values())

    def settle(self, role: str, named: Collection[str]) -> None:
        """Give the key of a role that is named its plain name `<role>.pem`, and remove the role's other keys.

        Without a key that is named nothing is touched: perhaps the index is the wrong one.

        Raises:
            UsageError: `keys_unusable`.
        """
        plain = self.place(role) / f"{role}.pem"
        used = next((path for path, key in self._files(role) if key.public_key.keyid in named), None)
        elsewhere = role in self.uris and self._elsewhere(self.uris[role]).public_key.keyid in named
        if used is None and not elsewhere:
            return
        try:
            if elsewhere:
                plain.unlink(missing_ok=True)
            elif used not in {None, plain}:
                used.replace(plain)
            for path in _others(plain):
                path.unlink(missing_ok=True)
            if plain.parent.is_dir():
                _sync(plain.parent)
        except OSError as error:
            raise _unusable(plain.parent, error) from None

    def _readable(self, role: str) -> Iterator[Signer]:
        if role in self.uris:
            with suppress(PlugregError):
                yield self._elsewhere(self.uris[role])
        yield from (key for _, key in self._files(role))

    def _files(self, role: str) -> Iterator[tuple[Path, CryptoSigner]]:
        plain = self.place(role) / f"{role}.pem"
        for path in (plain, *_others(plain)):
            with suppress(UsageError):
                yield path, _read(path)


class ServiceSigner(Signer):
    """Signs with a key in a service. What it answers is verified before anybody relies on it."""

    def __init__(self, uri: str, service: Signer) -> None:
        self._uri = uri
        self._service = service
        self.failed = False
        """Whether the last signature could not be had."""

    @property
    def public_key(self) -> Key:
        """See `Signer`."""
        return self._service.public_key

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> Signer:
        """See `Signer`. The service is asked for the public half, so one that is given has to be the same.

        Raises:
            ValueError: it is another one. PlugregError: as `key_uris.open_key`.
        """
        opened = open_key(priv_key_uri, secrets_handler or secrets_of(priv_key_uri, os.environ))[0]
        if opened.public_key != public_key:
            raise ValueError(f"the key {priv_key_uri} is not the one that is wanted")
        return cls(priv_key_uri, opened)

    def sign(self, payload: bytes) -> Signature:
        """See `Signer`.

        Raises:
            Temporary: `key_service_unreachable`, `key_service_failed`.
        """
        try:
            with explaining(self._uri):
                signature = self._service.sign(payload)
                self.public_key.verify_signature(signature, payload)
        except Temporary:
            self.failed = True
            raise
        except PlugregError as error:  # readers are served, and the next attempt may succeed
            self.failed = True
            raise Temporary("key_service_failed", error.message, hint=error.hint) from None
        self.failed = False
        return signature


def _open(uri: str) -> Signer:
    """Return what signs with the key that a URI names.

    Raises:
        UsageError: `key_unreadable`; and as `key_uris.open_key`.
    """
    environ: Mapping[str, Any] = os.environ
    if scheme_of(uri) == FILE_SCHEME:
        return _read(file_of(uri, environ))
    return ServiceSigner(uri, open_key(uri, secrets_of(uri, environ))[0])


def _others(plain: Path) -> Sequence[Path]:
    return sorted(plain.parent.glob(f"{plain.stem}.*.pem"))


def _unusable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        "keys_unusable",
        f"the keys of the index cannot be kept in `{folder}`: {error.strerror}",
        hint="name a folder with `PLUGREG_REGISTRY_KEYS`",
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a private file, whole and durable, if there is none."""
    if path.exists():
        return
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, FILE_MODE)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> CryptoSigner:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
        return CryptoSigner(key)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except (ValueError, TypeError, UnsupportedAlgorithm, SigningError):
        reason = "it is no private key in PEM without a passphrase"
    raise UsageError("key_unreadable", f"the key `{path}` cannot be used: {reason}")
