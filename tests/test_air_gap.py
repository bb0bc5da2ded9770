"""Machines without a network: a copy of the registry's objects, and no interface over which anyone could be asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.attacked import attacked
from tests.support.commands import PROGRAMS, User, write_plugin
from tests.support.registries import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.attacked import Scene

NAMESPACE = ["unshare", "--user", "--map-root-user", "--net", "--"]
FIRST_TIME = 10


@pytest.fixture(scope="module")
def namespace() -> list[str]:
    """What starts a command where there is no network: only a loopback interface, and that one is down."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACE, "true"], check=False).returncode:
        pytest.skip("this machine gives no network namespace (`unshare --user --net`)")
    return NAMESPACE


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with attacked(tmp_path_factory.mktemp("registry")) as found:
        found.publish("1.0.0")
        found.write()
        yield found


def user_at(folder: Path, **environment: str) -> User:
    user = User(folder, environment)
    user.folder.mkdir()
    return user


def alone(namespace: list[str], user: User, *words: str) -> Any:
    """Run a command where nobody can be asked; it must succeed."""
    done = subprocess.run(
        [*namespace, PROGRAMS / "plugreg", *words, "--json"],
        env=user.env(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def test_t23_k1_install_and_verify_from_a_copy_without_a_network(
    namespace: list[str], scene: Scene, tmp_path: Path
) -> None:
    user = user_at(tmp_path / "ann")
    url = scene.mirror.as_uri()
    (row,) = alone(namespace, user, "install", "demo", "--registry", url)["installed"]
    assert (row["version"], row["registry"]["id"]) == ("1.0.0", scene.index.registry)
    (verified,) = alone(namespace, user, "verify")["plugins"]
    assert verified["verdict"] == "verified"
    alone(namespace, user, "registry", "add", url, "--name", "copy", "--root-digest", scene.index.root_digest)
    alone(namespace, user, "update")
    alone(namespace, user, "info", "demo")


def test_t23_k1_everything_that_was_seen_once_works_without_a_network(
    namespace: list[str], scene: Scene, tmp_path: Path
) -> None:
    """`--offline`: index, statements and bundle are on this machine already."""
    user = user_at(tmp_path / "bob")
    user.run("install", "demo", "--registry", scene.url)
    alone(namespace, user, "install", "demo", "--offline", "--registry", scene.url)
    alone(namespace, user, "verify")
    alone(namespace, user, "list")


def test_t23_k1_a_locked_project_from_a_copy_without_a_network(
    namespace: list[str], scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that was made online is obeyed from a copy; once more without it, from what was seen."""
    monkeypatch.chdir(tmp_path)
    user_at(tmp_path / "ann").run("lock", "demo", "--registry", scene.url)
    user = user_at(tmp_path / "carol")
    for more in ([], ["--offline"]):
        done = alone(namespace, user, "sync", "--registry", scene.mirror.as_uri(), *more)
        assert done["installed"][0]["version"] == "1.0.0"
    assert alone(namespace, user, "lock")["plugins"][0]["version"] == "1.0.0"


def test_t23_k1_keyless_signature_from_the_objects_of_a_real_registry(
    namespace: list[str], sigstore: Any, tmp_path: Path
) -> None:
    """The folder that the registry serves is a copy by itself; the trust material comes with the index."""
    config = tmp_path / "trust.json"
    config.write_bytes(sigstore.trust_config())
    author = user_at(tmp_path / "author", PLUGREG_TRUST_CONFIG=str(config))
    folder = write_plugin(tmp_path / "plugin", files={"v.txt": "1.0.0"})
    token = author.folder / "token"
    token.write_text(sigstore.ci_token())
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(config)}
    with running(tmp_path / "data", environment=settings) as registry:
        words = ["publish", str(folder), "--identity-token-file", str(token)]
        author.run(*words, "--registry", registry.url)
    user = user_at(tmp_path / "user")
    alone(namespace, user, "install", "demo", "--registry", (tmp_path / "data/objects").as_uri())
    user.environment["PLUGREG_TRUST_CONFIG"] = str(config)
    (row,) = alone(namespace, user, "verify")["plugins"]
    assert row["verdict"] == "verified"


def test_t23_k1_an_export_is_imported_installed_and_verified_without_a_network(
    namespace: list[str], scene: Scene, tmp_path: Path
) -> None:
    """Pins stay: who knew the registry by its URL goes on from what was seen there."""
    file = str(tmp_path / "demo.plugreg")
    user_at(tmp_path / "ann").run("export", file, "--registry", scene.url)
    user = user_at(tmp_path / "bob")
    user.run("registry", "add", scene.url, "--name", "online")
    (before,) = user.run("install", "demo")["installed"]
    (known,) = user.run("registry", "list")["registries"]
    alone(namespace, user, "import", file, "--name", "carried")
    alone(namespace, user, "install", "demo", "--registry", "carried")
    alone(namespace, user, "update", "--registry", "carried")
    (verified,) = alone(namespace, user, "verify")["plugins"]
    assert verified["verdict"] == "verified"
    rows = alone(namespace, user, "registry", "list")["registries"]
    assert [(row["name"], row["id"], row["root"]) for row in rows] == [
        (name, known["id"], known["root"]) for name in ("online", "carried")
    ]
    newcomer = user_at(tmp_path / "carol")
    alone(namespace, newcomer, "import", file, "--root-digest", scene.index.root_digest)
    (row,) = alone(namespace, newcomer, "install", "demo")["installed"]
    assert (row["digest"], row["signer"]) == (before["digest"], before["signer"])


@pytest.mark.parametrize("way", ["http", "folder"])
def test_k9_first_time_installs_at_once_with_an_empty_cache(scene: Scene, tmp_path: Path, way: str) -> None:
    """Ten commands, one home that knows nothing yet, ten plugins roots: all pass."""
    url = scene.url if way == "http" else scene.mirror.as_uri()
    user = user_at(tmp_path / "ann")
    started = []
    for number in range(FIRST_TIME):
        user.environment["PLUGREG_ROOT"] = str(tmp_path / f"root-{number}")
        started.append(user.start("install", "demo", "--registry", url, "--json"))
    ended = [user.end(process) for process in started]
    assert [done.returncode for done in ended] == [0] * FIRST_TIME, [done.stdout for done in ended]
    assert all((tmp_path / f"root-{n}/demo/v.txt").read_text() == "1.0.0" for n in range(FIRST_TIME))


def test_k9_first_time_installs_at_once_into_one_root(scene: Scene, tmp_path: Path) -> None:
    user = user_at(tmp_path / "ann")
    started = [user.start("install", "demo", "--registry", scene.url, "--json") for _ in range(FIRST_TIME)]
    assert [user.end(process).returncode for process in started] == [0] * FIRST_TIME
