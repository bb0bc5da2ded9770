"""Statements: the payload says one thing, and its subject is what it speaks of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Owners, Status, Yank, owner_of, parse_statement, successor_statement
from plugreg_schemas.trust.verify import verify
from tests.support.record import REGISTRY, author, publish

if TYPE_CHECKING:
    from collections.abc import Callable

PREVIOUS = Digest.of(b"the statement before")
PLACE: dict[str, Any] = {"registry": REGISTRY, "plugin": "demo", "revision": 1, "previous": PREVIOUS}
SUCCESSORS: dict[str, Owners | Yank | Status] = {
    "owners": Owners(**PLACE, add=(owner_of(author().signer),), remove=(author().signer,)),
    "yank": Yank(**PLACE, version="1.0.0", yanked=True, reason="loses data"),
    "unyank": Yank(**PLACE, version="1.0.0", yanked=False),
    "status": Status(**PLACE, state="deprecated", reason="old", replacement="demo2"),
    "status without replacement": Status(**PLACE, state="active"),
}


def test_payload_of_a_publish_is_an_in_toto_statement_v1() -> None:
    payload = json.loads(publish("1.0.0").payload())
    assert payload == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "demo-1.0.0.tar.zst", "digest": {"sha256": Digest.of(b"the bundle of 1.0.0").hex}}
        ],
        "predicateType": "https://plugreg.dev/attestation/publish/v1",
        "predicate": {"registry": REGISTRY, "plugin": "demo", "version": "1.0.0", "format": "agent-plugins"},
    }


@pytest.mark.parametrize("name", sorted(SUCCESSORS))
def test_successors_read_back_as_they_were_made(name: str) -> None:
    statement = successor_statement(SUCCESSORS[name])
    assert parse_statement(statement.payload()) == statement
    assert statement.digest == PREVIOUS
    assert statement.subject_name == "demo"


def _payload(change: Callable[[dict[str, Any]], None], statement: bytes | None = None) -> bytes:
    value = json.loads(statement or publish("1.0.0").payload())
    change(value)
    return canonical_json(value)


def _set(path: str, new: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        place: Any = value
        for step in parents:
            place = place[int(step)] if step.isdecimal() else place[step]
        place[last] = new

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("subject/0/name", "demo-1.0.1.tar.zst"),
        _set("subject/0/name", "other-1.0.0.tar.zst"),
        _set("subject/0/name", "demo"),
        _set("predicate/version", "1.0.1"),
        _set("predicate/plugin", "other"),
    ],
    ids=["re-labelled version", "re-labelled plugin", "no file name", "other version", "other plugin"],
)
def test_subject_that_is_not_what_the_predicate_speaks_of(change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(IntegrityError) as refused:
        parse_statement(_payload(change))
    assert refused.value.code == "statement_mismatch"


@pytest.mark.parametrize("name", sorted(SUCCESSORS))
def test_successor_whose_subject_is_not_its_previous(name: str) -> None:
    payload = successor_statement(SUCCESSORS[name]).payload()
    for path, new in (("subject/0/digest/sha256", "0" * 64), ("predicate/previous", "sha256:" + "0" * 64)):
        with pytest.raises(IntegrityError) as refused:
            parse_statement(_payload(_set(path, new), payload))
        assert refused.value.code == "statement_mismatch"


SUBJECT = {"name": "demo-1.0.0.tar.zst", "digest": {"sha256": "0" * 64}}


@pytest.mark.parametrize(
    ("path", "new", "pointer"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "/_type"),
        ("type", "https://in-toto.io/Statement/v1", "/type"),
        ("subject", [], "/subject"),
        ("subject", [SUBJECT, SUBJECT], "/subject"),
        ("subject/0/digest/sha512", "0" * 128, "/subject/0/digest/sha512"),
        ("subject/0/digest/sha256", "0" * 63, "/subject/0/digest/sha256"),
        ("subject/0/digest/sha256", "A" * 64, "/subject/0/digest/sha256"),
        ("subject/0/uri", "https://example.com", "/subject/0/uri"),
        ("predicate/extra", 1, "/extra"),
        ("predicate/registry", "https://UPPER.example", "/registry"),
        ("predicate/plugin", "Demo", "/plugin"),
        ("predicate/version", "1.0", "/version"),
        ("predicate/version", 1, "/version"),
        ("predicate/format", "zip", "/format"),
        ("predicate", [], "/predicate"),
    ],
)
def test_a_statement_that_breaks_a_rule_names_the_place(path: str, new: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_statement(_payload(_set(path, new)))
    assert refused.value.code == "statement_invalid"
    assert any(finding.pointer.startswith(pointer) for finding in refused.value.findings), (
        refused.value.findings
    )


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("predicate/yanked", "yes"),
        ("predicate/yanked", 1),
        ("predicate/revision", "1"),
        ("predicate/revision", 1.0),
        ("predicate/revision", True),
        ("predicate/revision", 0),
        ("predicate/revision", -1),
        ("predicate/reason", None),
        ("predicate/reason", "x" * 501),
        ("predicate/reason", "old\n  registry   https://elsewhere.example"),
        ("predicate/reason", "\x1b[2Kgone"),
    ],
)
def test_values_are_never_converted_and_never_more_than_a_line(path: str, new: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_statement(_payload(_set(path, new), successor_statement(SUCCESSORS["yank"]).payload()))
    assert refused.value.code == "statement_invalid"
    assert refused.value.findings[0].pointer == path.removeprefix("predicate")


@pytest.mark.parametrize(
    "kind",
    [
        "publish",
        "https://plugreg.dev/attestation/publish/v2",
        "https://plugreg.dev/attestation/publish",
        "https://plugreg.dev/attestation//v1",
        "https://plugreg.dev/attestation/erase/v1",
        "https://slsa.dev/provenance/v1",
        "publish/v1",
    ],
)
def test_statement_of_a_kind_that_is_not_known(kind: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_statement(_payload(_set("predicateType", kind)))
    assert refused.value.code == "statement_unsupported"


def test_predicate_of_one_kind_under_the_name_of_another() -> None:
    payload = successor_statement(SUCCESSORS["yank"]).payload()
    with pytest.raises(InvalidInput) as refused:
        parse_statement(_payload(_set("predicateType", "https://plugreg.dev/attestation/status/v1"), payload))
    assert refused.value.code == "statement_invalid"


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", "json_invalid"),
        (b"[]", "statement_invalid"),
        (b"null", "statement_invalid"),
        (b'{"_type":"a","_type":"b"}', "json_duplicate_key"),
        (b'{"a":NaN}', "json_number"),
        (b"\xff", "text_encoding"),
    ],
)
def test_signed_bytes_that_are_no_statement(payload: bytes, code: str) -> None:
    by = author()
    with pytest.raises(InvalidInput) as refused:
        verify(by.sign_payload(payload), {by.signer.id: by.spki})
    assert refused.value.code == code


def test_every_fault_is_named_at_once() -> None:
    def change(value: dict[str, Any]) -> None:
        value["predicate"] |= {"plugin": "Demo", "version": "v1", "registry": "x"}

    with pytest.raises(InvalidInput) as refused:
        parse_statement(_payload(change))
    assert {f.pointer for f in refused.value.findings} == {"/plugin", "/version", "/registry"}
