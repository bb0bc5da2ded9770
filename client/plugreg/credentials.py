"""Which identity a command signs with.

    --key, --identity-token-file, PLUGREG_IDENTITY_TOKEN > the CI's own token > the only key > the browser

A CI that hands out identity tokens needs no secret: its token buys the certificate. Where it hands out none
(the job lacks the permission), the only key there is stands in.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugreg import signing
from plugreg_schemas.errors import NotAvailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from plugreg.config import Config
    from plugreg.key_services import ServiceKey
    from plugreg.keyless import KeylessSigner
    from plugreg.signing import KeyFile, Signer

    _Key = TypeVar("_Key", bound=KeyFile | ServiceKey)

TOKEN: Final = "PLUGREG_IDENTITY_TOKEN"  # noqa: S105 - the name of a variable
MAX_TOKEN: Final = 1 << 16
"""Bytes of a token file; a CI's token has about 2,000."""
CI_VARIABLES: Final = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE")
"""One of them is set where it is worth to look for a CI's token: looking costs a costly import."""
LOGIN_SECONDS: Final = 600
CI_HINT: Final = (
    "on GitHub the job needs `permissions: id-token: write`; on GitLab an `id_tokens` entry "
    "`SIGSTORE_ID_TOKEN` for the audience `sigstore`; or name a key with `--key`"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says about the signer. `oob`: log in without a browser on this machine."""

    key: str = ""
    token_file: str = ""
    oob: bool = False


def choose_signer(
    settings: Config,
    wanted: Wanted,
    environ: Mapping[str, str],
    ask: Callable[[str], str] | None = None,
) -> Signer:
    """Return the signer that was named, else the one that the environment offers.

    `ask` is given where somebody is there to be asked, and to log in.

    Raises:
        UsageError: `signer_ambiguous`, `key_missing`, `key_ambiguous`, `ci_token_missing`,
            `identity_token_invalid`, `timestamp_url_invalid`.
        NotAvailable: `token_file_unreadable`, `login_failed`; and as `named_key`.
    """
    if wanted.key and wanted.token_file:
        raise UsageError(
            "signer_ambiguous", "a key and an identity token are given", hint="give one of the two"
        )
    if wanted.key:
        return _stamping(settings, named_key(settings.keys, wanted.key, environ, ask))
    token = read_token(wanted.token_file) if wanted.token_file else environ.get(TOKEN, "").strip()
    if token:
        return _keyless(settings, token)
    in_ci = any(environ.get(name) for name in CI_VARIABLES)
    token = _ci_token(settings) if in_ci else ""
    if token:
        return _keyless(settings, token)
    names = signing.key_names(settings.keys)
    if not names and in_ci:
        raise UsageError(
            "ci_token_missing", "this CI gives no identity token, and there is no key", hint=CI_HINT
        )
    if not names and ask is not None:
        return _keyless(settings, _log_in(settings, oob=wanted.oob))
    return _stamping(settings, signing.choose_key(settings.keys, "", environ, ask))


def named_key(
    folder: Path, name: str, environ: Mapping[str, str], ask: Callable[[str], str] | None = None
) -> KeyFile | ServiceKey:
    """Return the key that is named: by its name in `folder`, by its file, or by its URI.

    Raises:
        PlugregError: as `load_key` and `key_services.load_uri`.
    """
    if ":" in name and not os.path.isfile(name):  # noqa: PTH113 - as in `signing`
        from plugreg.key_services import load_uri
        from plugreg_schemas.key_uris import is_key_uri

        if is_key_uri(name):
            return load_uri(name, environ, ask)
    return signing.load_key(folder, name, environ, ask)


def _stamping(settings: Config, key: _Key) -> _Key:
    """Return the key as one that gets timestamps, where the settings name an authority.

    Raises:
        UsageError: `timestamp_url_invalid`.
    """
    url = settings.timestamp_url
    if not url:
        return key
    from plugreg.network import Network
    from plugreg.timestamping import check_url, timestamp

    check_url(url)
    network = Network(settings.ca_file)
    return replace(key, timestamp=lambda signature: timestamp(url, signature, network))


def read_token(name: str) -> str:
    """Read an identity token from a file, or from the standard input where it is named `-`.

    Raises:
        NotAvailable: `token_file_unreadable`.
        UsageError: `identity_token_invalid`.
    """
    try:
        if name == "-":
            content = sys.stdin.buffer.read(MAX_TOKEN)
        else:
            with Path(name).open("rb") as file:
                content = file.read(MAX_TOKEN)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "that is not a file name"
        raise NotAvailable(
            "token_file_unreadable", f"the identity token cannot be read from {name!r}: {reason}"
        ) from None
    token = content.strip()
    if not token or not token.isascii() or token.split() != [token]:
        raise UsageError(
            "identity_token_invalid",
            "there is no identity token in the file",
            hint="it is one line of the form `xxx.yyy.zzz`, made for the audience `sigstore`",
        )
    return token.decode()


def _keyless(settings: Config, token: str) -> KeylessSigner:
    from plugreg.keyless import KeylessSigner
    from plugreg.network import Network
    from plugreg.trust_material import trust_config

    return KeylessSigner(token, trust_config(settings), network=Network(settings.ca_file))


def _ci_token(settings: Config) -> str:
    """Return the token that this CI hands out, or nothing."""
    from sigstore.oidc import IdentityError, detect_credential

    from plugreg.keyless import AUDIENCE
    from plugreg.network import Network

    try:
        with Network(settings.ca_file).for_requests():
            return detect_credential(AUDIENCE) or ""
    except IdentityError:
        return ""  # the job lacks the permission; what happens then depends on the keys


def _log_in(settings: Config, *, oob: bool) -> str:
    """Let the person log in, in the browser or by a code that they copy; return the identity token.

    Raises:
        NotAvailable: `login_failed`, `tls_failed`.
        Temporary: `sigstore_unreachable`, `sigstore_timeout`.
    """
    from sigstore.errors import NetworkError
    from sigstore.oidc import Issuer

    from plugreg.keyless import client_config, within
    from plugreg.network import Network
    from plugreg.trust_material import trust_config

    config = client_config(trust_config(settings))

    def log_in() -> str:
        try:
            return str(Issuer(config.signing_config.get_oidc_url()).identity_token(force_oob=oob))
        except NetworkError:
            raise
        except Exception as error:  # noqa: BLE001 - the library raises what it likes
            raise NotAvailable(
                "login_failed",
                f"nobody logged in ({type(error).__name__})",
                hint="without a browser on this machine add `--oob`; or make a key: `plugreg key new`",
            ) from None

    return within(LOGIN_SECONDS, log_in, Network(settings.ca_file))
