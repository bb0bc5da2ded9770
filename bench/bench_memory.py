"""Memory of one registry process over 100,000 mixed requests, with Sigstore and S3 loaded.

Resident memory is printed at the start, after the first publish by key and by certificate, and then after
every ten thousand requests: index, redirects to bundles, resolve and search in turn, and a publish now and
then. It must stay flat from the second look on, and within the limit.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.local_sigstore import LocalSigstore
from tests.support.publisher import Author, canonical, plugin, publish_statement
from tests.support.registries import RegistryProcess, running
from tests.support.s3 import StoreProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUESTS: Final = 100_000
LOOKS: Final = 10
CONNECTIONS: Final = 8
PUBLISHES_EACH: Final = 20
"""Publishes between two looks."""
WANTED_MIB: Final = 140
WANTED_GROWTH_MIB: Final = 8


def publish_by_certificate(author: Author, sigstore: LocalSigstore, number: int) -> None:
    """Publish a plugin that a certificate signs."""
    name = f"keyless{number}"
    content = plugin(name)
    statement = canonical(publish_statement(author.registry, name, "1.0.0", content))
    begun = author.post(
        "v1/publish", {"statement": sigstore.sign(statement, sigstore.ci_token()), "size": len(content)}
    )
    answer = author.finish(begun, content)
    assert answer.status == 201, answer


def publish(author: Author, sigstore: LocalSigstore, number: int) -> None:
    """Publish once by key and once by certificate."""
    answer = author.publish(plugin("demo", f"1.{number}.0"), "demo", f"1.{number}.0")
    assert answer.status == 201, answer
    publish_by_certificate(author, sigstore, number)


def read(address: str, paths: Sequence[str], requests: int) -> None:
    """Ask for the paths in turn, on one connection."""
    connection = http.client.HTTPConnection(address, timeout=60)
    for number in range(requests):
        connection.request("GET", paths[number % len(paths)])
        answer = connection.getresponse()
        answer.read()
        assert answer.status in {200, 307}, (paths[number % len(paths)], answer.status)
    connection.close()


def look(registry: RegistryProcess, what: str) -> float:
    """Print the resident memory, and return it in MiB."""
    held = registry.resident_bytes() / 2**20
    print(f"  {what:<28} {held:6.1f} MiB", flush=True)
    return held


def measure(registry: RegistryProcess, sigstore: LocalSigstore) -> list[float]:
    """Do everything in turn, and return the memory at each look."""
    author = Author(registry.url, registry.id)
    look(registry, "at the start")
    publish(author, sigstore, 0)
    look(registry, "Sigstore and S3 loaded")
    digest = author.document("demo")["versions"][0]["digest"][7:]
    asked = ("/v1/resolve?plugin=demo&host=cursor", "/v1/plugins?q=demo")
    paths = ("/index/plugins/demo.json", f"/blobs/sha256/{digest}", *asked)
    address, held = urlsplit(registry.url).netloc, []
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for turn in range(1, LOOKS + 1):
            each = REQUESTS // LOOKS // CONNECTIONS
            for done in [pool.submit(read, address, paths, each) for _ in range(CONNECTIONS)]:
                done.result()
            for number in range(PUBLISHES_EACH // 2):
                publish(author, sigstore, turn * PUBLISHES_EACH + number)
            held.append(look(registry, f"after {turn * REQUESTS // LOOKS:,} requests"))
    return held


def main() -> int:
    """Print the memory at every look; 1 if it grows or is too much."""
    with tempfile.TemporaryDirectory() as place, LocalSigstore().serving() as sigstore:
        store = StoreProcess(Path(place) / "store")
        store.start()
        try:
            trust = Path(place) / "trust.json"
            trust.write_bytes(sigstore.trust_config())
            settings = {
                **store.server.environment(store.server.bucket()),
                "PLUGREG_REGISTRY_TRUST_CONFIG": str(trust),
                "PLUGREG_REGISTRY_DOWNLOADS": "redirect",
            }
            with running(Path(place) / "data", environment=settings) as registry:
                held = measure(registry, sigstore)
        finally:
            store.kill()
    growth = held[-1] - held[1]
    good = max(held) <= WANTED_MIB and growth <= WANTED_GROWTH_MIB
    verdict = "" if good else "   NOT AS WANTED"
    print(f"{'most, and growth':<28} {max(held):.0f} MiB   {growth:+.1f} MiB since the second look{verdict}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
