"""Carry a registry to machines without a network: `plugreg export` and `plugreg import`.

export   registry > a mirror in a folder that is removed again > one file
import   file > checked from end to end > a mirror in a folder, which is a registry for `file://`

An import is the mirror of an export: everything is verified before it is written, and until the timestamp is
there, readers see the import before. Nothing older than what this machine has verified is accepted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plugreg import export_file
from plugreg.index.folder import IndexFolder
from plugreg.index.terms import silent
from plugreg.mirror import Mirrored, mirror
from plugreg.plugins_root.durability import (
    FILE_MODE,
    PRIVATE_MODE,
    disk_faults,
    make_folder,
    move,
    sync_folder,
)
from plugreg.reader import Reader, no_progress
from plugreg.selection import of_present
from plugreg_schemas.api import Locations
from plugreg_schemas.errors import InvalidInput, NotAvailable, PlugregError

if TYPE_CHECKING:
    from plugreg.reader import Progress
    from plugreg.selection import Select
    from plugreg_schemas.names import Digest

Connect = Callable[[str, Callable[[str], None]], Reader]
"""Gives the registry at a URL as this machine trusts it, and whom it tells what a person should know."""
FOLDER: Final = "mirrors"
"""The folder below the home where imports lie."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The file that was made, and how many plugins it has."""

    path: Path
    plugins: int
    size: int

    def as_dict(self) -> dict[str, Any]:
        """Return the result of `export --json`."""
        return {"path": str(self.path), "plugins": self.plugins, "size": self.size}


def export(
    file: Path,
    select: Select,
    registry: Reader,
    *,
    say: Callable[[str], None] = silent,
    progress: Progress = no_progress,
) -> Exported:
    """Write what `select` chooses of a registry into one file, which is there whole or as it was before.

    Raises:
        InvalidInput: `not_a_file`. NoSpace: `disk_full`; PlugregError: as `mirror`.
    """
    file = file.absolute()
    if file.is_dir():
        raise InvalidInput("not_a_file", f"{file} is a folder", hint="name the file that is to be made")
    with (
        disk_faults(file.parent, "another place for the file"),
        tempfile.TemporaryDirectory(prefix=".plugreg-export-", dir=file.parent) as work,
    ):
        folder, new = Path(work) / "mirror", Path(work) / "new"
        done = mirror(folder, (), registry, select=select, say=say, progress=progress)
        with new.open("wb") as target:
            size = export_file.write(folder, target)
        new.chmod(FILE_MODE)
        move(new, file)
        sync_folder(file.parent)
    return Exported(file, done.plugins, size)


def bring_in(
    file: Path,
    folder: Path | None,
    home: Path,
    connect: Connect,
    *,
    say: Callable[[str], None] = silent,
    progress: Progress = no_progress,
) -> tuple[Mirrored, Reader]:
    """Put an export into a folder, or into that of its registry below `home`; return it as a registry.

    Raises:
        InvalidInput: `not_an_export`. IntegrityError: `export_damaged`, `index_rolled_back`.
        NotAvailable: `file_not_readable`. NoSpace: `disk_full`. PlugregError: as `mirror`.
    """
    file = file.absolute()
    places = _checked(file)
    source = connect(file.as_uri(), say)
    try:
        registry = source.discovery.registry.id
    except NotAvailable as error:
        raise InvalidInput("not_an_export", f"{file}: {error.message}", hint=error.hint) from None
    folder = (folder or home / FOLDER / IndexFolder.of(home, registry).path.name).absolute()

    def has(digest: Digest) -> bool:
        return Locations().blob.replace("{hex}", digest.hex) in places

    with disk_faults(folder, "another folder"):
        home.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
        make_folder(folder)
        _see(folder, registry, connect)
        done = mirror(folder, (), source, select=of_present(has), say=say, progress=progress)
    return done, connect(folder.as_uri(), say)


def _checked(file: Path) -> export_file.Places:
    try:
        return export_file.check(file)
    except OSError as error:
        raise NotAvailable(
            "file_not_readable",
            f"{file} cannot be read: {error.strerror or error}",
            hint="is the name right?",
        ) from None


def _see(folder: Path, registry: str, connect: Connect) -> None:
    """Verify what the folder has by now, so that nothing older is accepted into it."""
    with suppress(PlugregError):  # what is damaged is replaced
        present = connect(folder.as_uri(), silent)
        if present.discovery.registry.id == registry:
            present.verify_index()
