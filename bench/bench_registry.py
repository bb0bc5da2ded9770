"""The registry: index requests next to nginx serving the same file, latency of publishes, memory when idle.

nginx and wrk are looked up on the PATH; without them the comparison is left out. Everything runs on
loopback, with one worker process on each side, two threads and 32 connections, a few seconds each.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.publisher import Author, ask, bundle_of, digest_of, plugin, plugin_files
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 4
ROUNDS = 3
PUBLISHES = 200
BLOB_BYTES = 5 << 20
VERSIONS = 1000
"""Of the plugin that has many."""
MORE_VERSIONS = 50

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr error;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; tcp_nopush on; default_type application/json;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {objects}; }}
}}
"""


@contextmanager
def nginx(folder: Path, objects: Path) -> Iterator[str]:
    """An nginx that serves the objects as they lie there; its URL."""
    port = 18471
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, objects=objects, port=port))
    process = subprocess.Popen(["nginx", "-c", str(config), "-e", "stderr"])
    url = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(100):
            try:
                ask(url + ".well-known/plugreg.json")
                break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


def rate(url: str, connections: int = 32) -> float:
    """Requests per second, as wrk counts them."""
    done = subprocess.run(
        ["wrk", "-t2", f"-c{connections}", f"-d{SECONDS}s", url], capture_output=True, text=True, check=True
    )
    assert "Non-2xx" not in done.stdout, done.stdout
    found = re.search(r"Requests/sec:\s+([0-9.]+)", done.stdout)
    assert found, done.stdout
    return float(found[1])


def compare(registry: RegistryProcess, folder: Path, places: dict[str, str]) -> None:
    """Take turns, so that what else the machine does meets both."""
    missing = [name for name in ("nginx", "wrk") if shutil.which(name) is None]
    if missing:
        print(f"requests next to nginx: left out, {' and '.join(missing)} not found")
        return
    with nginx(folder, registry.objects) as beside:
        for what, path in places.items():
            assert ask(registry.url + path).body == ask(beside + path).body
            pairs = [(rate(registry.url + path), rate(beside + path)) for _ in range(ROUNDS)]
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(f"{what:<28} {ours:9.0f}/s   nginx {theirs:9.0f}/s   ratio {ours / theirs:.2f}")


def publishes(author: Author) -> None:
    """Publish small plugins one after the other; what a client waits for, signing and packing not counted."""
    times: list[float] = []
    for number in range(PUBLISHES):
        name = f"plugin{number % 20}"
        version = f"1.{number // 20}.0"
        bundle = plugin(name, version)
        started = time.perf_counter()
        answer = author.publish(bundle, name, version)
        times.append((time.perf_counter() - started) * 1000)
        assert answer.status == 201, answer
    times.sort()
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"{'publish of a small plugin':<28} p50 {p50:.1f} ms   p99 {p99:.1f} ms   (three requests)")


def multiply(registry: RegistryProcess, name: str) -> None:
    """Give a plugin with one version a thousand: its row again, under other versions and digests."""
    with sqlite3.connect(registry.data / "registry.sqlite3", timeout=10) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(releases)")]
        (first,) = database.execute("SELECT * FROM releases WHERE plugin = ?", (name,)).fetchall()
        for place in range(1, VERSIONS):
            digest, signed = (digest_of(f"{place}{what}".encode()) for what in ("bundle", "statement"))
            new = {"place": place, "version": f"1.0.{place}", "digest": digest, "attestation": signed}
            row = dict(zip(columns, first, strict=True)) | new
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO releases VALUES ({marks})", tuple(row.values()))  # noqa: S608 - marks
        database.execute("UPDATE plugins SET revision = revision + 1 WHERE name = ?", (name,))
    database.close()


def many_versions(registry: RegistryProcess, author: Author) -> None:
    """Publish into a plugin that has a thousand versions already."""
    assert author.publish(plugin("many", "1.0.0"), "many", "1.0.0").status == 201
    multiply(registry, "many")
    bundles = [(f"2.0.{number}", plugin("many", f"2.0.{number}")) for number in range(MORE_VERSIONS)]
    times: list[float] = []
    for version, bundle in bundles:
        started = time.perf_counter()
        answer = author.publish(bundle, "many", version)
        times.append((time.perf_counter() - started) * 1000)
        assert answer.status == 201, answer
    first, *rest = times
    p50, worst = statistics.median(rest), max(rest)
    print(f"{'publish as version 1,000':<28} p50 {p50:.1f} ms   max {worst:.1f} ms   first {first:.1f} ms")
    document = registry.url + "index/plugins/many.json"
    plain, sent = ask(document), ask(document, headers={"accept-encoding": "gzip"})
    assert sent.headers["content-encoding"] == "gzip"
    size, packed = len(plain.body) / 1000, len(sent.body) / 1000
    print(
        f"{'document of 1,050 versions':<28} {size:.0f} kB (wanted 500), as sent {packed:.0f} kB (wanted 120)"
    )
    question = registry.url + "v1/resolve?plugin=many&host=cursor"
    asked = []
    for _ in range(MORE_VERSIONS):
        started = time.perf_counter()
        assert ask(question).status == 200
        asked.append((time.perf_counter() - started) * 1000)
    print(f"{'resolve among them':<28} p50 {statistics.median(asked):.1f} ms")


def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as place, running(Path(place) / "data") as registry:
        print(f"{'idle, one process':<28} {registry.resident_bytes() / 2**20:.0f} MiB")
        author = Author(registry.url, registry.id)
        publishes(author)
        many_versions(registry, author)
        noise = Path("/dev/urandom").open("rb").read(BLOB_BYTES)  # noqa: SIM115 - a device
        large = bundle_of(plugin_files("large", noise=noise))
        blob = author.publish(large, "large").json()["digest"][7:]
        places = {"index GET": "index/plugins/plugin0.json", "blob GET, 5 MiB": f"blobs/sha256/{blob}"}
        compare(registry, Path(place), places)
        print(f"{'afterwards':<28} {registry.resident_bytes() / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
