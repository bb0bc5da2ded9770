"""One contract test for each port, run on every adapter."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from plugreg_registry.blobs.filesystem import FilesystemBlobs
from plugreg_registry.blobs.folders import store_faults
from plugreg_registry.blobs.locks import FileLocks, Presence
from plugreg_registry.blobs.s3 import S3Blobs
from plugreg_registry.blobs.s3_spool import S3Spool
from plugreg_registry.blobs.spool import FolderSpool
from plugreg_registry.metadata.backlog import DatabaseBacklog
from plugreg_registry.metadata.database import open_database, reading, writing
from plugreg_registry.metadata.identity import registry_id
from plugreg_registry.metadata.journal import DatabaseJournal
from plugreg_registry.metadata.lease import DatabaseLease
from plugreg_registry.metadata.leftovers import DatabaseLeftovers
from plugreg_registry.metadata.migrate import HEAD, is_there, migrate, revision, upgrade
from plugreg_registry.metadata.releases import DatabaseReleases
from plugreg_registry.metadata.sessions import DatabaseSessions
from plugreg_registry.metadata.tables import METADATA
from plugreg_registry.metadata.tokens import DatabaseTokens
from plugreg_registry.records import (
    AuditEntry,
    Facts,
    PluginRecord,
    StoredRelease,
    StoredStatement,
    Token,
    UploadSession,
)
from plugreg_schemas.errors import Conflict, InvalidInput, NoSpace, NotAvailable, Temporary, UsageError
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.envelope import Envelope, read_envelope
from plugreg_schemas.trust.identity import key_signer
from tests.support.next_version import REVISIONS
from tests.support.publisher import Key, plugin, publish_statement
from tests.support.registries import registry_environment
from tests.support.s3 import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine

    from plugreg_registry.databases import Database
    from plugreg_registry.ports import (
        Backlog,
        BlobStore,
        Journal,
        Lease,
        Leftovers,
        Releases,
        Sessions,
        Spool,
        Tokens,
    )

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)
REGISTRY = "urn:uuid:6f1f7c58-19a8-4f3c-9d5e-0f6f2ed7a001"


class TestBlobStore:
    """`BlobStore`."""

    @pytest.fixture(params=["filesystem", "s3"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
        if request.param == "filesystem":
            yield FilesystemBlobs(tmp_path / "objects")
        else:
            with opened(request.getfixturevalue("s3").bucket()) as bucket:
                yield S3Blobs(bucket)

    def test_put_and_open(self, store: BlobStore) -> None:
        store.put("index/plugins/demo.json", io.BytesIO(b"one"))
        with store.open("index/plugins/demo.json") as file:
            assert file.read() == b"one"
        assert store.has("index/plugins/demo.json")

    def test_put_replaces_and_a_reader_keeps_what_it_opened(self, store: BlobStore) -> None:
        store.put("a/b", io.BytesIO(b"old"))
        with store.open("a/b") as reader:
            store.put("a/b", io.BytesIO(b"new"))
            assert reader.read() == b"old"
        with store.open("a/b") as reader:
            assert reader.read() == b"new"

    def test_a_source_that_fails_stores_nothing(self, store: BlobStore) -> None:
        class Failing:
            def __init__(self) -> None:
                self.turn = 0

            def read(self, size: int = -1, /) -> bytes:
                self.turn += 1
                if self.turn > 2:
                    raise InvalidInput("broken", "the source broke")
                return bytes(100)

        with pytest.raises(InvalidInput, match="broken"):
            store.put("a/b", Failing())
        assert not store.has("a/b")
        assert list(store.keys("a")) == []

    def test_open_what_is_not_there(self, store: BlobStore) -> None:
        assert not store.has("a/b")
        with pytest.raises(NotAvailable, match="object_not_found"):
            store.open("a/b")

    def test_delete_repeats(self, store: BlobStore) -> None:
        store.put("a/b", io.BytesIO(b"x"))
        store.delete("a/b")
        store.delete("a/b")
        assert not store.has("a/b")

    def test_keys_are_sorted_and_below_the_prefix(self, store: BlobStore) -> None:
        for key in ("blobs/sha256/b", "blobs/sha256/a", "index/x.json"):
            store.put(key, io.BytesIO(b"x"))
        assert list(store.keys("blobs")) == ["blobs/sha256/a", "blobs/sha256/b"]
        assert list(store.keys("nothing")) == []

    def test_a_store_says_what_it_holds_and_since_when(self, store: FilesystemBlobs | S3Blobs) -> None:
        """`Inventory`: the same adapters."""
        assert (list(store.objects("blobs")), store.changed("blobs/a")) == ([], None)
        begun = datetime.now(UTC) - timedelta(seconds=2)
        store.put("blobs/a", io.BytesIO(b"four"))
        [found] = store.objects("blobs")
        assert (found.key, found.size) == ("blobs/a", 4)
        assert begun < found.changed < begun + timedelta(minutes=1)
        assert found.changed == store.changed("blobs/a")

    @pytest.mark.parametrize(
        "key", ["", "/a", "a/", "a//b", "../a", "a/../b", "A", "a\\b", "a\0", "a\n", "a" * 201, ".a"]
    )
    def test_keys_that_are_none(self, store: BlobStore, key: str) -> None:
        for act in (store.open, store.has, store.delete):
            with pytest.raises(InvalidInput, match="key_invalid"):
                act(key)
        with pytest.raises(InvalidInput, match="key_invalid"):
            store.put(key, io.BytesIO(b"x"))

    def test_put_only_where_nothing_is(self, store: BlobStore) -> None:
        store.put("a/b", io.BytesIO(b"first"), None)
        with pytest.raises(Conflict, match="object_changed"):
            store.put("a/b", io.BytesIO(b"second"), None)
        with store.open("a/b") as file:
            assert file.read() == b"first"
        assert list(store.keys("a")) == ["a/b"]

    def test_put_only_over_what_was_read(self, store: BlobStore) -> None:
        with pytest.raises(Conflict, match="object_changed"):
            store.put("a/b", io.BytesIO(b"new"), b"")
        store.put("a/b", io.BytesIO(b"one"))
        store.put("a/b", io.BytesIO(b"two"), b"one")
        with pytest.raises(Conflict, match="object_changed"):
            store.put("a/b", io.BytesIO(b"late"), b"one")
        with store.open("a/b") as file:
            assert file.read() == b"two"
        assert list(store.keys("a")) == ["a/b"]

    def test_of_writers_who_saw_the_same_one_wins(self, store: BlobStore) -> None:
        def write(number: int, over: bytes | None) -> bool:
            try:
                store.put("a/b", io.BytesIO(b"%d" % number), over)
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            for over in (None, *(b"turn %d" % turn for turn in range(5))):
                if over is not None:
                    store.put("a/b", io.BytesIO(over))
                assert sum(pool.map(write, range(8), [over] * 8)) == 1

    def test_many_writers_of_one_key_leave_one_whole_object(self, store: BlobStore) -> None:
        contents = [bytes([number]) * 300_000 for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda content: store.put("a/b", io.BytesIO(content)), contents))
        with store.open("a/b") as file:
            assert file.read() in contents


def test_sweeping_spares_what_is_being_written(tmp_path: Path) -> None:
    store = FilesystemBlobs(tmp_path)
    begun, end = threading.Event(), threading.Event()

    class Slow:
        def read(self, size: int = -1, /) -> bytes:
            begun.set()
            end.wait(20)
            return b""

    (tmp_path / "a").mkdir()
    left = tmp_path / "a" / ".unfinished-left"
    left.write_bytes(b"x")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(store.put, "a/b", Slow())
        begun.wait(20)
        assert store.sweep() == 1
        end.set()
        writing.result(20)
    assert store.has("a/b")
    assert not left.exists()


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, NoSpace, "disk_full"),
        (errno.EDQUOT, NoSpace, "disk_full"),
        (errno.EIO, Temporary, "store_unavailable"),
        (errno.EROFS, Temporary, "store_unavailable"),
    ],
)
def test_what_a_file_system_says(tmp_path: Path, number: int, kind: type[Temporary], code: str) -> None:
    with pytest.raises(kind, match=code) as caught, store_faults(tmp_path):
        raise OSError(number, "said")
    assert str(tmp_path) in caught.value.message


class TestSpool:
    """`Spool`."""

    SESSION = "ab" * 32

    @pytest.fixture(params=["folder", "s3"])
    def spool(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spool]:
        if request.param == "folder":
            yield FolderSpool(tmp_path / "uploads")
        else:
            with opened(request.getfixturevalue("s3").bucket()) as bucket:
                yield S3Spool(S3Blobs(bucket), tmp_path)

    def test_bytes_are_appended(self, spool: Spool) -> None:
        assert spool.size(self.SESSION) == 0
        with spool.append(self.SESSION, 0) as writer:
            assert writer.write(b"one") == 3
        with spool.append(self.SESSION, 3) as writer:
            assert writer.write(b"two") == 6
        assert spool.size(self.SESSION) == 6
        with spool.open(self.SESSION) as file:
            assert file.read() == b"onetwo"
        assert list(spool.sessions()) == [self.SESSION]

    def test_a_wrong_offset_is_told_the_right_one(self, spool: Spool) -> None:
        with spool.append(self.SESSION, 0) as writer:
            writer.write(b"one")
        with pytest.raises(Conflict, match="upload_offset") as caught, spool.append(self.SESSION, 2):
            pass
        assert caught.value.details == {"offset": 3}

    def test_offset_zero_starts_over(self, spool: Spool) -> None:
        with spool.append(self.SESSION, 0) as writer:
            writer.write(b"long content")
        with spool.append(self.SESSION, 0) as writer:
            writer.write(b"short")
        with spool.open(self.SESSION) as file:
            assert file.read() == b"short"

    def test_one_writer_at_a_time(self, spool: Spool) -> None:
        with spool.append(self.SESSION, 0) as writer:
            writer.write(b"one")
            with pytest.raises(Conflict, match="upload_busy"), spool.append(self.SESSION, 0):
                pass
        assert spool.size(self.SESSION) == 3

    def test_remove_repeats(self, spool: Spool) -> None:
        with spool.append(self.SESSION, 0):
            pass
        spool.remove(self.SESSION)
        spool.remove(self.SESSION)
        assert list(spool.sessions()) == []
        assert spool.open(self.SESSION).read() == b""


def _record(name: str, key: Key, *versions: str) -> PluginRecord:
    """A record as the first publish and some more make it."""
    releases = [_release(name, key, version) for version in versions]
    envelope = _envelope(name, key, versions[0])
    first = StoredStatement(envelope.digest, envelope.content, key.spki, NOW)
    return PluginRecord(name, (first,), tuple(releases))


def _envelope(name: str, key: Key, version: str) -> Envelope:
    return read_envelope(key.envelope(publish_statement(REGISTRY, name, version, plugin(name, version))))


def _release(name: str, key: Key, version: str) -> StoredRelease:
    return StoredRelease(
        version=version,
        digest=Digest.of(plugin(name, version)),
        size=100,
        format="agent-plugins",
        published_at=NOW,
        attestation=_envelope(name, key, version).digest,
        signer=key_signer(key.spki),
        public_key=key.spki,
        facts=Facts(description="A demo.", launchers=("npx",)),
    )


class TestReleases:
    """`Releases`."""

    @pytest.fixture(params=["database"])
    def releases(self, request: pytest.FixtureRequest, engine: Engine) -> Releases:
        return {"database": DatabaseReleases(engine)}[request.param]

    def test_a_record_comes_back_as_it_was_stored(self, releases: Releases) -> None:
        assert releases.find("demo") is None
        record = _record("demo", Key(), "1.0.0", "1.1.0")
        stored = releases.change("demo", lambda _: record)
        assert stored == replace(record, revision=1)
        assert releases.find("demo") == stored
        assert stored.history.plugin == "demo"

    def test_a_record_grows(self, releases: Releases) -> None:
        key = Key()
        releases.change("demo", lambda _: _record("demo", key, "1.0.0"))

        def grow(record: PluginRecord | None) -> PluginRecord:
            assert record is not None
            return replace(record, releases=(*record.releases, _release("demo", key, "2.0.0")))

        stored = releases.change("demo", grow)
        assert [release.version for release in stored.releases] == ["1.0.0", "2.0.0"]
        assert stored.revision == 2
        assert releases.find("demo") == stored

    def test_a_refusal_stores_nothing(self, releases: Releases) -> None:
        def refuse(_: PluginRecord | None) -> PluginRecord:
            raise Conflict("no", "no")

        with pytest.raises(Conflict, match="no"):
            releases.change("demo", refuse)
        assert releases.find("demo") is None

    def test_the_same_record_is_no_change(self, releases: Releases) -> None:
        stored = releases.change("demo", lambda _: _record("demo", Key(), "1.0.0"))
        assert releases.change("demo", lambda record: record or stored).revision == 1

    def test_lookalikes(self, releases: Releases) -> None:
        releases.change("acme.tools", lambda _: _record("acme.tools", Key(), "1.0.0"))
        assert releases.lookalike("acme-tools") == "acme.tools"
        assert releases.lookalike("acme.tools") is None
        with pytest.raises(Conflict, match="name_lookalike"):
            releases.change("acme_tools", lambda _: _record("acme_tools", Key(), "1.0.0"))
        assert releases.find("acme_tools") is None

    def test_changes_of_one_name_queue(self, releases: Releases) -> None:
        key = Key()
        releases.change("demo", lambda _: _record("demo", key, "0.0.0"))
        made = {f"1.{number}.0": _release("demo", key, f"1.{number}.0") for number in range(12)}

        def add(version: str) -> None:
            def grow(record: PluginRecord | None) -> PluginRecord:
                assert record is not None
                return replace(record, releases=(*record.releases, made[version]))

            releases.change("demo", grow)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(add, made))
        record = releases.find("demo")
        assert record is not None
        assert sorted(release.version for release in record.releases) == sorted(["0.0.0", *made])
        assert record.revision == 13


class TestBacklog:
    """`Backlog`."""

    @pytest.fixture(params=["database"])
    def releases(self, request: pytest.FixtureRequest, engine: Engine) -> Releases:
        return {"database": DatabaseReleases(engine)}[request.param]

    @pytest.fixture(params=["database"])
    def backlog(self, request: pytest.FixtureRequest, engine: Engine) -> Backlog:
        return {"database": DatabaseBacklog(engine)}[request.param]

    def _two_revisions(self, releases: Releases, name: str) -> None:
        key = Key()
        releases.change(name, lambda _: _record(name, key, "1.0.0"))
        later = _record(name, key, "1.0.0", "2.0.0").releases
        releases.change(name, lambda r: replace(r or _record(name, key, "1.0.0"), releases=later))

    def test_a_changed_record_waits(self, releases: Releases, backlog: Backlog) -> None:
        assert backlog.waiting(10) == ()
        for name in ("c", "b", "a"):
            releases.change(name, lambda _, name=name: _record(name, Key(), "1.0.0"))  # type: ignore[misc]
        assert backlog.waiting(10) == ("a", "b", "c")
        assert backlog.waiting(2) == ("a", "b")
        backlog.mark({"a": 1, "c": 1})
        assert backlog.waiting(10) == ("b",)
        assert backlog.plugins() == 3

    def test_a_revision_is_shown_from_its_mark_on(self, releases: Releases, backlog: Backlog) -> None:
        assert not backlog.shows("a", 1)
        self._two_revisions(releases, "a")
        backlog.mark({"a": 1})
        assert (backlog.shows("a", 1), backlog.shows("a", 2)) == (True, False)
        backlog.mark({"a": 2})
        assert backlog.shows("a", 1)

    def test_an_older_mark_undoes_nothing(self, releases: Releases, backlog: Backlog) -> None:
        self._two_revisions(releases, "a")
        backlog.mark({"a": 2})
        backlog.mark({"a": 1, "unknown": 7})
        backlog.mark({})
        assert backlog.waiting(10) == ()

    def test_plugins_wait_again(self, releases: Releases, backlog: Backlog) -> None:
        for name in ("a", "b"):
            self._two_revisions(releases, name)
            backlog.mark({name: 2})
        backlog.again(("a", "unknown"))
        assert backlog.waiting(10) == ("a",)
        backlog.again()
        assert backlog.waiting(10) == ("a", "b")


class TestLease:
    """`Lease`."""

    @pytest.fixture(params=["database"])
    def leases(self, request: pytest.FixtureRequest, engine: Engine) -> Callable[..., Lease]:
        """Makes the lease as a holder sees it."""

        def database(holder: str, seconds: float = 30, *, alive: bool = True) -> Lease:
            return DatabaseLease(engine, holder, lambda _: alive, seconds)

        return {"database": database}[request.param]

    def test_one_holder_at_a_time(self, leases: Callable[..., Lease]) -> None:
        one, other = leases("one"), leases("other")
        token = one.take()
        assert token is not None
        assert other.take() is None
        one.release(token)
        taken = other.take()
        assert taken is not None
        assert taken > token
        assert one.take() is None

    def test_the_holder_prolongs_it(self, leases: Callable[..., Lease]) -> None:
        one = leases("one", 0.3)
        for _ in range(4):
            assert one.take() is not None
            time.sleep(0.1)
        assert leases("other").take() is None

    def test_it_is_over_after_its_time_and_the_late_holder_takes_nothing_back(
        self, leases: Callable[..., Lease]
    ) -> None:
        late, next_one = leases("late", 0.01), leases("next")
        token = late.take()
        assert token is not None
        time.sleep(0.02)
        assert next_one.take() is not None
        late.release(token)
        assert leases("third").take() is None

    def test_one_that_ends_later_than_a_lease_from_now_is_over(
        self, leases: Callable[..., Lease], engine: Engine
    ) -> None:
        token = leases("ahead").take()
        with writing(engine) as connection:  # as when the clock went back, or was a day ahead for a moment
            connection.execute(text("UPDATE leases SET expires = expires + 86400000"))
        next_token = leases("other").take()
        assert token is not None
        assert next_token == token + 1
        assert leases("third").take() is None

    def test_a_dead_holder_is_not_waited_for(self, leases: Callable[..., Lease]) -> None:
        assert leases("dead").take() is not None
        assert leases("other").take() is None
        assert leases("other", alive=False).take() is not None

    def test_of_many_who_come_at_once_one_gets_it(self, leases: Callable[..., Lease]) -> None:
        with ThreadPoolExecutor(6) as pool:
            tokens = list(pool.map(lambda number: leases(f"holder{number}").take(), range(12)))
        assert sum(token is not None for token in tokens) == 1


class TestPresence:
    """Which processes are still there."""

    def test_a_process_is_there_until_it_ends(self, tmp_path: Path) -> None:
        here = Presence(tmp_path)
        script = f"import pathlib, sys; from plugreg_registry.blobs.locks import Presence; p = Presence(pathlib.Path({str(tmp_path)!r})); print(p.name, flush=True); sys.stdin.read()"
        other = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=registry_environment(),
        )
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        assert here.may_live(name)
        assert here.may_live(here.name)
        other.kill()
        other.communicate()
        assert not here.may_live(name)
        assert not here.may_live(name)
        here.leave()

    def test_the_files_of_processes_that_died_long_ago_go(self, tmp_path: Path) -> None:
        there = Presence(tmp_path)
        dead = there.path("dead")
        for path in (dead, there.path(there.name)):
            path.touch()
            os.utime(path, (0, 0))
        Presence(tmp_path).leave()
        assert not dead.exists()
        assert there.path(there.name).exists()
        there.leave()

    def test_a_process_of_another_machine_may_live(self, tmp_path: Path) -> None:
        here = Presence(tmp_path)
        assert here.may_live("0" * 32)
        here.leave()


def test_what_is_kept_in_memory_is_what_is_stored(engine: Engine) -> None:
    """Two processes: each keeps what it has read, and sees what the other does at once."""
    here, there, key = DatabaseReleases(engine), DatabaseReleases(engine), Key()

    def grow(record: PluginRecord | None, version: str) -> PluginRecord:
        assert record is not None
        return replace(record, releases=(*record.releases, _release("demo", key, version)))

    def break_off(record: PluginRecord | None) -> PluginRecord:
        grow(record, "9.0.0")
        raise Conflict("no", "no")

    first = here.change("demo", lambda _: _record("demo", key, "1.0.0"))
    assert there.find("demo") == here.find("demo") == first
    second = there.change("demo", lambda record: grow(record, "2.0.0"))
    with pytest.raises(Conflict):
        here.change("demo", break_off)
    assert here.find("demo") == second
    third = here.change("demo", lambda record: grow(record, "3.0.0"))
    assert third.revision == 3
    assert there.find("demo") == third == DatabaseReleases(engine).find("demo")


class TestSessions:
    """`Sessions`."""

    @pytest.fixture(params=["database"])
    def sessions(self, request: pytest.FixtureRequest, engine: Engine) -> Sessions:
        return {"database": DatabaseSessions(engine)}[request.param]

    def _session(self, id_: str, expires: datetime, signer: str = "key:sha256:...") -> UploadSession:
        return UploadSession(
            id_ * 64, b"envelope", b"key", 1 << 40, claims=True, expires=expires, signer=signer
        )

    def test_a_session_comes_back(self, sessions: Sessions) -> None:
        session = self._session("a", NOW.replace(microsecond=0))
        sessions.add(session)
        assert sessions.find(session.id) == session
        sessions.remove(session.id)
        sessions.remove(session.id)
        assert sessions.find(session.id) is None

    def test_the_sessions_of_a_signer_come_in_the_order_of_their_begin(self, sessions: Sessions) -> None:
        for id_, signer in (("c", "one"), ("a", "one"), ("b", "other"), ("d", "one")):
            sessions.add(self._session(id_, NOW, signer))
        assert sessions.of("one") == ("c" * 64, "a" * 64, "d" * 64)
        sessions.remove("a" * 64)
        assert sessions.of("one") == ("c" * 64, "d" * 64)
        assert sessions.of("nobody") == ()

    def test_time_runs_out(self, sessions: Sessions) -> None:
        sessions.add(self._session("a", NOW))
        sessions.add(self._session("b", NOW + timedelta(hours=1)))
        assert sessions.expired(NOW - timedelta(seconds=1)) == ()
        assert sessions.expired(NOW) == ("a" * 64,)
        assert sessions.expired(NOW + timedelta(hours=1)) == ("a" * 64, "b" * 64)


class TestJournal:
    """`Journal`."""

    @pytest.fixture(params=["database"])
    def journal(self, request: pytest.FixtureRequest, engine: Engine) -> Journal:
        return {"database": DatabaseJournal(engine)}[request.param]

    def _entry(self, number: int) -> AuditEntry:
        return AuditEntry(
            Digest.of(bytes([number])), NOW, "publish", "demo", f"1.{number}.0", "key:sha256:..."
        )

    def test_entries_come_back_in_order_with_growing_serials(self, journal: Journal) -> None:
        entries = [self._entry(number) for number in range(5)]
        for entry in entries:
            journal.record([entry])
        found = journal.read()
        assert [entry for _, entry in found] == entries
        serials = [serial for serial, _ in found]
        assert serials == sorted(set(serials))
        assert journal.read(after=serials[1], limit=2) == found[2:4]
        assert journal.read(after=serials[-1]) == ()

    def test_serials_have_no_gap_and_no_entry_comes_before_one_that_was_seen(self, journal: Journal) -> None:
        entries = [[self._entry(number), self._entry(number + 100)] for number in range(24)]
        seen: list[list[int]] = []

        def record(two: list[AuditEntry]) -> None:
            journal.record(two)
            journal.record(two)
            seen.append([serial for serial, _ in journal.read()])

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(record, entries))
        assert [serial for serial, _ in journal.read()] == list(range(1, 49))
        assert all(serials == list(range(1, len(serials) + 1)) for serials in seen)

    def test_an_entry_is_kept_once(self, journal: Journal) -> None:
        journal.record([self._entry(1), self._entry(2)])
        journal.record([self._entry(1), self._entry(3)])
        assert [entry for _, entry in journal.read()] == [self._entry(1), self._entry(2), self._entry(3)]

    def test_the_newest_serial_is_that_of_the_last_entry(self, journal: Journal) -> None:
        assert journal.newest() == 0
        journal.record([self._entry(1), self._entry(2)])
        assert journal.newest() == journal.read()[-1][0] == 2


class TestLeftovers:
    """`Leftovers`."""

    @pytest.fixture(params=["database"])
    def leftovers(self, request: pytest.FixtureRequest, engine: Engine) -> Leftovers:
        return {"database": DatabaseLeftovers(engine)}[request.param]

    def test_the_oldest_come_first_and_only_those_before_a_time(self, leftovers: Leftovers) -> None:
        leftovers.add(["b", "c"], NOW)
        leftovers.add(["a"], NOW - timedelta(hours=1))
        assert leftovers.old(NOW - timedelta(hours=2)) == ()
        assert leftovers.old(NOW - timedelta(minutes=1)) == ("a",)
        assert [leftovers.old(NOW)[0], *sorted(leftovers.old(NOW)[1:])] == ["a", "b", "c"]
        assert leftovers.old(NOW, limit=1) == ("a",)

    def test_what_is_replaced_again_stays_longer(self, leftovers: Leftovers) -> None:
        leftovers.add(["a"], NOW)
        leftovers.add(["a", "a"], NOW + timedelta(hours=1))
        assert leftovers.old(NOW) == ()
        assert leftovers.old(NOW + timedelta(hours=1)) == ("a",)

    def test_what_is_removed_is_forgotten(self, leftovers: Leftovers) -> None:
        leftovers.add(["a", "b"], NOW)
        leftovers.remove(["a", "unknown"])
        leftovers.add([], NOW)
        assert leftovers.old(NOW) == ("b",)


class TestTokens:
    """`Tokens`."""

    @pytest.fixture(params=["database"])
    def tokens(self, request: pytest.FixtureRequest, engine: Engine) -> Tokens:
        return {"database": DatabaseTokens(engine)}[request.param]

    def _token(self, number: int) -> Token:
        created = NOW.replace(microsecond=0) + timedelta(seconds=number)
        return Token(f"{number:08x}", "somebody", "read", f"{number:064x}", created)

    def test_tokens_come_back_whole_the_oldest_first(self, tokens: Tokens) -> None:
        ends = replace(self._token(1), scope="audit", expires=NOW.replace(microsecond=0))
        for token in (self._token(2), ends):
            tokens.add(token)
        assert tokens.all() == (ends, self._token(2))

    def test_a_removed_token_is_gone(self, tokens: Tokens) -> None:
        tokens.add(self._token(1))
        assert tokens.remove(self._token(1).id)
        assert not tokens.remove(self._token(1).id)
        assert tokens.all() == ()

    def test_the_newest_use_counts_and_one_of_a_removed_token_is_no_fault(self, tokens: Tokens) -> None:
        token, later = self._token(1), NOW.replace(microsecond=0)
        tokens.add(token)
        for used in (later, later - timedelta(hours=1)):
            tokens.note_uses({token.id: used, "gone": used})
        tokens.note_uses({})
        assert tokens.all() == (replace(token, used=later),)


class TestLock:
    """`Lock`."""

    def test_one_at_a_time_and_purposes_apart(self, tmp_path: Path) -> None:
        lock = FileLocks(tmp_path)
        inside, most = 0, 0

        def work(_: int) -> None:
            nonlocal inside, most
            with lock("object", "name"):
                inside += 1
                most = max(most, inside)
                inside -= 1

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(200)))
        assert most == 1
        with lock("session", "x"), lock("object", "x"), lock("index", "x"):
            pass


def test_the_id_is_made_once_whoever_comes_first(engine: Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: registry_id(engine), range(8)))
    assert len(made) == 1
    assert registry_id(engine, made.copy().pop()) in made
    with pytest.raises(UsageError, match="registry_id_fixed"):
        registry_id(engine, "https://plugins.example.com")


def test_an_id_that_is_none(engine: Engine) -> None:
    for wanted in ("http://plugins.example.com", "plugins", "https://plugins.example.com/"):
        with pytest.raises(InvalidInput, match="registry_id_invalid"):
            registry_id(engine, wanted)


def _is_shared(name: str | None, kind: str, _parents: object) -> bool:
    """Whether something in a database is there on both: each has an index of words that only itself knows."""
    own = name is not None and (name.startswith("search_words") or name == "ix_search_lexemes")
    return not own and (kind, name) != ("column", "lexemes")


SHARED = {"include_name": _is_shared}


def test_migrations_make_the_tables_that_the_code_knows(engine: Engine) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from plugreg_registry.metadata.migrate import MIGRATIONS

    assert revision(engine) == HEAD
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts=SHARED)
        assert compare_metadata(context, METADATA) == []


@pytest.mark.parametrize("before", REVISIONS)
def test_every_earlier_database_comes_to_the_same_tables(empty: Database, before: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    upgrade(empty, before)
    upgrade(empty)
    engine = open_database(empty)
    with reading(engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=SHARED), METADATA) == []
    engine.dispose()


def test_a_session_of_the_first_tables_goes_on(empty: Database) -> None:
    upgrade(empty, "0001")
    engine = open_database(empty)
    row = "INSERT INTO sessions VALUES (:id, :bytes, :bytes, 1, true, :expires)"
    with engine.begin() as connection:
        values = {"id": "a" * 64, "bytes": b"x", "expires": int(NOW.timestamp())}
        connection.execute(text(row), values)
    engine.dispose()
    assert migrate(empty)
    engine = open_database(empty)
    found = DatabaseSessions(engine).find("a" * 64)
    engine.dispose()
    assert found is not None
    assert (found.signer, found.provenance) == ("", b"")


def test_migrating_again_does_nothing_and_a_newer_database_is_refused(empty: Database) -> None:
    assert not is_there(empty)
    assert migrate(empty)
    assert is_there(empty)
    assert not migrate(empty)
    engine = open_database(empty)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(UsageError, match="database_newer"):
        migrate(empty)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "registry.sqlite3"
    file.write_bytes(b"this is not a database, it is a text" * 100)
    with pytest.raises(Temporary, match="store_unavailable"):
        migrate(file)
