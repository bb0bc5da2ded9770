"""What resolving needs of a plugin: little enough to travel in the plugin document and lie in a database.

    Offer          a plugin: its tier, core versions, kind, platforms, whether it has skills
      Entry*       a component
        Alternative*   one way to run it: the facts of a `Runtime` that a host decides by, and no more

`Offer.of` makes one of a manifest, `Offer.of_document` of an entry of the plugin document: both resolve
alike.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import PlainSerializer

from plugreg_schemas.hosts import normal_language
from plugreg_schemas.runtimes import InProcess, McpHttp, RuntimeName, Webview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.api import DocumentVersion
    from plugreg_schemas.manifest import Manifest, Tier
    from plugreg_schemas.runtimes import Runtime

Transport = Literal["native", "stdio", "streamable-http", "sse", "static-ui"]
Reach = Literal["remote", "loopback", "in_host"]
"""Where a URL leads: to another machine, to this one, or (loopback, port 0) into the host's own process."""

TRANSPORTS: Final[Mapping[RuntimeName, Transport]] = {
    "in_process": "native",
    "mcp_stdio": "stdio",
    "mcp_http": "streamable-http",
    "sidecar": "stdio",
    "webview": "static-ui",
}
"""How each runtime is spoken to, where the declaration does not say otherwise."""


@dataclass(frozen=True, slots=True, order=True)
class Alternative:
    """One declared way to run a component. Everything but `runtime` may be missing where it travels."""

    runtime: RuntimeName
    language: str = ""
    """What its code is written in, "" where nothing says it. It binds only `in_process`."""
    sse: bool = False
    """Whether the URL speaks the older transport with server-sent events."""
    reach: Reach = "remote"
    plain_http: bool = False
    """Whether the URL sends what it carries unencrypted to another machine."""
    tls_verify: bool = True
    built_in: bool = False
    """Whether it is compiled into the host, and the plugin only configures it."""
    backend: str = ""
    """The component that a user interface needs running beside it."""
    platforms: tuple[str, ...] = ()
    """Where the program that it starts runs, empty: anywhere, or where the plugin says."""

    @classmethod
    def of(cls, runtime: Runtime) -> Self:
        """Return what resolving needs of a declaration."""
        plain = cls(runtime.runtime, language=normal_language(runtime.language or ""))
        if isinstance(runtime, InProcess):
            return replace(plain, built_in=not runtime.entry_point)
        if isinstance(runtime, McpHttp):
            reach, plain_http = _reach(runtime.url)
            sse = runtime.transport == "sse"
            return replace(plain, sse=sse, reach=reach, plain_http=plain_http, tls_verify=runtime.tls_verify)
        if isinstance(runtime, Webview):
            return replace(plain, backend=runtime.backend or "")
        return replace(plain, platforms=runtime.platforms)

    @property
    def transport(self) -> Transport:
        """How the component is spoken to."""
        return "sse" if self.sse else TRANSPORTS[self.runtime]

    @property
    def external(self) -> bool:
        """Whether it runs already, as a service on another machine."""
        return self.runtime == "mcp_http" and self.reach == "remote"

    def as_dict(self) -> dict[str, Any]:
        """Return the alternative as it travels: what is as usual is left out."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {name: value for name, (value, usual) in values.items() if value != usual}


AlternativeField = Annotated[Alternative, PlainSerializer(Alternative.as_dict, return_type=dict[str, Any])]
"""An alternative as a field of a pydantic model."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A component: its alternatives in the author's order, of which a host uses one."""

    id: str
    alternatives: tuple[Alternative, ...]

    @property
    def language(self) -> str:
        """The language that the component is written in, "" where nothing says so."""
        return next((a.language for a in self.alternatives if a.language), "")


@dataclass(frozen=True, slots=True)
class Offer:
    """A plugin as a host sees it. Empty text and empty tuples say nothing, so nothing is checked by them."""

    name: str
    version: str = ""
    entries: tuple[Entry, ...] = ()
    has_skills: bool = False
    tier: Tier | None = None
    core_version: str = ""
    capability_kind: str = ""
    platforms: tuple[str, ...] = ()
    """Where its commands run. It speaks for the alternatives that say nothing themselves."""

    @classmethod
    def of(cls, manifest: Manifest, version: str = "") -> Self:
        """Return what a plugin offers, by its manifest; `version` is for one that has none."""
        return cls(
            name=manifest.name,
            version=manifest.version or version,
            entries=tuple(
                Entry(component.id, tuple(Alternative.of(runtime) for runtime in component.runtimes))
                for component in manifest.components
            ),
            has_skills=bool(manifest.skills),
            tier=manifest.tier,
            core_version=manifest.core_version,
            capability_kind=manifest.capability_kind,
            platforms=manifest.platforms,
        )

    @classmethod
    def of_document(cls, name: str, entry: DocumentVersion) -> Self:
        """Return what one version of a plugin offers, by the registry's document.

        A component without `alternatives` is judged by the names of its runtimes alone.
        """
        return cls(
            name=name,
            version=entry.version,
            entries=tuple(
                Entry(
                    component.id, component.alternatives or tuple(Alternative(r) for r in component.runtimes)
                )
                for component in entry.components
            ),
            has_skills=entry.counts.skills > 0,
            tier=entry.tier,
            core_version=entry.core_version,
            capability_kind=entry.capability_kind,
            platforms=entry.platforms,
        )

    @property
    def has_bridge(self) -> bool:
        """Whether any component speaks MCP over standard streams."""
        return any(a.runtime == "mcp_stdio" for entry in self.entries for a in entry.alternatives)


def _reach(url: str) -> tuple[Reach, bool]:
    """Where a URL leads, and whether it goes there unencrypted."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "remote", False
    if not _is_loopback(host):
        return "remote", parts.scheme == "http"
    return ("in_host" if port == 0 else "loopback"), False


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
