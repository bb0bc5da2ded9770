"""A document is a claim: every attack on it that a signed statement contradicts is refused, each by its own code."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, NotAllowed, PlugregError, Unverifiable
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Owners, Status, Yank, owner_of
from plugreg_schemas.trust.envelope import encode_base64
from plugreg_schemas.trust.proof import prove_history, prove_release, read_document
from tests.support.record import ALGORITHMS, OTHER_REGISTRY, REGISTRY, Author, Record, author, bundle_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg_schemas.trust.proof import ProvedRelease


@pytest.fixture(params=ALGORITHMS)
def ada(request: pytest.FixtureRequest) -> Author:
    return author(request.param)


@pytest.fixture
def mallory() -> Author:
    return author()


@pytest.fixture
def record(ada: Author) -> Record:
    """1.0.0 yanked, 1.1.0 and 1.2.0 by a second owner; deprecated."""
    bob = author("ecdsa-p256")
    made = Record.begin(ada, "1.0.0")
    made.follow(ada, Owners(**made.place(), add=(owner_of(bob.signer),)))
    made.publish(ada, "1.1.0")
    made.publish(bob, "1.2.0")
    made.follow(bob, Yank(**made.place(), version="1.0.0", yanked=True, reason="loses data"))
    made.follow(ada, Status(**made.place(), state="deprecated", reason="old", replacement="demo2"))
    return made


def prove(
    record: Record, value: dict[str, Any] | None = None, *, head: str | None = None
) -> list[ProvedRelease]:
    """Prove everything in a document, as a client does that installs each version."""
    document = record.document(value)
    history = prove_history(document, record.fetch, REGISTRY, head)
    return [prove_release(document, entry, record.fetch, history) for entry in document.versions]


def refusal(record: Record, change: Callable[[dict[str, Any]], object]) -> PlugregError:
    value = record.value()
    change(value)
    with pytest.raises(PlugregError) as refused:
        prove(record, value)
    return refused.value


def test_an_honest_document_is_proved(record: Record, ada: Author) -> None:
    first, second, third = prove(record)
    assert (first.version, first.digest, first.signer, first.yanked) == (
        "1.0.0",
        bundle_digest("1.0.0"),
        ada.signer,
        "loses data",
    )
    assert (second.version, second.yanked, second.public_key) == ("1.1.0", None, ada.spki)
    assert third.signer != ada.signer
    assert Digest.of(third.attestation) in record.attestations


def test_relabelled_version(record: Record) -> None:
    """Genuine, signed bytes of 1.1.0 offered as 1.3.0."""
    error = refusal(record, lambda value: value["versions"][1].update(version="1.3.0"))
    assert (type(error), error.code) == (IntegrityError, "release_mismatch")


def test_old_bytes_under_a_new_version(record: Record) -> None:
    """1.2.0 in the document, with digest and statement of 1.1.0."""

    def change(value: dict[str, Any]) -> None:
        old = copy.deepcopy(value["versions"][1])
        value["versions"][2] = old | {"version": "1.2.0"}

    assert refusal(record, change).code == "release_mismatch"


def test_relabelled_plugin(record: Record) -> None:
    """The whole record of one plugin under the name of another."""
    assert refusal(record, lambda value: value.update(name="other")).code == "document_contradicts_history"


def test_release_of_another_plugin_by_the_same_owner(record: Record, ada: Author) -> None:
    stray = record.publish(ada, "1.3.0", plugin="other")
    with pytest.raises(IntegrityError) as refused:
        prove(record)
    assert refused.value.code == "release_mismatch"
    assert stray in record.attestations


def test_document_of_another_plugin(record: Record) -> None:
    with pytest.raises(IntegrityError) as refused:
        read_document(canonical_json(record.value()), "other")
    assert refused.value.code == "document_mismatch"


def test_statement_for_another_registry_in_the_history(ada: Author) -> None:
    elsewhere = Record.begin(ada, "1.0.0", registry=OTHER_REGISTRY)
    with pytest.raises(IntegrityError) as refused:
        prove(elsewhere)
    assert refused.value.code == "registry_mismatch"


def test_release_for_another_registry(record: Record, ada: Author) -> None:
    record.publish(ada, "1.3.0", registry=OTHER_REGISTRY)
    with pytest.raises(IntegrityError) as refused:
        prove(record)
    assert refused.value.code == "registry_mismatch"


def test_other_artifact(record: Record) -> None:
    error = refusal(record, lambda value: value["versions"][1].update(digest=Digest.of(b"evil")))
    assert error.code == "release_mismatch"


def test_release_by_a_stranger(record: Record, mallory: Author) -> None:
    record.publish(mallory, "1.3.0")
    with pytest.raises(IntegrityError) as refused:
        prove(record)
    assert refused.value.code == "signer_not_owner"


def test_release_by_a_stranger_under_the_owners_number(record: Record, mallory: Author) -> None:
    record.publish(mallory, "1.3.0")
    error = refusal(record, lambda value: value["versions"][3].update(signer=0))
    assert error.code == "release_mismatch"


def test_release_by_a_former_owner_cannot_be_dated(record: Record, ada: Author) -> None:
    bob = next(by for by in record.authors.values() if by != ada)
    record.follow(bob, Owners(**record.place(), remove=(ada.signer,)))
    with pytest.raises(Unverifiable) as refused:
        prove(record)
    assert refused.value.code == "no_trusted_time"


def test_stranger_written_into_the_owners(record: Record, mallory: Author) -> None:
    record.publish(mallory, "1.3.0")
    error = refusal(record, lambda value: value["owners"].append(mallory.signer.model_dump()))
    assert error.code == "document_contradicts_history"


def test_history_of_a_stranger_from_its_first_statement_on(record: Record, mallory: Author) -> None:
    """A client that pinned the name sees that the statement it knows is gone."""
    forged = Record.begin(mallory, "1.0.0")
    prove(forged)
    with pytest.raises(IntegrityError) as refused:
        prove(forged, head=record.statements[-1])
    assert refused.value.code == "history_forked"


def test_unsigned_successor(record: Record) -> None:
    error = refusal(record, lambda value: value["versions"][1].update(attestations=[]))
    assert (type(error), error.code) == (NotAllowed, "unsigned")


def test_release_shown_with_the_statement_of_a_yank(record: Record) -> None:
    error = refusal(record, lambda value: value["versions"][1].update(attestations=[record.statements[2]]))
    assert error.code == "release_mismatch"


def test_dropped_attestation(record: Record) -> None:
    for digest in list(record.attestations):
        kept = record.attestations.pop(digest)
        value = _value_with(record, digest, kept)
        with pytest.raises(Unverifiable) as refused:
            prove(record, value)
        assert refused.value.code == "attestation_missing"
        record.attestations[digest] = kept


def _value_with(record: Record, digest: str, content: bytes) -> dict[str, Any]:
    record.attestations[digest] = content
    value = record.value()
    del record.attestations[digest]
    return value


def test_altered_attestation(record: Record) -> None:
    value = record.value()
    for digest in list(record.attestations):
        kept = record.attestations[digest]
        for position in range(0, len(kept), 41):
            changed = bytearray(kept)
            changed[position] ^= 1
            record.attestations[digest] = bytes(changed)
            with pytest.raises(IntegrityError) as refused:
                prove(record, value)
            assert refused.value.code == "attestation_altered"
        record.attestations[digest] = kept


def test_attestation_of_another_statement_under_a_digest(record: Record) -> None:
    value = record.value()
    one, two, *_ = record.attestations
    record.attestations[one] = record.attestations[two]
    with pytest.raises(IntegrityError) as refused:
        prove(record, value)
    assert refused.value.code == "attestation_altered"


def test_forked_history(record: Record) -> None:
    """The newest statement that this client saw is replaced by another one."""
    seen = record.statements[-1]
    record.statements.pop()
    prove(record)
    with pytest.raises(IntegrityError) as refused:
        prove(record, head=seen)
    assert refused.value.code == "history_forked"


def test_history_may_grow_beyond_what_was_seen(record: Record, ada: Author) -> None:
    seen = record.statements[-1]
    record.follow(ada, Status(**record.place(), state="active"))
    prove(record, head=seen)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_dropped_statement(record: Record, place: int) -> None:
    assert isinstance(refusal(record, lambda value: value["history"].pop(place)), IntegrityError)


def test_hidden_newest_statement(record: Record) -> None:
    """The document still says what the hidden statement made of it."""
    assert refusal(record, lambda value: value["history"].pop()).code == "document_contradicts_history"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_reordered_statements(record: Record, place: int) -> None:
    def change(value: dict[str, Any]) -> None:
        history = value["history"]
        history[place], history[place + 1] = history[place + 1], history[place]

    assert refusal(record, change).code in {"history_forked", "history_invalid"}


def test_repeated_statement(record: Record) -> None:
    assert (
        refusal(record, lambda value: value["history"].append(value["history"][-1])).code == "history_forked"
    )


def test_second_publish_in_the_history(record: Record) -> None:
    _, _, _, attestation = record.releases[1]
    assert refusal(record, lambda value: value["history"].append(attestation)).code == "history_invalid"


def test_no_history(record: Record) -> None:
    assert refusal(record, lambda value: value.update(history=[])).code == "history_invalid"


def test_key_of_another_beside_the_owners_id(record: Record, mallory: Author) -> None:
    error = refusal(record, lambda value: value["signers"][0].update(public_key=encode_base64(mallory.spki)))
    assert (type(error), error.code) == (IntegrityError, "public_key_mismatch")


def test_owners_id_replaced_together_with_the_key(record: Record, mallory: Author) -> None:
    def change(value: dict[str, Any]) -> None:
        value["signers"][0] = {
            "signer": mallory.signer.model_dump(),
            "public_key": encode_base64(mallory.spki),
        }

    assert refusal(record, change).code == "public_key_missing"


@pytest.mark.parametrize("key", [None, "%%%", "QR=="])
def test_missing_or_unreadable_public_key(record: Record, key: str | None) -> None:
    error = refusal(record, lambda value: value["signers"][0].update(public_key=key))
    assert error.code == ("public_key_missing" if key is None else "document_invalid")


def test_version_listed_twice(record: Record) -> None:
    value = record.value()
    value["versions"].append(value["versions"][0])
    with pytest.raises(IntegrityError) as refused:
        read_document(canonical_json(value), "demo")
    assert refused.value.code == "document_invalid"


SIGNED_FIELDS: dict[str, Any] = {
    "name": "other",
    "status/state": "active",
    "status/reason": "new",
    "status/replacement": "evil",
    "history/0": Digest.of(b"x"),
    "history/3": Digest.of(b"x"),
    "owners": [],
    "owners/0/id": Digest.of(b"x"),
    "signers/0/signer/id": Digest.of(b"x"),
    "versions/0/version": "1.0.1",
    "versions/0/digest": Digest.of(b"x"),
    "versions/0/format": "keel",
    "versions/0/signer": 1,
    "versions/1/signer": 99,
    "versions/0/attestations/0": Digest.of(b"x"),
    "versions/0/yanked": False,
    "versions/0/reason": "harmless",
    "versions/1/yanked": True,
    "versions/1/reason": "rumour",
}


@pytest.mark.parametrize("path", sorted(SIGNED_FIELDS))
def test_changed_document_field_by_field(record: Record, path: str) -> None:
    def change(value: dict[str, Any]) -> None:
        *parents, last = (int(step) if step.isdecimal() else step for step in path.split("/"))
        place: Any = value
        for step in parents:
            place = place[step]
        place[last] = SIGNED_FIELDS[path]

    error = refusal(record, change)
    assert isinstance(error, IntegrityError | Unverifiable) or error.code == "document_invalid"


def test_every_field_of_a_version_is_signed_or_known_not_to_be(record: Record) -> None:
    """What no statement says: a change of it is found only by a signed index."""
    covered = {path.split("/")[2] for path in SIGNED_FIELDS if path.startswith("versions/")}
    from plugreg_schemas.api import DocumentVersion

    unsigned = {"size", "published_at", "components", "launchers", "counts"}
    unsigned |= {"capability_kind", "core_version", "offer", "platforms", "requires", "tier"}
    assert covered | unsigned == set(DocumentVersion.model_fields)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"<html>", b'{"name":"demo","name":"demo"}', b"\xff", b"[" * 100_000]
)
def test_bytes_that_are_no_document(content: bytes) -> None:
    with pytest.raises(IntegrityError):
        read_document(content, "demo")


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "2026-01-31T12:00:00", "yesterday", "", 5, None]
)
def test_times_that_are_none(record: Record, time: object) -> None:
    value = record.value()
    value["versions"][0]["published_at"] = time
    with pytest.raises(IntegrityError) as refused:
        read_document(canonical_json(value), "demo")
    assert refused.value.findings[0].pointer == "/versions/0/published_at"


def test_members_of_a_newer_registry_are_ignored(record: Record) -> None:
    value = record.value()
    value["new"] = {"x": 1}
    value["versions"][0]["new"] = 1
    prove(record, value)
