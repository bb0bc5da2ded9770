"""The signed index as the contract says it: where things lie, how many bins there are, who administers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import (
    LEAST_BITS,
    MOST_BITS,
    Admin,
    Admins,
    TrustDocument,
    bin_bits,
    hashed_target_key,
    metadata_key,
    plugin_target,
    registry_of_root,
    target_key,
)
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.identity import CiSigner, OidcSigner
from tests.support.record import REGISTRY, author

T = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ROOT, FORMER, STRANGER = (author().signer for _ in range(3))
DIGEST = Digest.of(b"{}")


def test_where_things_lie() -> None:
    assert plugin_target("demo") == "plugins/demo.json"
    assert target_key(plugin_target("demo")) == "index/plugins/demo.json"
    assert hashed_target_key("plugins/demo.json", DIGEST) == f"index/plugins/{DIGEST.hex}.demo.json"
    assert hashed_target_key("catalog.json", DIGEST) == f"index/{DIGEST.hex}.catalog.json"
    assert metadata_key("timestamp") == "index/metadata/timestamp.json"
    assert metadata_key("bin-0f", 7) == "index/metadata/7.bin-0f.json"


def test_bins_are_about_the_square_root_of_the_plugins() -> None:
    """64 for a thousand, 256 for ten thousand, 1024 for a hundred thousand; never fewer where it grows."""
    assert [2 ** bin_bits(n) for n in (1_000, 10_000, 100_000)] == [64, 256, 1024]
    bits = [bin_bits(n) for n in (0, 1, 10, 100, *range(1000, 2_000_000, 99_999), 10**12)]
    assert bits == sorted(bits)
    assert (bits[0], bits[-1]) == (LEAST_BITS, MOST_BITS)


def test_an_administrator_of_now_and_a_former_one() -> None:
    admins = Admins((Admin(signer=ROOT, since=T), Admin(signer=FORMER, since=T, until=T + SECOND)))
    for at in (T, T + 10 * SECOND, None):
        assert admins.include(ROOT, at)
        assert not admins.include(STRANGER, at)
    assert admins.include(FORMER, T)
    assert not admins.include(FORMER, T + SECOND)
    assert not admins.include(FORMER, None), "a former one needs a time"


def test_an_administrator_who_comes_back_has_a_row_more() -> None:
    admins = Admins((Admin(signer=ROOT, since=T, until=T + SECOND), Admin(signer=ROOT, since=T + 9 * SECOND)))
    assert admins.include(ROOT, T + 10 * SECOND)
    assert admins.include(ROOT, None)


def test_an_administrator_is_known_by_what_is_compared_and_not_by_what_is_shown() -> None:
    workflow = CiSigner(issuer="https://ci.example", repository_id="1", owner_id="22", workflow="a.yml")
    admins = Admins((Admin(signer=workflow, since=T),))
    assert admins.include(workflow.model_copy(update={"repository": "acme/new", "ref": "refs/heads/x"}), T)
    assert not admins.include(workflow.model_copy(update={"owner_id": "23"}), T)
    assert not admins.include(OidcSigner(issuer="https://ci.example", subject="1"), T)


def test_a_trust_target_reads_back_and_ignores_what_a_newer_registry_adds() -> None:
    value = {
        "api-version": "1",
        "registry": REGISTRY,
        "admins": [{"signer": ROOT.model_dump(), "since": "2026-03-01T00:00:00Z", "new": 1}],
        "new": {},
    }
    document = read_model(TrustDocument, canonical_json(value), code="index_invalid")
    assert document.admins == (Admin(signer=ROOT, since=T),)


@pytest.mark.parametrize(
    "change",
    [{"registry": "x"}, {"api-version": "2"}, {"admins": [{"signer": {"kind": "key"}}]}, {"admins": 1}],
)
def test_a_trust_target_that_is_none(change: dict[str, Any]) -> None:
    value = {"api-version": "1", "registry": REGISTRY, "admins": []} | change
    with pytest.raises(InvalidInput):
        read_model(TrustDocument, canonical_json(value), code="index_invalid")


def test_the_root_names_the_registry() -> None:
    assert registry_of_root({"plugreg": {"registry": REGISTRY}}) == REGISTRY


@pytest.mark.parametrize(
    "members",
    [{}, {"plugreg": REGISTRY}, {"plugreg": {}}, {"plugreg": {"registry": "x"}}, {"plugreg": None}],
)
def test_a_root_that_names_no_registry(members: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError) as refused:
        registry_of_root(members)
    assert refused.value.code == "index_invalid"
