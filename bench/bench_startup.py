"""How long the shortest commands take, from start to end, beside a bare interpreter in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 20
PROGRAMS = Path(sys.executable).parent


def median(command: list[str], environment: dict[str, str]) -> float:
    """Return the median milliseconds of a command."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PLUGREG_HOME": folder, "PLUGREG_ROOT": f"{folder}/plugins"}
        bare = median([sys.executable, "-c", "pass"], environment)
        print(f"bare python: {bare:.0f} ms")
        for words in (["--version"], ["--help"], ["list"], ["key", "list"]):
            taken = median([str(PROGRAMS / "plugreg"), *words], environment)
            wanted = " (wanted: 100)" if words == ["--version"] else ""
            print(f"plugreg {' '.join(words)}: {taken:.0f} ms, ratio {taken / bare:.1f}{wanted}")


if __name__ == "__main__":
    main()
