"""How often one address may ask, and who it is that asks."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

import pytest

from plugreg.index.terms import Terms
from plugreg.publish import prepare, publish
from plugreg.remote import Remote
from plugreg.scaffold import init
from plugreg.signing import new_key
from plugreg_registry.settings import DEFAULT_REQUESTS_PER_MINUTE, read_settings
from plugreg_registry.throttle import KNOWN, Rate, asking, counted
from plugreg_schemas.errors import TooMany, UsageError
from tests.support.publisher import ask
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PER_MINUTE = 120
PROXIES = tuple(map(ip_network, ("10.0.0.0/8", "fd00::/8", "192.0.2.1")))


class Clock:
    """A clock that the test moves."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class TestRate:
    """`Rate`."""

    def test_as_many_at_once_as_in_a_minute_and_then_evenly(self) -> None:
        clock = Clock()
        rate = Rate(60, clock)
        for _ in range(60):
            rate.check("a")
        with pytest.raises(TooMany, match="rate_limited") as refused:
            rate.check("a")
        assert refused.value.details == {"retry_after": 1}
        rate.check("b")
        clock.seconds += 1
        rate.check("a")
        with pytest.raises(TooMany):
            rate.check("a")
        clock.seconds += 3600
        for _ in range(60):
            rate.check("a")
        with pytest.raises(TooMany):
            rate.check("a")

    def test_what_is_refused_costs_nothing_more(self) -> None:
        clock = Clock()
        rate = Rate(2, clock)
        rate.check("a")
        rate.check("a")
        for _ in range(100):
            with pytest.raises(TooMany) as refused:
                rate.check("a")
            assert refused.value.details == {"retry_after": 30}
        clock.seconds += 30
        rate.check("a")

    def test_many_addresses_take_no_more_memory(self) -> None:
        rate = Rate(60, Clock())
        for number in range(3 * KNOWN):
            rate.check(str(number))
        assert len(rate._due) == KNOWN  # noqa: SLF001
        assert sys.getsizeof(rate._due) < 4 << 20  # noqa: SLF001


class TestAsking:
    """`asking` and `counted`."""

    @pytest.mark.parametrize(
        ("peer", "forwarded", "expected"),
        [
            ("203.0.113.7", [], "203.0.113.7"),
            ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),
            ("10.0.0.1", [], "10.0.0.1"),
            ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", ["6.6.6.6, 198.51.100.1, 10.2.3.4"], "198.51.100.1"),
            ("10.0.0.1", ["6.6.6.6", "198.51.100.1 ,10.2.3.4"], "198.51.100.1"),
            ("10.0.0.1", ["198.51.100.1, nonsense"], "10.0.0.1"),
            ("10.0.0.1", ["198.51.100.1, unknown, 10.2.3.4"], "10.2.3.4"),
            ("10.0.0.1", ["10.9.9.9"], "10.9.9.9"),
            ("10.0.0.1", [""], "10.0.0.1"),
            ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
            ("10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", ["fe80::1%eth0"], "fe80::1"),
            ("::ffff:10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
            ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
            ("192.0.2.1", ["198.51.100.1"], "198.51.100.1"),
            ("192.0.2.2", ["198.51.100.1"], "192.0.2.2"),
            ("10.0.0.1", [", ".join(["6.6.6.6", *["10.0.0.1"] * 1000])], "10.0.0.1"),
            ("", ["198.51.100.1"], None),
        ],
    )
    def test_the_nearest_that_is_no_trusted_proxy(
        self, peer: str, forwarded: list[str], expected: str | None
    ) -> None:
        headers = [(b"host", b"x"), *((b"x-forwarded-for", line.encode()) for line in forwarded)]
        assert asking(peer, headers, PROXIES) == (ip_address(expected) if expected else None)

    def test_without_trusted_proxies_nobody_is_believed(self) -> None:
        headers = [(b"x-forwarded-for", b"198.51.100.1")]
        assert asking("127.0.0.1", headers, ()) == ip_address("127.0.0.1")

    def test_addresses_of_one_site_are_one(self) -> None:
        there = {counted(ip_address(f"2001:db8:0:1::{number:x}")) for number in (1, 2, 0xFFFF)}
        assert there == {"2001:db8:0:1::/64"}
        assert counted(ip_address("2001:db8:0:2::1")) not in there
        assert counted(ip_address("198.51.100.1")) == "198.51.100.1"
        assert counted(None) == ""

    def test_settings(self) -> None:
        prefix = "PLUGREG_REGISTRY_"
        assert read_settings({}).requests_per_minute == DEFAULT_REQUESTS_PER_MINUTE
        assert read_settings({prefix + "LIMITS_REQUESTS_PER_MINUTE": "0"}).requests_per_minute == 0
        given = {prefix + "TRUSTED_PROXIES": "10.0.0.0/8 fd00::/8 192.0.2.1"}
        assert read_settings(given).trusted_proxies == PROXIES
        for wrong in ("10.0.0.1/8", "proxy.example.com", "10.0.0.1,10.0.0.2", "*"):
            with pytest.raises(UsageError, match="TRUSTED_PROXIES"):
                read_settings({prefix + "TRUSTED_PROXIES": wrong})


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry behind a proxy, which every test stands for, with addresses of its own."""
    environment = {
        "PLUGREG_REGISTRY_LIMITS_REQUESTS_PER_MINUTE": str(PER_MINUTE),
        "PLUGREG_REGISTRY_TRUSTED_PROXIES": "127.0.0.1",
    }
    with running(tmp_path_factory.mktemp("registry"), environment=environment) as registry:
        yield registry


class TestRegistry:
    """A registry that counts."""

    def test_who_asks_too_often_is_told_when_to_come_back_and_others_go_on(
        self, registry: RegistryProcess
    ) -> None:
        mine = {"x-forwarded-for": "198.51.100.1"}

        def look(_: int) -> int:
            return ask(registry.url + "v1/plugins/nothing", headers=mine).status

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(look, range(PER_MINUTE + 40)))
        assert set(found) == {404, 429}
        assert found.count(404) >= PER_MINUTE
        for path, method in (("v1/publish", "POST"), ("v1/plugins", "GET"), ("v1/uploads/x", "PUT")):
            refused = ask(registry.url + path, method, b"{}" if method != "GET" else None, mine)
            assert (refused.status, refused.code) == (429, "rate_limited")
            assert int(refused.headers["retry-after"]) == refused.json()["retry_after"] == 1
            assert refused.json()["retryable"]
            assert refused.headers["x-request-id"] == refused.json()["request_id"]
            assert refused.headers["cache-control"] == "no-store"
        for path in (".well-known/plugreg.json", "index/metadata/timestamp.json", "livez", "readyz"):
            assert ask(registry.url + path, headers=mine).status == 200
        for others in ({"x-forwarded-for": "198.51.100.2"}, {"x-forwarded-for": "198.51.100.1, 203.0.113.1"}):
            assert ask(registry.url + "v1/plugins/nothing", headers=others).status == 404

    def test_invented_addresses_help_nobody(self, registry: RegistryProcess) -> None:
        found = [
            ask(
                registry.url + "v1/plugins/nothing",
                headers={"x-forwarded-for": f"10.0.{number}.1, 198.51.100.9"},
            ).status
            for number in range(PER_MINUTE + 40)
        ]
        assert 429 in found


def test_the_client_waits_as_long_as_it_is_told_and_publishes(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    init(tmp_path / "demo")
    prepared, key = prepare(tmp_path / "demo"), new_key(tmp_path / "keys")
    remote = Remote(registry.url, Terms(tmp_path / "home"))
    while ask(registry.url + "v1/plugins/nothing").status == 404:
        pass
    done = publish(prepared, remote, key)
    assert (done.name, done.already) == ("demo", False)


def test_by_default_fifty_publishes_at_once_from_one_address_are_let_in() -> None:
    rate = Rate(DEFAULT_REQUESTS_PER_MINUTE)
    for _ in range(50 * 6 * 20):
        rate.check("198.51.100.1")
