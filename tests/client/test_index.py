"""The signed index as a person meets it: roots that are pinned, copies in folders, machines without a network."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from plugreg.arrival import Arrival
from plugreg.index.folder import IndexFolder
from plugreg.index.signed import seen_revocations
from plugreg.index.terms import Terms
from plugreg.link import Patience
from plugreg.objects import FolderObjects, folder_of
from plugreg.reader import Reader
from plugreg.remote import Remote
from plugreg_schemas.errors import InvalidInput, NotAllowed, NotAvailable, PlugregError, TooLarge, UsageError
from tests.support.attacked import Scene, attacked
from tests.support.record import REGISTRY
from tests.support.scripted import Answer, Request, serving
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_schemas.names import Digest

WRONG = "sha256:" + "0" * 64
QUICK = Patience(tries=2, first_pause_s=0.001, longest_pause_s=0.01)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with attacked(tmp_path) as found:
        found.publish("1.0.0")
        yield found


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Scene]:
    with attacked(tmp_path, "folder") as found:
        found.publish("1.0.0")
        found.write()
        yield found


def pinned(scene: Scene) -> Digest | None:
    pin = IndexFolder.of(scene.person.home, scene.offers.ref.id).pin()
    return pin.digest if pin else None


def new_registry(scene: Scene) -> None:
    """The registry is made anew, with the same id and what it offers: other keys, another root."""
    scene.index = TufRepository(scene.offers.ref.id)
    scene.index.take(scene.offers)


# --- the pin ---------------------------------------------------------------------------------------------------------


def test_the_first_use_pins_the_newest_root_and_says_so_once(scene: Scene) -> None:
    scene.index.rotate("root")
    told = scene.run("install", "demo")["notes"]
    assert [note for note in told if f"pinned the root {scene.index.root_digest}" in note]
    assert pinned(scene) == scene.index.root_digest
    assert scene.run("update")["notes"] == []


def test_add_list_and_remove_show_and_forget_the_root(scene: Scene) -> None:
    added = scene.person.run("registry", "add", scene.url, "--name", "team")
    root = {"version": 1, "digest": scene.index.root_digest}
    assert added["root"] == root
    (row,) = scene.person.run("registry", "list")["registries"]
    assert (row["name"], row["root"]) == ("team", root)
    scene.person.run("registry", "add", scene.url.replace("127.0.0.1", "localhost"), "--name", "mirror")
    scene.person.run("registry", "remove", "mirror")
    assert pinned(scene) == scene.index.root_digest, "another address of it is known"
    scene.person.run("registry", "remove", "team")
    assert pinned(scene) is None


def test_a_registry_is_added_by_the_digest_of_its_newest_root_or_of_an_older_one(scene: Scene) -> None:
    older = scene.index.root_digest
    scene.index.rotate("timestamp")
    for digest in (scene.index.root_digest, older):
        person = scene.newcomer()
        assert person.run("registry", "add", scene.url, "--root-digest", digest)["root"]["digest"] == digest
        scene.run("install", "demo", person=person)


def test_a_registry_is_not_added_by_a_digest_that_is_none_of_its_roots(scene: Scene) -> None:
    code, problem = scene.person.fails("registry", "add", scene.url, "--root-digest", WRONG)
    assert (code, problem["code"]) == (4, "root_mismatch")
    assert WRONG in problem["detail"]
    assert scene.index.root_digest in problem["detail"]
    assert scene.person.run("registry", "list") == {"registries": []}
    code, problem = scene.person.fails("registry", "add", scene.url, "--root-digest", "sha256:1")
    assert (code, problem["code"]) == (3, "digest_invalid")


def test_a_digest_that_contradicts_the_pin_is_refused(scene: Scene) -> None:
    scene.run("install", "demo")
    code, problem = scene.person.fails("registry", "add", scene.url, "--root-digest", WRONG)
    assert (code, problem["code"]) == (4, "root_mismatch")
    assert scene.person.run("registry", "add", scene.url, "--root-digest", scene.index.root_digest)


def test_first_use_refuse_takes_no_root_but_one_that_is_named(scene: Scene) -> None:
    scene.person.environment["PLUGREG_FIRST_USE"] = "refuse"
    said = scene.refused("install", "demo", exits=6, codes="root_not_pinned")
    assert "--root-digest" in said
    assert scene.person.fails("registry", "add", scene.url)[1]["code"] == "root_not_pinned"
    assert pinned(scene) is None
    scene.person.run("registry", "add", scene.url, "--root-digest", scene.index.root_digest)
    assert pinned(scene) == scene.index.root_digest


def test_first_use_refuse_sends_nothing_to_a_registry_whose_root_is_not_pinned(
    scene: Scene, tmp_path: Path
) -> None:
    scene.person.run("key", "new")
    scene.person.run("init", str(tmp_path / "mine"))
    scene.person.environment["PLUGREG_FIRST_USE"] = "refuse"
    scene.server.requests.clear()
    code, problem = scene.person.fails("publish", str(tmp_path / "mine"), "--registry", scene.url)
    assert (code, problem["code"]) == (6, "root_not_pinned")
    assert all("/v1/" not in str(request) for request in scene.server.requests)


def test_another_root_is_taken_only_by_its_exact_digest(scene: Scene) -> None:
    scene.run("install", "demo")
    before = pinned(scene)
    new_registry(scene)
    scene.server.requests.clear()
    with serving(scene.index.answer) as server:
        scene.server.url = server.url
        for words in ((), ("--yes",), ("--accept-root", WRONG)):
            said = scene.refused("update", *words, exits=4, codes="root_changed")
            assert str(before) in said
            assert scene.index.root_digest in said
        told = scene.run("update", "--accept-root", scene.index.root_digest)["notes"]
        assert [note for note in told if "pinned the root" in note]
        assert pinned(scene) == scene.index.root_digest
        scene.run("update")
    code, problem = scene.person.fails("update", "--accept-root", "yes", "--registry", scene.url)
    assert (code, problem["code"]) == (3, "digest_invalid")


def test_a_rotated_root_follows_from_the_pinned_one_and_needs_no_consent(scene: Scene) -> None:
    scene.run("install", "demo")
    before = pinned(scene)
    for roles in (("root",), ("timestamp", "snapshot"), ("root", "targets")):
        scene.index.rotate(*roles)
    scene.publish("1.1.0")
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.1.0"}
    assert pinned(scene) == before


def test_a_root_that_could_not_be_verified_is_not_pinned(scene: Scene) -> None:
    del scene.index.store["index/metadata/timestamp.json"]
    scene.refused("install", "demo", exits=7, codes="index_missing")
    assert pinned(scene) is None


# --- without a network -----------------------------------------------------------------------------------------------


def test_offline_makes_no_connection_and_says_how_old_the_index_is(scene: Scene) -> None:
    scene.run("install", "demo")
    scene.server.requests.clear()
    told = scene.run("install", "demo", "--offline")
    assert told["installed"][0]["change"] == "unchanged"
    assert any(note.endswith("less than an hour old") for note in told["notes"])
    assert scene.run("info", "demo", "--offline")["verdict"] == "verified"
    assert scene.server.requests == []


def test_offline_what_is_not_here_is_said_to_be_elsewhere(scene: Scene) -> None:
    scene.publish("1.0.0", "other")
    scene.refused("install", "demo", "--offline", exits=7, codes="offline")
    scene.run("info", "demo")
    scene.server.requests.clear()
    said = scene.refused("install", "demo", "--offline", exits=7, codes="offline")
    assert "without `--offline`" in said
    scene.refused("install", "other", "--offline", exits=7, codes="offline")
    assert scene.server.requests == []


def test_offline_installs_again_what_the_store_has(scene: Scene) -> None:
    scene.run("install", "demo")
    scene.publish("1.1.0")
    scene.run("update")
    scene.person.run("uninstall", "demo")
    scene.refused("install", "demo", "--offline", exits=7, codes="offline")


def test_offline_a_document_that_was_overtaken_is_missing_and_not_forged(scene: Scene) -> None:
    """The snapshot is newer than the kept bin: that is no attack, and online it is got."""
    scene.run("install", "demo")
    scene.publish("1.1.0")
    scene.publish("1.0.0", next(n for n in map(str, range(1000)) if not same_bin(scene, n)))
    scene.run("info", next(iter(scene.index.documents.keys() - {"demo"})))
    scene.refused("update", "--offline", exits=7, codes="offline")
    scene.run("update")


def same_bin(scene: Scene, name: str) -> bool:
    return scene.index.bin_of(name) == scene.index.bin_of("demo")


@pytest.mark.parametrize(
    ("days", "code", "word"), [(3, "", "note"), (31, "", "warning"), (366, "index_too_old", "")]
)
def test_an_index_without_a_network_may_be_old_to_a_degree(
    tmp_path: Path, days: int, code: str, word: str
) -> None:
    now = datetime.now(UTC)
    index = TufRepository(now=now - timedelta(days=days))
    index.documents["demo"] = b"{}"
    index.publish()
    folder = index.write(tmp_path / "copy")
    told: list[str] = []
    reader = Reader(folder.as_uri(), Terms(tmp_path / "home", say=told.append))
    if code:
        with pytest.raises(NotAvailable, match=code):
            reader.document("demo")
        lenient = Reader(folder.as_uri(), Terms(tmp_path / "home", allow_old_index=True, say=told.append))
        assert lenient.document("demo") == b"{}"
    else:
        assert reader.document("demo") == b"{}"
        assert [note for note in told if note.startswith(word) and f"{days} days old" in note]


def test_a_copy_from_the_future_is_suspect(tmp_path: Path) -> None:
    index = TufRepository(now=datetime.now(UTC) + timedelta(days=2))
    with pytest.raises(NotAvailable, match="clock_suspect"):
        Reader(index.write(tmp_path / "copy").as_uri(), Terms(tmp_path / "home")).document("demo")


def test_an_old_copy_is_no_way_back_from_what_was_seen_online(scene: Scene) -> None:
    old = scene.index.write(scene.folder / "old")
    scene.publish("1.1.0")
    scene.run("install", "demo")
    code, problem = scene.person.fails("update", "--registry", old.as_uri())
    assert (code, problem["code"]) == (4, "index_rolled_back")


# --- a copy in a folder ----------------------------------------------------------------------------------------------


def test_a_folder_is_added_under_its_own_name_and_read(copy: Scene) -> None:
    added = copy.person.run("registry", "add", copy.mirror.as_uri())
    assert added["name"] == "mirror"
    assert added["root"]["digest"] == copy.index.root_digest
    copy.person.run("install", "demo")
    copy.person.run("verify")
    assert copy.person.installed() == {"demo": "1.0.0"}
    assert copy.server.requests == []


def test_a_folder_takes_nothing(copy: Scene, tmp_path: Path) -> None:
    remote = Remote(copy.mirror.as_uri(), Terms(tmp_path / "home"))
    for ask in (lambda: remote.begin_publish({}, 1, ""), lambda: remote.submit({}, "")):
        with pytest.raises(NotAllowed, match="registry_read_only"):
            ask()


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "out",
        "out/x",
        "a\\b",
        "file:///etc/passwd",
        "x\0y",
        "C:x",
    ],
)
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "out").symlink_to(tmp_path / "secret")
    objects = FolderObjects(tmp_path / "objects")
    with pytest.raises(NotAvailable):
        objects.read(path)
    with pytest.raises(NotAvailable):
        objects.receive(path, Arrival(io.BytesIO(), 1), lambda *_: None)


def test_a_folder_where_an_object_should_be_and_one_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "large").write_bytes(b"")
    with (tmp_path / "large").open("wb") as file:
        file.truncate((16 << 20) + 1)
    objects = FolderObjects(tmp_path)
    with pytest.raises(NotAvailable, match="object_missing"):
        objects.read("sub")
    with pytest.raises(NotAvailable, match="object_missing"):
        objects.read("nothing")
    with pytest.raises(TooLarge, match="document_too_large"):
        objects.read("large")


@pytest.mark.parametrize("url", ["file://elsewhere/srv", "file:srv", "file:", "file:///a%00b"])
def test_what_names_no_folder(url: str) -> None:
    with pytest.raises(UsageError, match="registry_url_invalid"):
        folder_of(url)


def test_a_folder_that_is_no_registry(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="not_a_registry"):
        Reader(tmp_path.as_uri(), Terms(tmp_path / "home")).document("demo")


# --- what else the index says ----------------------------------------------------------------------------------------


def revocation(value: str) -> dict[str, str]:
    return {"kind": "name", "value": value, "level": "warn", "reason": "r", "at": "2026-01-01T00:00:00Z"}


def test_a_revocation_that_was_seen_is_kept_whatever_is_served_later(tmp_path: Path) -> None:
    index = TufRepository()
    terms = Terms(tmp_path / "home")
    for value in ("demo", "other"):
        index.revocations = [revocation(value)]
        index.publish()
        Reader(index.write(tmp_path / value).as_uri(), terms).revocations  # noqa: B018 - it is kept then
    seen = [entry.value for entry in seen_revocations(terms.home, REGISTRY).entries]
    assert seen == ["demo", "other"]
    index.revocations = []
    index.publish()
    last = Reader(index.write(tmp_path / "last").as_uri(), terms)
    assert [entry.value for entry in last.revocations.entries] == seen


@pytest.mark.parametrize("number", range(8))
def test_a_command_that_is_killed_while_it_keeps_the_revocations_loses_none(
    tmp_path: Path, number: int
) -> None:
    """The list before is still there then, and stands before the newer one or behind it."""
    terms, index = Terms(tmp_path / "home"), TufRepository()
    lists = []
    for value in ("demo", f"other-{number}"):
        index.revocations.append(revocation(value))
        index.publish()
        Reader(index.write(tmp_path / "mirror").as_uri(), terms).revocations  # noqa: B018 - it is kept then
        (path,) = (terms.home / "index").glob("*/revocations/*")
        lists.append((path, path.read_bytes()))
    for path, content in lists:
        path.write_bytes(content)
    assert [e.value for e in seen_revocations(terms.home, REGISTRY).entries] == ["demo", f"other-{number}"]


def test_a_list_of_revocations_that_nobody_renews_is_warned_of(tmp_path: Path) -> None:
    index = TufRepository()
    index.lifetimes["revocations"] = timedelta(days=-1)
    index.revocations = [revocation("demo")]
    index.publish()
    with serving(index.answer) as server:
        reader = Reader(server.url, Terms(tmp_path / "home"), patience=QUICK)
        assert reader.revocations.entries == ()
        assert [note for note in reader.notes if note.startswith("warning: nothing says what is revoked now")]


def test_the_registry_names_its_own_sigstore_and_the_user_may_name_another(tmp_path: Path) -> None:
    index = TufRepository(sigstore=b"not a trust configuration")
    folder = index.write(tmp_path / "copy")
    reader = Reader(folder.as_uri(), Terms(tmp_path / "home"))
    with pytest.raises(PlugregError):
        reader.sigstore.trusted_root()
    plain = TufRepository("urn:uuid:00000000-0000-4000-8000-000000000077").write(tmp_path / "plain")
    assert Reader(plain.as_uri(), Terms(tmp_path / "home")).sigstore.trusted_root()


def test_what_was_installed_is_verified_by_the_registrys_own_sigstore(tmp_path: Path) -> None:
    """`verify` asks nobody: what the index said of it is kept."""
    from plugreg.config import Config
    from plugreg.trust_material import judges

    index = TufRepository(sigstore=b"not a trust configuration")
    reader = Reader(index.write(tmp_path / "copy").as_uri(), Terms(tmp_path / "home"))
    judge = judges(Config(tmp_path / "home", tmp_path / "root"))
    assert judge(REGISTRY).trusted_root(), "nothing is known of the registry: the public instance"
    assert reader.index.sigstore
    with pytest.raises((InvalidInput, UsageError)):
        judges(Config(tmp_path / "home", tmp_path / "root"))(REGISTRY).trusted_root()


def test_an_index_is_read_once_in_a_command_and_costs_little(scene: Scene) -> None:
    scene.publish("1.0.0", "other")
    scene.run("install", "demo", "other")
    scene.server.requests.clear()
    scene.server.sent = 0
    scene.run("update")
    index = [path for path in scene.server.paths if path.startswith("/index/")]
    assert index == ["/index/metadata/2.root.json", "/index/metadata/timestamp.json"]
    assert scene.server.sent <= 1024


# --- publishing ------------------------------------------------------------------------------------------------------


def test_a_publish_waits_until_readers_can_see_it(tmp_path: Path) -> None:
    receipt = {
        "name": "demo",
        "version": "1.0.0",
        "digest": WRONG,
        "size": 1,
        "published_at": "2026-01-01T00:00:00Z",
        "registry": {"id": REGISTRY},
        "signer": {"kind": "key", "id": WRONG},
        "url": "v1/plugins/demo/1.0.0",
        "attestation": WRONG,
        "index": "pending",
    }

    def answer(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(202, json.dumps(receipt).encode())
        state = "pending" if request.number == 0 else "published"
        return Answer(200, json.dumps({"index": state, "more": 1}).encode())

    from plugreg_schemas.api import PublishSession

    session = PublishSession.model_validate(
        {"session": "s", "upload": "u", "commit": "c", "offset": 0, "expires": "2026-01-01T00:00:00Z"}
    )
    with serving(answer) as server:
        remote = Remote(server.url, Terms(tmp_path / "home"), patience=QUICK)
        assert remote.commit(session).index == "published"
        assert server.paths == ["/c", "/v1/plugins/demo/1.0.0", "/v1/plugins/demo/1.0.0"]


def test_reading_an_index_imports_no_kit_of_a_cloud() -> None:
    """They take longer than an installation, and are imported by a library wherever they are installed."""
    program = (
        "import sys, plugreg.index.signed, plugreg.index.online\n"
        "kits = {'boto3', 'botocore', 'azure.core', 'google.cloud.kms', 'hvac', 'pkcs11'}\n"
        "assert not kits & sys.modules.keys()\n"
        "import boto3\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
