"""What administrators may say in a history, what owners may not, and how a name is given to others."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed
from plugreg_schemas.history import ADMITTED, append, begin, fold
from plugreg_schemas.index import Admin, Admins
from plugreg_schemas.statement import Owners, Status, Yank, owner_of, successor_statement
from plugreg_schemas.trust.proof import prove_history
from tests.support.record import REGISTRY, Author, Record, author, publish

if TYPE_CHECKING:
    from plugreg_schemas.history import History
    from plugreg_schemas.statement import State
    from plugreg_schemas.trust.verify import Signed

ADA, BOB, ROOT, FORMER, MALLORY = PEOPLE = [author() for _ in range(5)]
SECOND = timedelta(seconds=1)
T = datetime(2026, 3, 1, tzinfo=UTC)
SINCE = T - timedelta(days=100)
ADMINS = Admins((Admin(signer=ROOT.signer, since=SINCE), Admin(signer=FORMER.signer, since=SINCE, until=T)))


def place(history: History) -> dict[str, Any]:
    return {
        "registry": REGISTRY,
        "plugin": "demo",
        "revision": history.revision + 1,
        "previous": history.head,
    }


def said(
    history: History, by: Author, predicate: Owners | Yank | Status, at: datetime | None = T - SECOND
) -> History:
    return append(history, by.signed(successor_statement(predicate)), at=at, admins=ADMINS)


def status(history: History, state: State, by: Author, at: datetime | None = T - SECOND) -> History:
    return said(history, by, Status(**place(history), state=state, reason="why"), at)


def reassigned(history: History, by: Author, to: Author, at: datetime | None = T - SECOND) -> History:
    change = Owners(**place(history), add=(owner_of(to.signer),), remove=history.owners)
    return said(history, by, change, at)


@pytest.fixture
def history() -> History:
    return begin(ADA.signed(publish("1.0.0")))


def in_state(history: History, state: State) -> History:
    if state == "active":
        return history
    return status(history, state, ADA if state == "deprecated" else ROOT)


@pytest.mark.parametrize("before", ["active", "deprecated", "quarantined", "removed"])
@pytest.mark.parametrize("after", ["active", "deprecated", "quarantined", "removed"])
def test_who_may_change_which_state_into_which(history: History, before: State, after: State) -> None:
    present = in_state(history, before)
    moderated = {before, after} & {"quarantined", "removed"}
    for by in (ADA, ROOT, MALLORY):
        if moderated and by is not ROOT:
            code = "admin_only"
        elif by is not ADA and (after == "deprecated" or not moderated):
            code = "not_owner"
        elif before == after != "active":
            code = "statement_without_effect"
        else:
            assert status(present, after, by).state == after
            continue
        with pytest.raises((NotAllowed, InvalidInput)) as refused:
            status(present, after, by)
        assert refused.value.code == code


def test_an_administrator_who_owns_the_plugin_may_set_and_lift_everything(history: History) -> None:
    shared = said(history, ADA, Owners(**place(history), add=(owner_of(ROOT.signer),)))
    assert shared.reassigned == ()
    held = status(status(shared, "deprecated", ROOT), "quarantined", ROOT)
    assert status(held, "deprecated", ROOT).state == "deprecated"


def test_an_administrator_may_not_yank(history: History) -> None:
    with pytest.raises(NotAllowed) as refused:
        said(history, ROOT, Yank(**place(history), version="1.0.0", yanked=True))
    assert refused.value.code == "not_owner"


def test_an_administrator_gives_the_name_to_others(history: History) -> None:
    given_away = reassigned(history, ROOT, BOB)
    assert [owner.words for owner in given_away.owners] == [BOB.signer.words]
    assert given_away.reassigned == (1,)
    assert given_away.removed_at == {ADA.signer.words: T - SECOND}
    assert not given_away.owned_by(ROOT.signer)
    handed = reassigned(given_away, BOB, ADA)
    assert handed.reassigned == (1,), "an owner who hands the name over reassigns nothing"
    with pytest.raises(NotAllowed) as refused:
        reassigned(handed, BOB, BOB)
    assert refused.value.code == "not_owner"


def test_an_administrator_cannot_leave_a_name_without_owners(history: History) -> None:
    with pytest.raises(NotAllowed) as refused:
        said(history, ROOT, Owners(**place(history), remove=history.owners))
    assert refused.value.code == "last_owner"


def test_an_administrator_of_another_time(history: History) -> None:
    """A former one stays good for what they said before their end, and for nothing without a time."""
    assert status(history, "quarantined", FORMER, T - SECOND).state == "quarantined"
    assert reassigned(history, FORMER, BOB, T - SECOND).reassigned == (1,)
    for at in (T, T + SECOND, None):
        with pytest.raises(NotAllowed) as refused:
            status(history, "quarantined", FORMER, at)
        assert refused.value.code == "admin_only"
        with pytest.raises(NotAllowed) as refused:
            reassigned(history, FORMER, BOB, at)
        assert refused.value.code == "not_owner"


def test_a_proved_time_counts_more_than_that_of_the_registry(history: History) -> None:
    statement = successor_statement(Status(**place(history), state="removed", reason="law"))
    early = replace(FORMER.signed(statement), time=T - SECOND)
    assert append(history, early, at=T + SECOND, admins=ADMINS).state == "removed"
    late = replace(FORMER.signed(statement), time=T)
    with pytest.raises(NotAllowed):
        append(history, late, at=T - SECOND, admins=ADMINS)


def test_without_the_list_of_administrators_nobody_is_one(history: History) -> None:
    signed = ROOT.signed(successor_statement(Status(**place(history), state="removed")))
    with pytest.raises(NotAllowed) as refused:
        append(history, signed, at=T)
    assert refused.value.code == "admin_only"


def _moderated() -> Record:
    record = Record.begin(ADA, "1.0.0")
    record.follow(ADA, Owners(**record.place(), add=(owner_of(BOB.signer),)))
    record.follow(ROOT, Status(**record.place(), state="quarantined", reason="under examination"))
    record.follow(FORMER, Status(**record.place(), state="active"))
    change = Owners(**record.place(), add=(owner_of(MALLORY.signer),), remove=(ADA.signer, BOB.signer))
    record.follow(ROOT, change)
    return record


def test_a_client_folds_what_administrators_did_with_the_times_of_the_index() -> None:
    record = _moderated()
    entries, times = record.entries(), [T - 5 * SECOND + n * SECOND for n in range(5)]
    history = fold(entries, times=times, admins=ADMINS)
    assert (history.state, history.reassigned) == ("active", (4,))
    assert history.removed_at == {ADA.signer.words: times[4], BOB.signer.words: times[4]}
    assert fold(entries, times=times, admins=ADMITTED) == history, "the registry folds its own the same way"
    for wrong in ({"admins": ADMINS}, {"times": times}, {"times": [T] * 5, "admins": ADMINS}):
        with pytest.raises(IntegrityError) as refused:
            fold(entries, **wrong)
        assert refused.value.code == "history_invalid"


def test_a_document_with_what_administrators_did_is_proved() -> None:
    record = _moderated()
    record.admins, record.times = ADMINS, [T - 5 * SECOND + n * SECOND for n in range(5)]
    document = record.document()
    assert document.history_times == tuple(record.times)
    assert prove_history(document, record.fetch, REGISTRY, admins=ADMINS).reassigned == (4,)
    with pytest.raises(IntegrityError) as refused:
        prove_history(document, record.fetch, REGISTRY)
    assert refused.value.code == "history_invalid"


def test_a_document_with_times_for_some_statements_only() -> None:
    record = _moderated()
    record.admins, record.times = ADMINS, [T - SECOND] * 5
    value = record.value()
    value["history_times"].pop()
    with pytest.raises(InvalidInput) as refused:
        record.document(value)
    assert refused.value.code == "document_invalid"


# Laws, over random attempts by owners, administrators of now and before, and strangers.

ATTEMPTS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.booleans(),
        st.one_of(
            st.tuples(st.just("status"), st.sampled_from(["active", "deprecated", "quarantined", "removed"])),
            st.tuples(st.just("owners"), st.integers(0, 4)),
            st.tuples(st.just("yank"), st.booleans()),
        ),
    ),
    max_size=14,
)


def _attempt(history: History, what: tuple[str, Any]) -> Owners | Yank | Status:
    kind, value = what
    if kind == "status":
        return Status(**place(history), state=value)
    if kind == "yank":
        return Yank(**place(history), version="1.0.0", yanked=value)
    return Owners(**place(history), add=(owner_of(PEOPLE[value].signer),), remove=history.owners)


@settings(max_examples=80, deadline=None)
@given(attempts=ATTEMPTS)
def test_laws_of_moderated_histories(attempts: list[tuple[int, bool, tuple[str, Any]]]) -> None:
    entries: list[Signed] = [ADA.signed(publish("1.0.0"))]
    times = [T]
    history = fold(entries)
    for person, early, what in attempts:
        by, at = PEOPLE[person], T - SECOND if early else T + SECOND
        owner, admin = history.owned_by(by.signer), ADMINS.include(by.signer, at)
        signed = by.signed(successor_statement(_attempt(history, what)))
        with contextlib.suppress(NotAllowed, InvalidInput):
            longer = append(history, signed, at=at, admins=ADMINS)
            assert owner or admin, "a stranger says nothing"
            moderated = {history.state, longer.state} & {"quarantined", "removed"}
            if what[0] == "status" and moderated:
                assert admin
            assert owner or what[0] != "yank"
            assert owner or longer.state != "deprecated" or history.state == "deprecated"
            news = longer.reassigned[len(history.reassigned) :]
            assert news == ((longer.revision,) if what[0] == "owners" and not owner else ())
            entries.append(signed)
            times.append(at)
            history = longer
        assert history.owners
        assert not {o.words for o in history.owners} & history.removed_at.keys()
        assert history.removed_at.keys() == history.former.keys()
    assert fold(entries, times=times, admins=ADMINS) == history
    assert fold(entries, times=times, admins=ADMITTED) == history


def with_ended_key(history: History) -> History:
    """ROOT, an administrator, becomes an owner as well, by a key that is valid until `T`."""
    entry = owner_of(ROOT.signer).model_copy(update={"not_after": T})
    return said(history, ADA, Owners(**place(history), add=(entry,)))


def test_administrator_whose_key_as_an_owner_has_ended_does_not_act_as_an_owner(history: History) -> None:
    """That somebody is an administrator does not prolong what the other owners have limited."""
    ended = with_ended_key(history)
    yank = Yank(**place(ended), version="1.0.0", yanked=True)
    for change in (yank, Status(**place(ended), state="deprecated")):
        assert said(ended, ROOT, change, at=T - SECOND).revision == 2
        with pytest.raises(IntegrityError) as caught:
            said(ended, ROOT, change, at=T)
        assert caught.value.code == "key_outside_validity"


def test_administrator_whose_key_as_an_owner_has_ended_changes_the_owners_and_clients_are_told(
    history: History,
) -> None:
    """It is a reassignment then, at which whoever pinned the name stops."""
    ended = with_ended_key(history)
    taken = Owners(**place(ended), add=(owner_of(MALLORY.signer),), remove=(ADA.signer,))
    assert said(ended, ROOT, taken, at=T - SECOND).reassigned == ()
    assert said(ended, ROOT, taken, at=T).reassigned == (2,)
    assert status(ended, "quarantined", ROOT, at=T).state == "quarantined"
