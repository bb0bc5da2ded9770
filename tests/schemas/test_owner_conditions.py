"""Owners on conditions: a key for a time, a workflow from some refs only."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from plugreg_schemas.errors import IntegrityError, InvalidInput, PlugregError, Unverifiable
from plugreg_schemas.history import ADMITTED, append, begin, fold
from plugreg_schemas.statement import (
    CiOwner,
    KeyOwner,
    Owners,
    Yank,
    conditions_of,
    owner_of,
    parse_statement,
    successor_statement,
)
from plugreg_schemas.trust.envelope import read_envelope
from plugreg_schemas.trust.identity import CiSigner, OidcSigner
from plugreg_schemas.trust.policy import check_release_signer
from plugreg_schemas.trust.proof import prove_history, prove_release
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
from tests.support.record import REGISTRY, Record, author, publish

if TYPE_CHECKING:
    from plugreg_schemas.history import History
    from plugreg_schemas.statement import AnyOwner
    from plugreg_schemas.trust.identity import AnySigner
    from tests.support.local_sigstore import LocalSigstore

ADA, NEW = author(), author("ecdsa-p256")
T = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WORKFLOW = CiSigner(
    issuer="https://ci.example",
    repository_id="1",
    owner_id="22",
    workflow=".ci/publish.yml",
    ref="refs/tags/v1",
)


def place(history: History) -> dict[str, Any]:
    return {
        "registry": REGISTRY,
        "plugin": "demo",
        "revision": history.revision + 1,
        "previous": history.head,
    }


def changed(
    history: History, *add: AnyOwner, remove: tuple[AnySigner, ...] = (), at: datetime | None = T
) -> History:
    statement = successor_statement(Owners(**place(history), add=add, remove=remove))
    return append(history, ADA.signed(statement), at=at)


def code(history: History, signer: AnySigner, when: datetime | None) -> str:
    try:
        check_release_signer(history, signer, when)
    except PlugregError as error:
        return error.code
    return ""


@pytest.fixture
def history() -> History:
    return begin(ADA.signed(publish("1.0.0")))


def test_an_owner_without_conditions_is_spelled_as_its_identity(history: History) -> None:
    """The bytes of statements that were signed before there were conditions stay what they are."""
    statement = successor_statement(Owners(**place(history), add=(owner_of(NEW.signer), owner_of(WORKFLOW))))
    said = json.loads(statement.payload())["predicate"]
    assert said["add"] == [NEW.signer.model_dump(), WORKFLOW.model_dump()]
    assert said["remove"] == []


def test_an_owner_entry_is_the_identity_and_its_conditions() -> None:
    person = OidcSigner(issuer="https://id.example", subject="ada@example.com")
    bound = KeyOwner(id=NEW.signer.id, not_before=T, not_after=T + DAY)
    tags = CiOwner(**WORKFLOW.model_dump(), refs="refs/tags/v*")
    assert owner_of(person) == person
    assert (owner_of(bound), owner_of(tags)) == (bound, tags)
    assert bound.words == NEW.signer.words
    assert tags.words == WORKFLOW.words
    assert conditions_of(bound) == {"not_before": "2026-03-01T00:00:00Z", "not_after": "2026-03-02T00:00:00Z"}
    assert conditions_of(tags) == {"refs": "refs/tags/v*"}
    assert (
        conditions_of(person)
        == conditions_of(owner_of(WORKFLOW))
        == conditions_of(owner_of(NEW.signer))
        == {}
    )


def test_conditions_are_signed_and_read_back(history: History) -> None:
    bound = KeyOwner(id=NEW.signer.id, not_before=T)
    tags = CiOwner(**WORKFLOW.model_dump(), refs="refs/tags/v*")
    statement = successor_statement(Owners(**place(history), add=(bound, tags)))
    assert parse_statement(statement.payload()) == statement
    after = append(history, ADA.signed(statement))
    assert after.owners[1:] == (bound, tags)


def test_who_is_removed_is_named_without_conditions(history: History) -> None:
    after = changed(history, KeyOwner(id=NEW.signer.id, not_after=T + DAY))
    statement = successor_statement(Owners(**place(after), remove=after.owners[1:]))
    assert json.loads(statement.payload())["predicate"]["remove"] == [NEW.signer.model_dump()]
    payload = json.loads(statement.payload())
    payload["predicate"]["remove"][0]["not_after"] = "2026-03-02T00:00:00Z"
    with pytest.raises(InvalidInput) as refused:
        parse_statement(json.dumps(payload).encode())
    assert refused.value.code == "statement_invalid"


@pytest.mark.parametrize(
    "conditions",
    [
        {"not_before": T, "not_after": T},
        {"not_before": T + DAY, "not_after": T},
        {"not_after": datetime(2026, 3, 1)},  # noqa: DTZ001 - a time without a zone
        {"refs": "refs/tags/*"},
    ],
    ids=["empty", "reversed", "no zone", "refs of a key"],
)
def test_conditions_that_a_key_cannot_have(conditions: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        KeyOwner(id=NEW.signer.id, **conditions)


@pytest.mark.parametrize("refs", ["", "a b", "a\n", "x" * 501])
def test_patterns_that_are_none(refs: str) -> None:
    with pytest.raises(ValidationError):
        CiOwner(**WORKFLOW.model_dump(), refs=refs)


def test_other_conditions_replace_those_of_an_owner(history: History) -> None:
    ends = KeyOwner(id=ADA.signer.id, not_after=T + DAY)
    after = changed(history, ends)
    assert after.owners == (ends,)
    with pytest.raises(InvalidInput) as refused:
        changed(after, ends)
    assert refused.value.code == "statement_without_effect"
    assert changed(after, owner_of(ADA.signer)).owners == (owner_of(ADA.signer),), "conditions can be lifted"


def test_one_identity_with_two_conditions_at_once(history: History) -> None:
    bounds = [KeyOwner(id=NEW.signer.id, not_after=end) for end in (T, T + DAY)]
    with pytest.raises(InvalidInput) as refused:
        changed(history, *bounds)
    assert refused.value.code == "statement_without_effect"


def test_key_outside_its_validity(history: History) -> None:
    """K11: key 1 ended at T, key 2 starts at T."""
    ended, started = KeyOwner(id=ADA.signer.id, not_after=T), KeyOwner(id=NEW.signer.id, not_before=T)
    rotated = changed(history, ended, started, at=T - DAY)
    second = timedelta(seconds=1)
    assert code(rotated, ADA.signer, T - second) == ""
    assert code(rotated, ADA.signer, T) == code(rotated, ADA.signer, T + second) == "key_outside_validity"
    assert code(rotated, NEW.signer, T - second) == "key_outside_validity"
    assert code(rotated, NEW.signer, T) == code(rotated, NEW.signer, T + second) == ""
    for signer in (ADA.signer, NEW.signer):
        assert code(rotated, signer, None) == "no_trusted_time"


def test_the_refusal_names_the_key_and_the_times(history: History) -> None:
    rotated = changed(history, KeyOwner(id=ADA.signer.id, not_before=T - DAY, not_after=T), at=T - DAY)
    with pytest.raises(IntegrityError) as refused:
        check_release_signer(rotated, ADA.signer, T + DAY)
    for part in (ADA.signer.words, "2026-03-02T00:00:00Z", "from 2026-02-28T00:00:00Z", "until 2026-03-01"):
        assert part in refused.value.message


def test_a_former_owner_is_held_to_the_conditions_too(history: History) -> None:
    """The key ended, was removed later, and its release was published in between."""
    rotated = changed(history, KeyOwner(id=ADA.signer.id, not_after=T), owner_of(NEW.signer), at=T - DAY)
    change = successor_statement(Owners(**place(rotated), remove=(ADA.signer,)))
    alone = append(rotated, NEW.signed(change), at=T + 10 * DAY)
    assert code(alone, ADA.signer, T - DAY) == ""
    assert code(alone, ADA.signer, T + DAY) == "key_outside_validity"


def test_a_removed_owner_who_comes_back_is_an_owner(history: History) -> None:
    both = changed(history, owner_of(NEW.signer))
    alone = changed(both, remove=(NEW.signer,))
    assert (alone.removed_at, code(alone, NEW.signer, T)) == ({NEW.signer.words: T}, "no_trusted_time")
    back = changed(alone, owner_of(NEW.signer), at=T + DAY)
    assert (back.removed_at, back.former, code(back, NEW.signer, None)) == ({}, {}, "")


def test_a_key_that_ended_can_say_nothing_more(history: History) -> None:
    """A stolen key that ended cannot extend a history either."""
    ending = changed(history, KeyOwner(id=ADA.signer.id, not_after=T), at=T - DAY)
    yank = ADA.signed(successor_statement(Yank(**place(ending), version="1.0.0", yanked=True)))
    assert append(ending, yank, at=T - DAY).yanked
    with pytest.raises(IntegrityError) as refused:
        append(ending, yank, at=T)
    assert refused.value.code == "key_outside_validity"
    with pytest.raises(Unverifiable) as unknown:
        append(ending, yank)
    assert unknown.value.code == "no_trusted_time"


def test_a_registry_never_stumbles_over_what_it_has_stored(history: History) -> None:
    """Its times may be rounded where they are stored; a record that cannot be folded could not be served."""
    first = ADA.signed(publish("1.0.0"))
    start = begin(first)
    ends = ADA.signed(
        successor_statement(Owners(**place(start), add=(KeyOwner(id=ADA.signer.id, not_after=T),)))
    )
    ending = append(start, ends, at=T - DAY)
    yank = ADA.signed(successor_statement(Yank(**place(ending), version="1.0.0", yanked=True)))
    assert fold([first, ends, yank], times=[T - DAY, T - DAY, T], admins=ADMITTED).yanked


@pytest.mark.parametrize(
    ("refs", "ref", "owned"),
    [
        (None, "refs/heads/main", True),
        ("refs/tags/v*", "refs/tags/v2", True),
        ("refs/tags/v*", "refs/heads/main", False),
        ("refs/tags/v*", "refs/heads/refs/tags/v1", False),
        ("refs/tags/v*", "", False),
        ("refs/tags/v?", "refs/tags/v10", False),
        ("refs/tags/[v]1", "refs/tags/v1", False),
        ("refs/tags/[v]1", "refs/tags/[v]1", True),
        ("REFS/*", "refs/tags/v1", False),
        ("*", "", True),
    ],
)
def test_refs_that_a_workflow_owns_from(history: History, refs: str | None, ref: str, owned: bool) -> None:
    after = changed(history, CiOwner(**WORKFLOW.model_dump(), refs=refs))
    signer = WORKFLOW.model_copy(update={"ref": ref})
    assert code(after, signer, None) == ("" if owned else "ref_not_allowed")


def test_release_from_a_branch_where_only_tags_may(sigstore: LocalSigstore) -> None:
    """The next tag of the workflow is the same signer; a branch of it is the same identity, and may not."""
    verifier = SigstoreVerifier(sigstore.trust_config)

    def signer(ref: str) -> AnySigner:
        return verify(
            read_envelope(sigstore.sign(publish("1.1.0").payload(), sigstore.ci_token(ref))), {}, verifier
        ).signer

    first = signer("refs/tags/v1")
    assert isinstance(first, CiSigner)
    after = changed(begin(ADA.signed(publish("1.0.0"))), CiOwner(**first.model_dump(), refs="refs/tags/v*"))
    assert code(after, signer("refs/tags/v2"), None) == ""
    assert code(after, signer("refs/heads/main"), None) == "ref_not_allowed"


def test_document_whose_owners_have_other_conditions_than_the_history() -> None:
    record = Record.begin(ADA, "1.0.0")
    record.follow(ADA, Owners(**record.place(), add=(KeyOwner(id=NEW.signer.id, not_after=T),)))
    prove_history(record.document(), record.fetch, REGISTRY)
    for conditions in ({}, {"not_after": "2026-03-02T00:00:00Z"}, {"not_before": "2026-02-01T00:00:00Z"}):
        value = record.value()
        value["owners"][1] = NEW.signer.model_dump() | conditions
        with pytest.raises(IntegrityError) as refused:
            prove_history(record.document(value), record.fetch, REGISTRY)
        assert refused.value.code == "document_contradicts_history"


def test_release_by_a_former_owner_that_the_index_dates_before_the_removal() -> None:
    record = Record.begin(ADA, "1.0.0")
    record.follow(ADA, Owners(**record.place(), add=(owner_of(NEW.signer),), remove=(ADA.signer,)))
    published = record.document().versions[0].published_at
    for removed, wanted in ((published + DAY, ""), (published, "no_trusted_time"), (None, "no_trusted_time")):
        record.times = [published, removed] if removed else []
        document = record.document()
        history = prove_history(document, record.fetch, REGISTRY)
        if wanted:
            with pytest.raises(Unverifiable) as refused:
                prove_release(document, document.versions[0], record.fetch, history)
            assert refused.value.code == wanted
        else:
            proved = prove_release(document, document.versions[0], record.fetch, history)
            assert (proved.published_at, proved.signed_at, proved.provenance) == (published, None, None)
