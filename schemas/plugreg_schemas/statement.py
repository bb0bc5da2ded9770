"""The signed statements: what a signer says about one plugin in one registry (in-toto Statement v1).

    publish   these bytes are version V of the plugin         subject: the bundle
    owners    add and remove owners of the name               subject: the statement before it
    yank      withdraw a version, or take that back           subject: the statement before it
    status    deprecate, quarantine, remove, ...              subject: the statement before it

Entry 0 of a plugin's history is its first publish; owners, yank and status statements follow it, each naming
the digest of the one before (`previous`, and the subject) and its place (`revision`). Later publishes stand
beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import IntegrityError, InvalidInput
from plugreg_schemas.fields import (
    Closed,
    DigestField,
    NameField,
    ReasonField,
    RegistryIdField,
    TimeField,
    VersionField,
    check_model,
)
from plugreg_schemas.manifest import Format
from plugreg_schemas.names import Digest, quoted
from plugreg_schemas.trust.identity import CiSigner, KeySigner, OidcSigner, Signer

if TYPE_CHECKING:
    from plugreg_schemas.trust.identity import AnySigner

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATES: Final = "https://plugreg.dev/attestation/"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"

State = Literal["active", "deprecated", "quarantined", "removed"]


_Pattern = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\s\x00-\x1f\x7f-\x9f]+$")]


class KeyOwner(KeySigner):
    """A key that owns a name: from `not_before` on, until just before `not_after`."""

    not_before: TimeField | None = None
    not_after: TimeField | None = None

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        if self.not_before and self.not_after and self.not_before >= self.not_after:
            raise ValueError("`not_before` must lie before `not_after`")
        return self


class CiOwner(CiSigner):
    """A CI workflow that owns a name: at every ref, or at those that match `refs` (`*` and `?`)."""

    refs: _Pattern | None = None


AnyOwner = KeyOwner | OidcSigner | CiOwner
Owner = Annotated[KeyOwner | OidcSigner | CiOwner, Field(discriminator="kind")]


def owner_of(signer: AnySigner) -> AnyOwner:
    """Return the owner entry of an identity: itself where it is one, else one without conditions."""
    match signer:
        case KeyOwner() | CiOwner() | OidcSigner():
            return signer
        case KeySigner():
            return KeyOwner(id=signer.id)
        case CiSigner():
            return CiOwner(**signer.model_dump())


def conditions_of(owner: AnyOwner) -> dict[str, Any]:
    """Return the conditions of an owner that are set, as they travel."""
    members = {"not_before", "not_after", "refs"}
    return owner.model_dump(mode="json", include=members, exclude_none=True)


class Publish(Closed):
    """These bytes are this version of this plugin, for this registry and no other."""

    registry: RegistryIdField
    plugin: NameField
    version: VersionField
    format: Format


class _Successor(Closed):
    registry: RegistryIdField
    plugin: NameField
    revision: Annotated[int, Field(ge=1)]
    previous: DigestField


class Owners(_Successor):
    """Owners are added and removed. Who is an owner already can be added with other conditions."""

    add: Annotated[tuple[Owner, ...], Field(max_length=100)] = ()
    remove: Annotated[tuple[Signer, ...], Field(max_length=100)] = ()
    reason: ReasonField | None = None
    """Why, where an administrator gives the name to others."""


class Yank(_Successor):
    """A version is withdrawn (`yanked`), or the withdrawal is taken back."""

    version: VersionField
    yanked: bool
    reason: ReasonField = ""


class Status(_Successor):
    """The plugin as a whole changes its state."""

    state: State
    reason: ReasonField = ""
    replacement: NameField | None = None


Predicate = Publish | Owners | Yank | Status
_KINDS: Final[dict[str, type[Predicate]]] = {
    "publish": Publish,
    "owners": Owners,
    "yank": Yank,
    "status": Status,
}


class _Subject(Closed):
    name: Annotated[str, Field(max_length=200)]
    digest: dict[Literal["sha256"], Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class _Statement(Closed):
    type: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: Annotated[tuple[_Subject, ...], Field(min_length=1, max_length=1)]
    predicate_type: Annotated[str, Field(alias="predicateType", max_length=200)]
    predicate: dict[str, object]


class Statement(Closed):
    """A predicate about the subject with digest `digest`: a bundle, or the statement before this one."""

    digest: DigestField
    predicate: Publish | Owners | Yank | Status

    @property
    def kind(self) -> str:
        """`publish`, `owners`, `yank` or `status`."""
        return type(self.predicate).__name__.lower()

    @property
    def subject_name(self) -> str:
        """The name of the subject: the bundle's file name, or the plugin's name."""
        return subject_name(self.predicate)

    def payload(self) -> bytes:
        """Return the bytes to be signed."""
        return canonical_json(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": self.subject_name, "digest": {"sha256": Digest(self.digest).hex}}],
                "predicateType": f"{PREDICATES}{self.kind}/v1",
                "predicate": self.predicate.model_dump(mode="json", exclude_none=True),
            }
        )


def publish_statement(
    digest: Digest,
    *,
    registry: str,
    plugin: str,
    version: str,
    format: Format,  # noqa: A002 - the name of the member
) -> Statement:
    """Return the statement that publishes the bundle with this digest."""
    return Statement(
        digest=digest, predicate=Publish(registry=registry, plugin=plugin, version=version, format=format)
    )


def successor_statement(predicate: Owners | Yank | Status) -> Statement:
    """Return the statement that follows `predicate.previous` in a plugin's history."""
    return Statement(digest=predicate.previous, predicate=predicate)


def subject_name(predicate: Predicate) -> str:
    """Return the subject's name that goes with a predicate."""
    if isinstance(predicate, Publish):
        return f"{predicate.plugin}-{predicate.version}.tar.zst"
    return predicate.plugin


def parse_statement(payload: bytes) -> Statement:
    """Read the payload of a verified envelope.

    Raises:
        InvalidInput: `statement_invalid` or a JSON fault.
        IntegrityError: `statement_mismatch`: the subject is not the one that the predicate speaks of.
    """
    outer = check_model(
        _Statement, parse_json(payload, "statement"), code="statement_invalid", file="statement"
    )
    kind = _KINDS.get(outer.predicate_type.removeprefix(PREDICATES).removesuffix("/v1"))
    if kind is None or outer.predicate_type != f"{PREDICATES}{kind.__name__.lower()}/v1":
        raise InvalidInput(
            "statement_unsupported",
            f"a statement of type {quoted(outer.predicate_type)} is not known",
            hint="it may need a newer plugreg",
        )
    predicate = check_model(kind, outer.predicate, code="statement_invalid", file="statement")
    subject = outer.subject[0]
    digest = Digest.from_hex(subject.digest.get("sha256", ""))
    if subject.name != subject_name(predicate):
        raise IntegrityError(
            "statement_mismatch",
            f"the statement's subject {quoted(subject.name)} is not {quoted(subject_name(predicate))}",
        )
    if not isinstance(predicate, Publish) and predicate.previous != digest:
        raise IntegrityError(
            "statement_mismatch", "the statement's subject is not the statement that it names as previous"
        )
    return Statement(digest=digest, predicate=predicate)
