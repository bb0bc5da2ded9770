"""Many at once, on a registry with two worker processes, on every kind of database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import NEWEST
from tests.support.publisher import Author, ask, digest_of, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


DATABASES = ("sqlite", NEWEST)


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, database_settings: Mapping[str, str]
) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("registry"), workers=2, environment=database_settings) as registry:
        yield registry


def test_t21_i3_sixteen_publishes_of_one_version_have_one_winner(author: Author) -> None:
    bundles = [plugin("raced", mark=f"{number:02}") for number in range(16)]
    begun = [author.begin(bundle, "raced") for bundle in bundles]
    assert {answer.status for answer in begun} == {202}
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(author.finish, begun, bundles))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 15, answers
    won = next(answer for answer in answers if answer.status == 201).json()
    lost = [answer.json() for answer in answers if answer.status == 409]
    assert {(one["code"], one["digest"]) for one in lost} == {("version_exists", won["digest"])}
    document = author.document("raced")
    assert [entry["digest"] for entry in document["versions"]] == [won["digest"]]
    winner = next(bundle for bundle in bundles if digest_of(bundle) == won["digest"])
    again = author.publish(winner, "raced")
    assert (again.status, again.json()["already"]) == (200, True)
    for bundle in bundles:
        status = ask(author.at(f"blobs/sha256/{digest_of(bundle)[7:]}")).status
        assert status == (200 if bundle == winner else 404)


def test_i8_sixteen_publishes_of_the_same_bytes_all_succeed(author: Author) -> None:
    bundle = plugin("same")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: author.publish(bundle, "same"), range(16)))
    assert {answer.status for answer in answers} <= {200, 201}, answers
    assert [answer.status for answer in answers].count(201) == 1
    assert len(author.document("same")["versions"]) == 1


def test_the_index_has_every_version_when_its_publish_answers(author: Author) -> None:
    assert author.publish(plugin("busy", "0.0.1"), "busy", "0.0.1").status == 201
    missing: list[str] = []

    def release(number: int) -> int:
        version = f"1.{number}.0"
        status = author.publish(plugin("busy", version), "busy", version).status
        if version not in {entry["version"] for entry in author.document("busy")["versions"]}:
            missing.append(version)
        return status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(release, range(40)))
    assert statuses == [201] * 40
    assert missing == []
    versions = [entry["version"] for entry in author.document("busy")["versions"]]
    assert versions == ["0.0.1", *(f"1.{number}.0" for number in range(40))]


def test_strangers_race_for_one_free_name(registry: RegistryProcess) -> None:
    strangers = [Author(registry.url, registry.id) for _ in range(6)]
    line = threading.Barrier(len(strangers))

    def claim(stranger: Author) -> int:
        line.wait(20)
        return stranger.publish(plugin("free", mark=stranger.key.id), "free").status

    with ThreadPoolExecutor(len(strangers)) as pool:
        statuses = sorted(pool.map(claim, strangers))
    assert statuses == [201, *[409] * (len(strangers) - 1)]


def test_owners_who_sign_at_once_make_one_history(author: Author) -> None:
    author.publish(plugin("shared"), "shared")
    head = author.document("shared")["history"][-1]
    bodies = [
        author.successor("status", "shared", 1, head, state="deprecated", reason=f"{number}")
        for number in range(8)
    ]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: author.post("v1/statements", body), bodies))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7
    assert {answer.code for answer in answers if answer.status == 409} == {"history_moved"}
    assert len(author.document("shared")["history"]) == 2
