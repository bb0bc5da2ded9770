"""One attack, one test, at both doors: the registry refuses it, and a person refuses it where it is served anyway.

"Anyway" is the worst registry there is: it has all online keys, and asks for no rule.
"""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.attacked import Person
from tests.support.local_sigstore import LocalSigstore
from tests.support.publisher import (
    Author,
    Key,
    b64,
    canonical,
    digest_of,
    plugin,
    publish_statement,
)
from tests.support.registries import RegistryProcess, running
from tests.support.stolen_keys import StolenKeys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.publisher import Answer

NUMBERS = count(1)
OTHER_REGISTRY = "urn:uuid:00000000-0000-4000-8000-00000000000f"
LONG_AGO, NEVER = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def trust_config(sigstore: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trust") / "trust.json"
    path.write_bytes(sigstore.trust_config())
    return path


@pytest.fixture(scope="module")
def registry(trust_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(trust_config)}
    with running(tmp_path_factory.mktemp("registry") / "data", environment=settings) as process:
        yield process


@pytest.fixture(scope="module")
def foreign(sigstore: LocalSigstore) -> Iterator[LocalSigstore]:
    """Another instance, for which the same identity provider vouches."""
    with LocalSigstore(issuer=sigstore.issuer).serving() as instance:
        yield instance


@dataclass
class Case:
    """One plugin name, its author, a stranger, a thief of the registry's keys and somebody who installs."""

    registry: RegistryProcess
    sigstore: LocalSigstore
    person: Person
    name: str = field(default_factory=lambda: f"victim{next(NUMBERS)}")

    def __post_init__(self) -> None:
        self.author = Author(self.registry.url, self.registry.id)
        self.stranger = Author(self.registry.url, self.registry.id)
        self.thief = StolenKeys(self.registry.data)

    # honest people

    def publish(self, version: str = "1.0.0", author: Author | None = None) -> None:
        answer = (author or self.author).publish(plugin(self.name, version), self.name, version)
        assert answer.status == 201, answer

    def certified(
        self, version: str = "1.0.0", token: str = "", by: LocalSigstore | None = None
    ) -> dict[str, Any]:
        """A statement by a CI workflow."""
        content = plugin(self.name, version)
        statement = canonical(publish_statement(self.registry.id, self.name, version, content))
        signer = by or self.sigstore
        return signer.sign(statement, token or signer.ci_token())

    def publish_certified(self, version: str = "1.0.0") -> None:
        content = plugin(self.name, version)
        begun = self.author.post("v1/publish", {"statement": self.certified(version), "size": len(content)})
        assert self.author.finish(begun, content).status == 201

    def install(self, *words: str) -> Any:
        return self.person.run("install", self.name, *words, "--registry", self.registry.url)

    def forget(self) -> None:
        """Let the person have seen nothing yet."""
        shutil.rmtree(self.person.home, ignore_errors=True)

    # the two doors

    def offer(self, envelope: dict[str, Any], key: Key | None = None, version: str = "1.1.0") -> Answer:
        """Offer a statement to the registry as it is."""
        body = {"statement": envelope, "size": len(plugin(self.name, version))}
        return self.author.post("v1/publish", body | ({"public_key": b64(key.spki)} if key else {}))

    def serve(
        self,
        envelope: dict[str, Any],
        signer: dict[str, Any],
        *,
        key: Key | None = None,
        version: str = "1.1.0",
        **facts: Any,
    ) -> None:
        """Write a release into the store and the index, as the registry would if it took it."""
        content = plugin(self.name, version)
        (self.registry.objects / f"blobs/sha256/{digest_of(content)[7:]}").write_bytes(content)
        digest = self.thief.keep(canonical(envelope))

        def change(document: dict[str, Any]) -> None:
            row = {"signer": signer} | ({"public_key": b64(key.spki)} if key else {})
            if row not in document["signers"]:
                document["signers"].append(row)
            release = {
                **document["versions"][-1],
                "version": version,
                "digest": digest_of(content),
                "size": len(content),
                "signer": document["signers"].index(row),
                "attestations": [digest],
            }
            document["versions"].append(release | facts)

        self.thief.change(self.name, change)

    def follow(self, envelope: dict[str, Any], change: Any, *, key: Key | None = None) -> None:
        """Append a statement to the history that is served; `change` makes the document agree with it."""
        digest = self.thief.keep(canonical(envelope))

        def appended(document: dict[str, Any]) -> None:
            document["history"].append(digest)
            if document.get("history_times"):
                document["history_times"].append(document["history_times"][-1])
            row = {"signer": key.identity, "public_key": b64(key.spki)} if key else None
            if row and row not in document["signers"]:
                document["signers"].append(row)
            change(document)

        self.thief.change(self.name, appended)

    def refused(self, exits: int, code: str, *words: str) -> str:
        """The person installs, and nothing is installed; returns the sentence."""
        before = self.person.installed()
        command = words or ("install", self.name)
        found, problem = self.person.fails(*command, "--registry", self.registry.url)
        assert (found, problem["code"]) == (exits, code), problem
        assert self.person.installed() == before
        return f"{problem['detail']} {problem.get('hint', '')}"


@pytest.fixture
def case(registry: RegistryProcess, sigstore: LocalSigstore, trust_config: Path, tmp_path: Path) -> Case:
    person = Person(tmp_path / "person", {"PLUGREG_TRUST_CONFIG": str(trust_config)})
    person.folder.mkdir()
    return Case(registry, sigstore, person)


def ci_signer(case: Case, **other: str) -> dict[str, Any]:
    """The signer as a document names it."""
    known = {
        "kind": "ci",
        "issuer": case.sigstore.issuer,
        "repository_id": "1001",
        "owner_id": "2002",
        "workflow": ".ci/publish.yml",
        "repository": "https://ci.example/acme/demo",
        "ref": "refs/tags/v1",
    }
    return known | other


def statement_of(envelope: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(base64.b64decode(envelope["dsseEnvelope"]["payload"]))
    return said


def test_the_thief_of_these_tests_serves_well(case: Case) -> None:
    """The counter-test: what an owner signed goes through at both doors."""
    case.publish()
    statement = publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = case.author.key.envelope(statement)
    assert case.offer(envelope, case.author.key).status == 202
    case.serve(envelope, case.author.key.identity, key=case.author.key)
    (row,) = case.install()["installed"]
    assert row["version"] == "1.1.0"


# --- another thing ---------------------------------------------------------------------------------------------------


def test_other_artifact(case: Case) -> None:
    """Genuine statement, other bytes."""
    bundle = plugin(case.name)
    begun = case.author.begin(bundle, case.name)
    other = bytes(len(bundle))
    refused = case.author.finish(begun, other)
    assert (refused.status, refused.code) == (422, "digest_mismatch")
    case.publish()
    (case.registry.objects / f"blobs/sha256/{digest_of(bundle)[7:]}").write_bytes(other)
    case.refused(4, "digest_mismatch")


def test_t24_k5_relabelled_version(case: Case) -> None:
    """1.0.0's statement and bytes as 2.0.0."""
    case.publish()
    bundle = plugin(case.name)
    statement = publish_statement(case.registry.id, case.name, "2.0.0", bundle)
    begun = case.author.begin_with(case.author.key.envelope(statement), bundle)
    assert case.author.finish(begun, bundle).code == "statement_mismatch"

    def change(document: dict[str, Any]) -> None:
        document["versions"].append({**document["versions"][0], "version": "2.0.0"})

    case.thief.change(case.name, change)
    said = case.refused(4, "release_mismatch")
    assert "2.0.0" in said
    assert "1.0.0" in said


def test_t24_k5_relabelled_plugin(case: Case) -> None:
    """1.0.0's statement and bytes as another plugin, newly and beside a genuine one."""
    case.publish()
    bundle = plugin(case.name)
    statement = publish_statement(case.registry.id, f"{case.name}-x", "1.0.0", bundle)
    begun = case.author.begin_with(case.author.key.envelope(statement), bundle)
    assert case.author.finish(begun, bundle).code == "statement_mismatch"
    genuine, document = case.name, case.thief.document(case.name)
    case.name = f"{genuine}-y"
    case.thief.serve(case.name, canonical(document | {"name": case.name}))
    case.refused(4, "document_contradicts_history")
    case.publish("0.1.0")
    row = document["versions"][0] | {"version": "9.0.0"}
    case.thief.change(case.name, lambda theirs: theirs["versions"].append(row))
    case.refused(4, "release_mismatch")


def test_statement_for_another_registry(case: Case) -> None:
    case.publish()
    statement = publish_statement(OTHER_REGISTRY, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = case.author.key.envelope(statement)
    answer = case.offer(envelope, case.author.key)
    assert (answer.status, answer.code) == (422, "registry_mismatch")
    case.serve(envelope, case.author.key.identity, key=case.author.key)
    case.refused(4, "registry_mismatch")


def test_t24_k7_unsigned_successor(case: Case) -> None:
    """1.0.0 is signed, 1.0.1 is not: refused for newcomers and for who has 1.0.0."""
    case.publish()
    case.install()
    nothing = case.author.post("v1/publish", {"size": 1, "public_key": ""})
    assert (nothing.status, nothing.code) == (422, "request_invalid")
    unsigned = case.author.key.envelope(
        publish_statement(case.registry.id, case.name, "1.0.1", plugin(case.name, "1.0.1"))
    )
    unsigned["dsseEnvelope"]["signatures"] = []
    assert case.offer(unsigned, case.author.key).status == 422

    def change(document: dict[str, Any]) -> None:
        document["versions"].append({**document["versions"][0], "version": "1.0.1", "attestations": []})

    case.thief.change(case.name, change)
    case.refused(6, "unsigned", "update")
    case.refused(6, "unsigned", "update", "--yes")
    case.person.run("uninstall", case.name)
    case.refused(6, "unsigned")


def test_unsigned_envelope_served_anyway(case: Case) -> None:
    case.publish()
    envelope = case.author.key.envelope(
        publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    )
    envelope["dsseEnvelope"]["signatures"][0]["sig"] = ""
    assert case.offer(envelope, case.author.key).status == 422
    case.serve(envelope, case.author.key.identity, key=case.author.key)
    case.refused(4, "signature_invalid")


# --- somebody else ---------------------------------------------------------------------------------------------------


def test_t24_k6_other_identity_with_a_key(case: Case) -> None:
    case.publish()
    statement = publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = case.stranger.key.envelope(statement)
    answer = case.offer(envelope, case.stranger.key)
    assert (answer.status, answer.code) == (403, "not_owner")
    case.serve(envelope, case.stranger.key.identity, key=case.stranger.key)
    case.refused(4, "signer_not_owner")


@pytest.mark.parametrize(
    ("claims", "signer"),
    [
        ({"repository_id": "1002"}, {"repository_id": "1002"}),
        ({"repository_owner_id": "2003"}, {"owner_id": "2003"}),
        ({"workflow_ref": "acme/demo/.ci/other.yml@refs/tags/v1"}, {"workflow": ".ci/other.yml"}),
    ],
    ids=["other repository id", "other owner id", "other workflow"],
)
def test_other_identity_of_the_same_certificate_authority(
    case: Case, claims: dict[str, str], signer: dict[str, str]
) -> None:
    case.publish_certified()
    envelope = case.certified("1.1.0", case.sigstore.ci_token(**claims))
    answer = case.offer(envelope)
    assert (answer.status, answer.code) == (403, "not_owner")
    case.serve(envelope, ci_signer(case, **signer))
    case.refused(4, "signer_not_owner")


def test_key_that_calls_itself_like_the_owners(case: Case) -> None:
    """The owner's key id with the stranger's public key beside it."""
    case.publish()
    statement = publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = case.stranger.key.envelope(statement)
    envelope["verificationMaterial"]["publicKey"] = {"hint": b64(bytes.fromhex(case.author.key.id[7:]))}
    answer = case.offer(envelope, case.stranger.key)
    assert (answer.status, answer.code) == (422, "public_key_mismatch")
    case.serve(envelope, case.author.key.identity, key=case.author.key)
    case.refused(4, "signature_invalid")
    case.thief.change(
        case.name, lambda document: document["signers"][0].update(public_key=b64(case.stranger.key.spki))
    )
    case.refused(4, "public_key_mismatch")


def test_certificate_bundle_on_a_key_name(case: Case) -> None:
    case.publish()
    envelope = case.certified("1.1.0")
    assert case.offer(envelope).code == "not_owner"
    case.serve(envelope, ci_signer(case))
    case.refused(4, "signer_not_owner")


def test_certificate_bundle_under_the_signer_of_a_key(case: Case) -> None:
    """The document says that the key signed; the bundle brings a certificate. The bundle does not choose."""
    case.publish()
    case.serve(case.certified("1.1.0"), case.author.key.identity, key=case.author.key)
    case.refused(4, "release_mismatch")


def test_key_bundle_on_a_certificate_name(case: Case) -> None:
    case.publish_certified()
    statement = publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = case.author.key.envelope(statement)
    assert case.offer(envelope, case.author.key).code == "not_owner"
    case.serve(envelope, case.author.key.identity, key=case.author.key)
    case.refused(4, "signer_not_owner")


def test_foreign_instance_with_equal_claims(case: Case, foreign: LocalSigstore) -> None:
    case.publish_certified()
    envelope = case.certified("1.1.0", by=foreign)
    answer = case.offer(envelope)
    assert (answer.status, answer.code) == (422, "trust_material_missing")
    case.serve(envelope, ci_signer(case))
    case.refused(7, "trust_material_missing")


def test_two_strangers_race_for_one_free_name(case: Case) -> None:
    """One wins. A registry that shows each of them his own name is found out by who has seen the other."""
    two = [plugin(case.name, mark=mark) for mark in ("one", "two")]
    begun = [person.begin(bundle, case.name) for person, bundle in zip(
        (case.author, case.stranger), two, strict=True
    )]  # fmt: skip
    answers = [
        person.finish(answer, bundle)
        for person, answer, bundle in zip((case.author, case.stranger), begun, two, strict=True)
    ]
    assert [answer.status for answer in answers] == [201, 409]
    case.install()
    envelope = case.stranger.key.envelope(publish_statement(case.registry.id, case.name, "1.0.0", two[1]))
    (case.registry.objects / f"blobs/sha256/{digest_of(two[1])[7:]}").write_bytes(two[1])
    digest = case.thief.keep(canonical(envelope))
    document = case.thief.document(case.name)
    document["history"] = [digest]
    document["owners"] = [case.stranger.key.identity]
    document["signers"] = [{"signer": case.stranger.key.identity, "public_key": b64(case.stranger.key.spki)}]
    document["versions"][0] |= {
        "digest": digest_of(two[1]),
        "size": len(two[1]),
        "signer": 0,
        "attestations": [digest],
    }
    case.thief.serve(case.name, canonical(document))
    case.refused(4, "history_forked", "update")
    case.refused(4, "history_forked", "update", "--accept-signer", f"key:{case.stranger.key.id}")


# --- time ------------------------------------------------------------------------------------------------------------


def test_time_removed(case: Case) -> None:
    case.publish_certified()
    envelope = case.certified("1.1.0")
    del envelope["verificationMaterial"]["timestampVerificationData"]
    answer = case.offer(envelope)
    assert (answer.status, answer.code) == (422, "no_trusted_time")
    case.serve(envelope, ci_signer(case))
    case.refused(7, "no_trusted_time")


@pytest.mark.parametrize("limits", [{"not_after": LONG_AGO}, {"not_before": NEVER}], ids=["ended", "to come"])
def test_key_outside_its_validity(case: Case, limits: dict[str, str]) -> None:
    case.publish()
    helper = case.stranger.key
    assert case.author.state("owners", case.name, add=[helper.identity | limits]).status == 201
    statement = publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = helper.envelope(statement)
    answer = case.offer(envelope, helper)
    assert (answer.status, answer.code) == (422, "key_outside_validity")
    case.serve(envelope, helper.identity, key=helper)
    case.refused(4, "key_outside_validity")


def test_statement_by_a_key_outside_its_validity(case: Case) -> None:
    """It may not publish, and it may not withdraw either."""
    case.publish()
    helper = case.stranger
    limits = {"not_after": LONG_AGO}
    assert case.author.state("owners", case.name, add=[helper.key.identity | limits]).status == 201
    answer = helper.state("yank", case.name, version="1.0.0", yanked=True, reason="mine")
    assert (answer.status, answer.code) == (422, "key_outside_validity")
    history = case.thief.document(case.name)["history"]
    body = helper.successor(
        "yank", case.name, len(history), history[-1], version="1.0.0", yanked=True, reason="mine"
    )
    case.follow(
        body["statement"],
        lambda document: document["versions"][0].update(yanked=True, reason="mine"),
        key=helper.key,
    )
    case.refused(4, "key_outside_validity")


def test_release_from_a_ref_that_the_owners_do_not_allow(case: Case) -> None:
    """A branch of the right repository, where only tags may publish."""
    case.publish()
    pattern = ci_signer(case) | {"refs": "refs/tags/v*"}
    assert case.author.state("owners", case.name, add=[pattern]).status == 201
    envelope = case.certified("1.1.0", case.sigstore.ci_token("refs/heads/main"))
    answer = case.offer(envelope)
    assert answer.code == "ref_not_allowed"
    case.serve(envelope, ci_signer(case, ref="refs/heads/main"))
    case.refused(4, "ref_not_allowed")
    good = case.certified("1.1.0", case.sigstore.ci_token("refs/tags/v7"))
    assert case.offer(good).status == 202


def test_former_owner_publishes(case: Case) -> None:
    case.publish()
    helper = case.stranger
    assert case.author.state("owners", case.name, add=[helper.key.identity]).status == 201
    assert case.author.state("owners", case.name, remove=[helper.key.identity]).status == 201
    statement = publish_statement(case.registry.id, case.name, "1.1.0", plugin(case.name, "1.1.0"))
    envelope = helper.key.envelope(statement)
    answer = case.offer(envelope, helper.key)
    assert (answer.status, answer.code) == (403, "not_owner")
    case.serve(envelope, helper.key.identity, key=helper.key, published_at=NEVER)
    case.refused(7, "no_trusted_time")


# --- histories -------------------------------------------------------------------------------------------------------


def test_replayed_yank(case: Case) -> None:
    """A yank that was taken back is put back with the old statement."""
    case.publish()
    first = case.thief.document(case.name)["history"][-1]
    body = case.author.successor("yank", case.name, 1, first, version="1.0.0", yanked=True, reason="mistake")
    assert case.author.post("v1/statements", body).status == 201
    assert case.author.state("yank", case.name, version="1.0.0", yanked=False).status == 201
    again = case.author.post("v1/statements", body)
    assert (again.status, again.json()["already"]) == (200, True)
    assert case.thief.document(case.name)["versions"][0]["yanked"] is False
    case.install()
    case.follow(
        body["statement"],
        lambda document: document["versions"][0].update(yanked=True, reason="mistake"),
    )
    case.refused(4, "history_forked", "update")
    case.person.run("uninstall", case.name)
    case.refused(4, "history_forked")


def test_forked_history(case: Case) -> None:
    """The owner signs two statements after the same one; each person sees one of them."""
    case.publish()
    first = case.thief.document(case.name)["history"][-1]
    before = case.thief.document(case.name)
    won = case.author.successor("status", case.name, 1, first, state="deprecated", reason="old")
    lost = case.author.successor("yank", case.name, 1, first, version="1.0.0", yanked=True, reason="x")
    assert case.author.post("v1/statements", won).status == 201
    late = case.author.post("v1/statements", lost)
    assert (late.status, late.code) == (409, "history_moved")
    case.install()
    case.thief.serve(case.name, canonical(before))
    case.refused(4, "history_forked", "update")
    case.follow(lost["statement"], lambda document: document["versions"][0].update(yanked=True, reason="x"))
    case.refused(4, "history_forked", "update")


def test_document_that_hides_a_yank(case: Case) -> None:
    """Un-yanking takes a statement of an owner; hiding one takes a person who has not seen it."""
    case.publish()
    assert case.author.state("yank", case.name, version="1.0.0", yanked=True, reason="x").status == 201
    case.person.run("install", f"{case.name}@1.0.0", "--registry", case.registry.url)

    def unyank(document: dict[str, Any]) -> None:
        document["versions"][0].update(yanked=False, reason="")

    case.thief.change(case.name, unyank)
    case.refused(4, "document_contradicts_history", "update")

    def hide(document: dict[str, Any]) -> None:
        document["history"].pop()
        document["history_times"].pop()

    case.thief.change(case.name, hide)
    case.refused(4, "history_forked", "update")


def test_dropped_attestation(case: Case) -> None:
    """Every statement of the document, one by one."""
    case.publish()
    assert case.author.state("yank", case.name, version="1.0.0", yanked=True, reason="x").status == 201
    case.publish("1.1.0")
    document = case.thief.document(case.name)
    wanted = {*document["history"], *document["versions"][-1]["attestations"]}
    for digest in wanted:
        path = case.registry.objects / f"attestations/sha256/{digest[7:]}.json"
        kept = path.read_bytes()
        path.unlink()
        case.forget()  # what was seen once is kept here
        case.refused(7, "attestation_missing")
        path.write_bytes(kept)
    case.install()


def test_stranger_sets_what_only_administrators_set(case: Case) -> None:
    """Not the owner either."""
    case.publish()
    for person, codes in ((case.author, {"admin_only"}), (case.stranger, {"admin_only", "not_owner"})):
        answer = person.state("status", case.name, state="quarantined", reason="x")
        assert answer.status == 403
        assert answer.code in codes
    first = case.thief.document(case.name)["history"][-1]
    body = case.author.successor("status", case.name, 1, first, state="quarantined", reason="x")
    case.follow(
        body["statement"],
        lambda document: document["status"].update(state="quarantined", reason="x"),
    )
    case.refused(4, "history_invalid")


# --- trust pieces ----------------------------------------------------------------------------------------------------

PARTS = {
    "certificateAuthorities": "certificate authority",
    "ctlogs": "certificate transparency log",
    "tlogs": "transparency log",
    "timestampAuthorities": "timestamp authority",
}


@pytest.mark.parametrize("part", PARTS)
def test_k4_each_trust_piece_missing_here_is_named(case: Case, part: str) -> None:
    """The person's own configuration lacks a piece: not forged, and the sentence says which piece."""
    case.publish_certified()
    config = json.loads(case.sigstore.trust_config())
    config["trustedRoot"][part] = []
    path = case.person.folder / "trust.json"
    path.write_text(json.dumps(config))
    case.person.environment["PLUGREG_TRUST_CONFIG"] = str(path)
    assert PARTS[part] in case.refused(7, "trust_material_missing")


@pytest.mark.parametrize("part", PARTS)
def test_k4_each_trust_piece_missing_at_the_registry_is_named(
    sigstore: LocalSigstore, tmp_path: Path, part: str
) -> None:
    config = json.loads(sigstore.trust_config())
    config["trustedRoot"][part] = []
    path = tmp_path / "trust.json"
    path.write_text(json.dumps(config))
    with running(tmp_path / "data", environment={"PLUGREG_REGISTRY_TRUST_CONFIG": str(path)}) as registry:
        case = Case(registry, sigstore, Person(tmp_path / "person"))
        answer = case.offer(case.certified("1.1.0"))
        assert (answer.status, answer.code) == (422, "trust_material_missing")
        assert answer.json()["missing"] == PARTS[part]
        assert PARTS[part] in answer.json()["detail"]
