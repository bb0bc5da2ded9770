"""`plugreg check`: what the registry would say of a plugin, without a registry.

folder or bundle > formats.read > pack (a folder) or outline (a bundle) > acceptance.examine > Checked
"""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from plugreg.machine import this_platform
from plugreg.programs import COMES_WITH
from plugreg_schemas import acceptance, bundle, formats
from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Finding, InvalidInput, NotAvailable, Severity
from plugreg_schemas.names import quoted
from plugreg_schemas.platforms import runs_on
from plugreg_schemas.runtimes import Command
from plugreg_schemas.tree import DirectoryTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg_schemas.bundle import Packed
    from plugreg_schemas.manifest import Manifest, Reading
    from plugreg_schemas.names import Version


@dataclass(frozen=True, slots=True)
class Checked:
    """A plugin and everything that was found about it. `version` is None where it has no valid one."""

    reading: Reading
    version: Version | None
    findings: tuple[Finding, ...]
    packed: Packed | None

    @property
    def ok(self) -> bool:
        """Whether the plugin loads under its own format's rules."""
        return self.reading.ok

    @property
    def publishable(self) -> bool:
        """Whether a registry would take it."""
        return self.ok and not any(
            f.severity is Severity.ERROR and f.boundary in {Boundary.REGISTRY, Boundary.PLUGIN}
            for f in self.findings
        )

    @property
    def manifest(self) -> Manifest:
        """The manifest of a plugin that is `ok`."""
        if self.reading.manifest is None:
            raise AssertionError("asked for the manifest of a plugin that was rejected")
        return self.reading.manifest

    def as_dict(self) -> dict[str, object]:
        """Return what `plugreg check --json` prints."""
        manifest = self.reading.manifest
        components = manifest.components if manifest else ()
        return {
            "ok": self.ok,
            "publishable": self.publishable,
            "format": self.reading.format,
            "name": manifest.name if manifest else None,
            "version": str(self.version or (manifest.version if manifest else "")) or None,
            "components": [{"id": c.id, "runtimes": [r.runtime for r in c.runtimes]} for c in components],
            "servers": [{"name": s.name, "verdict": s.verdict} for s in self.reading.servers],
            "skills": [{"name": s.name, "verdict": s.verdict} for s in self.reading.skills],
            "findings": [finding.as_dict() for finding in self.findings],
        }


def check(path: Path, version: str | None = None) -> Checked:
    """Check the plugin in a folder or a bundle file; `version` is for a manifest that has none.

    Raises:
        NotAvailable: `path_not_found`.
        InvalidInput: `bundle_invalid` and the like: the file is not a bundle at all.
    """
    if path.is_dir():
        checked = _check_folder(path, version)
    elif path.is_file():
        checked = _check_bundle(path, version)
    else:
        raise NotAvailable("path_not_found", f"there is no folder or bundle `{path}`")
    manifest = checked.reading.manifest
    here = (*_missing_here(manifest), *_foreign_here(manifest)) if manifest else ()
    findings = dict.fromkeys((*checked.findings, *here))
    return replace(checked, findings=tuple(findings))


def _missing_here(manifest: Manifest) -> Iterator[Finding]:
    """Note the commands that this machine lacks: the plugin is right, and cannot be started here."""
    for launcher in manifest.launchers:
        if shutil.which(launcher) is None:
            brings = f"; it comes with {COMES_WITH[launcher]}" if launcher in COMES_WITH else ""
            message = f"the command {quoted(launcher)} was not found on this machine{brings}"
            yield Finding("launcher_missing", message, Severity.NOTE, Boundary.PROCESS)


def _foreign_here(manifest: Manifest) -> Iterator[Finding]:
    """Warn of native programs for other machines: on this one the author cannot try them."""
    here = this_platform()
    for component in manifest.components:
        file, *steps = formats.command_place(manifest, component.id)
        place = file, pointer_to(*steps)
        for runtime in component.runtimes:
            platforms = runtime.platforms if isinstance(runtime, Command) else ()
            if here and platforms and not runs_on(platforms, here):
                message = f"a command of {quoted(component.id)} runs on {', '.join(map(quoted, platforms))}"
                message += f", this machine is {quoted(here)}"
                yield Finding("platform_missing_here", message, Severity.WARNING, Boundary.PROCESS, *place)


def _check_folder(path: Path, version: str | None) -> Checked:
    """Pack the folder and judge what was packed: it is what the registry would see."""
    tree = DirectoryTree(path)
    reading = formats.read(tree)
    executables = acceptance.executables(reading.manifest) if reading.manifest else frozenset()
    try:
        packed = bundle.pack(tree, executables)
    except InvalidInput as error:
        accepted = acceptance.examine(reading, tree, version)
        findings = _once(*reading.findings, *_faults(error), *accepted.findings)
        return Checked(reading, accepted.version, findings, None)
    carried = bundle.outline(io.BytesIO(packed.content), bundle.DEFAULT_LIMITS, formats.is_wanted)
    seen = formats.read(carried)
    accepted = acceptance.examine(seen, carried, version, packed=True)
    lost = _lost(seen) if seen.manifest is None and reading.ok else ()
    return Checked(reading, accepted.version, _once(*reading.findings, *lost, *accepted.findings), packed)


def _lost(seen: Reading) -> Iterator[Finding]:
    """Say why a plugin that loads from its folder does not load from its bundle: links may be why."""
    for finding in seen.errors:
        message = f"a registry cannot read it from the bundle: {finding.message}"
        yield replace(finding, boundary=Boundary.REGISTRY, message=message)


def _once(*findings: Finding) -> tuple[Finding, ...]:
    """The reader and the registry's rules may report the same thing."""
    return tuple(dict.fromkeys(findings))


def _faults(error: InvalidInput) -> tuple[Finding, ...]:
    """Say that a registry would refuse what cannot even be packed."""
    findings = error.findings or (Finding(error.code, error.message),)
    return tuple(replace(finding, boundary=Boundary.REGISTRY) for finding in findings)


def _check_bundle(path: Path, version: str | None) -> Checked:
    with path.open("rb") as stream:
        tree = bundle.outline(stream, bundle.DEFAULT_LIMITS, formats.is_wanted)
    reading = formats.read(tree)
    accepted = acceptance.examine(reading, tree, version, packed=True)
    return Checked(reading, accepted.version, _once(*reading.findings, *accepted.findings), None)
