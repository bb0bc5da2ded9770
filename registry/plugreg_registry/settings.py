"""Where the registry's settings come from: flags, then the environment, then defaults.

PLUGREG_REGISTRY_DATA            folder of everything that is kept            ./plugreg-data
PLUGREG_REGISTRY_BLOBS           file:FOLDER of the static objects            <data>/objects
PLUGREG_REGISTRY_DATABASE        sqlite:FILE                                  <data>/registry.sqlite3
PLUGREG_REGISTRY_NAME            the name people see                          empty
PLUGREG_REGISTRY_PUBLIC_URL      where clients reach it; a location only      empty: relative addresses
PLUGREG_REGISTRY_ADMISSION       `anyone`, or identities (with `*`) that      anyone
                                 may claim new names, separated by spaces
PLUGREG_REGISTRY_RESERVED        names (with `*`) that nobody may claim       none
PLUGREG_REGISTRY_TIERS           file with the tiers of plugins (TOML),        none
                                 which win over what their authors say
PLUGREG_REGISTRY_INDEX_MAX_AGE   seconds for which a cache may keep the       0: always asked again
                                 index: the worst staleness
PLUGREG_REGISTRY_LIMITS_*        limits on bundles, in bytes or counts        those of the contract
        ..._CONNECTIONS          requests that a process answers at once      1000
        ..._IDLE_SECONDS         how long a peer may owe the next byte        60
        ..._SESSIONS             publishes that one signer may have open      100
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from plugreg_registry.tiers import read_tiers
from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits
from plugreg_schemas.errors import Collector, InvalidInput, NotAllowed, UsageError
from plugreg_schemas.names import quoted
from plugreg_schemas.tiers import TierPolicy
from plugreg_schemas.trust.material import read_trust_config
from plugreg_schemas.trust.policy import Admission

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "PLUGREG_REGISTRY_"
DEFAULT_DATA: Final = "plugreg-data"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8470
MAX_INDEX_AGE: Final = 86_400
"""A day: longer than this a yank would not be seen."""
MAX_LIMIT: Final = 1 << 40
DEFAULT_CONNECTIONS: Final = 1000
DEFAULT_IDLE_SECONDS: Final = 60
DEFAULT_SESSIONS: Final = 100
MAX_CONNECTIONS: Final = 65_535
MAX_IDLE_SECONDS: Final = 3600
MAX_SESSIONS: Final = 1_000_000

_LIMITS: Final = tuple(limit.name for limit in fields(Limits))
_NAMES: Final = (
    "DATA",
    "BLOBS",
    "DATABASE",
    "NAME",
    "PUBLIC_URL",
    "ADMISSION",
    "RESERVED",
    "TIERS",
    "TRUST_CONFIG",
    "INDEX_MAX_AGE",
    *(f"LIMITS_{name.upper()}" for name in _LIMITS),
    "LIMITS_CONNECTIONS",
    "LIMITS_IDLE_SECONDS",
    "LIMITS_SESSIONS",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a registry process needs to know before it starts."""

    data: Path
    objects: Path
    database: Path
    name: str = ""
    public_url: str = ""
    admission: Admission = field(default_factory=Admission)
    admission_chosen: bool = False
    """Whether the operator named an admission, even if it is the default one."""
    index_max_age: int = 0
    limits: Limits = DEFAULT_LIMITS
    tiers: TierPolicy = field(default_factory=TierPolicy)
    trust_config: bytes = b""
    """The trust configuration of the Sigstore that certificates are judged by; empty for the public one."""
    connections: int = DEFAULT_CONNECTIONS
    """Requests that a process answers at once."""
    idle_seconds: int = DEFAULT_IDLE_SECONDS
    """How long a peer may owe the head of a request, the next byte of its body, or reading of the answer."""
    sessions: int = DEFAULT_SESSIONS
    """Publishes that one signer may have open."""

    @property
    def uploads(self) -> Path:
        """The folder of bundles that are being uploaded."""
        return self.data / "uploads"

    @property
    def locks(self) -> Path:
        """The folder of the locks between processes."""
        return self.data / "locks"

    @property
    def shown_tiers(self) -> Path:
        """The note of the tiers that the plugin documents show."""
        return self.data / "tiers.json"


def read_settings(environment: Mapping[str, str], data: str | None = None) -> Settings:
    """Read the settings; `data` is the flag, which wins.

    Raises:
        UsageError: `setting_invalid`, with one finding for each bad setting.
    """
    faults = Collector("setting_invalid", "the settings are not valid")
    given = {
        name: environment[PREFIX + name].strip()
        for name in _NAMES
        if environment.get(PREFIX + name, "").strip()
    }
    folder = Path(data or given.get("DATA", DEFAULT_DATA)).absolute()
    reader = _Reader(given, faults)
    settings = Settings(
        data=folder,
        objects=reader.location("BLOBS", "file", folder / "objects"),
        database=reader.location("DATABASE", "sqlite", folder / "registry.sqlite3"),
        name=given.get("NAME", "")[:200],
        public_url=reader.public_url(),
        admission=reader.admission(),
        admission_chosen="ADMISSION" in given,
        index_max_age=reader.number("INDEX_MAX_AGE", 0, MAX_INDEX_AGE, 0),
        limits=reader.limits(),
        tiers=reader.tiers(),
        trust_config=reader.trust_config(),
        connections=reader.number("LIMITS_CONNECTIONS", 1, MAX_CONNECTIONS, DEFAULT_CONNECTIONS),
        idle_seconds=reader.number("LIMITS_IDLE_SECONDS", 1, MAX_IDLE_SECONDS, DEFAULT_IDLE_SECONDS),
        sessions=reader.number("LIMITS_SESSIONS", 1, MAX_SESSIONS, DEFAULT_SESSIONS),
    )
    faults.raise_if_any(UsageError, hint=f"settings are environment variables that begin with `{PREFIX}`")
    return settings


def unknown_settings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that look like settings and are none: most likely misspelt."""
    return tuple(
        sorted(n for n in environment if n.startswith(PREFIX) and n.removeprefix(PREFIX) not in _NAMES)
    )


def check_exposure(settings: Settings, host: str) -> None:
    """Refuse to let anyone on the network claim names unless the operator chose that: a key costs nothing.

    Raises:
        NotAllowed: `admission_not_chosen`.
    """
    if settings.admission.rule == "anyone" and not settings.admission_chosen and not _is_loopback(host):
        raise NotAllowed(
            "admission_not_chosen",
            f"`{host}` is not a loopback address, and anyone with a key could claim names here",
            hint=f"set `{PREFIX}ADMISSION` to identities that may claim names, or to `anyone` if you mean it",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads single settings and collects their faults."""

    given: Mapping[str, str]
    faults: Collector

    def _refuse(self, name: str, message: str) -> None:
        self.faults.add("setting_invalid", f"`{PREFIX}{name}`: {message}")

    def location(self, name: str, scheme: str, default: Path) -> Path:
        text = self.given.get(name)
        if text is None:
            return default
        found, colon, rest = text.partition(":")
        if colon and found == scheme and rest.strip("/"):
            return Path("/" + rest.lstrip("/") if rest.startswith("//") else rest).absolute()
        self._refuse(
            name, f"only `{scheme}:PATH` is supported by this version, not {quoted(text.split('://')[0])}"
        )
        return default

    def public_url(self) -> str:
        text = self.given.get("PUBLIC_URL", "")
        if not text:
            return ""
        try:
            parts = urlsplit(text)
            usable = (
                parts.scheme in {"http", "https"}
                and bool(parts.hostname)
                and not (parts.query or parts.fragment)
            )
            usable = usable and parts.username is None and parts.password is None
        except ValueError:
            usable = False
        if not usable:
            self._refuse(
                "PUBLIC_URL", "write an http or https address without credentials, query and fragment"
            )
            return ""
        return text.rstrip("/") + "/"

    def admission(self) -> Admission:
        words = self.given.get("ADMISSION", "anyone").split()
        reserved = tuple(self.given.get("RESERVED", "").split())
        if words == ["anyone"]:
            return Admission("anyone", (), reserved)
        if wrong := [word for word in words if word.partition(":")[0] not in {"key", "oidc", "ci"}]:
            shown = ", ".join(map(quoted, wrong[:5]))
            self._refuse(
                "ADMISSION", f"{shown}: neither `anyone` alone nor identities such as `key:sha256:...`"
            )
            return Admission()
        return Admission("listed", tuple(words), reserved)

    def tiers(self) -> TierPolicy:
        text = self.given.get("TIERS")
        if text is None:
            return TierPolicy()
        try:
            return read_tiers(Path(text).absolute())
        except InvalidInput as error:
            for reason in map(str, error.findings) if error.findings else (error.message,):
                self._refuse("TIERS", reason)
            return TierPolicy()

    def trust_config(self) -> bytes:
        text = self.given.get("TRUST_CONFIG")
        if text is None:
            return b""
        try:
            content = Path(text).read_bytes()
            read_trust_config(content)
        except OSError as error:
            self._refuse("TRUST_CONFIG", f"{quoted(text)} cannot be read: {error.strerror}")
        except UsageError as error:
            self._refuse("TRUST_CONFIG", error.message)
        else:
            return content
        return b""

    def number(self, name: str, least: int, most: int, default: int) -> int:
        text = self.given.get(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
            return int(text)
        self._refuse(name, f"{quoted(text)} is not a whole number from {least} to {most}")
        return default

    def limits(self) -> Limits:
        return Limits(
            **{
                name: self.number(f"LIMITS_{name.upper()}", 1, MAX_LIMIT, getattr(DEFAULT_LIMITS, name))
                for name in _LIMITS
            }
        )
