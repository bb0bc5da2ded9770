"""Which of several registered dagstack plugins a host means, and whether it may start with them at all.

select(plugins, kind)              the one of the highest priority
select(plugins, kind, name)        that one
refuse_two_fallbacks(plugins)      at most one for each kind, or the host does not start
missing_resources(plugin, host)    what the host would have to inject: without it the plugin is unavailable
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg_schemas.errors import ResolutionError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from plugreg_schemas.manifest import Manifest


def select(plugins: Iterable[Manifest], kind: str, name: str = "") -> Manifest:
    """Return the plugin of this kind and name, without a name the one that goes before all others.

    Raises:
        ResolutionError: `kind_unknown`: there is none; `ambiguous_plugin`: two go before all others,
            `details` has the `candidates`.
    """
    found = [one for one in plugins if one.capability_kind == kind and name in {"", one.name}]
    if not found:
        called = f" called {quoted(name)}" if name else ""
        message = f"there is no plugin of the kind {quoted(kind)}{called}"
        raise ResolutionError("kind_unknown", message, hint="register one, or name another kind")
    highest = max(map(_priority, found))
    first = [plugin for plugin in found if _priority(plugin) == highest]
    if len(first) > 1:
        raise _ambiguous(first, kind, "the same priority")
    return first[0]


def refuse_two_fallbacks(plugins: Iterable[Manifest]) -> None:
    """Check that at most one plugin of each kind is its fallback.

    Raises:
        ResolutionError: `ambiguous_plugin`.
    """
    fallbacks: dict[str, list[Manifest]] = {}
    for plugin in plugins:
        if plugin.details.get("fallback") is True:
            fallbacks.setdefault(plugin.capability_kind, []).append(plugin)
    for kind, found in fallbacks.items():
        if len(found) > 1:
            raise _ambiguous(found, kind, "`fallback`")


def missing_resources(plugin: Manifest, available: Collection[str]) -> tuple[str, ...]:
    """Return the resources that a plugin requires and the host does not have, in the order declared."""
    resources = plugin.details.get("resources")
    required = resources.get("required", ()) if isinstance(resources, dict) else ()
    return tuple(resource for resource in required if resource not in available)


def _priority(plugin: Manifest) -> int:
    priority = plugin.details.get("priority")
    return priority if isinstance(priority, int) else 0


def _ambiguous(plugins: Sequence[Manifest], kind: str, what: str) -> ResolutionError:
    candidates = [plugin.name for plugin in plugins]
    return ResolutionError(
        "ambiguous_plugin",
        f"plugins of the kind {quoted(kind)} have {what}: {', '.join(map(quoted, candidates))}",
        hint=f"name one in `DAGSTACK_ACTIVE_{kind.upper()}`, or change one of them",
        details={"kind": kind, "candidates": candidates},
    )
