"""`plugreg mirror`: a folder from which plugins are installed when the registry is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from plugreg.index.terms import Terms
from plugreg.mirror import OWN_FOLDER, mirror
from plugreg.remote import Remote
from plugreg_schemas.errors import IntegrityError, NotAllowed, NotAvailable
from plugreg_schemas.names import PluginName
from tests.support.attacked import attacked
from tests.support.commands import User
from tests.support.publisher import Author, Key, digest_of, plugin
from tests.support.registries import RegistryProcess, running
from tests.support.scripted import Answer, Request, serving
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


KEYS: dict[str, Author] = {}
"""One author for each registry."""
MOVES = 40
"""More than there are files of one release."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with running(tmp_path / "registry") as found:
        yield found


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


def publish(registry: RegistryProcess, name: str = "demo", version: str = "1.0.0") -> bytes:
    bundle = plugin(name, version)
    key = KEYS.setdefault(registry.id, Author(registry.url, registry.id))
    assert key.publish(bundle, name, version).status == 201
    return bundle


def blob(folder: Path, bundle: bytes) -> Path:
    return folder / "blobs" / "sha256" / digest_of(bundle)[7:]


def files(folder: Path) -> dict[str, bytes]:
    """What readers of a mirror can see."""
    paths = (path for path in folder.rglob("*") if path.is_file() and OWN_FOLDER not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)


def test_a_mirror_serves_installs_and_updates_when_the_registry_is_gone(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    publish(registry, "other")
    done = user.run("mirror", str(there), "--registry", registry.url)
    assert (done["folder"], done["plugins"]) == (str(there), 2)
    reader = User(tmp_path / "reader")
    reader.run("registry", "add", there.as_uri())
    reader.run("install", "demo", "other")
    publish(registry, version="1.1.0")
    user.run("mirror", str(there), "--registry", registry.url)
    registry.stop()
    updated = {row["name"]: row["version"] for row in reader.run("update")["installed"]}
    assert updated == {"demo": "1.1.0", "other": "1.0.0"}
    User(tmp_path / "newcomer").run("install", "demo", "--registry", there.as_uri())


def test_any_web_server_may_serve_a_mirror(registry: RegistryProcess, user: User, tmp_path: Path) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    user.run("mirror", str(there), "--registry", registry.url)
    registry.stop()

    def answer(request: Request) -> Answer:
        place = there / request.path[1:]
        return Answer(content=place.read_bytes()) if place.is_file() else Answer(404)

    with serving(answer) as server:
        row = User(tmp_path / "reader").run("install", "demo", "--registry", server.url)["installed"][0]
    assert (row["version"], row["registry"]["id"]) == ("1.0.0", registry.id)


def test_a_mirror_has_every_part_of_the_index_for_an_unmodified_tuf_client(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    user.run("mirror", str(there), "--registry", registry.url)
    client = TufClient(tmp_path / "client", there)
    for target in ("plugins/demo.json", "trust.json", "revocations.json"):
        assert client.target(target) == (there / "index" / target).read_bytes()
    named = json.loads(max((there / "index/metadata").glob("*.snapshot.json")).read_bytes())["signed"]["meta"]
    assert all((there / f"index/metadata/{meta['version']}.{name}").is_file() for name, meta in named.items())
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in there.rglob("*.json"))


def test_a_second_mirror_fetches_only_what_is_new(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    old = publish(registry)
    first = user.run("mirror", str(there), "--registry", registry.url)
    before = blob(there, old).stat().st_ino
    again = user.run("mirror", str(there), "--registry", registry.url)
    assert again["fetched"] <= 6 < first["fetched"], "a timer of the registry may have signed its list"
    new = publish(registry, version="1.1.0")
    third = user.run("mirror", str(there), "--registry", registry.url)
    assert blob(there, new).read_bytes() == new
    assert blob(there, old).stat().st_ino == before
    assert third["fetched"] < 16
    assert third["bytes"] < first["bytes"]


def test_what_was_damaged_in_the_folder_is_fetched_again(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    bundle = publish(registry)
    user.run("mirror", str(there), "--registry", registry.url)
    damaged = [blob(there, bundle), *there.glob("attestations/sha256/*"), *there.glob("index/plugins/*.json")]
    damaged += there.glob("index/metadata/*.bin-*.json")
    before = [path.read_bytes() for path in damaged]
    for path in damaged:
        alter(path)
    user.run("mirror", str(there), "--registry", registry.url)
    assert [path.read_bytes() for path in damaged] == before


def test_a_byte_that_is_flipped_in_a_bundle_is_refused_and_not_written(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    user.run("mirror", str(there), "--registry", registry.url)
    timestamp = (there / "index/metadata/timestamp.json").read_bytes()
    new = publish(registry, version="1.1.0")
    alter(blob(registry.objects, new))
    problem = user.fails("mirror", str(there), "--registry", registry.url, code=4)
    assert problem["code"] == "digest_mismatch"
    assert not blob(there, new).exists()
    assert (there / "index/metadata/timestamp.json").read_bytes() == timestamp
    reader = User(tmp_path / "reader")
    assert reader.run("install", "demo", "--registry", there.as_uri())["installed"][0]["version"] == "1.0.0"


def test_a_byte_that_is_flipped_in_a_statement_is_refused_and_not_written(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    for path in registry.objects.glob("attestations/sha256/*.json"):
        alter(path)
    problem = user.fails("mirror", str(there), "--registry", registry.url, code=4)
    assert problem["code"] == "attestation_altered"
    assert not list(there.glob("attestations/sha256/*"))


@pytest.mark.parametrize("pattern", ["index/plugins/*.demo.json", "index/metadata/*.bin-*.json"])
def test_a_byte_that_is_flipped_in_the_index_is_refused_and_not_written(
    registry: RegistryProcess, user: User, tmp_path: Path, pattern: str
) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    for path in registry.objects.glob(pattern):
        alter(path)
    user.fails("mirror", str(there), "--registry", registry.url, code=4)
    assert not list(there.rglob("*demo.json"))
    assert not (there / "index/metadata").exists()


KILLED_AFTER_ONE = """
import os, signal, sys
from plugreg.cli import main
moved = 0
def watch(event, args):
    global moved
    if event == "os.rename" and os.fspath(args[1]).startswith(sys.argv[2]):
        moved += 1
        if moved == 2:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
sys.exit(main(sys.argv[1:]))
"""
"""A command that is killed when it has put one file in its place and is about to move the next."""


def test_killed_before_every_move_readers_see_the_old_or_the_new_state_and_the_next_goes_on(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    publish(registry)
    words = ("mirror", str(there), "--registry", registry.url)
    user.run(*words)
    publish(registry, version="1.1.0")
    ended: list[int] = []
    versions: list[str] = []
    while len(ended) < MOVES and 0 not in ended:
        ended.append(subprocess.call([sys.executable, "-c", KILLED_AFTER_ONE, *words], env=user.env()))
        reader = Remote(there.as_uri(), Terms(tmp_path / f"home{len(ended)}"))
        versions.append(json.loads(reader.document("demo"))["versions"][-1]["version"])
    assert set(ended[:-1]) == {-signal.SIGKILL}
    assert ended[-1] == 0
    assert versions == sorted(versions), "there is one commit point"
    assert (versions[0], versions[-1]) == ("1.0.0", "1.1.0")
    User(tmp_path / "reader").run("install", "demo@1.1.0", "--registry", there.as_uri())


def test_names_choose_whose_bundles_are_copied_and_the_index_is_complete(
    registry: RegistryProcess, user: User, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    wanted, other = publish(registry), publish(registry, "other")
    assert user.run("mirror", str(there), "demo", "--registry", registry.url)["plugins"] == 1
    assert blob(there, wanted).exists()
    assert not blob(there, other).exists()
    reader = User(tmp_path / "reader")
    reader.run("install", "demo", "--registry", there.as_uri())
    reader.fails("install", "other", "--registry", there.as_uri(), code=7)
    problem = user.fails("mirror", str(there), "nothing", "--registry", registry.url, code=7)
    assert problem["code"] == "plugin_not_found"


def test_a_bundle_that_the_registry_lost_is_named_and_the_rest_is_copied(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    there = tmp_path / "mirror"
    lost, whole = publish(registry), publish(registry, "other")
    blob(registry.objects, lost).unlink()
    with pytest.raises(NotAvailable, match=r"`demo` 1\.0\.0; everything else was copied .bundle_missing."):
        mirror(there, [], Remote(registry.url, Terms(tmp_path / "home")))
    assert blob(there, whole).read_bytes() == whole
    User(tmp_path / "reader").run("install", "other", "--registry", there.as_uri())


def test_bundles_of_a_removed_plugin_need_not_be_there(tmp_path: Path) -> None:
    there, admin = tmp_path / "mirror", Key()
    with running(tmp_path / "data", environment={"PLUGREG_REGISTRY_ADMINS": f"key:{admin.id}"}) as registry:
        removed, kept = publish(registry), publish(registry, "other")
        moderator = Author(registry.url, registry.id, admin)
        assert moderator.state("status", state="removed", reason="examined").status == 201
        assert not blob(registry.objects, removed).exists()
        assert mirror(there, [], Remote(registry.url, Terms(tmp_path / "home"))).plugins == 2
    assert not blob(there, removed).exists()
    assert blob(there, kept).read_bytes() == kept


def test_readers_who_pinned_an_older_root_can_go_on_from_a_mirror_by_somebody_new(tmp_path: Path) -> None:
    there, again = tmp_path / "copy", tmp_path / "again"
    with attacked(tmp_path) as scene:
        scene.publish("1.0.0")
        scene.run("install", "demo")
        for roles in (("root",), ("timestamp", "snapshot"), ("root", "targets")):
            scene.index.rotate(*roles)
        scene.publish("1.1.0")
        scene.newcomer().run("mirror", str(there), "--registry", scene.url)
        scene.person.run("mirror", str(again), "--registry", scene.url)
    assert files(there) == files(again)
    scene.person.run("update", "--registry", there.as_uri())
    assert scene.person.installed() == {"demo": "1.1.0"}


def test_a_folder_that_is_something_else_is_left_alone(registry: RegistryProcess, tmp_path: Path) -> None:
    publish(registry)
    before = files(registry.objects).keys()
    with pytest.raises(NotAllowed, match="not_ours"):
        mirror(registry.objects, [], Remote(registry.url, Terms(tmp_path / "home")))
    assert files(registry.objects).keys() >= before
    assert not (registry.objects / OWN_FOLDER).exists()
    own = tmp_path / "mirror" / OWN_FOLDER
    own.mkdir(parents=True)
    (own / "registry").write_text("urn:uuid:00000000-0000-4000-8000-000000000000")
    with pytest.raises(NotAllowed, match="not_ours"):
        mirror(tmp_path / "mirror", [PluginName("demo")], Remote(registry.url, Terms(tmp_path / "home")))


def test_a_state_that_is_not_signed_is_not_mirrored(registry: RegistryProcess, tmp_path: Path) -> None:
    there, home = tmp_path / "mirror", tmp_path / "home"
    mirror(there, [], Remote(registry.url, Terms(home)))
    alter(next(registry.objects.glob("index/metadata/timestamp.json")))
    before = files(there)
    with pytest.raises(IntegrityError):
        mirror(there, [], Remote(registry.url, Terms(home)))
    assert files(there) == before
