"""The online keys of the index in a key service: `PLUGREG_REGISTRY_KEYS` and `_REVOCATIONS_KEY` as URIs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from plugreg_registry.app import prepare
from plugreg_registry.operating import rotate
from plugreg_registry.rotation import Rotation
from plugreg_registry.settings import read_settings
from plugreg_registry.signers import ONLINE as ONLINE_ROLES
from plugreg_registry.signers import Keys, ServiceSigner
from plugreg_schemas.errors import Temporary, UsageError
from tests.registry.test_command import command, refused
from tests.support.commands import User
from tests.support.key_service import SECRET_KEY, KeyService, aws
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import RegistryProcess, running
from tests.support.scripted import Answer, serving
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Iterator

ONLINE, REVOCATIONS, NEXT = "alias/online", "alias/revocations", "alias/next"
DOWN = Answer(503, b"{}")


@pytest.fixture(scope="module")
def service() -> KeyService:
    names = (ONLINE, REVOCATIONS, NEXT)
    return KeyService(others={name: ec.generate_private_key(ec.SECP256R1()) for name in names})


@pytest.fixture(scope="module")
def cloud(service: KeyService) -> Iterator[dict[str, str]]:
    """The environment in which the keys are named and found."""
    with serving(service) as server:
        yield aws(server.url) | {
            "PLUGREG_REGISTRY_KEYS": f"awskms:{ONLINE}",
            "PLUGREG_REGISTRY_REVOCATIONS_KEY": f"awskms:{REVOCATIONS}",
        }


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, cloud: dict[str, str]) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("registry") / "data", environment=cloud) as registry:
        yield registry


def warnings(registry: RegistryProcess) -> list[str]:
    found: list[str] = ask(registry.url + "readyz").json()["warnings"]
    return found


def said(registry: RegistryProcess, cloud: dict[str, str], *words: str) -> str:
    done = command(*words, "--data", str(registry.data), environment=cloud)
    assert done.returncode == 0, done
    return done.stdout


def test_no_online_key_is_in_a_file_and_readers_verify_what_the_service_signed(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    author = Author(registry.url, registry.id)
    assert author.publish(plugin("kept"), "kept").status == 201
    files = {
        str(path.relative_to(registry.data / "keys")) for path in (registry.data / "keys").rglob("*.pem")
    }
    assert files == {"offline/root.pem", "offline/targets.pem"}
    listed = json.loads(TufClient(tmp_path / "tuf", registry.url).target("plugins/kept.json") or b"")
    assert listed["name"] == "kept"
    assert warnings(registry) == ["root_keys_online"]


def test_the_client_follows_it_with_and_without_a_network(registry: RegistryProcess, tmp_path: Path) -> None:
    author = Author(registry.url, registry.id)
    assert author.publish(plugin("followed"), "followed").status == 201
    user = User(tmp_path)
    user.run("registry", "add", registry.url)
    user.run("install", "followed", "--yes")
    user.run("install", "followed", "--offline", "--yes")


def test_revocations_are_signed_by_a_key_of_their_own(
    registry: RegistryProcess, cloud: dict[str, str], tmp_path: Path
) -> None:
    said(registry, cloud, "revoke", "name", "gone", "--level", "warn", "--reason", "a test")
    client = TufClient(tmp_path / "tuf", registry.url)
    (entry,) = json.loads(client.target("revocations.json") or b"")["entries"]
    assert entry["value"] == "gone"


def test_a_service_that_is_away_stops_no_reader_and_what_waits_comes_when_it_is_back(
    registry: RegistryProcess, service: KeyService, tmp_path: Path
) -> None:
    author = Author(registry.url, registry.id)
    assert author.publish(plugin("before"), "before").status == 201
    service.refusal = DOWN
    try:
        answer = author.publish(plugin("during"), "during")
        assert answer.status in {202, 503}, answer
        assert ask(registry.url + "index/plugins/before.json").status == 200
        assert ask(registry.url + "readyz").status == 200
        assert "key_service_failing" in warnings(registry)
    finally:
        service.refusal = None
    end = time.monotonic() + 60
    while ask(registry.url + "index/plugins/during.json").status == 404 and time.monotonic() < end:
        time.sleep(0.2)
    assert TufClient(tmp_path / "tuf", registry.url).target("plugins/during.json")
    assert "key_service_failing" not in warnings(registry)
    assert SECRET_KEY not in "".join(registry.log)


def test_keys_move_into_a_service_to_another_key_and_back(
    tmp_path: Path, cloud: dict[str, str], service: KeyService
) -> None:
    keys = tmp_path / "data" / "keys"
    with running(tmp_path / "data") as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin("moved"), "moved").status == 201
    every, some = {"snapshot", "timestamp", "index", "revocations"}, ("snapshot", "timestamp", "index")
    folder = aws(cloud["AWS_ENDPOINT_URL_KMS"])
    for number, (environment, roles, left) in enumerate(
        (
            (cloud, (), set()),
            (cloud | {"PLUGREG_REGISTRY_KEYS": f"awskms:{NEXT}"}, some, set()),
            (folder, (), every),
        )
    ):
        with running(tmp_path / "data", environment=environment) as registry:
            said(registry, environment, "rotate", *roles)
            assert {path.stem for path in keys.glob("*.pem")} == left
            author, version = Author(registry.url, registry.id, author.key), f"1.{number}.1"
            assert author.publish(plugin("moved", version), "moved", version).status == 201
            for reader in (
                TufClient(tmp_path / "follows", registry.url),
                TufClient(tmp_path / f"new{number}", registry.url),
            ):
                shown = json.loads(reader.target("plugins/moved.json") or b"")
                assert version in {entry["version"] for entry in shown["versions"]}


def test_a_key_that_signs_already_is_not_rotated_to_itself(
    registry: RegistryProcess, cloud: dict[str, str]
) -> None:
    before = sorted(path.name for path in (registry.objects / "index/metadata").glob("*.root.json"))
    done = command("rotate", "--data", str(registry.data), environment=cloud)
    assert "sign already" in refused(done, 2)
    assert sorted(p.name for p in (registry.objects / "index/metadata").glob("*.root.json")) == before


def test_a_rotation_to_a_service_that_was_cut_off_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is written, the root is not: of the wanted roles some have their new keys by then."""
    made = {role: Keys(tmp_path / "made").make(role) for role in ("index", "revocations")}
    data = str(tmp_path / "data")
    prepare(read_settings({}, data))
    uris = {"KEYS": "index", "REVOCATIONS_KEY": "revocations"}
    settings = read_settings(
        {f"PLUGREG_REGISTRY_{name}": f"file2:{tmp_path / 'made' / role}.pem" for name, role in uris.items()},
        data,
    )
    monkeypatch.setattr(Rotation, "_put_root", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rotate(settings, ONLINE_ROLES, None, rest=0)
    monkeypatch.undo()
    rotate(settings, ONLINE_ROLES, None, rest=0)
    root = json.loads((tmp_path / "data/objects/index/metadata/2.root.json").read_bytes())["signed"]
    assert root["roles"]["snapshot"]["keyids"] == [made["index"].public_key.keyid]


def test_a_signature_by_another_key_than_the_service_shows_is_never_used(
    cloud: dict[str, str], service: KeyService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cloud.items():
        monkeypatch.setenv(name, value)
    uri = f"awskms:{NEXT}"
    keys = Keys(Path("nowhere"), uris={"index": uri})
    (signer,) = keys.all("index")
    assert ServiceSigner.from_priv_key_uri(uri, signer.public_key).public_key == signer.public_key
    monkeypatch.setitem(service.others, NEXT, service.others[ONLINE])
    with pytest.raises(ValueError, match=NEXT):
        ServiceSigner.from_priv_key_uri(uri, signer.public_key)
    with pytest.raises(Temporary, match="key_service_failed"):
        signer.sign(b"payload")
    assert keys.failing


def test_two_names_of_one_key_do_not_sign_revocations_and_the_rest(tmp_path: Path) -> None:
    made = Keys(tmp_path / "made")
    made.make("index")
    (tmp_path / "made" / "twin.pem").write_bytes((tmp_path / "made" / "index.pem").read_bytes())
    names = {"PLUGREG_REGISTRY_KEYS": "index", "PLUGREG_REGISTRY_REVOCATIONS_KEY": "twin"}
    environment = {name: f"file2:{tmp_path / 'made' / key}.pem" for name, key in names.items()}
    with pytest.raises(UsageError) as found:
        prepare(read_settings(environment, str(tmp_path / "data")))
    assert found.value.code == "keys_not_apart"


def test_a_service_that_is_away_at_the_first_start_is_named(tmp_path: Path, cloud: dict[str, str]) -> None:
    away = cloud | {"AWS_ENDPOINT_URL_KMS": "http://127.0.0.1:9"}
    done = command("init", "--data", str(tmp_path / "data"), environment=away)
    assert f"`awskms:{ONLINE}` does not answer" in refused(done, 8)
    assert command("init", "--data", str(tmp_path / "data"), environment=cloud).returncode == 0


def test_a_file_by_its_uri_signs(tmp_path: Path) -> None:
    key = Keys(tmp_path / "made").make("index")
    settings = read_settings(
        {"PLUGREG_REGISTRY_KEYS": f"file2:{tmp_path / 'made' / 'index.pem'}"}, str(tmp_path / "data")
    )
    keys = Keys(settings.keys, uris=settings.key_uris)
    assert settings.keys == tmp_path / "data" / "keys"
    named = (key.public_key.keyid,)
    assert {keys.signer(role, named).public_key for role in ("snapshot", "timestamp", "index")} == {
        key.public_key
    }
    assert keys.find("revocations", named) is None


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"KEYS": "awskms:alias/a", "REVOCATIONS_KEY": "awskms:alias/a"}, "of their own"),
        ({"REVOCATIONS_KEY": "/some/folder"}, "no URI"),
        ({"KEYS": "awskm:alias/a"}, "no folder"),
        ({"KEYS": "envvar:KEY"}, "no folder"),
        ({"REVOCATIONS_KEY": "nothing:here"}, "no URI"),
    ],
)
def test_uris_that_cannot_be_meant(tmp_path: Path, settings: dict[str, str], word: str) -> None:
    with pytest.raises(UsageError) as found:
        read_settings({f"PLUGREG_REGISTRY_{name}": value for name, value in settings.items()}, str(tmp_path))
    assert word in str(found.value.findings[0].message)
