"""The normal form: what every manifest format is read into.

    Reading                      what `formats.read` returns, never an exception
      manifest  Manifest | None    None: the plugin as a whole is rejected
      servers, skills              one verdict for each that was found, loaded or skipped
      findings                     everything noticed, with its failure boundary

    Manifest                     one plugin
      components  Component*       each is run on its own; its runtimes are alternatives, one is chosen
      skills      Skill*           files for the model, nothing is run

Nothing above `formats/` knows which format a manifest came from, except to show it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from plugreg_schemas.errors import Boundary, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.errors import Finding
    from plugreg_schemas.runtimes import Runtime

Format = Literal["agent-plugins", "dagstack", "keel"]

Tier = Literal["A", "B", "C"]
"""How far a server may travel (ADR 0165): A stays on its machine, B is HTTP first, C differs by host."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Another plugin that must be there first; `kind` and `range` are "" where any will do."""

    name: str
    kind: str = ""
    range: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """Something that runs. `runtimes` are alternatives in the author's order: a host uses exactly one."""

    id: str
    runtimes: tuple[Runtime, ...]


@dataclass(frozen=True, slots=True)
class Skill:
    """An Agent Skill: `path` is its folder inside the plugin."""

    name: str
    path: str
    description: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One plugin, whatever format declared it. `version` is the text as written, "" where there is none."""

    format: Format
    name: str
    version: str = ""
    description: str = ""
    license: str = ""
    homepage: str = ""
    repository: str = ""
    authors: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()
    skills: tuple[Skill, ...] = ()
    tools: tuple[str, ...] = ()
    """The names of tools, where its format lists them."""
    capability_kind: str = ""
    """What the plugin is for (`tool`, `orchestrator`, ...), where its format says so."""
    runtime_kind: str = ""
    """The one kind of thing that it is (`sidecar`, `webview`, ...), where its format allows only one."""
    core_version: str = ""
    """The versions of the host's core that it works with, as written."""
    requires: tuple[Requirement, ...] = ()
    tier: Tier | None = None
    platforms: tuple[str, ...] = ()
    """Where its commands run (`linux-x86_64`, `macos-arm64`, ...); empty: anywhere.

    The platforms of all commands together, where every command is a native program of the plugin. As soon as
    one is a script, or is looked for on the machine, something of the plugin may run anywhere, and this is
    empty. It is a summary: a host decides by the `platforms` of each command.
    """
    file: str = ""
    """The file that states all this, "" where the format has only one."""
    at: tuple[str, ...] = ()
    """The steps inside that file which lead to the fields."""
    details: Mapping[str, object] = field(default_factory=dict)
    """Every field of its format with its default, for hosts of that format: plugreg decides nothing by it."""

    @property
    def launchers(self) -> tuple[str, ...]:
        """The bare commands (`npx`, `uvx`, ...) that must be found on the machine, sorted."""
        found = {
            launcher
            for component in self.components
            for runtime in component.runtimes
            if (launcher := getattr(runtime, "launcher", None))
        }
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one entry of a plugin loads under its own format's rules."""

    name: str
    verdict: Literal["load", "skip"]


@dataclass(frozen=True, slots=True)
class Reading:
    """All that was learned from reading a plugin."""

    format: Format | None
    manifest: Manifest | None
    servers: tuple[Verdict, ...] = ()
    skills: tuple[Verdict, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the plugin loads under its own format's rules."""
        return self.manifest is not None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that reject the plugin as a whole."""
        return tuple(
            f for f in self.findings if f.severity is Severity.ERROR and f.boundary is Boundary.PLUGIN
        )
