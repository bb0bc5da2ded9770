"""A process that is told to end cuts nobody off, says so in time, and loses no publish."""

from __future__ import annotations

import http.client
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.support.publisher import Author, Key, ask, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DRAIN = {"PLUGREG_REGISTRY_DRAIN_SECONDS": "2"}


@contextmanager
def _half_an_upload(registry: RegistryProcess, name: str) -> Iterator[http.client.HTTPConnection]:
    """A connection that has sent the head of an upload and half of its body."""
    author = Author(registry.url, registry.id)
    bundle = plugin(name)
    session = author.begin(bundle, name).json()
    connection = http.client.HTTPConnection("127.0.0.1", registry.port, timeout=30)
    connection.putrequest("PUT", "/" + author.at(session["upload"]).removeprefix(registry.url))
    connection.putheader("Content-Length", str(len(bundle)))
    connection.putheader("Content-Range", f"bytes 0-{len(bundle) - 1}/{len(bundle)}")
    connection.endheaders()
    connection.send(bundle[: len(bundle) // 2])
    connection.rest = bundle[len(bundle) // 2 :]  # type: ignore[attr-defined]
    time.sleep(0.2)
    try:
        yield connection
    finally:
        connection.close()


def _is_refused(registry: RegistryProcess) -> bool:
    try:
        ask(registry.url + "livez", timeout=2)
    except OSError:
        return True
    return False


def test_it_says_that_it_drains_then_lets_nobody_in_and_finishes_what_is_under_way(tmp_path: Path) -> None:
    with running(tmp_path, environment=DRAIN) as registry, _half_an_upload(registry, "slow") as upload:
        process = registry.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        time.sleep(0.3)
        ready = ask(registry.url + "readyz")
        assert (ready.status, ready.code) == (503, "draining")
        assert ready.headers["retry-after"]
        assert ask(registry.url + "livez").status == 200
        assert Author(registry.url, registry.id).publish(plugin("late"), "late").status == 201
        while not _is_refused(registry):
            time.sleep(0.05)
        assert 1.8 < time.monotonic() - told < 6
        upload.send(upload.rest)  # type: ignore[attr-defined]
        assert upload.getresponse().status == 204
        upload.close()
        assert process.wait(20) == 0
        assert not [line for line in registry.log if "Traceback" in line]


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with running(tmp_path) as registry, _half_an_upload(registry, "stuck"):
        process = registry.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # a supervisor's: the same one
        time.sleep(1.3)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(3) == 128 + signal.SIGTERM


def test_all_workers_drain_and_a_second_signal_ends_them_at_once(tmp_path: Path) -> None:
    with running(tmp_path, workers=2) as registry, _half_an_upload(registry, "stuck"):
        process = registry.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.wait(4)
        assert _is_refused(registry)


def test_no_publish_that_was_acknowledged_is_lost_when_one_of_two_ends(tmp_path: Path) -> None:
    published: list[str] = []
    odd: list[object] = []
    over = threading.Event()

    def publish_on(worker: int, processes: tuple[RegistryProcess, ...]) -> None:
        number = 0
        while not over.is_set():
            name, key = f"w{worker}n{number}", Key()
            number += 1
            for registry in processes[:: 1 if number % 2 else -1]:
                try:
                    answer = Author(registry.url, registry.id, key).publish(plugin(name), name)
                except (OSError, http.client.HTTPException):
                    continue
                if answer.status in {200, 201}:
                    published.append(name)
                    break
                if answer.status not in {202, 503}:
                    odd.append((answer.status, answer.body))

    with ExitStack() as stack:
        first = stack.enter_context(running(tmp_path, environment={"PLUGREG_REGISTRY_DRAIN_SECONDS": "1"}))
        second = stack.enter_context(running(tmp_path))
        threads = [threading.Thread(target=publish_on, args=(n, (first, second))) for n in range(4)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(1)
            assert first.process is not None
            first.process.send_signal(signal.SIGTERM)
            assert first.process.wait(30) == 0
            time.sleep(1)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not odd
        assert len(published) > 10
        reader = Author(second.url, second.id)
        assert [name for name in published if reader.document(name)["name"] != name] == []
