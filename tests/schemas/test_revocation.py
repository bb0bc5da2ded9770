"""Which revocation touches a release: the newest of its kind and value, in force, strongest first; none is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import Revocation, RevocationList
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.revocation import LEVELS, counting, in_force, merge, revoked

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FACTS = {"name": "demo", "digest": Digest.of(b"bundle"), "signer": f"key:{Digest.of(b'key')}"}
SIGNED = NOW - 10 * DAY


def entry(kind: str = "name", level: str = "refuse", *, value: str = "", **more: Any) -> Revocation:
    members = {"kind": kind, "value": value or FACTS[kind], "level": level, "reason": "why", "at": NOW - DAY}
    return Revocation.model_validate(members | more)


def found(*entries: Revocation, when: datetime | None = SIGNED, now: datetime = NOW) -> Revocation | None:
    return revoked(entries, **FACTS, when=when, now=now)


@pytest.mark.parametrize("kind", ["name", "digest", "signer"])
def test_an_entry_touches_exactly_what_it_names(kind: str) -> None:
    assert found(entry(kind)) == entry(kind)
    others: dict[str, Any] = {**FACTS, kind: "another"}
    assert revoked([entry(kind)], **others, when=SIGNED, now=NOW) is None
    assert found(entry(kind, value=FACTS[kind].upper())) is None
    assert found(entry(kind, value=FACTS[kind][:-1])) is None


def test_a_value_under_another_kind_touches_nothing() -> None:
    assert found(entry("signer", value=FACTS["digest"]), entry("digest", value=FACTS["name"])) is None


def test_the_strongest_of_several_kinds_decides() -> None:
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        entries = [entry("name", "warn"), entry("digest", "disable"), entry("signer", "refuse")]
        assert found(*(entries[place] for place in order)) == entries[2]
        assert found(*(entries[place] for place in order if place < 2)) == entries[1]


def test_of_one_level_the_newest_is_shown() -> None:
    assert found(entry("name"), entry("digest")) == entry("digest")


def test_the_newest_entry_for_a_value_counts_also_where_it_is_weaker() -> None:
    assert found(entry(level="refuse"), entry(level="warn")) == entry(level="warn")
    assert found(entry(level="warn"), entry(level="refuse")) == entry(level="refuse")


def test_an_entry_is_closed_by_one_that_ended() -> None:
    closing = entry(expires=NOW)
    assert found(entry(), closing) is None
    assert found(entry(), closing, entry(level="warn")) == entry(level="warn"), "and can be opened again"


def test_an_entry_ends_when_it_says() -> None:
    ends = entry(expires=NOW + DAY)
    assert found(ends) == ends
    assert found(ends, now=NOW + DAY - timedelta(microseconds=1)) == ends
    assert found(ends, now=NOW + DAY) is None
    assert (in_force(ends, NOW), in_force(ends, NOW + DAY)) == (True, False)


@pytest.mark.parametrize(
    ("when", "touched"),
    [(SIGNED, False), (SIGNED + DAY - timedelta(microseconds=1), False), (SIGNED + DAY, True), (None, True)],
    ids=["before", "just before", "at that time", "no time"],
)
def test_what_was_signed_before_is_not_touched(when: datetime | None, touched: bool) -> None:
    assert (found(entry("signer", before=SIGNED + DAY), when=when) is not None) == touched


def test_what_was_signed_before_is_touched_by_what_else_names_it() -> None:
    assert found(entry("signer", before=NOW), entry("digest", "warn")) == entry("digest", "warn")


def test_an_empty_list_touches_nothing() -> None:
    assert found() is None


def test_an_entry_that_was_seen_is_kept_whatever_is_served() -> None:
    """A list that lost an entry, or an older one, or none at all."""
    one, two, three = entry("name"), entry("digest"), entry("signer")
    seen = RevocationList(entries=(one, two))
    for served in ((), (one,), (two,), (one, two)):
        assert merge(seen, RevocationList(entries=served)).entries == (one, two)
    assert merge(seen, RevocationList(entries=(one, three))).entries == (one, two, three)
    assert merge(RevocationList(), seen) == seen


def test_a_closing_is_merged_after_what_it_closes() -> None:
    seen = RevocationList(entries=(entry(),))
    served = RevocationList(entries=(entry(), entry(expires=NOW)))
    assert found(*merge(seen, served).entries) is None
    assert found(*merge(served, seen).entries) is None, "an older list opens nothing again"


LISTS = st.lists(
    st.builds(
        entry,
        st.sampled_from(["name", "digest", "signer"]),
        st.sampled_from(LEVELS),
        expires=st.sampled_from([None, NOW, NOW + DAY]),
        before=st.sampled_from([None, NOW]),
    ),
    max_size=8,
    unique=True,
).map(lambda entries: RevocationList(entries=tuple(entries)))


@given(LISTS, LISTS, LISTS)
def test_laws_of_merging(seen: RevocationList, served: RevocationList, later: RevocationList) -> None:
    merged = merge(seen, served)
    assert merged.entries[: len(seen.entries)] == seen.entries
    assert set(merged.entries) == {*seen.entries, *served.entries}
    assert len(set(merged.entries)) == len(merged.entries)
    assert merge(merged, served) == merge(merged, seen) == merged
    assert set(merge(merged, later).entries) >= set(merged.entries)


@given(LISTS)
def test_laws_of_counting(listed: RevocationList) -> None:
    counted = counting(listed.entries)
    assert len({(e.kind, e.value) for e in counted}) == len(counted)
    assert {(e.kind, e.value) for e in counted} == {(e.kind, e.value) for e in listed.entries}
    strongest = found(*listed.entries)
    touching = [e for e in counted if in_force(e, NOW) and (e.before is None or e.before <= SIGNED)]
    assert (strongest is None) == (not touching)
    assert all(LEVELS.index(e.level) <= LEVELS.index(strongest.level) for e in touching if strongest)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "plugin"},
        {"level": "block"},
        {"value": ""},
        {"reason": "two\nlines"},
        {"at": "yesterday"},
        {"before": "2026-01-01T00:00:00"},
    ],
)
def test_entries_that_are_none(change: dict[str, Any]) -> None:
    value = entry().model_dump(mode="json") | change
    with pytest.raises(InvalidInput) as refused:
        read_model(RevocationList, canonical_json({"entries": [value]}), code="revocations_invalid")
    assert refused.value.code == "revocations_invalid"
