"""What an organisation runs, as processes of this machine, all on loopback.

    clients > Caddy > registry 1, registry 2 > PostgreSQL: records
                                             > SeaweedFS: objects and uploads

with cluster(tmp_path / "cluster") as running:      running.url is where clients go
running.registries[0].kill(); running.registries[0].start()      so too `database` and `store`

Each registry has a data folder of its own; they share nothing but the services and the folder of the keys.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.support.caddy import caddy
from tests.support.postgres import INSTALLED, NEWEST, PostgresServer
from tests.support.registries import RegistryProcess
from tests.support.s3 import StoreProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGISTRIES: Final = 2


@dataclass(frozen=True)
class Cluster:
    """A topology that runs."""

    url: str
    registries: tuple[RegistryProcess, ...]
    database: PostgresServer
    store: StoreProcess

    def places(self) -> tuple[tuple[str, str], ...]:
        """Return what runs where."""
        return (
            ("Caddy", self.url),
            *((f"registry {number}", one.url) for number, one in enumerate(self.registries, 1)),
            ("PostgreSQL", f"127.0.0.1:{self.database.port}"),
            ("SeaweedFS", self.store.server.endpoint),
        )


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """The topology, as long as the block lasts; whatever ends it, every process is ended."""
    with ExitStack() as stack:
        store = StoreProcess(folder / "store")
        stack.callback(store.kill)
        with ThreadPoolExecutor() as pool:
            started = pool.submit(store.start)
            database = stack.enter_context(PostgresServer(INSTALLED[NEWEST]))
            started.result()
        environment = {
            "PLUGREG_REGISTRY_DATABASE": database.create().address,
            "PLUGREG_REGISTRY_KEYS": str(folder / "keys"),
            **store.server.environment(store.server.bucket()),
        }
        registries = tuple(
            RegistryProcess(folder / f"registry-{number}", environment=environment)
            for number in range(1, REGISTRIES + 1)
        )
        for registry in registries:
            stack.callback(registry.stop)
        with (
            ThreadPoolExecutor() as pool
        ):  # they may start at once: one of them makes the tables and the keys
            list(pool.map(RegistryProcess.start, registries))
        upstreams = " ".join(f"127.0.0.1:{registry.port}" for registry in registries)
        url = stack.enter_context(caddy("Caddyfile", PLUGREG_REGISTRIES=upstreams))
        yield Cluster(url, registries, database, store)
