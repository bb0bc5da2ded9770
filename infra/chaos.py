"""Publishers and installers go on while each part of a cluster is killed and comes back: `make chaos`.

    registry 1 > PostgreSQL > SeaweedFS: SIGKILL, away for a while, started again; the others run on

Raw clients (plain HTTP, written from the protocol) may see 503 or a cut connection, and repeat what they did.
The commands `plugreg publish` and `plugreg install` and the client of python-tuf must not fail at all.

At the end every version that was answered with 201 must be in the signed index with the bytes that were
signed, and no version may have been published with two contents. Exit code 1 says that something was wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.load import Installer, Publisher, Record, people, tuf_reader
from tests.support.cluster import cluster
from tests.support.publisher import Key, ask, digest_of
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.cluster import Cluster

AWAY_SECONDS: Final = 2.0
"""How long a part stays away."""
RIVALS: Final = 2
"""Publishers who share a key and a name, and try to publish the same versions with other bytes."""
END_SECONDS: Final = 60.0
"""How long the commands that still run at the end may take."""


def main() -> int:
    """Run the load and the faults; print what was seen, and return 1 if something of it must not be."""
    parser = argparse.ArgumentParser(prog="make chaos", description="Kill the parts of a cluster under load.")
    parser.add_argument("--seconds", type=int, default=60, help="how long the load lasts (default 60)")
    parser.add_argument("--publishers", type=int, default=50, help="raw publishers at once (default 50)")
    parser.add_argument("--installers", type=int, default=200, help="raw installers at once (default 200)")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends this ends what it started
    try:
        record, took = run(wanted)
    except KeyboardInterrupt:
        print("Interrupted.")
        return 130
    print("\n".join(record.report(took)))
    return 1 if record.wrong else 0


def run(wanted: argparse.Namespace) -> tuple[Record, float]:
    """Do all of it; return what was seen, and how long the load lasted."""
    with tempfile.TemporaryDirectory(prefix="plugreg-chaos-") as folder, cluster(Path(folder)) as running:
        record = Record()
        stop = threading.Event()
        workers = load(running, Path(folder), record, stop, wanted)
        begun = time.monotonic()
        for worker in workers:
            worker.start()
        try:
            faults(running, record, wanted.seconds)
        finally:
            stop.set()
            for worker in workers:
                worker.join(END_SECONDS)
        took = time.monotonic() - begun
        audit(running, Path(folder), record)
    return record, took


def load(
    running: Cluster, folder: Path, record: Record, stop: threading.Event, wanted: argparse.Namespace
) -> list[threading.Thread]:
    """Return everybody who publishes and installs, not started yet."""
    registry = running.registries[0].id
    tasks: list[Callable[[], None]] = []
    for number in range(0, wanted.publishers, RIVALS):
        key, name = Key(), f"chaos-{number // RIVALS}"
        rivals = range(number, min(number + RIVALS, wanted.publishers))
        tasks += [Publisher(running.url, registry, key, name, f"{one}", record, stop).run for one in rivals]
    tasks += [Installer(running.url, record, stop).run for _ in range(wanted.installers)]
    tasks += people(folder / "people", running.url, record, stop)
    tasks.append(lambda: tuf_reader(folder / "tuf", running.url, record, stop))
    return [threading.Thread(target=_noting(task, record), daemon=True) for task in tasks]


def _noting(task: Callable[[], None], record: Record) -> Callable[[], None]:
    def run() -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - a client that breaks is what must be told
            record.blame(f"a client broke: {error!r}")

    return run


def faults(running: Cluster, record: Record, seconds: int) -> None:
    """Kill and start each part once, spread over the time; the last quarter is for getting well again."""
    registry, database, store = running.registries[0], running.database, running.store
    plan: tuple[tuple[float, str, Callable[[], None], Callable[[], None]], ...] = (
        (0.15, "registry 1", registry.kill, registry.start),
        (0.40, "PostgreSQL", lambda: database.stop(signal.SIGKILL), database.start),
        (0.65, "SeaweedFS", store.kill, store.start),
    )
    begun = time.monotonic()
    for share, what, kill, start in plan:
        time.sleep(max(0.0, begun + share * seconds - time.monotonic()))
        at = time.monotonic()
        kill()
        time.sleep(AWAY_SECONDS)
        start()
        record.note(f"{what} was killed and answered again after {time.monotonic() - at:.1f} s")
    time.sleep(max(0.0, begun + seconds - time.monotonic()))


def audit(running: Cluster, folder: Path, record: Record) -> None:
    """Compare what was acknowledged with what the signed index shows now."""
    reader = TufClient(folder / "auditor", running.url)
    for name in record.names():
        document = reader.document(name) or {"versions": []}
        shown = {entry["version"]: entry["digest"] for entry in document["versions"]}
        if len(shown) != len(document["versions"]):
            record.blame(f"{name}: a version is listed twice")
        for version, digests in record.acknowledged(name).items():
            if len(digests) != 1:
                record.blame(f"{name} {version} was acknowledged with {len(digests)} contents")
            if shown.get(version) not in digests:
                record.blame(f"{name} {version} was acknowledged and is lost")
        for version, digest in shown.items():
            record.check_listed(name, version, digest)
            if digest_of(ask(f"{running.url}blobs/sha256/{digest[7:]}").body) != digest:
                record.blame(f"{name} {version}: the blob is another one")


if __name__ == "__main__":
    sys.exit(main())
