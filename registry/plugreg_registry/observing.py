"""Steps: what is worth to be counted, timed and traced. Whoever observes is told, and nobody is needed.

    with step("index.group", plugins=3):      @step("publish.commit")      with step("purge") as purge:
        ...                                   def commit(self): ...            purge.outcome = "unreachable"

A step's outcome is `ok`, or the code of the error that ended it. Its facts are numbers and words without
secrets, and without names of plugins or people: somebody keeps every value that they ever had.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import PlugregError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

OK: Final = "ok"
FAILED: Final = "internal_error"
"""What ended it was none of our errors."""
REQUEST: Final = "request"
"""The step of one request to the API, with the facts `method`, `route` and `status`."""

OTHER: Final = "other"
"""The route of a request that none of the routes took."""
CURRENT_REQUEST: Final[ContextVar[str]] = ContextVar("current_request", default="")
"""The id of the request that is being answered, for the log."""


READS: Final[defaultdict[tuple[str, int], int]] = defaultdict(int)
"""Answers of the read plane so far, by the first letter of their path and their status.

They are no steps: they are many, and counting one has to cost next to nothing. One thread counts.
"""


@dataclass(slots=True)
class Step:
    """One step that is being taken."""

    name: str
    facts: dict[str, str | int] = field(default_factory=dict)
    outcome: str = OK
    caller: str = ""
    """The `traceparent` that came along with a request."""


_OBSERVERS: Final[list[Callable[[Step], AbstractContextManager[None]]]] = []


def observe(observer: Callable[[Step], AbstractContextManager[None]]) -> None:
    """Let `observer` surround every step of this process from now on; once, however often it is asked to."""
    if observer not in _OBSERVERS:
        _OBSERVERS.append(observer)


@contextmanager
def step(name: str, caller: str = "", **facts: str | int) -> Iterator[Step]:
    """Take a step."""
    taken = Step(name, facts, caller=caller)
    with ExitStack() as observed:
        for observer in _OBSERVERS:
            observed.enter_context(observer(taken))
        try:
            yield taken
        except PlugregError as error:
            taken.outcome = error.code
            raise
        except Exception:
            taken.outcome = FAILED
            raise
