"""Deprecating, moderating and giving names to others, as people do it: commands, a real registry, real keys."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.support.attacked import Person
from tests.support.commands import User, write_plugin
from tests.support.people import identity, person, publish, status
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("moderation")


@pytest.fixture(scope="module")
def keeper(folder: Path) -> User:
    """The administrator's machine, with the key that the registry will know."""
    made = User(folder / "keeper")
    made.folder.mkdir()
    made.run("key", "new")
    return made


@pytest.fixture(scope="module")
def registry(folder: Path, keeper: User) -> Iterator[RegistryProcess]:
    with running(folder / "data", environment={"PLUGREG_REGISTRY_ADMINS": identity(keeper)}) as process:
        yield process


@pytest.fixture(scope="module")
def admin(keeper: User, registry: RegistryProcess) -> User:
    keeper.run("registry", "add", registry.url)
    return keeper


@pytest.fixture(scope="module")
def ann(folder: Path, registry: RegistryProcess) -> User:
    """An author."""
    return person(folder / "ann", registry)


@pytest.fixture
def bob(tmp_path: Path, registry: RegistryProcess) -> User:
    """Somebody who installs."""
    return person(tmp_path / "bob", registry, key=False)


def test_a_deprecated_plugin_installs_with_a_warning_that_names_the_replacement(ann: User, bob: User) -> None:
    publish(ann, "old", "1.0.0")
    ann.run("deprecate", "old", "--replacement", "newer", "--reason", "not kept up")
    assert any(
        "deprecated: not kept up" in note and "`newer`" in note for note in bob.run("install", "old")["notes"]
    )
    assert status(bob, "old") == ("deprecated", "not kept up")
    assert "DEPRECATED: not kept up; use newer instead" in bob.raw("info", "old").stdout
    assert ann.fails("deprecate", "old", "--replacement", "newer", "--reason", "not kept up", code=3)[
        "code"
    ] == ("statement_without_effect")
    ann.run("deprecate", "old", "--undo")
    assert bob.run("update")["notes"] == []
    assert status(bob, "old") == ("active", "")


def test_quarantine_is_lifted_and_broken_only_with_a_reason(
    ann: User, admin: User, bob: User, tmp_path: Path, registry: RegistryProcess
) -> None:
    publish(ann, "held", "1.0.0")
    bob.run("install", "held")
    admin.run("moderate", "held", "quarantine", "--reason", "phones home")
    fresh = person(tmp_path / "fresh", registry, key=False)
    problem = fresh.fails("install", "held", code=6)
    assert (problem["code"], "phones home" in problem["detail"]) == ("plugin_quarantined", True)
    assert fresh.fails("resolve", "held", "--language", "go", code=6)["code"] == "plugin_quarantined"
    (note,) = bob.run("update")["notes"]
    assert "in quarantine: phones home; what is installed here stays" in note
    assert status(bob, "held") == ("quarantined", "phones home")
    for words in (["plan", "held"], ["list"]):
        assert "`held` is in quarantine: phones home" in bob.raw(*words).stderr

    done = fresh.run("install", "held", "--allow-quarantined", "read every line")
    assert "it is installed because: read every line" in done["notes"][0]
    (row,) = fresh.run("list")["plugins"]
    assert (row["status"], row["allowed"]) == ("quarantined", "read every line")
    assert "it was installed because: read every line" in fresh.raw("list").stderr
    assert "in spite of its quarantine, because: read every line" in fresh.raw("info", "held").stdout
    assert fresh.run("info", "held")["installed"] == {"version": "1.0.0", "allowed": "read every line"}
    fresh.run("update")
    assert fresh.run("list")["plugins"][0]["allowed"] == "read every line"
    assert ann.fails("publish", str(write_plugin(ann.folder / "h", "held", "1.1.0")), code=6)["code"] == (
        "plugin_quarantined"
    )

    admin.run("moderate", "held", "release", "--reason", "it was a false alarm")
    fresh.run("update")
    (row,) = fresh.run("list")["plugins"]
    assert (row["status"], row["allowed"]) == ("active", None)


def test_a_lock_brings_nothing_in_that_an_administrator_has_withdrawn(
    ann: User, admin: User, registry: RegistryProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed as it is locked stays; nothing else moves, in no direction."""
    monkeypatch.chdir(tmp_path)
    settings = {"PLUGREG_REGISTRY": registry.url}
    as_locked, newer, fresh = (Person(tmp_path / name, settings) for name in ("as-locked", "newer", "fresh"))
    publish(ann, "shut", "1.0.0")
    as_locked.run("install", "shut@^1")
    as_locked.run("lock")
    publish(ann, "shut", "1.1.0")
    newer.run("install", "shut")

    def refusals(who: Person, *words: str) -> tuple[int, str]:
        code, problem = who.fails(*words)
        return code, problem["code"]

    admin.run("moderate", "shut", "quarantine", "--reason", "phones home")
    for who, words in ((newer, ["sync"]), (fresh, ["sync"]), (fresh, ["install", "shut", "--frozen"])):
        assert refusals(who, *words) == (6, "plugin_quarantined")
    assert "what is installed here stays" in " ".join(as_locked.run("sync")["notes"])
    (row,) = newer.run("sync", "--allow-quarantined", "read every line")["installed"]
    assert (row["version"], row["previous"]) == ("1.0.0", "1.1.0")
    assert refusals(newer, "rollback", "shut") == (6, "plugin_quarantined")
    admin.run("moderate", "shut", "remove", "--reason", "malware")
    assert refusals(fresh, "sync") == (7, "plugin_removed")
    assert as_locked.run("sync")["installed"][0]["change"] == "unchanged"


def test_a_removed_plugin_stays_where_it_is_installed_and_is_installed_nowhere_else(
    ann: User, admin: User, bob: User, tmp_path: Path, registry: RegistryProcess
) -> None:
    publish(ann, "gone", "1.0.0")
    bob.run("install", "gone")
    admin.run("moderate", "gone", "remove", "--reason", "malware")
    fresh = person(tmp_path / "fresh", registry, key=False)
    for more in ([], ["--allow-quarantined", "x"]):
        assert fresh.fails("install", "gone", *more, code=7)["code"] == "plugin_removed"
    (note,) = bob.run("update")["notes"]
    assert note.startswith("warning: `gone` was removed from its registry: malware")
    assert status(bob, "gone") == ("removed", "malware")
    assert bob.run("verify")["plugins"][0]["verdict"] == "verified"
    assert (bob.root / ".data" / "gone").is_dir()
    assert fresh.run("info", "gone")["status"]["state"] == "removed"
    admin.run("moderate", "gone", "release", "--reason", "it was another plugin")
    assert fresh.fails("install", "gone", code=7)["code"] == "bundle_missing"
    assert ann.run("publish", str(ann.folder / "gone-1.0.0"))["already"] is True
    fresh.run("install", "gone")


def test_a_reassigned_name_stops_those_who_pinned_it_and_others_follow(
    ann: User, admin: User, bob: User, tmp_path: Path, registry: RegistryProcess
) -> None:
    publish(ann, "given", "1.0.0")
    bob.run("install", "given")
    eve = person(tmp_path / "eve", registry)
    new, old = identity(eve), identity(ann)
    admin.run("moderate", "given", "reassign", "--to", new, "--reason", "the key is lost")

    for words in (["update", "--yes"], ["install", "given", "--yes"]):
        problem = bob.fails(*words, code=6)
        assert problem["code"] == "signer_changed"
        assert old in problem["detail"]
        assert new in problem["detail"]
        assert f"--accept-signer {new}" in problem["hint"]
    assert bob.fails("update", "--accept-signer", identity(admin), code=6)["code"] == "signer_changed"

    publish(eve, "given", "1.1.0")
    assert (
        ann.fails("publish", str(write_plugin(ann.folder / "g", "given", "1.2.0")), code=6)["code"]
        == "not_owner"
    )
    fresh = person(tmp_path / "fresh", registry, key=False)
    done = fresh.run("install", "given")
    assert "was reassigned by an administrator" in done["notes"][0]
    shown = fresh.run("info", "given")
    assert [(one["reason"], one["by"]) for one in shown["reassigned"]] == [
        ("the key is lost", identity(admin))
    ]
    assert "the key is lost" in fresh.raw("info", "given").stdout
    assert fresh.run("install", "given@1.0.0")["installed"][0]["version"] == "1.0.0"

    bob.run("update", "--accept-signer", new)
    assert bob.run("list")["plugins"][0]["version"] == "1.1.0"
    publish(eve, "given", "1.3.0")
    assert bob.run("update")["installed"][0]["version"] == "1.3.0"


def test_a_reassignment_stops_a_pinned_machine_even_before_the_new_owner_publishes(
    ann: User, admin: User, bob: User, tmp_path: Path, registry: RegistryProcess
) -> None:
    """Otherwise the pin would move on unnoticed, and the new owner's first version would be no surprise."""
    publish(ann, "quiet", "1.0.0")
    bob.run("install", "quiet")
    eve = person(tmp_path / "eve", registry)
    admin.run("moderate", "quiet", "reassign", "--to", identity(eve), "--reason", "x")
    bob.fails("update", code=6)
    publish(eve, "quiet", "1.1.0")
    assert bob.fails("update", code=6)["code"] == "signer_changed"


def test_who_is_no_administrator_moderates_nothing(
    ann: User, bob: User, registry: RegistryProcess, tmp_path: Path
) -> None:
    publish(ann, "free", "1.0.0")
    assert ann.fails("moderate", "free", "remove", "--reason", "x", code=6)["code"] == "admin_only"
    mallory = person(tmp_path / "mallory", registry)
    assert mallory.fails("moderate", "free", "quarantine", "--reason", "x", code=6)["code"] == "not_owner"
    words = ["moderate", "free", "reassign", "--to", identity(mallory), "--reason", "mine"]
    assert mallory.fails(*words, code=6)["code"] == "not_owner"


@pytest.mark.parametrize(
    "words",
    [
        ["moderate", "free", "reassign", "--reason", "x"],
        ["moderate", "free", "remove", "--to", "key:sha256:" + "0" * 64, "--reason", "x"],
        ["moderate", "free", "remove"],
        ["moderate", "free", "destroy", "--reason", "x"],
        ["deprecate", "free", "--undo", "--replacement", "other"],
        ["owner", "add", "free", "key:sha256:" + "0" * 64, "--refs", "refs/tags/*"],
        ["owner", "add", "free", "key:sha256:" + "0" * 64, "--not-after", "tomorrow"],
        ["owner", "add", "free", "key:sha256:" + "0" * 64, "--not-after", "2027-01-01T00:00:00"],
        [
            "owner", "add", "free", "key:sha256:" + "0" * 64,
            "--not-before", "2027-01-02T00:00:00Z", "--not-after", "2027-01-01T00:00:00Z",
        ],
    ],
)  # fmt: skip
def test_words_that_do_not_go_together(ann: User, words: list[str]) -> None:
    problem = ann.fails(*words, code=2)
    assert problem["detail"]
    assert problem["hint"] or problem["code"] == "usage_invalid"


def test_a_reason_that_is_no_line_of_text_is_refused_before_anything_is_signed(ann: User) -> None:
    publish(ann, "reasoned", "1.0.0")
    for words in (["yank", "reasoned@1.0.0"], ["deprecate", "reasoned"], ["moderate", "reasoned", "remove"]):
        for reason in ("x" * 501, "two\nlines"):
            assert ann.fails(*words, "--reason", reason, code=3)["code"] == "statement_invalid"


def test_the_publisher_of_a_new_name_is_advised_to_add_an_owner(ann: User) -> None:
    folder = write_plugin(ann.folder / "lonely", "lonely", "1.0.0")
    done = ann.raw("publish", str(folder))
    assert "you are the only owner of `lonely`" in done.stderr
    assert "plugreg owner add lonely" in done.stderr
    assert "only owner" not in ann.raw("publish", str(folder)).stderr


def test_owners_are_listed_with_what_limits_them(ann: User) -> None:
    publish(ann, "limited", "1.0.0")
    ann.run("key", "new", "second")
    second = ann.run("key", "show", "second")["id"]
    ann.run("owner", "add", "limited", second, "--not-after", "2099-01-01T00:00:00+01:00", "--key", "default")
    ci = "ci:https://ci.example#1#2#.ci/publish.yml"
    ann.run("owner", "add", "limited", ci, "--refs", "refs/tags/v*", "--key", "default")
    lines = ann.raw("owner", "list", "limited").stdout.splitlines()
    assert f"{second} (not after 2098-12-31T23:00:00Z)" in lines
    assert f"{ci} (refs refs/tags/v*)" in lines
    listed = {row["words"]: row for row in ann.run("owner", "list", "limited")["owners"]}
    assert listed[second]["not_after"] == "2098-12-31T23:00:00Z"
    assert ann.run("info", "limited")["owner_conditions"] == {
        second: {"not_after": "2098-12-31T23:00:00Z"},
        ci: {"refs": "refs/tags/v*"},
    }
    assert "(not after 2098-12-31T23:00:00Z)" in ann.raw("info", "limited").stdout
    (ann.folder / "home/keys/second.pem").unlink()
    (ann.folder / "home/keys/second.pub").unlink()


def put_back(registry: RegistryProcess, backup: Path) -> None:
    """Do what an operator does after losing the database: an older copy is put in its place."""
    registry.kill()
    for path in registry.data.glob("registry.sqlite3*"):
        path.unlink()
    shutil.copy(backup, registry.data / "registry.sqlite3")
    registry.start()


def test_what_a_restored_registry_lost_is_sent_again_by_a_machine_that_saw_it(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        ann, seer, other = (person(tmp_path / name, registry) for name in ("ann", "seer", "other"))
        publish(ann, "kept", "1.0.0")
        other.run("install", "kept")
        backup = tmp_path / "backup.sqlite3"
        with (
            closing(sqlite3.connect(registry.data / "registry.sqlite3")) as live,
            closing(sqlite3.connect(backup)) as copy,
        ):
            live.backup(copy)
        ann.run("yank", "kept@1.0.0", "--reason", "loses notes")
        ann.run("unyank", "kept@1.0.0")
        seer.run("info", "kept")
        version = timestamp(registry)

        put_back(registry, backup)
        publish(
            person_of(ann, tmp_path / "again", registry), "kept", "1.1.0"
        )  # the shorter history is in the index
        assert timestamp(registry) > version
        assert other.run("update")["installed"][0]["version"] == "1.1.0"
        problem = seer.fails("install", "kept", code=4)
        assert problem["code"] == "history_forked"
        assert "plugreg owner resend kept" in problem["hint"]
        assert seer.fails("info", "kept", code=4)["code"] == "history_forked"
        assert ann.fails("yank", "kept@1.1.0", "--reason", "x", code=4)["code"] == "history_forked"
        assert other.run("owner", "resend", "kept")["sent"] == []

        sent = seer.run("owner", "resend", "kept")
        assert len(sent["sent"]) == 2
        assert ann.run("owner", "resend", "kept")["sent"] == []
        for user in (seer, other, ann):
            assert user.run("info", "kept")["verdict"] == "verified"
        seer.run("install", "kept")
        other.run("update")
        ann.run("yank", "kept@1.0.0", "--reason", "again")


def test_a_statement_in_the_place_of_a_lost_one_ends_resending(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        ann, seer = (person(tmp_path / name, registry) for name in ("ann", "seer"))
        publish(ann, "split", "1.0.0")
        backup = tmp_path / "backup.sqlite3"
        with (
            closing(sqlite3.connect(registry.data / "registry.sqlite3")) as live,
            closing(sqlite3.connect(backup)) as copy,
        ):
            live.backup(copy)
        ann.run("yank", "split@1.0.0", "--reason", "first")
        seer.run("info", "split")
        put_back(registry, backup)
        again = person_of(ann, tmp_path / "again", registry)
        publish(again, "split", "1.1.0")
        again.run("deprecate", "split", "--reason", "second")
        problem = seer.fails("owner", "resend", "split", code=6)
        assert problem["code"] == "history_moved"
        assert "sign anew" in problem["hint"]


def test_a_machine_that_saw_nothing_has_nothing_to_send(bob: User) -> None:
    problem = bob.fails("owner", "resend", "nothing-of-it", code=7)
    assert problem["code"] == "history_unknown"


def person_of(user: User, folder: Path, registry: RegistryProcess) -> User:
    """The same person on a machine that has seen nothing."""
    made = person(folder, registry, key=False)
    shutil.copytree(user.folder / "home/keys", folder / "home/keys")
    return made


def timestamp(registry: RegistryProcess) -> int:
    found = json.loads((registry.objects / "index/metadata/timestamp.json").read_bytes())
    return int(found["signed"]["version"])
