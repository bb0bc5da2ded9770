"""The three steps of a publish against a real registry process, and what it refuses."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.api import PluginDocument, Problem, PublishSession, Receipt
from plugreg_schemas.trust.proof import prove_history, prove_release
from tests.support import hostile_bundles
from tests.support.postgres import NEWEST
from tests.support.publisher import (
    Author,
    Key,
    ask,
    b64,
    bundle_of,
    canonical,
    digest_of,
    plugin,
    plugin_files,
    publish_statement,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg_schemas.names import Digest
    from tests.support.publisher import Answer
    from tests.support.registries import RegistryProcess

DATABASES = ("sqlite", NEWEST)


def problem(answer: Answer, status: int, code: str) -> dict[str, Any]:
    """The body of a refusal, which must be a problem document with this status and code."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    found = Problem.model_validate_json(answer.body)
    assert (found.status, found.code) == (status, code), answer
    assert found.request_id
    return dict(answer.json())


def test_a_publish_is_readable_by_everyone_and_provable_when_it_answers_201(
    author: Author, name: str
) -> None:
    bundle = plugin(name)
    begun = author.begin(bundle, name)
    session = PublishSession.model_validate(begun.json())
    assert (begun.status, session.offset) == (202, 0)
    answer = author.finish(begun, bundle)
    receipt = Receipt.model_validate_json(answer.body)
    assert (answer.status, receipt.digest, receipt.already) == (201, digest_of(bundle), False)
    document = PluginDocument.model_validate(author.document(name))

    def fetch(digest: Digest) -> bytes:
        return ask(author.at(f"attestations/sha256/{digest.hex}.json")).body

    history = prove_history(document, fetch, author.registry)
    proved = prove_release(document, document.versions[0], fetch, history)
    assert (proved.name, proved.version, proved.digest) == (name, "1.0.0", digest_of(bundle))
    assert ask(author.at(f"blobs/sha256/{proved.digest.hex}")).body == bundle
    assert document.versions[0].components[0].runtimes == ("mcp_stdio",)
    assert document.versions[0].launchers == ("python3",)


def test_an_ecdsa_key_publishes_too(registry: RegistryProcess, name: str) -> None:
    author = Author(registry.url, registry.id, Key.ecdsa())
    assert author.publish(plugin(name), name).status == 201


def test_t01_a1_i2_other_bytes_for_a_version_change_nothing(
    author: Author, name: str, stored: Callable[[], set[str]]
) -> None:
    first, second = plugin(name, mark="A"), plugin(name, mark="B")
    assert author.publish(first, name).status == 201
    before, objects = author.document(name), stored()
    refused = problem(author.publish(second, name), 409, "version_exists")
    assert (refused["digest"], refused["version"], refused["yanked"]) == (digest_of(first), "1.0.0", False)
    assert refused["published_at"]
    assert author.document(name) == before
    assert stored() == objects
    assert ask(author.at(f"blobs/sha256/{digest_of(second)[7:]}")).status == 404


def test_i8_publishing_again_after_a_lost_answer_is_confirmed(author: Author, name: str) -> None:
    bundle = plugin(name)
    assert author.publish(bundle, name).status == 201
    again = author.publish(bundle, name)
    assert (again.status, again.json()["already"], again.json()["digest"]) == (200, True, digest_of(bundle))


def test_i8_committing_again_is_confirmed(author: Author, name: str) -> None:
    bundle = plugin(name)
    begun = author.begin(bundle, name)
    assert author.finish(begun, bundle).status == 201
    again = author.commit(begun.json())
    assert (again.status, again.json()["already"]) == (200, True)


def test_i1_a_yanked_version_is_explained_and_stays_taken(author: Author, name: str) -> None:
    bundle = plugin(name, mark="A")
    assert author.publish(bundle, name).status == 201
    assert author.state("yank", name, version="1.0.0", yanked=True, reason="leaks memory").status == 201
    shown = ask(author.at(f"v1/plugins/{name}/1.0.0"))
    assert (shown.status, shown.json()["yanked"], shown.json()["reason"]) == (200, True, "leaks memory")
    refused = problem(author.publish(plugin(name, mark="B"), name), 409, "version_exists")
    assert (refused["yanked"], refused["digest"]) == (True, digest_of(bundle))
    assert "yanked" in refused["detail"]


def test_i4_names_that_are_none(author: Author, stored: Callable[[], set[str]]) -> None:
    before = stored()
    names = [
        "My-Plugin",
        "-a",
        "a-",
        "a--b",
        "a..b",
        "a" * 65,
        "a/b",
        "a%2fb",
        "\uff41",
        "demo\n",
        "",
        "con",
        "nul.x",
        "latest",
    ]
    for bad in names:
        answer = author.begin(plugin(), bad)
        found = problem(answer, 422, "statement_invalid")
        assert found["errors"][0]["pointer"] == "/plugin", bad
    assert stored() == before


def test_i7_a_version_that_is_not_there_yet_is_kept_by_no_cache(author: Author, name: str) -> None:
    places = [f"index/plugins/{name}.json", f"v1/plugins/{name}", f"v1/plugins/{name}/1.0.0"]
    for place in places:
        answer = ask(author.at(place))
        assert (answer.status, answer.headers["cache-control"]) == (404, "no-store")
    assert author.publish(plugin(name), name).status == 201
    for place in places:
        assert ask(author.at(place)).status == 200


def test_a_version_that_differs_only_in_build_metadata(author: Author, name: str) -> None:
    assert author.publish(plugin(name, "1.0.0"), name).status == 201
    answer = author.publish(plugin(name, "1.0.0+linux"), name, "1.0.0+linux")
    problem(answer, 409, "version_differs_in_build")


def test_a_manifest_without_a_version_gets_the_statements(author: Author, name: str) -> None:
    bundle = bundle_of(plugin_files(name, None))
    assert author.publish(bundle, name, "2.1.0").status == 201
    assert author.document(name)["versions"][0]["version"] == "2.1.0"


def test_x9_a_lookalike_of_a_name(author: Author, stranger: Author, name: str) -> None:
    one, other = f"acme.{name}", f"acme-{name}"
    assert author.publish(plugin(one), one).status == 201
    for somebody in (author, stranger):
        refused = problem(somebody.publish(plugin(other), other), 409, "name_lookalike")
        assert refused["name"] == one


def test_x9_a_lookalike_that_comes_while_the_other_is_uploaded(
    author: Author, stranger: Author, name: str
) -> None:
    one, other = f"twin.{name}", f"twin-{name}"
    first, second = author.begin(plugin(one), one), stranger.begin(plugin(other), other)
    assert author.finish(first, plugin(one)).status == 201
    problem(stranger.finish(second, plugin(other)), 409, "name_lookalike")


def test_a_stranger_may_not_publish_a_new_version(author: Author, stranger: Author, name: str) -> None:
    assert author.publish(plugin(name), name).status == 201
    problem(stranger.publish(plugin(name, "1.0.1"), name, "1.0.1"), 403, "not_owner")


def test_two_strangers_race_for_one_free_name_fifty_times(
    author: Author, stranger: Author, name: str, stored: Callable[[], set[str]]
) -> None:
    with ThreadPoolExecutor(2) as both:
        for turn in range(50):
            free = f"{name}-{turn}"
            bundles = [plugin(free, mark="one"), plugin(free, mark="other")]
            begun = [author.begin(bundles[0], free), stranger.begin(bundles[1], free)]
            answers = list(both.map(lambda a, b, c: a.finish(b, c), (author, stranger), begun, bundles))
            assert sorted(answer.status for answer in answers) == [201, 409], answers
            won, lost = sorted(answers, key=lambda answer: answer.status)
            refused = problem(lost, 409, "name_taken")
            assert refused["digest"] == won.json()["digest"]
            document = author.document(free)
            assert [entry["digest"] for entry in document["versions"]] == [won.json()["digest"]]
            loser = bundles[answers.index(lost)]
            assert not any(digest_of(loser)[7:] in path for path in stored())


def test_a_stranger_who_comes_after_the_winner_has_lost_the_race_too(
    author: Author, stranger: Author, name: str
) -> None:
    assert author.publish(plugin(name, mark="one"), name).status == 201
    problem(stranger.publish(plugin(name, mark="other"), name), 409, "name_taken")


def test_a_statement_for_another_registry(author: Author, name: str, stored: Callable[[], set[str]]) -> None:
    before = stored()
    elsewhere = Author(author.url, "urn:uuid:00000000-0000-4000-8000-000000000000", author.key)
    problem(elsewhere.publish(plugin(name), name), 422, "registry_mismatch")
    assert stored() == before


def test_x8_of_a_bad_signature_and_a_bad_manifest_only_the_signature_is_told(
    author: Author, name: str
) -> None:
    bundle = bundle_of({"plugin.json": "{", "x": "y"})
    envelope = author.key.envelope(publish_statement(author.registry, name, "not a version", bundle))
    envelope["dsseEnvelope"]["signatures"][0]["sig"] = b64(bytes(64))
    problem(author.begin_with(envelope, bundle), 422, "signature_invalid")


def test_every_flipped_byte_of_an_envelope_is_refused(
    author: Author, name: str, stored: Callable[[], set[str]]
) -> None:
    before = stored()
    bundle = plugin(name)
    good = canonical(author.key.envelope(publish_statement(author.registry, name, "1.0.0", bundle)))
    head, tail = (
        b'{"public_key":"' + b64(author.key.spki).encode() + b'","size":%d,"statement":' % len(bundle),
        b"}",
    )
    for place in range(len(good)):
        flipped = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        answer = ask(author.at("v1/publish"), "POST", head + flipped + tail)
        assert 400 <= answer.status < 500, (place, answer)
        assert answer.code
    assert stored() == before
    assert ask(author.at("v1/publish"), "POST", head + good + tail).status == 202


def test_a_public_key_that_is_missing_or_another(author: Author, stranger: Author, name: str) -> None:
    bundle = plugin(name)
    envelope = author.key.envelope(publish_statement(author.registry, name, "1.0.0", bundle))
    problem(author.begin_with(envelope, bundle, public_key=""), 422, "public_key_missing")
    problem(
        author.begin_with(envelope, bundle, public_key=b64(stranger.key.spki)), 422, "public_key_mismatch"
    )
    problem(author.begin_with(envelope, bundle, public_key="AAAA"), 422, "public_key_mismatch")
    problem(author.begin_with(envelope, bundle, public_key="A"), 422, "public_key_invalid")


def test_a_certificate_that_is_none_and_a_chain_of_them(author: Author, name: str) -> None:
    envelope = author.key.envelope(publish_statement(author.registry, name, "1.0.0", plugin(name)))
    envelope["verificationMaterial"] = {"certificate": {"rawBytes": "AAAA"}, "tlogEntries": []}
    problem(author.begin_with(envelope, plugin(name)), 422, "envelope_invalid")
    envelope["verificationMaterial"] = {"x509CertificateChain": {"certificates": []}, "tlogEntries": []}
    problem(author.begin_with(envelope, plugin(name)), 422, "signature_kind")


def test_other_bytes_than_were_signed(author: Author, name: str, stored: Callable[[], set[str]]) -> None:
    before = stored()
    signed = plugin(name, mark="A")
    sent = next(other for mark in "BCDEFGHIJKLM" if len(other := plugin(name, mark=mark)) == len(signed))
    begun = author.begin(signed, name)
    problem(author.finish(begun, sent), 422, "digest_mismatch")
    assert stored() == before
    problem(author.commit(begun.json()), 404, "session_unknown")


@pytest.mark.parametrize(
    ("files", "version"),
    [(plugin_files("another"), "1.0.0"), (plugin_files("relabelled"), "1.0.1")],
    ids=["name", "version"],
)
def test_a_relabelled_bundle(
    author: Author, stored: Callable[[], set[str]], files: dict[str, bytes | str], version: str
) -> None:
    before = stored()
    problem(author.publish(bundle_of(files), "relabelled", version), 422, "statement_mismatch")
    assert stored() == before


def test_all_faults_of_a_plugin_come_at_once(
    author: Author, name: str, stored: Callable[[], set[str]]
) -> None:
    before = stored()
    servers = {
        "one": {"type": "stdio", "command": "./bin/one"},
        "two": {"type": "stdio", "command": "./bin/two"},
    }
    files = plugin_files(name)
    files["mcp.json"] = json.dumps(
        {"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": servers}
    )
    found = problem(author.publish(bundle_of(files), name), 422, "command_missing")
    assert [error["pointer"] for error in found["errors"]] == [
        "/mcpServers/one/command",
        "/mcpServers/two/command",
    ]
    assert {error["boundary"] for error in found["errors"]} == {"registry"}
    assert stored() == before


def test_d10_what_is_no_bundle(author: Author, name: str, stored: Callable[[], set[str]]) -> None:
    before = stored()
    for content in (b"hello, I am text", b"PK\x05\x06" + bytes(18), b"\x28\xb5\x2f\xfd"):
        answer = author.publish(content, name)
        assert answer.status == 422, answer
        assert answer.code.startswith("bundle_")
    assert stored() == before


@pytest.mark.parametrize("hostile", list(hostile_bundles.bad_names()), ids=lambda hostile: str(hostile.id))
def test_t09_a_bad_name_in_a_bundle(
    author: Author, stored: Callable[[], set[str]], hostile: hostile_bundles.Hostile
) -> None:
    before = stored()
    answer = author.publish(hostile.content, "demo")
    assert answer.status == 422, answer
    assert (hostile.code, hostile.path) in {(e["code"], e["file"]) for e in answer.json()["errors"]}
    assert stored() == before


def test_malformed_requests_are_the_senders_fault(author: Author, stored: Callable[[], set[str]]) -> None:
    before = stored()
    bodies = {
        "empty": b"",
        "no json": b"hello",
        "duplicate key": b'{"size":1,"size":2,"statement":{}}',
        "nan": b'{"size":NaN,"statement":{}}',
        "infinity": b'{"size":1e999,"statement":{}}',
        "huge integer": b'{"size":' + b"9" * 5000 + b',"statement":{}}',
        "surrogate": b'{"size":1,"statement":{"a":"\\ud800"}}',
        "deep": b'{"size":1,"statement":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "no utf-8": b'{"size":1,"statement":{"a":"\xff"}}',
        "utf-16": '{"size":1}'.encode("utf-16"),
        "a list": b"[]",
        "null": b"null",
        "negative": b'{"size":-1,"statement":{}}',
        "text": b'{"size":"1","statement":{}}',
        "unknown": b'{"size":1,"statement":{},"more":1}',
        "no statement": b'{"size":1}',
        "a number": b'{"size":1,"statement":7}',
    }
    for kind, body in bodies.items():
        for place in ("v1/publish", "v1/statements"):
            answer = ask(author.at(place), "POST", body)
            assert answer.status == 422, (kind, answer)
            assert Problem.model_validate_json(answer.body).errors or answer.code.startswith("envelope"), kind
    assert stored() == before


def test_statements_that_are_signed_and_senseless(author: Author, name: str) -> None:
    bundle = plugin(name)
    good = publish_statement(author.registry, name, "1.0.0", bundle)
    relabelled = good | {"subject": [{"name": "other-1.0.0.tar.zst", "digest": good["subject"][0]["digest"]}]}
    two = good | {"subject": good["subject"] * 2}
    cases: list[tuple[object, str]] = [
        (good | {"predicateType": "https://slsa.dev/provenance/v1"}, "statement_unsupported"),
        (good | {"predicate": good["predicate"] | {"version": "v1.0"}}, "statement_invalid"),
        (good | {"predicate": good["predicate"] | {"more": 1}}, "statement_invalid"),
        (good | {"_type": "other"}, "statement_invalid"),
        (two, "statement_invalid"),
        (relabelled, "statement_mismatch"),
        ([], "statement_invalid"),
    ]
    for statement, code in cases:
        problem(author.begin_with(author.key.envelope(statement), bundle), 422, code)


def test_a_statement_at_the_wrong_door(author: Author, name: str) -> None:
    bundle = plugin(name)
    assert author.publish(bundle, name).status == 201
    head = author.document(name)["history"][-1]
    yank = author.successor("yank", name, 1, head, version="1.0.0", yanked=True)
    problem(author.post("v1/publish", yank | {"size": 1}), 422, "statement_kind")
    published = author.key.envelope(publish_statement(author.registry, name, "1.0.0", bundle))
    body = {"statement": published, "public_key": b64(author.key.spki)}
    problem(author.post("v1/statements", body), 422, "statement_kind")


def test_a_bundle_that_is_announced_too_large(author: Author, name: str) -> None:
    envelope = author.key.envelope(publish_statement(author.registry, name, "1.0.0", plugin(name)))
    problem(author.begin_with(envelope, b"", size=(64 << 20) + 1), 413, "bundle_too_large")
