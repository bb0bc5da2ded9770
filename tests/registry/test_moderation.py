"""Administrators at the door of a real registry: what they may, what nobody else may, and what it does to bytes."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry.settings import read_settings
from plugreg_schemas.api import PluginDocument
from plugreg_schemas.errors import UsageError
from plugreg_schemas.fields import format_time
from plugreg_schemas.index import Admins, TrustDocument
from plugreg_schemas.trust.proof import prove_history
from tests.registry.test_publishing import problem
from tests.support.publisher import Author, Key, ask, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_schemas.history import History
    from plugreg_schemas.names import Digest

ADMIN = Key()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    settings = {"PLUGREG_REGISTRY_ADMINS": f"key:{ADMIN.id}"}
    with running(tmp_path_factory.mktemp("moderated") / "data", environment=settings) as process:
        yield process


@pytest.fixture
def admin(registry: RegistryProcess) -> Author:
    return Author(registry.url, registry.id, ADMIN)


def moderate(admin: Author, name: str, state: str, reason: str = "examined") -> None:
    assert admin.state("status", name, state=state, reason=reason).status == 201


def blob(author: Author, name: str) -> str:
    (entry,) = author.document(name)["versions"]
    return author.at(f"blobs/sha256/{entry['digest'][7:]}")


def proved(author: Author, name: str) -> History:
    """The history as a client proves it, with the administrators that the trust target names."""
    document = PluginDocument.model_validate(author.document(name))
    trust = TrustDocument.model_validate_json(ask(author.at("index/trust.json")).body)

    def fetch(digest: Digest) -> bytes:
        return ask(author.at(f"attestations/sha256/{digest.hex}.json")).body

    return prove_history(document, fetch, author.registry, admins=Admins(trust.admins))


def test_quarantine_stops_publishing_and_choosing_and_keeps_the_bundle(
    author: Author, admin: Author, name: str
) -> None:
    author.publish(plugin(name), name)
    moderate(admin, name, "quarantined")
    problem(author.begin(plugin(name, "1.1.0"), name, "1.1.0"), 403, "plugin_quarantined")
    problem(ask(author.at(f"v1/resolve?plugin={name}&language=python")), 403, "plugin_quarantined")
    assert ask(blob(author, name)).status == 200
    status = author.document(name)["status"]
    assert (status["state"], status["reason"]) == ("quarantined", "examined")
    assert proved(author, name).state == "quarantined"
    moderate(admin, name, "active")
    assert author.publish(plugin(name, "1.1.0"), name, "1.1.0").status == 201


def test_a_plugin_that_is_quarantined_while_its_bundle_is_uploaded_is_not_published(
    author: Author, admin: Author, name: str
) -> None:
    author.publish(plugin(name), name)
    bundle = plugin(name, "1.1.0")
    begun = author.begin(bundle, name, "1.1.0")
    moderate(admin, name, "quarantined")
    problem(author.finish(begun, bundle), 403, "plugin_quarantined")


def test_removal_deletes_the_bundle_and_keeps_the_statements(
    author: Author, admin: Author, name: str
) -> None:
    author.publish(plugin(name), name)
    history = author.document(name)["history"]
    moderate(admin, name, "removed", "malware")
    assert ask(blob(author, name)).status == 404
    assert ask(author.at(f"attestations/sha256/{history[0][7:]}.json")).status == 200
    assert author.document(name)["status"]["state"] == "removed"
    for path in (f"v1/plugins/{name}", f"v1/plugins/{name}/1.0.0", f"v1/resolve?plugin={name}&language=go"):
        problem(ask(author.at(path)), 410, "plugin_removed")
    problem(author.begin(plugin(name), name), 410, "plugin_removed")
    assert proved(author, name).state == "removed"


def test_after_a_lifted_removal_the_very_same_version_brings_its_bytes_again(
    author: Author, admin: Author, name: str
) -> None:
    bundle = plugin(name)
    author.publish(bundle, name)
    before = author.document(name)["versions"]
    moderate(admin, name, "removed")
    moderate(admin, name, "active")
    assert ask(blob(author, name)).status == 404
    problem(author.begin(plugin(name, mark="other"), name), 409, "version_exists")
    answer = author.publish(bundle, name)
    assert (answer.status, answer.json()["already"]) == (200, True)
    assert ask(blob(author, name)).body == bundle
    assert author.document(name)["versions"] == before
    assert author.begin(bundle, name).status == 200


def test_bytes_that_come_again_by_another_owner_leave_the_release_as_it_was(
    author: Author, admin: Author, stranger: Author, name: str
) -> None:
    bundle = plugin(name)
    author.publish(bundle, name)
    author.state("owners", name, add=[stranger.key.identity])
    before = author.document(name)["versions"]
    moderate(admin, name, "removed")
    moderate(admin, name, "active")
    assert stranger.publish(bundle, name).status == 200
    assert author.document(name)["versions"] == before
    assert ask(blob(author, name)).body == bundle


def test_a_removal_that_was_cut_off_before_the_bundle_went_is_finished_at_the_next_start(
    registry: RegistryProcess, author: Author, admin: Author, name: str
) -> None:
    bundle = plugin(name)
    author.publish(bundle, name)
    (entry,) = author.document(name)["versions"]
    moderate(admin, name, "removed")
    registry.kill()
    path = registry.objects / "blobs/sha256" / entry["digest"][7:]
    path.write_bytes(bundle)
    with closing(sqlite3.connect(registry.data / "registry.sqlite3")) as database, database:
        database.execute("UPDATE plugins SET indexed = revision - 1 WHERE name = ?", (name,))
    registry.start()
    wait_until_gone(path)


def wait_until_gone(path: Path) -> None:
    end = time.monotonic() + 20
    while path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not path.exists()


def test_an_administrator_gives_a_name_to_others(
    author: Author, admin: Author, stranger: Author, name: str
) -> None:
    author.publish(plugin(name), name)
    answer = admin.state(
        "owners", name, add=[stranger.key.identity], remove=[author.key.identity], reason="the key is lost"
    )
    assert answer.status == 201
    history = proved(author, name)
    assert history.reassigned == (1,)
    assert [owner.words for owner in history.owners] == [f"key:{stranger.key.id}"]
    problem(author.begin(plugin(name, "1.1.0"), name, "1.1.0"), 403, "not_owner")
    assert stranger.publish(plugin(name, "1.1.0"), name, "1.1.0").status == 201


def test_what_an_administrator_did_is_in_the_audit(
    registry: RegistryProcess, author: Author, admin: Author, name: str
) -> None:
    author.publish(plugin(name), name)
    moderate(admin, name, "quarantined")
    with closing(sqlite3.connect(registry.data / "registry.sqlite3")) as database:
        rows = database.execute(
            "SELECT action, signer FROM audit WHERE plugin = ? ORDER BY serial", (name,)
        ).fetchall()
    assert rows == [("publish", f"key:{author.key.id}"), ("status", f"key:{ADMIN.id}")]


def test_only_administrators_moderate(author: Author, admin: Author, stranger: Author, name: str) -> None:
    author.publish(plugin(name), name)
    for state in ("quarantined", "removed"):
        problem(author.state("status", name, state=state, reason="x"), 403, "admin_only")
        problem(stranger.state("status", name, state=state, reason="x"), 403, "not_owner")
    problem(stranger.state("owners", name, add=[stranger.key.identity]), 403, "not_owner")
    moderate(admin, name, "quarantined")
    problem(author.state("status", name, state="active"), 403, "admin_only")


def test_only_owners_yank_and_deprecate(author: Author, admin: Author, name: str) -> None:
    author.publish(plugin(name), name)
    problem(admin.state("yank", name, version="1.0.0", yanked=True, reason="x"), 403, "not_owner")
    problem(admin.state("status", name, state="deprecated", reason="x"), 403, "not_owner")
    problem(admin.begin(plugin(name, "1.1.0"), name, "1.1.0"), 403, "not_owner")


def test_a_setting_alone_makes_nobody_an_administrator(tmp_path: Path) -> None:
    """Admins are in the trust target, which the offline role signs: `rotate` changes it, a start does not."""
    mallory, ada = Key(), Key()
    with running(tmp_path / "data", environment={"PLUGREG_REGISTRY_ADMINS": f"key:{ADMIN.id}"}) as registry:
        Author(registry.url, registry.id, ada).publish(plugin("held"), "held")
    with running(tmp_path / "data", environment={"PLUGREG_REGISTRY_ADMINS": f"key:{mallory.id}"}) as registry:
        author = Author(registry.url, registry.id, mallory)
        problem(author.state("status", "held", state="removed", reason="mine"), 403, "not_owner")
        moderate(Author(registry.url, registry.id, ADMIN), "held", "removed")


@pytest.mark.parametrize(
    ("admission", "friend"), [("admins", False), ("admins key:{friend}", True), ("key:{friend}", True)]
)
def test_who_may_claim_a_name(tmp_path: Path, admission: str, friend: bool) -> None:
    known = Key()
    settings = {
        "PLUGREG_REGISTRY_ADMINS": f"key:{ADMIN.id}",
        "PLUGREG_REGISTRY_ADMISSION": admission.format(friend=known.id),
        "PLUGREG_REGISTRY_RESERVED": "acme-*",
    }
    with running(tmp_path / "data", environment=settings) as registry:
        admin, other, somebody = (Author(registry.url, registry.id, key) for key in (ADMIN, known, Key()))
        problem(somebody.begin(plugin("one"), "one"), 403, "not_admitted")
        problem(other.begin(plugin("acme-a"), "acme-a"), 403, "name_held")
        assert other.begin(plugin("one"), "one").status == (202 if friend else 403)
        assert admin.publish(plugin("two"), "two").status == 201
        assert admin.publish(plugin("acme-a"), "acme-a").status == 201


def test_admission_words_that_contradict_each_other_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_settings({"PLUGREG_REGISTRY_ADMISSION": "admins anyone"}, str(tmp_path))
    assert "`anyone`" in str(refused.value.findings[0])


def at(seconds: float) -> str:
    return format_time((datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0))


@pytest.mark.parametrize("limit", [{"not_after": -60}, {"not_before": 3600}], ids=["ended", "not begun"])
def test_a_key_outside_its_validity_is_refused_before_the_upload(
    author: Author, stranger: Author, name: str, limit: dict[str, float], stored: Any
) -> None:
    author.publish(plugin(name), name)
    entry = stranger.key.identity | {word: at(seconds) for word, seconds in limit.items()}
    assert author.state("owners", name, add=[entry]).status == 201
    before = stored()
    problem(stranger.begin(plugin(name, "1.1.0"), name, "1.1.0"), 422, "key_outside_validity")
    problem(
        stranger.state("yank", name, version="1.0.0", yanked=True, reason="x"), 422, "key_outside_validity"
    )
    assert stored() == before


def test_a_key_that_ends_while_the_bundle_is_uploaded(author: Author, stranger: Author, name: str) -> None:
    author.publish(plugin(name), name)
    author.state("owners", name, add=[stranger.key.identity | {"not_after": at(3)}])
    bundle = plugin(name, "1.1.0")
    begun = stranger.begin(bundle, name, "1.1.0")
    assert begun.status == 202
    time.sleep(4)
    problem(stranger.finish(begun, bundle), 422, "key_outside_validity")


def test_a_validity_is_changed_by_adding_the_owner_again(author: Author, stranger: Author, name: str) -> None:
    author.publish(plugin(name), name)
    author.state("owners", name, add=[stranger.key.identity | {"not_after": at(-60)}])
    assert author.state("owners", name, add=[stranger.key.identity]).status == 201
    assert stranger.publish(plugin(name, "1.1.0"), name, "1.1.0").status == 201
    problem(author.state("owners", name, add=[stranger.key.identity]), 422, "statement_without_effect")


def test_the_first_version_of_an_only_owner_is_answered_with_advice(
    author: Author, stranger: Author, name: str
) -> None:
    def codes(version: str) -> list[str]:
        receipt = author.publish(plugin(name, version), name, version).json()
        return [finding["code"] for finding in receipt["findings"]]

    assert "one_owner" in codes("1.0.0")
    assert "one_owner" not in codes("1.1.0")


def test_administrator_whom_only_a_file_in_the_store_names(
    registry: RegistryProcess, author: Author, name: str
) -> None:
    """Who can write to the store, and holds no key, must not get statements into histories, or bundles deleted."""
    author.publish(plugin(name), name)
    mallory = Key()
    place = registry.objects / "index" / "trust.json"
    genuine = place.read_bytes()
    forged = json.loads(genuine)
    forged["admins"].append({"signer": {"kind": "key", "id": mallory.id}, "since": "2020-01-01T00:00:00Z"})
    place.write_text(json.dumps(forged))
    try:
        thief = Author(registry.url, registry.id, mallory)
        problem(thief.state("status", name, state="removed", reason="mine"), 403, "not_owner")
    finally:
        place.write_bytes(genuine)
    assert ask(blob(author, name)).status == 200
