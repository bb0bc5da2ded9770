"""The order of plugins that depend on each other, and the tree that people see of it."""

from __future__ import annotations

import doctest
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg.dependencies import explain
from plugreg_schemas import dependencies
from plugreg_schemas.dependencies import meets, order, unmet
from plugreg_schemas.errors import NotAvailable, ResolutionError
from plugreg_schemas.manifest import Manifest, Requirement


def plugin(name: str, *needs: str | Requirement, kind: str = "tool", version: str = "1.0.0") -> Manifest:
    requires = tuple(Requirement(need) if isinstance(need, str) else need for need in needs)
    return Manifest("dagstack", name, version=version, capability_kind=kind, requires=requires)


def names(manifests: list[Manifest]) -> list[str]:
    return [manifest.name for manifest in manifests]


def test_a32_a_cycle_is_refused_with_its_chain() -> None:
    with pytest.raises(ResolutionError) as refused:
        order([plugin("a", "b"), plugin("b", "a")])
    assert refused.value.code == "dependency_cycle"
    assert refused.value.details == {"cycle": ["a", "b"]}
    assert refused.value.message == "plugins depend on each other: `a` -> `b` -> `a`"


def test_a32_the_chain_leaves_out_what_only_leads_to_the_cycle() -> None:
    with pytest.raises(ResolutionError) as refused:
        order([plugin("x", "a"), plugin("a", "b"), plugin("b", "c"), plugin("c", "a")])
    assert refused.value.details == {"cycle": ["a", "b", "c"]}


def test_a32_a_plugin_that_needs_itself_is_a_cycle() -> None:
    with pytest.raises(ResolutionError) as refused:
        order([plugin("a", "a")])
    assert refused.value.details == {"cycle": ["a"]}


def test_a33_a_dependency_that_is_not_there_is_named() -> None:
    with pytest.raises(ResolutionError) as refused:
        order([plugin("a", "nonexistent")])
    assert refused.value.code == "missing_dependency"
    assert refused.value.details == {"missing": [{"plugin": "a", "missing": "nonexistent"}]}
    assert refused.value.message == "`a` depends on `nonexistent`, which is not there"


def test_a33_all_that_is_missing_is_told_and_before_any_cycle() -> None:
    with pytest.raises(ResolutionError) as refused:
        order([plugin("a", "b", "x"), plugin("b", "a", "y")])
    assert [finding.message for finding in refused.value.findings] == [
        "`a` depends on `x`, which is not there",
        "`b` depends on `y`, which is not there",
    ]


DIAMOND = [plugin("root"), plugin("left", "root"), plugin("right", "root"), plugin("top", "left", "right")]


@pytest.mark.parametrize(
    "given_order", [*itertools.permutations(DIAMOND)], ids=lambda ps: "-".join(p.name for p in ps)
)
def test_a34_in_a_diamond_every_dependency_comes_first(given_order: tuple[Manifest, ...]) -> None:
    found = names(order(given_order))
    assert sorted(found) == ["left", "right", "root", "top"]
    assert found.index("root") < min(found.index("left"), found.index("right"))
    assert found[-1] == "top"


def test_a34_what_is_not_related_stays_in_the_order_given() -> None:
    assert names(order([plugin("c"), plugin("a"), plugin("b", "c")])) == ["c", "a", "b"]


def test_a_requirement_may_name_the_kind() -> None:
    tool, orchestrator = plugin("echo"), plugin("echo", kind="orchestrator")
    asking = plugin("a", Requirement("echo", kind="orchestrator"))
    assert order([asking, tool, orchestrator]) == [orchestrator, asking, tool]
    with pytest.raises(ResolutionError) as refused:
        order([asking, tool])
    assert refused.value.message == "`a` depends on `echo` of the kind `orchestrator`, which is not there"


@pytest.mark.parametrize(
    ("version", "met"), [("1.2.0", True), ("1.9.9", True), ("2.0.0", False), ("", False), ("v1", False)]
)
def test_a_requirement_may_name_a_range_of_versions(version: str, met: bool) -> None:
    wanted = Requirement("echo", range="^1.2")
    echo, asking = plugin("echo", version=version), plugin("a", wanted)
    assert meets(echo, wanted) is met
    lacks = unmet(asking, [echo])
    assert [lack.code for lack in lacks] == ([] if met else ["dependency_version"])
    if not met:
        with pytest.raises(ResolutionError) as refused:
            order([asking, echo])
        assert refused.value.code == "dependency_version"


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    chain = [plugin("p0"), *(plugin(f"p{n}", f"p{n - 1}") for n in range(1, 5000))]
    assert names(order(reversed(chain))) == names(chain)


@given(
    st.integers(0, 8).flatmap(
        lambda size: st.tuples(
            st.permutations(range(size)), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)))
        )
    )
)
def test_an_order_is_complete_stable_and_respects_every_requirement(
    case: tuple[list[int], set[tuple[int, int]]],
) -> None:
    places, pairs = case
    needs = {
        place: [f"p{low}" for low, high in sorted(pairs) if high == place and low < place] for place in places
    }
    plugins = [plugin(f"p{place}", *needs[place]) for place in places]
    found = order(plugins)
    assert sorted(names(found)) == sorted(names(plugins))
    assert order(plugins) == found
    assert order(found) == found
    for place, manifest in enumerate(found):
        assert {need.name for need in manifest.requires} <= set(names(found[:place]))


def test_the_tree_shows_what_is_there_missing_and_seen_before() -> None:
    plugins = [
        plugin("top", "left", "right", Requirement("old", range="^2")),
        plugin("left", "root"),
        plugin("right", "root", "gone"),
        plugin("root", "leaf", version="1.1.0"),
        plugin("leaf"),
        plugin("old"),
    ]
    assert [(line.depth, line.name, line.state, line.by) for line in explain("top", plugins)] == [
        (0, "top", "met", ""),
        (1, "left", "met", "top"),
        (2, "root", "met", "left"),
        (3, "leaf", "met", "root"),
        (1, "right", "met", "top"),
        (2, "root", "shown_above", "right"),
        (2, "gone", "missing", "right"),
        (1, "old", "other_version", "top"),
    ]
    assert explain("top", plugins)[-1].as_dict() == {
        "name": "old",
        "depth": 1,
        "state": "other_version",
        "kind": None,
        "range": "^2",
        "version": "1.0.0",
        "required_by": "top",
    }


def test_the_tree_ends_at_a_cycle() -> None:
    lines = explain("a", [plugin("a", "b"), plugin("b", "a")])
    assert [(line.name, line.state) for line in lines] == [("a", "met"), ("b", "met"), ("a", "cycle")]


def test_the_tree_of_a_plugin_that_is_not_there() -> None:
    with pytest.raises(NotAvailable) as refused:
        explain("a", [])
    assert refused.value.code == "plugin_not_found"


def test_examples() -> None:
    assert doctest.testmod(dependencies).failed == 0
