"""Running an operation that starts children: whatever ends it, none of them outlives it.

    a return, an exception      its children are closed in good order
    Ctrl-C, SIGTERM, SIGHUP     the operation is cancelled, its children are closed in good order
    Ctrl-C once more, the exit  its children are killed at once

Only a SIGKILL of this process can leave any.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from plugreg.process import running

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

_STOPPERS: Final = (signal.SIGTERM, signal.SIGHUP) if sys.platform != "win32" else ()


def kill_all() -> None:
    """Kill every child that is still running, at once."""
    for process in tuple(running):
        if process.tag.startswith(f"{os.getpid()}-"):  # a fork of this process has our list, not our duty
            process.kill_now()


atexit.register(kill_all)


def run_supervised(main: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run `main` on an event loop of its own; whatever ends it, no child outlives it.

    SIGTERM and SIGHUP cancel `main` as Ctrl-C does, so children end in good order, and then end this process
    with the exit code a shell expects (128 + signal).
    """
    told: list[int] = []
    before = {signum: signal.getsignal(signum) for signum in _STOPPERS} if _may_handle() else {}
    try:
        with asyncio.Runner() as runner:
            return runner.run(_until_told(main, told))
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        kill_all()
        for signum, handler in before.items():
            signal.signal(signum, handler)
    raise SystemExit(128 + told[0])


async def _until_told(main: Callable[[], Coroutine[object, object, T]], told: list[int]) -> T:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def stop(signum: int) -> None:
        told.append(signum)
        if task is not None:
            task.cancel()

    for signum in _STOPPERS if _may_handle() else ():
        if signal.getsignal(signum) is not signal.SIG_IGN:  # as `nohup` sets it
            loop.add_signal_handler(signum, stop, signum)
    try:
        return await main()
    finally:
        await asyncio.gather(*(process.close() for process in tuple(running) if process.loop is loop))


def _may_handle() -> bool:
    return threading.current_thread() is threading.main_thread()
