"""What travels over HTTP: requests and answers under `/v1`, and the static documents of the read plane.

Discovery        /.well-known/plugreg.json        who the registry is, where its parts are, its limits
PluginDocument   /index/plugins/<name>.json       all versions of a plugin, its owners, its history
Problem          every error                      RFC 9457, with `code` as the only thing to branch on
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plugreg_schemas.alternatives import AlternativeField
from plugreg_schemas.fields import (
    Closed,
    DigestField,
    NameField,
    Open,
    RegistryIdField,
    TimeField,
    VersionField,
)
from plugreg_schemas.listing import Listed
from plugreg_schemas.manifest import Format, Requirement, Tier
from plugreg_schemas.runtimes import RuntimeName
from plugreg_schemas.statement import Owner, State
from plugreg_schemas.trust.identity import Signer

API_VERSION: Final = "1"
PROBLEM_TYPE: Final = "application/problem+json"
DISCOVERY_PATH: Final = ".well-known/plugreg.json"
ONE_OWNER: Final = "one_owner"
"""The code of a finding in a receipt: the plugin is new, and nobody but its publisher owns it."""


class ProblemItem(Open):
    """One fault of an input."""

    code: str
    severity: str = "error"
    boundary: str = ""
    file: str = ""
    pointer: str = ""
    message: str = ""


class Problem(BaseModel):
    """An error as a document (RFC 9457); members beyond these are details of the code."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str = ""
    hint: str = ""
    errors: tuple[ProblemItem, ...] = ()
    request_id: str = ""
    retryable: bool = False


class RegistryRef(Open):
    """A registry by its id, where it was reached, and the name that people see."""

    id: RegistryIdField
    url: str = ""
    name: str = ""


class LimitsDocument(Open):
    """The limits on bundles; sizes in bytes."""

    compressed: int
    unpacked: int
    members: int
    path: int
    component: int
    ratio: int


class Locations(Open):
    """Where the parts are: URI templates, relative to the registry's URL unless on another host."""

    publish: str = "v1/publish"
    search: str = "v1/plugins"
    statements: str = "v1/statements"
    plugin: str = "index/plugins/{name}.json"
    blob: str = "blobs/sha256/{hex}"
    attestation: str = "attestations/sha256/{hex}.json"
    metadata: str = "index/metadata/"
    targets: str = "index/"


class RootRef(Open):
    """The newest root of the signed index: its version, and the digest of its bytes. A claim, not a proof."""

    version: Annotated[int, Field(ge=1)]
    digest: DigestField


class Trust(Open):
    """What kinds of signature the registry accepts (`key`, `certificate`), and the root of its index."""

    kinds: tuple[str, ...] = ("key",)
    root: RootRef | None = None


class Discovery(Open):
    """`/.well-known/plugreg.json`."""

    api_versions: Annotated[tuple[str, ...], Field(alias="api-versions")] = (API_VERSION,)
    registry: RegistryRef
    urls: Locations = Locations()
    limits: LimitsDocument
    trust: Trust = Trust()
    features: tuple[str, ...] = ()


class DocumentStatus(Open):
    """The state of a plugin as a whole."""

    state: State = "active"
    reason: str = ""
    since: TimeField | None = None
    replacement: str | None = None


class DocumentSigner(Open):
    """A signer of statements, and for a key its public half (base64 of the DER SPKI)."""

    signer: Signer
    public_key: str | None = None


class DocumentComponent(Open):
    """A component of a version: the names of its alternative runtimes, and what a host chooses by."""

    id: str
    runtimes: tuple[RuntimeName, ...]
    alternatives: tuple[AlternativeField, ...] = ()


class DocumentOffer(Open):
    """What else a host chooses by; versions that say the same share it. See `DocumentVersion`."""

    alternatives: tuple[tuple[AlternativeField, ...], ...] = ()
    """For each component of the version, in the same order; none where they have none."""
    launchers: tuple[str, ...] = ()
    core_version: str = ""
    capability_kind: str = ""


class Counts(Open):
    """How much is in a version."""

    skills: int = 0
    servers: int = 0


class DocumentVersion(Open):
    """One version of a plugin. `signer` is an index into the document's `signers`.

    In a document that is read, what stands in its row `offer` of the document's `offers` stands here as well.
    """

    version: VersionField
    digest: DigestField
    size: Annotated[int, Field(ge=0)]
    published_at: TimeField
    format: Format
    signer: Annotated[int, Field(ge=0)]
    offer: Annotated[int, Field(ge=0)] | None = None
    attestations: tuple[DigestField, ...]
    components: tuple[DocumentComponent, ...] = ()
    launchers: tuple[str, ...] = ()
    tier: Tier | None = None
    core_version: str = ""
    capability_kind: str = ""
    platforms: tuple[str, ...] = ()
    requires: tuple[Requirement, ...] = ()
    counts: Counts = Counts()
    yanked: bool = False
    reason: str = ""

    def with_offer(self, offer: DocumentOffer) -> Self:
        """Return the entry with what an offer says of it.

        Raises:
            ValueError: the offer has not one row of alternatives for each component.
        """
        if len(offer.alternatives) not in {0, len(self.components)}:
            raise ValueError("an offer has not one row of alternatives for each component")
        rows = offer.alternatives or ((),) * len(self.components)
        components = tuple(
            component.model_copy(update={"alternatives": row})
            for component, row in zip(self.components, rows, strict=True)
        )
        said = {name: getattr(offer, name) for name in ("launchers", "core_version", "capability_kind")}
        return self.model_copy(update={"components": components, **said})


class PluginDocument(Open):
    """`/index/plugins/<name>.json`: what a host needs to know of a plugin, newest version last."""

    api_version: Annotated[Literal["1"], Field(alias="api-version")] = "1"
    name: NameField
    description: str = ""
    status: DocumentStatus = DocumentStatus()
    history: tuple[DigestField, ...]
    history_times: tuple[TimeField, ...] = ()
    """When the registry took each statement of `history`, in the same order."""
    owners: tuple[Owner, ...]
    signers: tuple[DocumentSigner, ...]
    offers: tuple[DocumentOffer, ...] = ()
    versions: tuple[DocumentVersion, ...]
    skills: tuple[str, ...] = ()
    """Names of the skills of the newest version."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if any(entry.signer >= len(self.signers) for entry in self.versions):
            raise ValueError("a version names a signer that is not in `signers`")
        if len({entry.version for entry in self.versions}) < len(self.versions):
            raise ValueError("a version stands twice in `versions`")
        if len(self.history_times) not in {0, len(self.history)}:
            raise ValueError("`history_times` has not one time for each statement in `history`")
        return self

    @model_validator(mode="after")
    def _with_offers(self) -> Self:
        if all(entry.offer is None for entry in self.versions):
            return self
        if any(entry.offer is not None and entry.offer >= len(self.offers) for entry in self.versions):
            raise ValueError("a version names an offer that is not in `offers`")
        versions = tuple(
            entry if entry.offer is None else entry.with_offer(self.offers[entry.offer])
            for entry in self.versions
        )
        return self.model_copy(update={"versions": versions})

    def version(self, text: str) -> DocumentVersion | None:
        """Return the entry of exactly this version, or None."""
        return next((entry for entry in self.versions if entry.version == text), None)


class Found(Listed):
    """A plugin that was found: what a list shows of it, and when its latest version was published."""

    published_at: TimeField
    yanked: bool = False
    """Whether the latest version is withdrawn, and so are all others."""


class SearchPage(Open):
    """`GET /v1/plugins`: the best first. It is not signed; with `next` as `cursor` comes the next page."""

    plugins: tuple[Found, ...]
    next: str | None = None


class PublishRequest(Closed):
    """`POST /v1/publish`: the signed statement, the bundle's size in bytes, the key's public half.

    `provenance`: a Sigstore bundle of SLSA provenance v1 for the same bundle, by the same CI.
    """

    statement: dict[str, Any]
    size: Annotated[int, Field(ge=1)]
    public_key: Annotated[str, Field(max_length=2048)] = ""
    provenance: dict[str, Any] | None = None


class StatementRequest(Closed):
    """`POST /v1/statements`: an owners, yank or status statement."""

    statement: dict[str, Any]
    public_key: Annotated[str, Field(max_length=2048)] = ""


class PublishSession(Open):
    """The answer 202: where to put the bundle and how much of it is there already. Its URLs are secrets."""

    session: str
    upload: str
    commit: str
    direct: str | None = None
    """Where the whole bundle may be put in one request instead, without any header of ours."""
    offset: int
    expires: TimeField


class Receipt(Open):
    """The answer 201 to a publish, or 200 where exactly this was published before."""

    name: NameField
    version: VersionField
    digest: DigestField
    size: int
    published_at: TimeField
    registry: RegistryRef
    signer: Signer
    url: str
    attestation: DigestField
    findings: tuple[ProblemItem, ...] = ()
    already: bool = False
    index: Literal["published", "pending"] = "published"
    """`pending`: it is accepted for good, and readers will see it when `url` says `published`."""


class StatementReceipt(Open):
    """The answer to a statement: its digest, and the history's head and revision now."""

    plugin: NameField
    digest: DigestField
    revision: int
    head: DigestField
    already: bool = False


class Change(Open):
    """Something that has become visible: a version, or a statement of another kind."""

    serial: Annotated[int, Field(ge=1)]
    at: TimeField
    """When it was accepted."""
    action: str
    plugin: NameField
    version: VersionField | None = None


class ChangesPage(Open):
    """`GET /v1/changes`: what has become visible after `since`, in order. `next` is the next `since`."""

    changes: tuple[Change, ...]
    next: str


class AuditRow(Change):
    """The same, who signed it (the identity in words), and the digest of the signed statement."""

    signer: str
    digest: DigestField


class AuditPage(Open):
    """`GET /v1/audit`: what was accepted after `since`, in order. `next` is the next `since`."""

    entries: tuple[AuditRow, ...]
    next: str
