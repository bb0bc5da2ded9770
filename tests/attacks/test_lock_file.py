"""A lock file comes with whatever was cloned: it is compared, and it never lets anything in that was out without it."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugreg.lock_file import FILE, MAX_LOCKED, read_lock
from tests.support.attacked import Person, Scene, attacked
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER_DIGEST = "sha256:" + "b" * 64
LOCK = Path(FILE)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, cloned from somebody."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def begin(scene: Scene) -> Scene:
    scene.run("lock", "demo@1.0.0")
    scene.publish("1.1.0")
    return scene


@pytest.fixture
def locked(online: Scene) -> Scene:
    """The scene, with a lock of `demo` 1.0.0, while 1.1.0 is there as well."""
    return begin(online)


@pytest.fixture
def locked_in_both_ways(scene: Scene) -> Scene:
    """The same, over HTTP and as a folder."""
    return begin(scene)


def tamper(key: str, value: str) -> None:
    """Change one value of the file, wherever it stands."""
    before = LOCK.read_text()
    LOCK.write_text(re.sub(rf'^{key} = ".*"$', f'{key} = "{value}"', before, flags=re.MULTILINE))
    assert LOCK.read_text() != before


def everybody(scene: Scene, *, exits: int, codes: str | set[str]) -> str:
    """Who has installed `demo` and who has not are refused, by both commands that obey the file."""
    scene.refused("install", "demo", "--frozen", "--yes", exits=exits, codes=codes, person=scene.newcomer())
    return scene.refused("sync", "--yes", exits=exits, codes=codes)


# --- another release ---------------------------------------------------------------------------------------------


def test_lock_with_another_digest(locked_in_both_ways: Scene) -> None:
    locked = locked_in_both_ways
    tamper("digest", OTHER_DIGEST)
    assert OTHER_DIGEST in everybody(locked, exits=4, codes="lock_mismatch")


def test_lock_with_the_digest_of_another_version(locked: Scene) -> None:
    digest = read_lock(LOCK).plugins["demo"].digest
    locked.run("lock", "demo@1.1.0")
    tamper("digest", digest)
    everybody(locked, exits=4, codes="lock_mismatch")


def test_registry_with_other_bytes_than_the_locked_ones(locked: Scene) -> None:
    """The same name and version, made anew by the same author: the file says which one was meant."""
    locked.offers.forget("demo")
    locked.offers.publish(locked.author, "demo", "1.0.0", {"plugin.json": PLUGIN, "v.txt": "other"})
    locked.index.take(locked.offers)
    locked.refused("sync", exits=4, codes={"lock_mismatch", "history_forked"}, person=locked.newcomer())
    locked.refused("sync", exits=4)


PLUGIN = (
    '{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", '
    '"name": "demo", "version": "1.0.0"}'
)


def test_lock_with_a_version_that_was_never_published(locked: Scene) -> None:
    tamper("version", "1.0.7")
    LOCK.write_text(LOCK.read_text().replace('range = "1.0.0"', 'range = ""'))
    everybody(locked, exits=7, codes="version_withheld")


# --- another signer ----------------------------------------------------------------------------------------------


def test_lock_with_another_signer(locked: Scene) -> None:
    stranger = locked.stranger.signer.words
    tamper("signer", stranger)
    said = everybody(locked, exits=4, codes="lock_mismatch")
    assert stranger in said
    assert locked.author.signer.words in said
    locked.refused("sync", "--accept-signer", stranger, exits=4, codes="lock_mismatch")


def test_lock_made_for_a_stranger_who_took_the_name_does_not_replace_the_pin(locked: Scene) -> None:
    """Everything in the file is right for the stranger's plugin, and this machine knows another one."""
    locked.offers.forget("demo")
    locked.offers.publish(locked.stranger, "demo", "1.2.0")
    locked.index.take(locked.offers)
    LOCK.unlink()
    locked.run("lock", "demo", person=locked.newcomer())
    locked.refused("sync", "--yes", exits=6, codes="signer_changed")
    locked.refused("install", "demo", "--frozen", exits=6, codes="signer_changed")


def test_lock_is_no_consent_where_first_uses_are_refused(locked: Scene) -> None:
    person = locked.newcomer()
    person.environment["PLUGREG_FIRST_USE"] = "refuse"
    locked.refused("sync", exits=6, codes="root_not_pinned", person=person)
    person.run("registry", "add", locked.url, "--root-digest", locked.index.root_digest)
    locked.refused("sync", exits=6, codes="first_use_refused", person=person)
    locked.run("sync", "--accept-signer", locked.author.signer.words, person=person)
    assert person.installed() == {"demo": "1.0.0"}


def test_lock_is_no_consent_against_a_rule_of_this_machine(locked: Scene) -> None:
    person = locked.newcomer()
    person.home.mkdir()
    (person.home / "trust.toml").write_text(f'[signers]\ndemo = ["{locked.stranger.signer.words}"]\n')
    locked.refused("sync", exits=4, codes="signer_not_trusted", person=person)


# --- another history ---------------------------------------------------------------------------------------------


def test_lock_that_has_seen_a_statement_which_the_registry_lacks(locked: Scene) -> None:
    """The registry hides a statement from machines that never saw it; the file has seen it for them."""
    before = locked.offers.document("demo")
    locked.offers.yank(locked.author, "demo", "1.1.0")
    locked.index.take(locked.offers)
    locked.run("lock", "demo@1.0.0", person=locked.newcomer())
    (locked.offers.folder / "plugins" / "demo.json").write_bytes(before)
    locked.index.take(locked.offers)
    locked.run("install", "demo", person=locked.newcomer())
    locked.refused("sync", exits=4, codes="history_forked", person=locked.newcomer())


# --- another registry --------------------------------------------------------------------------------------------


def test_lock_with_a_registry_that_is_not_known_here(locked: Scene, tmp_path: Path) -> None:
    """Its address is shown and never asked, whatever the file says."""
    (tmp_path / "evil").mkdir()
    with attacked(tmp_path / "evil") as evil:
        evil.publish("1.0.0")
        LOCK.unlink()
        evil.run("lock", "demo")
        evil.server.requests.clear()
        person = locked.newcomer()
        said = locked.refused("sync", exits=7, codes="registry_unknown", person=person)
        assert evil.url in said
        locked.refused("sync", exits=6, codes="registry_changed")
        assert evil.server.requests == []


def test_lock_with_another_known_registry_does_not_replace_the_pinned_one(
    locked: Scene, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    with attacked(tmp_path / "second") as second:
        second.author = locked.author
        second.publish("1.0.0")
        LOCK.unlink()
        second.run("lock", "demo")
        for scene in (locked, second):
            scene.write()
            locked.person.run("registry", "add", scene.url)
        installed = locked.person.installed()
        for words in (("sync",), ("sync", "--yes"), ("install", "demo", "--frozen")):
            code, problem = locked.person.fails(*words)
            assert (code, problem["code"]) == (6, "registry_changed")
        assert locked.person.installed() == installed
        locked.person.run("sync", "--accept-registry", second.index.registry)


# --- another root ------------------------------------------------------------------------------------------------


def twin(scene: Scene) -> TufRepository:
    """The same registry id and the same plugins under another root."""
    other = TufRepository(scene.index.registry)
    other.take(scene.offers)
    return other


def test_lock_with_another_root(locked_in_both_ways: Scene) -> None:
    locked = locked_in_both_ways
    tamper("root", OTHER_DIGEST)
    assert OTHER_DIGEST in everybody(locked, exits=4, codes="root_changed")


def test_somebody_between_a_new_machine_and_the_registry_is_noticed_by_the_locked_root(
    locked_in_both_ways: Scene,
) -> None:
    """Without the file the first use would pin the attacker's root; with it nothing is pinned at all."""
    locked = locked_in_both_ways
    good, person = locked.index.root_digest, locked.newcomer()
    locked.index.store = twin(locked).store
    assert good in locked.refused("sync", exits=4, codes="root_changed", person=person)
    assert [row["root"] for row in person.run("registry", "list")["registries"]] == []
    assert not list(person.home.rglob("pinned"))


def test_lock_from_before_and_from_after_a_rotation_is_of_the_same_registry(
    locked_in_both_ways: Scene,
) -> None:
    """Who pinned an older root, and who pinned a newer one than the file names: both follow."""
    locked = locked_in_both_ways
    locked.index.rotate("root")
    locked.run("sync", person=locked.newcomer())
    newer = locked.newcomer()
    locked.run("install", "demo@1.0.0", person=newer)
    newer.run("lock")
    assert read_lock(LOCK).roots == {locked.index.registry: locked.index.root_digest}
    locked.index.rotate("root", "timestamp")
    locked.run("sync")
    locked.run("sync", person=locked.newcomer())
    locked.run("sync", "--offline")


def test_without_a_network_a_root_that_was_never_seen_is_not_believed(locked: Scene) -> None:
    tamper("root", OTHER_DIGEST)
    locked.refused("sync", "--offline", exits=7, codes="offline")


# --- the file itself ---------------------------------------------------------------------------------------------


def huge() -> str:
    return "version = 1\n" + "# nothing\n" * 1_100_000


def many() -> str:
    block = LOCK.read_text().partition("[plugins.demo]")[2]
    names = "".join(f"[plugins.p{number}]{block}\n" for number in range(MAX_LOCKED + 1))
    return LOCK.read_text() + names


def crowded() -> str:
    """As many wrong blocks as the file may be long."""
    return "version = 1\n" + "".join(f"[plugins.p{number}]\n" for number in range(50_000))


FILES: dict[str, Callable[[], str]] = {
    "10 MB": huge,
    "too many plugins": many,
    "a crowd of faults": crowded,
    "one plugin twice": lambda: LOCK.read_text() + "\n[plugins.demo]\n" + 'version = "1.1.0"\n',
    "one key twice": lambda: LOCK.read_text() + f'head = "{OTHER_DIGEST}"\n',
    "one plugin in two spellings": lambda: LOCK.read_text() + '\n[plugins."demo"]\nversion = "1.1.0"\n',
    "a key without an end": lambda: "version = 1\n[" + "a." * 100_000 + "a]\n",
    "a nest without an end": lambda: "version = 1\nplugins = " + "[" * 100_000 + "]" * 100_000,
    "a merge that was not finished": lambda: f"<<<<<<< ours\n{LOCK.read_text()}=======\n>>>>>>> theirs\n",
    "a path as a name": lambda: LOCK.read_text().replace("[plugins.demo]", '[plugins."../../../etc"]'),
    "a path as a version": lambda: LOCK.read_text().replace('"1.0.0"', '"1.0.0/../../.."'),
    "a folder as a registry": lambda: re.sub(r'urn:uuid:[^"]*', "file:///etc", LOCK.read_text()),
    "nothing": lambda: "",
    "other bytes": lambda: "\0\1\2",
    "yaml": lambda: "a: &a [1]\nb: &b [*a, *a]\n",
}


@pytest.mark.parametrize("made", FILES.values(), ids=FILES)
def test_file_that_is_none(locked: Scene, made: Callable[[], str]) -> None:
    LOCK.write_text(made())
    began = time.monotonic()
    locked.refused("sync", exits=3, codes="lock_invalid")
    locked.refused("install", "demo", "--frozen", exits=3, codes="lock_invalid")
    assert time.monotonic() - began < 20
    assert locked.person.run("lock")["changed"]
    assert locked.run("sync")["installed"][0]["change"] == "unchanged"


def pipe() -> None:
    os.mkfifo(LOCK)


def folder() -> None:
    LOCK.mkdir()


def endless() -> None:
    LOCK.symlink_to("/dev/zero")


@pytest.mark.parametrize("plant", [pipe, folder, endless])
def test_something_else_stands_in_its_place(online: Scene, plant: Callable[[], None]) -> None:
    plant()
    online.refused("sync", exits=3, codes="lock_invalid")
    online.refused("lock", exits=6, codes="not_a_file")
    online.refused("lock", "demo", exits=3, codes="lock_invalid")


def test_link_in_its_place_overwrites_nothing(online: Scene, tmp_path: Path) -> None:
    mine = tmp_path / "profile"
    mine.write_text("mine")
    LOCK.symlink_to(mine)
    online.refused("lock", exits=6, codes="not_a_file")
    assert (mine.read_text(), LOCK.is_symlink()) == ("mine", True)
    LOCK.unlink()
    LOCK.symlink_to(tmp_path / "nowhere")
    online.refused("lock", exits=6, codes="not_a_file")
    assert not (tmp_path / "nowhere").exists()


def test_words_of_the_file_do_not_move_the_terminal(online: Scene) -> None:
    online.run("lock", "demo")
    LOCK.write_text(LOCK.read_text().replace("[plugins.demo]", r'[plugins."\u001b[2J\u0007demo"]'))
    code, said, complained = online.person.raw("sync", "--registry", online.url)
    assert code == 3
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said + complained)


def test_copy_of_the_project_on_a_machine_that_knows_nothing(online: Scene) -> None:
    """No registry is known, so nobody is asked."""
    online.run("lock", "demo")
    online.server.requests.clear()
    person = Person(online.folder / "nobody")
    person.folder.mkdir()
    code, problem = person.fails("sync")
    assert (code, problem["code"]) == (2, "no_registry")
    assert online.server.requests == []
    shutil.rmtree(person.folder)
