"""The HTTP under a registry: one request at a time, again where that helps, every failure one of our errors.

once       one exchange; a GET follows redirects, never from an encrypted place to an open one
request    once, again after connection faults, 429 and 502-504, with growing pauses; error answers are raised
whole      request and its whole content, again where the answer was cut short
"""

from __future__ import annotations

import random
import re
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

import urllib3

from plugreg.network import (
    HEADERS,
    Network,
    host_of,
    is_loopback,
    is_this_machine,
    origin,
    proxy_of,
    without_password,
)
from plugreg_schemas.api import Problem
from plugreg_schemas.errors import (
    INTEGRITY_CODES,
    UNVERIFIABLE_CODES,
    Boundary,
    Conflict,
    Finding,
    Gone,
    IntegrityError,
    InvalidInput,
    NoSpace,
    NotAllowed,
    NotAvailable,
    PlugregError,
    Severity,
    Temporary,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unverifiable,
    UsageError,
)
from plugreg_schemas.fields import read_model
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_DOCUMENT: Final = 16 << 20
"""Bytes of any document that is read into memory."""
MAX_REDIRECTS: Final = 5
DRIP_SECONDS: Final = 60
LEAST_PER_SECOND: Final = 1024
"""Bytes that must come in a second, on an average over `DRIP_SECONDS`."""
_MAX_PROBLEM: Final = 1 << 20
"""Bytes of an error's document; a longer one is no problem document."""
PLAIN_HEADERS: Final = frozenset(
    {
        "content-length",
        "content-range",
        "content-type",
        "if-match",
        "if-none-match",
        "if-range",
        "range",
    }
)
"""Headers that say what is asked for. All others may say who asks: they stay at the registry's origin."""
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
LINK_CODES: Final = frozenset(
    {
        "offline",
        "registry_unreachable",
        "registry_url_insecure",
        "registry_url_invalid",
        "tls_failed",
        "too_many_redirects",
    }
)
"""Refusals that say nothing of what was asked for: the registry was not reached. None comes from there."""
UNAUTHORIZED: Final = 401
HOW_TO_SAY: Final = (
    "run `plugreg registry add URL --token-file FILE`; or set `PLUGREG_TOKEN`, which goes to the registry "
    "that `--registry` names, else to the only one that was added"
)
TRANSIENT: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed at once."""
_CLASS_OF_STATUS: Final[dict[int, type[PlugregError]]] = {
    400: InvalidInput,
    401: Unauthenticated,
    403: NotAllowed,
    404: NotAvailable,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: InvalidInput,
    429: TooMany,
    507: NoSpace,
}


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a request is made, and the seconds between two tries, doubled every time."""

    tries: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 30.0
    """Also the most that is waited where the registry asks for more."""

    def pauses(self) -> Iterator[float | None]:
        """Yield how long to wait after each try, with jitter; None after the last."""
        for exponent in range(self.tries - 1):
            pause = self.first_pause_s * 2**exponent * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
            yield min(pause, self.longest_pause_s)
        yield None

    def asked(self, retry_after: str, pause: float) -> float:
        """Return the seconds that the registry asks for, where it does."""
        wanted = retry_after.isascii() and retry_after.isdecimal()
        return min(float(retry_after), self.longest_pause_s) if wanted else pause


PATIENT: Final = Patience()


def check_url(url: str, *, insecure_http: bool = False) -> str:
    """Return a registry's URL with one slash at its end.

    Raises:
        UsageError: `registry_url_invalid`, `registry_url_insecure`.
    """
    parts = urlsplit("")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        host = ""
    plain = url.isascii() and url.isprintable() and not set(url) & set(" ?#@\\")
    if not host or not plain or parts.scheme not in {"http", "https"}:
        raise UsageError(
            "registry_url_invalid",
            f"{quoted(without_password(url))} is not the URL of a registry",
            hint="write for example `https://plugins.example.com`",
        )
    if _is_exposed(url) and not insecure_http:
        raise UsageError(
            "registry_url_insecure",
            f"{quoted(url)} is not encrypted",
            hint="use https, or `plugreg registry add --insecure-http` if the network between is trusted",
        )
    return url.rstrip("/") + "/"


def _is_exposed(url: str) -> bool:
    """Whether what goes to this URL can be read and changed on its way."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


class Link:
    """How one registry is reached. `url` ends in a slash; what is asked for is relative to it or absolute.

    `token` says who asks, to the origin of `url` and to no other.
    """

    def __init__(
        self,
        url: str,
        *,
        insecure_http: bool = False,
        patience: Patience = PATIENT,
        network: Network | None = None,
        token: str = "",
    ) -> None:
        self.url = check_url(url, insecure_http=insecure_http)
        self.patience = patience
        self._credential = {"Authorization": f"Bearer {token}"} if token else {}
        self._insecure_http = insecure_http
        self._network = network or Network()

    def whole(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        limit: int = MAX_DOCUMENT,
    ) -> tuple[int, bytes]:
        """Return the status and the whole content of an answer; a cut one is asked for again.

        Raises:
            TooLarge: `document_too_large`: it has more than `limit` bytes, and the rest is not read.
        """
        for pause in self.patience.pauses():
            with self.request(method, path, body=body, headers=headers) as response:
                try:
                    content = _limited(response, limit)
                except TimeoutError:
                    raise self._unreachable(
                        f"{self.url} sends next to nothing of what was asked for"
                    ) from None
                except (urllib3.exceptions.HTTPError, OSError):
                    if pause is None:
                        raise self._unreachable(
                            f"the connection to {self.url} ended in the middle of an answer"
                        ) from None
                    time.sleep(pause)
                    continue
            if len(content) > limit:
                raise TooLarge("document_too_large", f"{path} is larger than {limit} bytes")
            return response.status, content
        raise AssertionError  # the last pause is None and ends the loop

    def request(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Ask until an answer comes that is not a passing fault, and raise for it if it is an error."""
        for pause in self.patience.pauses():
            try:
                response = self.once(method, path, body=body, headers=headers)
                if response.status not in TRANSIENT or pause is None:
                    raise_for(response)
                    return response
                response.close()
                time.sleep(self.patience.asked(response.headers.get("Retry-After", ""), pause))
            except Temporary as error:
                if error.code != "connection_failed":
                    raise
                if pause is None:
                    raise self._unreachable(error.message) from None
                time.sleep(pause)
        raise AssertionError  # the last pause is None and ends the loop

    def _unreachable(self, message: str) -> NotAvailable:
        return NotAvailable(
            "registry_unreachable", message, hint="is the address right and the registry running?"
        )

    def once(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Ask once. Only a GET follows redirects: the URLs of uploads are secrets."""
        url, said = _joined(self.url, path), {**self._credential, **(headers or {})}
        for _ in range(MAX_REDIRECTS + 1):
            self._check_way(url)
            if origin(url) != origin(self.url):
                said = _without_ours(said)  # for good: who was led away is not led back with it
            response = self._sent(method, url, body, said)
            to = response.get_redirect_location() if method == "GET" else None
            if not to:
                self._check_known(response, url, said)
                return response
            response.close()
            url = _joined(url, to)
        raise NotAvailable(
            "too_many_redirects",
            f"the registry {self.url} redirects in a circle",
            hint="is the address right? its operator can tell",
        )

    def _check_known(self, response: urllib3.BaseHTTPResponse, url: str, said: Mapping[str, str]) -> None:
        """Say it in our own words where the registry wants to know who asks, or does not believe it."""
        if response.status != UNAUTHORIZED or origin(url) != origin(self.url):
            return
        response.close()
        if "Authorization" in said:
            raise Unauthenticated(
                "token_invalid",
                f"the registry {self.url} does not accept the token: it is wrong, removed or over",
                hint=f"ask its operator for a new one, then {HOW_TO_SAY}",
            )
        raise Unauthenticated(
            "token_missing",
            f"the registry {self.url} is not open to everybody: it wants a token",
            hint=f"ask its operator for one, then {HOW_TO_SAY}",
        )

    def _check_way(self, url: str) -> None:
        """Refuse to be led from an encrypted place to an open one, or from elsewhere to this machine.

        What listens on loopback takes requests from whoever runs here for a friend's; a registry is none.
        """
        if _is_exposed(url) and not self._insecure_http:
            raise NotAvailable(
                "registry_url_insecure",
                f"the registry {self.url} leads to {quoted(url)}, which is not encrypted",
            )
        if is_this_machine(host_of(url)) and not is_this_machine(host_of(self.url)):
            raise NotAvailable(
                "registry_url_insecure",
                f"the registry {self.url} leads to {quoted(url)}, which is this machine",
            )

    def _sent(
        self, method: str, url: str, body: bytes | Iterator[bytes] | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._network.pool(url).request(
                method,
                url,
                body=body,
                headers={**HEADERS, **headers},
                preload_content=False,
                decode_content=False,  # nothing encoded was asked for: no small answer becomes a large one
                redirect=False,
                retries=False,
            )
        except urllib3.exceptions.SSLError as error:
            if isinstance(error.args[0], ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise Temporary("connection_failed", f"the connection to {self.url} was cut off") from None
            raise self._network.refusal(url, error) from None
        except (urllib3.exceptions.LocationValueError, UnicodeError):
            raise NotAvailable(
                "registry_url_invalid", f"the registry {self.url} leads to {quoted(url)}, which is no URL"
            ) from None
        except urllib3.exceptions.ProxyError as error:
            proxy, reason = without_password(proxy_of(url)), quoted(str(error.original_error))
            raise Temporary(
                "connection_failed", f"no connection to {self.url} by the proxy {quoted(proxy)}: {reason}"
            ) from None
        except (urllib3.exceptions.HTTPError, OSError):
            raise Temporary("connection_failed", f"no connection to {self.url}") from None


def error_of(problem: Problem, status: int) -> PlugregError:
    """Return the error that a registry reported as a problem document, in the class that it was raised as."""
    kind = _CLASS_OF_STATUS.get(status) or (
        Temporary if status >= 500 else InvalidInput if status >= 400 else NotAvailable  # noqa: PLR2004
    )
    if problem.code in INTEGRITY_CODES:
        kind = IntegrityError
    elif problem.code in UNVERIFIABLE_CODES:
        kind = Unverifiable
    findings = [
        Finding(
            item.code,
            item.message,
            Severity(item.severity) if item.severity in set(Severity) else Severity.ERROR,
            Boundary(item.boundary) if item.boundary in set(Boundary) else Boundary.REGISTRY,
            item.file,
            item.pointer,
        )
        for item in problem.errors
    ]
    return kind(
        problem.code if problem.code not in LINK_CODES else "http_error",
        problem.detail or problem.title,
        hint=problem.hint,
        findings=findings,
        details={
            **({"request_id": problem.request_id} if problem.request_id else {}),
            **(problem.model_extra or {}),
        },
    )


def _without_ours(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that another origin may see: storage refuses a second credential."""
    return {name: value for name, value in headers.items() if name.lower() in PLAIN_HEADERS}


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        raise NotAvailable(
            "registry_url_invalid", f"the registry {base} leads to {quoted(reference)}, which is no URL"
        ) from None


def steadily(response: urllib3.BaseHTTPResponse, at_most: int) -> Iterator[bytes]:
    """Yield the content in pieces, as it comes; who sends next to nothing for a minute is given up.

    No single read waits too long where a server drips, and without this nothing would ever end it.

    Raises:
        TimeoutError: it drips. HTTPError, OSError: the connection ended too early.
    """
    since, got = time.monotonic(), 0
    while piece := response.read1(at_most):
        yield piece
        got += len(piece)
        waited = time.monotonic() - since
        if waited > DRIP_SECONDS:
            if got < waited * LEAST_PER_SECOND:
                raise TimeoutError
            since, got = time.monotonic(), 0


def _limited(response: urllib3.BaseHTTPResponse, limit: int) -> bytes:
    """Return the content, or more than `limit` bytes of it; only the empty read tells that it is whole."""
    content = bytearray()
    for piece in steadily(response, limit + 1):
        content += piece
        if len(content) > limit:
            break
    return bytes(content)


def raise_for(response: urllib3.BaseHTTPResponse) -> None:
    """Raise what an answer that is no success says."""
    if 200 <= response.status < 300:  # noqa: PLR2004
        return
    with response:
        try:
            content = _limited(response, _MAX_PROBLEM)
            problem = read_model(Problem, content, code="http_error")
            if not _CODE.fullmatch(problem.code):
                raise ValueError("no code")
        except (InvalidInput, ValueError, urllib3.exceptions.HTTPError, OSError):
            words = f"the registry answered with HTTP status {response.status}"
            problem = Problem(title=words, status=response.status, code="http_error")
    raise error_of(problem, response.status)
