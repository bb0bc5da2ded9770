"""Objects and uploads in a bucket: what only such a store can do, and what becomes of its faults."""

from __future__ import annotations

import io
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.blobs import s3_spool
from plugreg_registry.blobs.bucket import Patience, open_bucket
from plugreg_registry.blobs.s3 import PART_BYTES, S3Access, S3Blobs
from plugreg_registry.blobs.s3_probe import probe
from plugreg_registry.blobs.s3_spool import S3Spool
from plugreg_registry.object_kinds import PRIVATE
from plugreg_schemas.errors import Conflict, InvalidInput, NoSpace, Temporary, TooLarge, UsageError
from tests.support.publisher import ask
from tests.support.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, credentials, forwarding, opened, refusal
from tests.support.scripted import Answer, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from plugreg_registry.blobs.bucket import OpenBucket
    from tests.support.s3 import S3Server
    from tests.support.scripted import Request

SESSION = "ab" * 32
QUICK = Patience(connect=1, read=1, retries=1)


@pytest.fixture
def bucket(s3: S3Server) -> Iterator[OpenBucket]:
    with opened(s3.bucket()) as bucket:
        yield bucket


@pytest.fixture
def blobs(bucket: OpenBucket) -> S3Blobs:
    return S3Blobs(bucket)


def head(bucket: OpenBucket, key: str) -> dict[str, object]:
    return dict(bucket.client.head_object(**bucket.at(key)))


def open_parts(bucket: OpenBucket) -> int:
    return len(bucket.client.list_multipart_uploads(**bucket.below("")).get("Uploads", []))


class TestObjects:
    """What `S3Blobs` does beyond the contract of all stores."""

    @pytest.mark.parametrize(
        ("key", "kind", "cache"),
        [
            (f"blobs/sha256/{'0' * 64}", "application/vnd.plugreg.bundle.v1+tar.zst", "public, max-age=31536000, immutable, no-transform"),
            (f"attestations/sha256/{'0' * 64}.json", "application/json", "public, max-age=31536000, immutable"),
            ("index/metadata/1.root.json", "application/json", "public, max-age=31536000, immutable"),
            ("index/metadata/timestamp.json", "application/json", "no-cache"),
            ("index/plugins/demo.json", "application/json", "no-cache"),
            (".well-known/plugreg.json", "application/json", "no-cache"),
            ("staging/x", "application/octet-stream", "no-store"),
        ],
    )  # fmt: skip
    def test_an_object_says_how_it_is_served_without_us(
        self, blobs: S3Blobs, key: str, kind: str, cache: str
    ) -> None:
        blobs.put(key, io.BytesIO(b"{}"))
        found = head(blobs.bucket, key)
        assert (found["ContentType"], found["CacheControl"]) == (kind, cache)

    def test_the_operator_lets_caches_keep_what_changes(self, bucket: OpenBucket) -> None:
        S3Blobs(bucket, index_max_age=60).put("index/plugins/demo.json", io.BytesIO(b"{}"))
        assert head(bucket, "index/plugins/demo.json")["CacheControl"] == "public, max-age=60"

    @pytest.mark.parametrize("size", [PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 5])
    def test_a_large_object_comes_in_parts_and_is_whole(self, blobs: S3Blobs, size: int) -> None:
        content = os.urandom(size)
        blobs.put("a/b", io.BytesIO(content))
        with blobs.open("a/b") as file:
            assert file.read() == content
        with blobs.span("a/b", 5, size - 5) as file:
            assert file.read() == content[5 : size - 5]
        assert blobs.size("a/b") == size
        assert open_parts(blobs.bucket) == 0

    def test_never_more_than_a_part_is_asked_of_a_source(self, blobs: S3Blobs) -> None:
        asked: list[int] = []

        class Zeros:
            left = 2 * PART_BYTES + 1

            def read(self, size: int = -1, /) -> bytes:
                asked.append(size)
                found = bytes(min(size, self.left))
                self.left -= len(found)
                return found

        blobs.put("a/b", Zeros())
        assert 0 < max(asked) <= PART_BYTES
        assert min(asked) > 0

    def test_parts_whose_source_fails_are_given_up(self, blobs: S3Blobs) -> None:
        class Failing:
            turn = 0

            def read(self, size: int = -1, /) -> bytes:
                self.turn += 1
                if self.turn > 2:
                    raise InvalidInput("broken", "the source broke")
                return bytes(PART_BYTES)

        with pytest.raises(InvalidInput, match="broken"):
            blobs.put("a/b", Failing())
        assert not blobs.has("a/b")
        assert open_parts(blobs.bucket) == 0

    @pytest.mark.parametrize("over", [None, b"something else"])
    def test_conditions_hold_for_objects_in_parts(self, blobs: S3Blobs, over: bytes | None) -> None:
        blobs.put("a/b", io.BytesIO(b"first"))
        with pytest.raises(Conflict, match="object_changed"):
            blobs.put("a/b", io.BytesIO(bytes(PART_BYTES + 1)), over)
        with blobs.open("a/b") as file:
            assert file.read() == b"first"
        assert open_parts(blobs.bucket) == 0

    def test_an_object_that_goes_before_it_is_replaced_is_another_one(self, s3: S3Server) -> None:
        forward = forwarding(s3.endpoint)

        def late(request: Request) -> Answer:
            if request.method == "PUT" and "If-Match" in request.headers:
                other.delete("a/b")
            return forward(request)

        place = s3.bucket()
        with (
            serving(late) as server,
            opened(place) as own,
            opened(replace(place, endpoint=server.url)) as front,
        ):
            other = S3Blobs(own)
            other.put("a/b", io.BytesIO(b"one"))
            with pytest.raises(Conflict, match="object_changed"):
                S3Blobs(front).put("a/b", io.BytesIO(b"two"), b"one")
            assert not other.has("a/b")

    def test_what_crashed_writers_left_is_given_up_after_an_hour(self, blobs: S3Blobs) -> None:
        blobs.bucket.client.create_multipart_upload(**blobs.bucket.at("blobs/x"))
        assert blobs.sweep() == 0
        assert open_parts(blobs.bucket) == 1
        assert blobs.sweep(datetime.now(UTC) + timedelta(hours=1, minutes=1)) == 1
        assert open_parts(blobs.bucket) == 0

    def test_objects_are_encrypted_as_the_operator_says(self, s3: S3Server) -> None:
        with opened(replace(s3.bucket(), encryption="AES256")) as bucket:
            S3Blobs(bucket).put("a/b", io.BytesIO(b"x"))
            S3Blobs(bucket).put("a/c", io.BytesIO(bytes(PART_BYTES)))
            for key in ("a/b", "a/c"):
                assert head(bucket, key)["ServerSideEncryption"] == "AES256"

    def test_prefixes_keep_registries_apart(self, s3: S3Server, blobs: S3Blobs) -> None:
        with opened(s3.bucket()) as other:
            S3Blobs(other).put("a/b", io.BytesIO(b"x"))
        assert not blobs.has("a/b")
        assert list(blobs.keys("a")) == []

    def test_keys_over_many_pages(self, blobs: S3Blobs, s3: S3Server) -> None:
        for number in range(25):
            blobs.put(f"a/{number:02}", io.BytesIO(b"x"))
        pages = blobs.bucket.client.get_paginator("list_objects_v2")
        page = pages.paginate(**blobs.bucket.below("a/"), PaginationConfig={"PageSize": 10})
        assert sum(len(found["Contents"]) for found in page) == 25
        assert list(blobs.keys("a")) == [f"a/{number:02}" for number in range(25)]


class TestUploads:
    """What `S3Spool` does beyond the contract of all spools."""

    @pytest.fixture
    def spool(self, blobs: S3Blobs, tmp_path: Path) -> S3Spool:
        return S3Spool(blobs, tmp_path)

    @pytest.fixture
    def replica(self, bucket: OpenBucket, tmp_path: Path) -> S3Spool:
        return S3Spool(S3Blobs(bucket), tmp_path)

    def test_an_upload_goes_on_at_another_replica(self, spool: S3Spool, replica: S3Spool) -> None:
        with spool.append(SESSION, 0) as writer:
            writer.write(b"one")
        with replica.append(SESSION, 3) as writer:
            assert writer.write(b"two") == 6
        with spool.open(SESSION) as file:
            assert file.read() == b"onetwo"

    def test_of_two_replicas_that_write_the_same_piece_one_wins(
        self, spool: S3Spool, replica: S3Spool
    ) -> None:
        with spool.append(SESSION, 0) as writer:
            writer.write(b"one")
        with spool.append(SESSION, 3) as slow, replica.append(SESSION, 3) as quick:
            quick.write(b"two")
            with pytest.raises(Conflict, match="upload_busy"):
                slow.write(b"late")
        with spool.open(SESSION) as file:
            assert file.read() == b"onetwo"

    def test_who_starts_over_is_not_disturbed_by_a_writer_that_lives_on(
        self, spool: S3Spool, replica: S3Spool
    ) -> None:
        with spool.append(SESSION, 0) as stale:
            stale.write(b"old")
            with replica.append(SESSION, 0) as writer:
                writer.write(b"new")
                stale.write(b"old")
                writer.write(b"er")
        assert spool.size(SESSION) == 5
        with spool.open(SESSION) as file:
            assert file.read() == b"newer"

    def test_crumbs_without_end_are_refused(self, spool: S3Spool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(s3_spool, "MOST_PIECES", 3)
        with spool.append(SESSION, 0) as writer:
            for _ in range(3):
                writer.write(b"x")
            with pytest.raises(TooLarge, match="upload_pieces"):
                writer.write(b"x")

    def test_an_upload_with_a_hole_ends_before_it(self, spool: S3Spool) -> None:
        with spool.append(SESSION, 0) as writer:
            for _ in range(3):
                writer.write(b"abc")
        spool.blobs.delete(s3_spool.piece_key(SESSION, 1, 3))
        assert spool.size(SESSION) == 3

    def test_a_client_puts_an_upload_itself(self, spool: S3Spool) -> None:
        url = S3Access(spool.blobs.bucket).upload_url(SESSION, 5, 60)
        assert ask(url, "PUT", b"whole").status == 200
        assert spool.size(SESSION) == 5
        assert list(spool.sessions()) == [SESSION]
        with spool.open(SESSION) as file:
            assert file.read() == b"whole"
        with pytest.raises(Conflict, match="upload_offset"), spool.append(SESSION, 2):
            pass
        with spool.append(SESSION, 0) as writer:
            writer.write(b"other")
        with spool.open(SESSION) as file:
            assert file.read() == b"other"
        spool.remove(SESSION)
        assert list(spool.sessions()) == []

    @pytest.mark.parametrize("body", [b"larger", b"less"])
    def test_the_size_is_part_of_the_permission(self, spool: S3Spool, body: bytes) -> None:
        url = S3Access(spool.blobs.bucket).upload_url(SESSION, 5, 60)
        assert ask(url, "PUT", body).status == 403
        assert spool.size(SESSION) == 0

    def test_what_is_read_does_not_change_when_the_client_changes_its_object(self, spool: S3Spool) -> None:
        url = S3Access(spool.blobs.bucket).upload_url(SESSION, 5, 60)
        ask(url, "PUT", b"first")
        with spool.open(SESSION) as file:
            ask(url, "PUT", b"other")
            assert file.read() == b"first"
            file.seek(0)
            assert file.read() == b"first"


@contextmanager
def fronted(
    s3: S3Server, rule: Callable[[Request], Answer | None], patience: Patience = QUICK
) -> Iterator[S3Blobs]:
    """A store behind something that answers in its place when it wants."""
    forward = forwarding(s3.endpoint)
    with (
        serving(lambda request: rule(request) or forward(request)) as server,
        opened(s3.bucket(server.url), patience) as bucket,
    ):
        yield S3Blobs(bucket)


def every(blobs: S3Blobs) -> list[Callable[[], object]]:
    return [
        lambda: blobs.put("a/b", io.BytesIO(b"x")),
        lambda: blobs.put("a/b", io.BytesIO(b"x"), None),
        lambda: blobs.put("a/b", io.BytesIO(bytes(PART_BYTES))),
        lambda: blobs.open("a/b"),
        lambda: blobs.has("a/b"),
        lambda: blobs.delete("a/b"),
        lambda: list(blobs.keys("a")),
        lambda: blobs.read("a/b"),
        blobs.sweep,
    ]


class TestFaults:
    """What becomes of a store's faults."""

    @pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "Throttled"), (403, "AccessDenied"), (404, "NoSuchBucket"), (501, "NotImplemented")])  # fmt: skip
    def test_a_store_that_says_no_is_unavailable(self, s3: S3Server, status: int, code: str) -> None:
        with fronted(s3, lambda _: refusal(status, code)) as blobs:
            for act in every(blobs)[:4]:
                with pytest.raises(Temporary, match="store_unavailable") as caught:
                    act()
                assert code in caught.value.message
                assert blobs.bucket.bucket.url in caught.value.message

    @pytest.mark.parametrize("number", range(9))
    def test_a_store_that_cuts_connections_is_unavailable(self, s3: S3Server, number: int) -> None:
        with (
            fronted(s3, lambda _: Answer(silent=True)) as blobs,
            pytest.raises(Temporary, match="store_unavailable"),
        ):
            every(blobs)[number]()

    def test_a_store_that_hangs_is_unavailable_in_time(self, s3: S3Server) -> None:
        end = threading.Event()

        def hang(_: Request) -> Answer:
            end.wait(30)
            return Answer(silent=True)

        with fronted(s3, hang) as blobs:
            started = time.monotonic()
            with pytest.raises(Temporary, match="store_unavailable"):
                blobs.open("a/b")
            assert time.monotonic() - started < 10
            end.set()

    def test_a_store_that_is_not_there_is_unavailable(self, s3: S3Server) -> None:
        with (
            opened(s3.bucket("http://127.0.0.1:9"), QUICK) as bucket,
            pytest.raises(Temporary, match="store_unavailable"),
        ):
            S3Blobs(bucket).has("a/b")

    def test_a_store_that_stumbles_once_is_asked_again(self, s3: S3Server) -> None:
        seen: set[str] = set()

        def stumble(request: Request) -> Answer | None:
            if request.method in seen:
                return None
            seen.add(request.method)
            return refusal(503, "SlowDown")

        with fronted(s3, stumble) as blobs:
            blobs.put("a/b", io.BytesIO(b"x"))
            with blobs.open("a/b") as file:
                assert file.read() == b"x"

    @pytest.mark.parametrize(("status", "code"), [(507, "InsufficientStorage"), (403, "QuotaExceeded"), (400, "XMinioStorageFull")])  # fmt: skip
    def test_a_store_that_is_full(self, s3: S3Server, status: int, code: str) -> None:
        with fronted(s3, lambda r: refusal(status, code) if r.method == "PUT" else None) as blobs:
            with pytest.raises(NoSpace, match="disk_full") as caught:
                blobs.put("a/b", io.BytesIO(b"x"))
            assert blobs.bucket.bucket.url in caught.value.message

    @pytest.mark.parametrize(("status", "code"), [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict")])  # fmt: skip
    def test_a_writer_that_is_overtaken(self, s3: S3Server, status: int, code: str) -> None:
        with (
            fronted(s3, lambda r: refusal(status, code) if r.method == "PUT" else None) as blobs,
            pytest.raises(Conflict, match="object_changed"),
        ):
            blobs.put("a/b", io.BytesIO(b"x"), None)

    def test_an_object_that_ends_early_is_never_taken_for_whole(self, s3: S3Server) -> None:
        forward = forwarding(s3.endpoint)

        def cut(request: Request) -> Answer | None:
            return replace(forward(request), sent=100_000) if request.method == "GET" else None

        with fronted(s3, cut) as blobs:
            blobs.put("a/b", io.BytesIO(bytes(200_000)))
            with blobs.open("a/b") as file, pytest.raises(Temporary, match="store_unavailable"):
                file.read()
            with pytest.raises(Temporary, match="store_unavailable"):
                blobs.read("a/b")

    def test_a_store_that_knows_no_checksums_works_as_it_is(
        self, s3: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def old(request: Request) -> Answer | None:
            known = [
                name
                for name in request.headers
                if name.lower().startswith(("x-amz-checksum", "x-amz-sdk-checksum", "x-amz-trailer"))
            ]
            return refusal(400, "InvalidRequest") if known else None

        def use(blobs: S3Blobs) -> None:
            blobs.put("a/b", io.BytesIO(b"x"))
            blobs.put("a/c", io.BytesIO(bytes(PART_BYTES + 1)))
            blobs.put("a/b", io.BytesIO(b"y"), b"x")
            assert list(blobs.keys("a")) == ["a/b", "a/c"]
            blobs.delete("a/b")

        with fronted(s3, old) as blobs:
            use(blobs)
        monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported")
        with fronted(s3, old) as blobs, pytest.raises(Temporary, match="InvalidRequest"):
            use(blobs)


class TestStart:
    """What is found out before anything is served."""

    def test_what_the_store_can_do(self, bucket: OpenBucket) -> None:
        found = probe(bucket)
        assert found.facts() == {
            "kind": "s3",
            "conditional_put": True,
            "if_match": True,
            "multipart": True,
            "conditional_multipart": True,
            "checksums": True,
        }
        assert list(bucket.listed("")) == []
        assert open_parts(bucket) == 0

    @pytest.mark.parametrize(("condition", "words"), [("If-None-Match", "`If-None-Match: *`"), ("If-Match", "`If-Match`")])  # fmt: skip
    def test_a_store_without_conditional_writes_is_refused(
        self, s3: S3Server, condition: str, words: str
    ) -> None:
        forward = forwarding(s3.endpoint)

        def heedless(request: Request) -> Answer | None:
            if condition not in request.headers:
                return None
            answer = forward(request)
            return Answer(200, headers={"ETag": '"x"'}) if answer.status == 412 else answer

        with fronted(s3, heedless) as blobs, pytest.raises(UsageError, match="s3_unsuited") as caught:
            probe(blobs.bucket)
        assert words in caught.value.message

    def test_a_store_that_checks_no_checksums_will_do(self, s3: S3Server) -> None:
        def old(request: Request) -> Answer | None:
            known = [name for name in request.headers if name.lower().startswith("x-amz-checksum")]
            return refusal(501, "NotImplemented") if known else None

        with fronted(s3, old) as blobs:
            assert not probe(blobs.bucket).checksums

    @pytest.mark.parametrize(
        ("status", "answer", "code"),
        [
            (404, "NoSuchBucket", "s3_bucket_missing"),
            (403, "AccessDenied", "s3_refused"),
            (403, "InvalidAccessKeyId", "s3_refused"),
            (400, "AuthorizationHeaderMalformed", "s3_refused"),
        ],
    )
    def test_what_an_operator_must_correct(self, s3: S3Server, status: int, answer: str, code: str) -> None:
        with (
            fronted(s3, lambda _: refusal(status, answer)) as blobs,
            pytest.raises(UsageError, match=code) as caught,
        ):
            probe(blobs.bucket)
        assert caught.value.hint

    def test_a_wrong_secret_is_told_and_never_shown(
        self, s3: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {**credentials(), "AWS_SECRET_ACCESS_KEY": "another-secret"}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(UsageError, match="s3_refused") as caught:
            probe(open_bucket(s3.bucket()))
        said = f"{caught.value} {caught.value.hint}"
        assert "SignatureDoesNotMatch" in said
        assert not any(secret in said for secret in ("another-secret", SECRET_KEY, ACCESS_KEY))

    def test_no_credentials_at_all(self, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in credentials().items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(UsageError, match="s3_refused") as caught:
            probe(open_bucket(s3.bucket()))
        assert "AWS_ACCESS_KEY_ID" in caught.value.hint

    def test_a_store_that_does_not_answer_is_no_fault_of_the_operator(self, s3: S3Server) -> None:
        with (
            fronted(s3, lambda _: refusal(503, "SlowDown")) as blobs,
            pytest.raises(Temporary, match="store_unavailable"),
        ):
            probe(blobs.bucket)


def test_a_download_for_few_is_kept_by_no_shared_cache(s3: S3Server) -> None:
    with opened(s3.bucket()) as bucket:
        S3Blobs(bucket).put("blobs/x", io.BytesIO(b"x"))
        answer = ask(S3Access(bucket, PRIVATE).download_url("blobs/x", "GET"))
    assert (answer.status, answer.headers["cache-control"]) == (200, PRIVATE)


def test_addresses_are_signed_for_the_endpoint_that_clients_reach(s3: S3Server) -> None:
    place = replace(s3.bucket(), public_endpoint="https://files.example.com")
    with opened(place) as bucket:
        url = S3Access(bucket).download_url("blobs/x", "GET")
    assert url.startswith(f"https://files.example.com/{BUCKET}/{place.prefix}blobs/x?")
    assert SECRET_KEY not in url
