"""What the registry decides at its own clock, and at the proved time of a signature."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plugreg_registry.policy import Arrival, Rules, admit, with_statement
from plugreg_registry.records import Facts, PluginRecord, StoredRelease, StoredStatement
from plugreg_schemas.errors import IntegrityError
from plugreg_schemas.index import Admins
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import KeyOwner, Owners, Publish, publish_statement, successor_statement
from plugreg_schemas.trust.policy import Admission, check_release_signer
from plugreg_schemas.trust.verify import Signed
from tests.support.offers import Author

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
REGISTRY = "urn:uuid:6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


def owned(author: Author, validity: dict[str, datetime]) -> PluginRecord:
    """Return the record of `demo`, whose only owner has limited the validity of the own key."""
    first = author.sign(
        publish_statement(
            Digest.of(b"1"), registry=REGISTRY, plugin="demo", version="1.0.0", format="agent-plugins"
        )
    )
    limited = Owners(
        registry=REGISTRY,
        plugin="demo",
        revision=1,
        previous=first.digest,
        add=(KeyOwner.model_validate({"id": author.signer.id, **validity}),),
    )
    second = author.sign(successor_statement(limited))
    statements = (
        StoredStatement(envelope.digest, envelope.content, author.public, NOW - 30 * DAY)
        for envelope in (first, second)
    )
    return PluginRecord("demo", tuple(statements), ())


def arriving(author: Author, proved: datetime | None) -> Arrival:
    statement = publish_statement(
        Digest.of(b"2"), registry=REGISTRY, plugin="demo", version="2.0.0", format="agent-plugins"
    )
    envelope = author.sign(statement)
    assert isinstance(statement.predicate, Publish)
    signed = Signed(envelope.digest, statement, author.signer, author.public, time=proved)
    return Arrival(signed, statement.predicate, envelope.content)


@pytest.mark.parametrize(
    ("validity", "proved", "taken"),
    [
        ({"not_before": NOW - DAY}, None, True),
        ({"not_before": NOW - DAY}, NOW - DAY, True),
        ({"not_before": NOW - DAY}, NOW - 2 * DAY, False),
        ({"not_before": NOW - 40 * DAY, "not_after": NOW + DAY}, NOW - DAY, True),
        ({"not_before": NOW - 40 * DAY, "not_after": NOW}, NOW - DAY, False),
    ],
)
def test_a_key_must_be_valid_now_and_at_the_proved_time_of_its_signature(
    validity: dict[str, datetime],
    proved: datetime | None,
    taken: bool,
) -> None:
    author = Author()
    record = owned(author, validity)
    rules = Rules(Admission(), Admins(), NOW)
    if taken:
        admit(record, arriving(author, proved), rules)
        return
    with pytest.raises(IntegrityError, match="key_outside_validity"):
        admit(record, arriving(author, proved), rules)


@pytest.mark.parametrize("back", [timedelta(0), DAY], ids=["within the same second", "the clock went back"])
def test_an_owner_is_removed_later_than_every_release_of_theirs_came(back: timedelta) -> None:
    """Clients would refuse a release that the registry took from somebody who was an owner then."""
    author, other = Author(), Author()
    record = owned(author, {"not_before": NOW - 40 * DAY})
    release = StoredRelease(
        version="1.0.0",
        digest=Digest.of(b"1"),
        size=1,
        format="agent-plugins",
        published_at=NOW,
        attestation=Digest.of(b"1"),
        signer=author.signer,
        public_key=author.public,
        facts=Facts(),
    )
    record = replace(record, releases=(release,))
    rules = Rules(Admission(), Admins(), NOW - back)
    changes: list[dict[str, Any]] = [{"add": (KeyOwner(id=other.signer.id),)}, {"remove": (author.signer,)}]
    for change in changes:
        place = len(record.statements)
        said = Owners(
            registry=REGISTRY, plugin="demo", revision=place, previous=record.history.head, **change
        )
        envelope = author.sign(successor_statement(said))
        signed = Signed(envelope.digest, successor_statement(said), author.signer, author.public)
        record = with_statement(record, signed, said, envelope.content, rules)
    assert record.statements[-2].accepted_at == NOW - back
    assert record.statements[-1].accepted_at > NOW
    check_release_signer(record.history, author.signer, NOW)
