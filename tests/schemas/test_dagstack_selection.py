"""Which of several dagstack plugins is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plugreg_schemas import formats
from plugreg_schemas.errors import ResolutionError
from plugreg_schemas.formats.dagstack.selection import missing_resources, refuse_two_fallbacks, select
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from plugreg_schemas.manifest import Manifest


def plugin(name: str, kind: str = "tool", more: str = "") -> Manifest:
    text = (
        f'[plugin]\nschema_version = "1"\nname = "{name}"\nkind = "{kind}"\nkind_api_version = "1"\n'
        f'core_version = "^0.2"\nruntime = "in_process"\nentry_point = "plugin:Echo"\n{more}'
    )
    manifest = formats.read(MemoryTree.of({"dagstack.toml": text})).manifest
    assert manifest is not None
    return manifest


def test_a30_none_is_an_unknown_kind() -> None:
    with pytest.raises(ResolutionError) as refused:
        select([plugin("a", "orchestrator")], "tool")
    assert refused.value.code == "kind_unknown"


def test_a30_one_is_meant_and_of_several_that_of_the_highest_priority() -> None:
    low, high = plugin("a", more="priority = 10\n"), plugin("b", more="priority = 50\n")
    assert select([low], "tool") == low
    assert select([low, high], "tool") == high


def test_a30_two_of_the_highest_priority_are_ambiguous() -> None:
    with pytest.raises(ResolutionError) as refused:
        select([plugin("a", more="priority = 50\n"), plugin("b", more="priority = 50\n")], "tool")
    assert refused.value.code == "ambiguous_plugin"
    assert refused.value.details == {"kind": "tool", "candidates": ["a", "b"]}
    assert "`DAGSTACK_ACTIVE_TOOL`" in refused.value.hint


def test_a31_a_name_of_another_kind_is_unknown() -> None:
    plugins = [plugin("echo", "orchestrator"), plugin("other")]
    with pytest.raises(ResolutionError) as refused:
        select(plugins, "tool", "echo")
    assert refused.value.code == "kind_unknown"
    assert select(plugins, "tool", "other") == plugins[1]


def test_a41_two_fallbacks_in_one_kind_are_ambiguous() -> None:
    a, b = plugin("a", more="fallback = true\n"), plugin("b", more="fallback = true\n")
    refuse_two_fallbacks([a, plugin("c"), plugin("d", "orchestrator", "fallback = true\n")])
    with pytest.raises(ResolutionError) as refused:
        refuse_two_fallbacks([a, b])
    assert refused.value.code == "ambiguous_plugin"
    assert refused.value.details == {"kind": "tool", "candidates": ["a", "b"]}


def test_a44_a_required_resource_that_the_host_lacks_is_named() -> None:
    asking = plugin("a", more='[plugin.resources]\nrequired = ["clock", "postgres"]\noptional = ["rng"]\n')
    assert missing_resources(asking, {"clock"}) == ("postgres",)
    assert missing_resources(asking, ["postgres", "clock"]) == ()
