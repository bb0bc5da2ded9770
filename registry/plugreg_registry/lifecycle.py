"""What a registry does unasked: finish what a crash cut off, clear away what nobody will finish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from plugreg_registry.index import Index
    from plugreg_registry.ports import Sessions, Spool

JANITOR_SECONDS: Final = 300
"""Between two rounds of the janitor."""


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
        for session in self.sessions.expired(self.now()):
            self.sessions.remove(session)
        return self.sweep() + self._clear_uploads()

    def _clear_uploads(self) -> int:
        """Remove uploads without a session. Sessions are kept before uploads begin, so none is cut off."""
        orphans = [session for session in self.spool.sessions() if self.sessions.find(session) is None]
        for session in orphans:
            self.spool.remove(session)
        return len(orphans)
