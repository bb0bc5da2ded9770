"""What is known of a plugin while it is converted, and what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Found:
    """A server as its source declares it, and the place of that declaration."""

    name: str
    value: Mapping[str, Any]
    file: str
    steps: tuple[str, ...]


@dataclass(slots=True)
class Draft:
    """A plugin in the making.

    `skills` are folders of the source, by the name that each has in the new plugin; `taken` are files that
    became something else and are not copied.
    """

    manifest: dict[str, Any] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    skills: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    losses: list[Finding] = field(default_factory=list)
    declares_skills: bool = False

    def lose(self, code: str, message: str, file: str, *steps: str | int) -> None:
        """Record that something did not come over."""
        self._record(code, message, Severity.WARNING, file, steps)

    def note(self, code: str, message: str, file: str, *steps: str | int) -> None:
        """Record that something came over in another form."""
        self._record(code, message, Severity.NOTE, file, steps)

    def _record(
        self, code: str, message: str, severity: Severity, file: str, steps: tuple[str | int, ...]
    ) -> None:
        finding = Finding(code, message, severity, Boundary.ENTRY, file, pointer_to(*steps))
        if finding not in self.losses:
            self.losses.append(finding)
