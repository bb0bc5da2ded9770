"""How a command may read an index: what a person decided, and what the settings say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

FirstUse = Literal["pin", "refuse"]
PATIENCE_S: Final = 60.0
"""Seconds to wait for another command that reads the same index."""


def silent(text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one command.

    `home` is our own folder. `first_use` says what to do with a registry whose root is not pinned.
    `accept_root` and `root_digest` are digests: the first is taken in place of another pinned root, the
    second is what a registry is added by. `offline`: nothing is asked of anyone. `allow_old_index`: an index
    without network may have any age. `say` is told what a person should know of an index.

    `locked_roots` are the roots by registry that a lock file names: the pinned root must belong to the same
    line. Where there is a lock file, an index may be as old as one without a network; None: there is none.
    """

    home: Path
    first_use: FirstUse = "pin"
    offline: bool = False
    allow_old_index: bool = False
    accept_root: str = ""
    root_digest: str = ""
    patience_s: float = PATIENCE_S
    say: Callable[[str], None] = silent
    locked_roots: Mapping[str, str] | None = None
