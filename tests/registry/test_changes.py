"""The changes and the audit: every serial once for who follows `next`, whoever publishes; waiting is cheap."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry import tokens
from plugreg_registry.databases import read_server
from plugreg_registry.feeds import AUDIT, CHANGES, Feeds, read_slice
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.journal import DatabaseJournal
from plugreg_registry.metadata.tokens import DatabaseTokens
from plugreg_schemas.errors import Conflict, UsageError
from tests.registry.test_tokens import NOW, get
from tests.support.postgres import NEWEST
from tests.support.publisher import Author, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Engine

DATABASES = ("sqlite", NEWEST)
CONNECTIONS = 40
"""Requests at once of the registry of these tests; a quarter of them may wait."""


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, database_settings: Mapping[str, str]
) -> Iterator[RegistryProcess]:
    settings = {**database_settings, "PLUGREG_REGISTRY_LIMITS_CONNECTIONS": str(CONNECTIONS)}
    with running(tmp_path_factory.mktemp("registry"), workers=2, environment=settings) as registry:
        yield registry


@pytest.fixture(scope="module")
def auditor(registry: RegistryProcess, database_settings: Mapping[str, str]) -> str:
    """The secret of a token of the scope `audit`."""
    token, secret = tokens.issue("auditor", "audit", NOW)
    address = database_settings.get("PLUGREG_REGISTRY_DATABASE")
    engine = open_database(read_server(address) if address else registry.data / "registry.sqlite3")
    DatabaseTokens(engine).add(token)
    engine.dispose()
    return secret


def changes(registry: RegistryProcess, **question: object) -> Any:
    words = "&".join(f"{name}={value}" for name, value in question.items())
    answer = get(registry, f"v1/changes?{words}")
    assert answer.status == 200, answer
    return answer.json()


def newest(registry: RegistryProcess) -> str:
    """Behind the newest entry."""
    since = "0"
    while (page := changes(registry, since=since))["changes"]:
        since = page["next"]
    return since


def test_who_follows_sees_every_serial_once_while_many_publish(registry: RegistryProcess) -> None:
    since, seen = newest(registry), []
    names = [f"feed{number}" for number in range(16)]
    authors = [Author(registry.url, registry.id) for _ in names]
    published = threading.Event()

    def follow() -> None:
        place = since
        while True:
            is_last = published.is_set()
            page = changes(registry, since=place, limit=3)
            for change in page["changes"]:  # what is listed can be read
                listed = get(registry, f"index/plugins/{change['plugin']}.json").json()["versions"]
                assert change["version"] in {version["version"] for version in listed}
            seen.extend(page["changes"])
            place = page["next"]
            if is_last and not page["changes"]:
                return

    with ThreadPoolExecutor(9) as pool:
        following = pool.submit(follow)
        answers = list(pool.map(lambda one, name: one.publish(plugin(name), name), authors, names))
        published.set()
        following.result()
    assert {answer.status for answer in answers} == {201}
    serials = [change["serial"] for change in seen]
    first = int(since.partition("-")[0]) + 1
    assert serials == list(range(first, first + len(names)))
    assert sorted(change["plugin"] for change in seen) == sorted(names)


def test_the_publish_of_a_version_and_its_yank_are_listed_in_order(
    registry: RegistryProcess, author: Author, name: str, auditor: str
) -> None:
    since = newest(registry)
    assert author.publish(plugin(name), name).status == 201
    assert author.state("yank", name, version="1.0.0", yanked=True, reason="it is broken").status == 201
    page = changes(registry, since=since)
    said = [(change["action"], change["plugin"], change.get("version")) for change in page["changes"]]
    assert said == [("publish", name, "1.0.0"), ("yank", name, "1.0.0")]
    assert set(page["changes"][0]) == {"serial", "at", "action", "plugin", "version"}
    audited = get(registry, f"v1/audit?since={since}", auditor).json()
    assert [entry["signer"] for entry in audited["entries"]] == [f"key:{author.key.id}"] * 2
    digest = audited["entries"][1]["digest"]
    assert get(registry, f"attestations/sha256/{digest[7:]}.json").status == 200
    assert audited["next"] == page["next"]


def test_the_audit_is_for_auditors_also_where_everybody_may_read(registry: RegistryProcess) -> None:
    answer = get(registry, "v1/audit")
    assert (answer.status, answer.code) == (401, "token_missing")


def test_who_waits_is_told_when_another_process_has_published(
    registry: RegistryProcess, author: Author, name: str
) -> None:
    since, began = newest(registry), time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(changes, registry, since=since, wait=30) for _ in range(6)]
        time.sleep(0.3)
        assert author.publish(plugin(name), name).status == 201
        pages = [future.result() for future in waiting]
    assert all([change["plugin"] for change in page["changes"]] == [name] for page in pages)
    assert time.monotonic() - began < 10


def test_who_waits_in_vain_is_told_nothing_in_time(registry: RegistryProcess) -> None:
    since = newest(registry)
    assert changes(registry, since=since, wait=1) == {"changes": [], "next": since}


def test_those_who_wait_keep_nobody_out(registry: RegistryProcess) -> None:
    since = newest(registry)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        path = f"v1/changes?since={since}&wait=2"
        waiting = [pool.submit(get, registry, path) for _ in range(CONNECTIONS)]
        time.sleep(0.7)
        began = time.monotonic()
        assert get(registry, "index/metadata/timestamp.json").status == 200
        assert get(registry, "readyz").status == 200
        assert time.monotonic() - began < 1
        answers = [future.result() for future in waiting]
    refused = [answer for answer in answers if answer.status != 200]
    assert len(answers) - len(refused) <= 2 * CONNECTIONS // 4
    assert {(answer.status, answer.code) for answer in refused} == {(503, "too_many_wait")}
    assert all("retry-after" in answer.headers for answer in refused)


@pytest.mark.parametrize(
    ("since", "code"), [("999999", "cursor_ahead"), ("1-0000000000000000", "cursor_unknown")]
)
def test_who_followed_what_is_gone_after_a_restore_learns_of_it(
    registry: RegistryProcess, author: Author, name: str, since: str, code: str
) -> None:
    assert author.publish(plugin(name), name).status == 201
    answer = get(registry, f"v1/changes?since={since}")
    assert (answer.status, answer.code) == (409, code)
    assert "since=0" in answer.json()["hint"]


def test_the_end_of_the_process_ends_the_waiting(registry: RegistryProcess) -> None:
    since = newest(registry)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(changes, registry, since=since, wait=60)
        time.sleep(0.5)
        began = time.monotonic()
        registry.stop()
        assert time.monotonic() - began < 5
        assert waiting.result() == {"changes": [], "next": since}


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ([("since", "-1")], "parameter_invalid"),
        ([("since", "1-xyz")], "parameter_invalid"),
        ([("since", "1" * 19)], "parameter_invalid"),
        ([("limit", "101")], "parameter_invalid"),
        ([("limit", "0")], "parameter_invalid"),
        ([("wait", "61")], "parameter_invalid"),
        ([("wait", "1.5")], "parameter_invalid"),
        ([("limit", "1"), ("limit", "2")], "parameter_repeated"),
        ([("sinze", "1")], "parameter_unknown"),
    ],
)
def test_a_question_that_is_none(question: list[tuple[str, str]], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        read_slice(question, CHANGES)
    with pytest.raises(UsageError, match="parameter_unknown"):
        read_slice([("wait", "1")], AUDIT)


def test_a_registry_without_entries_has_an_empty_page(engine: Engine) -> None:
    feeds = Feeds(DatabaseJournal(engine))
    page = feeds.changes(read_slice([], CHANGES))
    assert (page.changes, page.next) == ((), "0")
    with pytest.raises(Conflict, match="cursor_ahead"):
        feeds.changes(read_slice([("since", "1")], CHANGES))
