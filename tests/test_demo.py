"""`make demo` is the main job on real input: it must pass, and say what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def test_demo_publishes_installs_calls_and_updates_without_losing_data() -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "demo.py")],
        text=True,
        capture_output=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in (
        "published notebook 1.0.0",
        "notebook 1.0.0: noted, 1 in all",
        "published notebook 1.1.0",
        "notebook 1.1.0: noted, 2 in all",
        "1. buy milk",
        "2. call mum",
        "note: pinned the root sha256:",
        "is not what the rest of the index says that it is",
    ):
        assert shown in done.stdout
