"""In which order plugins that depend on each other are started, and why some cannot be.

    order(manifests)      every dependency before what needs it
    unmet(one, others)    the requirements of one plugin that others do not meet

A requirement names a plugin, perhaps its kind and a range of versions. The order is that of the requirements
and otherwise the one given, so the same plugins always come out alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from plugreg_schemas.errors import Collector, InvalidInput, ResolutionError
from plugreg_schemas.names import Version, VersionRange, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from plugreg_schemas.manifest import Manifest, Requirement


@dataclass(frozen=True, slots=True)
class Unmet:
    """A requirement that nothing meets: no such plugin is there, or only another version of it."""

    plugin: str
    requirement: Requirement
    code: Literal["missing_dependency", "dependency_version"]
    found: str = ""
    """The version that is there, where it is another one."""

    @property
    def message(self) -> str:
        """The sentence for people."""
        wanted = self.requirement
        kind = f" of the kind {quoted(wanted.kind)}" if wanted.kind else ""
        start = f"{quoted(self.plugin)} depends on {quoted(wanted.name)}{kind}"
        if self.code == "missing_dependency":
            return f"{start}, which is not there"
        there = quoted(self.found) if self.found else "without a version"
        return f"{start} {quoted(wanted.range)}, what is there is {there}"


def order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the plugins with every dependency before what needs it, otherwise in the order given.

    Raises:
        ResolutionError: `missing_dependency`, `dependency_version` (one finding for each), else
            `dependency_cycle`; `details` has `missing` or `cycle`.

    >>> from plugreg_schemas.manifest import Manifest, Requirement
    >>> top = Manifest("dagstack", "top", requires=(Requirement("root"),))
    >>> [manifest.name for manifest in order([top, Manifest("dagstack", "root")])]
    ['root', 'top']
    """
    given = list(manifests)
    _refuse_unmet(given)
    by_name: dict[str, list[int]] = {}
    for place, manifest in enumerate(given):
        by_name.setdefault(manifest.name, []).append(place)
    needs = [list(_needed(manifest, given, by_name)) for manifest in given]
    return [given[place] for place in _sorted(needs, given)]


def unmet(manifest: Manifest, others: Iterable[Manifest]) -> list[Unmet]:
    """Return the requirements of a plugin that none of `others` meets, in the order declared."""
    by_name: dict[str, list[Manifest]] = {}
    for other in others:
        by_name.setdefault(other.name, []).append(other)
    return list(_unmet(manifest, by_name))


def meets(manifest: Manifest, wanted: Requirement) -> bool:
    """Whether a plugin is what a requirement asks for: its name, its kind and its version."""
    return _is_called(manifest, wanted) and _in_range(manifest.version, wanted.range)


def _unmet(manifest: Manifest, by_name: Mapping[str, Sequence[Manifest]]) -> Iterator[Unmet]:
    for wanted in manifest.requires:
        called = [other for other in by_name.get(wanted.name, ()) if _is_called(other, wanted)]
        if not called:
            yield Unmet(manifest.name, wanted, "missing_dependency")
        elif not any(meets(other, wanted) for other in called):
            yield Unmet(manifest.name, wanted, "dependency_version", called[0].version)


def _refuse_unmet(given: Sequence[Manifest]) -> None:
    by_name: dict[str, list[Manifest]] = {}
    for manifest in given:
        by_name.setdefault(manifest.name, []).append(manifest)
    faults = Collector("missing_dependency", "dependencies are missing")
    missing = [lack for manifest in given for lack in _unmet(manifest, by_name)]
    if not missing:
        return
    for lack in missing:
        faults.add(lack.code, lack.message)
    raise ResolutionError(
        missing[0].code,
        missing[0].message if len(missing) == 1 else f"{len(missing)} dependencies are not met",
        hint="add the plugins that are missing, in versions that are asked for",
        findings=faults.findings,
        details={"missing": [{"plugin": lack.plugin, "missing": lack.requirement.name} for lack in missing]},
    )


def _needed(
    manifest: Manifest, given: Sequence[Manifest], by_name: Mapping[str, Sequence[int]]
) -> Iterator[int]:
    for wanted in manifest.requires:
        yield from (place for place in by_name[wanted.name] if meets(given[place], wanted))


def _sorted(needs: Sequence[Sequence[int]], given: Sequence[Manifest]) -> list[int]:
    """Return the places depth first, without recursion: a chain may be longer than Python's stack.

    Raises:
        ResolutionError: `dependency_cycle`.
    """
    done: dict[int, None] = {}
    for start in range(len(needs)):
        path: dict[int, Iterator[int]] = {} if start in done else {start: iter(needs[start])}
        while path:
            place = next(reversed(path))
            below = next((other for other in path[place] if other not in done), None)
            if below is None:
                done[place] = None
                del path[place]
            elif below in path:
                raise _cycle([given[other].name for other in [*path][[*path].index(below) :]])
            else:
                path[below] = iter(needs[below])
    return list(done)


def _cycle(cycle: list[str]) -> ResolutionError:
    return ResolutionError(
        "dependency_cycle",
        f"plugins depend on each other: {' -> '.join(map(quoted, [*cycle, cycle[0]]))}",
        hint="remove one of these dependencies",
        details={"cycle": cycle},
    )


def _is_called(manifest: Manifest, wanted: Requirement) -> bool:
    return manifest.name == wanted.name and wanted.kind in {"", manifest.capability_kind}


def _in_range(version: str, text: str) -> bool:
    """Whether a version, as written, lies in a range; one that cannot be ordered lies in none."""
    if not text:
        return True
    try:
        return VersionRange(text).matches(Version(version))
    except InvalidInput:
        return False
