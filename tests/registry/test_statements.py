"""Owners, yank and status statements over HTTP: one history per plugin, one signer who may, one that comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg_schemas.api import PluginDocument, StatementReceipt
from plugreg_schemas.trust.proof import prove_history
from tests.registry.test_publishing import problem
from tests.support.postgres import NEWEST
from tests.support.publisher import Author, ask, canonical, digest_of, plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg_schemas.history import History
    from plugreg_schemas.names import Digest

DATABASES = ("sqlite", NEWEST)


def proved(author: Author, name: str) -> History:
    """The history as a client proves it, from the document and the signed statements alone."""
    document = PluginDocument.model_validate(author.document(name))

    def fetch(digest: Digest) -> bytes:
        return ask(author.at(f"attestations/sha256/{digest.hex}.json")).body

    return prove_history(document, fetch, author.registry)


def test_yank_and_unyank(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    answer = author.state("yank", name, version="1.0.0", yanked=True, reason="broken")
    receipt = StatementReceipt.model_validate_json(answer.body)
    assert (answer.status, receipt.revision, receipt.head, receipt.already) == (201, 1, receipt.digest, False)
    assert proved(author, name).yanked == {"1.0.0": "broken"}
    assert author.state("yank", name, version="1.0.0", yanked=False).status == 201
    assert proved(author, name).yanked == {}
    assert author.document(name)["versions"][0]["yanked"] is False


def test_a_statement_sent_again_is_confirmed(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    head = author.document(name)["history"][-1]
    body = author.successor("yank", name, 1, head, version="1.0.0", yanked=True)
    assert author.post("v1/statements", body).status == 201
    author.state("yank", name, version="1.0.0", yanked=False)
    again = author.post("v1/statements", body)
    assert (again.status, again.json()["already"], again.json()["revision"]) == (200, True, 1)
    assert again.json()["head"] == author.document(name)["history"][-1]
    assert again.json()["digest"] == digest_of(canonical(body["statement"]))


def test_a_stranger_may_not_yank(
    author: Author, stranger: Author, name: str, stored: Callable[[], set[str]]
) -> None:
    author.publish(plugin(name), name)
    before, objects = author.document(name), stored()
    problem(stranger.state("yank", name, version="1.0.0", yanked=True), 403, "not_owner")
    assert (author.document(name), stored()) == (before, objects)


def test_an_owner_is_added_publishes_and_is_removed(author: Author, stranger: Author, name: str) -> None:
    author.publish(plugin(name), name)
    assert author.state("owners", name, add=[stranger.key.identity]).status == 201
    assert stranger.publish(plugin(name, "1.1.0"), name, "1.1.0").status == 201
    assert stranger.state("owners", name, remove=[author.key.identity]).status == 201
    problem(author.publish(plugin(name, "1.2.0"), name, "1.2.0"), 403, "not_owner")
    problem(author.state("yank", name, version="1.0.0", yanked=True), 403, "not_owner")
    problem(stranger.state("owners", name, remove=[stranger.key.identity]), 403, "last_owner")
    history = proved(author, name)
    assert [owner.words for owner in history.owners] == [f"key:{stranger.key.id}"]
    document = author.document(name)
    assert [row["signer"]["id"] for row in document["signers"]] == [author.key.id, stranger.key.id]
    assert [entry["signer"] for entry in document["versions"]] == [0, 1]


def test_an_owner_who_is_removed_while_the_bundle_is_uploaded(
    author: Author, stranger: Author, name: str
) -> None:
    author.publish(plugin(name), name)
    author.state("owners", name, add=[stranger.key.identity])
    bundle = plugin(name, "1.1.0")
    begun = stranger.begin(bundle, name, "1.1.0")
    author.state("owners", name, remove=[stranger.key.identity])
    problem(stranger.finish(begun, bundle), 403, "not_owner")
    assert [entry["version"] for entry in author.document(name)["versions"]] == ["1.0.0"]


def test_of_two_statements_that_follow_the_same_one_the_second_is_late(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    first = author.document(name)["history"][-1]
    won = author.post("v1/statements", author.successor("yank", name, 1, first, version="1.0.0", yanked=True))
    late = author.successor("status", name, 1, first, state="deprecated", reason="old")
    refused = problem(author.post("v1/statements", late), 409, "history_moved")
    assert (refused["head"], refused["revision"]) == (won.json()["digest"], 1)
    ahead = author.successor("status", name, 3, won.json()["digest"], state="deprecated")
    problem(author.post("v1/statements", ahead), 409, "history_moved")


def test_a_yank_is_not_replayed_after_it_was_taken_back(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    head = author.document(name)["history"][-1]
    body = author.successor("yank", name, 1, head, version="1.0.0", yanked=True, reason="mistake")
    author.post("v1/statements", body)
    author.state("yank", name, version="1.0.0", yanked=False)
    assert author.post("v1/statements", body).json()["already"] is True
    assert author.document(name)["versions"][0]["yanked"] is False


def test_deprecation_names_a_replacement(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    assert author.state("status", name, state="deprecated", reason="old", replacement="newer").status == 201
    status = author.document(name)["status"]
    assert (status["state"], status["reason"], status["replacement"]) == ("deprecated", "old", "newer")
    assert status["since"].endswith("Z")
    assert proved(author, name).replacement == "newer"


def test_states_that_only_administrators_set(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    for state in ("quarantined", "removed"):
        problem(author.state("status", name, state=state, reason="x"), 403, "admin_only")


def test_statements_without_effect(author: Author, name: str) -> None:
    author.publish(plugin(name), name)
    for kind, said in (
        ("yank", {"version": "1.0.0", "yanked": False}),
        ("owners", {}),
        ("owners", {"add": [author.key.identity]}),
    ):
        problem(author.state(kind, name, **said), 422, "statement_without_effect")
    problem(author.state("yank", name, version="9.9.9", yanked=True), 404, "version_not_found")


def test_statements_about_what_is_elsewhere(author: Author, stranger: Author, name: str) -> None:
    author.publish(plugin(name), name)
    head = author.document(name)["history"][-1]
    nowhere = author.successor("yank", "nowhere", 1, head, version="1.0.0", yanked=True)
    problem(author.post("v1/statements", nowhere), 404, "plugin_not_found")
    other = Author(author.url, "urn:uuid:00000000-0000-4000-8000-000000000000", author.key)
    body = other.successor("yank", name, 1, head, version="1.0.0", yanked=True)
    problem(author.post("v1/statements", body), 422, "registry_mismatch")
