"""The list of revocations: what may stand in it, and that nothing ever leaves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from plugreg_registry.revocations import described, revocation, with_closing, with_entry
from plugreg_schemas.errors import InvalidInput, NotAvailable, UsageError
from plugreg_schemas.index import RevocationList
from plugreg_schemas.trust.revocation import merge
from plugreg_schemas.trust.revocation import revoked as found_for

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "ab" * 32
VALUES = {"digest": DIGEST, "signer": f"key:{DIGEST}", "name": "demo"}


def revoked(kind: str = "name", level: str = "refuse", reason: str = "it steals") -> RevocationList:
    entry = revocation(kind, VALUES[kind], level=level, reason=reason, at=NOW)
    return with_entry(RevocationList(), entry)


@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_has_an_entry(kind: str) -> None:
    (entry,) = revoked(kind).entries
    assert (entry.kind, entry.value, entry.level, entry.at) == (kind, VALUES[kind], "refuse", NOW)


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        ("digest", "sha256:ab", "digest_invalid"),
        ("digest", "demo", "digest_invalid"),
        ("signer", DIGEST, "signer_invalid"),
        ("signer", "somebody", "signer_invalid"),
        ("name", "Not A Name", "name_invalid"),
        ("name", DIGEST, "name_invalid"),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: str, value: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        revocation(kind, value, level="warn", reason="", at=NOW)
    assert refused.value.code == code
    with pytest.raises(InvalidInput, match=code):
        with_closing(RevocationList(), kind, value, reason="", at=NOW)


def test_a_reason_is_one_line() -> None:
    with pytest.raises(InvalidInput, match="revocation_invalid"):
        revocation("name", "demo", level="warn", reason="two\nlines", at=NOW)


def test_an_entry_that_is_over_before_it_begins() -> None:
    with pytest.raises(UsageError, match="revocation_over"):
        revocation("name", "demo", level="warn", reason="", at=NOW, expires=NOW)


def test_the_same_twice_stands_once_and_another_level_is_another_entry() -> None:
    present = revoked()
    again = revocation("name", "demo", level="refuse", reason="it steals", at=NOW + timedelta(hours=1))
    assert with_entry(present, again) is present
    milder = revocation("name", "demo", level="warn", reason="it steals", at=NOW + timedelta(hours=1))
    assert [entry.level for entry in with_entry(present, milder).entries] == ["refuse", "warn"]


def test_closing_adds_an_entry_with_an_end_and_drops_nothing() -> None:
    present = revoked()
    later = NOW + timedelta(days=1)
    closed = with_closing(present, "name", "demo", reason="found to be harmless", at=later)
    assert closed.entries[:1] == present.entries
    end = closed.entries[1]
    assert (end.level, end.reason, end.at, end.expires) == ("refuse", "found to be harmless", later, later)
    assert with_closing(closed, "name", "demo", reason="again", at=later + timedelta(days=1)) is closed


def test_what_was_closed_can_be_revoked_again() -> None:
    closed = with_closing(revoked(), "name", "demo", reason="", at=NOW + timedelta(days=1))
    again = revocation("name", "demo", level="refuse", reason="it steals", at=NOW + timedelta(days=2))
    assert [entry.expires is None for entry in with_entry(closed, again).entries] == [True, False, True]


def test_entries_of_one_second_are_told_apart_by_a_client_that_keeps_what_it_saw() -> None:
    present = revoked()
    for _ in range(2):
        present = with_closing(present, "name", "demo", reason="", at=NOW)
        again = revocation("name", "demo", level="refuse", reason="it steals", at=NOW)
        present = with_entry(present, again)
    assert len(set(present.entries)) == 5
    seen = merge(RevocationList(), present)
    found = found_for(seen.entries, name="demo", digest="", signer="", when=None, now=NOW)
    assert found is not None
    assert sorted(entry.at for entry in present.entries) == [entry.at for entry in present.entries]


def test_closing_what_is_not_revoked() -> None:
    with pytest.raises(NotAvailable, match="revocation_unknown"):
        with_closing(revoked("digest"), "name", "demo", reason="", at=NOW)


def test_what_an_operator_sees() -> None:
    present = revoked("digest", "disable")
    entry = revocation(
        "signer",
        VALUES["signer"],
        level="refuse",
        reason="the key was stolen",
        at=NOW + timedelta(hours=1),
        before=NOW,
        expires=NOW + timedelta(days=9),
    )
    present = with_entry(present, entry)
    present = with_closing(present, "digest", DIGEST, reason="rebuilt", at=NOW + timedelta(hours=2))
    first, second = described(present, NOW + timedelta(hours=3))
    assert first == (
        f"refuse   signer  key:{DIGEST}  (since 2026-01-31T13:00:00Z, "
        "signed before 2026-01-31T12:00:00Z is fine, until 2026-02-09T12:00:00Z): the key was stolen"
    )
    assert second == f"closed   digest  {DIGEST}  (closed 2026-01-31T14:00:00Z): rebuilt"
