"""How often one address may ask the API of this process. The read plane and the probes are not counted.

    peer > is it a trusted proxy? then whom it names > the address, or the network of 64 bits of IPv6
         > when would its requests have been due, one after another? > too far ahead: 429

For each address one time is kept: when the next request would be due if they came evenly. Of too many
addresses those that have asked for nothing for the longest are forgotten: many addresses cost no memory, and
gain no more than what each of them may ask for anyway.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import TooMany

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from plugreg_registry.settings import Network

    Address = IPv4Address | IPv6Address

API: Final = "/v1/"
MINUTE: Final = 60.0
KNOWN: Final = 16_384
"""Addresses that one process remembers: about 2 MiB."""
SITE_BITS: Final = 64
"""What one customer has of IPv6 at least, to take addresses from as they like."""
MAX_HOPS: Final = 32
"""Proxies in a row that are followed."""


@dataclass(slots=True)
class Rate:
    """So many requests in a minute of each address; as many may come at once."""

    per_minute: int
    now: Callable[[], float] = time.monotonic
    most: int = KNOWN
    _due: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)

    def check(self, address: str) -> None:
        """Count a request of an address.

        Raises:
            TooMany: `rate_limited`.
        """
        now, each = self.now(), MINUTE / self.per_minute
        due = max(self._due.get(address, now), now) + each
        if due - now > MINUTE:
            seconds = max(1, math.ceil(due - now - MINUTE))
            raise TooMany(
                "rate_limited",
                f"one address may make {self.per_minute} requests a minute, and there were more",
                hint=f"try again in {seconds} seconds",
                details={"retry_after": seconds},
            )
        self._due[address] = due
        self._due.move_to_end(address)
        if len(self._due) > self.most:
            self._due.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Throttle:
    """An application that no address asks too often. What is refused raises `TooMany`."""

    inner: ASGIApp
    rate: Rate
    proxies: Sequence[Network] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the application's lifespan."""
        if scope["type"] == "http" and scope["path"].startswith(API):
            peer = scope.get("client")
            self.rate.check(counted(asking(peer[0] if peer else "", scope["headers"], self.proxies)))
        await self.inner(scope, receive, send)


def asking(peer: str, headers: Iterable[tuple[bytes, bytes]], proxies: Sequence[Network]) -> Address | None:
    """Return who asks: the peer; or if that is a trusted proxy, the nearest one that it names and is none.

    What stands further left in `X-Forwarded-For` was said by that one, and may be anything. None is a peer
    without an address, as at the socket of a file.
    """
    address = _address(peer)
    if address is None or not _is_any(address, proxies):
        return address
    lines = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
    for words in reversed(",".join(lines).split(",")[-MAX_HOPS:]):
        named = _address(words.strip())
        if named is None:
            break  # the last one who is known has written that
        address = named
        if not _is_any(address, proxies):
            break
    return address


def counted(address: Address | None) -> str:
    """Return by what requests are counted together."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, SITE_BITS), strict=False))
    return str(address or "")


def _address(words: str) -> Address | None:
    """Return an address, also with a port as some proxies write it; an IPv4 one in IPv6 is that of IPv4."""
    try:
        found = ip_address(_without_port(words).partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _without_port(words: str) -> str:
    if words.startswith("["):
        return words[1:].partition("]")[0]
    return words.partition(":")[0] if words.count(":") == 1 else words


def _is_any(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
