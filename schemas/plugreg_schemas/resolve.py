"""Which declared runtime a host uses, and why not the others: one pure function for client and registry.

    Offer x Host > for each component: its alternatives > grounds of refusal > the first usable one in order

The order of what is usable, the first that says something wins:

    1. `host.prefer`, an explicit order
    2. the matrix of host class and tier
    3. the flowchart:  same language, no isolation    in_process, mcp_stdio, mcp_http
                       same language, isolated        mcp_stdio, mcp_http
                       another language, external     mcp_http, mcp_stdio
                       another language, local        mcp_stdio, mcp_http

The order of declaration decides nothing. Every alternative that is not chosen has exactly one refusal: its
first ground (`grounds`), `backend_unavailable` for a user interface whose process cannot run, or
`not_preferred`. A plugin of which nothing is usable, no skill either, has the code `runtime_not_supported`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.errors import ResolutionError
from plugreg_schemas.grounds import first_ground
from plugreg_schemas.hosts import MATRIX
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.alternatives import Alternative, Entry, Offer
    from plugreg_schemas.hosts import Host
    from plugreg_schemas.runtimes import RuntimeName

NOT_SUPPORTED: Final = "runtime_not_supported"

_SAME_LANGUAGE: Final[tuple[RuntimeName, ...]] = ("in_process", "mcp_stdio", "sidecar", "mcp_http", "webview")
_EXTERNAL: Final[tuple[RuntimeName, ...]] = ("mcp_http", "mcp_stdio", "sidecar", "in_process", "webview")
_LOCAL: Final[tuple[RuntimeName, ...]] = ("mcp_stdio", "sidecar", "mcp_http", "in_process", "webview")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one declared alternative is not used."""

    runtime: RuntimeName
    code: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """Return the refusal as it is printed and sent."""
        return {"runtime": self.runtime, "code": self.code, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a host does with one component: the runtime it uses, or None, and a refusal for every other.

    `index` is the place of the chosen alternative in the component's declaration.
    """

    id: str
    runtime: RuntimeName | None
    index: int | None
    refusals: tuple[Refusal, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as it is printed and sent."""
        return {
            "id": self.id,
            "runtime": self.runtime,
            "refusals": [refusal.as_dict() for refusal in self.refusals],
        }


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a host does with a plugin, component by component in the order of declaration."""

    plugin: str
    version: str
    components: tuple[Outcome, ...]
    has_skills: bool = False

    @property
    def code(self) -> str:
        """`runtime_not_supported` where nothing is usable, else ""."""
        usable = self.has_skills or any(outcome.runtime for outcome in self.components)
        return "" if usable else NOT_SUPPORTED

    def as_dict(self) -> dict[str, Any]:
        """Return what `plugreg resolve --json` prints and `GET /v1/resolve` answers."""
        code = {"code": self.code} if self.code else {}
        components = [outcome.as_dict() for outcome in self.components]
        return {"plugin": self.plugin, "version": self.version or None, **code, "components": components}

    def require(self) -> None:
        """Raise unless something is usable.

        Raises:
            ResolutionError: `runtime_not_supported`, with every refusal in its message and details.
        """
        if not self.code:
            return
        refused = [
            f"{quoted(outcome.id)}: {refusal.runtime}: {refusal.reason} [{refusal.code}]"
            for outcome in self.components
            for refusal in outcome.refusals
        ]
        why = "; ".join(refused) or "it declares no component and no skill"
        raise ResolutionError(
            NOT_SUPPORTED,
            f"nothing of {quoted(self.plugin)} can be used here: {why}",
            hint="use a host that supports one of its runtimes" if refused else "choose another plugin",
            details={"components": [outcome.as_dict() for outcome in self.components]},
        )


def resolve(offer: Offer, host: Host) -> Resolution:
    """Return what `host` does with the plugin: the same for the same question, wherever it is asked."""
    done = {entry.id: _resolve(offer, entry, host, {}) for entry in offer.entries if not _has_backend(entry)}
    for entry in offer.entries:
        if entry.id not in done:
            done[entry.id] = _resolve(offer, entry, host, done)
    return Resolution(
        offer.name, offer.version, tuple(done[entry.id] for entry in offer.entries), offer.has_skills
    )


def _has_backend(entry: Entry) -> bool:
    return any(alternative.backend for alternative in entry.alternatives)


def _resolve(offer: Offer, entry: Entry, host: Host, done: Mapping[str, Outcome]) -> Outcome:
    reasons = [first_ground(offer, a, host) or _backend(a, done) for a in entry.alternatives]
    usable = [index for index, reason in enumerate(reasons) if reason is None]
    chosen = _first(offer, entry, host, usable) if usable else None
    name = None if chosen is None else entry.alternatives[chosen].runtime
    refusals = tuple(
        Refusal(
            alternative.runtime,
            *(reasons[index] or ("not_preferred", f"it could be used; `{name}` comes first")),
        )
        for index, alternative in enumerate(entry.alternatives)
        if index != chosen
    )
    return Outcome(entry.id, name, chosen, refusals)


def _backend(alternative: Alternative, done: Mapping[str, Outcome]) -> tuple[str, str] | None:
    if not alternative.backend:
        return None
    needed = done.get(alternative.backend)
    if needed is not None and needed.runtime is not None:
        return None
    why = f": {needed.refusals[0].reason}" if needed and needed.refusals else ""
    return "backend_unavailable", f"its backend {quoted(alternative.backend)} cannot be used{why}"


def _first(offer: Offer, entry: Entry, host: Host, usable: list[int]) -> int:
    if len(usable) == 1:
        return usable[0]
    ranks = _ranks(
        host.prefer,
        MATRIX.get((host.host_class, offer.tier), ()),
        _flowchart(entry, host),
    )
    return min(
        usable, key=lambda index: (ranks[entry.alternatives[index].runtime], entry.alternatives[index])
    )


def _flowchart(entry: Entry, host: Host) -> tuple[RuntimeName, ...]:
    """The order by language; what isolation forbids is refused already."""
    language = entry.language
    if language and language == host.language:
        return _SAME_LANGUAGE
    return _EXTERNAL if any(alternative.external for alternative in entry.alternatives) else _LOCAL


@functools.lru_cache(maxsize=1024)
def _ranks(*orders: tuple[RuntimeName, ...]) -> Mapping[RuntimeName, int]:
    """The place of every runtime when the orders stand one after the other; the first mention counts."""
    return {runtime: rank for rank, runtime in enumerate(dict.fromkeys(sum(orders, ())))}
