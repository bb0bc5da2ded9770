"""Where the registry's settings come from: flags, then the environment, then defaults.

PLUGREG_REGISTRY_DATA            folder of everything that is kept            ./plugreg-data
PLUGREG_REGISTRY_BLOBS           file:FOLDER of the static objects, or        <data>/objects
                                 s3://BUCKET[/PREFIX], see `storage`, which
                                 also has _S3_*, _DOWNLOADS and _UPLOADS
PLUGREG_REGISTRY_DATABASE        sqlite:FILE, or postgresql://USER@HOST/NAME  <data>/registry.sqlite3
        ..._CONNECTIONS          to a PostgreSQL server, of one process       10
PLUGREG_REGISTRY_KEYS            folder of the keys of the signed index; or   <data>/keys
                                 the URI of one key in a service or device,
                                 which then signs all but revocations and
                                 what is signed offline
        ..._REVOCATIONS_KEY      the URI of the key that signs revocations    a file in that folder
PLUGREG_REGISTRY_ADMINS          identities of administrators, separated by   those that are
                                 spaces, or `none`; signed only at `init`     signed
                                 and `rotate`
PLUGREG_REGISTRY_NAME            the name people see                          empty
PLUGREG_REGISTRY_PUBLIC_URL      where clients reach it; a location only      empty: relative addresses
PLUGREG_REGISTRY_ADMISSION       who may claim new names: `anyone`, or        anyone
                                 identities (with `*`) and `admins`,
                                 separated by spaces; administrators always
                                 may, so `admins` alone admits nobody else
PLUGREG_REGISTRY_RESERVED        names (with `*`) that only administrators    none
                                 may claim
PLUGREG_REGISTRY_READERS         who may read: `anyone`, or `tokens`: those    anyone
                                 with a token of `plugreg-registry token`
PLUGREG_REGISTRY_TIERS           file with the tiers of plugins (TOML),        none
                                 which win over what their authors say
PLUGREG_REGISTRY_INDEX_MAX_AGE   seconds for which a cache may keep the       0: always asked again
                                 index: the worst staleness
PLUGREG_REGISTRY_METRICS         who may read `/metrics`: `loopback`,         loopback
                                 `anyone` or `off`; `operation` also has
                                 _DRAIN_SECONDS, _PURGE_URL and
                                 _PURGE_TOKEN_FILE
PLUGREG_REGISTRY_LIMITS_*        limits on bundles, in bytes or counts        those of the contract
        ..._CONNECTIONS          requests that a process answers at once      1000
        ..._IDLE_SECONDS         how long a peer may owe the next byte        60
        ..._SESSIONS             publishes that one signer may have open      100
        ..._REQUESTS_PER_MINUTE  that a process takes from one address for    60000
                                 the API; 0: any number
PLUGREG_REGISTRY_TRUSTED_PROXIES addresses and networks of proxies, whose     none: nobody's
                                 `X-Forwarded-For` is believed
PLUGREG_REGISTRY_QUOTA_PUBLISHES releases of one identity in a day; 0: any    0
PLUGREG_REGISTRY_QUOTA_NAMES     new names of one identity in a day; 0: any   0
PLUGREG_REGISTRY_QUOTA_SIZE      bytes of all bundles of one identity; 0: any 0
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from plugreg_registry.databases import Database, read_server
from plugreg_registry.operation import OPERATION_SETTINGS, Operation, OperationReader, is_loopback
from plugreg_registry.quotas import Quotas
from plugreg_registry.storage import S3_SCHEME, STORAGE_SETTINGS, StorageReader, Transfers
from plugreg_registry.tiers import read_tiers
from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits
from plugreg_schemas.errors import Collector, InvalidInput, NotAllowed, UsageError
from plugreg_schemas.index import INDEX_ROLE, REVOCATIONS_ROLE
from plugreg_schemas.key_uris import is_key_uri
from plugreg_schemas.names import quoted
from plugreg_schemas.tiers import TierPolicy
from plugreg_schemas.trust.identity import parse_signer
from plugreg_schemas.trust.material import read_trust_config
from plugreg_schemas.trust.policy import Admission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_registry.storage import Bucket
    from plugreg_schemas.trust.identity import AnySigner

Network = IPv4Network | IPv6Network
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
DEFAULT_REQUESTS_PER_MINUTE: Final = 60_000
"""A thousand a second: fifty publishers at one address need fewer, and who asks in a circle more."""
DEFAULT_DATABASE_CONNECTIONS: Final = 10
MAX_CONNECTIONS: Final = 65_535
MAX_IDLE_SECONDS: Final = 3600
MAX_SESSIONS: Final = 1_000_000
MAX_REQUESTS_PER_MINUTE: Final = 10_000_000
MAX_DATABASE_CONNECTIONS: Final = 1000

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""How a URI begins; one letter alone is a drive."""
_LIMITS: Final = tuple(limit.name for limit in fields(Limits))
_QUOTAS: Final = tuple(quota.name for quota in fields(Quotas))
_NAMES: Final = (
    "DATA",
    "BLOBS",
    "DATABASE",
    "DATABASE_CONNECTIONS",
    "KEYS",
    "REVOCATIONS_KEY",
    "ADMINS",
    "NAME",
    "PUBLIC_URL",
    "ADMISSION",
    "RESERVED",
    "READERS",
    "TIERS",
    "TRUST_CONFIG",
    "INDEX_MAX_AGE",
    *(f"LIMITS_{name.upper()}" for name in _LIMITS),
    "LIMITS_CONNECTIONS",
    "LIMITS_IDLE_SECONDS",
    "LIMITS_SESSIONS",
    "LIMITS_REQUESTS_PER_MINUTE",
    "TRUSTED_PROXIES",
    *(f"QUOTA_{name.upper()}" for name in _QUOTAS),
    *STORAGE_SETTINGS,
    *OPERATION_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a registry process needs to know before it starts."""

    data: Path
    objects: Path
    database: Database
    keys: Path
    """The folder of the keys of the signed index, as far as they are files."""
    key_uris: Mapping[str, str] = field(default_factory=dict)
    """Online roles whose key is in a service or device, and its URI."""
    admins: tuple[AnySigner, ...] | None = None
    """The administrators that the operator wants to be signed; None if the setting is not given."""
    name: str = ""
    public_url: str = ""
    admission: Admission = field(default_factory=Admission)
    admission_chosen: bool = False
    """Whether the operator named an admission, even if it is the default one."""
    readers: Literal["anyone", "tokens"] = "anyone"
    """Who may read. Publishing needs no token: a signature is more than that."""
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
    requests_per_minute: int = DEFAULT_REQUESTS_PER_MINUTE
    """Requests to the API that a process takes from one address; 0 is any number."""
    trusted_proxies: tuple[Network, ...] = ()
    """Whose word about who asks is believed."""
    quotas: Quotas = field(default_factory=Quotas)
    bucket: Bucket | None = None
    """Where the objects lie, if not in the folder `objects`."""
    transfers: Transfers = field(default_factory=Transfers)
    database_connections: int = DEFAULT_DATABASE_CONNECTIONS
    """Connections to a PostgreSQL server that a process opens at most."""
    operation: Operation = field(default_factory=Operation)

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
    storage = StorageReader(given, reader.refuse)
    settings = Settings(
        data=folder,
        objects=reader.objects(folder / "objects"),
        bucket=storage.bucket(),
        transfers=storage.transfers(),
        database=reader.database(folder / "registry.sqlite3"),
        keys=reader.keys(folder / "keys"),
        key_uris=reader.key_uris(),
        admins=reader.admins(),
        name=given.get("NAME", "")[:200],
        public_url=reader.public_url(),
        admission=reader.admission(),
        admission_chosen="ADMISSION" in given,
        readers=reader.readers(),
        index_max_age=reader.number("INDEX_MAX_AGE", 0, MAX_INDEX_AGE, 0),
        limits=reader.limits(),
        tiers=reader.tiers(),
        trust_config=reader.trust_config(),
        connections=reader.number("LIMITS_CONNECTIONS", 1, MAX_CONNECTIONS, DEFAULT_CONNECTIONS),
        idle_seconds=reader.number("LIMITS_IDLE_SECONDS", 1, MAX_IDLE_SECONDS, DEFAULT_IDLE_SECONDS),
        sessions=reader.number("LIMITS_SESSIONS", 1, MAX_SESSIONS, DEFAULT_SESSIONS),
        requests_per_minute=reader.number(
            "LIMITS_REQUESTS_PER_MINUTE", 0, MAX_REQUESTS_PER_MINUTE, DEFAULT_REQUESTS_PER_MINUTE
        ),
        trusted_proxies=reader.trusted_proxies(),
        quotas=Quotas(**{name: reader.number(f"QUOTA_{name.upper()}", 0, MAX_LIMIT, 0) for name in _QUOTAS}),
        database_connections=reader.number(
            "DATABASE_CONNECTIONS", 2, MAX_DATABASE_CONNECTIONS, DEFAULT_DATABASE_CONNECTIONS
        ),
        operation=OperationReader(given, reader.refuse, reader.number).operation(),
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
    if settings.admission.rule == "anyone" and not settings.admission_chosen and not is_loopback(host):
        raise NotAllowed(
            "admission_not_chosen",
            f"`{host}` is not a loopback address, and anyone with a key could claim names here",
            hint=f"set `{PREFIX}ADMISSION` to identities that may claim names, or to `anyone` if you mean it",
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads single settings and collects their faults."""

    given: Mapping[str, str]
    faults: Collector

    def refuse(self, name: str, message: str) -> None:
        self.faults.add("setting_invalid", f"`{PREFIX}{name}`: {message}")

    def location(self, name: str, scheme: str, default: Path) -> Path:
        text = self.given.get(name)
        if text is None:
            return default
        found, colon, rest = text.partition(":")
        if colon and found == scheme and rest.strip("/"):
            return Path("/" + rest.lstrip("/") if rest.startswith("//") else rest).absolute()
        self.refuse(
            name, f"only `{scheme}:PATH` is supported by this version, not {quoted(text.split('://')[0])}"
        )
        return default

    def objects(self, default: Path) -> Path:
        if self.given.get("BLOBS", "").startswith(S3_SCHEME):
            return default
        return self.location("BLOBS", "file", default)

    def database(self, default: Path) -> Database:
        text = self.given.get("DATABASE", "sqlite:")
        if text.startswith("sqlite:"):
            return self.location("DATABASE", "sqlite", default)
        try:
            return read_server(text)
        except UsageError as error:
            self.refuse("DATABASE", error.message)
            return default

    def keys(self, default: Path) -> Path:
        text = self.given.get("KEYS")
        if text is None or is_key_uri(text):
            return default
        if _SCHEME.match(text):
            self.refuse("KEYS", f"{quoted(text)} is no folder, and no URI such as `awskms:alias/NAME`")
        return Path(text).absolute()

    def key_uris(self) -> dict[str, str]:
        online, own = self.given.get("KEYS", ""), self.given.get("REVOCATIONS_KEY", "")
        uris = dict.fromkeys(("snapshot", "timestamp", INDEX_ROLE), online) if is_key_uri(online) else {}
        if not own:
            return uris
        if not is_key_uri(own):
            self.refuse("REVOCATIONS_KEY", f"{quoted(own)} is no URI of a key, such as `awskms:alias/NAME`")
        elif own == online:
            self.refuse("REVOCATIONS_KEY", "revocations need a key of their own: another than `KEYS` names")
        return {**uris, REVOCATIONS_ROLE: own}

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
            self.refuse(
                "PUBLIC_URL", "write an http or https address without credentials, query and fragment"
            )
            return ""
        return text.rstrip("/") + "/"

    def admission(self) -> Admission:
        words = self.given.get("ADMISSION", "anyone").split()
        reserved = tuple(self.given.get("RESERVED", "").split())
        if words == ["anyone"]:
            return Admission("anyone", (), reserved)
        if set(words) == {"admins"}:
            return Admission("admins", (), reserved)
        words = [word for word in words if word != "admins"]
        if wrong := [word for word in words if word.partition(":")[0] not in {"key", "oidc", "ci"}]:
            shown = ", ".join(map(quoted, wrong[:5]))
            self.refuse(
                "ADMISSION",
                f"{shown}: neither `anyone` alone nor `admins` nor identities such as `key:sha256:...`",
            )
            return Admission()
        return Admission("listed", tuple(words), reserved)

    def admins(self) -> tuple[AnySigner, ...] | None:
        text = self.given.get("ADMINS")
        if text is None:
            return None
        found = []
        for words in text.split() if text != "none" else ():
            try:
                found.append(parse_signer(words))
            except InvalidInput as error:
                self.refuse("ADMINS", error.message)
        return tuple(found)

    def readers(self) -> Literal["anyone", "tokens"]:
        text = self.given.get("READERS", "anyone")
        if text not in {"anyone", "tokens"}:
            self.refuse("READERS", f"{quoted(text)} is neither `anyone` nor `tokens`")
        return "tokens" if text == "tokens" else "anyone"

    def trusted_proxies(self) -> tuple[Network, ...]:
        found = []
        for words in self.given.get("TRUSTED_PROXIES", "").split():
            try:
                found.append(ip_network(words))
            except ValueError:
                self.refuse("TRUSTED_PROXIES", f"{quoted(words)} is neither an address nor a network")
        return tuple(found)

    def tiers(self) -> TierPolicy:
        text = self.given.get("TIERS")
        if text is None:
            return TierPolicy()
        try:
            return read_tiers(Path(text).absolute())
        except InvalidInput as error:
            for reason in map(str, error.findings) if error.findings else (error.message,):
                self.refuse("TIERS", reason)
            return TierPolicy()

    def trust_config(self) -> bytes:
        text = self.given.get("TRUST_CONFIG")
        if text is None:
            return b""
        try:
            content = Path(text).read_bytes()
            read_trust_config(content)
        except OSError as error:
            self.refuse("TRUST_CONFIG", f"{quoted(text)} cannot be read: {error.strerror}")
        except UsageError as error:
            self.refuse("TRUST_CONFIG", error.message)
        else:
            return content
        return b""

    def number(self, name: str, least: int, most: int, default: int) -> int:
        text = self.given.get(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
            return int(text)
        self.refuse(name, f"{quoted(text)} is not a whole number from {least} to {most}")
        return default

    def limits(self) -> Limits:
        return Limits(
            **{
                name: self.number(f"LIMITS_{name.upper()}", 1, MAX_LIMIT, getattr(DEFAULT_LIMITS, name))
                for name in _LIMITS
            }
        )
