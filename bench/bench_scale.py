"""Fifty publishers at once on PostgreSQL and an S3 store, next to plain PUTs of the same bytes to that store.

Both sides run against the same SeaweedFS, in the same minute, with as many bytes and as many connections. The
client is one other process that sends what was signed before; the processor time that it takes is not
counted, on either side. What else the machine does meets both: they take turns.

    publishes   begin, upload and commit, each until readers see the release
    puts        one presigned PUT
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.postgres import INSTALLED, NEWEST, PostgresServer
from tests.support.publisher import Key, b64, bundle_of, canonical, plugin_files, publish_statement
from tests.support.registries import RegistryProcess, running
from tests.support.s3 import StoreProcess, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PUBLISHERS = 50
EACH = 6
"""Publishes of one publisher in one round; the first round also takes the names."""
PUTS_EACH = 60
ROUNDS = 3
WORKERS = 2
BUNDLE_BYTES = 16 << 10
WANTED_SHARE = 1 / 12
WANTED_P99_SECONDS = 1.0
JSON = {"content-type": "application/json"}

Job = tuple[str, bytes, bytes]
"""A path, and the bodies of one and the same thing: the bundle, and what begins its publish or nothing."""


@dataclass(frozen=True)
class Driven:
    """What one round came to."""

    seconds: float
    processor: float
    """Seconds that the client itself used a processor."""
    times: Sequence[float]

    @property
    def rate(self) -> float:
        """How many a second, if the client cost nothing: its share of the machine is taken off the time."""
        return len(self.times) / (self.seconds - self.processor / (os.cpu_count() or 1))

    @property
    def p99(self) -> float:
        """Seconds, by which all but one of a hundred were done."""
        return sorted(self.times)[int(len(self.times) * 0.99)]


def drive(address: str, lines: Sequence[Sequence[Job]]) -> Driven:
    """Do the jobs of every line one after the other, all lines at once, each on a connection of its own."""
    with ThreadPoolExecutor(len(lines)) as pool:
        begun, processor = time.perf_counter(), time.process_time()
        times = [taken for line in pool.map(lambda jobs: _line(address, jobs), lines) for taken in line]
        return Driven(time.perf_counter() - begun, time.process_time() - processor, times)


def _line(address: str, jobs: Sequence[Job]) -> list[float]:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.connect()
    times = []
    for path, bundle, beginning in jobs:
        begun = time.perf_counter()
        if beginning:
            _publish(connection, path, bundle, beginning)
        else:
            _send(connection, "PUT", path, bundle, {})
        times.append(time.perf_counter() - begun)
    connection.close()
    return times


def _publish(connection: http.client.HTTPConnection, path: str, bundle: bytes, beginning: bytes) -> None:
    session = json.loads(_send(connection, "POST", path, beginning, JSON))
    upload, commit = (f"/{session[name]}" for name in ("upload", "commit"))
    _send(connection, "PUT", upload, bundle, {"content-range": f"bytes 0-{len(bundle) - 1}/{len(bundle)}"})
    receipt = json.loads(_send(connection, "POST", commit, b"", {}))
    if receipt["index"] != "published":
        raise RuntimeError(f"not visible in time: {receipt}")


def _send(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> bytes:
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    content = answer.read()
    if answer.status not in {200, 201, 202, 204}:
        raise RuntimeError(f"{method} {path}: {answer.status} {content[:500]!r}")
    return content


def bundle(name: str, version: str) -> bytes:
    """A bundle of the size that is measured with."""
    return bundle_of(plugin_files(name, version, noise=os.urandom(BUNDLE_BYTES)))


def publishes(registry: RegistryProcess, keys: Sequence[Key], number: int) -> list[list[Job]]:
    """What the publishers send in one round, signed."""
    return [
        [_signed(registry, key, f"plugin{place}", f"{number}.{version}.0") for version in range(EACH)]
        for place, key in enumerate(keys)
    ]


def _signed(registry: RegistryProcess, key: Key, name: str, version: str) -> Job:
    content = bundle(name, version)
    envelope = key.envelope(publish_statement(registry.id, name, version, content))
    body = {"statement": envelope, "size": len(content), "public_key": b64(key.spki)}
    return "/v1/publish", content, canonical(body)


def puts(store: StoreProcess) -> list[list[Job]]:
    """Addresses to which the same bytes can be put, and bytes like theirs."""
    lines: list[list[Job]] = []
    with opened(store.server.bucket()) as bucket:
        for place in range(PUBLISHERS):
            content = bundle(f"plugin{place}", "1.0.0")
            parameters = [bucket.at(f"{place}-{number}") for number in range(PUTS_EACH)]
            signed = [
                bucket.client.generate_presigned_url("put_object", Params=parameter, ExpiresIn=3600)
                for parameter in parameters
            ]
            lines.append([(url.removeprefix(store.server.endpoint), content, b"") for url in signed])
    return lines


@contextmanager
def stack(folder: Path) -> Iterator[tuple[RegistryProcess, StoreProcess]]:
    """A registry with two processes on PostgreSQL and SeaweedFS."""
    store = StoreProcess(folder / "store")
    with PostgresServer(INSTALLED[NEWEST]) as server:
        store.start()
        try:
            environment = {
                **store.server.environment(store.server.bucket()),
                "PLUGREG_REGISTRY_DATABASE": server.create().address,
            }
            with running(folder / "data", workers=WORKERS, environment=environment) as registry:
                yield registry, store
        finally:
            store.kill()


def main() -> int:
    """Print both rates, their ratio and the latency; 1 if one is not as wanted."""
    keys = [Key() for _ in range(PUBLISHERS)]
    with tempfile.TemporaryDirectory() as place, stack(Path(place)) as (registry, store):
        own, beside = urlsplit(registry.url).netloc, urlsplit(store.server.endpoint).netloc
        with multiprocessing.get_context("spawn").Pool(1) as client:
            rounds = []
            for number in range(ROUNDS + 1):
                jobs, plain = publishes(registry, keys, number), puts(store)
                ours, theirs = client.apply(drive, (own, jobs)), client.apply(drive, (beside, plain))
                what = "new names" if number == 0 else "new versions"
                print(f"  {what:<26} {ours.rate:7.1f} publishes/s   {theirs.rate:7.0f} PUT/s", flush=True)
                rounds.append((ours, theirs))
    share = statistics.median(ours.rate / theirs.rate for ours, theirs in rounds)
    p99 = statistics.median(ours.p99 for ours, _ in rounds)
    good = share >= WANTED_SHARE and p99 <= WANTED_P99_SECONDS
    verdict = "" if good else "   NOT AS WANTED"
    print(f"{'publishes for one PUT':<28} 1/{1 / share:.0f}   p99 {p99:.2f} s{verdict}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
