"""Everything that a command comes to: the plugins it names, and what they depend on, all chosen and proved.

    wishes > choices > what each depends on > what is installed already, or choices > ... > Closure

A plugin is chosen in a version that all who need it can use. Where a requirement comes up after its plugin
was chosen, everything is looked at again with what is known by then; requirements are only ever added, so
this ends. There is no search: a plugin is never taken in an older version so that what it depends on fits.

What an installed plugin says is read from its files. What a registry's document says is compared with the
signed manifest when the bundle is there (`delivery`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from plugreg.choosing import choose, known
from plugreg.inventory import declared, others
from plugreg_schemas.dependencies import meets, order
from plugreg_schemas.errors import (
    Collector,
    InvalidInput,
    PlugregError,
    ResolutionError,
    TooLarge,
)
from plugreg_schemas.manifest import Manifest
from plugreg_schemas.names import PluginName, VersionRange, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from plugreg.choosing import Choice
    from plugreg.pinning import Options, Wish
    from plugreg.plugins_root import PluginsRoot
    from plugreg.sources import Registry
    from plugreg_schemas.manifest import Requirement

MAX_PLUGINS: Final = 500
"""Plugins of one command with all that they depend on, so that a registry cannot fill the disk with them."""
MAX_ROUNDS: Final = 50
"""Looks at the whole. Two are usual, more are needed where a requirement changes a choice made before."""

MISSING: Final = "missing_dependency"
UNFIT: Final = "dependency_version"
_NOWHERE: Final = frozenset({"plugin_not_found", "no_registry", "name_invalid", "name_reserved"})
"""Refusals which mean that there is no such plugin."""

_NO_VERSION: Final = VersionRange("<0.0.0-0")


@dataclass(frozen=True, slots=True)
class Lack:
    """A requirement of `by` that nothing meets; `found` says what there is instead, if anything."""

    by: str
    need: Requirement
    code: str
    found: str = ""

    @property
    def message(self) -> str:
        """The sentence for people."""
        kind = f" of the kind {quoted(self.need.kind)}" if self.need.kind else ""
        wanted = f"{quoted(self.need.name)}{' ' + quoted(self.need.range) if self.need.range else ''}{kind}"
        start = f"{quoted(self.by)} depends on {wanted}"
        if self.code == MISSING:
            return f"{start}, which is neither installed nor in any known registry"
        return f"{start}, and {self.found or 'no version that there is can be used'}"


@dataclass(frozen=True, slots=True)
class Closure:
    """`plugins` are all that are there or can be, those named first; `choices` what was chosen."""

    plugins: tuple[Manifest, ...]
    choices: Mapping[str, Choice]
    lacks: tuple[Lack, ...] = ()
    notes: tuple[str, ...] = ()

    def require(self) -> None:
        """Raise unless every requirement is met.

        Raises:
            ResolutionError: `missing_dependency`, `dependency_version`, with a finding for each.
        """
        if not self.lacks:
            return
        faults = Collector(self.lacks[0].code, "dependencies are not met")
        for lack in self.lacks:
            faults.add(lack.code, lack.message)
        only = len(self.lacks) == 1
        raise ResolutionError(
            self.lacks[0].code,
            self.lacks[0].message if only else f"{len(self.lacks)} dependencies are not met",
            hint="`plugreg deps NAME` shows what a plugin depends on; perhaps another version of it fits",
            findings=faults.findings,
            details={"missing": [{"plugin": lack.by, "missing": lack.need.name} for lack in self.lacks]},
        )

    def order(self) -> list[str]:
        """Return the names, every dependency before what needs it; what is not met counts for nothing.

        Raises:
            ResolutionError: `dependency_cycle`, with its chain.
        """
        unmet = {(lack.by, lack.need) for lack in self.lacks}
        sound = [
            replace(plugin, requires=tuple(n for n in plugin.requires if (plugin.name, n) not in unmet))
            for plugin in self.plugins
        ]
        return [plugin.name for plugin in order(sound)]

    def ordered(self) -> list[Choice]:
        """Return the choices, every dependency before what needs it. Raises as `order`."""
        return [self.choices[name] for name in self.order() if name in self.choices]


def close(
    root: PluginsRoot,
    wishes: Sequence[Wish],
    registries: Callable[[], Sequence[Registry]],
    options: Options,
    *,
    given: Sequence[Manifest] = (),
) -> Closure:
    """Choose the plugins that are wished for and all that they, and those `given`, depend on.

    What is missing or does not fit is told in the result. `registries` is called where one is needed.

    Raises:
        PlugregError: what `choose` raises for a plugin that is wished for, or for a dependency where that
            says more than that it is not there or does not fit.
        TooLarge: `dependencies_too_many`.
    """
    closing = _Closing(root, registries, options, {w.name: w for w in wishes}, {m.name: m for m in given})
    closing.respect_others()
    for _ in range(MAX_ROUNDS):
        if not closing.look():
            break
    return closing.result()


@dataclass(slots=True)
class _Closing:
    """What is known so far. `needs` holds for each name who needs it how, and only grows."""

    root: PluginsRoot
    registries: Callable[[], Sequence[Registry]]
    options: Options
    wishes: Mapping[str, Wish]
    given: Mapping[str, Manifest]
    needs: dict[str, dict[tuple[str, Requirement], None]] = field(default_factory=dict)
    plugins: dict[str, Manifest] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    there: dict[str, Manifest | None] = field(default_factory=dict)

    def respect_others(self) -> None:
        """Keep what is updated in the ranges that installed plugins need, unless a range was asked for."""
        free = {n for n, wish in self.wishes.items() if wish.installed and wish.asked is None}
        if not free:
            return
        for other in others(self.root, self.wishes):
            for need in other.requires:
                before = self._installed(need.name) if need.name in free else None
                if before is not None and meets(before, need):
                    self.needs.setdefault(need.name, {})[other.name, need] = None

    def look(self) -> bool:
        """Look at everything once; return whether a requirement came up that was not known before."""
        self.plugins, self.failed = {}, {}
        pending, grown = deque([*self.given, *self.wishes]), False
        while pending:
            name = pending.popleft()
            if name in self.plugins or name in self.failed:
                continue
            self._check_size()
            plugin = self._find(name)
            if plugin is None:
                continue
            self.plugins[name] = plugin
            for need in plugin.requires:
                known_needs = self.needs.setdefault(need.name, {})
                grown = grown or (name, need) not in known_needs
                known_needs[name, need] = None
                pending.append(need.name)
        return grown

    def _check_size(self) -> None:
        if len(self.plugins) + len(self.failed) >= MAX_PLUGINS:
            raise TooLarge(
                "dependencies_too_many", f"with all that they depend on these are over {MAX_PLUGINS} plugins"
            )

    def _find(self, name: str) -> Manifest | None:
        if name in self.given:
            return self.given[name]
        wish = self.wishes.get(name)
        try:
            return self._chosen(wish, self.options) if wish else self._dependency(PluginName(name))
        except PlugregError as error:
            self.choices.pop(name, None)
            self.failed[name] = self._judged(name, error)
            return None

    def _dependency(self, name: str) -> Manifest:
        """Return what is installed where all can use it, else what a registry has.

        With a lock file what is installed does not decide: the locked version does.
        """
        there = self._installed(name) if self.options.lock is None else None
        if there is not None and all(meets(there, need) for _, need in self.needs[name]):
            self.choices.pop(name, None)
            return there
        return self._chosen(known(self.root, name), replace(self.options, prereleases=False))

    def _chosen(self, wish: Wish, options: Options) -> Manifest:
        ranges = _ranges(need.range for _, need in self.needs.get(wish.name, ()))
        choice = self.choices.get(wish.name)
        if choice is None or choice.wish.needed != ranges:
            choice = choose(replace(wish, needed=ranges), self.registries(), options)
            self.choices[wish.name] = choice
        there = self._installed(wish.name) if choice.release is None else None
        entry = choice.entry
        return there or Manifest(
            entry.format,
            wish.name,
            version=entry.version,
            capability_kind=entry.capability_kind,
            requires=entry.requires,
        )

    def _judged(self, name: str, error: PlugregError) -> tuple[str, str]:
        """Return code and words for a dependency that is not to be had; raise every other refusal."""
        by = [quoted(by) for by, _ in self.needs.get(name, ()) if by in self.plugins]
        if not by or (name in self.wishes and error.code != "version_not_found"):
            raise error
        there = self._installed(name) if error.code != "name_invalid" else None
        if error.code in _NOWHERE and there is None:
            return MISSING, ""
        if error.code in _NOWHERE or error.code == "version_not_found":
            return UNFIT, f"installed is {quoted(there.version)}" if there else ""
        raise type(error)(
            error.code,
            f"{error.message}; {' and '.join(dict.fromkeys(by))} cannot be without it",
            hint=error.hint,
            findings=error.findings,
            details=error.details,
        ) from error

    def _installed(self, name: str) -> Manifest | None:
        if name not in self.there:
            self.there[name] = declared(self.root, name)
        return self.there[name]

    def result(self) -> Closure:
        choices = {name: self.choices[name] for name in self.plugins if name in self.choices}
        lacks = tuple(lack for plugin in self.plugins.values() for lack in self._lacks(plugin))
        notes = [note for choice in choices.values() for note in choice.notes]
        return Closure(tuple(self.plugins.values()), choices, lacks, (*notes, *self._broken(choices)))

    def _lacks(self, plugin: Manifest) -> Iterator[Lack]:
        for need in plugin.requires:
            there = self.plugins.get(need.name)
            if there is None:
                yield Lack(plugin.name, need, *self.failed.get(need.name, (MISSING, "")))
            elif need.kind not in {"", there.capability_kind}:
                kind = quoted(there.capability_kind) if there.capability_kind else "no stated kind"
                yield Lack(plugin.name, need, UNFIT, f"{quoted(need.name)} is of {kind}")
            elif not meets(there, need):
                yield Lack(plugin.name, need, UNFIT, f"what there is is {quoted(there.version)}")

    def _broken(self, choices: Mapping[str, Choice]) -> Iterator[str]:
        """Warn where an installed plugin loses what it depends on, because another version was asked for."""
        changed = {n: c.wish.installed for n, c in choices.items() if c.release and c.wish.installed}
        for other in others(self.root, self.plugins) if changed else ():
            for need in other.requires:
                after = self.plugins.get(need.name) if need.name in changed else None
                before = self._installed(need.name) if after else None
                if before and after and meets(before, need) and not meets(after, need):
                    yield (
                        f"warning: {quoted(other.name)} depends on {quoted(need.name)} {quoted(need.range)}, "
                        f"and this installs {quoted(after.version)}"
                    )


def _ranges(texts: Iterator[str]) -> tuple[VersionRange, ...]:
    """Return the ranges of requirements, each once; one that cannot be read lets no version through."""
    found: dict[str, VersionRange] = {}
    for text in texts:
        if text:
            try:
                found[text] = VersionRange(text)
            except InvalidInput:
                found[text] = _NO_VERSION
    return tuple(found.values())
