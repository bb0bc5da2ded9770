"""`plugreg lock`, `plugreg sync` and `install --frozen`: what one machine uses is what every machine gets."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.lock_file import FILE, LockedPlugin, LockedRegistry, LockFile, parse, read_lock, render
from plugreg.locked import sync
from plugreg.pinning import Options
from plugreg_schemas.errors import InvalidInput, NotAllowed
from plugreg_schemas.index import Revocation, RevocationList
from plugreg_schemas.names import Digest
from tests.client.test_dependencies import files, need
from tests.support.attacked import Scene, attacked
from tests.support.record import OTHER_REGISTRY, REGISTRY
from tests.support.roots import Here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.attacked import Person

DIGEST = "sha256:" + "a" * 64
LOCK = Path(FILE)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a project without a lock file."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with attacked(tmp_path) as found:
        found.publish("1.0.0")
        yield found


def codes(scene: Scene, *words: str, person: Person | None = None) -> tuple[int, str]:
    """Exit code and code of a command that is refused and changes nothing, the lock file included."""
    before = LOCK.read_bytes() if LOCK.exists() else None
    who = person or scene.person
    installed = who.installed()
    exit_code, problem = who.fails(*words, "--registry", scene.url)
    assert (who.installed(), LOCK.read_bytes() if LOCK.exists() else None) == (installed, before)
    return exit_code, problem["code"]


def changes(done: Any) -> dict[str, tuple[str, str]]:
    return {row["name"]: (row["change"], row["version"]) for row in done["installed"]}


# --- the file ----------------------------------------------------------------------------------------------------


def plugin(**more: str) -> LockedPlugin:
    values = {
        "version": "1.0.0",
        "digest": DIGEST,
        "registry": REGISTRY,
        "signer": "oidc:https://id.example#ann@example.com",
        "head": DIGEST,
    }
    return LockedPlugin.model_validate(values | more)


def test_the_same_content_is_the_same_bytes_and_is_read_back() -> None:
    rows = {name: plugin(range=">=1.0 <2 || 3.*") for name in ("b", "a.b", "a-b", "a")}
    rows["c"] = plugin(signer='ci:https://id.example#1#2#.ci/é "quoted" \\ workflow.yml')
    here = LockedRegistry(root=DIGEST, url="https://plugins.example.com:8443/%7Ex/")
    lock = LockFile(version=1, registries={REGISTRY: here, OTHER_REGISTRY: LockedRegistry()}, plugins=rows)
    backwards = lock.model_copy(update={"plugins": dict(reversed(rows.items()))})
    assert render(lock) == render(backwards)
    assert parse(render(lock)) == lock
    assert render(parse(render(lock))) == render(lock)


def test_every_plugin_is_one_block_so_that_changes_of_two_people_do_not_meet() -> None:
    rows = {name: plugin() for name in "abcde"}
    base, other = (
        render(LockFile(version=1, registries={REGISTRY: LockedRegistry()}, plugins=rows | {"c": changed}))
        for changed in (plugin(), plugin(version="1.0.1"))
    )
    different = [(x, y) for x, y in zip(base.splitlines(), other.splitlines(), strict=True) if x != y]
    assert different == [(b'version = "1.0.0"', b'version = "1.0.1"')]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (("version = 1", 'version = "1"'), "/version"),
        (("version = 1", "version = true"), "/version"),
        (("version = 1", "version = 0"), "/version"),
        (("version = 1", ""), "/version"),
        (("version = 1", "version = 1\nindex = 'https://evil.example'"), "/index"),
        (("[plugins.demo]", "[plugins.demo]\npurge = true"), "/plugins/demo/purge"),
        (("[plugins.demo]", '[plugins."../demo"]'), "/plugins/..~1demo"),
        (("[plugins.demo]", '[plugins."/etc/demo"]'), "/plugins/~1etc~1demo"),
        (("[plugins.demo]", "[plugins.con]"), "/plugins/con"),
        (('version = "1.0.0"', 'version = "../../1.0.0"'), "/plugins/demo/version"),
        (('version = "1.0.0"', "version = 1"), "/plugins/demo/version"),
        (('version = "1.0.0"', 'version = "1.0.0"\nrange = "latest"'), "/plugins/demo/range"),
        (('signer = "oidc:', 'signer = "'), "/plugins/demo/signer"),
        (('signer = "oidc:', r'signer = "oidc:\u001b[2J'), "/plugins/demo/signer"),
        ((f'head = "{DIGEST}"', ""), "/plugins/demo/head"),
        (("sha256:", "sha1:"), "/plugins/demo/digest"),
        ((f'[registries."{REGISTRY}"]', f'[registries."{OTHER_REGISTRY}"]'), ""),
        ((f'[registries."{REGISTRY}"]', f'[registries."{REGISTRY}"]\nurl = "file:///etc"'), "/url"),
        ((f'[registries."{REGISTRY}"]', f'[registries."{REGISTRY}"]\nurl = "https://a b"'), "/url"),
        ((f'[registries."{REGISTRY}"]', f'[registries."{REGISTRY}"]\nurl = "https://a@b"'), "/url"),
        ((f'[registries."{REGISTRY}"]', f'[registries."{REGISTRY}"]\nurl = "https://a;b"'), "/url"),
    ],
)
def test_a_fault_of_the_file_is_refused_with_its_place(change: tuple[str, str], pointer: str) -> None:
    rows = {REGISTRY: LockedRegistry()}
    good = render(LockFile(version=1, registries=rows, plugins={"demo": plugin()})).decode()
    bad = good.replace(change[0], change[1], 1)
    assert bad != good
    with pytest.raises(InvalidInput) as caught:
        parse(bad.encode())
    assert caught.value.code == "lock_invalid"
    assert caught.value.hint
    assert any(found.pointer.endswith(pointer) for found in caught.value.findings)


def test_k12_a_file_of_a_newer_plugreg_is_not_called_invalid() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(b"version = 2\n[everything]\nelse = 'new'\n")
    assert (caught.value.code, "newer plugreg" in caught.value.hint) == ("lock_version", True)


# --- lock --------------------------------------------------------------------------------------------------------


def test_lock_writes_down_what_is_installed_and_asks_nobody(scene: Scene) -> None:
    (row,) = scene.run("install", "demo@^1")["installed"]
    scene.server.requests.clear()
    done = scene.person.run("lock")
    assert scene.server.requests == []
    lock = read_lock(LOCK)
    (locked,) = lock.plugins.values()
    assert (locked.version, locked.digest, locked.range) == ("1.0.0", row["digest"], "^1")
    assert (locked.registry, locked.signer) == (scene.index.registry, scene.author.signer.words)
    assert lock.registries == {
        scene.index.registry: LockedRegistry(root=scene.index.root_digest, url=scene.url)
    }
    assert (done["changed"], done["plugins"][0]["name"]) == (True, "demo")
    before = LOCK.stat()
    assert scene.person.run("lock")["changed"] is False
    assert (LOCK.stat().st_ino, LOCK.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_lock_of_nothing_is_refused_and_keeps_the_file(scene: Scene) -> None:
    LOCK.write_text("kept")
    assert scene.person.fails("lock")[1]["code"] == "not_installed"
    assert LOCK.read_text() == "kept"


def test_lock_of_names_installs_nothing_and_keeps_the_other_blocks(scene: Scene) -> None:
    scene.publish("2.0.0", "notes")
    scene.run("lock", "notes")
    scene.run("lock", "demo@^1")
    assert scene.person.installed() == {}
    lock = read_lock(LOCK)
    assert {name: row.version for name, row in lock.plugins.items()} == {"demo": "1.0.0", "notes": "2.0.0"}
    scene.publish("1.1.0")
    scene.publish("2.0.0")
    scene.run("lock", "demo")
    assert read_lock(LOCK).plugins["demo"].version == "1.1.0", "it stays in the range of the lock"
    assert read_lock(LOCK).plugins["notes"] == lock.plugins["notes"]
    assert codes(scene, "lock", "demo@^9") == (7, "version_not_found")
    assert codes(scene, "lock", "demo", "demo@^1") == (2, "name_repeated")


def test_lock_of_a_name_takes_along_what_it_depends_on(scene: Scene) -> None:
    scene.offers.publish(scene.author, "low", "1.0.0", files("low"))
    scene.offers.publish(scene.author, "low", "2.0.0", files("low", "2.0.0"))
    scene.offers.publish(scene.author, "top", "1.0.0", files("top", "1.0.0", need("low", "^1")))
    scene.index.take(scene.offers)
    scene.run("lock", "top")
    assert {name: row.version for name, row in read_lock(LOCK).plugins.items()} == {
        "low": "1.0.0",
        "top": "1.0.0",
    }
    person = scene.newcomer()
    assert set(changes(scene.run("install", "top", "--frozen", person=person))) == {"low", "top"}


# --- sync --------------------------------------------------------------------------------------------------------


def test_sync_makes_another_machine_the_same_and_leaves_other_plugins_alone(scene: Scene) -> None:
    for version in ("1.0.0", "2.0.0"):
        scene.publish(version, "notes")
    scene.publish("1.0.0", "mine")
    scene.run("install", "demo", "notes")
    scene.run("lock", "demo", "notes@^1")
    scene.publish("1.1.0")
    scene.publish("1.1.0", "mine")
    scene.run("install", "demo@>=1.1", "notes@1.0.0", "mine@1.0.0")
    done = scene.run("sync")
    assert changes(done) == {"demo": ("updated", "1.0.0"), "notes": ("unchanged", "1.0.0")}
    assert scene.person.installed() == {"demo": "1.0.0", "notes": "1.0.0", "mine": "1.0.0"}

    person = scene.newcomer()
    assert {change for change, _ in changes(scene.run("sync", person=person)).values()} == {"installed"}
    assert person.installed() == {"demo": "1.0.0", "notes": "1.0.0"}
    before = LOCK.read_bytes()
    code, said, _ = person.raw("sync", "--registry", scene.url)
    assert (code, said.startswith("nothing to do")) == (0, True)
    assert LOCK.read_bytes() == before


def test_an_update_after_a_sync_keeps_to_the_locked_range(scene: Scene) -> None:
    scene.run("lock", "demo@~1.0")
    scene.run("sync")
    for version in ("1.0.5", "1.1.0"):
        scene.publish(version)
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.0.5"}


def test_a_sync_whose_second_plugin_fails_changes_nothing(scene: Scene) -> None:
    scene.publish("1.0.0", "notes")
    scene.run("lock", "demo", "notes")
    digest = Digest(read_lock(LOCK).plugins["notes"].digest)
    scene.index.store[f"blobs/sha256/{digest.hex}"] = b"altered"
    assert codes(scene, "sync")[1] in {"digest_mismatch", "download_incomplete"}
    assert scene.person.installed() == {}


def test_a14_what_was_uninstalled_stays_so_until_somebody_asks_for_it_again(scene: Scene) -> None:
    scene.publish("1.0.0", "notes")
    scene.run("lock", "demo", "notes")
    scene.run("sync")
    scene.person.run("uninstall", "demo")
    assert "note: `demo` was uninstalled here" in " ".join(scene.run("sync")["notes"])
    assert scene.person.installed() == {"notes": "1.0.0"}
    assert [row["name"] for row in scene.person.run("list")["plugins"]] == ["notes"]
    scene.run("install", "demo", "--frozen")
    assert scene.person.installed() == {"demo": "1.0.0", "notes": "1.0.0"}
    assert "uninstalled" not in " ".join(scene.run("sync")["notes"])


def test_sync_goes_on_without_a_network_once_everything_was_seen(scene: Scene) -> None:
    scene.publish("1.1.0")
    scene.run("install", "demo@1.0.0")
    scene.run("install", "demo@^1")
    scene.run("lock", "demo@1.0.0")
    scene.run("sync")
    scene.server.requests.clear()
    assert changes(scene.run("sync", "--offline")) == {"demo": ("unchanged", "1.0.0")}
    assert scene.server.requests == []


# --- frozen ------------------------------------------------------------------------------------------------------


def test_frozen_installs_only_what_is_locked_and_never_changes_the_file(scene: Scene) -> None:
    assert codes(scene, "install", "demo", "--frozen") == (5, "lock_missing")
    assert codes(scene, "sync") == (5, "lock_missing")
    scene.run("lock", "demo@^1")
    scene.publish("1.1.0")
    scene.publish("1.0.0", "notes")
    before = LOCK.read_bytes()
    assert codes(scene, "install", "notes", "--frozen") == (5, "not_locked")
    assert codes(scene, "install", "demo", "notes", "--frozen") == (5, "not_locked")
    assert codes(scene, "install", "demo@^2", "--frozen") == (5, "lock_outdated")
    assert codes(scene, "install", "demo@1.1.0", "--frozen") == (5, "lock_outdated")
    assert changes(scene.run("install", "demo", "--frozen")) == {"demo": ("installed", "1.0.0")}
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.1.0"}
    assert changes(scene.run("install", "demo@1.0.0", "--frozen")) == {"demo": ("updated", "1.0.0")}
    assert LOCK.read_bytes() == before


def test_a_range_in_the_file_that_no_longer_fits_is_outdated(scene: Scene) -> None:
    scene.run("lock", "demo@^1")
    LOCK.write_text(LOCK.read_text().replace('"^1"', '"^2"'))
    assert codes(scene, "sync") == (5, "lock_outdated")


def test_a_dependency_that_is_not_locked_or_does_not_fit_is_refused(scene: Scene) -> None:
    for version in ("1.0.0", "2.0.0"):
        scene.offers.publish(scene.author, "low", version, files("low", version))
    scene.offers.publish(scene.author, "top", "1.0.0", files("top", "1.0.0", need("low", "^1")))
    scene.index.take(scene.offers)
    scene.run("install", "low@1.0.0")
    scene.run("lock", "top")
    text = LOCK.read_text()
    LOCK.write_text(text[: text.index("[plugins.low]")] + text[text.index("[plugins.top]") :])
    assert codes(scene, "sync") == (5, "not_locked"), "although one that fits is installed"
    LOCK.write_text(text)
    scene.run("lock", "low@2.0.0")
    assert codes(scene, "install", "top", "--frozen") == (5, "lock_outdated")


def test_i12_a_yanked_version_is_installed_from_a_lock_with_a_warning(scene: Scene) -> None:
    scene.publish("1.1.0")
    scene.run("lock", "demo")
    scene.offers.yank(scene.author, "demo", "1.1.0", "loses data")
    scene.index.take(scene.offers)
    person = scene.newcomer()
    done = scene.run("sync", person=person)
    assert "warning: `demo 1.1.0` is yanked: loses data" in done["notes"]
    assert person.installed() == {"demo": "1.1.0"}
    assert person.run("list")["plugins"][0]["status"] == "yanked"
    other = scene.newcomer()
    scene.run("install", "demo", person=other)
    assert other.installed() == {"demo": "1.0.0"}


def test_what_is_revoked_is_not_installed_from_a_lock(tmp_path: Path) -> None:
    here = Here(tmp_path)
    digest = here.publish()
    here.publish("1.1.0")
    (head,) = json.loads(here.offers.document("demo"))["history"]
    words, registry = here.author.signer.words, here.offers.ref.id
    row = plugin(digest=digest, signer=words, registry=registry, head=head)
    lock = LockFile(version=1, registries={registry: LockedRegistry()}, plugins={"demo": row})
    entry = Revocation(kind="digest", value=digest, level="refuse", reason="bad", at=datetime.now(UTC))
    here.offers.revocations = RevocationList(entries=(entry,))
    error = here.refused(sync, here.root, lock, [here.offers], options=Options())
    assert (type(error), error.code) == (NotAllowed, "revoked")
    here.offers.revocations = RevocationList()
    sync(here.root, lock, [here.offers])
    assert here.listed() == {"demo": "1.0.0"}


def aged(scene: Scene, days: int) -> None:
    """Let the index be as old as if nobody had renewed it for so long."""
    scene.index.now = datetime.now(UTC) - timedelta(days=days)
    scene.index.seal()


def test_frozen_works_where_the_index_is_not_renewed_any_more(scene: Scene) -> None:
    scene.run("lock", "demo")
    aged(scene, 20)
    person = scene.newcomer()
    assert codes(scene, "install", "demo", person=person) == (7, "index_expired")
    done = scene.run("sync", person=person)
    assert f"note: the index of {scene.url} is 20 days old" in done["notes"]
    assert changes(scene.run("install", "demo", "--frozen", person=scene.newcomer())) == {
        "demo": ("installed", "1.0.0")
    }


def test_k2_frozen_warns_of_a_month_and_refuses_a_year(scene: Scene) -> None:
    scene.run("lock", "demo")
    aged(scene, 40)
    done = scene.run("sync", person=scene.newcomer())
    assert any(note.startswith("warning:") and "40 days old" in note for note in done["notes"])
    aged(scene, 400)
    person = scene.newcomer()
    assert codes(scene, "sync", person=person) == (7, "index_too_old")
    scene.run("sync", "--allow-old-index", person=person)
    assert person.installed() == {"demo": "1.0.0"}
