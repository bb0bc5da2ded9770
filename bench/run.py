"""Run every benchmark of this folder in turn: `make bench`, or one with `make bench ARGS=registry`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(wanted: list[str]) -> int:
    """Run the benchmarks whose names contain one of `wanted`, all if none; 1 if one of them failed."""
    failed = []
    for script in sorted(HERE.glob("bench_*.py")):
        if wanted and not any(word in script.stem for word in wanted):
            continue
        print(f"\n== {script.stem}", flush=True)
        if subprocess.run([sys.executable, str(script)], check=False).returncode:
            failed.append(script.stem)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
