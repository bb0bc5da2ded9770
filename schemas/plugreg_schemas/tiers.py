"""How far a server may travel (ADR 0165), and who says so.

    tier A   stays on its machine: standard streams only, never HTTP, not through a tunnel either
    tier B   HTTP first, and the bridge over standard streams is kept for desktop hosts
    tier C   exceptions by host; what a host can do decides

    author    `"dev.plugreg": {"tier": "A"}` in the `extensions` of Agent Plugins; elsewhere `x-plugreg`
    operator  a policy file in TOML: `[tiers]`, then `name = "A"`; it wins

What a tier means for a host that asks is decided in `resolve`; here is what a registry says to a publisher.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Collector, Finding, InvalidInput, Severity
from plugreg_schemas.names import PluginName, quoted
from plugreg_schemas.runtimes import McpHttp, McpStdio
from plugreg_schemas.toml import parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from plugreg_schemas.manifest import Component, Tier

NAMESPACE: Final = "dev.plugreg"
"""Where an author speaks to registries in Agent Plugins: a member of `extensions`."""

KEY: Final = "x-plugreg"
"""Where an author speaks to registries in the other formats: a key beside the format's own."""

TIERS: Final[Mapping[str, Tier]] = {"A": "A", "B": "B", "C": "C"}

MAX_POLICY: Final = 1024 * 1024
"""Bytes of a policy file: about twenty thousand plugins."""


def declared_tier(
    declaration: object, file: str = "", *steps: str
) -> tuple[Tier | None, tuple[Finding, ...]]:
    """Return the tier in an author's declaration, and what is wrong with it.

    `declaration` is the value at `NAMESPACE` or `KEY`, None where there is none; `steps` lead to it in
    `file`. A faulty one never changes whether the plugin loads: the registry does not take it
    (`tier_invalid`).

    >>> declared_tier({"tier": "A"})
    ('A', ())
    """
    if declaration is None:
        return None, ()
    if not isinstance(declaration, dict):
        return None, (_faulty("the declaration for registries must be an object", file, *steps),)
    tier = declaration.get("tier")
    if tier is None or (isinstance(tier, str) and tier in TIERS):
        return TIERS.get(tier or ""), ()
    return None, (_faulty('`tier` must be "A", "B" or "C"', file, *steps, "tier"),)


def examine_tier(tier: Tier | None, components: Iterable[Component], file: str = "") -> tuple[Finding, ...]:
    """Judge whether what a plugin declares agrees with its tier, for a registry that is asked to publish it.

    Codes: `transport_forbidden` (error): tier A declares a server reached over HTTP;
    `bridge_missing` (warning): tier B has no server over standard streams.
    """
    if tier == "A":
        return tuple(
            Finding(
                "transport_forbidden",
                f"{quoted(component.id)} is reached over HTTP, tier A never is; remove it or declare tier B",
                boundary=Boundary.REGISTRY,
                file=file,
            )
            for component in components
            if any(isinstance(runtime, McpHttp) for runtime in component.runtimes)
        )
    declared = [runtime for component in components for runtime in component.runtimes]
    if tier == "B" and declared and not any(isinstance(runtime, McpStdio) for runtime in declared):
        message = (
            "tier B keeps a server over standard streams for desktop hosts, and there is none; add a bridge"
        )
        return (Finding("bridge_missing", message, Severity.WARNING, Boundary.REGISTRY, file),)
    return ()


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """What the operator says of plugins by name; where he is silent, the author's word holds."""

    tiers: Mapping[str, Tier] = field(default_factory=dict)

    def tier_of(self, name: str, declared: Tier | None) -> Tier | None:
        """Return the tier that holds for a plugin."""
        return self.tiers.get(name, declared)


def parse_tier_policy(content: bytes, file: str = "") -> TierPolicy:
    """Read a policy file.

    Raises:
        InvalidInput: `tier_policy_invalid`, with every fault in its findings.
    """
    faults = Collector("tier_policy_invalid", "the tier policy is not valid")
    table = _policy_table(content, file, faults)
    tiers: dict[str, Tier] = {}
    for name, tier in table.items():
        where = pointer_to("tiers", name)
        try:
            PluginName(name)
        except InvalidInput as error:
            faults.add("tier_policy_invalid", f"{error.message}; {error.hint}", file=file, pointer=where)
        if isinstance(tier, str) and tier in TIERS:
            tiers[name] = TIERS[tier]
        else:
            faults.add(
                "tier_policy_invalid",
                f'the tier of {quoted(name)} must be "A", "B" or "C"',
                file=file,
                pointer=where,
            )
    faults.raise_if_any(hint='write `[tiers]`, then lines such as `debugger = "A"`')
    return TierPolicy(tiers)


def _policy_table(content: bytes, file: str, faults: Collector) -> dict[str, object]:
    if len(content) > MAX_POLICY:
        faults.add("tier_policy_invalid", f"a tier policy is at most {MAX_POLICY} bytes", file=file)
        return {}
    try:
        document = parse_toml(content, file)
    except InvalidInput as error:
        for fault in error.findings:
            faults.add("tier_policy_invalid", fault.message, file=file, pointer=fault.pointer)
        return {}
    for key in sorted(document.keys() - {"tiers"}):
        faults.add(
            "tier_policy_invalid", f"{quoted(key)} is not known here", file=file, pointer=pointer_to(key)
        )
    table = document.get("tiers", {})
    if not isinstance(table, dict):
        faults.add("tier_policy_invalid", "`tiers` must be a table", file=file, pointer="/tiers")
        return {}
    return table


def _faulty(message: str, file: str, *steps: str) -> Finding:
    return Finding("tier_invalid", message, boundary=Boundary.REGISTRY, file=file, pointer=pointer_to(*steps))
