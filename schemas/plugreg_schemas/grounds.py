"""Why a host cannot use an alternative: the grounds of refusal, in the order in which they are asked.

    tier and host class   transport_forbidden         tier A over HTTP, or on a web host
                          tunnel_opt_in_required      a web host reaches this machine only by a tunnel
                          tunnel_token_not_read_only  and the tunnel's token can only read
                          bridge_missing              tier B on a desktop host, without a server on stdio
    platform              platform_unsupported        the program that it starts does not run on this platform
    core version          version_incompatible        the host's core is outside the plugin's range
    kind                  kind_unknown                the host has no use for this kind of plugin
    runtime               runtime_not_supported       the host does not use this runtime
                          process_unavailable         the host cannot start processes
                          webview_unavailable         the host has no place for a user interface
    transport             server_transport_unsupported
                          loopback_unavailable        served by a window that is not open, or not this host's
    language              language_mismatch           code of another language, or of an unknown one
    isolation             isolation_required          it would run in the host's process, and must not
    environment           insecure_tls                production, and certificates are not verified
                          insecure_http               production, and nothing is encrypted
    built in              not_built_in                compiled into hosts, but not into this one

The first that holds is the refusal. In `resolve` two more may follow: `backend_unavailable`, `not_preferred`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from plugreg_schemas.core_version import CoreRange
from plugreg_schemas.names import quoted
from plugreg_schemas.platforms import runs_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg_schemas.alternatives import Alternative, Offer
    from plugreg_schemas.hosts import Host

    Reason = tuple[str, str]
    Ground = Callable[[Offer, Alternative, Host], Reason | None]

COMMANDS: Final = frozenset({"mcp_stdio", "sidecar"})
"""The runtimes that start a child process."""


def first_ground(offer: Offer, alternative: Alternative, host: Host) -> Reason | None:
    """Return code and sentence of the first ground on which `host` cannot use `alternative`, or None."""
    for ground in GROUNDS:
        reason = ground(offer, alternative, host)
        if reason is not None:
            return reason
    return None


def _tier(offer: Offer, alternative: Alternative, host: Host) -> Reason | None:
    over_http = alternative.runtime == "mcp_http"
    if offer.tier == "A" and (over_http or host.host_class == "web"):
        what = (
            "is never reached over HTTP" if over_http else "never leaves its machine, and this is a web host"
        )
        return "transport_forbidden", f"the plugin has tier A: it {what}"
    if not over_http:
        return None
    if host.host_class == "web" and alternative.reach != "remote":
        return _tunnel(host)
    if host.host_class == "desktop" and offer.tier == "B" and not offer.has_bridge:
        return (
            "bridge_missing",
            "the plugin has tier B, which desktop hosts use by a bridge on stdio; it has none",
        )
    return None


def _tunnel(host: Host) -> Reason | None:
    if host.tunnel == "none":
        return "tunnel_opt_in_required", f"{_name(host)} reaches a server on this machine only by a tunnel"
    if host.tunnel == "read-write":
        return "tunnel_token_not_read_only", "a tunnel to this machine needs a token that can only read"
    return None


def _platform(offer: Offer, alternative: Alternative, host: Host) -> Reason | None:
    platforms = alternative.platforms or offer.platforms
    if not platforms or host.platform is None or alternative.runtime not in COMMANDS:
        return None
    if runs_on(platforms, host.platform):
        return None
    shown = ", ".join(map(quoted, platforms))
    return "platform_unsupported", f"its command runs on {shown}, not on {quoted(host.platform)}"


def _core(offer: Offer, _: Alternative, host: Host) -> Reason | None:
    if (
        host.core_version is None
        or not offer.core_version
        or _in_range(offer.core_version, host.core_version)
    ):
        return None
    return (
        "version_incompatible",
        f"it needs a core version in {quoted(offer.core_version)}, the host has {quoted(host.core_version)}",
    )


def _kind(offer: Offer, _: Alternative, host: Host) -> Reason | None:
    if not host.kinds or not offer.capability_kind or offer.capability_kind in host.kinds:
        return None
    return "kind_unknown", f"it is of the kind {quoted(offer.capability_kind)}, which the host does not know"


def _runtime(_: Offer, alternative: Alternative, host: Host) -> Reason | None:
    runtime = alternative.runtime
    if host.supports is not None and runtime not in host.supports:
        return "runtime_not_supported", f"{_name(host)} does not support `{runtime}`"
    if runtime in COMMANDS and not host.can_spawn:
        return "process_unavailable", f"{_name(host)} cannot start processes"
    if runtime == "webview" and host.screen == "none":
        return "webview_unavailable", f"{_name(host)} has no place for a user interface"
    return None


def _transport(_: Offer, alternative: Alternative, host: Host) -> Reason | None:
    if alternative.runtime not in {"mcp_stdio", "mcp_http"}:
        return None
    if host.transports is not None and alternative.transport not in host.transports:
        return (
            "server_transport_unsupported",
            f"{_name(host)} does not speak the transport `{alternative.transport}`",
        )
    if alternative.reach != "in_host" or host.host_class == "web":
        return None
    if host.host_class == "builtin" and host.gui_alive:
        return None
    return (
        "loopback_unavailable",
        "the server is part of a program's window, and that window is not this host's",
    )


def _language(_: Offer, alternative: Alternative, host: Host) -> Reason | None:
    if alternative.runtime != "in_process" or alternative.built_in:
        return None
    if not alternative.language:
        return "language_mismatch", "nothing says in which language its code is written"
    if alternative.language == host.language:
        return None
    loads = f"loads {host.language} code" if host.language else "loads no code"
    return "language_mismatch", f"its code is {alternative.language}, and {_name(host)} {loads}"


def _isolation(_: Offer, alternative: Alternative, host: Host) -> Reason | None:
    if host.isolate and alternative.runtime == "in_process":
        return "isolation_required", "it would run inside the host's process, and isolation was asked for"
    return None


def _environment(_: Offer, alternative: Alternative, host: Host) -> Reason | None:
    if host.environment != "production":
        return None
    if not alternative.tls_verify:
        return "insecure_tls", "the server's certificate would not be verified, which production forbids"
    if alternative.plain_http:
        return "insecure_http", "the connection would not be encrypted, which production forbids"
    return None


def _built_in(offer: Offer, alternative: Alternative, host: Host) -> Reason | None:
    if not alternative.built_in or offer.name in host.built_in:
        return None
    return "not_built_in", f"it is a part of other hosts, and {_name(host)} was built without it"


GROUNDS: Final[tuple[Ground, ...]] = (
    _tier,
    _platform,
    _core,
    _kind,
    _runtime,
    _transport,
    _language,
    _isolation,
    _environment,
    _built_in,
)


def _name(host: Host) -> str:
    return (
        f"a {host.name} host"
        if host.name == host.language
        else quoted(host.name)
        if host.name
        else "the host"
    )


@functools.lru_cache(maxsize=1024)
def _in_range(text: str, version: str) -> bool:
    return CoreRange(text).contains(version)
