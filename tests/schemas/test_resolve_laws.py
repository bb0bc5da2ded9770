"""The laws of resolving, over every plugin of up to three alternatives, every set and order of runtimes, every language."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugreg_schemas.alternatives import Alternative, Entry, Offer
from plugreg_schemas.hosts import PROFILES, RUNTIMES, Host
from plugreg_schemas.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugreg_schemas.hosts import HostClass
    from plugreg_schemas.manifest import Tier
    from plugreg_schemas.resolve import Outcome
    from plugreg_schemas.runtimes import RuntimeName

THREE: Final[tuple[RuntimeName, ...]] = ("in_process", "mcp_stdio", "mcp_http")
PALETTE: Final = (
    Alternative("in_process", language="python"),
    Alternative("in_process", language="go"),
    Alternative("mcp_stdio"),
    Alternative("mcp_http"),
    Alternative("mcp_http", reach="loopback"),
)
LANGUAGES: Final = ("python", "go", "")
CLASSES: Final[tuple[HostClass | None, ...]] = (None, "desktop", "web", "builtin")
TIERS: Final[tuple[Tier | None, ...]] = (None, "A", "B", "C")


def sets(names: tuple[RuntimeName, ...]) -> list[frozenset[RuntimeName]]:
    return [frozenset(some) for size in range(len(names) + 1) for some in itertools.combinations(names, size)]


def orders(names: tuple[RuntimeName, ...]) -> list[tuple[RuntimeName, ...]]:
    return [some for size in range(len(names) + 1) for some in itertools.permutations(names, size)]


def declarations() -> Iterator[tuple[Alternative, ...]]:
    """Every choice of up to three alternatives of different runtimes, once for each choice."""
    for size in range(1, 4):
        for some in itertools.combinations(PALETTE, size):
            if len({alternative.runtime for alternative in some}) == size:
                yield some


DECLARATIONS: Final = tuple(declarations())


def ask(alternatives: tuple[Alternative, ...], host: Host, tier: Tier | None = None) -> Outcome:
    (outcome,) = resolve(Offer("demo", entries=(Entry("main", alternatives),), tier=tier), host).components
    return outcome


def check_shape(outcome: Outcome, alternatives: tuple[Alternative, ...]) -> None:
    """The result is declared; every alternative not chosen has exactly one refusal, in the order of declaration."""
    left = [a.runtime for index, a in enumerate(alternatives) if index != outcome.index]
    assert [refusal.runtime for refusal in outcome.refusals] == left
    assert all(refusal.code and refusal.reason for refusal in outcome.refusals)
    if outcome.index is None:
        assert outcome.runtime is None
        assert "not_preferred" not in {refusal.code for refusal in outcome.refusals}
    else:
        assert outcome.runtime == alternatives[outcome.index].runtime


def by_hand(alternatives: tuple[Alternative, ...], host: Host) -> RuntimeName | None:
    """The algorithm of the flowchart as it is written down, step by step."""
    assert host.supports is not None
    language = next((a.language for a in alternatives if a.language), "")
    usable = [a.runtime for a in alternatives if a.runtime in host.supports]
    if not language or language != host.language:
        usable = [r for r in usable if r != "in_process"]
    if host.isolate:
        usable = [r for r in usable if r != "in_process"]
    order: list[RuntimeName]
    if language and language == host.language:
        order = ["in_process", "mcp_stdio", "mcp_http"]
    elif any(a.runtime == "mcp_http" and a.reach == "remote" for a in alternatives):
        order = ["mcp_http", "mcp_stdio"]
    else:
        order = ["mcp_stdio", "mcp_http"]
    return next((r for r in [*host.prefer, *order] if r in usable), None)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("isolate", [False, True])
def test_every_plugin_on_every_set_and_order_is_resolved_as_the_flowchart_says(
    language: str, isolate: bool
) -> None:
    for supports, prefer, declared in itertools.product(sets(THREE), orders(THREE), DECLARATIONS):
        host = Host("h", language, supports=supports, prefer=prefer, isolate=isolate)
        outcome = ask(declared, host)
        check_shape(outcome, declared)
        assert outcome.runtime == by_hand(declared, host)
        assert outcome.runtime is None or outcome.runtime in supports


@pytest.mark.parametrize("host_class", CLASSES)
@pytest.mark.parametrize("tier", TIERS)
def test_every_plugin_on_every_class_and_tier_obeys_the_laws(
    host_class: HostClass | None, tier: Tier | None
) -> None:
    asked = itertools.product(sets(THREE), LANGUAGES, (False, True), orders(("mcp_http",)), DECLARATIONS)
    for supports, language, isolate, prefer, declared in asked:
        host = Host("h", language, supports, prefer, host_class, isolate=isolate)
        outcome = ask(declared, host, tier)
        check_shape(outcome, declared)
        if tier == "A":
            assert outcome.runtime != "mcp_http"
        if tier == "A" and host_class == "web":
            assert outcome.runtime is None
        for order in itertools.permutations(declared):
            assert ask(order, host, tier).runtime == outcome.runtime
        for gained in set(THREE) - supports:
            more = ask(declared, replace(host, supports=supports | {gained}), tier)
            assert outcome.runtime is None or more.runtime is not None


ALTERNATIVES = st.builds(
    Alternative,
    runtime=st.sampled_from(RUNTIMES),
    language=st.sampled_from(LANGUAGES),
    sse=st.booleans(),
    reach=st.sampled_from(["remote", "loopback", "in_host"]),
    plain_http=st.booleans(),
    tls_verify=st.booleans(),
    built_in=st.booleans(),
    backend=st.sampled_from(["", "main", "other"]),
    platforms=st.sampled_from([(), ("linux-x86_64",), ("linux-arm64", "macos-arm64")]),
)
OFFERS = st.builds(
    Offer,
    name=st.just("demo"),
    entries=st.lists(
        st.builds(Entry, id=st.sampled_from(["main", "other", "third"]), alternatives=st.lists(ALTERNATIVES, max_size=4).map(tuple)),
        unique_by=lambda entry: entry.id,
        max_size=3,
    ).map(tuple),
    has_skills=st.booleans(),
    tier=st.sampled_from(TIERS),
    core_version=st.sampled_from(["", "^1", ">=2,<3"]),
    capability_kind=st.sampled_from(["", "tool"]),
    platforms=st.sampled_from([(), ("linux-x86_64",)]),
)  # fmt: skip
HOSTS = st.one_of(
    st.sampled_from(list(PROFILES.values())),
    st.builds(
        Host,
        name=st.just("h"),
        language=st.sampled_from(LANGUAGES),
        supports=st.sampled_from([None, *sets(RUNTIMES)]),
        prefer=st.permutations(RUNTIMES).flatmap(
            lambda order: st.integers(0, 5).map(lambda n: tuple(order[:n]))
        ),
        host_class=st.sampled_from(CLASSES),
        transports=st.sampled_from([None, frozenset({"stdio"}), frozenset({"streamable-http"})]),
        isolate=st.booleans(),
        core_version=st.sampled_from([None, "1.0.0", "2.1.0"]),
        kinds=st.sampled_from([None, frozenset({"tool"}), frozenset({"other"})]),
        platform=st.sampled_from([None, "linux-x86_64", "macos-arm64"]),
        environment=st.sampled_from([None, "dev", "production"]),
        built_in=st.sampled_from([frozenset(), frozenset({"demo"})]),
        can_spawn=st.booleans(),
        screen=st.sampled_from(["view", "link", "none"]),
        tunnel=st.sampled_from(["none", "read-only", "read-write"]),
        gui_alive=st.booleans(),
    ),
)


@settings(max_examples=300, deadline=None)
@given(plugin=OFFERS, host=HOSTS, gained=st.sampled_from(RUNTIMES), data=st.data())
def test_the_laws_hold_for_any_plugin_and_any_host(
    plugin: Offer, host: Host, gained: RuntimeName, data: st.DataObject
) -> None:
    found = resolve(plugin, host)
    assert resolve(plugin, host) == found
    assert [outcome.id for outcome in found.components] == [entry.id for entry in plugin.entries]
    for outcome, entry in zip(found.components, plugin.entries, strict=True):
        check_shape(outcome, entry.alternatives)
        assert not (plugin.tier == "A" and outcome.runtime == "mcp_http")
    assert bool(found.code) == (not plugin.has_skills and not any(o.runtime for o in found.components))
    shuffled = tuple(
        Entry(entry.id, tuple(data.draw(st.permutations(entry.alternatives)))) for entry in plugin.entries
    )
    again = resolve(replace(plugin, entries=shuffled), host)
    for first, second, entry, other in zip(
        found.components, again.components, plugin.entries, shuffled, strict=True
    ):
        before = None if first.index is None else entry.alternatives[first.index]
        after = None if second.index is None else other.alternatives[second.index]
        assert before == after
    if host.supports is not None:
        more = resolve(plugin, replace(host, supports=host.supports | {gained}))
        assert found.code or not more.code
        for first, second in zip(found.components, more.components, strict=True):
            assert first.runtime is None or second.runtime is not None
