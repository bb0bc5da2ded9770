"""How a registry is watched, how it ends, and who is told what has changed: the settings of its operation.

PLUGREG_REGISTRY_METRICS             who may read `/metrics`: `loopback`, `anyone` or `off`
PLUGREG_REGISTRY_DRAIN_SECONDS       how long a process that is told to end goes on to listen
PLUGREG_REGISTRY_PURGE_URL           address that is told which paths a cache should forget
        ..._PURGE_TOKEN_FILE         file with the secret that goes along as a bearer token
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast
from urllib.parse import urlsplit

from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Where several workers keep their numbers; prometheus_client reads this variable when it is imported."""
OPERATION_SETTINGS: Final = ("METRICS", "DRAIN_SECONDS", "PURGE_URL", "PURGE_TOKEN_FILE")
MAX_DRAIN_SECONDS: Final = 300
MAX_TOKEN: Final = 8192

MetricsReaders = Literal["loopback", "anyone", "off"]


@dataclass(frozen=True, slots=True)
class PurgeHook:
    """Where changed paths are sent."""

    url: str = field(repr=False)
    """It may hold a secret in its path or query."""
    token: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """What people may see of it."""
        return urlsplit(self.url).netloc


@dataclass(frozen=True, slots=True)
class Operation:
    """The settings of this module."""

    metrics: MetricsReaders = "loopback"
    drain_seconds: int = 0
    purge: PurgeHook | None = None


@dataclass(frozen=True, slots=True)
class OperationReader:
    """Reads the settings of this module; what is wrong is told to `refuse`: the setting, and why."""

    given: Mapping[str, str]
    refuse: Callable[[str, str], None]
    number: Callable[[str, int, int, int], int]
    """Setting, least, most, default > a whole number."""

    def operation(self) -> Operation:
        """Return all of them."""
        return Operation(
            self._metrics(), self.number("DRAIN_SECONDS", 0, MAX_DRAIN_SECONDS, 0), self._purge()
        )

    def _metrics(self) -> MetricsReaders:
        text = self.given.get("METRICS", "loopback")
        if text not in {"loopback", "anyone", "off"}:
            self.refuse("METRICS", f"{quoted(text)} is none of `loopback`, `anyone`, `off`")
            return "loopback"
        return cast("MetricsReaders", text)

    def _purge(self) -> PurgeHook | None:
        url, token = self.given.get("PURGE_URL", ""), self._token()
        if not url:
            if token:
                self.refuse("PURGE_TOKEN_FILE", "this is only for a purge hook: `PURGE_URL` is not set")
            return None
        scheme, host = _scheme_and_host(url)
        if not host:
            self.refuse(
                "PURGE_URL", "write an http or https address without credentials; a secret goes into a file"
            )
            return None
        if token and scheme == "http" and not is_loopback(host):
            self.refuse("PURGE_URL", "a token is sent by https only, or to this machine")
        return PurgeHook(url, token)

    def _token(self) -> str:
        file = self.given.get("PURGE_TOKEN_FILE")
        if file is None:
            return ""
        try:
            with Path(file).open("rb") as stream:
                content = stream.read(MAX_TOKEN + 1).strip()
        except OSError as error:
            self.refuse("PURGE_TOKEN_FILE", f"{quoted(file)} cannot be read: {error.strerror}")
            return ""
        if not content or len(content) > MAX_TOKEN or not all(0x21 <= byte < 0x7F for byte in content):  # noqa: PLR2004 - visible ASCII
            self.refuse("PURGE_TOKEN_FILE", f"{quoted(file)} does not hold one token in one line")
            return ""
        return content.decode()


def is_loopback(host: str) -> bool:
    """Whether an address or a host name means this machine."""
    try:
        found = ip_address(host)
    except ValueError:
        return host == "localhost"
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _scheme_and_host(url: str) -> tuple[str, str]:
    """Return scheme and host of an address that can be used; empty words for another one."""
    try:
        parts = urlsplit(url)
        usable = parts.port != 0 and parts.username is None and not parts.fragment
    except ValueError:
        return "", ""
    usable = usable and parts.scheme in {"http", "https"} and url.isascii() and min(url) > " "
    return (parts.scheme, parts.hostname or "") if usable else ("", "")
