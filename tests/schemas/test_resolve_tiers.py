"""Tiers: what authors and operators may say, and what a registry answers when it is asked to publish."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas import acceptance, formats
from plugreg_schemas.errors import Boundary, InvalidInput, Severity
from plugreg_schemas.manifest import Component
from plugreg_schemas.runtimes import InProcess, McpHttp, McpStdio
from plugreg_schemas.tiers import MAX_POLICY, TierPolicy, declared_tier, examine_tier, parse_tier_policy
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from plugreg_schemas.acceptance import Acceptance
    from plugreg_schemas.manifest import Reading, Tier

STDIO = Component("local", (McpStdio(argv=("python3",)),))
HTTP = Component("far", (McpHttp(url="https://far.example/mcp"),))
BOTH = Component("main", (McpStdio(argv=("python3",)), McpHttp(url="https://far.example/mcp")))
CODE = Component("core", (InProcess(entry_point="a:B", language="python"),))


def published(declaration: object, **servers: dict[str, Any]) -> tuple[Reading, Acceptance]:
    """Read and judge an Agent Plugin whose author says `declaration` to registries."""
    schemas = "https://agent-plugins.org/schemas/1.0.0"
    manifest = {"$schema": f"{schemas}/plugin.schema.json", "name": "demo", "version": "1.0.0"}
    manifest["extensions"] = {"dev.plugreg": declaration}  # type: ignore[assignment]  # a JSON object
    tree = MemoryTree.of(
        {
            "plugin.json": json.dumps(manifest),
            "mcp.json": json.dumps({"$schema": f"{schemas}/mcp.schema.json", "mcpServers": servers}),
        }
    )
    reading = formats.read(tree)
    return reading, acceptance.examine(reading, tree)


FAR = {"type": "streamable-http", "url": "https://far.example/mcp"}
LOCAL = {"type": "stdio", "command": "python3"}


@pytest.mark.parametrize(
    ("declaration", "tier"),
    [(None, None), ({}, None), ({"tier": "A"}, "A"), ({"tier": "B"}, "B"), ({"tier": "C", "other": 1}, "C")],
)
def test_an_author_declares_a_tier_or_none(declaration: object, tier: Tier | None) -> None:
    assert declared_tier(declaration) == (tier, ())


@pytest.mark.parametrize(
    "declaration", ["A", [], 1, {"tier": "a"}, {"tier": "D"}, {"tier": 1}, {"tier": ["A"]}]
)
def test_a_faulty_declaration_is_the_registrys_business_and_never_the_formats(declaration: object) -> None:
    tier, (fault,) = declared_tier(declaration, "plugin.json", "extensions", "dev.plugreg")
    assert tier is None
    assert (fault.code, fault.severity, fault.boundary) == ("tier_invalid", Severity.ERROR, Boundary.REGISTRY)
    assert fault.pointer.startswith("/extensions/dev.plugreg")


@pytest.mark.parametrize("component", [HTTP, BOTH])
def test_b12_tier_a_with_an_http_transport_is_refused_at_publish(component: Component) -> None:
    (fault,) = examine_tier("A", [STDIO, component], "mcp.json")
    assert (fault.code, fault.severity, fault.boundary) == (
        "transport_forbidden",
        Severity.ERROR,
        Boundary.REGISTRY,
    )
    assert f"`{component.id}`" in fault.message


def test_b13_tier_b_without_a_bridge_is_warned_of() -> None:
    for components in ([HTTP], [CODE], [HTTP, CODE]):
        (fault,) = examine_tier("B", components)
        assert (fault.code, fault.severity) == ("bridge_missing", Severity.WARNING)
    for components in ([BOTH], [HTTP, STDIO], []):
        assert examine_tier("B", components) == ()


@pytest.mark.parametrize("tier", ["C", None])
def test_other_tiers_bind_nobody_at_publish(tier: Tier | None) -> None:
    assert examine_tier(tier, [HTTP, BOTH, STDIO]) == ()


def test_x6_the_registry_refuses_an_http_server_of_a_plugin_of_tier_a() -> None:
    reading, accepted = published({"tier": "A"}, far=FAR, local=LOCAL)
    assert reading.ok
    assert [f.code for f in accepted.findings if f.severity is Severity.ERROR] == ["transport_forbidden"]
    assert not accepted.publishable


def test_b12_tier_a_on_standard_streams_is_taken() -> None:
    reading, accepted = published({"tier": "A"}, local=LOCAL)
    assert reading.manifest is not None
    assert reading.manifest.tier == "A"
    assert accepted.publishable


def test_b13_tier_b_without_a_bridge_is_taken_with_a_warning() -> None:
    _, accepted = published({"tier": "B"}, far=FAR)
    assert "bridge_missing" in {f.code for f in accepted.findings}
    assert accepted.publishable


def test_a_tier_that_is_misspelled_loads_and_is_not_published_as_if_it_had_none() -> None:
    reading, accepted = published({"tier": "a"}, local=LOCAL)
    assert reading.ok
    assert not accepted.publishable
    assert "tier_invalid" in {f.code for f in accepted.findings}


def test_the_operators_word_wins_and_where_he_is_silent_the_authors_holds() -> None:
    policy = parse_tier_policy(b'[tiers]\ndebugger = "A"\n"acme.tools" = "C"\n')
    assert policy.tier_of("debugger", "B") == "A"
    assert policy.tier_of("acme.tools", None) == "C"
    assert policy.tier_of("other", "B") == "B"
    assert policy.tier_of("other", None) is None
    assert parse_tier_policy(b"") == TierPolicy()


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (b'[tiers]\nx = "D"', "/tiers/x"),
        (b"[tiers]\nx = 1979-05-27", "/tiers/x"),
        (b'[tiers]\n"Not A Name" = "A"', "/tiers/Not A Name"),
        (b"tiers = 3", "/tiers"),
        (b"[tier]\n", "/tier"),
        (b"[tiers", ""),
        (b"\xff\xfe[\x00", ""),
        (b'[tiers]\nx = "A"\nx = "B"', ""),
        (b"a = " + b"[" * 5000, ""),
        (b"#" * (MAX_POLICY + 1), ""),
        (b"[tiers]\n" + b"a." * 100_000 + b'a = "A"', ""),
        (b"[tiers]\nx = " + b"9" * 5000, ""),
        (b'\xef\xbb\xbf[tiers]\nx = "A"', ""),
    ],
    ids=[
        *("value", "date", "name", "type", "key", "toml", "utf-16", "twice", "deep", "large"),
        *("long-key", "long-number", "byte-order-mark"),
    ],
)
def test_a_policy_that_cannot_be_trusted_is_refused_whole(content: bytes, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_tier_policy(content, "tiers.toml")
    assert caught.value.code == "tier_policy_invalid"
    assert caught.value.findings[0].pointer == pointer
