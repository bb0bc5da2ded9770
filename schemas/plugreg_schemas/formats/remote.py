"""A remote server of `mcp.json`: where it is, and the headers that are sent to it.

Plain `http` is for `localhost` and loopback addresses alone. Nothing is expanded in a URL, a header name or
a header value, and everybody can read what stands there: it is no place for credentials.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from plugreg_schemas.formats.entry import PLACEHOLDER, looks_secret
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import McpHttp

if TYPE_CHECKING:
    from plugreg_schemas.formats.entry import Entry

_NOT_IN_URL: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\]|\s")
_HOST: Final = re.compile(r"[^\s/?#@:\[\]{}$<>\"|\\^`%]+|\[[0-9A-Fa-f:.]+\]")
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token (RFC 9110, 5.6.2)."""
_NOT_IN_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LOOPBACK: Final = IPv4Network("127.0.0.0/8")
_LOOPBACK_6: Final = IPv6Address("::1")


def read(entry: Entry) -> McpHttp | None:
    """Read a server whose `type` is `streamable-http` or `sse`; None where it is not valid."""
    entry.closed("url", "headers")
    url = entry.text("url")
    if url:
        _examine_url(entry, url)
    headers = _headers(entry)
    if entry.refused:
        return None
    return McpHttp(transport=entry.value["type"], url=url, headers=headers)


def _examine_url(entry: Entry, url: str) -> None:
    parts = split_url(url)
    if parts is None or not is_web_url(parts):
        entry.refuse("`url` must be an absolute http or https URL", "url")
        return
    if "@" in parts.netloc:
        entry.refuse("`url` must not hold a user name or password", "url")
    if "#" in url:
        entry.refuse("`url` must not have a fragment", "url")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        entry.refuse("`url` must use https: plain http is for `localhost` and loopback addresses", "url")
    if PLACEHOLDER.search(url):
        entry.warn("placeholder_literal", "the placeholder in `url` is not expanded", "url")


def split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL, None where it is none: white space, a backslash, a port that cannot be."""
    if _NOT_IN_URL.search(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return parts if port != 0 else None


def is_web_url(parts: SplitResult) -> bool:
    """Whether these are the parts of an absolute http or https URL."""
    return parts.scheme in {"http", "https"} and _HOST.fullmatch(_bare_host(parts)) is not None


def _bare_host(parts: SplitResult) -> str:
    """Return the host as written, with the brackets of an IPv6 address, without user, password and port."""
    return re.sub(r":\d*\Z", "", parts.netloc.rpartition("@")[2])


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address alone."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address == _LOOPBACK_6 or address in _LOOPBACK


def _headers(entry: Entry) -> dict[str, str]:
    headers = entry.mapping("headers")
    seen: set[str] = set()
    for name, text in headers.items():
        if not HEADER_NAME.fullmatch(name):
            entry.refuse(f"{quoted(name)} in `headers` is not the name of an HTTP header", "headers", name)
        elif name.lower() in seen:
            entry.refuse(
                f"the header {quoted(name)} stands twice, names are equal without regard to case",
                "headers",
                name,
            )
        elif _NOT_IN_HEADER.search(text):
            entry.refuse(f"the value of the header {quoted(name)} holds a control character", "headers", name)
        elif PLACEHOLDER.search(text):
            message = f"the placeholder in the value of the header {quoted(name)} is not expanded"
            entry.warn("placeholder_literal", message, "headers", name)
        elif looks_secret(name, text):
            message = (
                f"the value of the header {quoted(name)} looks like a credential, and everybody can read it"
            )
            entry.warn("credential_literal", message, "headers", name)
        seen.add(name.lower())
    return headers
