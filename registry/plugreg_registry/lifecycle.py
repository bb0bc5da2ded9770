"""What a registry does unasked: finish what a crash cut off, clear away what nobody will finish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import datetime

    from plugreg_registry.index import Index
    from plugreg_registry.ports import Sessions, Spool

JANITOR_SECONDS: Final = 300
"""Between two rounds of the janitor."""
CATCH_UP_SECONDS: Final = 5
"""Between two looks whether a record waits for the index that nobody else waits for."""
WARNING_SECONDS: Final = 3600
"""Between two looks for what an operator should know."""


@dataclass(frozen=True, slots=True)
class Janitor:
    """Clears sessions whose time is over, uploads without a session, and half-written objects."""

    sessions: Sessions
    spool: Spool
    index: Index
    sweep: Callable[[], int]
    now: Callable[[], datetime]

    def round(self) -> int:
        """Do one round, and return how many uploads and half-written objects were cleared."""
        self.index.drain()
        self.index.renew()
        return self.clear()

    def clear(self) -> int:
        """Only clear, and return how many uploads and half-written objects that were."""
        for session in self.sessions.expired(self.now()):
            self.sessions.remove(session)
        return self.sweep() + self._clear_uploads()

    def _clear_uploads(self) -> int:
        """Remove uploads without a session. Sessions are kept before uploads begin, so none is cut off."""
        orphans = [session for session in self.spool.sessions() if self.sessions.find(session) is None]
        for session in orphans:
            self.spool.remove(session)
        return len(orphans)


@dataclass(slots=True)
class WarningLog:
    """Says in the log what an operator should look at: once, and again when that has changed."""

    look: Callable[[], tuple[str, ...]]
    log: logging.Logger
    said: tuple[str, ...] = field(default=(), init=False)

    def say(self) -> None:
        """Look, and say what is new."""
        found = self.look()
        for word in found:
            if word not in self.said:
                self.log.warning("look at `%s`: /readyz shows it until it is settled", word)
        self.said = found
