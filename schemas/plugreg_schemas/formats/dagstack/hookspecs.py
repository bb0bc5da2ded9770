"""The kinds of plugin that every dagstack core brings, as data: their hooks, and how a core calls them.

    singleton           one plugin answers
    broadcast_collect   all answer, a list comes back
    broadcast_notify    all are told
    chain               each gets what the one before returned
    capability          the one that supports the input answers

A kind that is not here belongs to a host; only that host knows its hooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Dispatch = Literal["singleton", "broadcast_collect", "broadcast_notify", "chain", "capability"]


@dataclass(frozen=True, slots=True)
class Hook:
    """One call that a plugin answers; `template` is its tool name over MCP, "" where it is not exposed."""

    name: str
    dispatch: Dispatch
    template: str = "{kind}.{plugin}.{hook}"


@dataclass(frozen=True, slots=True)
class Hookspec:
    """A kind: its version, its hooks, and where its plugins may run."""

    kind: str
    version: str
    hooks: tuple[Hook, ...]
    in_process_only: bool = False
    singleton_per_runtime: bool = False

    @property
    def chained(self) -> bool:
        """Whether values pass from plugin to plugin, so that they must be serializable (invariant 2)."""
        return any(hook.dispatch == "chain" for hook in self.hooks)


KINDS: Final[Mapping[str, Hookspec]] = {
    spec.kind: spec
    for spec in (
        Hookspec(
            "tool",
            "1.0.0",
            (
                Hook("get_schema", "broadcast_collect", template=""),
                Hook("execute", "singleton", template="{kind}.{plugin}.{hook}.{function}"),
            ),
        ),
        Hookspec(
            "orchestrator",
            "1.0.0",
            tuple(Hook(name, "singleton", template="") for name in ("enqueue", "status", "backfill")),
            in_process_only=True,
            singleton_per_runtime=True,
        ),
    )
}
