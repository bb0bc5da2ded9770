"""A plugins root, a registry and two authors for one test; and the same operations in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, ParamSpec

from plugreg.install import install, update
from plugreg.inventory import list_installed, verify
from plugreg.pinning import Options
from plugreg.plugins_root import PluginsRoot
from plugreg.rollback import rollback
from plugreg.trust_policy import NO_RULES
from plugreg.uninstall import uninstall
from plugreg_schemas.errors import PlugregError
from plugreg_schemas.names import Ref
from tests.support.offers import Author, Offers, plugin_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from plugreg.install import Installation
    from plugreg.sources import Progress, Registry
    from plugreg.trust_policy import TrustPolicy
    from plugreg.uninstall import Uninstallation
    from plugreg_schemas.names import Digest

P = ParamSpec("P")
OURS = {".store", ".data", ".state", ".lock"}


@dataclass
class Here:
    """Everything that a test of installing needs, in one folder."""

    folder: Path
    author: Author = field(default_factory=Author)
    stranger: Author = field(default_factory=Author)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.offers = Offers.create(self.folder / "registry")
        self.root = PluginsRoot.at(self.folder / "root", patience=60)

    def publish(
        self,
        version: str = "1.0.0",
        files: Mapping[str, str | bytes] | None = None,
        *,
        links: Mapping[str, str] | None = None,
    ) -> Digest:
        """Publish `demo`, a plugin with these files too."""
        return self.offers.publish(self.author, "demo", version, plugin_files("demo", version, files), links)

    def install(
        self,
        *refs: str,
        registries: Sequence[Registry] = (),
        prereleases: bool = False,
        accept_signer: str = "",
        accept_registry: str = "",
        policy: TrustPolicy = NO_RULES,
    ) -> Installation:
        """Install from the registry, by default `demo`."""
        wanted = [Ref.parse(text) for text in refs or ("demo",)]
        options = Options(prereleases, accept_signer, accept_registry, policy=policy)
        return install(self.root, wanted, registries or [self.offers], options=options, say=self.said.append)

    def update(
        self,
        *names: str,
        registries: Sequence[Registry] = (),
        accept_signer: str = "",
        accept_registry: str = "",
        policy: TrustPolicy = NO_RULES,
    ) -> Installation:
        """Update from the registry."""
        options = Options(accept_signer=accept_signer, accept_registry=accept_registry, policy=policy)
        return update(self.root, names, registries or [self.offers], options=options, say=self.said.append)

    def uninstall(self, *names: str, purge_data: bool = False) -> Uninstallation:
        """Uninstall, by default `demo`."""
        return uninstall(self.root, names or ("demo",), purge_data=purge_data, say=self.said.append)

    def listed(self) -> dict[str, str]:
        """Return the versions of what is installed, by name; nothing may be damaged."""
        rows = list_installed(self.root).plugins
        assert [row for row in rows if row.status == "damaged"] == []
        return {row.name: row.version for row in rows}

    def tree(self, name: str = "demo") -> Path:
        """Return the plugin's resolved folder."""
        return self.root.link(name).resolve()

    def refused(
        self, operation: Callable[P, object], *arguments: P.args, **options: P.kwargs
    ) -> PlugregError:
        """Return the refusal of an operation, after which everything installed is whole and nothing is left over."""
        before = self.listed()
        try:
            operation(*arguments, **options)
        except PlugregError as error:
            assert self.listed() == before
            assert_settled(self.root)
            return error
        raise AssertionError("nothing was refused")


def assert_settled(root: PluginsRoot, releases: int = 2) -> None:
    """Assert that everything is verified and nothing is left over: no staging, no unfinished release, no stray entry."""
    verify(root).raise_if_any()
    active = set(root.active_names())
    assert {entry.name for entry in root.path.iterdir()} == OURS | active
    assert list(root.staging.iterdir()) == []
    assert {entry.name for entry in root.store.iterdir()} == active | {".staging"}
    for name in active:
        entries = root.entries(name)
        assert len(entries) <= releases
        parts = {part.name for entry in entries for part in entry.parts}
        assert {found.name for found in (root.store / name).iterdir()} == parts
    with_data = {entry.name for entry in root.all_data.iterdir()}
    assert active <= with_data
    assert {entry.stem for entry in root.states.iterdir()} <= with_data


# --- processes ---------------------------------------------------------------------------------------------------


class StopsAtDownload(Offers):
    """A registry whose download stops its own process, as a terminal or a debugger does."""

    def download(self, digest: Digest, size: int, into: BinaryIO, progress: Progress) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        super().download(digest, size, into, progress)


_REGISTRIES: dict[str, type[Offers]] = {"plain": Offers, "stops": StopsAtDownload}
STEPS = {
    "open", "os.rename", "os.symlink", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree", "os.listdir", "os.scandir",
}  # fmt: skip
"""What Python tells an audit hook of the file system."""


@dataclass(frozen=True)
class Job:
    """One operation for another process. `cut` is the step at which it kills itself, 0: never."""

    root: Path
    registry: Path
    words: tuple[str, ...]
    kind: str = "plain"
    cut: int = 0

    def run(self, say: Callable[[str], None]) -> None:
        """Do it here and now."""
        root, registry = PluginsRoot.at(self.root, patience=100), _REGISTRIES[self.kind](self.registry)
        verb, *names = self.words
        if verb == "install":
            install(root, [Ref.parse(name) for name in names], [registry], say=say)
        elif verb == "update":
            update(root, names, [registry], say=say)
        elif verb == "rollback":
            rollback(root, names[0], say=say)
        else:
            uninstall(root, names, say=say)


def _work(job: Job, wire: Connection) -> None:
    """Run a job, telling when it begins, what it says, and how it ends with how many seconds and steps."""
    steps = 0

    def hook(event: str, _: tuple[object, ...]) -> None:
        nonlocal steps
        if event in STEPS:
            steps += 1
            if steps == job.cut:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    wire.send(("begun", 0.0, 0))
    began = time.monotonic()
    steps = 0
    try:
        job.run(lambda text: wire.send((text, 0.0, 0)))
    except PlugregError as error:
        wire.send((error.code, time.monotonic() - began, steps))
        sys.exit(1)
    wire.send(("done", time.monotonic() - began, steps))


@dataclass
class Running:
    """An operation in another process."""

    process: ForkServerProcess
    wire: Connection

    @property
    def pid(self) -> int:
        """The process's number."""
        assert self.process.pid is not None
        return self.process.pid

    @classmethod
    def start(cls, job: Job) -> Running:
        """Start a process, which has begun when this returns."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(job, there))
        process.start()
        there.close()
        running = cls(process, here)
        assert running.hear()[0] == "begun"
        return running

    def hear(self) -> tuple[str, float, int]:
        """Return the next thing that the process says."""
        assert self.wire.poll(100), "the process says nothing"
        heard: tuple[str, float, int] = self.wire.recv()
        return heard

    def last(self) -> tuple[str, float, int]:
        """Wait for the end and return the last thing said; ("killed", ...) where there is none."""
        said = ("killed", 0.0, 0)
        try:
            while True:
                said = self.hear()
        except (EOFError, ConnectionResetError):
            self.process.join(100)
        self.wire.close()
        return said


def done(*jobs: Job) -> list[str]:
    """Run jobs at the same time, each in its own process, and return how they ended."""
    return [running.last()[0] for running in [Running.start(job) for job in jobs]]
