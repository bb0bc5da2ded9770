"""A proxy between a registry and its readers that keeps all that it may keep: nginx, as people run it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.registry.test_index import Reader
from tests.support.nginx import caching
from tests.support.publisher import Author, ask, digest_of, plugin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.registries import RegistryProcess

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the wheel with nginx is installed on Linux only"
)


@pytest.fixture(scope="module")
def proxy(registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with caching(tmp_path_factory.mktemp("proxy") / "nginx", registry.url) as url:
        yield url


def cache_of(url: str) -> str:
    answer = ask(url)
    assert answer.status == 200, answer
    return answer.headers["x-cache"]


def test_what_was_answered_201_is_visible_at_once(
    author: Author, name: str, proxy: str, tmp_path: Path
) -> None:
    reader = Reader(proxy, tmp_path / "reader")
    versions = [f"1.{number}.0" for number in range(8)]
    assert reader.versions(name) == []
    for place, version in enumerate(versions, 1):
        assert author.publish(plugin(name, version), name, version).status == 201
        assert reader.versions(name) == versions[:place]
        plain = ask(f"{proxy}index/plugins/{name}.json").json()
        assert [entry["version"] for entry in plain["versions"]] == versions[:place]


def test_what_never_changes_is_kept_and_what_changes_is_not(
    author: Author, name: str, proxy: str, tmp_path: Path
) -> None:
    content = plugin(name)
    assert author.publish(content, name).status == 201
    Reader(proxy, tmp_path / "reader").versions(name)
    for path in ("index/metadata/1.root.json", f"blobs/sha256/{digest_of(content)[7:]}"):
        cache_of(proxy + path)
        assert cache_of(proxy + path) == "HIT", path
    for path in ("index/metadata/timestamp.json", f"index/plugins/{name}.json", ".well-known/plugreg.json"):
        cache_of(proxy + path)
        assert cache_of(proxy + path) != "HIT", path


def test_what_was_missing_is_not_remembered_as_missing(author: Author, name: str, proxy: str) -> None:
    path = f"{proxy}index/plugins/{name}.json"
    assert ask(path).status == 404
    assert author.publish(plugin(name), name).status == 201
    assert ask(path).status == 200
