"""Tells a cache which paths have changed: the purge hook for a CDN in front of the registry.

    put of what changes, or removal of a bundle > path is noted > POST {"paths": [...]} > 2xx, or again later

Publishing never waits for it: paths are gathered in memory, and a thread sends them. While the hook cannot be
reached it is asked again and again, with longer and longer pauses, and every path is remembered once. When
there are too many, the oldest are forgotten: caches then keep those as long as `INDEX_MAX_AGE` allows.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import urllib3

from plugreg_registry.object_kinds import kind_of
from plugreg_registry.observing import step
from plugreg_registry.ports import Over
from plugreg_registry.version import installed_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugreg_registry.operation import PurgeHook
    from plugreg_registry.ports import BlobStore, Source

LOG: Final = logging.getLogger("plugreg.registry")
GATHER_SECONDS: Final = 0.25
"""How long paths are gathered, so that one group of the index is one request."""
TIMEOUT_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 500
"""Paths in one request."""
MOST_WAITING: Final = 10_000
LONGEST_PAUSE_SECONDS: Final = 60.0
END_SECONDS: Final = 7.0
"""How long the last paths may take to be sent when a process ends: one try."""


@dataclass(slots=True)
class Purger:
    """Sends paths to the hook. The thread that does it begins with the first path."""

    hook: PurgeHook
    _waiting: dict[str, None] = field(default_factory=dict, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _ends: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        self._pool = urllib3.PoolManager(timeout=TIMEOUT_SECONDS, retries=False)

    def note(self, key: str) -> None:
        """Remember that what a path leads to has changed."""
        with self._changed:
            if self._ends:
                return
            self._waiting[f"/{key}"] = None
            if len(self._waiting) > MOST_WAITING:
                self._forget_oldest()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="purge", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what is left, once, and end. It may be repeated."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(END_SECONDS)
            if self._waiting:
                LOG.warning(
                    "%d changed paths were not purged: caches keep them for a while", len(self._waiting)
                )
        self._pool.clear()

    def _run(self) -> None:
        pause = GATHER_SECONDS
        while self._wait(pause):
            paths = list(self._waiting)[:MOST_AT_ONCE]
            if self._send(paths):
                pause = GATHER_SECONDS
            else:
                pause = min(max(1.0, pause * 2), LONGEST_PAUSE_SECONDS)
                self._remember(paths)
                if self._ends:
                    return

    def _wait(self, pause: float) -> bool:
        """Wait until there are paths and the pause is over, or the end; return whether there are paths."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ends)
            self._changed.wait_for(lambda: self._ends, pause)
            return bool(self._waiting)

    def _send(self, paths: list[str]) -> bool:
        """Send paths; return whether the hook took them. What changes again meanwhile is sent again."""
        with self._changed:
            for path in paths:
                self._waiting.pop(path, None)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"plugreg-registry/{installed_version()}",
        }
        if self.hook.token:
            headers["Authorization"] = f"Bearer {self.hook.token}"
        with step("purge") as purge:
            try:
                answer = self._pool.request(
                    "POST",
                    self.hook.url,
                    body=json.dumps({"paths": paths}).encode(),
                    headers=headers,
                    redirect=False,
                )
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                purge.outcome, reason = "hook_unreachable", type(error).__name__
            else:
                if 200 <= answer.status < 300:  # noqa: PLR2004 - what HTTP calls success
                    return True
                purge.outcome, reason = "hook_refused", f"status {answer.status}"
        LOG.warning("the purge hook at %s did not take %d paths: %s", self.hook.host, len(paths), reason)
        return False

    def _remember(self, paths: list[str]) -> None:
        """Put paths back before those that came meanwhile."""
        with self._changed:
            self._waiting = dict.fromkeys([*paths, *self._waiting])
            while len(self._waiting) > MOST_WAITING:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        del self._waiting[next(iter(self._waiting))]
        with step("purge") as purge:
            purge.outcome = "path_forgotten"


@dataclass(frozen=True, slots=True)
class Purged:
    """A store of objects that says what has changed in it."""

    blobs: BlobStore
    purger: Purger

    def put(self, key: str, source: Source, over: bytes | Literal[Over.ANY] | None = Over.ANY) -> None:
        self.blobs.put(key, source, over)
        kind = kind_of(key)
        if kind is not None and not kind.is_fixed:
            self.purger.note(key)

    def open(self, key: str) -> BinaryIO:
        return self.blobs.open(key)

    def has(self, key: str) -> bool:
        return self.blobs.has(key)

    def delete(self, key: str) -> None:
        self.blobs.delete(key)
        kind = kind_of(key)
        if kind is not None and kind.is_bundle:
            self.purger.note(key)

    def keys(self, prefix: str) -> Iterator[str]:
        return self.blobs.keys(prefix)
