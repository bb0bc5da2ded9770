"""New keys for the index: clients follow, nobody sees a moment at which it does not hold, a crash costs nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import pytest

from plugreg_registry.app import compose, prepare
from plugreg_registry.operating import rotate
from plugreg_registry.rotation import ROLES, Rotation
from plugreg_registry.settings import read_settings
from plugreg_registry.signers import OFFLINE, ONLINE
from plugreg_schemas.errors import NotAvailable, Temporary, UsageError
from plugreg_schemas.fields import format_time
from plugreg_schemas.index import TRUST_TARGET
from tests.registry.test_killed import Line, PowerCut, publish
from tests.support.publisher import Author, Key, plugin
from tests.support.registries import registry_environment, running
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.metadata.lease import DatabaseLease
    from plugreg_registry.settings import Settings
    from tests.support.local_sigstore import LocalSigstore

_NUMBERS = count(1)


@dataclass
class Here:
    """A registry in a folder, without a server."""

    settings: Settings
    author: Author

    @property
    def objects(self) -> Path:
        return self.settings.objects

    def publish(self, *names: str) -> None:
        """Publish as one process that then ends."""
        registry = compose(self.settings)
        try:
            for name in names:
                publish(registry.services.publishing, self.author, name)
        finally:
            registry.close()

    def client(self) -> TufClient:
        """A client that has seen nothing yet."""
        return TufClient(self.settings.data.parent / f"client{next(_NUMBERS)}", self.objects)

    def rotate(self, *roles: str, offline: Path | None = None, **environment: str) -> list[str]:
        settings = read_settings(environment, str(self.settings.data))
        return list(rotate(settings, roles, offline, rest=0))

    def trust(self) -> Any:
        """The trust target as a new client sees it."""
        return json.loads(self.client().target(TRUST_TARGET) or b"")

    def metadata(self, name: str) -> Any:
        return json.loads((self.objects / "index" / "metadata" / name).read_bytes())

    def keys(self) -> set[str]:
        folder = self.settings.keys
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def made(folder: Path, **environment: str) -> Here:
    settings = read_settings(environment, str(folder / "data"))
    return Here(settings, Author("", prepare(settings).ref.id))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Here:
    """A registry that nobody has used: to be copied."""
    return made(tmp_path_factory.mktemp("fresh"))


@pytest.fixture
def here(fresh: Here, tmp_path: Path) -> Here:
    return _copy(fresh, tmp_path)


def words() -> str:
    """The identity of somebody new."""
    return f"key:{Key().id}"


def test_a_client_that_was_away_follows_two_rotations_of_the_root_step_by_step(here: Here) -> None:
    here.publish("demo")
    away = here.client()
    assert away.root_version() == 1
    here.rotate(*ROLES)
    midway = TufClient(here.settings.data.parent / "midway", here.objects)
    assert midway.root_version() == 2
    here.rotate(*ROLES)
    here.publish("other")
    for client in (away, midway, here.client()):
        asked = len(client.fetcher.asked)
        assert client.root_version() == 3
        names = [url.rpartition("/")[2] for url in client.fetcher.asked[asked:]]
        roots = [name for name in names if name.endswith(".root.json")]
        assert roots == ["2.root.json", "3.root.json", "4.root.json"][-len(roots) :]
        assert client.document("demo")["name"] == "demo"
        assert client.document("other")["name"] == "other"


@pytest.mark.parametrize("role", ROLES)
def test_one_role_gets_a_new_key_and_the_others_keep_theirs(here: Here, role: str) -> None:
    here.publish("demo")
    before, client = _named(here), here.client()
    assert client.document("demo") is not None
    said = here.rotate(role)
    after = _named(here)
    assert {name for name in ROLES if before[name] != after[name]} == {role}
    assert f"new keys  {role}" in said
    assert here.keys() == {*(f"{name}.pem" for name in ONLINE), *(f"offline/{name}.pem" for name in OFFLINE)}
    here.publish("other")
    assert client.document("demo") is not None
    assert client.document("other") is not None


def _named(here: Here) -> dict[str, list[str]]:
    """The ids that the newest state names, by role, as an outsider reads them."""
    timestamp = here.metadata("timestamp.json")["signed"]
    snapshot = here.metadata(f"{timestamp['meta']['snapshot.json']['version']}.snapshot.json")["signed"]
    targets = here.metadata(f"{snapshot['meta']['targets.json']['version']}.targets.json")["signed"]
    versions = (
        int(path.name.split(".")[0]) for path in (here.objects / "index/metadata").glob("*.root.json")
    )
    root = here.metadata(f"{max(versions)}.root.json")["signed"]
    named = {role: entry["keyids"] for role, entry in root["roles"].items()}
    return named | {entry["name"]: entry["keyids"] for entry in targets["delegations"]["roles"]}


def test_the_new_root_is_printed_and_discovered(here: Here) -> None:
    said = here.rotate()
    shown = json.loads((here.objects / ".well-known" / "plugreg.json").read_bytes())["trust"]["root"]
    assert shown["version"] == 2
    assert said[:2] == [f"root      {shown['digest']}", "version   2"]
    assert "new keys  none" in said


def test_a_stolen_online_key_signs_nothing_any_more(here: Here, tmp_path: Path) -> None:
    here.publish("demo")
    shutil.copytree(here.settings.keys, tmp_path / "stolen")
    here.rotate(*ONLINE)
    client = here.client()
    assert client.document("demo") is not None
    for role in ONLINE:
        (here.settings.keys / f"{role}.pem").write_bytes((tmp_path / "stolen" / f"{role}.pem").read_bytes())
    registry = compose(replace(here.settings))
    with pytest.raises(Temporary, match="index_key_missing"):
        publish(registry.services.publishing, here.author, "evil")
    registry.close()
    assert client.document("evil") is None


def test_offline_keys_moved_away_publishing_resharding_and_renewal_go_on_and_rotate_refuses(
    here: Here, tmp_path: Path
) -> None:
    client = here.client()
    (here.settings.keys / "offline").rename(tmp_path / "drawer")
    names = [f"plugin{number}" for number in range(70)]
    here.publish(*names)
    bins = {path.name.partition(".")[2] for path in (here.objects / "index/metadata").glob("1.bin-*.json")}
    assert len(bins) > 16, "the bins were spread anew"
    for name in (names[0], names[-1]):
        assert client.document(name) is not None
    registry = compose(here.settings)
    before = registry.index.files.state().timestamp.version
    replace(registry.index, now=lambda: registry.index.files.state().timestamp.expires).renew()
    assert registry.index.files.state().timestamp.version == before + 1
    registry.close()
    files = _files(here.objects)
    with pytest.raises(NotAvailable) as refused:
        here.rotate(*ONLINE)
    assert refused.value.code == "offline_keys_missing"
    assert "--offline-keys" in refused.value.hint
    assert _files(here.objects) == files
    assert here.keys() == {f"{name}.pem" for name in ONLINE}
    here.rotate("root", *ONLINE, offline=tmp_path / "drawer")
    assert {path.name for path in (tmp_path / "drawer").iterdir()} == {"root.pem", "targets.pem"}
    assert here.keys() == {f"{name}.pem" for name in ONLINE}
    here.publish("after")
    assert client.document("after") is not None


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_key_that_was_lost_is_replaced(here: Here) -> None:
    here.publish("demo")
    client = here.client()
    for role in ONLINE:
        (here.settings.keys / f"{role}.pem").unlink()
    here.rotate(*ONLINE)
    here.publish("other")
    assert client.document("demo") is not None
    assert client.document("other") is not None


def test_a_key_that_is_lost_and_not_rotated_is_named(here: Here) -> None:
    (here.settings.keys / "snapshot.pem").unlink()
    with pytest.raises(Temporary, match=r"`snapshot[.]pem`"):
        here.rotate("timestamp")


def test_admins_change_only_by_a_rotation_and_who_left_stays_listed(tmp_path: Path) -> None:
    first, second = words(), words()
    here = made(tmp_path, PLUGREG_REGISTRY_ADMINS=f"{first} {second}")
    here.rotate(PLUGREG_REGISTRY_ADMINS=second)
    rows = here.trust()["admins"]
    assert [(row["signer"]["id"] in first, "until" in row) for row in rows] == [(True, True), (False, False)]
    here.rotate(PLUGREG_REGISTRY_ADMINS=f"{first} {second}")
    rows = here.trust()["admins"]
    assert [(row["signer"]["id"] in first, "until" in row) for row in rows] == [
        (True, True),
        (False, False),
        (True, False),
    ]
    here.rotate()
    assert here.trust()["admins"] == rows, "without the setting nothing changes"


def test_a_trust_config_is_never_lost_by_a_setting_that_was_forgotten(
    here: Here, tmp_path: Path, sigstore: LocalSigstore
) -> None:
    config = tmp_path / "trust.json"
    config.write_bytes(sigstore.trust_config())
    said = here.rotate(PLUGREG_REGISTRY_TRUST_CONFIG=str(config))
    assert said[-1].startswith("sigstore  sha256:")
    assert here.client().target("sigstore.json") == config.read_bytes()
    with pytest.raises(UsageError, match="trust_config_missing"):
        here.rotate()
    assert here.client().target("sigstore.json") == config.read_bytes()


def test_a_role_that_is_none(here: Here) -> None:
    with pytest.raises(UsageError, match="role_unknown"):
        here.rotate("roots")


def test_a_rotation_cut_at_every_step_leaves_a_registry_that_goes_on(here: Here, tmp_path: Path) -> None:
    here.publish("demo")
    client = here.client()
    assert client.document("demo") is not None
    whole = Line()
    _rotate_through(_copy(here, tmp_path / "whole"), whole)
    roots: set[int] = set()
    for cut in _spread(2 * whole.calls, 16):
        then = _copy(here, tmp_path / f"cut{cut}")
        with suppress(PowerCut):
            _rotate_through(then, Line(cut))
        seen = TufClient(
            shutil.copytree(client.folder, tmp_path / f"seen{cut}"), then.objects, root=client.root
        )
        assert seen.document("demo") is not None
        roots.add(seen.root_version())
        then.publish("after")
        for reader in (seen, then.client()):
            assert reader.document("after") is not None
        then.rotate(*ROLES)
        assert then.keys() == here.keys()
        for reader in (seen, then.client()):
            assert reader.document("demo") is not None
        shutil.rmtree(then.settings.data)
    assert roots == {1, 2}


def test_a_rotation_after_a_lost_key_that_is_cut_off_is_repeated(here: Here, tmp_path: Path) -> None:
    here.publish("demo")
    client = here.client()
    assert client.document("demo") is not None
    (here.settings.keys / "timestamp.pem").unlink()
    whole = Line()
    _rotate_through(_copy(here, tmp_path / "whole"), whole)
    for cut in range(max(0, 2 * whole.calls - 60), 2 * whole.calls, 7):
        then = _copy(here, tmp_path / f"cut{cut}")
        with suppress(PowerCut):
            _rotate_through(then, Line(cut))
        then.rotate(*ONLINE)
        then.publish("after")
        seen = TufClient(
            shutil.copytree(client.folder, tmp_path / f"seen{cut}"), then.objects, root=client.root
        )
        for reader in (seen, then.client()):
            assert reader.document("after") is not None
        shutil.rmtree(then.settings.data)


def _spread(steps: int, most: int) -> Sequence[int]:
    """Some of the steps, evenly, and the last ones: most of those between write one bin like the other."""
    return sorted({*range(0, steps, max(1, steps // most)), *range(max(0, steps - 20), steps)})


def _copy(here: Here, folder: Path) -> Here:
    shutil.copytree(here.settings.data, folder / "data")
    return Here(read_settings({}, str(folder / "data")), here.author)


def _rotate_through(here: Here, line: Line) -> None:
    registry = compose(here.settings)
    try:
        _rotation(registry, line).run()
    finally:
        registry.close()


def _rotation(registry: Registry, line: Line) -> Rotation:
    """A rotation of everything, with every port behind the line."""
    index = registry.index
    files = replace(index.files, blobs=line.through(index.files.blobs), keys=line.through(index.files.keys))
    wired = replace(
        index,
        files=files,
        blobs=files.blobs,
        leftovers=line.through(index.leftovers),
        lease=line.through(replace(cast("DatabaseLease", index.lease), seconds=0.05)),
    )
    return Rotation(wired, registry.trusted, ROLES, lambda: None)


class _Overtaken:
    """A lease that was over: another process publishes between the timestamp and the new root."""

    def __init__(self, here: Here, inner: Any) -> None:
        self.here, self.inner = here, inner
        self.version = here.metadata("timestamp.json")["signed"]["version"]

    def take(self) -> int | None:
        if self.here.metadata("timestamp.json")["signed"]["version"] == self.version + 1:
            registry = compose(self.here.settings)
            files = registry.index.files
            files.next(files.state(), registry.index.now()).publish()
            registry.close()
        return self.inner.take()  # type: ignore[no-any-return]

    def release(self, token: int) -> None:
        self.inner.release(token)


def test_a_rotation_that_was_overtaken_makes_no_root_that_the_index_does_not_obey(here: Here) -> None:
    here.publish("demo")
    client = here.client()
    registry = compose(here.settings)
    index = replace(registry.index, lease=_Overtaken(here, registry.index.lease))
    with pytest.raises(Temporary, match="index_moved"):
        Rotation(index, registry.trusted, ROLES, lambda: None).run()
    registry.close()
    assert client.document("demo") is not None
    assert client.root_version() == 1
    here.rotate(*ROLES)
    assert client.document("demo") is not None
    assert client.root_version() == 2


def test_rotations_while_authors_publish_and_a_client_refreshes_in_a_loop(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin("first"), "first").status == 201
        client = TufClient(tmp_path / "client", registry.url)

        def look() -> None:
            assert client.document("first") is not None

        numbers = count()

        def write() -> None:
            name = f"plugin{next(numbers)}"
            answer = author.publish(plugin(name), name)
            assert answer.status == 201, answer

        with _again_and_again(look) as looks, _again_and_again(write) as writes:
            for roles in (ONLINE, ROLES):
                command = [sys.executable, "-m", "plugreg_registry", "rotate", "--data", str(registry.data)]
                environment = registry_environment()
                done = subprocess.run([*command, *roles], env=environment, capture_output=True, check=False)
                assert done.returncode == 0, done
        assert looks.faults == writes.faults == []
        assert looks.times > 10
        assert client.root_version() == 3
        assert not [line for line in registry.log if "Traceback" in line]


@dataclass
class _Loop:
    times: int = 0
    faults: list[str] = field(default_factory=list)


@contextmanager
def _again_and_again(work: Callable[[], None]) -> Iterator[_Loop]:
    """Do something in a thread, until the block ends."""
    done, loop = threading.Event(), _Loop()

    def run() -> None:
        while not done.is_set():
            try:
                work()
                loop.times += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, the test tells it
                loop.faults.append(repr(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield loop
    finally:
        done.set()
        thread.join()


def test_a_time_of_an_admin_is_the_time_of_the_rotation(tmp_path: Path) -> None:
    here = made(tmp_path, PLUGREG_REGISTRY_ADMINS=words())
    registry = compose(here.settings)
    now = registry.index.now()
    registry.close()
    here.rotate(PLUGREG_REGISTRY_ADMINS=words())
    first, second = here.trust()["admins"]
    assert first["until"] >= format_time(now)
    assert second["since"] == first["until"]
