"""Whether an uploaded file is the plugin that its statement speaks of, and one that the registry takes.

    bundle, proved while read > manifest > does it agree with the statement? > what the registry demands

Bytes in, facts out; nothing is unpacked and only manifests are kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Final

from plugreg_registry.records import Facts
from plugreg_schemas import acceptance, formats
from plugreg_schemas.alternatives import Alternative
from plugreg_schemas.api import Counts, DocumentComponent, ProblemItem
from plugreg_schemas.bundle import outline
from plugreg_schemas.errors import MAX_FINDINGS, IntegrityError, InvalidInput, Severity, TooLarge
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugreg_schemas.bundle import Limits
    from plugreg_schemas.errors import Finding
    from plugreg_schemas.manifest import Component, Manifest, Tier
    from plugreg_schemas.statement import Publish
    from plugreg_schemas.tiers import TierPolicy

MAX_FACTS: Final = 64 << 10
"""Bytes that one version may take in the plugin document, which every client of the plugin reads whole."""
MAX_DESCRIPTION: Final = 500


@dataclass(frozen=True, slots=True)
class Examined:
    """What the plugin document repeats of the manifest, and what the author should know."""

    facts: Facts
    notes: tuple[ProblemItem, ...]


def examine(bundle: BinaryIO, limits: Limits, said: Publish, tiers: TierPolicy) -> Examined:
    """Examine a bundle, which is read once from where it stands.

    It is judged by the tier that `tiers` gives it; its facts keep the one that its author declared.

    Raises:
        InvalidInput: `not_publishable` or the one code of all faults; `findings` has them all.
        TooLarge: over one of `limits`; `manifest_too_large`.
        IntegrityError: `statement_mismatch`: it is another plugin, version or format than was signed.
    """
    tree = outline(bundle, limits, formats.is_wanted)
    reading = formats.read(tree)
    if reading.manifest is None:
        raise _refused(reading.errors, reading.findings)
    _check_agreement(reading.manifest, said)
    tier = tiers.tier_of(said.plugin, reading.manifest.tier)
    judged = replace(reading, manifest=replace(reading.manifest, tier=tier))
    accepted = acceptance.examine(judged, tree, _version_beside(reading.manifest, said), packed=True)
    if not accepted.publishable:
        faults = [f for f in accepted.findings if f.severity is Severity.ERROR]
        raise _refused(faults, (*accepted.findings, *reading.findings), _why(faults, tier, reading.manifest))
    notes = (*reading.findings, *accepted.findings)[:MAX_FINDINGS]
    return Examined(_facts(reading.manifest), tuple(ProblemItem(**f.as_dict()) for f in notes))


def _version_beside(manifest: Manifest, said: Publish) -> str | None:
    """Return the statement's version where the manifest has none: then the statement gives it."""
    return None if manifest.version else said.version


def _check_agreement(manifest: Manifest, said: Publish) -> None:
    pairs = {
        "name": (manifest.name, said.plugin),
        "version": (manifest.version or said.version, said.version),
        "format": (manifest.format, said.format),
    }
    wrong = [
        f"the {what} in the bundle is {quoted(found)}, signed is {quoted(signed)}"
        for what, (found, signed) in pairs.items()
        if found != signed
    ]
    if wrong:
        raise IntegrityError(
            "statement_mismatch",
            f"the bundle is not what its statement says: {'; '.join(wrong)}",
            hint="publish the folder again, so that the statement is made from it",
        )


def _facts(manifest: Manifest) -> Facts:
    facts = Facts(
        description=manifest.description[:MAX_DESCRIPTION],
        components=tuple(
            DocumentComponent(
                id=component.id,
                runtimes=tuple(r.runtime for r in component.runtimes),
                alternatives=_alternatives(component),
            )
            for component in manifest.components
        ),
        launchers=manifest.launchers,
        counts=Counts(skills=len(manifest.skills), servers=len(manifest.components)),
        skills=tuple(skill.name for skill in manifest.skills),
        tools=manifest.tools,
        tier=manifest.tier,
        core_version=manifest.core_version,
        capability_kind=manifest.capability_kind,
        runtime_kind=manifest.runtime_kind,
        platforms=manifest.platforms,
        requires=manifest.requires,
    )
    size = len(facts.model_dump_json(exclude_defaults=True).encode())
    if size > MAX_FACTS:
        raise TooLarge(
            "manifest_too_large",
            f"servers, skills and commands take {size} bytes in the plugin document, "
            f"at most {MAX_FACTS} are allowed",
        )
    return facts


def _alternatives(component: Component) -> tuple[Alternative, ...]:
    """Return what a host chooses by; nothing where the names of the runtimes say it all.

    The language of a component that can be loaded is said once, where it is loaded: it is that of the rest.
    """
    found = tuple(map(Alternative.of, component.runtimes))
    loaded = {a.language for a in found if a.runtime == "in_process"}
    if {a.language for a in found if a.language} == loaded:
        found = tuple(a if a.runtime == "in_process" else replace(a, language="") for a in found)
    return found if any(a != Alternative(a.runtime) for a in found) else ()


def _why(faults: Iterable[Finding], tier: Tier | None, manifest: Manifest) -> str:
    """Return a hint for an author who is refused because of the tier that the operator gives."""
    if tier == manifest.tier or not any(fault.code == "transport_forbidden" for fault in faults):
        return ""
    return f"the policy of this registry gives {quoted(manifest.name)} the tier {tier}"


def _refused(faults: Iterable[Finding], all_findings: Iterable[Finding], hint: str = "") -> InvalidInput:
    faults = tuple(faults)
    codes = {fault.code for fault in faults}
    code = codes.pop() if len(codes) == 1 else "not_publishable"
    reason = f": {faults[0].message}" if len(faults) == 1 else ""
    ordered = dict.fromkeys((*faults, *all_findings))
    return InvalidInput(
        code,
        f"the registry does not take this plugin{reason}",
        hint=hint or "`plugreg check --publish` shows this before you publish",
        findings=tuple(ordered)[:MAX_FINDINGS],
    )
