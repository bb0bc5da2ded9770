"""Installing a plugin of 200 files and 5 MB, next to unpacking the same files with the standard library.

python bench/bench_install.py [RUNS]

Once the registry is a folder on this machine, so what is measured is what installing adds to the transfer:
the signatures, the proof of the archive, the store, the barrier to the disk, the link and the record; and
once it is a `plugreg-registry serve` on loopback. Unpacking does none of that, and is shown without and with
the same barrier.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))

import zstandard  # noqa: E402
from tests.support.offers import Author, Offers, plugin_files  # noqa: E402
from tests.support.publisher import Author as Publisher  # noqa: E402
from tests.support.publisher import Key, bundle_of  # noqa: E402
from tests.support.registries import running  # noqa: E402

from plugreg.index.terms import Terms  # noqa: E402
from plugreg.install import install  # noqa: E402
from plugreg.inventory import verify  # noqa: E402
from plugreg.plugins_root import PluginsRoot  # noqa: E402
from plugreg.plugins_root.durability import barrier  # noqa: E402
from plugreg.remote import Remote  # noqa: E402
from plugreg_schemas.names import Ref  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 200
SIZE = 25_000
TARGET = 2.0


def sample() -> dict[str, str | bytes]:
    """Return files like those of real plugins: most of their bytes are text, some compress badly."""
    chance = random.Random(7)
    words = [
        bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 11))) for _ in range(3000)
    ]
    files: dict[str, str | bytes] = {}
    for number in range(FILES):
        text = b" ".join(chance.choices(words, k=SIZE // 6))
        body = chance.randbytes(SIZE) if number % 10 == 0 else text[:SIZE]
        files[f"lib/part{number % 12}/module{number:03}.py"] = body
    return files


def archives(files: dict[str, str | bytes]) -> tuple[bytes, bytes]:
    """Return the files as the standard library packs them: `.tar.gz`, and a tar for zstd."""
    packed = []
    for mode in ("w:gz", "w"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=mode) as archive:
            for path, body in files.items():
                content = body.encode() if isinstance(body, str) else body
                member = tarfile.TarInfo(path)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        packed.append(buffer.getvalue())
    return packed[0], zstandard.ZstdCompressor(level=9).compress(packed[1])


def extract_gzip(content: bytes, place: Path) -> None:
    """Unpack with the standard library alone."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        archive.extractall(place, filter="data")


def extract_zstd(content: bytes, place: Path) -> None:
    """Unpack with the standard library over zstd."""
    plain = zstandard.ZstdDecompressor().stream_reader(content)
    with tarfile.open(fileobj=plain, mode="r|") as archive:
        archive.extractall(place, filter="data")


def median_ms(folder: Path, runs: int, action: Callable[[Path], object]) -> float:
    """Return the median of several runs, each in a new folder, the disk quiet before it."""
    times = []
    for run in range(runs + 1):
        place = folder / f"run{run}"
        os.sync()
        began = time.perf_counter()
        action(place)
        times.append(time.perf_counter() - began)
        shutil.rmtree(place)
    return statistics.median(times[1:]) * 1000


def over_http(folder: Path, runs: int, files: dict[str, str | bytes]) -> float:
    """Return the median of installing from a registry on loopback, each time over a new connection."""
    with running(folder / "served") as registry:
        answer = Publisher(registry.url, registry.id, Key()).publish(bundle_of(files))
        assert answer.status == 201, answer

        terms = Terms(folder / "home")

        def installed(place: Path) -> None:
            install(PluginsRoot.at(place), [Ref.parse("demo")], [Remote(registry.url, terms)])

        return median_ms(folder, runs, installed)


def main(runs: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        files = plugin_files("demo", "1.0.0", sample())
        offers = Offers.create(folder / "registry")
        digest = offers.publish(Author(), "demo", "1.0.0", files)
        gzip, zstd = archives(files)

        def installed(place: Path) -> None:
            install(PluginsRoot.at(place), [Ref.parse("demo")], [offers])

        def with_barrier(place: Path) -> None:
            extract_gzip(gzip, place)
            barrier(place)

        kept = PluginsRoot.at(folder / "kept")
        install(kept, [Ref.parse("demo")], [offers])
        rows = {
            "tarfile.extractall of .tar.gz": median_ms(folder, runs, lambda place: extract_gzip(gzip, place)),
            "the same, then one barrier": median_ms(folder, runs, with_barrier),
            "tarfile.extractall of .tar.zst": median_ms(
                folder, runs, lambda place: extract_zstd(zstd, place)
            ),
            "plugreg install, from a folder": median_ms(folder, runs, installed),
            "plugreg install, from serve": over_http(folder, runs, files),
        }
        began = time.perf_counter()
        verify(kept).raise_if_any()
        rows["plugreg verify"] = (time.perf_counter() - began) * 1000
        size = sum(len(body) for body in files.values())
        packed = offers.blob(digest).stat().st_size
        print(f"{len(files)} files, {size / 1e6:.1f} MB, bundle {packed / 1e6:.1f} MB, {runs} runs")
        for what, milliseconds in rows.items():
            print(f"  {what:32} {milliseconds:8.1f} ms")
        for source in ("folder", "serve"):
            prefix = "a " if source == "folder" else ""
            ratio = rows[f"plugreg install, from {prefix}{source}"] / rows["tarfile.extractall of .tar.gz"]
            print(f"  from {source} / extractall of .tar.gz {ratio:8.2f}    (target: at most {TARGET:g})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
