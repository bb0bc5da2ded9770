"""A person who reads a registry that an attacker can write to, over HTTP or as a folder (`file://`).

with attacked(folder, "http") as scene:
    scene.publish("1.0.0")
    scene.run("install", "demo")
    scene.index.store[...] = ...                               what the attacker does
    scene.refused("update", exits=4, codes="index_forged")     nothing on the person's disk changed

Commands run in this process, each with the same folders, as `plugreg.cli.main` runs them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from unittest.mock import patch

from plugreg.cli import EXIT_INTERNAL, main
from tests.support.offers import Author, Offers, plugin_files
from tests.support.scripted import Server, serving
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Way = Literal["http", "folder"]
WAYS: Final[tuple[Way, ...]] = ("http", "folder")
ASKING: Final = frozenset({"install", "update", "info", "lock", "sync"})
"""Commands that ask a registry."""


@dataclass
class Person:
    """A machine with a home and a plugins root."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "plugins"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def raw(self, *words: str) -> tuple[int, str, str]:
        """Run a command; return exit code, stdout and stderr. It must not have failed by its own fault."""
        own = {"PLUGREG_HOME": str(self.home), "PLUGREG_ROOT": str(self.root), **self.environment}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PLUGREG_")}
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with patch.dict(os.environ, kept | own, clear=True), redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        said, complained = (text(stream) for stream in (out, err))
        assert code != EXIT_INTERNAL, f"{said}{complained}"
        assert "Traceback" not in complained, complained
        return code, said, complained

    def run(self, *words: str) -> Any:
        """Run a command that must succeed and return the JSON it printed."""
        code, said, complained = self.raw(*words, "--json")
        assert code == 0, f"plugreg {' '.join(words)}: {code} {said}{complained}"
        return json.loads(said)

    def fails(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run a command that must fail and return its exit code and the problem it printed."""
        code, said, complained = self.raw(*words, "--json")
        assert code, f"plugreg {' '.join(words)} went through: {said}{complained}"
        problem: dict[str, Any] = json.loads(said)["error"]
        return code, problem

    def installed(self) -> dict[str, str]:
        """The versions of what is installed, read from the links alone."""
        entries = self.root.iterdir() if self.root.exists() else ()
        return {path.name: path.readlink().name.rpartition("-")[0] for path in entries if path.is_symlink()}


def text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


@dataclass
class Scene:
    """The registry, who publishes there, who reads it, and how."""

    folder: Path
    server: Server
    way: Way
    offers: Offers
    index: TufRepository
    author: Author = field(default_factory=Author)
    stranger: Author = field(default_factory=Author)

    def __post_init__(self) -> None:
        self.person = Person(self.folder / "person")

    @property
    def url(self) -> str:
        return self.server.url if self.way == "http" else self.mirror.as_uri() + "/"

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    def publish(self, version: str, name: str = "demo", author: Author | None = None) -> None:
        """Somebody, by default the author, publishes a plugin."""
        self.offers.publish(author or self.author, name, version, plugin_files(name, version))
        self.index.take(self.offers)

    def run(self, *words: str, person: Person | None = None) -> Any:
        """A command of the person that must succeed; it reads what is in the store now."""
        return (person or self.person).run(*self._complete(words))

    def refused(
        self, *words: str, exits: int, codes: str | set[str] = "", person: Person | None = None
    ) -> str:
        """A command that must be refused and changes nothing; returns the sentence that it says."""
        who = person or self.person
        before = who.installed()
        exit_code, problem = who.fails(*self._complete(words))
        shown = f"{problem['code']}: {problem['detail']} ({exit_code})"
        assert who.installed() == before, shown
        assert exit_code == exits, shown
        assert not codes or problem["code"] in ({codes} if isinstance(codes, str) else codes), shown
        return f"{problem['detail']} {problem.get('hint', '')}"

    def newcomer(self) -> Person:
        """Another person, whose machine has seen nothing yet."""
        number = len(list(self.folder.glob("newcomer-*")))
        person = Person(self.folder / f"newcomer-{number}")
        person.folder.mkdir()
        return person

    def write(self) -> None:
        """Copy the store to the mirror's folder."""
        shutil.rmtree(self.mirror, ignore_errors=True)
        self.index.write(self.mirror)

    def _complete(self, words: tuple[str, ...]) -> tuple[str, ...]:
        self.write()
        return (*words, "--registry", self.url) if words[0] in ASKING else words


@contextmanager
def attacked(folder: Path, way: Way = "http") -> Iterator[Scene]:
    """The scene, as long as the block runs."""
    offers = Offers.create(folder / "registry")
    index = TufRepository(offers.ref.id)
    with serving(index.answer) as server:
        yield Scene(folder, server, way, offers, index)
