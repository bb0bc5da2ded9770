"""A timestamp for a signature: an authority (RFC 3161) signs that it was there, and when.

    timestamp   signature > request with a nonce > POST > reply, at most 64 KiB > granted, for this request
    signed      statement > envelope with timestamp > judged by the trust material that its readers have

So a timestamp that nobody could use is never sent to a registry.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from plugreg.network import CONNECT_TIMEOUT_S, HEADERS, without_password
from plugreg_schemas.errors import IntegrityError, Temporary, Unverifiable, UsageError
from plugreg_schemas.names import quoted
from plugreg_schemas.trust.envelope import decode_base64
from plugreg_schemas.trust.material import TIMESTAMPS
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from rfc3161_client import TimeStampRequest
    from urllib3 import BaseHTTPResponse

    from plugreg.network import Network
    from plugreg.signing import Signer
    from plugreg_schemas.statement import Statement
    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.sigstore import SigstoreVerifier

MAX_REPLY: Final = 1 << 16
"""Bytes of a reply; with the certificates of the authority it has about 5,000."""
READ_TIMEOUT_S: Final = 20
TOTAL_S: Final = 30
"""Seconds for the whole reply, however it drips."""
GRANTED: Final = 0
"""The only status with which a timestamp is as it was asked for (RFC 3161, section 2.4.2)."""
QUERY_TYPE: Final = "application/timestamp-query"


def timestamp(url: str, signature: bytes, network: Network) -> bytes:
    """Return the authority's reply (DER, TimeStampResp) for a signature.

    Raises:
        UsageError: `timestamp_url_invalid`, `ca_file_invalid`, `proxy_invalid`.
        NotAvailable: `tls_failed`.
        Temporary: `timestamp_failed`: there is no reply, or none that holds for this signature.
    """
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    check_url(url)
    request = TimestampRequestBuilder().data(signature).hash_algorithm(HashAlgorithm.SHA256).build()
    reply = _ask(url, request.as_bytes(), network)
    _check(url, request, reply)
    return reply


def signed(signer: Signer, statement: Statement, sigstore: SigstoreVerifier | None) -> Envelope:
    """Sign a statement that is meant for a registry. A timestamp that its readers cannot use stops here.

    `sigstore` has the trust material that readers of the registry go by.

    Raises:
        Unverifiable: `trust_material_missing`: nobody there knows the timestamp authority.
        Temporary: `timestamp_failed`: what the authority sent is no timestamp of this signature.
        PlugregError: as `Signer.sign`.
    """
    envelope = signer.sign(statement)
    if envelope.signer.kind != "key" or not envelope.timestamps:
        return envelope
    try:
        proved = verify(envelope, {envelope.signer.id: decode_base64(signer.public_key)}, sigstore)
    except IntegrityError as error:
        raise Temporary(
            "timestamp_failed",
            f"the authority's timestamp does not hold: {error.message}",
            hint="nothing was sent; try again, or name another authority: `--timestamp-url`",
        ) from None
    if proved.time is None:
        raise Unverifiable(
            "trust_material_missing",
            "readers of this registry cannot use the timestamp: its authority is not in the trust material, "
            f"or was not valid: {proved.time_missing}",
            hint="name another authority: `--timestamp-url`; or the operator adds it: see docs/policy.md",
            details={"missing": TIMESTAMPS},
        )
    return envelope


def check_url(url: str) -> None:
    """Refuse what cannot be the address of an authority.

    Raises:
        UsageError: `timestamp_url_invalid`.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        parts = urlsplit("")
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise UsageError(
            "timestamp_url_invalid",
            f"{quoted(without_password(url))} is not the URL of a timestamp authority",
            hint="write for example `--timestamp-url https://timestamp.example.com`",
        )


def _ask(url: str, request: bytes, network: Network) -> bytes:
    import urllib3

    try:
        with network.pool(url).request(
            "POST",
            url,
            body=request,
            headers={**HEADERS, "Content-Type": QUERY_TYPE},
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        ) as answer:
            if answer.status not in {200, 201}:
                raise _failed(url, f"it answered with HTTP status {answer.status}")
            content = _limited(answer, time.monotonic() + TOTAL_S)
    except urllib3.exceptions.SSLError as error:
        raise network.refusal(url, error) from None
    except (urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
        raise _failed(url, f"it cannot be reached ({type(error).__name__})") from None
    if len(content) > MAX_REPLY:
        raise _failed(url, f"its reply is larger than {MAX_REPLY} bytes")
    return content


def _limited(answer: BaseHTTPResponse, end: float) -> bytes:
    """Return the content, or one byte more than is accepted; one that drips does not outlast `end`."""
    content = b""
    while len(content) <= MAX_REPLY and (more := answer.read1(MAX_REPLY + 1 - len(content))):
        content += more
        if time.monotonic() > end:
            raise TimeoutError
    return content


def _check(url: str, request: TimeStampRequest, reply: bytes) -> None:
    """Refuse a reply that is none to this request: refused, about something else, or an older one again."""
    from rfc3161_client import decode_timestamp_response

    try:
        response = decode_timestamp_response(reply)
        granted = response.status == GRANTED
        info = response.tst_info if granted else None
    except Exception as error:  # noqa: BLE001 - the library raises what it likes
        raise _failed(url, f"its reply is no timestamp ({type(error).__name__})") from None
    if info is None:
        raise _failed(url, f"it refused with the status {response.status}")
    asked = request.message_imprint
    if (info.message_imprint.hash_algorithm, info.message_imprint.message) != (
        asked.hash_algorithm,
        asked.message,
    ):
        raise _failed(url, "its timestamp is of something else than this signature")
    if info.nonce != request.nonce:
        raise _failed(url, "its timestamp answers another request")


def _failed(url: str, reason: str) -> Temporary:
    return Temporary(
        "timestamp_failed",
        f"there is no timestamp from {quoted(without_password(url))}: {reason}",
        hint="nothing was sent to the registry; try again, or name another authority: `--timestamp-url`",
    )
