"""What the registry keeps: values that the services decide on and the adapters store.

PluginRecord                     one plugin, append-only
  statements   StoredStatement*  its history: the first publish, then owners, yank and status statements
  releases     StoredRelease*    its versions in the order of their publication
UploadSession                    a publish that was let in and waits for its bytes
AuditEntry                       that something was accepted
Token                            that whoever knows a secret may read
StoredObject                     what a store holds under a key, and since when
SearchRow                        what a plugin is found by; Lookup and Hit: what is looked for, and found
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plugreg_schemas.api import Counts, DocumentComponent
from plugreg_schemas.fields import Open, format_time
from plugreg_schemas.history import ADMITTED, fold
from plugreg_schemas.manifest import Requirement, Tier
from plugreg_schemas.statement import parse_statement
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.policy import Release
from plugreg_schemas.trust.verify import Signed

if TYPE_CHECKING:
    from datetime import datetime

    from plugreg_schemas.history import History
    from plugreg_schemas.manifest import Format
    from plugreg_schemas.names import Digest
    from plugreg_schemas.search import Condition
    from plugreg_schemas.trust.identity import AnySigner


class Facts(Open):
    """What a bundle's manifest says, as far as the plugin document repeats it."""

    description: str = ""
    components: tuple[DocumentComponent, ...] = ()
    launchers: tuple[str, ...] = ()
    counts: Counts = Counts()
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tier: Tier | None = None
    """What the author declared; the operator's policy is laid over it where it is shown."""
    core_version: str = ""
    capability_kind: str = ""
    runtime_kind: str = ""
    """The one kind of thing that it is, which never changes under one name."""
    platforms: tuple[str, ...] = ()
    requires: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement of a plugin's history; its signature was verified before it was stored."""

    digest: Digest
    envelope: bytes
    public_key: bytes
    accepted_at: datetime

    def signed(self) -> Signed:
        """Return the statement as it was when its signature had been verified."""
        envelope = parse_envelope(self.envelope)
        return Signed(self.digest, parse_statement(envelope.payload), envelope.signer, self.public_key)


class Shown(NamedTuple):
    """An entry of the plugin document, and as text what it shares with other versions."""

    entry: dict[str, Any]
    offer: str


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A published version."""

    version: str
    digest: Digest
    size: int
    format: Format
    published_at: datetime
    attestation: Digest
    signer: AnySigner
    public_key: bytes
    facts: Facts
    provenance: Digest | None = None
    """The second attestation, where the publish brought one."""
    shown: list[tuple[dict[str, Any], str]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """What the plugin document shows of it, and of what it shares with other versions; kept by the index."""


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """All that the registry knows of one plugin. `revision` counts its changes and is set by the store."""

    name: str
    statements: tuple[StoredStatement, ...]
    releases: tuple[StoredRelease, ...]
    revision: int = 0
    _folded: list[History] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def history(self) -> History:
        """What its statements amount to."""
        if not self._folded:
            entries = [statement.signed() for statement in self.statements]
            times = [statement.accepted_at for statement in self.statements]
            self._folded.append(fold(entries, times=times, admins=ADMITTED))
        return self._folded[0]

    def release(self, version: str) -> StoredRelease | None:
        """Return the release of exactly this version, or None."""
        return next((release for release in self.releases if release.version == version), None)

    def standing(self, version: str) -> tuple[Release, ...]:
        """What stands where `version` would, as policy wants to see it: build metadata is not looked at."""
        wanted = version.partition("+")[0]
        return tuple(
            Release(r.version, r.digest, format_time(r.published_at))
            for r in self.releases
            if r.version.partition("+")[0] == wanted
        )


@dataclass(frozen=True, slots=True)
class UploadSession:
    """A publish whose statement was verified and let in. `id` is the SHA-256 of the session's secret."""

    id: str
    envelope: bytes
    public_key: bytes
    size: int
    claims: bool
    """Whether the name was free when the session began."""
    expires: datetime
    signer: str
    """The identity in words."""
    provenance: bytes = b""
    """The attestation of provenance that came with the statement; empty without one."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """That a signed statement was accepted. The statement's digest makes the entry unique."""

    digest: Digest
    at: datetime
    action: str
    plugin: str
    version: str
    signer: str


SearchSort = Literal["relevance", "name", "updated"]
"""The best first, by name, or the newest first. Of those that are equal the order is that of their names."""
ACTIVE, DEPRECATED, UNLISTED = 0, 1, 2
"""Where a plugin stands in the list. What is not listed is never found."""


@dataclass(frozen=True, slots=True)
class SearchRow:
    """What a plugin is found by. `made` is the number of the rule by which the row was made."""

    name: str
    revision: int
    made: int
    standing: int
    age: int
    """Minus the seconds from 1970 to the last publish: the newest is the least."""
    lexemes: tuple[str, ...]
    shown: str
    """What a list shows of it, as JSON."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the order of what is found. `level` is the number of the condition that is met."""

    level: int
    standing: int
    age: int
    name: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is looked for. Each level holds the one before; a find is on the first level that it meets."""

    levels: tuple[Condition, ...]
    sort: SearchSort
    standings: tuple[int, ...]
    limit: int
    after: Place | None = None
    """Only what comes after it is returned."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What was found, and its place."""

    place: Place
    shown: str


Scope = Literal["read", "audit"]


@dataclass(frozen=True, slots=True)
class Token:
    """That whoever knows a secret may read. Of the secret only its SHA-256 is kept."""

    id: str
    """What operators call it; no secret."""
    name: str
    scope: Scope
    """`audit` includes `read`."""
    hash: str
    """Of the secret, hexadecimal."""
    created: datetime
    expires: datetime | None = None
    used: datetime | None = None
    """About when it was last used."""


class StoredObject(NamedTuple):
    """An object as a store sees it."""

    key: str
    size: int
    changed: datetime
    """When it was last put, by the clock of the store."""
