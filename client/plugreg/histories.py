"""The histories that this machine has proved: what a registry loses or hides later is noticed and not lost.

<home>/histories/<registry>/<name>.json    registry, plugin, and every statement with its key

A history only grows. The statements prove themselves, so the files need no trust.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg.config import write_atomically
from plugreg.own_files import read_small
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import InvalidInput, NotAllowed
from plugreg_schemas.fields import DigestField, NameField, Open, RegistryIdField, read_model

if TYPE_CHECKING:
    from pathlib import Path


class SeenStatement(Open):
    """A statement as it was served: the text of its envelope, and for a key its public half (base64)."""

    digest: DigestField
    envelope: str
    public_key: str = ""


class SeenHistory(Open):
    """A plugin's history as this machine proved it, oldest statement first."""

    registry: RegistryIdField
    plugin: NameField
    statements: tuple[SeenStatement, ...]

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the statements, in order."""
        return tuple(statement.digest for statement in self.statements)


@dataclass(frozen=True, slots=True)
class Histories:
    """The folder in which they are kept."""

    folder: Path

    def seen(self, registry: str, name: str) -> SeenHistory | None:
        """Return what was seen of a plugin; None where nothing was, or where its file is damaged."""
        path = self._path(registry, name)
        try:
            seen = read_model(SeenHistory, read_small(path), code="history_damaged", file=path.name)
        except (OSError, InvalidInput):
            return None
        return seen if (seen.registry, seen.plugin) == (registry, name) else None

    def keep(self, seen: SeenHistory) -> None:
        """Keep what was seen. A home that takes nothing is no fault: then this machine notices less."""
        content = canonical_json(seen.model_dump(mode="json"))
        with suppress(OSError, NotAllowed):
            write_atomically(self._path(seen.registry, seen.plugin), content)

    def _path(self, registry: str, name: str) -> Path:
        return self.folder / hashlib.sha256(registry.encode()).hexdigest()[:32] / f"{name}.json"
