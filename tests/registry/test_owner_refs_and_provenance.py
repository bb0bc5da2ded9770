"""Releases by a CI at the door of a real registry: from which refs, and with which provenance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.registry.test_publishing_keyless import author, begin, registry, release, stored
from tests.support.publisher import Answer, Author, ask, canonical, digest_of, plugin, publish_statement

if TYPE_CHECKING:
    from tests.support.local_sigstore import LocalSigstore
    from tests.support.registries import RegistryProcess

__all__ = ["author", "registry"]  # fixtures

BUILDER = "https://ci.example/acme/demo/.ci/publish.yml"


def change_owners(author: Author, by: LocalSigstore, name: str, **predicate: object) -> Answer:
    """Send an owners statement that the CI signs."""
    history = author.document(name)["history"]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": history[-1][7:]}}],
        "predicateType": "https://plugreg.dev/attestation/owners/v1",
        "predicate": {
            "registry": author.registry,
            "plugin": name,
            "revision": len(history),
            "previous": history[-1],
            **predicate,
        },
    }
    return author.post("v1/statements", {"statement": by.sign(canonical(statement), by.ci_token())})


def workflow(by: LocalSigstore) -> dict[str, str]:
    return {
        "kind": "ci",
        "issuer": by.issuer,
        "repository_id": "1001",
        "owner_id": "2002",
        "workflow": ".ci/publish.yml",
    }


def test_the_next_tag_of_the_same_workflow_is_the_same_owner(author: Author, sigstore: LocalSigstore) -> None:
    release(author, sigstore, "tagged")
    token = sigstore.ci_token("refs/tags/v2")
    assert release(author, sigstore, "tagged", "1.1.0", token).status == 201
    assert len(author.document("tagged")["owners"]) == 1


def test_a_repository_made_anew_under_the_same_name_is_another(
    author: Author, sigstore: LocalSigstore
) -> None:
    """The name of the repository is the same, its number is not."""
    release(author, sigstore, "recreated")
    token = sigstore.ci_token(repository_id="9009")
    assert json.dumps(sigstore.claims(token)).count("acme/demo")
    assert begin(author, sigstore, "recreated", "1.1.0", token).code == "not_owner"


def test_a_renamed_organisation_stays_the_owner(author: Author, sigstore: LocalSigstore) -> None:
    release(author, sigstore, "renamed")
    token = sigstore.ci_token(
        repository="acme-new/demo", workflow_ref="acme-new/demo/.ci/publish.yml@refs/tags/v1"
    )
    assert release(author, sigstore, "renamed", "1.1.0", token).status == 201
    assert author.document("renamed")["history"] == author.document("renamed")["history"][:1]


def test_a_ref_that_an_owner_did_not_allow_is_refused_before_the_upload(
    registry: RegistryProcess, author: Author, sigstore: LocalSigstore
) -> None:
    release(author, sigstore, "tags-only")
    answer = change_owners(author, sigstore, "tags-only", add=[workflow(sigstore) | {"refs": "refs/tags/v*"}])
    assert answer.status == 201, answer
    assert author.document("tags-only")["owners"][0]["refs"] == "refs/tags/v*"
    before = stored(registry)
    branch = sigstore.ci_token("refs/heads/main")
    answer = begin(author, sigstore, "tags-only", "1.1.0", branch)
    assert (answer.status, answer.code) == (422, "ref_not_allowed")
    assert stored(registry) == before
    tag = sigstore.ci_token("refs/tags/v7")
    assert release(author, sigstore, "tags-only", "1.1.0", tag).status == 201


def provenance(by: LocalSigstore, content: bytes, token: str = "") -> dict[str, Any]:
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://slsa.dev/provenance/v1",
        "subject": [{"name": "bundle", "digest": {"sha256": digest_of(content)[7:]}}],
        "predicate": {
            "buildDefinition": {
                "buildType": "https://ci.example/workflow/v1",
                "resolvedDependencies": [{"digest": {"gitCommit": "c0ffee"}}],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }
    return by.sign(canonical(statement), token or by.ci_token())


def begin_with(author: Author, by: LocalSigstore, name: str, built: dict[str, Any]) -> Answer:
    content = plugin(name)
    statement = by.sign(canonical(publish_statement(author.registry, name, "1.0.0", content)), by.ci_token())
    return author.post("v1/publish", {"statement": statement, "size": len(content), "provenance": built})


def test_provenance_is_the_second_attestation_of_its_release(author: Author, sigstore: LocalSigstore) -> None:
    content = plugin("built")
    answer = author.finish(begin_with(author, sigstore, "built", provenance(sigstore, content)), content)
    assert answer.status == 201, answer
    (entry,) = author.document("built")["versions"]
    first, second = entry["attestations"]
    assert first == answer.json()["attestation"]
    served = ask(author.at(f"attestations/sha256/{second[7:]}.json"))
    assert (served.status, digest_of(served.body)) == (200, second)
    assert begin_with(author, sigstore, "built", provenance(sigstore, content)).json()["already"] is True


@pytest.mark.parametrize("fault", ["another bundle", "another repository", "forged", "a publish statement"])
def test_provenance_that_is_not_of_this_release_is_refused_before_the_upload(
    registry: RegistryProcess, author: Author, sigstore: LocalSigstore, fault: str
) -> None:
    name = fault.replace(" ", "-")
    content, code = plugin(name), "provenance_mismatch"
    match fault:
        case "another bundle":
            built = provenance(sigstore, b"another")
        case "another repository":
            built = provenance(sigstore, content, sigstore.ci_token(repository_id="6"))
        case "forged":
            built, code = provenance(sigstore, content), "signature_invalid"
            built["dsseEnvelope"]["payload"] = provenance(sigstore, b"another")["dsseEnvelope"]["payload"]
        case _:
            statement = canonical(publish_statement(author.registry, name, "1.0.0", content))
            built, code = sigstore.sign(statement, sigstore.ci_token()), "provenance_invalid"
    before = stored(registry)
    answer = begin_with(author, sigstore, name, built)
    assert (answer.status, answer.code) == (422, code)
    assert stored(registry) == before
