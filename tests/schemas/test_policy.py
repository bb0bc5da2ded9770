"""Whether somebody may: a table of cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.errors import (
    Conflict,
    Gone,
    IntegrityError,
    InvalidInput,
    NotAllowed,
    PlugregError,
    Unverifiable,
)
from plugreg_schemas.history import begin
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Publish, owner_of
from plugreg_schemas.trust.identity import CiSigner, KeySigner, OidcSigner
from plugreg_schemas.trust.policy import (
    Admission,
    Release,
    check_claim,
    check_publish,
    check_registry,
    check_release_signer,
)
from tests.support.record import OTHER_REGISTRY, PUBLISHED_AT, REGISTRY, author, bundle_digest, publish

if TYPE_CHECKING:
    from plugreg_schemas.trust.identity import AnySigner

ADA, MALLORY = author(), author("ecdsa-p256")
HISTORY = begin(ADA.signed(publish("1.0.0")))
KEY = KeySigner(id=Digest.of(b"key"))
PERSON = OidcSigner(issuer="https://id.example", subject="ada@example.com")
IPV6 = OidcSigner(issuer="https://[::1]:8443", subject="ada@example.com")
WORKFLOW = CiSigner(issuer="https://ci.example", repository_id="1", owner_id="22", workflow=".ci/publish.yml")
REMOVED, SECOND = datetime(2026, 3, 1, tzinfo=UTC), timedelta(seconds=1)
RELEASES = [
    Release("1.0.0", bundle_digest("1.0.0"), PUBLISHED_AT),
    Release("1.1.0+linux", bundle_digest("1.1.0+linux"), PUBLISHED_AT),
    Release("2.0.0-rc.1", bundle_digest("2.0.0-rc.1"), PUBLISHED_AT),
]


def test_statement_for_another_registry() -> None:
    check_registry(REGISTRY, REGISTRY)
    with pytest.raises(IntegrityError) as refused:
        check_registry(OTHER_REGISTRY, REGISTRY)
    assert refused.value.code == "registry_mismatch"


@pytest.mark.parametrize(
    ("patterns", "signer", "admitted"),
    [
        ((KEY.words,), KEY, True),
        (("key:*",), KEY, True),
        (("key:sha256:?*",), KEY, True),
        (("KEY:*",), KEY, False),
        (("key:",), KEY, False),
        (("oidc:*",), KEY, False),
        (("oidc:https://id.example#*@example.com",), PERSON, True),
        (("oidc:https://id.example#*@example.org",), PERSON, False),
        (("oidc:https://other.example#*",), PERSON, False),
        (("oidc:https://[::1]:8443#*",), IPV6, True),
        (("oidc:https://[:1]:8443#*",), IPV6, False),
        (("ci:https://ci.example#*#22#*",), WORKFLOW, True),
        (("ci:https://ci.example#*#2#*",), WORKFLOW, False),
        (("nobody", "*"), WORKFLOW, True),
        (("",), KEY, False),
    ],
)
def test_admission_by_patterns(patterns: tuple[str, ...], signer: AnySigner, admitted: bool) -> None:
    admission = Admission("listed", patterns)
    if admitted:
        check_claim(admission, "demo", signer)
    else:
        with pytest.raises(NotAllowed) as refused:
            check_claim(admission, "demo", signer)
        assert refused.value.code == "not_admitted"


def test_anyone_may_claim_a_free_name_by_default() -> None:
    check_claim(Admission(), "demo", KEY)


@pytest.mark.parametrize("patterns", [(), ("*",)])
def test_only_administrators_may_claim_a_name(patterns: tuple[str, ...]) -> None:
    """They are not asked about; who is, is none of them."""
    for signer in (KEY, PERSON, WORKFLOW):
        with pytest.raises(NotAllowed) as refused:
            check_claim(Admission("admins", patterns), "demo", signer)
        assert refused.value.code == "not_admitted"


def test_an_empty_list_admits_nobody_by_mistake_and_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        Admission("listed")
    assert refused.value.code == "admission_invalid"


@pytest.mark.parametrize(
    ("pattern", "name", "held"),
    [
        ("acme-*", "acme-lint", True),
        ("acme-*", "acme", False),
        ("acme-*", "not-acme-lint", False),
        ("*", "x", True),
    ],
)
def test_names_that_are_held_back(pattern: str, name: str, held: bool) -> None:
    admission = Admission(reserved=(pattern,))
    if held:
        with pytest.raises(NotAllowed) as refused:
            check_claim(admission, name, KEY)
        assert refused.value.code == "name_held"
    else:
        check_claim(admission, name, KEY)


def _publish(version: str, by: AnySigner = ADA.signer, digest: str = "", **state: Any) -> None:
    said = Publish(registry=REGISTRY, plugin="demo", version=version, format="agent-plugins")
    history = HISTORY if not state else _with(**state)
    check_publish(said, by, history, RELEASES, digest or bundle_digest(version))


def _with(**state: Any) -> Any:
    from dataclasses import replace

    return replace(HISTORY, **state)


@pytest.mark.parametrize("version", ["1.0.1", "0.9.0", "1.0.0-rc.1", "2.0.0", "2.0.0-rc.2", "1.1.0-linux"])
def test_a_free_version_is_free_whatever_its_order(version: str) -> None:
    _publish(version)


@pytest.mark.parametrize("version", [release.version for release in RELEASES])
def test_the_same_bytes_again_are_no_fault(version: str) -> None:
    _publish(version)


@pytest.mark.parametrize(
    ("version", "by", "state", "kind", "code"),
    [
        ("1.0.1", MALLORY.signer, {}, NotAllowed, "not_owner"),
        ("1.0.0", MALLORY.signer, {}, NotAllowed, "not_owner"),
        ("1.0.1", ADA.signer, {"state": "removed"}, Gone, "plugin_removed"),
        ("1.0.1", MALLORY.signer, {"state": "removed"}, Gone, "plugin_removed"),
        ("1.0.1", ADA.signer, {"state": "quarantined"}, NotAllowed, "plugin_quarantined"),
        ("1.0.1", MALLORY.signer, {"state": "quarantined"}, NotAllowed, "not_owner"),
        ("1.0.1", ADA.signer, {"owners": ()}, NotAllowed, "not_owner"),
        ("1.1.0", ADA.signer, {}, Conflict, "version_differs_in_build"),
        ("1.1.0+windows", ADA.signer, {}, Conflict, "version_differs_in_build"),
        ("1.0.0+x", ADA.signer, {}, Conflict, "version_differs_in_build"),
        ("2.0.0-rc.1+x", ADA.signer, {}, Conflict, "version_differs_in_build"),
    ],
)
def test_publishes_that_are_refused(
    version: str, by: AnySigner, state: dict[str, Any], kind: type[PlugregError], code: str
) -> None:
    with pytest.raises(kind) as refused:
        _publish(version, by, **state)
    assert (type(refused.value), refused.value.code) == (kind, code)


@pytest.mark.parametrize("yanked", [False, True])
def test_other_bytes_for_a_version_that_stands(yanked: bool) -> None:
    state: dict[str, Any] = {"yanked": {"1.0.0": "loses data"}} if yanked else {}
    with pytest.raises(Conflict) as refused:
        _publish("1.0.0", digest=Digest.of(b"other bytes"), **state)
    assert refused.value.code == "version_exists"
    assert refused.value.details == {
        "digest": bundle_digest("1.0.0"),
        "version": "1.0.0",
        "published_at": PUBLISHED_AT,
        "yanked": yanked,
    }


def test_a_deprecated_plugin_can_still_be_published() -> None:
    _publish("1.0.1", state="deprecated", reason="old")


def test_release_by_a_former_owner() -> None:
    """Without a trusted time nobody can tell whether it was signed while they owned the name."""
    former: dict[str, Any] = {"owners": (MALLORY.signer,), "former": {ADA.signer.words: owner_of(ADA.signer)}}
    undated = _with(**former)
    check_release_signer(undated, MALLORY.signer, None)
    for when in (None, REMOVED - SECOND):
        with pytest.raises(Unverifiable) as refused:
            check_release_signer(undated, ADA.signer, when)
        assert refused.value.code == "no_trusted_time"
    dated = _with(**former, removed_at={ADA.signer.words: REMOVED})
    check_release_signer(dated, ADA.signer, REMOVED - SECOND)
    for when in (None, REMOVED, REMOVED + SECOND):
        with pytest.raises(Unverifiable) as refused:
            check_release_signer(dated, ADA.signer, when)
        assert refused.value.code == "no_trusted_time"


def test_release_by_somebody_who_never_owned_the_name() -> None:
    check_release_signer(HISTORY, ADA.signer, None)
    with pytest.raises(IntegrityError) as refused:
        check_release_signer(HISTORY, MALLORY.signer, None)
    assert refused.value.code == "signer_not_owner"
