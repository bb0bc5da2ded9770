"""The signed index of 10,000 plugins: work for each plugin in a group, and bytes that a client receives.

The records are real ones, written straight into the database; the index is built from them by the publisher.
Work is all of it: documents, bins, snapshot and timestamp, synced to the disk. Bytes are those of the bodies
that the unmodified client of python-tuf asks for, without the plugin document.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.publisher import Key, publish_statement
from tests.support.tuf_client import TufClient

from plugreg_registry.app import compose, prepare
from plugreg_registry.listing import Lister
from plugreg_registry.records import Facts, PluginRecord, StoredRelease, StoredStatement
from plugreg_registry.settings import read_settings
from plugreg_schemas.index import metadata_key
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.envelope import read_envelope
from plugreg_schemas.trust.identity import key_signer

if TYPE_CHECKING:
    from plugreg_registry.app import Registry

PLUGINS = 10_000
GROUPS = (1, 50, 500)
ROUNDS = 3
WANTED_MS = 10
WANTED_BYTES = {"unchanged": 1 << 10, "changed": 16 << 10, "new": 32 << 10}


def name_of(number: int) -> str:
    """Return the name of one of the plugins."""
    return f"plugin-{number:05}"


def release_of(
    registry: Registry, key: Key, name: str, version: str
) -> tuple[StoredStatement, StoredRelease]:
    """A version as it is stored when it was published."""
    bundle = f"{name} {version}".encode()
    envelope = read_envelope(key.envelope(publish_statement(registry.ref.id, name, version, bundle)))
    now = registry.index.now()
    statement = StoredStatement(envelope.digest, envelope.content, key.spki, now)
    release = StoredRelease(
        version=version,
        digest=Digest.of(bundle),
        size=len(bundle),
        format="agent-plugins",
        published_at=now,
        attestation=envelope.digest,
        signer=key_signer(key.spki),
        public_key=key.spki,
        facts=Facts(description=f"What {name} does, in a line of a usual length for people."),
    )
    return statement, release


def publish(registry: Registry, key: Key, name: str, version: str) -> None:
    """Bring a record to its commit point."""
    statement, release = release_of(registry, key, name, version)

    def decide(before: PluginRecord | None) -> PluginRecord:
        if before is None:
            return PluginRecord(name, (statement,), (release,))
        return replace(before, releases=(*before.releases, release))

    registry.services.publishing.releases.change(name, decide)


def report(what: str, measured: float, wanted: float | None, unit: str) -> None:
    """Print a figure beside what is wanted."""
    verdict = (
        "" if wanted is None else f"   wanted {wanted:g} {unit}   {'ok' if measured <= wanted else 'OVER'}"
    )
    print(f"{what:<34} {measured:10.2f} {unit}{verdict}")


def build(registry: Registry, key: Key) -> None:
    """Make all records, and the index that shows them."""
    started = time.perf_counter()
    for number in range(PLUGINS):
        publish(registry, key, name_of(number), "1.0.0")
    records = time.perf_counter() - started
    started = time.perf_counter()
    registry.index.drain()
    report("records of 10,000 plugins", records, None, "s")
    report("their index, each", (time.perf_counter() - started) * 1000 / PLUGINS, WANTED_MS, "ms")


def groups(registry: Registry, key: Key) -> None:
    """A new version of so many plugins, spread over the bins, shown as one group; the best of some rounds."""
    for size in GROUPS:
        passed, worked = [], []
        for turn in range(ROUNDS):
            step = PLUGINS // size
            for number in range(size):
                publish(registry, key, name_of(number * step + turn), f"2.{size}.{turn}")
            clock, processor = time.perf_counter(), time.process_time()
            registry.index.drain()
            passed.append((time.perf_counter() - clock) * 1000 / size)
            worked.append((time.process_time() - processor) * 1000 / size)
        report(f"group of {size}, each", min(passed), WANTED_MS if size > 1 else None, "ms")
        report("  of it on the processor", min(worked), None, "ms")


def sizes(registry: Registry, key: Key, folder: Path, objects: Path) -> None:
    """Ask for a plugin as a new client, with nothing new, and after a change."""
    client = TufClient(folder / "client", objects)
    found = dict.fromkeys(WANTED_BYTES, 0)
    document = client.target(f"plugins/{name_of(7)}.json") or b""
    found["new"] = client.received - len(document)
    client.updater().get_targetinfo(f"plugins/{name_of(7)}.json")
    found["unchanged"] = client.received
    publish(registry, key, name_of(7), "3.0.0")
    registry.index.drain()
    document = client.target(f"plugins/{name_of(7)}.json") or b""
    assert json.loads(document)["versions"][-1]["version"] == "3.0.0"
    found["changed"] = client.received - len(document)
    for what, wanted in WANTED_BYTES.items():
        report(f"a client's bytes, {what}", found[what], wanted, "B")
    state = registry.index.files.state()
    bins = list(state.bins.get_roles())
    for role, version in (
        ("timestamp", None),
        ("snapshot", state.snapshot.version),
        ("targets", state.version("targets")),
        ("index", state.version("index")),
        (bins[0], state.version(bins[0])),
    ):
        size = (objects / metadata_key(role, version)).stat().st_size
        report(f"  {role}{' of ' + str(len(bins)) if role == bins[0] else ''}", size, None, "B")


def listing(registry: Registry) -> None:
    """The list for hosts: from nothing, and after one change."""
    index, clock = registry.index, [registry.index.now()]
    lister = Lister(replace(index, now=lambda: clock[0]))
    started = time.perf_counter()
    lister.round()
    report("list of all, from nothing", (time.perf_counter() - started) * 1000, None, "ms")
    content = index.files.target(index.files.state().index, "catalog.json")
    report("  catalog.json", len(content), None, "B")
    report("  its pages", len(json.loads(content)["pages"]), None, "")


def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as place:
        settings = read_settings({}, str(Path(place) / "data"))
        prepare(settings)
        registry, key = compose(settings), Key()
        build(registry, key)
        groups(registry, key)
        sizes(registry, key, Path(place), settings.objects)
        listing(registry)
        registry.close()


if __name__ == "__main__":
    main()
