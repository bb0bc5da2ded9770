"""Which bundles of a registry are copied: all of some plugins, or what wishes come to with its dependencies.

A selection names plugins with the versions that are wanted. Pure: documents come from a verified index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from plugreg_schemas.api import DocumentVersion, PluginDocument
from plugreg_schemas.errors import InvalidInput, NotAvailable
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import plugin_target
from plugreg_schemas.names import Digest, PluginName, Ref, Version, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugreg.index.whole import Whole

Selection = Mapping[PluginName, Sequence[DocumentVersion]]
Select = Callable[["Whole"], Selection]


def document_of(index: Whole, name: PluginName) -> PluginDocument:
    """Return the document of a plugin of an index.

    Raises:
        InvalidInput: `document_invalid`. PlugregError: as `Whole.target`.
    """
    path = plugin_target(name)
    return read_model(PluginDocument, index.target(path), code="document_invalid", file=path)


def of_names(names: Sequence[PluginName]) -> Select:
    """Select all versions of these plugins, or of all plugins for none. Raises as `of_refs`."""

    def select(index: Whole) -> Selection:
        _refuse_unknown(names, index)
        return {name: document_of(index, name).versions for name in dict.fromkeys(names) or index.plugins}

    return select


def of_refs(refs: Sequence[Ref], *, latest: bool) -> Select:
    """Select the versions that are wished for, or only the `latest` of each wish, and what they depend on.

    The function that is returned raises:
        NotAvailable: `plugin_not_found`, `version_not_found`.
    """

    def select(index: Whole) -> Selection:
        _refuse_unknown([ref.name for ref in refs], index)
        present = set(index.plugins)
        waiting = list(refs) or [Ref(name, VersionRange("")) for name in index.plugins]
        found: dict[PluginName, dict[str, DocumentVersion]] = {}
        done: set[Ref] = set()
        while waiting:
            ref = waiting.pop()
            if ref in done or ref.name not in present:  # who installs is told what is not there
                continue
            done.add(ref)
            fitting = _fitting(ref, document_of(index, ref.name).versions, latest=latest)
            if ref in refs and not fitting:
                raise _no_version(ref, index)
            for entry in fitting:
                if entry.version not in found.setdefault(ref.name, {}):
                    found[ref.name][entry.version] = entry
                    waiting += _needed(entry)
        return {name: tuple(rows.values()) for name, rows in sorted(found.items())}

    return select


def of_present(has: Callable[[Digest], bool]) -> Select:
    """Select the versions whose bundles are there."""

    def select(index: Whole) -> Selection:
        rows = {
            name: [entry for entry in document_of(index, name).versions if has(Digest(entry.digest))]
            for name in index.plugins
        }
        return {name: entries for name, entries in rows.items() if entries}

    return select


def _fitting(ref: Ref, entries: Sequence[DocumentVersion], *, latest: bool) -> Sequence[DocumentVersion]:
    if latest:
        withdrawn = {entry.version for entry in entries if entry.yanked}
        best = ref.range.choose((entry.version for entry in entries), withdrawn)
        return [entry for entry in entries if best is not None and entry.version == best.text]
    everything = not ref.range.text
    return [entry for entry in entries if ref.range.matches(Version(entry.version), prereleases=everything)]


def _needed(entry: DocumentVersion) -> Iterable[Ref]:
    for requirement in entry.requires:
        try:
            yield Ref(PluginName(requirement.name), VersionRange(requirement.range))
        except InvalidInput:  # nothing can be installed for it
            continue


def _refuse_unknown(names: Sequence[PluginName], index: Whole) -> None:
    unknown = sorted(set(names) - set(index.plugins))
    if unknown:
        raise NotAvailable(
            "plugin_not_found",
            f"`{unknown[0]}` is not in the registry {index.where}",
            hint="look at the spelling of the name",
        )


def _no_version(ref: Ref, index: Whole) -> NotAvailable:
    return NotAvailable(
        "version_not_found",
        f"`{ref.name}` has no version in `{ref.range}` in the registry {index.where}",
        hint=f"`plugreg info {ref.name}` shows all versions",
    )
