"""Attacks that hold what a registry has few of: connections, requests, sessions. Settings are small here."""

from __future__ import annotations

import os
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.registry.test_publishing import problem
from tests.registry.test_uploads import offset, put, spooled
from tests.support.publisher import Author, ask, bundle_of, digest_of, plugin, plugin_files
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator

SAFETY_SECONDS = 60
FEW_FILES = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh"]
"""Starts a command that may open few files, and cannot raise that."""
HALF_A_HEAD = b"GET /livez HTTP/1.1\r\nhost: x\r\nx-more: "


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry that waits for nobody."""
    environment = {"PLUGREG_REGISTRY_LIMITS_IDLE_SECONDS": "2"}
    with running(tmp_path_factory.mktemp("registry"), environment=environment) as registry:
        yield registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry where a signer may have four sessions; `author` and `stranger` are met here."""
    environment = {"PLUGREG_REGISTRY_LIMITS_SESSIONS": "4"}
    with running(tmp_path_factory.mktemp("sessions"), environment=environment) as registry:
        yield registry


def connect(registry: RegistryProcess, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection((registry.host, registry.port), timeout=SAFETY_SECONDS)
    connection.sendall(sent)
    return connection


@contextmanager
def held(registry: RegistryProcess, sent: list[bytes]) -> Iterator[list[socket.socket]]:
    """Connections on which no more is sent than this."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(registry, part)) for part in sent]


def is_cut(connection: socket.socket) -> bool:
    """Whether the registry closes it, and says nothing before."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def is_cut_while_sending(connection: socket.socket) -> bool:
    """Whether the registry closes it before it has taken 64 MiB."""
    try:
        for _ in range(1024):
            connection.sendall(b"x" * 65_536)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def upload_head(author: Author, location: str, size: int) -> bytes:
    path = urlsplit(author.at(location)).path
    head = f"PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n"
    return (head + f"content-range: bytes 0-{size - 1}/{size}\r\n\r\n").encode()


def live(registry: RegistryProcess) -> int:
    return ask(registry.url + "livez", timeout=SAFETY_SECONDS).status


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["nothing sent", "half a head sent"])
def test_a_connection_that_says_no_more_is_cut(hasty: RegistryProcess, sent: bytes) -> None:
    with connect(hasty, sent) as connection:
        assert is_cut(connection)


def test_a_head_sent_byte_by_byte_is_cut(hasty: RegistryProcess) -> None:
    end = time.monotonic() + SAFETY_SECONDS
    with connect(hasty, HALF_A_HEAD) as connection:
        connection.settimeout(0.05)
        while time.monotonic() < end:
            try:
                connection.sendall(b"x")
                assert connection.recv(1) == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                pass
            return
    pytest.fail("the connection is still open")


def test_a_head_without_end_is_refused(hasty: RegistryProcess) -> None:
    with connect(hasty, HALF_A_HEAD) as connection:
        assert is_cut_while_sending(connection)
    assert live(hasty) == 200


def test_lines_without_end_after_a_body_are_refused(hasty: RegistryProcess) -> None:
    head = b"POST /v1/publish HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: "
    with connect(hasty, head) as connection:
        assert is_cut_while_sending(connection)
    assert live(hasty) == 200


def test_an_upload_that_stands_still_is_cut_and_keeps_what_arrived(hasty: RegistryProcess) -> None:
    author = Author(hasty.url, hasty.id)
    bundle = plugin("stalled", mark="x" * 1000)
    size, begun = len(bundle), author.begin(bundle, "stalled")
    with connect(hasty, upload_head(author, begun.json()["upload"], size) + bundle[:100]) as connection:
        assert is_cut(connection)
    assert offset(author, begun) == 100
    end = time.monotonic() + SAFETY_SECONDS
    rest = put(author, begun, bundle[100:], f"100-{size - 1}/{size}")
    while rest.status == 409 and rest.code == "upload_busy" and time.monotonic() < end:
        rest = put(
            author, begun, bundle[100:], f"100-{size - 1}/{size}"
        )  # the cut request is still letting go
    assert rest.headers["upload-offset"] == str(size)
    assert author.commit(begun.json()).status == 201


def test_an_upload_that_moves_is_not_cut(hasty: RegistryProcess) -> None:
    author, bundle = Author(hasty.url, hasty.id), plugin("slow")
    begun = author.begin(bundle, "slow")
    step = len(bundle) // 8
    with connect(hasty, upload_head(author, begun.json()["upload"], len(bundle))) as connection:
        for place in range(0, len(bundle), step):
            time.sleep(0.4)  # a peer that takes more time in all than it has for a byte
            connection.sendall(bundle[place : place + step])
        assert connection.recv(12) == b"HTTP/1.1 204"
    assert author.commit(begun.json()).status == 201


def test_an_answer_that_nobody_reads_is_cut(hasty: RegistryProcess) -> None:
    author = Author(hasty.url, hasty.id)
    bundle = bundle_of(plugin_files("large", noise=os.urandom(24 << 20)))
    assert author.publish(bundle, "large").status == 201
    before = len(files(hasty))
    ask_for_it = f"GET /blobs/sha256/{digest_of(bundle)[7:]} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    with held(hasty, [ask_for_it] * 4):
        end = time.monotonic() + SAFETY_SECONDS
        while len(files(hasty)) < before + 4:
            assert time.monotonic() < end
        while len(files(hasty)) > before:
            assert time.monotonic() < end
            time.sleep(0.02)


def files(registry: RegistryProcess) -> list[Path]:
    """The files and connections that the registry has open."""
    return list(Path(f"/proc/{registry.pid}/fd").iterdir())


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["idle", "half-sent"])
def test_300_connections_that_say_no_more_with_few_files(tmp_path: Path, sent: bytes) -> None:
    """They are held for as long as the test runs: the default time is a minute, and nobody waits for it."""
    with running(tmp_path / "data", prefix=FEW_FILES) as registry, held(registry, [sent] * 300):
        assert live(registry) == 200
        author = Author(registry.url, registry.id)
        assert author.publish(plugin()).status == 201
        assert len(files(registry)) < 256
        with ThreadPoolExecutor(50) as pool:
            names = [f"parallel{number}" for number in range(50)]
            answers = list(pool.map(lambda name: author.publish(plugin(name), name), names))
        assert [answer.status for answer in answers] == [201] * 50


def test_300_half_sent_bodies_with_few_files(tmp_path: Path) -> None:
    head = b"POST /v1/publish HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"
    environment = {"PLUGREG_REGISTRY_LIMITS_IDLE_SECONDS": "2"}
    with running(tmp_path / "data", prefix=FEW_FILES, environment=environment) as registry:
        author = Author(registry.url, registry.id)
        with held(registry, [head] * 300):
            assert live(registry) == 200
            assert len(files(registry)) < 256
            end = time.monotonic() + SAFETY_SECONDS
            while (answer := author.publish(plugin())).status == 503:
                problem(answer, 503, "registry_busy")
                assert time.monotonic() < end
            assert answer.status == 201


def test_one_request_more_than_allowed_is_told_to_come_back(tmp_path: Path) -> None:
    environment = {"PLUGREG_REGISTRY_LIMITS_CONNECTIONS": "4"}
    head = b"POST /v1/publish HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"
    with running(tmp_path / "data", workers=1, environment=environment) as registry:
        with held(registry, [head] * 4):
            end = time.monotonic() + SAFETY_SECONDS
            while (answer := ask(registry.url + "readyz")).status == 200:
                assert time.monotonic() < end  # until the four heads are read
            problem(answer, 503, "registry_busy")
            assert answer.json()["retryable"] is True
            assert answer.headers["retry-after"] == "5"
            assert answer.headers["connection"] == "close"
            static = ask(registry.url + ".well-known/plugreg.json")
            assert (static.status, static.code) == (503, "registry_busy")
            assert live(registry) == 200
        end = time.monotonic() + SAFETY_SECONDS
        while ask(registry.url + "readyz").status != 200:
            assert time.monotonic() < end  # until it is seen that nobody is there


def test_200_installers_on_connections_that_they_keep(tmp_path: Path) -> None:
    question = b"GET /.well-known/plugreg.json HTTP/1.1\r\nhost: x\r\n\r\n"
    with running(tmp_path / "data", workers=2) as registry, held(registry, [question] * 200) as connections:
        for _ in range(3):
            assert [connection.recv(12) for connection in connections] == [b"HTTP/1.1 200"] * 200
            for connection in connections:
                while not connection.recv(65_536).endswith(b"}"):
                    pass
                connection.sendall(question)


def test_the_file_limit_is_raised_as_far_as_it_may_be(tmp_path: Path) -> None:
    soft = ["sh", "-c", 'ulimit -Sn 128 && exec "$@"', "sh"]
    with running(tmp_path / "data", prefix=soft) as registry:
        allowed, most = resource.prlimit(registry.pid, resource.RLIMIT_NOFILE)
        assert allowed == min(most, 2128)


def test_one_release_begun_a_hundred_times(author: Author, stranger: Author, name: str) -> None:
    bundle, other = plugin(name), plugin(f"{name}x")
    apart = stranger.begin(other, f"{name}x")
    begun = [author.begin(bundle, name) for _ in range(100)]
    assert {answer.status for answer in begun} == {202}
    statuses = [ask(author.at(answer.json()["upload"]), "HEAD").status for answer in begun]
    assert statuses == [404] * 96 + [204] * 4
    assert author.finish(begun[-1], bundle).status == 201
    assert stranger.finish(apart, other).status == 201


def test_what_was_begun_for_nothing_gives_way_before_an_upload(author: Author, name: str) -> None:
    bundle = plugin(name)
    first = author.begin(bundle, name)
    put(author, first, bundle[:100], f"0-99/{len(bundle)}")
    for _ in range(20):
        author.begin(bundle, name)
    assert offset(author, first) == 100
    put(author, first, bundle[100:], f"100-{len(bundle) - 1}/{len(bundle)}")
    assert author.commit(first.json()).status == 201


def test_the_bytes_of_the_oldest_upload_go_with_it(
    author: Author, registry: RegistryProcess, name: str
) -> None:
    bundle, before = plugin(name), spooled(registry)
    begun = [author.begin(bundle, name) for _ in range(4)]
    for answer in begun:
        put(author, answer, bundle[:100], f"0-99/{len(bundle)}")
    assert len(spooled(registry) - before) == 4
    author.begin(bundle, name)
    assert len(spooled(registry) - before) == 3
    problem(author.commit(begun[0].json()), 404, "session_unknown")
    assert offset(author, begun[1]) == 100


def test_a_hundred_at_once_do_not_leave_more_than_allowed(author: Author, name: str) -> None:
    bundle = plugin(name)
    with ThreadPoolExecutor(16) as pool:
        begun = list(pool.map(lambda _: author.begin(bundle, name), range(100)))
    assert {answer.status for answer in begun} == {202}
    statuses = [ask(author.at(answer.json()["upload"]), "HEAD").status for answer in begun]
    assert statuses.count(204) == 4


def test_120_publishes_by_one_key_50_at_a_time(hasty: RegistryProcess) -> None:
    """More than a signer may have open in all: what is published gives way to what is not."""
    author = Author(hasty.url, hasty.id)
    names = [f"many{number}" for number in range(120)]
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda name: author.publish(plugin(name), name), names))
    assert [answer.status for answer in answers] == [201] * 120
