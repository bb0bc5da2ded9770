"""How this machine reaches others: whose certificates it believes, and through which proxy.

    pool          the connections by which a URL is reached
    for_requests  the same authorities for the library that speaks to the signing services
    refusal       why no encrypted connection came about, and what to do

A file of authorities takes the place of the system's: only who is in it is believed. Proxies come from the
variables that curl reads (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`). Authorities are loaded for
the first connection that is encrypted: a command that makes none does not pay, nor trip over a wrong setting.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import ssl
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import urllib3

from plugreg.config import SYSTEM_CA, CaFile
from plugreg_schemas.errors import NotAvailable, UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_TIMEOUT_S: Final = 10
READ_TIMEOUT_S: Final = 60
HEADERS: Final = {"User-Agent": "plugreg", "Accept-Encoding": "identity"}
"""What goes along with every request."""
REQUESTS_VARIABLE: Final = "REQUESTS_CA_BUNDLE"
"""The only word that the `requests` library takes from outside a program."""
ISSUER_UNKNOWN: Final = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's X509_V_ERR codes for: nobody who is believed vouches for this certificate."""
CA_HINT: Final = (
    "if your network inspects TLS, or the server's authority is your organisation's own, "
    "name the file of its certificate: `--ca-file FILE`, `SSL_CERT_FILE` or `REQUESTS_CA_BUNDLE`"
)


class Network:
    """The ways out of this machine, for one command."""

    def __init__(self, authorities: CaFile = SYSTEM_CA) -> None:
        self.authorities = authorities
        self._pools: dict[tuple[bool, str], urllib3.PoolManager] = {}

    def pool(self, url: str) -> urllib3.PoolManager:
        """Return the connections that a URL is asked for over.

        Raises:
            UsageError: `ca_file_invalid`, `proxy_invalid`.
        """
        way = (_scheme(url) == "https", proxy_of(url))
        if way not in self._pools:
            self._pools[way] = self._new_pool(*way)
        return self._pools[way]

    def _new_pool(self, encrypted: bool, proxy: str) -> urllib3.PoolManager:  # noqa: FBT001 - a part of the key
        options: dict[str, Any] = {
            "timeout": urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            "retries": False,
            "headers": HEADERS,
            **({"ssl_context": self.tls} if encrypted else {}),
        }
        if not proxy:
            return urllib3.PoolManager(**options)
        if _scheme(proxy) == "https":
            options["proxy_ssl_context"] = self.tls
        try:
            return urllib3.ProxyManager(proxy, proxy_headers=_credentials(proxy), **options)
        except (urllib3.exceptions.HTTPError, ValueError):
            raise UsageError(
                "proxy_invalid",
                f"{quoted(without_password(proxy))} is not a proxy that can be used",
                hint="`HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` look like `http://proxy.example:3128`",
            ) from None

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """How certificates of servers are judged.

        Raises:
            UsageError: `ca_file_invalid`.
        """
        path = self._authorities()
        try:
            if path is None:
                return ssl.create_default_context()
            if path.is_dir():
                return ssl.create_default_context(capath=str(path))
            return ssl.create_default_context(cafile=str(path))
        except ssl.SSLError:
            raise self._unusable("there is no certificate in it (PEM)") from None
        except OSError as error:
            raise self._unusable(error.strerror or "it cannot be read") from None

    def _authorities(self) -> Path | None:
        """Return the file or folder of authorities, None for the system's."""
        if not self.authorities.path:
            return None
        try:
            path = Path(self.authorities.path).expanduser()
            if path.is_file() or path.is_dir():
                return path
            reason = "it is no file" if path.exists() else "it is not there"
        except (OSError, RuntimeError, ValueError):
            reason = "it cannot be reached"
        raise self._unusable(reason)

    def _unusable(self, reason: str) -> UsageError:
        path, named_by = self.authorities
        return UsageError(
            "ca_file_invalid",
            f"the certificate authorities {quoted(path)} cannot be used: {reason}",
            hint=f"`{named_by}` names it; it must be a file of certificates in PEM form",
        )

    @contextmanager
    def for_requests(self) -> Iterator[None]:
        """Let the `requests` library believe the same authorities for as long as the block lasts.

        It would believe a list of its own, and takes another one only from a variable of this process.

        Raises:
            UsageError: `ca_file_invalid`.
        """
        if self.authorities.path:
            _ = self.tls  # says in our words what is wrong with the file
        path = self._authorities() or _system_authorities()
        before = os.environ.get(REQUESTS_VARIABLE)
        _set(REQUESTS_VARIABLE, str(path) if path else before)
        try:
            yield
        finally:
            _set(REQUESTS_VARIABLE, before)

    def refusal(self, url: str, error: BaseException) -> NotAvailable:
        """Say why no encrypted connection to `url` came about. `error` is the TLS library's, or wraps it."""
        place = origin(url)
        fault = _certificate_fault(error)
        if fault is None:
            return NotAvailable(
                "tls_failed",
                f"no encrypted connection to {place}: {_reason(error)}",
                hint="is the address right, and is TLS spoken there?",
            )
        issuer = issuer_shown(url)
        return NotAvailable(
            "tls_failed",
            f"the certificate of {place} is not accepted: {fault.verify_message}"
            + (f"; its issuer is {quoted(issuer)}" if issuer else ""),
            hint=CA_HINT
            if fault.verify_code in ISSUER_UNKNOWN
            else "is the address right, and the clock of this machine? else its operator must renew it",
        )


def is_loopback(host: str) -> bool:
    """Whether a URL's host is this machine: `localhost` or a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine however it is written: `127.1`, `0.0.0.0`, `[::ffff:127.0.0.1]`."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, UnicodeError):
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def host_of(url: str) -> str:
    """Return a URL's host, nothing where it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def origin(url: str) -> str:
    """Return scheme, host and port of a URL as one text, the port always written."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    except ValueError:
        return ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}" if host else ""


def without_password(url: str) -> str:
    """Return a URL as it may be shown."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}...@{rest.rpartition('@')[2]}" if "@" in rest else url


def proxy_of(url: str) -> str:
    """Return the proxy that the environment names for a URL, nothing for the direct way.

    What is on this machine is never asked for over a proxy.
    """
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(_scheme(url)) or proxies.get("all", "")
    host = host_of(url)
    if not proxy or not host or is_this_machine(host):
        return ""
    if proxy_bypass(origin(url).partition("://")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def issuer_shown(url: str) -> str:
    """Return who issued the certificate that a server shows, proved by nothing; nothing where it shows none.

    The connection is made for that alone: no request is sent over it.
    """
    from cryptography import x509

    parts, proxy = urlsplit(url), urlsplit(proxy_of(url))
    if proxy.scheme not in {"", "http"}:
        return ""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    try:
        near = proxy if proxy.hostname else parts
        line = http.client.HTTPSConnection(
            near.hostname or "", near.port, timeout=CONNECT_TIMEOUT_S, context=anybody
        )
        if proxy.hostname:
            secret = dict(_credentials(proxy.geturl()))
            line.set_tunnel(parts.hostname or "", parts.port or 443, headers=secret)
        try:
            line.connect()
            shown = line.sock.getpeercert(binary_form=True)
        finally:
            line.close()
        return x509.load_der_x509_certificate(shown or b"").issuer.rfc4514_string()
    except (OSError, ValueError, http.client.HTTPException, x509.InvalidVersion):
        return ""


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def _set(variable: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value


def _system_authorities() -> Path | None:
    """Return the system's own list of authorities, None where the TLS library knows of none."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return Path(paths.cafile)
    folder = Path(paths.capath) if paths.capath else None
    return folder if folder is not None and any(folder.glob("*.0")) else None


def _credentials(proxy: str) -> Mapping[str, str]:
    """Return the header by which a proxy is told who asks."""
    user = urlsplit(proxy).netloc.rpartition("@")[0]
    return urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else {}


def _certificate_fault(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return what the TLS library said of a certificate, out of whatever wraps it."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _reason(error: BaseException | None) -> str:
    """Return the TLS library's own short word, such as `WRONG_VERSION_NUMBER`."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and error.reason:
            return str(error.reason)
        error = error.__cause__ or error.__context__
    return "the handshake failed"
