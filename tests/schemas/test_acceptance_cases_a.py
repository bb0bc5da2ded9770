"""dagstack from the manifest's text to the answer: which runtime a host uses (A15-A28), and who comes first (A29-A44)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas import formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.dependencies import order
from plugreg_schemas.errors import ResolutionError
from plugreg_schemas.formats.dagstack.discovery import discover
from plugreg_schemas.hosts import host_from
from plugreg_schemas.resolve import resolve
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from plugreg_schemas.manifest import Manifest
    from plugreg_schemas.resolve import Resolution

BASE = {
    "schema_version": "1",
    "name": "echo",
    "kind": "tool",
    "kind_api_version": "1",
    "core_version": ">=0.2.0,<0.3.0",
    "runtime": "in_process",
    "entry_point": "plugin:Echo",
}
STDIO = {"mcp_stdio": {"command": ["python", "-m", "echo"]}}
SAAS = {"mcp_http": {"url": "https://saas.example/x"}}


def plugin(**fields: object) -> Manifest:
    manifest = formats.read(
        MemoryTree.of({"dagstack.json": json.dumps(BASE | fields), "plugin.py": ""})
    ).manifest
    assert manifest is not None
    return manifest


def answer(manifest: Manifest, **words: str) -> Resolution:
    """What a host of core 0.2.0 does, unless the words say otherwise."""
    asked = {"language": "python", "core_version": "0.2.0"} | words
    return resolve(Offer.of(manifest), host_from({key: [word] for key, word in asked.items()}))


def told(found: Resolution) -> tuple[str | None, list[str]]:
    (outcome,) = found.components
    return outcome.runtime, [refusal.code for refusal in outcome.refusals]


def test_a15_the_refusal_names_plugin_range_and_core() -> None:
    found = answer(plugin(core_version="^99.0.0"))
    assert (found.plugin, told(found)) == ("echo", (None, ["version_incompatible"]))
    reason = found.components[0].refusals[0].reason
    assert reason == "it needs a core version in `^99.0.0`, the host has `0.2.0`"


TWO = {"runtime": ["in_process", "mcp_stdio"], **STDIO}
AWAY = {"runtime": ["mcp_stdio", "mcp_http"], "entry_point": None, **STDIO, **SAAS}


@pytest.mark.parametrize(
    ("fields", "words", "expected"),
    [
        pytest.param({}, {}, ("in_process", []), id="A1"),
        pytest.param({"core_version": "^0.2"}, {"core_version": "0.2.9"}, ("in_process", []), id="A17-inside"),
        pytest.param({"core_version": "^0.2"}, {"core_version": "0.3.0"}, (None, ["version_incompatible"]), id="A17-outside"),
        pytest.param(TWO, {}, ("in_process", ["not_preferred"]), id="A20"),
        pytest.param(TWO, {"language": "typescript"}, ("mcp_stdio", ["language_mismatch"]), id="A21"),
        pytest.param(TWO, {"isolate": "true"}, ("mcp_stdio", ["isolation_required"]), id="A22"),
        pytest.param({}, {"language": "typescript"}, (None, ["language_mismatch"]), id="A23"),
        pytest.param(AWAY, {"language": "go", "supports": "mcp_http"}, ("mcp_http", ["runtime_not_supported"]), id="A24"),
        pytest.param(
            {"runtime": "mcp_stdio", "entry_point": None, **STDIO},
            {"supports": "in_process"},
            (None, ["runtime_not_supported"]),
            id="A25",
        ),
        pytest.param(AWAY, {"language": "go"}, ("mcp_http", ["not_preferred"]), id="A26"),
    ],
)  # fmt: skip
def test_what_a_host_does_with_a_manifest(
    fields: dict[str, object], words: dict[str, str], expected: tuple[str | None, list[str]]
) -> None:
    found = answer(plugin(**fields), **words)
    assert told(found) == expected
    if expected[0] is None:
        with pytest.raises(ResolutionError) as refused:
            found.require()
        assert refused.value.code == "runtime_not_supported"
        assert expected[1][0] in refused.value.message
    else:
        found.require()


@pytest.mark.parametrize("missing", ["runtime_not_supported", "not_preferred"])
def test_a20_runtimes_are_refused_in_the_order_in_which_they_are_declared(missing: str) -> None:
    words = {"supports": "in_process"} if missing == "runtime_not_supported" else {}
    runtimes = ["mcp_http", "in_process", "mcp_stdio"]
    found = answer(plugin(runtime=runtimes, **STDIO, **SAAS), **words)
    assert [(r.runtime, r.code) for r in found.components[0].refusals] == [
        ("mcp_http", missing),
        ("mcp_stdio", missing),
    ]


def test_a23_and_a37_a_plugin_that_cannot_be_used_or_read_leaves_the_others_as_they_are() -> None:
    files = {
        "bad/dagstack.json": "{ not valid json",
        "only/dagstack.json": json.dumps(BASE | {"name": "only"}),
        "both/dagstack.json": json.dumps(BASE | TWO | {"name": "both"}),
    }
    found = {one.path: one for one in discover(MemoryTree.of(files))}
    assert {path: one.registered for path, one in found.items()} == {"bad": False, "both": True, "only": True}
    answers = {
        path: told(answer(one.reading.manifest, language="typescript"))
        for path, one in found.items()
        if one.reading.manifest is not None
    }
    assert answers == {"only": (None, ["language_mismatch"]), "both": ("mcp_stdio", ["language_mismatch"])}


def test_a32_to_a34_depends_on_is_read_and_ordered() -> None:
    names = [one.name for one in order([plugin(name="top", depends_on=["root"]), plugin(name="root")])]
    assert names == ["root", "top"]
    with pytest.raises(ResolutionError) as cycle:
        order(
            [plugin(name="a", depends_on=["b"]), plugin(name="b", depends_on=[{"kind": "tool", "name": "a"}])]
        )
    assert (cycle.value.code, cycle.value.details) == ("dependency_cycle", {"cycle": ["a", "b"]})
    with pytest.raises(ResolutionError) as lacking:
        order([plugin(name="a", depends_on=["nonexistent"])])
    assert lacking.value.details == {"missing": [{"plugin": "a", "missing": "nonexistent"}]}


def test_a42_bare_and_wrapped_give_the_same_manifest() -> None:
    wrapped = formats.read(MemoryTree.of({"dagstack.json": json.dumps({"plugin": BASE}), "plugin.py": ""}))
    assert wrapped.manifest is not None
    assert wrapped.manifest.at == ("plugin",)
    bare = plugin()
    assert {
        f: getattr(bare, f) for f in ("name", "components", "details", "core_version", "capability_kind")
    } == {
        f: getattr(wrapped.manifest, f)
        for f in ("name", "components", "details", "core_version", "capability_kind")
    }
