"""Processes that left their group: found by the tag in their environment, and killed without hitting others.

A child may call `setsid`, and then no signal to its group reaches it; if its parent ends as well, nothing
leads from us to it any more. Two things do: the variable `PLUGREG_RUN`, which it inherited and which `/proc`
shows, and that we are the reaper of all our descendants (`PR_SET_CHILD_SUBREAPER`), so orphans become our
children and can be waited for.

A pid alone is never killed: it may belong to another program by now. The process is pinned first (a pidfd
names one process for ever), then looked at, then killed. Where there is no `/proc` (macOS, Windows) nothing
is found, and only the group is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

TAG: Final = "PLUGREG_RUN"
"""The variable whose value is one run: `<pid of the host>-<random>`."""

PROC: Final = Path("/proc")
_PR_SET_CHILD_SUBREAPER: Final = 36
_ROUNDS: Final = 20
"""A process may fork while it is looked for; one that does so faster than this for ever is beyond us."""
_DEATH_MS: Final = 1000


class Entry(NamedTuple):
    """What `/proc/<pid>/stat` says: its pid, state, parent, session, and start time in ticks since boot."""

    pid: int
    state: str
    parent: int
    session: int
    started: int


def become_reaper() -> None:
    """Make orphans among our descendants our children, where the system can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def can_look() -> bool:
    """Whether this system shows its processes, so that `sweep` finds what it has to find."""
    return sys.platform == "linux"


def entry(pid: int) -> Entry | None:
    """Return what is known of the process, or None if there is none."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    rest = text.rsplit(")", 1)[1].split()
    return Entry(pid, rest[0], int(rest[1]), int(rest[3]), int(rest[19]))


def everyone() -> Iterator[Entry]:
    """Yield every process of this machine that `/proc` shows."""
    if not can_look():
        return
    for folder in PROC.iterdir():
        if folder.name.isdigit() and (found := entry(int(folder.name))):
            yield found


def carries(pid: int, tag: str) -> bool:
    """Whether the process was started with this tag in its environment."""
    try:
        return f"{TAG}={tag}".encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def family(leader: int) -> frozenset[Entry]:
    """Return what lives below `leader`, whatever its group and environment, without the leader itself.

    Once the leader is dead, its orphans in the session that it led are our children: that too is a proof.
    """
    below: dict[int, list[Entry]] = {}
    for found in everyone():
        orphan = found.parent == os.getpid() and found.session == leader and found.pid != leader
        below.setdefault(leader if orphan else found.parent, []).append(found)
    pending, seen = [leader], set[Entry]()
    while pending:
        fresh = [child for child in below.get(pending.pop(), ()) if child not in seen]
        seen.update(fresh)
        pending += [child.pid for child in fresh]
    return frozenset(seen)


def sweep(tag: str, known: Collection[Entry] = ()) -> int:
    """Kill every process that carries `tag`, and those of `known` that still live; return how many."""
    started = {found.pid: found.started for found in known}

    def ours(found: Entry) -> bool:
        return started.get(found.pid) == found.started or carries(found.pid, tag)

    killed = 0
    for _ in range(_ROUNDS):
        victims = [
            found for found in everyone() if found.state != "Z" and found.pid != os.getpid() and ours(found)
        ]
        if not victims:
            break
        killed += sum(_kill(victim, ours) for victim in victims)
    return killed


def _kill(victim: Entry, ours: Callable[[Entry], bool]) -> bool:
    """Kill the process and wait for its death, if it is still the one that was meant."""
    try:
        pinned = os.pidfd_open(victim.pid)
    except (
        OSError
    ):  # it has ended, or pidfds are forbidden here: then the second look is all the care there can be
        return _kill_unpinned(victim, ours)
    try:
        if not _unchanged(victim, ours):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pinned, signal.SIGKILL)
        death = select.poll()
        death.register(pinned, select.POLLIN)
        death.poll(_DEATH_MS)
    finally:
        os.close(pinned)
    _reap(victim.pid)
    return True


def _kill_unpinned(victim: Entry, ours: Callable[[Entry], bool]) -> bool:
    if not _unchanged(victim, ours):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim.pid, signal.SIGKILL)
    _reap(victim.pid)
    return True


def _unchanged(victim: Entry, ours: Callable[[Entry], bool]) -> bool:
    now = entry(victim.pid)
    return now is not None and now.started == victim.started and ours(now)


def reap(spare: Collection[int]) -> None:
    """Bury orphans that became our children and died: those of other sessions, not the pids in `spare`."""
    own = os.getsid(0) if hasattr(os, "getsid") else 0
    for found in everyone():
        if (
            found.parent == os.getpid()
            and found.state == "Z"
            and found.session != own
            and found.pid not in spare
        ):
            _reap(found.pid)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # it was not our child, or somebody else waited for it
        os.waitpid(pid, os.WNOHANG)
