"""The laws of a plugin's history, and the ways in which it could be forged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed, PlugregError
from plugreg_schemas.history import append, begin, fold
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Owners, Status, Yank, owner_of, successor_statement
from tests.support.record import ALGORITHMS, OTHER_REGISTRY, REGISTRY, Author, Record, author, publish

if TYPE_CHECKING:
    from plugreg_schemas.history import History
    from plugreg_schemas.trust.verify import Signed

PEOPLE = [author(ALGORITHMS[number % 2]) for number in range(4)]
ADA, BOB, CAROL, MALLORY = PEOPLE


def place(history: History, **other: Any) -> dict[str, Any]:
    known = {
        "registry": REGISTRY,
        "plugin": "demo",
        "revision": history.revision + 1,
        "previous": history.head,
    }
    return known | other


def owners(
    history: History, *, add: list[Author] | None = None, remove: list[Author] | None = None, **other: Any
) -> Owners:
    added, removed = (tuple(owner_of(a.signer) for a in group or ()) for group in (add, remove))
    return Owners(**place(history, **other), add=added, remove=removed)


def yank(history: History, version: str = "1.0.0", *, yanked: bool = True, **other: Any) -> Yank:
    return Yank(
        **place(history, **other), version=version, yanked=yanked, reason="loses data" if yanked else ""
    )


def next_of(history: History, by: Author, predicate: Owners | Yank | Status) -> History:
    return append(history, by.signed(successor_statement(predicate)))


@pytest.fixture
def history() -> History:
    return begin(ADA.signed(publish("1.0.0")))


def test_the_first_signer_is_the_first_owner(history: History) -> None:
    assert history.owned_by(ADA.signer)
    assert not history.owned_by(MALLORY.signer)
    assert (history.plugin, history.registry, history.revision) == ("demo", REGISTRY, 0)
    assert history.digests == (history.head,)


def test_an_empty_history_is_none() -> None:
    with pytest.raises(IntegrityError) as refused:
        fold([])
    assert refused.value.code == "history_invalid"


def test_history_that_does_not_begin_with_a_publish(history: History) -> None:
    with pytest.raises(IntegrityError) as refused:
        begin(ADA.signed(successor_statement(yank(history))))
    assert refused.value.code == "history_invalid"


def test_a_second_publish_stands_beside_the_history(history: History) -> None:
    with pytest.raises(IntegrityError) as refused:
        append(history, ADA.signed(publish("1.0.1")))
    assert refused.value.code == "history_invalid"


def test_replayed_yank(history: History) -> None:
    """A yank that was taken back cannot be put back with the old statement."""
    yanking = ADA.signed(successor_statement(yank(history)))
    taken_back = next_of(yanked := append(history, yanking), ADA, yank(yanked, yanked=False))
    assert "1.0.0" not in taken_back.yanked
    with pytest.raises(IntegrityError) as refused:
        append(taken_back, yanking)
    assert refused.value.code == "history_forked"


def test_replayed_statement_at_once(history: History) -> None:
    yanking = ADA.signed(successor_statement(yank(history)))
    with pytest.raises(IntegrityError) as refused:
        append(append(history, yanking), yanking)
    assert refused.value.code == "history_forked"


def test_forked_history(history: History) -> None:
    """Two statements after the same head: only one of them can stand."""
    one = ADA.signed(successor_statement(yank(history)))
    two = ADA.signed(successor_statement(owners(history, add=[BOB])))
    for first, second in ((one, two), (two, one)):
        with pytest.raises(IntegrityError) as refused:
            append(append(history, first), second)
        assert refused.value.code == "history_forked"


@pytest.mark.parametrize(
    "other", [{"revision": 2}, {"previous": Digest.of(b"x")}], ids=["revision", "previous"]
)
def test_statement_that_follows_another_head(history: History, other: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError) as refused:
        next_of(history, ADA, yank(history, **other))
    assert refused.value.code == "history_forked"


@pytest.mark.parametrize(
    "other",
    [{"registry": OTHER_REGISTRY}, {"plugin": "other"}],
    ids=["for another registry", "re-labelled plugin"],
)
def test_statement_about_something_else(history: History, other: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError) as refused:
        next_of(history, ADA, yank(history, **other))
    assert refused.value.code == "history_invalid"


def test_a_stranger_can_say_nothing(history: History) -> None:
    for predicate in (
        yank(history),
        owners(history, add=[MALLORY]),
        owners(history, add=[MALLORY], remove=[ADA]),
        Status(**place(history), state="deprecated"),
    ):
        with pytest.raises(NotAllowed) as refused:
            next_of(history, MALLORY, predicate)
        assert refused.value.code == "not_owner"


def test_a_former_owner_can_say_nothing(history: History) -> None:
    both = next_of(history, ADA, owners(history, add=[BOB]))
    alone = next_of(both, BOB, owners(both, remove=[ADA]))
    assert ADA.signer.words in alone.ever_owners
    with pytest.raises(NotAllowed) as refused:
        next_of(alone, ADA, owners(alone, add=[ADA]))
    assert refused.value.code == "not_owner"


def test_the_last_owner_cannot_be_removed(history: History) -> None:
    with pytest.raises(NotAllowed) as refused:
        next_of(history, ADA, owners(history, remove=[ADA]))
    assert refused.value.code == "last_owner"


def test_a_name_can_be_handed_over_in_one_statement(history: History) -> None:
    handed = next_of(history, ADA, owners(history, add=[BOB], remove=[ADA]))
    assert [o.words for o in handed.owners] == [BOB.signer.words]


@pytest.mark.parametrize(
    ("add", "remove"),
    [([], []), ([ADA], []), ([BOB], [BOB]), ([], [BOB]), ([ADA], [ADA])],
    ids=["nothing", "an owner again", "both", "no owner", "an owner both"],
)
def test_change_of_owners_without_effect(history: History, add: list[Author], remove: list[Author]) -> None:
    with pytest.raises(InvalidInput) as refused:
        next_of(history, ADA, owners(history, add=add, remove=remove))
    assert refused.value.code == "statement_without_effect"


def test_yank_and_status_without_effect(history: History) -> None:
    yanked = next_of(history, ADA, yank(history))
    old = next_of(yanked, ADA, Status(**place(yanked), state="deprecated", reason="old", replacement="demo2"))
    for before, predicate in (
        (history, yank(history, yanked=False)),
        (yanked, yank(yanked)),
        (history, Status(**place(history), state="active")),
        (old, Status(**place(old), state="deprecated", reason="old", replacement="demo2")),
    ):
        with pytest.raises(InvalidInput) as refused:
            next_of(before, ADA, predicate)
        assert refused.value.code == "statement_without_effect"
    renewed = next_of(old, ADA, Status(**place(old), state="deprecated", reason="older"))
    assert (renewed.state, renewed.reason, renewed.replacement) == ("deprecated", "older", None)


@pytest.mark.parametrize("state", ["quarantined", "removed"])
def test_states_of_administrators_are_not_for_owners(history: History, state: Any) -> None:
    with pytest.raises(NotAllowed) as refused:
        next_of(history, ADA, Status(**place(history), state=state))
    assert refused.value.code == "admin_only"


def _record() -> Record:
    record = Record.begin(ADA, "1.0.0")
    record.follow(ADA, Owners(**record.place(), add=(owner_of(BOB.signer),)))
    record.follow(BOB, Yank(**record.place(), version="1.0.0", yanked=True, reason="loses data"))
    record.follow(ADA, Status(**record.place(), state="deprecated", reason="old"))
    return record


def test_reordered_statements() -> None:
    entries = _record().entries()
    for i in range(len(entries) - 1):
        swapped = [*entries[:i], entries[i + 1], entries[i], *entries[i + 2 :]]
        with pytest.raises(IntegrityError):
            fold(swapped)


def test_dropped_statement_in_the_middle_or_at_the_beginning() -> None:
    entries = _record().entries()
    for i in range(len(entries) - 1):
        with pytest.raises(IntegrityError):
            fold(entries[:i] + entries[i + 1 :])


def test_what_a_registry_could_not_have_accepted_is_an_invalid_history(history: History) -> None:
    first = ADA.signed(publish("1.0.0"))
    start = begin(first)
    for by, predicate in (
        (MALLORY, yank(start)),
        (ADA, owners(start, remove=[ADA])),
        (ADA, owners(start, add=[ADA])),
    ):
        with pytest.raises(IntegrityError) as refused:
            fold([first, by.signed(successor_statement(predicate))])
        assert refused.value.code == "history_invalid"


# Laws, over random sequences of attempts by random people: what is refused is dropped, what passes is kept.

ATTEMPTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(
            st.tuples(
                st.just("owners"),
                st.sets(st.integers(0, 3), max_size=3),
                st.sets(st.integers(0, 3), max_size=3),
            ),
            st.tuples(st.just("yank"), st.sampled_from(["1.0.0", "1.1.0"]), st.booleans()),
            st.tuples(
                st.just("status"),
                st.sampled_from(["active", "deprecated", "removed"]),
                st.sampled_from(["", "why"]),
            ),
        ),
    ),
    max_size=12,
)


def _attempt(history: History, said: tuple[Any, ...]) -> Owners | Yank | Status:
    kind, one, two = said
    if kind == "owners":
        return owners(history, add=[PEOPLE[i] for i in sorted(one)], remove=[PEOPLE[i] for i in sorted(two)])
    if kind == "yank":
        return yank(history, one, yanked=two)
    return Status(**place(history), state=one, reason=two)


@settings(max_examples=60, deadline=None)
@given(first=st.integers(0, 3), attempts=ATTEMPTS)
def test_laws_of_histories(first: int, attempts: list[tuple[int, tuple[Any, ...]]]) -> None:
    entries: list[Signed] = [PEOPLE[first].signed(publish("1.0.0"))]
    history = fold(entries)
    for person, said in attempts:
        by = PEOPLE[person]
        was_owner = history.owned_by(by.signer)
        signed = by.signed(successor_statement(_attempt(history, said)))
        with contextlib.suppress(NotAllowed, InvalidInput):
            longer = append(history, signed)
            assert was_owner, "an append by a non-owner never passes"
            entries.append(signed)
            assert fold(entries) == longer, "fold(prefix) + append == fold(all)"
            assert longer.digests[:-1] == history.digests, "the past never changes"
            assert longer.ever_owners >= history.ever_owners
            history = longer
        assert history.owners, "the last owner is never removed"
        assert {o.words for o in history.owners} <= history.ever_owners
        with pytest.raises(PlugregError):
            append(history, signed)
