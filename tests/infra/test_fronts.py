"""The configurations of `infra/` for nginx and Caddy, each in the real program, in front of a registry or without it."""

from __future__ import annotations

import gzip
import os
import sys
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.documents import canonical_json
from tests.support.caddy import caddy
from tests.support.commands import User
from tests.support.nginx import deployed
from tests.support.publisher import Author, ask, digest_of, plugin
from tests.support.registries import RegistryProcess, running
from tests.support.s3 import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.s3 import S3Server

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the wheels of both are installed on Linux only"
)

KEPT = "public, max-age=31536000, immutable"
BUNDLE = "application/vnd.plugreg.bundle.v1+tar.zst"


def _place(registry: RegistryProcess) -> str:
    return f"127.0.0.1:{registry.port}"


FRONTS: Mapping[str, Callable[[RegistryProcess, Path], AbstractContextManager[str]]] = {
    "nginx": lambda registry, folder: deployed(folder / "n", "nginx.conf", registry.url, registry.objects),
    "nginx with a cache": lambda registry, folder: deployed(
        folder / "n", "nginx-cache.conf", registry.url, registry.objects
    ),
    "Caddy": lambda registry, _: caddy("Caddyfile", PLUGREG_REGISTRIES=_place(registry)),
    "Caddy alone": lambda registry, _: caddy("Caddyfile.static", PLUGREG_OBJECTS=str(registry.objects)),
}
WITHOUT_REGISTRY = ("nginx", "Caddy alone")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("fronts") / "data") as registry:
        assert Author(registry.url, registry.id).publish(plugin("hello"), "hello").status == 201
        yield registry


@pytest.fixture(scope="module", params=FRONTS)
def front(
    request: pytest.FixtureRequest, registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with FRONTS[request.param](registry, tmp_path_factory.mktemp("front")) as url:
        yield url


@pytest.fixture(scope="module")
def bundle(registry: RegistryProcess) -> str:
    return next((registry.objects / "blobs/sha256").iterdir()).name


@pytest.mark.parametrize(
    ("path", "type_", "cache"),
    [
        ("blobs/sha256/{bundle}", BUNDLE, f"{KEPT}, no-transform"),
        ("index/metadata/1.root.json", "application/json", KEPT),
        ("index/metadata/timestamp.json", "application/json", "no-cache"),
        ("index/plugins/hello.json", "application/json", "no-cache"),
        (".well-known/plugreg.json", "application/json", "no-cache"),
    ],
)
def test_each_object_has_its_type_and_may_be_kept_as_long_as_it_is_true(
    front: str, bundle: str, path: str, type_: str, cache: str
) -> None:
    answer = ask(front + path.format(bundle=bundle))
    headers = answer.headers
    assert (answer.status, headers["content-type"], headers["cache-control"]) == (200, type_, cache)
    assert (headers["access-control-allow-origin"], headers["x-content-type-options"]) == ("*", "nosniff")
    assert "content-encoding" not in headers


def test_a_large_document_is_compressed_for_those_who_take_it(registry: RegistryProcess, front: str) -> None:
    content = canonical_json({"versions": [f"1.0.{n}" for n in range(5000)]})
    (registry.objects / "index/plugins/large.json").write_bytes(content)
    address = front + "index/plugins/large.json"
    packed = ask(address, headers={"accept-encoding": "gzip"})
    assert (packed.headers["content-encoding"], gzip.decompress(packed.body)) == ("gzip", content)
    assert "accept-encoding" in packed.headers["vary"].lower()
    assert ask(address).body == content


def test_what_is_missing_is_not_remembered(front: str) -> None:
    for path in ("index/metadata/2.root.json", "index/plugins/nobody.json", "blobs/sha256/" + "0" * 64):
        answer = ask(front + path)
        assert (answer.status, answer.headers["cache-control"]) == (404, "no-store"), path


def test_a_bundle_is_sent_in_parts(front: str, bundle: str) -> None:
    whole = ask(f"{front}blobs/sha256/{bundle}").body
    part = ask(f"{front}blobs/sha256/{bundle}", headers={"range": "bytes=10-"})
    assert digest_of(whole) == f"sha256:{bundle}"
    assert (part.status, part.body) == (206, whole[10:])


def test_nothing_else_of_the_data_folder_is_served(front: str) -> None:
    for path in (
        "keys/index.pem",
        "registry.sqlite3",
        "index/../keys/index.pem",
        "..%2fkeys/index.pem",
        "uploads/",
    ):
        assert ask(front + path).status in {400, 404}, path


@pytest.mark.parametrize("name", WITHOUT_REGISTRY)
def test_a_change_within_a_second_and_of_the_same_size_is_seen(
    tmp_path: Path, registry: RegistryProcess, name: str
) -> None:
    copy = RegistryProcess(tmp_path / "copy", port=1)
    document = copy.objects / "index" / "plugins" / "demo.json"
    document.parent.mkdir(parents=True)
    with FRONTS[name](copy, tmp_path) as url:
        document.write_bytes(b'"one"')
        os.utime(document, (1e9, 1e9))
        first = ask(url + "index/plugins/demo.json")
        document.write_bytes(b'"two"')
        os.utime(document, (1e9, 1e9))
        known = {
            "if-none-match": first.headers.get("etag", '"x"'),
            "if-modified-since": formatdate(1e9, usegmt=True),
        }
        assert ask(url + "index/plugins/demo.json", headers=known).body == b'"two"'


@pytest.mark.parametrize("name", WITHOUT_REGISTRY)
def test_installs_go_on_without_the_registry(tmp_path: Path, registry: RegistryProcess, name: str) -> None:
    gone = RegistryProcess(registry.data, port=1)  # nobody listens there
    with FRONTS[name](gone, tmp_path) as url:
        user = User(tmp_path / "user")
        user.folder.mkdir()
        user.run("registry", "add", url)
        assert user.run("install", "hello")["installed"][0]["name"] == "hello"


@pytest.mark.parametrize("name", [name for name in FRONTS if name != "Caddy alone"])
def test_where_no_registry_answers_the_answer_is_503_and_says_so(
    tmp_path: Path, registry: RegistryProcess, name: str
) -> None:
    gone = RegistryProcess(registry.data, port=1)
    with FRONTS[name](gone, tmp_path) as url:
        answer = ask(url + "v1/plugins/hello")
        assert (answer.status, answer.code) == (503, "registry_unavailable")
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.headers["retry-after"], answer.headers["cache-control"]) == ("2", "no-store")


@pytest.mark.parametrize("name", [name for name in FRONTS if name != "Caddy alone"])
def test_publishes_go_through(tmp_path: Path, registry: RegistryProcess, name: str) -> None:
    with FRONTS[name](registry, tmp_path) as url:
        called = name.lower().replace(" ", "-")
        author = Author(url, registry.id)
        assert author.publish(plugin(called), called).status == 201
        assert author.document(called)["name"] == called


def test_installs_go_on_from_a_public_bucket_without_the_registry(tmp_path: Path, s3: S3Server) -> None:
    place = s3.bucket(below=OPEN)
    with running(tmp_path / "data", environment=s3.environment(place)) as registry:
        assert Author(registry.url, registry.id).publish(plugin("hello"), "hello").status == 201
    user = User(tmp_path / "user")
    user.folder.mkdir()
    user.run("registry", "add", f"{s3.endpoint}/{place.name}/{place.prefix}")
    assert user.run("install", "hello")["installed"][0]["name"] == "hello"
