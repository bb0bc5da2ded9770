"""Pack and open a plugin of 200 files and 5 MB, next to the standard library's tar.gz, all in memory.

    python bench/bench_bundle.py

Prints the best of several rounds in milliseconds, and each as a multiple of the standard library's.
"""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
import time
from typing import TYPE_CHECKING, TypeVar

from plugreg_schemas.bundle import DEFAULT_LIMITS, open_bundle, outline, pack
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

FILES = 200
SIZE = 25_000
ROUNDS = 7


def plugin() -> MemoryTree:
    """Return files that compress about as text and code do, to a third."""
    dice = random.Random(1)
    words = [hashlib.sha256(str(number).encode()).hexdigest()[: dice.randint(2, 9)] for number in range(3000)]
    files: dict[str, bytes | str] = {"plugin.json": '{"name": "demo", "version": "1.0.0"}'}
    for number in range(FILES - 1):
        text = " ".join(dice.choices(words, k=SIZE // 5))
        files[f"lib/part{number % 20}/module_{number:03}.py"] = text[:SIZE].ljust(SIZE)
    return MemoryTree.of(files)


def tar_gz(tree: MemoryTree) -> bytes:
    """Pack with the standard library."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for path, content in sorted(tree.contents.items()):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def read_tar_gz(content: bytes) -> int:
    """Read every file with the standard library and return their bytes."""
    total = 0
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for info in archive:
            file = archive.extractfile(info)
            total += len(file.read()) if file else 0
    return total


def read_bundle(content: bytes) -> int:
    """Prove and read every file of a bundle and return their bytes."""
    return sum(len(piece) for _, pieces in open_bundle(io.BytesIO(content)) for piece in pieces)


def best(work: Callable[[], T]) -> tuple[float, T]:
    """Return the shortest time in milliseconds, with the last result."""
    result = work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = work()
        times.append((time.perf_counter() - start) * 1000)
    return min(times), result


def main() -> None:
    """Measure and print."""
    tree = plugin()
    total = sum(map(len, tree.contents.values()))
    pack_theirs, gz = best(lambda: tar_gz(tree))
    pack_ours, packed = best(lambda: pack(tree))
    read_theirs, size_theirs = best(lambda: read_tar_gz(gz))
    read_ours, size_ours = best(lambda: read_bundle(packed.content))
    manifest = "plugin.json".__eq__
    look, found = best(lambda: outline(io.BytesIO(packed.content), DEFAULT_LIMITS, manifest))
    assert size_theirs == size_ours == total
    assert len(found.nodes) == FILES
    sizes = f"tar.gz {len(gz) / 1e6:.2f} MB, bundle {packed.size / 1e6:.2f} MB"
    print(f"{FILES} files, {total / 1e6:.1f} MB: {sizes}")
    print(
        f"pack     tar.gz {pack_theirs:7.1f} ms   bundle {pack_ours:7.1f} ms   x{pack_ours / pack_theirs:.2f}"
    )
    print(
        f"read     tar.gz {read_theirs:7.1f} ms   bundle {read_ours:7.1f} ms   x{read_ours / read_theirs:.2f}"
    )
    print(f"outline                     bundle {look:7.1f} ms   x{look / read_theirs:.2f}")


if __name__ == "__main__":
    main()
