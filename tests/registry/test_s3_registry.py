"""A registry process whose objects and uploads lie in a bucket, seen from outside."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.blobs.s3 import S3Blobs
from tests.registry.test_publishing import problem
from tests.support.commands import User, write_plugin
from tests.support.publisher import Author, ask, bundle_of, plugin, plugin_files
from tests.support.registries import registry_environment, running
from tests.support.s3 import SECRET_KEY, forwarding, opened, refusal
from tests.support.scripted import Answer, serving
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from plugreg_registry.storage import Bucket
    from tests.support.registries import RegistryProcess
    from tests.support.s3 import S3Server
    from tests.support.scripted import Request

MIB = 1 << 20


@pytest.fixture(scope="module")
def place(s3: S3Server) -> Bucket:
    return s3.bucket()


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, s3: S3Server, place: Bucket
) -> Iterator[RegistryProcess]:
    folder = tmp_path_factory.mktemp("registry")
    environment = s3.environment(place) | {"PLUGREG_REGISTRY_UPLOADS": "direct"}
    with running(folder, workers=2, environment=environment) as registry:
        yield registry


def keys(place: Bucket, folder: str) -> list[str]:
    with opened(place) as bucket:
        return [key for key, _ in bucket.listed(folder)]


def large(name: str) -> bytes:
    """A bundle that is put in parts."""
    return bundle_of(plugin_files(name, noise=os.urandom(9 * MIB)))


def test_a_publish_lies_in_the_bucket_and_nowhere_else(
    registry: RegistryProcess, place: Bucket, author: Author, name: str
) -> None:
    bundle = large(name)
    assert author.publish(bundle, name).status == 201
    digest = hashlib.sha256(bundle).hexdigest()
    [entry] = author.document(name)["versions"]
    assert entry["digest"] == f"sha256:{digest}"
    assert f"blobs/sha256/{digest}" in keys(place, "blobs/")
    assert f"index/plugins/{name}.json" in keys(place, "index/")
    assert not any(keys(place, "staging/"))
    assert not registry.objects.exists()
    assert list((registry.data / "uploads").iterdir()) == []


def test_the_read_plane_is_that_of_a_folder(registry: RegistryProcess, author: Author, name: str) -> None:
    bundle = large(name)
    author.publish(bundle, name)
    digest = hashlib.sha256(bundle).hexdigest()
    url = f"{registry.url}blobs/sha256/{digest}"
    whole = ask(url)
    assert (whole.status, whole.body) == (200, bundle)
    assert whole.headers["etag"] == f'"{digest}"'
    assert whole.headers["cache-control"] == "public, max-age=31536000, immutable, no-transform"
    assert whole.headers["content-type"] == "application/vnd.plugreg.bundle.v1+tar.zst"
    part = ask(url, headers={"range": "bytes=10-19"})
    assert (part.status, part.body) == (206, bundle[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(bundle)}"
    assert ask(url, headers={"range": f"bytes={len(bundle)}-"}).status == 416
    assert ask(url, headers={"if-none-match": f'"{digest}"'}).status == 304
    head = ask(url, "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(bundle)))
    missing = ask(f"{registry.url}blobs/sha256/{'0' * 64}")
    assert (missing.status, missing.headers["cache-control"]) == (404, "no-store")
    assert ask(f"{registry.url}staging/x").status == 404


def test_a_document_is_fresh_at_every_replica_and_costs_little_if_nothing_is_new(
    registry: RegistryProcess, author: Author, name: str
) -> None:
    for number in range(5):
        assert author.publish(plugin(name, f"1.{number}.0"), name, f"1.{number}.0").status == 201
        for _ in range(6):  # two worker processes answer
            assert len(author.document(name)["versions"]) == number + 1
    url = f"{registry.url}index/plugins/{name}.json"
    etag = ask(url).headers["etag"]
    again = ask(url, headers={"if-none-match": etag})
    assert (again.status, again.body, again.headers["cache-control"]) == (304, b"", "no-cache")


def test_an_upload_in_parts_goes_on_where_it_stands(author: Author, name: str, place: Bucket) -> None:
    bundle = large(name)
    size, session = len(bundle), author.begin(bundle, name).json()
    for start in range(0, size, 2 * MIB):
        part = bundle[start : start + 2 * MIB]
        span = {"content-range": f"bytes {start}-{start + len(part) - 1}/{size}"}
        assert ask(author.at(session["upload"]), "PUT", part, span).status == 204
        assert ask(author.at(session["upload"]), "HEAD").headers["upload-offset"] == str(start + len(part))
    problem(ask(author.at(session["upload"]), "PUT", b"x", {"content-range": f"bytes 5-5/{size}"}), 409, "upload_offset")  # fmt: skip
    assert author.commit(session).status == 201
    assert not any(keys(place, "staging/"))


def test_a_client_puts_its_bundle_into_the_bucket_itself(author: Author, name: str, place: Bucket) -> None:
    bundle = large(name)
    session = author.begin(bundle, name).json()
    assert ask(session["direct"], "PUT", bundle).status == 200
    assert ask(author.at(session["upload"]), "HEAD").headers["upload-offset"] == str(len(bundle))
    assert author.commit(session).status == 201
    assert not any(keys(place, "staging/"))


def test_other_bytes_than_the_signed_ones_are_refused_wherever_they_were_put(
    author: Author, name: str, place: Bucket
) -> None:
    bundle = plugin(name)
    session = author.begin(bundle, name).json()
    ask(session["direct"], "PUT", bundle)
    ask(session["direct"], "PUT", bytes(len(bundle)))  # changed after it was there
    problem(author.commit(session), 422, "digest_mismatch")
    assert f"blobs/sha256/{hashlib.sha256(bundle).hexdigest()}" not in keys(place, "blobs/")
    assert not any(keys(place, "staging/"))


def test_an_object_changed_while_it_is_checked_is_never_published(
    tmp_path: Path, s3: S3Server, name: str
) -> None:
    """The attacker changes his object after each single request for it."""
    forward = forwarding(s3.endpoint)
    genuine, other = plugin(name), plugin(name, mark="x")
    other = other[: len(genuine)].ljust(len(genuine), b"\0")
    address: list[str] = []
    reads: list[int] = []

    def change(request: Request) -> Answer | None:
        found = forward(request)
        if request.method == "GET" and "/direct" in request.path.partition("?")[0]:
            reads.append(found.status)
            ask(address[0], "PUT", other)
        return found

    with fronted(tmp_path, s3, change, {"PLUGREG_REGISTRY_UPLOADS": "direct"}) as (registry, place):
        author = Author(registry.url, registry.id)
        session = author.begin(genuine, name).json()
        address.append(session["direct"])
        assert ask(session["direct"], "PUT", genuine).status == 200
        assert author.commit(session).status == 201
        digest = hashlib.sha256(genuine).hexdigest()
        assert ask(f"{registry.url}blobs/sha256/{digest}").body == genuine
        assert reads == [200]
        assert len(keys(place, "blobs/")) == 1


def test_a_bundle_is_never_in_memory_as_a_whole(tmp_path: Path, s3: S3Server, name: str) -> None:
    with running(tmp_path / "data", environment=s3.environment(s3.bucket())) as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin(f"{name}a"), f"{name}a").status == 201  # everything is loaded now
        bundle = bundle_of(plugin_files(name, noise=os.urandom(60 * MIB)))
        before = registry.resident_bytes()
        registry.reset_peak()
        assert author.publish(bundle, name).status == 201
        assert ask(f"{registry.url}blobs/sha256/{hashlib.sha256(bundle).hexdigest()}").body == bundle
        assert registry.peak_bytes() - before < len(bundle)


def test_ready_says_what_the_store_can_do(registry: RegistryProcess) -> None:
    store = ask(registry.url + "readyz").json()["store"]
    assert store == {
        "kind": "s3",
        "checksums": True,
        "conditional_multipart": True,
        "conditional_put": True,
        "if_match": True,
        "multipart": True,
    }


def test_plugreg_publishes_and_installs_through_the_registry(
    registry: RegistryProcess, tmp_path: Path, name: str
) -> None:
    user = somebody(tmp_path, registry)
    user.run("publish", str(write_plugin(tmp_path / "source", name)))
    assert user.run("install", name)["installed"][0]["name"] == name


def test_bundles_are_fetched_from_the_bucket_itself(tmp_path: Path, s3: S3Server, name: str) -> None:
    environment = s3.environment(s3.bucket()) | {"PLUGREG_REGISTRY_DOWNLOADS": "redirect"}
    with running(tmp_path / "data", environment=environment) as registry:
        user = somebody(tmp_path, registry)
        published = user.run("publish", str(write_plugin(tmp_path / "source", name)))
        url = f"{registry.url}blobs/sha256/{published['digest'][7:]}"
        sent_on = ask(url)
        assert (sent_on.status, sent_on.headers["cache-control"], sent_on.body) == (307, "no-store", b"")
        assert sent_on.headers["location"].startswith(f"{s3.endpoint}/")
        assert sent_on.headers["access-control-allow-origin"] == "*"
        fetched = ask(sent_on.headers["location"])
        assert f"sha256:{hashlib.sha256(fetched.body).hexdigest()}" == published["digest"]
        assert fetched.headers["cache-control"] == "public, max-age=31536000, immutable, no-transform"
        assert ask(ask(url, "HEAD").headers["location"], "HEAD").status == 200
        assert ask(f"{registry.url}index/plugins/{name}.json").status == 200
        assert user.run("install", name)["installed"][0]["name"] == name


def test_bundles_are_fetched_from_a_cdn(tmp_path: Path, s3: S3Server, name: str) -> None:
    """Also from one in front of a folder."""
    data = tmp_path / "data"

    def cdn(request: Request) -> Answer:
        assert "Authorization" not in request.headers
        return Answer(200, (data / "objects" / request.path.removeprefix("/mirror/")).read_bytes())

    with serving(cdn) as server:
        environment = {"PLUGREG_REGISTRY_DOWNLOADS": f"cdn:{server.url}mirror/{{key}}"}
        with running(data, environment=environment) as registry:
            user = somebody(tmp_path, registry)
            published = user.run("publish", str(write_plugin(tmp_path / "source", name)))
            assert user.run("install", name)["installed"][0]["name"] == name
        assert server.paths == [f"/mirror/blobs/sha256/{published['digest'][7:]}"]


def test_the_bucket_alone_is_a_read_plane(
    registry: RegistryProcess, place: Bucket, author: Author, name: str, tmp_path: Path
) -> None:
    """Every object as a client asks for it, copied out of the bucket: the index verifies without the registry."""
    author.publish(plugin(name), name)
    copy = tmp_path / "copy"
    with opened(place) as bucket:
        blobs = S3Blobs(bucket)
        for folder in ("index", "blobs", "attestations", ".well-known"):
            for key in blobs.keys(folder):
                (copy / key).parent.mkdir(parents=True, exist_ok=True)
                with blobs.open(key) as file:
                    (copy / key).write_bytes(file.read())
    client = TufClient(tmp_path / "client", copy)
    assert client.document(name) == author.document(name)


@contextmanager
def fronted(
    tmp_path: Path,
    s3: S3Server,
    rule: Callable[[Request], Answer | None],
    more: dict[str, str] | None = None,
) -> Iterator[tuple[RegistryProcess, Bucket]]:
    """A registry whose store has something in front that answers in its place when it wants."""
    forward = forwarding(s3.endpoint)
    with serving(lambda request: rule(request) or forward(request)) as server:
        place = s3.bucket(server.url)
        with running(tmp_path / "data", environment=s3.environment(place) | (more or {})) as registry:
            yield registry, place


def test_t22_a_store_that_fails_is_told_and_the_process_lives(
    tmp_path: Path, s3: S3Server, name: str
) -> None:
    broken: list[Answer] = []
    with fronted(tmp_path, s3, lambda _: broken[0] if broken else None) as (registry, _):
        author = Author(registry.url, registry.id)
        bundle = plugin(name)
        session = author.begin(bundle, name).json()
        author.upload(session, bundle)
        for answer in (refusal(503, "SlowDown"), Answer(silent=True), refusal(403, "AccessDenied")):
            broken[:] = [answer]
            for found in (
                author.commit(session),
                ask(f"{registry.url}index/plugins/{name}.json"),
                ask(f"{registry.url}blobs/sha256/{'0' * 64}"),
                ask(registry.url + "readyz"),
            ):
                assert (found.status, found.code) == (503, "store_unavailable")
                assert found.headers["retry-after"] == "5"
            assert ask(registry.url + "livez").status == 200
        broken.clear()
        assert author.commit(session).status == 201
        assert len(author.document(name)["versions"]) == 1
        assert SECRET_KEY not in "".join(registry.log)


def test_t22_a_store_that_hangs_stops_nobody_else(tmp_path: Path, s3: S3Server) -> None:
    hanging, end = threading.Event(), threading.Event()

    def hang(_: Request) -> Answer | None:
        if hanging.is_set() and not end.wait(60):
            return Answer(silent=True)
        return None

    with fronted(tmp_path, s3, hang, {"PLUGREG_REGISTRY_S3_TIMEOUT": "1"}) as (registry, _):
        hanging.set()
        found: list[int] = []
        url = f"{registry.url}blobs/sha256/{'0' * 64}"
        waiting = [threading.Thread(target=lambda: found.append(ask(url).status)) for _ in range(10)]
        for thread in waiting:
            thread.start()
        time.sleep(0.5)
        started = time.monotonic()
        assert ask(registry.url + "livez").status == 200
        assert time.monotonic() - started < 2
        for thread in waiting:
            thread.join(60)
        assert time.monotonic() - started < 20
        end.set()
        assert found == [503] * 10


def test_a_store_that_is_full_is_told_to_who_publishes(tmp_path: Path, s3: S3Server, name: str) -> None:
    full = threading.Event()

    def rule(request: Request) -> Answer | None:
        refused = full.is_set() and request.method == "PUT"
        return refusal(507, "InsufficientStorage") if refused else None

    with fronted(tmp_path, s3, rule) as (registry, place):
        author = Author(registry.url, registry.id)
        bundle = plugin(name)
        session = author.begin(bundle, name).json()
        full.set()
        problem(author.upload(session, bundle), 507, "disk_full")
        assert not any(keys(place, "staging/"))


def test_cut_uploads_leave_nothing_when_their_time_is_over(tmp_path: Path, s3: S3Server, name: str) -> None:
    place = s3.bucket()
    environment = s3.environment(place)
    with running(tmp_path / "data", environment=environment) as registry:
        author = Author(registry.url, registry.id)
        bundle = large(name)
        for number in range(5):
            session = author.begin(bundle, f"{name}x{number}").json()
            span = {"content-range": f"bytes 0-{MIB - 1}/{len(bundle)}"}
            ask(author.at(session["upload"]), "PUT", bundle[:MIB], span)
        assert len(keys(place, "staging/")) == 5
        registry.stop()
        forget_sessions(registry.data)
        registry.start()  # the janitor's first round
        end = time.monotonic() + 30
        while keys(place, "staging/") and time.monotonic() < end:
            time.sleep(0.2)
        assert keys(place, "staging/") == []


def forget_sessions(data: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(data / "registry.sqlite3", isolation_level=None)) as database:
        database.execute("UPDATE sessions SET expires = 0")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, 2, "SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, 2, "there are no credentials"),
        ({"PLUGREG_REGISTRY_S3_ENDPOINT": "http://127.0.0.1:9"}, 8, "cannot be used now"),
        ({"PLUGREG_REGISTRY_S3_ENDPOINT": "localhost"}, 2, "http or https address"),
        ({"PLUGREG_REGISTRY_DOWNLOADS": "cdn:nowhere"}, 2, "DOWNLOADS"),
    ],
)
def test_a_start_that_cannot_be_says_why_and_shows_no_secret(
    tmp_path: Path, s3: S3Server, change: dict[str, str], code: int, words: str
) -> None:
    environment = registry_environment(s3.environment(s3.bucket()) | change)
    command = [sys.executable, "-m", "plugreg_registry", "init", "--data", str(tmp_path / "data")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == code, ended.stderr
    assert words in ended.stderr
    assert "wrong-secret" not in ended.stderr
    assert SECRET_KEY not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_registry_in_folders_needs_no_boto3(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None; "
        "from plugreg_registry.app import application, prepare; "
        "from plugreg_registry.settings import read_settings; "
        "s = read_settings({}, sys.argv[1]); prepare(s); application(s); "
        "print([m for m in sys.modules if m.startswith(('plugreg_registry.blobs.s3', 'plugreg_registry.blobs.bucket'))])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "data")]
    ended = subprocess.run(
        command, env=registry_environment(), capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_a_bucket_without_boto3_says_what_to_install(tmp_path: Path, s3: S3Server) -> None:
    script = (
        "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None; "
        "from plugreg_registry.__main__ import main; sys.exit(main(['init', '--data', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "data")]
    environment = registry_environment(s3.environment(s3.bucket()))
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "pip install 'plugreg[registry,s3]'" in ended.stderr


def somebody(folder: Path, registry: RegistryProcess) -> User:
    user = User(folder / "user")
    user.run("registry", "add", registry.url, "--name", "r0")
    user.run("key", "new")
    return user
