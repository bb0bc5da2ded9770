"""The read plane over a bucket asks the store as little as it can, and never shows anything old."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.blobs.s3 import S3Blobs
from plugreg_registry.blobs.s3_shelf import Looks, S3Shelf
from plugreg_registry.small_files import made_ready
from plugreg_schemas.errors import NotAvailable
from tests.support.s3 import forwarding, opened
from tests.support.scripted import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugreg_registry.small_files import Headers, Ready
    from tests.support.s3 import S3Server
    from tests.support.scripted import Server

PATH, KEY = b"/index/plugins/demo.json", "index/plugins/demo.json"
FIXED_PATH, FIXED_KEY = b"/index/metadata/1.root.json", "index/metadata/1.root.json"


@pytest.fixture
def front(s3: S3Server) -> Iterator[Server]:
    with serving(forwarding(s3.endpoint)) as server:
        yield server


@pytest.fixture
def blobs(s3: S3Server, front: Server) -> Iterator[S3Blobs]:
    with opened(s3.bucket(front.url)) as bucket:
        yield S3Blobs(bucket)


def head(etag: bytes, size: int) -> tuple[bytes, Headers, Headers]:
    return etag, [], []


def body(ready: Ready) -> bytes:
    return bytes(ready.body["body"])


def gets(front: Server) -> int:
    return sum(request.method == "GET" for request in front.requests)


def test_what_never_changes_is_asked_for_once(blobs: S3Blobs, front: Server) -> None:
    blobs.put(FIXED_KEY, io.BytesIO(b"root"))
    shelf = S3Shelf(blobs)
    assert shelf.ready(FIXED_PATH) is None
    assert body(asyncio.run(shelf.small(FIXED_PATH, FIXED_KEY, head))) == b"root"
    ready = shelf.ready(FIXED_PATH)
    assert ready is not None
    assert body(ready) == b"root"
    assert gets(front) == 1


def test_what_changes_is_asked_for_every_time_and_its_bytes_only_when_it_has(
    blobs: S3Blobs, front: Server
) -> None:
    async def look() -> list[bytes]:
        shelf = S3Shelf(blobs)
        found = []
        for content in (b"one", None, b"two"):
            if content is not None:
                await asyncio.to_thread(blobs.put, KEY, io.BytesIO(content))
            assert shelf.ready(PATH) is None
            found.append(body(await shelf.small(PATH, KEY, head)))
        await asyncio.to_thread(blobs.delete, KEY)
        with pytest.raises(NotAvailable, match="object_not_found"):
            await shelf.small(PATH, KEY, head)
        return found

    assert asyncio.run(look()) == [b"one", b"one", b"two"]
    marks = [request.headers.get("If-None-Match") for request in front.requests if request.method == "GET"]
    assert marks[0] is None
    assert marks[1] == marks[2]
    assert marks[1] is not None


def test_many_readers_ask_the_store_a_few_times(blobs: S3Blobs, front: Server) -> None:
    blobs.put(KEY, io.BytesIO(b"one"))

    async def look() -> set[bytes]:
        shelf = S3Shelf(blobs)
        found = await asyncio.gather(*(shelf.small(PATH, KEY, head) for _ in range(100)))
        return set(map(body, found))

    assert asyncio.run(look()) == {b"one"}
    assert gets(front) == 1


class TestLooks:
    """`Looks`."""

    def test_nobody_gets_a_look_that_began_before_he_came(self) -> None:
        value = b"old"

        async def run() -> None:
            nonlocal value
            looks, begun, end = Looks(), asyncio.Event(), asyncio.Event()

            async def slow() -> Ready:
                seen = value
                begun.set()
                await end.wait()
                return made_ready(seen, head)

            async def quick() -> Ready:
                return made_ready(value, head)

            first = asyncio.create_task(looks.share(b"x", slow))
            await begun.wait()
            value = b"new"
            later = [asyncio.create_task(looks.share(b"x", quick)) for _ in range(3)]
            await asyncio.sleep(0)
            end.set()
            assert body(await first) == b"old"
            assert {body(await task) for task in later} == {b"new"}

        asyncio.run(run())

    def test_a_look_that_fails_is_everyone_s_who_waited_and_nobody_s_later(self) -> None:
        async def run() -> None:
            looks = Looks()

            async def fail() -> Ready:
                raise NotAvailable("object_not_found", "no")

            async def good() -> Ready:
                return made_ready(b"x", head)

            both = await asyncio.gather(
                looks.share(b"x", fail), looks.share(b"x", fail), return_exceptions=True
            )
            assert all(isinstance(found, NotAvailable) for found in both)
            assert body(await looks.share(b"x", good)) == b"x"

        asyncio.run(run())

    def test_who_leaves_takes_nobody_s_look_along(self) -> None:
        async def run() -> None:
            looks, go = Looks(), asyncio.Event()

            async def slow() -> Ready:
                await go.wait()
                return made_ready(b"x", head)

            leaving = asyncio.create_task(looks.share(b"x", slow))
            staying = asyncio.create_task(looks.share(b"x", slow))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.sleep(0)
            go.set()
            assert body(await staying) == b"x"

        asyncio.run(run())


def test_a_bundle_is_read_piece_by_piece(blobs: S3Blobs) -> None:
    content = bytes(range(256)) * 12_000
    blobs.put("blobs/x", io.BytesIO(content))

    async def look() -> list[bytes]:
        async with S3Shelf(blobs).open("blobs/x") as found:
            assert found.size == len(content)
            assert [chunk async for chunk in found.chunks(5, 5)] == []
            return [chunk async for chunk in found.chunks(10, len(content) - 10)]

    chunks = asyncio.run(look())
    assert b"".join(chunks) == content[10:-10]
    assert max(map(len, chunks)) <= 1 << 20
