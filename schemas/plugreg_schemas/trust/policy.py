"""Whether a signer may do what a statement says. Pure: facts in, refusal or nothing out.

The registry asks here twice for every publish: before it takes a byte, and again in the transaction that
inserts the release. The client asks again for every release that it installs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from plugreg_schemas.errors import Conflict, Gone, IntegrityError, InvalidInput, NotAllowed, Unverifiable
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import Version, quoted
from plugreg_schemas.statement import CiOwner, KeyOwner

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from plugreg_schemas.history import History
    from plugreg_schemas.statement import AnyOwner, Publish
    from plugreg_schemas.trust.identity import AnySigner


@dataclass(frozen=True, slots=True)
class Release:
    """A version that exists already, as far as policy needs to know it."""

    version: str
    digest: str
    published_at: str


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may claim a name that nobody owns yet.

    `anyone`: whoever can sign; `listed`: identities whose words match one of `patterns` (`*` and `?`);
    `admins`: nobody else than administrators, who are not asked about here.
    """

    rule: Literal["anyone", "listed", "admins"] = "anyone"
    patterns: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    """Patterns of names that nobody may claim here."""

    def __post_init__(self) -> None:
        if self.rule == "listed" and not self.patterns:
            raise InvalidInput("admission_invalid", "an admission list without an identity admits nobody")


def check_registry(said_registry: str, registry: str) -> None:
    """Refuse a statement that was made for another registry.

    Raises:
        IntegrityError: `registry_mismatch`.
    """
    if said_registry != registry:
        raise IntegrityError(
            "registry_mismatch",
            f"the statement is for the registry `{said_registry}`, this one is `{registry}`",
        )


def check_claim(admission: Admission, name: str, signer: AnySigner) -> None:
    """Decide whether `signer`, who is no administrator, may claim the free name `name`.

    Raises:
        NotAllowed: `not_admitted`, `name_held`.
    """
    if any(matches(name, pattern) for pattern in admission.reserved):
        raise NotAllowed("name_held", f"the name `{name}` is held back by this registry")
    listed = admission.rule == "listed" and any(matches(signer.words, p) for p in admission.patterns)
    if not listed and admission.rule != "anyone":
        raise NotAllowed(
            "not_admitted",
            f"`{signer.words}` may not claim a new name in this registry",
            hint="ask the registry's operator to admit this identity",
        )


def check_publish(
    said: Publish, signer: AnySigner, history: History, releases: Iterable[Release], digest: str
) -> None:
    """Decide whether `signer` may publish this version. The same bytes may come again.

    Raises:
        NotAllowed: `not_owner`, `plugin_quarantined`.
        Gone: `plugin_removed`.
        Conflict: `version_exists`, `version_differs_in_build`; `details` has the digest and time that stand.
    """
    if history.state == "removed":
        raise Gone("plugin_removed", f"`{said.plugin}` was removed from this registry: {history.reason}")
    if not history.owned_by(signer):
        raise NotAllowed(
            "not_owner",
            f"`{signer.words}` is not an owner of `{said.plugin}`",
            hint=f"an owner can add you: `plugreg owner add {said.plugin} ID`",
        )
    if history.state == "quarantined":
        raise NotAllowed("plugin_quarantined", f"`{said.plugin}` is in quarantine: {history.reason}")
    for release in releases:
        if release.version == said.version and release.digest != digest:
            raise Conflict(
                "version_exists",
                f"`{said.plugin} {said.version}` is {_state_of(said.version, history)} "
                f"since {release.published_at} with other bytes",
                hint="a version is never replaced; publish a new version",
                details=_standing(release, history),
            )
        if release.version != said.version and _same_precedence(release.version, said.version):
            raise Conflict(
                "version_differs_in_build",
                f"`{release.version}` exists, and `{said.version}` differs from it only in build metadata",
                hint="raise the version itself",
                details=_standing(release, history),
            )


def check_release_signer(history: History, signer: AnySigner, when: datetime | None) -> None:
    """Refuse a release whose signer did not own the plugin, or signed against the conditions of that.

    `when` is the proved time of the signature, or else when the signed index says that it was published. A
    former owner can still sign, and date it back: without such a time nobody can tell a release of theirs
    from one that was signed while they owned the plugin.

    Raises:
        IntegrityError: `signer_not_owner`: the signer never owned it; `key_outside_validity`,
            `ref_not_allowed`.
        Unverifiable: `no_trusted_time`: it was not signed before the signer was removed, as far as is known.
    """
    owner = history.owner(signer) or history.former.get(signer.words)
    if owner is None:
        raise IntegrityError(
            "signer_not_owner", f"`{signer.words}` signed the release and never owned `{history.plugin}`"
        )
    check_conditions(owner, signer, when)
    if history.owned_by(signer):
        return
    removed = history.removed_at.get(signer.words)
    if when is None or removed is None or when >= removed:
        raise Unverifiable(
            "no_trusted_time",
            f"`{signer.words}` signed this release of `{history.plugin}`, is no longer an owner, "
            "and nothing proves that it was signed before",
            hint="ask an owner to publish it again as a new version",
        )


def check_conditions(owner: AnyOwner, signer: AnySigner, when: datetime | None) -> None:
    """Refuse a signature of an owner outside the validity of the key, or from a ref that does not match.

    The registry asks with its own clock, the client with the time that is proved.

    Raises:
        IntegrityError: `key_outside_validity`, `ref_not_allowed`.
        Unverifiable: `no_trusted_time`: the key has a validity, and `when` is not known.
    """
    if isinstance(owner, KeyOwner):
        _check_validity(owner, when)
    if isinstance(owner, CiOwner) and owner.refs is not None:
        ref = signer.ref if signer.kind == "ci" else ""
        if not matches(ref, owner.refs):
            raise IntegrityError(
                "ref_not_allowed",
                f"`{owner.words}` signed from the ref {quoted(ref)}, and owns only what comes from "
                f"{quoted(owner.refs)}",
                hint="sign from a ref that matches, or ask an owner to change the pattern",
            )


def _check_validity(owner: KeyOwner, when: datetime | None) -> None:
    start, end = owner.not_before, owner.not_after
    if start is None and end is None:
        return
    if when is None:
        raise Unverifiable(
            "no_trusted_time",
            f"`{owner.words}` is valid for a time only, and nothing proves when it signed",
            hint="sign with a timestamp, or use the registry's signed index",
        )
    if (start is not None and when < start) or (end is not None and when >= end):
        limits = [f"{word} {format_time(time)}" for word, time in (("from", start), ("until", end)) if time]
        raise IntegrityError(
            "key_outside_validity",
            f"`{owner.words}` signed at {format_time(when)}, and is valid {' '.join(limits)}",
            hint="sign with a key that is valid; `plugreg owner list` shows which are",
        )


def matches(text: str, pattern: str) -> bool:
    """Match `*` and `?`; a bracket stands for itself, as in the address of an issuer on IPv6."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def _same_precedence(one: str, other: str) -> bool:
    return Version(one).without_build == Version(other).without_build


def _state_of(version: str, history: History) -> str:
    return "yanked, published" if version in history.yanked else "published"


def _standing(release: Release, history: History) -> dict[str, object]:
    return {
        "digest": release.digest,
        "version": release.version,
        "published_at": release.published_at,
        "yanked": release.version in history.yanked,
    }
