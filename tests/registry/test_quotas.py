"""What one identity may use up: bytes in all, publishes and new names in a day."""

from __future__ import annotations

import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine, text

from plugreg_registry.metadata.database import open_database, reading, writing
from plugreg_registry.metadata.migrate import upgrade
from plugreg_registry.metadata.releases import DatabaseReleases
from plugreg_registry.quotas import Quotas, Usage, check_quotas
from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import NotAllowed, UsageError
from tests.registry.test_ports import _record, _release
from tests.support.publisher import Author, Key, ask, bundle_of, plugin, plugin_files
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plugreg_registry.databases import Database
    from plugreg_registry.records import PluginRecord

DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
USED = Usage(1000, DAY, 3, 2)
COLUMNS = "signer text, size bigint, day int, publishes int, names int"


class TestRule:
    """`check_quotas`."""

    @pytest.mark.parametrize(
        ("quotas", "size", "claims", "quota"),
        [
            (Quotas(size=1099), 100, False, "size"),
            (Quotas(publishes=3), 1, False, "publishes"),
            (Quotas(names=2), 1, True, "names"),
        ],
    )
    def test_over_a_quota(self, quotas: Quotas, size: int, claims: bool, quota: str) -> None:
        with pytest.raises(NotAllowed, match="quota_exceeded") as refused:
            check_quotas(quotas, USED, size, NOON, claims=claims)
        assert refused.value.details["quota"] == quota
        assert refused.value.details["limit"] == getattr(quotas, quota)
        assert refused.value.details["used"] == getattr(USED, quota)
        ends = None if quota == "size" else "2026-02-01T00:00:00Z"
        assert refused.value.details.get("until") == ends
        if ends:
            assert ends in refused.value.message

    @pytest.mark.parametrize(
        ("quotas", "claims"),
        [
            (Quotas(), True),
            (Quotas(size=1100), True),
            (Quotas(publishes=4), True),
            (Quotas(names=3), True),
            (Quotas(names=2), False),
        ],
    )
    def test_within_a_quota(self, quotas: Quotas, claims: bool) -> None:
        check_quotas(quotas, USED, 100, NOON, claims=claims)

    @pytest.mark.parametrize("days", [-400, -1, 1, 400])
    def test_another_day_begins_anew_whichever_way_the_clock_went(self, days: int) -> None:
        now = NOON + timedelta(days=days)
        check_quotas(Quotas(publishes=1, names=1), USED, 100, now, claims=True)
        with pytest.raises(NotAllowed):
            check_quotas(Quotas(size=1000), USED, 1, now, claims=False)

    def test_a_day_is_one_of_utc(self) -> None:
        late = datetime(2026, 2, 1, 1, tzinfo=UTC).astimezone(tz=NOON.astimezone().tzinfo)
        check_quotas(Quotas(publishes=3), USED, 1, late, claims=False)

    def test_settings(self) -> None:
        prefix = "PLUGREG_REGISTRY_QUOTA_"
        assert read_settings({}).quotas == Quotas()
        given = {prefix + "PUBLISHES": "5", prefix + "NAMES": "0", prefix + "SIZE": "1000000"}
        assert read_settings(given).quotas == Quotas(5, 0, 1_000_000)
        with pytest.raises(UsageError, match="QUOTA_NAMES"):
            read_settings({prefix + "NAMES": "-1"})


class TestStore:
    """What `Releases` counts."""

    @pytest.fixture
    def releases(self, engine: Engine) -> DatabaseReleases:
        return DatabaseReleases(engine)

    def test_a_release_is_counted_once_with_its_row(self, releases: DatabaseReleases) -> None:
        key = Key()
        record = _record("demo", key, "1.0.0")
        signer, size = record.releases[0].signer.words, record.releases[0].size
        assert releases.used(signer) == Usage()
        stored = releases.change("demo", lambda _: record)
        day = record.releases[0].published_at.date()
        assert releases.used(signer) == Usage(size, day, 1, 1)
        releases.change("demo", lambda before: before or record)
        more = _release("demo", key, "2.0.0")
        seen: list[Usage] = []
        releases.change("demo", lambda _: replace(stored, releases=(*stored.releases, more)), seen.append)
        assert seen == [Usage(size, day, 1, 1)]
        assert releases.used(signer) == Usage(size + more.size, day, 2, 1)

    def test_what_cannot_be_afforded_stores_nothing(self, releases: DatabaseReleases) -> None:
        record = _record("demo", Key(), "1.0.0")

        def afford(_: Usage) -> None:
            raise NotAllowed("quota_exceeded", "no")

        with pytest.raises(NotAllowed):
            releases.change("demo", lambda _: record, afford)
        assert releases.find("demo") is None
        assert releases.used(record.releases[0].signer.words) == Usage()

    def test_of_many_at_once_as_many_pass_as_the_quota_lets_in(self, releases: DatabaseReleases) -> None:
        key, quotas = Key(), Quotas(publishes=4)

        def publish(number: int) -> bool:
            record = _record(f"plugin{number}", key, "1.0.0")
            day = record.releases[0].published_at
            try:
                releases.change(
                    record.name,
                    lambda _: record,
                    lambda usage: check_quotas(quotas, usage, 1, day, claims=True),
                )
            except NotAllowed:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(publish, range(10))) == 4
        assert releases.used(_record("x", key, "1.0.0").releases[0].signer.words).publishes == 4

    def test_what_was_published_before_there_were_quotas_counts(self, empty: Database) -> None:
        upgrade(empty, "0007")
        engine = open_database(empty)
        releases = DatabaseReleases(engine)
        record: PluginRecord = _record("demo", Key(), "1.0.0")
        with writing(engine) as connection:  # as the version before did it
            connection.execute(text(f"CREATE TABLE usage ({COLUMNS})"))
        releases.change("demo", lambda _: record)
        with writing(engine) as connection:
            connection.execute(text("DROP TABLE usage"))
        engine.dispose()
        upgrade(empty)
        release = record.releases[0]
        used = DatabaseReleases(engine).used(release.signer.words)
        assert (used.size, used.publishes, used.names) == (release.size, 0, 0)
        with reading(engine) as connection:
            assert connection.execute(text("SELECT count(*) FROM usage")).scalar() == 1
        engine.dispose()


ADMIN = Key()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    quotas = {"PUBLISHES": "3", "NAMES": "2", "SIZE": "20000"}
    environment = {f"PLUGREG_REGISTRY_QUOTA_{name}": value for name, value in quotas.items()}
    environment["PLUGREG_REGISTRY_ADMINS"] = f"key:{ADMIN.id}"
    with running(tmp_path_factory.mktemp("registry"), environment=environment) as registry:
        yield registry


class TestRegistry:
    """A registry with quotas."""

    def test_publishes_of_a_day(self, author: Author, stranger: Author, name: str) -> None:
        for number in range(3):
            version = f"1.{number}.0"
            assert author.publish(plugin(name, version), name, version).status == 201
        refused = author.begin(plugin(name, "2.0.0"), name, "2.0.0")
        assert (refused.status, refused.code) == (403, "quota_exceeded")
        body = refused.json()
        assert (body["quota"], body["limit"], body["used"], body["retryable"]) == ("publishes", 3, 3, False)
        assert datetime.fromisoformat(body["until"]) > datetime.now(UTC)
        assert author.publish(plugin(name, "1.0.0"), name, "1.0.0").status == 200  # it is there
        assert author.state("yank", name, version="1.0.0", yanked=True, reason="old").status == 201
        assert stranger.publish(plugin(f"{name}x"), f"{name}x").status == 201

    def test_names_of_a_day(self, author: Author, name: str) -> None:
        for mark in ("a", "b"):
            assert author.publish(plugin(name + mark), name + mark).status == 201
        refused = author.begin(plugin(name + "c"), name + "c")
        assert (refused.code, refused.json()["quota"]) == ("quota_exceeded", "names")
        assert author.publish(plugin(name + "a", "2.0.0"), name + "a", "2.0.0").status == 201

    def test_bytes_in_all(self, author: Author, name: str) -> None:
        large = bundle_of(plugin_files(name, noise=secrets.token_bytes(15_000)))
        assert author.publish(large, name).status == 201
        more = bundle_of(plugin_files(name, "2.0.0", noise=secrets.token_bytes(15_000)))
        refused = author.begin(more, name, "2.0.0")
        assert (refused.code, refused.json()["quota"]) == ("quota_exceeded", "size")
        assert "until" not in refused.json()
        assert author.publish(plugin(name, "2.0.0"), name, "2.0.0").status == 201

    def test_who_begins_often_commits_no_more_than_the_quota(
        self, author: Author, name: str, stored: Callable[[], set[str]]
    ) -> None:
        versions = [f"1.{number}.0" for number in range(8)]
        assert author.publish(plugin(name, "0.1.0"), name, "0.1.0").status == 201
        begun = [(author.begin(plugin(name, version), name, version), version) for version in versions]
        assert {answer.status for answer, _ in begun} == {202}
        with ThreadPoolExecutor(8) as pool:
            ended = list(pool.map(lambda one: author.finish(one[0], plugin(name, one[1])), begun))
        assert sorted(answer.status for answer in ended) == [201, 201, *[403] * 6]
        shown = author.document(name)["versions"]
        assert len(shown) == 3
        kept = {ask(f"{author.url}blobs/sha256/{v['digest'][7:]}").status for v in shown}
        assert kept == {200}
        losers = [version for version in versions if version not in {v["version"] for v in shown}]
        digests = {hashlib.sha256(plugin(name, version)).hexdigest() for version in losers}
        assert not any(digest in path for digest in digests for path in stored())

    def test_administrators_have_none(self, registry: RegistryProcess, name: str) -> None:
        admin = Author(registry.url, registry.id, ADMIN)
        for mark in "abcd":
            assert admin.publish(plugin(name + mark), name + mark).status == 201
