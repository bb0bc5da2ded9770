"""The topology of an organisation on this machine, and the demo through it: run it with `make cluster`.

    make cluster                 start it, run the demo, end it
    make cluster ARGS=--stay     leave it running until Ctrl-C

It needs nothing but what `make setup` installed. Everything listens on loopback only, in a temporary folder.
"""

from __future__ import annotations

import argparse
import runpy
import signal
import tempfile
from pathlib import Path

from tests.support.cluster import Cluster, cluster
from tests.support.registries import REPOSITORY


def main() -> None:
    """Start the topology, go the way of the demo through it, and end it."""
    parser = argparse.ArgumentParser(
        prog="make cluster", description="Run two registries and their services."
    )
    parser.add_argument("--stay", action="store_true", help="leave it running until Ctrl-C")
    stay = parser.parse_args().stay
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends this ends what it started
    with tempfile.TemporaryDirectory(prefix="plugreg-cluster-") as folder:
        try:
            run(Path(folder), stay=stay)
        except KeyboardInterrupt:
            print("\nInterrupted.")
    print("\nDone. Every process has ended, and nothing is left behind.")


def run(folder: Path, *, stay: bool) -> None:
    """Do all of it in a folder."""
    print("Starting PostgreSQL, SeaweedFS, two registries and Caddy", flush=True)
    with cluster(folder) as running:
        show(running)
        demo(folder / "demo", running.url)
        if stay:
            print(
                f"\nIt runs on. Try `plugreg registry add {running.url}`, and end it with Ctrl-C.", flush=True
            )
            signal.pause()


def show(running: Cluster) -> None:
    """Print what runs where."""
    for what, where in running.places():
        print(f"  {what:<12} {where}", flush=True)


def demo(work: Path, url: str) -> None:
    """Run the demo by way of the front."""
    work.mkdir()
    steps = runpy.run_path(str(REPOSITORY / "examples" / "demo.py"))
    steps["go"](work, url, steps["environment"](work))


if __name__ == "__main__":
    main()
