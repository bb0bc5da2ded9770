"""Keys that never leave a service or a device. They are named by the URIs of securesystemslib.

file2:PATH                                          a file of this machine
awskms:KEY  gcpkms:KEY  azurekms://VAULT/keys/KEY   the key service of a cloud
hv:KEY                                              a Vault, or what speaks like one
hsm:KEY?label=TOKEN                                 a device, by PKCS #11

The library brings the calls, its extras the kits. What is not an Ed25519 or ECDSA P-256 key is refused. The
words of a kit are not shown: they may hold a secret.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from plugreg_schemas.errors import InvalidInput, NotAvailable, PlugregError, Temporary, UsageError
from plugreg_schemas.names import quoted
from plugreg_schemas.signing_kits import import_without_kits, signer_with_kit
from plugreg_schemas.trust.keys import load_public_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from securesystemslib.signer import Key, Signer

PASSPHRASE: Final = "PLUGREG_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
FILE_SCHEME: Final = "file2"
FILE_PREFIX: Final = "CRYPTO_SIGNER_PATH_PREFIX"
"""The library's variable for the folder that the path of a `file2:` URI is relative to."""
SERVER_FAULT: Final = 500
ED25519_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410)."""
_TALKATIVE: Final = ("securesystemslib", "azure", "google", "botocore")
_UNREACHABLE: Final = frozenset(
    {
        "ConnectionError",
        "HTTPClientError",
        "Timeout",
        "TimeoutError",
        "ServiceRequestError",
        "ServiceResponseError",
        "RetryError",
        "VaultDown",
        "InternalServerError",
        "BadGateway",
    }
)
"""Classes of errors by which the kits, and what they stand on, say that nobody answered."""


@dataclass(frozen=True, slots=True)
class _Service:
    """A scheme of URIs. `extra` of securesystemslib installs its kit, which finds `needs` by itself."""

    extra: str
    needs: str
    example: str


_SERVICES: Final = {
    "awskms": _Service("awskms", "credentials and a region as the AWS tools find them", "awskms:alias/NAME"),
    "azurekms": _Service(
        "azurekms", "a login as the Azure tools find it", "azurekms://VAULT.vault.azure.net/keys/NAME"
    ),
    "gcpkms": _Service(
        "gcpkms",
        "application default credentials of Google",
        "gcpkms:projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/1",
    ),
    "hsm": _Service("hsm", f"`PYKCS11LIB`, the module of the device, and its PIN in `{PASSPHRASE}`", "hsm:2"),
    "hv": _Service("vault", "`VAULT_ADDR` and `VAULT_TOKEN`", "hv:NAME"),
}


def is_key_uri(name: str) -> bool:
    """Whether `name` begins with a scheme that the library signs with."""
    import_without_kits()
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME  # noqa: PLC0415 - it needs the line above

    return scheme_of(name) in SIGNER_FOR_URI_SCHEME


def open_key(uri: str, secret: Callable[[str], str]) -> tuple[Signer, bytes]:
    """Return what signs with the key that a URI names, and its public half (DER SPKI).

    `secret` answers when the library wants one, such as a PIN. Not for a `file2:` URI.

    Raises:
        UsageError: `key_uri_invalid`, `key_version_old`, `key_library_missing`; and what `secret` raises.
        InvalidInput: `key_invalid`. NotAvailable: `key_service_failed`.
        Temporary: `key_service_unreachable`.
    """
    if scheme_of(uri) not in _SERVICES:
        raise _bad_key(uri)
    arguments = _arguments(uri, secret)
    _keep_quiet()
    with explaining(uri):
        library: Any = signer_with_kit(scheme_of(uri))
        newest, key = library.import_(*arguments)
    _check_version(uri, newest)
    public = _public(uri, key)
    with explaining(uri):
        return library.from_priv_key_uri(newest, key, secret), public


def scheme_of(uri: str) -> str:
    """Return what stands before the colon."""
    return uri.partition(":")[0]


def file_of(uri: str, environ: Mapping[str, str]) -> Path:
    """Return the file that a `file2:` URI names.

    Raises:
        NotAvailable: `key_not_found`.
    """
    path = os.path.join(environ.get(FILE_PREFIX, ""), urlsplit(uri).path)  # noqa: PTH118 - as the library does
    if os.path.isfile(path):  # noqa: PTH113 - unlike `Path.is_file` it bears names that no file can have
        return Path(path)
    raise NotAvailable("key_not_found", f"there is no file for the key {quoted(uri)}")


def _arguments(uri: str, secret: Callable[[str], str]) -> tuple[object, ...]:
    """Return what the library's `import_` wants to know, which differs with the scheme."""
    try:
        parts = urlsplit(uri)
        if parts.scheme == "hsm":
            label = parse_qs(parts.query).get("label", [None])[0]
            return (int(parts.path) if parts.path else None, label, secret)
        if parts.scheme == "azurekms":
            vault, _, host = parts.netloc.partition(".")
            folder, name, *_version = parts.path.strip("/").split("/")
            if vault and name and (host, folder) == ("vault.azure.net", "keys"):
                return (vault, name)
        name = parts.path.partition("/")[0] if parts.scheme == "hv" else parts.path
        if name and not parts.netloc:
            return (name,)
    except ValueError:
        pass
    raise UsageError(
        "key_uri_invalid",
        f"{quoted(uri)} does not name a key",
        hint=f"write it as `{_SERVICES[scheme_of(uri)].example}`",
    )


def _check_version(uri: str, newest: str) -> None:
    """Refuse to sign with another version of a key than was named: the library finds only the newest."""
    versioned = scheme_of(uri) in {"hv", "azurekms"}
    if versioned and newest != uri and not newest.startswith(uri.rstrip("/") + "/"):
        raise UsageError(
            "key_version_old",
            f"{quoted(uri)} is not the newest version of this key",
            hint=f"only the newest can sign: `{newest}`; make it an owner first",
        )


def _public(uri: str, key: Key) -> bytes:
    """Return the public half (DER SPKI) of a key as the library describes it.

    Raises:
        InvalidInput: `key_invalid`.
    """
    value = str(key.keyval.get("public", ""))
    try:
        if (key.keytype, key.scheme) == ("ed25519", "ed25519"):
            public = ED25519_PREFIX + bytes.fromhex(value)
        elif (key.keytype, key.scheme) == ("ecdsa", "ecdsa-sha2-nistp256"):
            public = serialization.load_pem_public_key(value.encode()).public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        else:
            raise _bad_key(uri)
        load_public_key(public)
    except (ValueError, UnsupportedAlgorithm, InvalidInput):
        raise _bad_key(uri) from None
    return public


def secrets_of(
    uri: str, environ: Mapping[str, str], ask: Callable[[str], str] | None = None
) -> Callable[[str], str]:
    """Return what answers when the library wants a secret. Nobody is asked twice for the same one."""

    @cache
    def secret(name: str) -> str:
        if environ.get(PASSPHRASE):
            return environ[PASSPHRASE]
        if ask is None:
            raise UsageError(
                "key_passphrase_missing", f"the key {quoted(uri)} wants a {name}", hint=f"set {PASSPHRASE}"
            )
        return ask(f"{name} of {uri}: ")

    return secret


def _keep_quiet() -> None:
    """Keep the library and the kits from writing to the standard error what is said once, in our words."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def explaining(uri: str) -> Iterator[None]:
    """Turn whatever the library or a kit raises into one of our errors, without their words.

    Raises:
        UsageError: `key_library_missing`. InvalidInput: `key_invalid`. NotAvailable: `key_service_failed`.
        Temporary: `key_service_unreachable`.
    """
    try:
        yield
    except PlugregError:
        raise
    except Exception as error:  # noqa: BLE001 - they raise what they like
        raise _explained(uri, error) from None


def _explained(uri: str, error: Exception) -> PlugregError:
    service = _SERVICES[scheme_of(uri)]
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "UnsupportedLibraryError" in kinds:
        return UsageError(
            "key_library_missing",
            f"what signs with `{scheme_of(uri)}:` is not installed",
            hint=f"pip install 'securesystemslib[{service.extra}]'",
        )
    if kinds & {"UnsupportedAlgorithmError", "UnsupportedKeyType"}:
        return _bad_key(uri)
    if kinds & _UNREACHABLE or _status(error) >= SERVER_FAULT:
        return Temporary(
            "key_service_unreachable",
            f"the service of the key {quoted(uri)} does not answer ({type(error).__name__})",
            hint="nothing was signed; try again later",
        )
    return NotAvailable(
        "key_service_failed",
        f"the key {quoted(uri)} cannot be used ({type(error).__name__})",
        hint=f"it must exist, and you may use it; it needs {service.needs}",
    )


def _status(error: Exception) -> int:
    """Return the HTTP status that the service answered with, or 0: each kit says it in its own place."""
    answer = getattr(error, "response", None)
    told = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(answer, dict) else None
    for status in (told, getattr(error, "status_code", None), getattr(error, "code", None)):
        if isinstance(status, int):
            return status
    return 0


def _bad_key(uri: str) -> InvalidInput:
    return InvalidInput(
        "key_invalid",
        f"{quoted(uri)} is not an Ed25519 or ECDSA P-256 key",
        hint="make one of these kinds there, or one in a file: `plugreg key new`",
    )
