"""Signing without a key of one's own: an identity token buys a certificate for the minutes of one signature.

    token > a certificate for a fresh key > signature > timestamp > transparency log > envelope

The services have no deadline of their own, so the whole has one here. What came back is verified as a
stranger would verify it before anything is sent on. The token is a secret: it is in no message, no log and
no argument.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from plugreg.network import Network
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, NotAllowed, PlugregError, Temporary, UsageError
from plugreg_schemas.trust.envelope import Envelope, read_envelope
from plugreg_schemas.trust.material import read_trust_config
from plugreg_schemas.trust.sigstore import SigstoreVerifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from sigstore.models import ClientTrustConfig
    from sigstore.sign import SigningContext

    from plugreg_schemas.statement import Statement

    _T = TypeVar("_T")

AUDIENCE: Final = "sigstore"
"""The audience that an identity token must be made for."""
SIGN_SECONDS: Final = 120
"""For one signature; Rekor 2 answers when the entry is in the log, which takes a while."""
SERVER_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class KeylessSigner:
    """Signs as whoever the identity token names. `config` is a trust configuration as JSON bytes."""

    token: str = field(repr=False)
    config: bytes
    seconds: float = SIGN_SECONDS
    network: Network = field(default_factory=Network)

    @property
    def public_key(self) -> str:
        """Nothing: the certificate is in the envelope."""
        return ""

    def sign(self, statement: Statement) -> Envelope:
        """Sign a statement.

        Raises:
            UsageError: `identity_token_invalid`, `trust_config_invalid`.
            NotAllowed: `identity_refused`: the certificate authority gives no certificate for this token.
            NotAvailable: `tls_failed`.
            Temporary: `sigstore_unreachable`, `sigstore_failed`, `sigstore_timeout`.
            IntegrityError, Unverifiable, InvalidInput: what came back cannot be verified.
        """
        payload = statement.payload()
        context = signing_context(self.config)
        content = within(self.seconds, lambda: _sign(context, self.token, payload), self.network)
        envelope = read_envelope(json.loads(content))
        SigstoreVerifier(lambda: self.config).verify(envelope)
        if envelope.payload != payload:
            raise IntegrityError("signature_invalid", "the signature is over another statement")
        return envelope


def client_config(config: bytes) -> ClientTrustConfig:
    """Return the library's view of a trust configuration that can sign.

    Raises:
        UsageError: `trust_config_invalid`.
    """
    from sigstore.models import ClientTrustConfig

    value = read_trust_config(config)
    try:
        return ClientTrustConfig.from_json(canonical_json(value).decode())
    except Exception as error:  # noqa: BLE001 - the library raises what it likes
        raise UsageError(
            "trust_config_invalid",
            f"the trust configuration does not say where to sign ({type(error).__name__})",
            hint="a trusted root alone can only verify; get the whole configuration of the instance",
        ) from None


def signing_context(config: bytes) -> SigningContext:
    """Return where and how to sign; see `client_config`."""
    from sigstore.sign import SigningContext

    whole = client_config(config)
    try:
        return SigningContext.from_trust_config(whole)
    except Exception as error:  # noqa: BLE001 - as above
        raise UsageError(
            "trust_config_invalid",
            f"the trust configuration names no service that can be used to sign ({type(error).__name__})",
            hint="its services may have expired; get a newer one",
        ) from None


def within(seconds: float, work: Callable[[], _T], network: Network) -> _T:
    """Return what `work` returns, or stop waiting for it. It believes the authorities of `network`.

    Raises:
        UsageError: `ca_file_invalid`.
        NotAvailable: `tls_failed`.
        Temporary: `sigstore_timeout`; and what `work` raises, in words that hold no secret.
    """
    results: list[_T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)  # a hanging service must not keep the command alive
    with network.for_requests():
        thread.start()
        thread.join(seconds)
    if results:
        return results[0]
    if not failures:
        raise Temporary("sigstore_timeout", f"the signing services did not answer within {seconds:g} seconds")
    raise _explained(failures[0], network) from None


def _sign(context: SigningContext, token: str, payload: bytes) -> str:
    from sigstore import dsse
    from sigstore.oidc import IdentityToken

    with context.signer(IdentityToken(token)) as signer:
        return signer.sign_dsse(dsse.Statement(payload)).to_json()


def _explained(error: BaseException, network: Network) -> BaseException:
    """Return what went wrong, for a person, without the library's own words: they could hold the token."""
    import requests
    from sigstore.oidc import ExpiredIdentity, IdentityError

    if isinstance(error, PlugregError) or not isinstance(error, Exception):
        return error
    if isinstance(error, IdentityError | ExpiredIdentity):
        return UsageError(
            "identity_token_invalid",
            "the identity token is malformed, expired or made for something else",
            hint=f"get a fresh one for the audience `{AUDIENCE}`",
        )
    cause = error if isinstance(error, requests.RequestException) else error.__cause__ or error
    place = str(getattr(getattr(cause, "request", None), "url", None) or "a signing service")
    if isinstance(cause, requests.exceptions.SSLError):
        return network.refusal(place, cause)
    if isinstance(cause, requests.ConnectionError | requests.Timeout):
        return Temporary("sigstore_unreachable", f"{place} cannot be reached")
    answer = getattr(cause, "response", None)
    status = answer.status_code if isinstance(answer, requests.Response) else 0
    if type(error).__name__ == "FulcioClientError" and 0 < status < SERVER_FAULT:
        return NotAllowed(
            "identity_refused",
            f"the certificate authority gives no certificate for this identity token (HTTP {status})",
            hint=f"it must be fresh, for the audience `{AUDIENCE}` "
            "and from a provider that the instance knows",
        )
    said = f"HTTP {status}" if status else type(error).__name__
    return Temporary(
        "sigstore_failed",
        f"the signing services failed ({said})",
        hint="try again; `--key` signs without them, where a key is an owner",
    )
