"""What a publish costs in a registry of 1,000, 10,000 and 100,000 plugins: a real process on SQLite.

The registry is filled while nobody serves it: a plugin that was published is copied under other names, as
rows, as documents and as entries of the signed index. Then publishes go through HTTP: new versions of one
plugin, and new names. The slope is how often as long one takes among a hundred times as many plugins.
What a search costs there is in bench_search.py.
"""

from __future__ import annotations

import hashlib
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.publisher import Author, plugin
from tests.support.registries import RegistryProcess
from tuf.api.metadata import TargetFile

from plugreg_registry.app import compose
from plugreg_registry.searching import row_of
from plugreg_registry.settings import read_settings
from plugreg_schemas.index import hashed_target_key, plugin_target
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = (1_000, 10_000, 100_000)
BATCH: Final = 500
PUBLISHES: Final = 40
WANTED_SLOPE: Final = 2.0
SEED: Final = "seed"


def copies(registry: RegistryProcess, first: int, last: int) -> None:
    """Copy the seed under the names of these numbers, in the database, the store and the signed index."""
    names = [f"copy{number:06}" for number in range(first, last)]
    _copy_rows(registry.data / "registry.sqlite3", names)
    document = (registry.objects / "index/plugins" / f"{SEED}.json").read_bytes()
    listed: dict[str, TargetFile] = {}
    for name in names:
        content, path = document.replace(SEED.encode(), name.encode()), plugin_target(name)
        digest = hashlib.sha256(content).hexdigest()
        (registry.objects / hashed_target_key(path, Digest.from_hex(digest))).write_bytes(content)
        listed[path] = TargetFile(len(content), {"sha256": digest}, path)
    service = compose(read_settings({}, str(registry.data)))
    try:
        index = service.index
        with index.alone():
            draft = index.files.next(index.files.state(), index.now())
            index._list(draft, listed)  # noqa: SLF001 - many at once, as no publish does
            index.publish(draft)
        seed = service.index.releases.find(SEED)
        assert seed is not None
        row = row_of(seed, index.tiers)
        for at in range(0, len(names), BATCH):
            index.finder.search.keep([replace(row, name=name) for name in names[at : at + BATCH]])
    finally:
        service.close()


def _copy_rows(file: Path, names: Sequence[str]) -> None:
    with sqlite3.connect(file) as database:
        for table, key in (("plugins", "name"), ("statements", "plugin"), ("releases", "plugin")):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            own = [name for name in columns if name in {key, "folded"}]
            unique = [name for name in columns if name in {"digest", "attestation"}]
            kept = [name for name in columns if name not in {*own, *unique}]
            for row in database.execute(
                f"SELECT {', '.join(kept)} FROM {table} WHERE {key} = ? LIMIT 1",  # noqa: S608 - our tables
                (SEED,),
            ).fetchall():
                into = f"INSERT INTO {table} ({', '.join([*own, *unique, *kept])}) "
                into += f"VALUES ({', '.join('?' * len(columns))})"
                database.executemany(
                    into, [[name] * len(own) + [_digest(name)] * len(unique) + list(row) for name in names]
                )
    database.close()


def _digest(name: str) -> str:
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def publishes(author: Author, size: int, *, new: bool) -> float:
    """Return the milliseconds that a publish takes, the median of some; the bundles are packed before."""
    names = [f"new{size}n{number}" if new else "measured" for number in range(PUBLISHES)]
    versions = [f"{size}.{number}.{int(new)}" for number in range(PUBLISHES)]
    bundles = [plugin(name, version) for name, version in zip(names, versions, strict=True)]
    times = []
    for name, version, content in zip(names, versions, bundles, strict=True):
        begun = time.perf_counter()
        answer = author.publish(content, name, version)
        times.append((time.perf_counter() - begun) * 1000)
        assert answer.status == 201, answer
    return statistics.median(times)


def main() -> int:
    """Print the costs at every size and their slopes; 1 if one is too steep."""
    costs: dict[str, list[float]] = {"a new version": [], "a new name": []}
    with tempfile.TemporaryDirectory() as place:
        registry = RegistryProcess(Path(place) / "data")
        registry.start()
        author = Author(registry.url, registry.id)
        assert author.publish(plugin(SEED), SEED).status == 201
        registry.stop()
        for before, size in zip((0, *SIZES), SIZES, strict=False):
            copies(registry, before, size)
            registry.start()
            try:
                publishes(author, size + 1, new=True)
                for what, found in costs.items():
                    found.append(publishes(author, size, new=what == "a new name"))
            finally:
                registry.stop()
            print(f"  {size:>7,} plugins   " + "   ".join(f"{k} {v[-1]:.1f} ms" for k, v in costs.items()))
    slopes = {what: found[-1] / found[0] for what, found in costs.items()}
    good = max(slopes.values()) <= WANTED_SLOPE
    told = "   ".join(f"{what} {slope:.2f}" for what, slope in slopes.items())
    print(f"{'100,000 to 1,000':<28} {told}{'' if good else '   NOT FLAT'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
