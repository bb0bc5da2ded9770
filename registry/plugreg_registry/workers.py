"""Several processes that serve together, and the parent that starts them, starts them again and ends them."""

from __future__ import annotations

import os
import signal
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from uvicorn.supervisors import Multiprocess

from plugreg_registry.draining import SIGNALS
from plugreg_registry.operation import METRICS_FOLDER

if TYPE_CHECKING:
    from socket import socket
    from types import FrameType

    from uvicorn import Config


def serve_together(config: Config, listening: socket) -> None:
    """Serve with as many processes as the configuration says, until a signal ends them."""
    with TemporaryDirectory(prefix="plugreg-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        _Parent(config, sockets=[listening]).run()


class _Parent(Multiprocess):
    """Ends its processes at once when it is told a second time."""

    def join_all(self) -> None:
        """Wait until all have ended."""
        for number in SIGNALS:
            signal.signal(number, self._told_again)
        super().join_all()

    def _told_again(self, _number: int, _frame: FrameType | None) -> None:
        for process in self.processes:
            process.process.kill()
