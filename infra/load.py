"""Who uses a registry while its parts are killed, and what they write down; `chaos` puts them to work.

Publisher       begin > upload > commit; after 503 or a cut connection all of it again, with the same bytes
Installer       timestamp > document > bundle > statement, each compared with what the publishers signed
people          `plugreg publish`, and `plugreg install` and `update`, as commands
tuf_reader      the client of python-tuf: every state of the index that it sees must be consistent
Record          what happened, in figures, and what must not have happened
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.support.commands import User, write_plugin
from tests.support.publisher import Author, ask, digest_of, plugin, publish_statement
from tests.support.tuf_client import TufClient
from tuf.api.exceptions import DownloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.publisher import Answer, Key

UNAVAILABLE: Final = 503
PUBLISHED: Final = frozenset({200, 201})
"""It is published: it was before, or now."""
ACCEPTED: Final = 202
"""To the first step: send the bytes. To the last: published for good, and the index shows it in a moment."""
OTHER_BYTES: Final = 409
PAUSE_SECONDS: Final = (0.5, 1.5)
"""Between two publishes of one publisher."""
THINK_SECONDS: Final = (1.0, 4.0)
"""Between two installations of one installer: what two cores serve while they also run everything else."""
AGAIN_SECONDS: Final = 0.3


class Cut(Exception):
    """The answer was 503, or none came."""


@dataclass
class Record:
    """What everybody has seen. All methods may be called from any thread."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """How long each acknowledged publish took, all its tries together."""
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _signed: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    _acknowledged: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """One more of something."""
        with self._lock:
            self.counts[what] += 1

    def note(self, what: str) -> None:
        """Something to tell at the end."""
        with self._lock:
            self.notes.append(what)

    def blame(self, what: str) -> None:
        """Something that must not happen."""
        with self._lock:
            self.wrong.append(what)

    def sign(self, name: str, version: str, digest: str) -> None:
        """Somebody is about to publish these bytes."""
        with self._lock:
            self._signed[name].setdefault(version, set()).add(digest)

    def acknowledge(self, name: str, version: str, digest: str, seconds: float) -> None:
        """The registry said that they are published."""
        with self._lock:
            self._acknowledged[name].setdefault(version, set()).add(digest)
            self.seconds.append(seconds)

    def names(self) -> list[str]:
        """The plugins that something was acknowledged of."""
        with self._lock:
            return list(self._acknowledged)

    def acknowledged(self, name: str) -> dict[str, set[str]]:
        """The digests that were acknowledged, by version."""
        with self._lock:
            return {version: set(digests) for version, digests in self._acknowledged[name].items()}

    def check_listed(self, name: str, version: str, digest: str) -> None:
        """Blame the registry if it lists what nobody signed."""
        with self._lock:
            known = self._signed[name].get(version, set())
        if digest not in known:
            self.blame(f"{name} {version} is listed with bytes that nobody signed")

    def report(self, took: float) -> Sequence[str]:
        """Return the figures in words."""
        done = sorted(self.seconds) or [0.0]
        last = done[min(len(done) - 1, int(len(done) * 0.99))]
        publishes = (
            f"{len(self.seconds)} publishes were acknowledged, {len(self.seconds) / took:.1f} a second; "
            f"median {statistics.median(done):.2f} s, 99% within {last:.2f} s, longest {done[-1]:.2f} s"
        )
        return (
            *self.notes,
            publishes,
            *(f"{number} {what}" for what, number in sorted(self.counts.items())),
            *(f"WRONG: {what}" for what in self.wrong[:20]),
            f"{len(self.wrong)} things were wrong",
        )


def once(record: Record, request: Callable[[], Answer], *expected: int) -> Answer:
    """Make one request; what is neither expected nor a sign of a killed process is written down.

    Raises:
        Cut: 503, or no answer.
    """
    try:
        answer = request()
    except (OSError, http.client.HTTPException):
        record.count("connections cut, as raw clients saw it")
        raise Cut from None
    if answer.status == UNAVAILABLE:
        record.count(f"answers 503 `{answer.code}`, as raw clients saw it")
        raise Cut
    if answer.status not in expected:
        record.blame(f"an answer {answer.status}: {answer.body[:200]!r}")
        raise Cut
    return answer


@dataclass(frozen=True)
class Publisher:
    """Publishes 1.0.0, 1.1.0, ... of one plugin as fast as it may; its rival tries the same versions."""

    url: str
    registry: str
    key: Key
    name: str
    mark: str
    record: Record
    stop: threading.Event

    def run(self) -> None:
        """Publish until it is time to stop; what was begun is brought to its end."""
        number = 0
        while not self.stop.is_set():
            self.publish(f"1.{number}.0")
            number += 1
            self.stop.wait(random.uniform(*PAUSE_SECONDS))  # noqa: S311 - load needs no secrecy

    def publish(self, version: str) -> None:
        """Try until these bytes are published, or the version is with other bytes."""
        bundle = plugin(self.name, version, self.mark)
        digest = digest_of(bundle)
        self.record.sign(self.name, version, digest)
        statement = publish_statement(self.registry, self.name, version, bundle)
        author = Author(self.url, self.registry, self.key)
        envelope, begun = self.key.envelope(statement), time.monotonic()
        while True:
            try:
                answer = self._try(author, envelope, bundle)
            except Cut:
                time.sleep(AGAIN_SECONDS)
                continue
            if answer.status != OTHER_BYTES:
                self.record.acknowledge(self.name, version, digest, time.monotonic() - begun)
            else:
                self.record.count("publishes refused: the rival was faster")
            return

    def _try(self, author: Author, envelope: object, bundle: bytes) -> Answer:
        begun = once(
            self.record, lambda: author.begin_with(envelope, bundle), ACCEPTED, *PUBLISHED, OTHER_BYTES
        )
        if begun.status != ACCEPTED:
            return begun
        session = begun.json()
        sent = once(self.record, lambda: author.upload(session, bundle), 204, OTHER_BYTES)
        if sent.status == OTHER_BYTES:  # an earlier try of the same bytes is still on its way to the store
            self.record.count(f"uploads asked to wait: `{sent.code}`")
            raise Cut
        done = once(self.record, lambda: author.commit(session), ACCEPTED, *PUBLISHED, OTHER_BYTES)
        if done.status == ACCEPTED:
            self.record.count("publishes were acknowledged before the index showed them")
        return done


@dataclass
class Installer:
    """Fetches what an installation needs, and compares it with what was signed."""

    url: str
    record: Record
    stop: threading.Event
    seen: int = 0
    """The newest version of the index that was read."""

    def run(self) -> None:
        """Install until it is time to stop."""
        while not self.stop.is_set():
            self.stop.wait(random.uniform(*THINK_SECONDS))  # noqa: S311 - load needs no secrecy
            names = self.record.names()
            if names:
                try:
                    self.install(random.choice(names))  # noqa: S311 - as above
                except Cut:
                    continue
                self.record.count("installations")

    def install(self, name: str) -> None:
        """Fetch one version of a plugin."""
        timestamp = json.loads(self._get("index/metadata/timestamp.json"))["signed"]["version"]
        if timestamp < self.seen:
            self.record.blame(f"the index went back from {self.seen} to {timestamp}")
        self.seen = timestamp
        document = json.loads(self._get(f"index/plugins/{name}.json"))
        for entry in document["versions"]:
            self.record.check_listed(name, entry["version"], entry["digest"])
        chosen = random.choice(document["versions"])  # noqa: S311 - any of them must be whole
        self._same(f"blobs/sha256/{chosen['digest'][7:]}", chosen["digest"])
        for statement in chosen["attestations"]:
            self._same(f"attestations/sha256/{statement[7:]}.json", statement)

    def _same(self, path: str, digest: str) -> None:
        if digest_of(self._get(path)) != digest:
            self.record.blame(f"{path} has other bytes")

    def _get(self, path: str) -> bytes:
        return once(self.record, lambda: ask(self.url + path), 200).body


def people(folder: Path, url: str, record: Record, stop: threading.Event) -> list[Callable[[], None]]:
    """Return an author and a user with the real commands; none of their commands may fail."""
    author, user = User(folder / "author"), User(folder / "user")
    for person in (author, user):
        person.folder.mkdir(parents=True)
        person.run("registry", "add", url)
    author.run("key", "new")
    author.run("publish", str(write_plugin(folder / "0", "people", "1.0.0")))

    def publish() -> None:
        number = 0
        while not stop.wait(1):
            number += 1
            source = write_plugin(folder / str(number), "people", f"1.{number}.0")
            _command(record, author, "publish", str(source))

    def install() -> None:
        while not stop.wait(1):
            if _command(record, user, "install", "people"):
                _command(record, user, "update")
                _command(record, user, "verify")
                _command(record, user, "uninstall", "people")

    return [publish, install]


def _command(record: Record, person: User, *words: str) -> bool:
    done = person.end(person.start(*words, "--json"))
    record.count(f"commands `plugreg {words[0]}`")
    if done.returncode:
        record.blame(f"`plugreg {words[0]}` ended with {done.returncode}: {done.stdout}{done.stderr}")
    return not done.returncode


def tuf_reader(folder: Path, url: str, record: Record, stop: threading.Event) -> None:
    """Refresh again and again; only the network may fail."""
    reader = TufClient(folder, url)
    while not stop.wait(0.2):
        try:
            reader.document("people")
        except DownloadError:
            record.count("refreshes of python-tuf that the network failed")
        else:
            record.count("refreshes of python-tuf")
