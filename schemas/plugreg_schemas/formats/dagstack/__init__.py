"""The reader of dagstack manifests: one plugin, one component `main`, its runtimes are alternatives.

    locating      which file, and where in it      Source
    report        the fields, each by itself       Fields, or the faults of each
    rules         the fields together
    alternatives  what each runtime declares       InProcess, McpStdio, McpHttp

Every fault is reported at once and rejects the plugin, for a dagstack plugin has no smaller part; only
what a host could still run and no registry should hand on has the boundary `registry`. Nothing is imported,
started or fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.errors import Collector
from plugreg_schemas.formats.dagstack import alternatives, rules
from plugreg_schemas.formats.dagstack.entry_points import language_of
from plugreg_schemas.formats.dagstack.fields import split_extensions
from plugreg_schemas.formats.dagstack.folders import nested
from plugreg_schemas.formats.dagstack.hookspecs import KINDS
from plugreg_schemas.formats.dagstack.locating import FILES, locate_manifest
from plugreg_schemas.formats.dagstack.report import Report, checked
from plugreg_schemas.formats.files import collected
from plugreg_schemas.manifest import Component, Manifest, Reading, Requirement
from plugreg_schemas.tiers import KEY, declared_tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.formats.dagstack.fields import Fields
    from plugreg_schemas.formats.dagstack.hookspecs import Hookspec
    from plugreg_schemas.formats.dagstack.locating import Source
    from plugreg_schemas.manifest import Tier
    from plugreg_schemas.runtimes import Runtime
    from plugreg_schemas.tree import Tree

FILE: Final = FILES[0]
MAIN: Final = "main"
"""The id of the one component."""
LANGUAGE: Final = "x-language"
"""Where an author states the language of the plugin's code."""


def read(tree: Tree, kinds: Mapping[str, Hookspec] = KINDS) -> Reading:
    """Read the plugin; `kinds` are those whose rules are known."""
    faults = Collector("manifest_invalid", "the manifest is not valid")
    source = locate_manifest(tree, faults)
    if source is None:
        return Reading("dagstack", None, findings=collected(faults, FILE))
    report = Report(source.file, source.steps, faults, refused=faults.failed)
    plain, own = split_extensions(source.fields)
    fields = checked(plain, report)
    language = language_of(fields.entry_point, _stated_language(own, report))
    runtimes = alternatives.read_runtimes(fields, language, tree, report)
    rules.examine(fields, kinds, report)
    tier, tier_faults = declared_tier(own.get(KEY), source.file, *source.steps, KEY)
    faults.extend((*tier_faults, *nested(tree, source.file)))
    if report.refused:
        return Reading("dagstack", None, findings=collected(faults, source.file))
    manifest = _manifest(fields, source, details=_details(fields, own), runtimes=runtimes, tier=tier)
    return Reading("dagstack", manifest, findings=collected(faults, source.file))


def _manifest(
    fields: Fields,
    source: Source,
    *,
    details: Mapping[str, Any],
    runtimes: tuple[Runtime, ...],
    tier: Tier | None,
) -> Manifest:
    maintainer = (fields.maintainer,) if fields.maintainer else ()
    return Manifest(
        "dagstack",
        fields.name,
        version=fields.version or "",
        description=fields.description or "",
        license=fields.license or "",
        homepage=fields.homepage or "",
        authors=tuple(dict.fromkeys((*fields.authors, *maintainer))),
        components=(Component(MAIN, runtimes),),
        capability_kind=fields.kind,
        core_version=fields.core_version,
        requires=tuple(Requirement(d.name, d.kind or "", d.version or "") for d in fields.depends_on),
        tier=tier,
        file=source.file,
        at=source.steps,
        details=details,
    )


def _details(fields: Fields, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return every field with its default, in plain values, and the author's own where he wrote them."""
    details = fields.model_dump(mode="json") | {"kind_api_version": fields.kind_api_version or "1"}
    for key, value in own.items():
        details[key] = value if key.startswith("x-") else details[key] | value
    return details


def _stated_language(own: Mapping[str, Any], report: Report) -> str | None:
    stated = own.get(LANGUAGE)
    if stated is None or (isinstance(stated, str) and stated.strip()):
        return stated
    report.refuse(f"`{LANGUAGE}` must be the name of a language", LANGUAGE)
    report.unknown.add("entry_point")
    return None
