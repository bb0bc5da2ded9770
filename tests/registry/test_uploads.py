"""Uploads: what arrives is counted, continued, and gone when nobody will finish it."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.registry.test_publishing import problem
from tests.support import hostile_bundles
from tests.support.publisher import Author, ask, bundle_of, digest_of, plugin, plugin_files
from tests.support.registries import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.publisher import Answer
    from tests.support.registries import RegistryProcess

MIB = 1 << 20


def put(author: Author, begun: Answer, body: bytes, span: str | None) -> Answer:
    headers = {"content-range": f"bytes {span}"} if span else {}
    return ask(author.at(begun.json()["upload"]), "PUT", body, headers)


def offset(author: Author, begun: Answer) -> int:
    answer = ask(author.at(begun.json()["upload"]), "HEAD")
    assert answer.status == 204
    return int(answer.headers["upload-offset"])


def spooled(registry: RegistryProcess) -> set[Path]:
    return set((registry.data / "uploads").iterdir())


def test_an_upload_in_parts(author: Author, name: str) -> None:
    bundle = plugin(name)
    size, begun = len(bundle), author.begin(bundle, name)
    assert offset(author, begun) == 0
    first = put(author, begun, bundle[:100], f"0-99/{size}")
    assert (first.status, first.headers["upload-offset"], first.body) == (204, "100", b"")
    assert offset(author, begun) == 100
    problem(author.commit(begun.json()), 409, "upload_incomplete")
    assert put(author, begun, bundle[100:], f"100-{size - 1}/{size}").headers["upload-offset"] == str(size)
    assert author.commit(begun.json()).status == 201


def test_a_part_at_the_wrong_offset_is_told_the_right_one(author: Author, name: str) -> None:
    bundle = plugin(name)
    size, begun = len(bundle), author.begin(bundle, name)
    put(author, begun, bundle[:100], f"0-99/{size}")
    for first in (50, 150):
        answer = put(author, begun, bundle[first:], f"{first}-{size - 1}/{size}")
        problem(answer, 409, "upload_offset")
        assert answer.headers["upload-offset"] == "100"
    assert offset(author, begun) == 100


def test_an_upload_begins_again_at_zero(author: Author, name: str) -> None:
    bundle = plugin(name)
    begun = author.begin(bundle, name)
    put(author, begun, b"x" * 100, f"0-99/{len(bundle)}")
    assert put(author, begun, bundle, None).headers["upload-offset"] == str(len(bundle))
    assert author.commit(begun.json()).status == 201


def test_a_connection_that_breaks_off_leaves_what_arrived(author: Author, name: str) -> None:
    bundle = bundle_of(plugin_files(name, noise=os.urandom(3 * MIB)))
    begun = author.begin(bundle, name)
    target = urlsplit(author.at(begun.json()["upload"]))
    size, end = len(bundle), time.monotonic() + 30
    head = f"PUT {target.path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n"
    head += f"content-range: bytes 0-{size - 1}/{size}\r\n\r\n"
    with socket.create_connection((target.hostname, target.port)) as connection:
        connection.sendall(head.encode() + bundle[: 2 * MIB])
        while (reached := offset(author, begun)) < MIB:
            assert time.monotonic() < end
    while (answer := put(author, begun, bundle[reached:], f"{reached}-{size - 1}/{size}")).status == 409:
        assert answer.code in {
            "upload_busy",
            "upload_offset",
        }  # until the registry has seen that nobody is there
        reached = int(answer.headers["upload-offset"])
        assert MIB <= reached <= 2 * MIB
        assert time.monotonic() < end
    assert answer.status == 204
    assert author.commit(begun.json()).status == 201


@pytest.mark.parametrize(
    "span",
    ["", "0-9", "0-9/*", "bytes", "9-0/10", "-5/10", "0-9/10, 20-29/30", "\uff11-\uff12/\uff13"],
)
def test_a_range_that_is_none(author: Author, name: str, span: str) -> None:
    bundle = plugin(name)
    begun = author.begin(bundle, name)
    headers = [("content-range", f"bytes {span}".encode())]
    answer = ask(author.at(begun.json()["upload"]), "PUT", bundle, dict(headers))  # type: ignore[arg-type]
    problem(answer, 422, "upload_range")


def test_j5_more_than_was_announced_is_refused_and_forgotten(
    author: Author, name: str, registry: RegistryProcess
) -> None:
    bundle, before = plugin(name), spooled(registry)
    size = len(bundle)
    for body, span in (
        (bundle + b"x", None),
        (bundle + b"x", f"0-{size}/{size + 1}"),
        (bundle, f"0-9/{size}"),
    ):
        begun = author.begin(bundle, name)
        problem(put(author, begun, body, span), 413, "upload_too_large")
        problem(author.commit(begun.json()), 404, "session_unknown")
    assert spooled(registry) == before


def test_t22_j5_ten_gib_announced_is_refused_before_a_byte_is_read(author: Author, name: str) -> None:
    begun = author.begin(plugin(name), name)
    for path in (begun.json()["upload"], "v1/publish", "v1/statements"):
        target = urlsplit(author.at(path))
        method = "PUT" if "uploads" in path else "POST"
        with socket.create_connection((target.hostname, target.port), timeout=10) as connection:
            head = f"{method} {target.path} HTTP/1.1\r\nhost: x\r\ncontent-length: {10 << 30}\r\n\r\n"
            connection.sendall(head.encode())
            answer = b""
            while chunk := connection.recv(65536):  # ends: the registry closes the connection
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 413 "), answer


def test_t22_j5_chunks_over_the_limit_are_cut_off(
    author: Author, name: str, registry: RegistryProcess
) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(10 << 10):
            yield bytes(MIB)

    registry.reset_peak()
    before, uploads = registry.resident_bytes(), spooled(registry)
    begun = author.begin(plugin(name), name)
    answer = ask(author.at(begun.json()["upload"]), "PUT", endless(), {"transfer-encoding": "chunked"})
    problem(answer, 413, "upload_too_large")
    answer = ask(author.at("v1/publish"), "POST", endless(), {"transfer-encoding": "chunked"})
    problem(answer, 413, "body_too_large")
    assert spooled(registry) == uploads
    assert registry.peak_bytes() - before < 150 * MIB


def test_j4_an_upload_is_never_in_memory(author: Author, name: str, registry: RegistryProcess) -> None:
    bundle = bytes(60 * MIB)
    begun = author.begin(bundle, name)
    registry.reset_peak()
    before, uploads = registry.resident_bytes(), spooled(registry)
    assert put(author, begun, bundle, None).status == 204
    assert registry.peak_bytes() - before < 40 * MIB
    answer = author.commit(begun.json())
    assert answer.status == 422
    assert spooled(registry) | uploads == uploads


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(hostile_bundles.zero_bomb, id="zero-bomb"),
        pytest.param(hostile_bundles.many_files, id="many-files"),
        *(pytest.param(lambda h=h: h.content, id=h.id) for h in hostile_bundles.traversals()),
        *(pytest.param(lambda h=h: h.content, id=h.id) for h in hostile_bundles.odd_members()),
        *(pytest.param(lambda h=h: h.content, id=h.id) for h in hostile_bundles.bad_links()),
        *(pytest.param(lambda h=h: h.content, id=h.id) for h in hostile_bundles.bad_frames()),
    ],
)
def test_t10_a_hostile_bundle_costs_little_and_leaves_nothing(
    author: Author,
    registry: RegistryProcess,
    stored: Callable[[], set[str]],
    content: Callable[[], bytes],
) -> None:
    bundle, objects = content(), stored()
    begun = author.begin(bundle)
    registry.reset_peak()
    before, started = registry.resident_bytes(), time.monotonic()
    answer = author.finish(begun, bundle)
    assert answer.status in {413, 422}, answer
    assert time.monotonic() - started < 10  # the promise made to operators, not a measurement
    assert registry.peak_bytes() - before < 150 * MIB
    assert stored() == objects
    assert ask(author.at("index/plugins/demo.json")).status == 404


def test_secrets_of_sessions_stand_in_no_log_and_no_table(
    author: Author, name: str, registry: RegistryProcess
) -> None:
    bundle = plugin(name)
    begun = author.begin(bundle, name)
    secret = begun.json()["upload"].rpartition("/")[2]
    assert len(secret) == 64
    author.finish(begun, bundle)
    ask(author.at(f"v1/uploads/{secret}"), "GET")
    ask(author.at(f"v1/uploads/{secret}/nothing"), "GET")
    ask(author.at(f"v1//uploads/{secret}"), "GET")
    kept = [path.read_bytes() for path in registry.data.rglob("*") if path.is_file()]
    assert not any(secret.encode() in content for content in kept)
    assert any("/v1/uploads/..." in line for line in registry.log)
    assert not any(secret in line for line in registry.log)


def test_a_secret_that_opens_nothing(author: Author) -> None:
    for secret in ("0" * 64, "x", "%00", "%F0%9F%98%80", "..%2f..", "a" * 5000):
        for method, path in (("PUT", ""), ("POST", "/commit")):
            answer = ask(author.at(f"v1/uploads/{secret}{path}"), method, b"x")
            assert answer.status == 404, (secret, answer)
            assert answer.code in {"session_unknown", "not_found"}
        assert ask(author.at(f"v1/uploads/{secret}"), "HEAD").status == 404


def test_j7_the_janitor_clears_what_nobody_will_finish(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        author = Author(registry.url, registry.id)
        bundle = plugin()
        begun = [author.begin(bundle) for _ in range(5)]
        for one in begun:
            put(author, one, bundle[:50], f"0-49/{len(bundle)}")
        assert len(spooled(registry)) == 5
        orphan = registry.data / "uploads" / ("a" * 64)
        orphan.write_bytes(b"a session that is no more")
        unfinished = registry.objects / "blobs" / "sha256" / ".unfinished-0"
        unfinished.write_bytes(b"half an object")
        registry.stop()
        registry.start()
        assert not orphan.exists()
        assert not unfinished.exists()
        assert len(spooled(registry)) == 5, "sessions that may still be finished"
        assert put(author, begun[0], bundle[50:], f"50-{len(bundle) - 1}/{len(bundle)}").status == 204
        assert author.commit(begun[0].json()).json()["digest"] == digest_of(bundle)
