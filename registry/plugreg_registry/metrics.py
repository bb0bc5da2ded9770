"""What Prometheus is told: steps and requests as they happen, and the state of the registry when it asks.

With several workers each process keeps its numbers in a folder that all share, and whichever is asked answers
with the sum. What is the same for all, such as how many plugins wait, is looked up when it is asked for.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import event

from plugreg_registry.observing import READS, REQUEST, observe
from plugreg_registry.operation import METRICS_FOLDER, is_loopback
from plugreg_registry.version import installed_version
from plugreg_schemas.errors import NotAllowed, NotAvailable, PlugregError
from plugreg_schemas.index import INDEX_ROLE, REVOCATIONS_ROLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from prometheus_client import Metric
    from sqlalchemy import Engine

    from plugreg_registry.index import Index
    from plugreg_registry.observing import Step
    from plugreg_registry.operation import MetricsReaders
    from plugreg_registry.ports import Sessions

MOST_WAITING: Final = 10_000
"""More plugins than this that wait are not counted."""
FORWARDED: Final = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
KINDS: Final[Mapping[str, str]] = {"i": "index", "b": "blob", "a": "attestation", ".": "discovery"}
"""What is read, by the first letter of its path."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PLUGINS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_NOT_SUMMED: Final = frozenset({"process_start_time_seconds", "process_max_fds"})
_NUMBERS_OF: Final = re.compile(r".*_([0-9]+)[.]db")

disable_created_metrics()  # type: ignore[no-untyped-call] # one line less for each number
OURS: Final = CollectorRegistry()
REQUESTS: Final = Counter(
    "plugreg_requests", "Requests to the API.", ("method", "route", "status"), registry=OURS
)
REQUEST_SECONDS: Final = Histogram(
    "plugreg_request_seconds",
    "Time until a request to the API was answered.",
    ("route",),
    registry=OURS,
    buckets=_SECONDS,
)
READ_ANSWERS: Final = Counter(
    "plugreg_reads", "Answers of the read plane, by what was read.", ("kind", "status"), registry=OURS
)
STEPS: Final = Counter(
    "plugreg_steps", "What the registry did, and how it ended.", ("step", "outcome"), registry=OURS
)
STEP_SECONDS: Final = Histogram(
    "plugreg_step_seconds", "Time that a step took.", ("step",), registry=OURS, buckets=_SECONDS
)
STEPS_RUNNING: Final = Gauge(
    "plugreg_steps_running",
    "Steps that are being taken now.",
    ("step",),
    registry=OURS,
    multiprocess_mode="livesum",
)
GROUP_PLUGINS: Final = Histogram(
    "plugreg_index_group_plugins", "Plugins that one group showed.", registry=OURS, buckets=_PLUGINS
)
CONNECTIONS: Final = Gauge(
    "plugreg_database_connections",
    "Connections to the database that are in use now.",
    registry=OURS,
    multiprocess_mode="livesum",
)


_SETTLED: Final[dict[tuple[str, int], int]] = {}
_SETTLING: Final = Lock()


def settle_reads() -> None:
    """Add what the read plane has answered since the last time. Every process does so now and then."""
    with _SETTLING:
        for key, answers in READS.copy().items():
            letter, status = key
            READ_ANSWERS.labels(KINDS[letter], status).inc(answers - _SETTLED.get(key, 0))
            _SETTLED[key] = answers


def count_steps() -> None:
    """Count every step of this process from now on."""
    observe(_observer)


def count_connections(engine: Engine) -> None:
    """Count the connections of an engine that are in use."""
    event.listen(engine, "checkout", lambda *_: CONNECTIONS.inc())
    event.listen(engine, "checkin", lambda *_: CONNECTIONS.dec())


@contextmanager
def _observer(taken: Step) -> Iterator[None]:
    began = time.perf_counter()
    if taken.name != REQUEST:
        STEPS_RUNNING.labels(taken.name).inc()
    try:
        yield
    finally:
        seconds = time.perf_counter() - began
        if taken.name == REQUEST:
            _request(taken.facts, seconds)
        else:
            STEPS_RUNNING.labels(taken.name).dec()
            STEPS.labels(taken.name, taken.outcome).inc()
            STEP_SECONDS.labels(taken.name).observe(seconds)
            if "plugins" in taken.facts:
                GROUP_PLUGINS.observe(int(taken.facts["plugins"]))


def _request(facts: Mapping[str, str | int], seconds: float) -> None:
    method = str(facts["method"])
    REQUESTS.labels(method if method in _METHODS else "other", facts["route"], facts["status"]).inc()
    REQUEST_SECONDS.labels(facts["route"]).observe(seconds)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Answers who asks for metrics."""

    readers: MetricsReaders
    index: Index
    sessions: Sessions
    check: Callable[[], None]
    """Raises `Temporary` if database or store cannot be reached."""
    warnings: Callable[[], tuple[str, ...]]
    now: Callable[[], datetime]

    def page(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return all metrics, for a peer at an address who sent these headers.

        Raises:
            NotAllowed: `metrics_not_for_you`. NotAvailable: `metrics_off`.
        """
        self._check(peer, headers)
        settle_reads()
        asked = CollectorRegistry(auto_describe=False)
        asked.register(_State(self))
        folder = os.environ.get(METRICS_FOLDER)
        if folder is None:
            ProcessCollector(registry=asked)
            return generate_latest(OURS) + generate_latest(asked)
        processes = tuple(_living(Path(folder)))
        MultiProcessCollector(asked, folder)  # type: ignore[no-untyped-call]
        asked.register(_Processes(processes))
        return generate_latest(asked)

    def _check(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self.readers == "off":
            raise NotAvailable("metrics_off", "this registry shows no metrics")
        if self.readers == "anyone":
            return
        if not is_loopback(peer) or any(name in FORWARDED for name, _ in headers):
            raise NotAllowed(
                "metrics_not_for_you",
                "metrics are shown only to programs on the registry's own machine",
                hint="scrape from there, or let the operator set `PLUGREG_REGISTRY_METRICS=anyone`",
            )


@dataclass(frozen=True, slots=True, eq=False)
class _State(Collector):
    """What is the same for all processes. What cannot be looked up now is left out."""

    metrics: Metrics

    def collect(self) -> Iterator[Metric]:
        info = _gauge("plugreg_info", "Version of the registry.", ("version",))
        info.add_metric((installed_version(),), 1)
        yield info
        for look in (self._ready, self._roles, self._backlog, self._sessions, self._warnings):
            with suppress(PlugregError):
                yield from look()

    def _ready(self) -> Iterator[Metric]:
        try:
            self.metrics.check()
        except PlugregError:
            yield _one("plugreg_ready", "Whether database and store can be reached.", 0)
        else:
            yield _one("plugreg_ready", "Whether database and store can be reached.", 1)

    def _roles(self) -> Iterator[Metric]:
        state, now = self.metrics.index.files.state(), self.metrics.now()
        ends = {
            "root": state.root.signed.expires,
            "targets": state.targets.expires,
            "snapshot": state.snapshot.expires,
            "timestamp": state.timestamp.expires,
            INDEX_ROLE: state.index.expires,
            REVOCATIONS_ROLE: state.revocations.expires,
        }
        left = _gauge("plugreg_role_left_seconds", "Time until a role of the index expires.", ("role",))
        for role, end in ends.items():
            left.add_metric((role,), (end - now).total_seconds())
        yield left

    def _backlog(self) -> Iterator[Metric]:
        backlog = self.metrics.index.backlog
        yield _one("plugreg_plugins", "Plugins there are.", backlog.plugins())
        waiting = len(backlog.waiting(MOST_WAITING))
        yield _one("plugreg_waiting_plugins", "Plugins that wait for the index.", waiting)

    def _sessions(self) -> Iterator[Metric]:
        in_the_end = self.metrics.now() + timedelta(days=1)  # none lives so long
        sessions = len(self.metrics.sessions.expired(in_the_end))
        yield _one("plugreg_sessions", "Publishes that wait for their bytes.", sessions)

    def _warnings(self) -> Iterator[Metric]:
        warnings = _gauge("plugreg_warning", "What an operator should look at.", ("word",))
        for word in self.metrics.warnings():
            warnings.add_metric((word,), 1)
        yield warnings


@dataclass(frozen=True, slots=True, eq=False)
class _Processes(Collector):
    """CPU, memory and files of several processes together."""

    numbers: tuple[int, ...]

    def collect(self) -> Iterator[Metric]:
        summed: dict[str, Metric] = {}
        for number in self.numbers:
            for metric in ProcessCollector(pid=partial(int, number), registry=None).collect():
                if metric.name in _NOT_SUMMED:
                    continue
                known = summed.setdefault(metric.name, metric)
                if known is not metric:
                    known.samples = [
                        one._replace(value=one.value + other.value)
                        for one, other in zip(known.samples, metric.samples, strict=True)
                    ]
        yield from summed.values()


def _living(folder: Path) -> Iterator[int]:
    """Yield the numbers of the processes that keep metrics here. Of those that are gone no gauge counts."""
    found = {int(match[1]) for file in folder.iterdir() if (match := _NUMBERS_OF.fullmatch(file.name))}
    for number in sorted(found):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            mark_process_dead(number, str(folder))  # type: ignore[no-untyped-call]
        else:
            yield number


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
