"""A real registry for a test: its own process on a free loopback port, its data in a folder of the test.

with running(tmp_path / "registry") as registry:                  registry.url, registry.id
with running(tmp_path / "registry", workers=2) as registry: ...
registry.kill(); registry.start()                                 the same data, the same port
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REPOSITORY: Final = Path(__file__).parents[2]
START_SECONDS: Final = 60
STOP_SECONDS: Final = 20


@dataclass
class RegistryProcess:
    """A `plugreg-registry serve` over the folder `data`."""

    data: Path
    workers: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 0
    prefix: Sequence[str] = ()
    """What starts the command, such as `unshare`."""
    id: str = ""
    process: subprocess.Popen[str] | None = None
    log: list[str] = field(default_factory=list)
    """The lines of its standard error, of all its runs."""
    reader: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/"

    @property
    def objects(self) -> Path:
        return self.data / "objects"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it and return when it answers."""
        command = [*self.prefix, sys.executable, "-m", "plugreg_registry", "serve"]
        command += ["--host", self.host, "--port", str(self.port), "--workers", str(self.workers)]
        self.process = subprocess.Popen(
            [*command, "--data", str(self.data)],
            env=registry_environment(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self._keep_log, args=(self.process,), daemon=True)
        self.reader.start()
        assert self.process.stdout is not None
        facts = (
            dict(self.process.stdout.readline().split(maxsplit=1) for _ in range(3)) if self._alive() else {}
        )
        if "url" not in facts:
            raise RuntimeError(f"the registry did not start: {self._last_words()}")
        self.port = int(facts["url"].strip().rstrip("/").rpartition(":")[2])
        self.id = facts["registry"].strip()
        self._wait_until_ready()

    def stop(self) -> None:
        """End it as an operator does."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._close()

    def kill(self) -> None:
        """End it as a power cut does. With several workers, they notice and end by themselves."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._close()

    def resident_bytes(self) -> int:
        """The memory that the process holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def reset_peak(self) -> None:
        """Begin to measure `peak_bytes` from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """The most memory that the process has held."""
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def _alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._alive():
            try:
                with urllib.request.urlopen(self.url + "readyz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"the registry did not become ready: {self._last_words()}")

    def _keep_log(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with suppress(ValueError):  # closed while reading
            self.log.extend(process.stderr)

    def _last_words(self) -> str:
        return "".join(self.log[-20:])

    def _close(self) -> None:
        if self.process is not None and self.reader is not None:
            self.reader.join(STOP_SECONDS)
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()
        self.process = None


def registry_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a registry: this one without its settings, with the packages of this repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLUGREG_")}
    paths = [str(REPOSITORY / folder) for folder in ("schemas", "registry", "client")]
    environment["PYTHONPATH"] = os.pathsep.join([*paths, environment.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    return environment | dict(more or {})


@contextmanager
def running(
    data: Path, *, workers: int = 1, environment: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
) -> Iterator[RegistryProcess]:
    """A registry that runs as long as the block does."""
    registry = RegistryProcess(data, workers=workers, environment=environment or {}, prefix=prefix)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()
