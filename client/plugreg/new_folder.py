"""A new folder that is there as a whole or not at all: a full disk or a killed command leaves no half."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg_schemas.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_folder(target: Path, *, hint: str) -> Iterator[Path]:
    """Yield an empty folder beside `target`; when the block ends well, what is in it becomes `target`.

    An empty folder that is there already, such as the working folder, stays the same folder.

    Raises:
        Conflict: `folder_not_empty`, with `hint`.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Conflict("folder_not_empty", f"`{target}` is there and is not empty", hint=hint)
    place = target.absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as scratch:
        staged = Path(scratch, "new")
        staged.mkdir()
        yield staged
        if not target.exists():
            staged.rename(place)
            return
        for entry in sorted(staged.iterdir()):
            entry.rename(place / entry.name)
