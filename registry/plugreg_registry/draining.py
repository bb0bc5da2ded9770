"""How a process ends when it is told to: nobody's request is cut off, and nobody new is sent here.

    SIGTERM > `/readyz` says `draining` > so many seconds > no new connections > what is under way is finished

The seconds are what a load balancer needs to see it. A second signal ends the process at once; what that
leaves behind is what a crash leaves behind. Supervisors tell the processes of a registry apart from their
parent, which tells them again: what comes within a second is the same signal.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.errors import Temporary

if TYPE_CHECKING:
    from types import FrameType

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
FINISH_SECONDS: Final = 20
"""How long requests may go on when nobody new is let in: longer than a commit waits for the index."""
SAME_SECONDS: Final = 1.0
"""Two signals within this time are one."""


def end_quietly() -> None:
    """Let a SIGTERM that the server has obeyed end the process with exit code 0."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)


@dataclass(slots=True)
class Draining:
    """Whether this process is about to end."""

    seconds: int = 0
    """How long it goes on to listen."""
    _began: float | None = field(default=None, init=False)

    def check(self) -> None:
        """Return if requests may be sent here.

        Raises:
            Temporary: `draining`.
        """
        if self._began is not None:
            raise Temporary("draining", "this process is about to end", hint="ask another one, or later")

    def listen(self) -> None:
        """Stand between the signals and the server, whose own handlers are called when it is time.

        It is called when the server has set its handlers. Outside the main thread there are none.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            self._stand_before(number, signal.getsignal(number))

    def _stand_before(self, number: int, server: Any) -> None:  # noqa: ANN401 - what `getsignal` returns
        if not callable(server):
            return

        def told(number: int, frame: FrameType | None) -> None:
            now = time.monotonic()
            if self._began is None:
                self._began = now
                if not self.seconds:
                    server(number, frame)
                    return
                later = threading.Timer(self.seconds, server, (number, None))
                later.daemon = True
                later.start()
            elif now - self._began > SAME_SECONDS:
                os._exit(128 + number)  # at once: what runs may not go on

        signal.signal(number, told)
