"""Which runtime a host uses: the acceptance cases of the manifest formats, the matrix of hosts, and the JSON of an answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.alternatives import Alternative, Entry, Offer
from plugreg_schemas.api import Counts, DocumentComponent, DocumentVersion
from plugreg_schemas.errors import InvalidInput, ResolutionError, UsageError
from plugreg_schemas.hosts import LANGUAGES, PROFILES, RUNTIMES, Host, host_from, normal_language
from plugreg_schemas.manifest import Component, Manifest, Skill
from plugreg_schemas.names import Digest
from plugreg_schemas.resolve import Resolution, resolve
from plugreg_schemas.runtimes import InProcess, McpHttp, McpStdio, RuntimeName, Sidecar, Webview

if TYPE_CHECKING:
    from plugreg_schemas.hosts import HostClass
    from plugreg_schemas.manifest import Tier
    from plugreg_schemas.runtimes import Runtime

PYTHON = InProcess(entry_point="plugin:Echo", language="python")
STDIO = McpStdio(argv=("python", "-m", "echo"))
SAAS = McpHttp(url="https://saas.example/x")
LOOPBACK = McpHttp(url="http://127.0.0.1:8770/mcp")
SSE = McpHttp(url="https://saas.example/sse", transport="sse")


def offer(*runtimes: Runtime, tier: Tier | None = None, **facts: Any) -> Offer:
    """A plugin of one component, whose runtimes are alternatives."""
    manifest = Manifest("dagstack", "echo", "1.0.0", components=(Component("main", runtimes),), tier=tier)
    return replace(Offer.of(manifest), **facts)


def servers(*, skills: tuple[Skill, ...] = (), tier: Tier | None = None, **each: Runtime) -> Offer:
    """A plugin of several components, each with one runtime."""
    components = tuple(Component(name, (runtime,)) for name, runtime in each.items())
    return Offer.of(
        Manifest("agent-plugins", "demo", "1.0.0", components=components, skills=skills, tier=tier)
    )


def host(language: str, *supports: RuntimeName, **facts: Any) -> Host:
    return Host(language, language, supports=frozenset(supports) if supports else None, **facts)


def chosen(found: Resolution) -> RuntimeName | None:
    (outcome,) = found.components
    return outcome.runtime


def codes(found: Resolution, component: int = 0) -> dict[str, str]:
    return {refusal.runtime: refusal.code for refusal in found.components[component].refusals}


# --- dagstack: alternatives, of which a host uses one


@pytest.mark.parametrize(
    ("runtimes", "asking", "expected", "refused"),
    [
        pytest.param((PYTHON, STDIO), host("python"), "in_process", {"mcp_stdio": "not_preferred"}, id="A20"),
        pytest.param(
            (PYTHON, STDIO), host("typescript"), "mcp_stdio", {"in_process": "language_mismatch"}, id="A21"
        ),
        pytest.param(
            (PYTHON, STDIO),
            host("python", isolate=True),
            "mcp_stdio",
            {"in_process": "isolation_required"},
            id="A22",
        ),
        pytest.param((PYTHON,), host("typescript"), None, {"in_process": "language_mismatch"}, id="A23"),
        pytest.param(
            (STDIO, SAAS),
            host("go", "mcp_http"),
            "mcp_http",
            {"mcp_stdio": "runtime_not_supported"},
            id="A24",
        ),
        pytest.param(
            (STDIO,), host("python", "in_process"), None, {"mcp_stdio": "runtime_not_supported"}, id="A25"
        ),
        pytest.param(
            (STDIO, SAAS), host("go"), "mcp_http", {"mcp_stdio": "not_preferred"}, id="A26-external"
        ),
        pytest.param(
            (STDIO, LOOPBACK), host("go"), "mcp_stdio", {"mcp_http": "not_preferred"}, id="A26-local"
        ),
        pytest.param(
            (PYTHON, STDIO), host("typescript"), "mcp_stdio", {"in_process": "language_mismatch"}, id="X1"
        ),
    ],
)
def test_the_flowchart_chooses(
    runtimes: tuple[Runtime, ...], asking: Host, expected: str | None, refused: dict[str, str]
) -> None:
    found = resolve(offer(*runtimes), asking)
    assert chosen(found) == expected
    assert codes(found) == refused
    assert found.code == ("" if expected else "runtime_not_supported")


def test_a23_another_plugin_is_not_affected_by_one_that_is_not_supported() -> None:
    asking = host("typescript")
    assert resolve(offer(PYTHON), asking).code == "runtime_not_supported"
    assert resolve(offer(STDIO), asking).code == ""


@pytest.mark.parametrize(
    ("wanted", "core", "code"),
    [
        pytest.param("^99.0.0", "0.2.0", "version_incompatible", id="A15"),
        pytest.param("^0.2", "0.2.9", "", id="A17-inside"),
        pytest.param("^0.2", "0.3.0", "version_incompatible", id="A17-outside"),
        pytest.param("^99.0.0", None, "", id="A15-core-not-given"),
        pytest.param("", "0.2.0", "", id="A15-range-not-given"),
    ],
)
def test_the_core_of_the_host_must_be_in_the_range(wanted: str, core: str | None, code: str) -> None:
    found = resolve(offer(PYTHON, STDIO, core_version=wanted), host("python", core_version=core))
    assert set(codes(found).values()) == ({code} if code else {"not_preferred"})
    if code:
        assert all(wanted in r.reason and str(core) in r.reason for r in found.components[0].refusals)


def test_a16_a_range_that_is_none_is_refused_and_not_guessed() -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve(offer(PYTHON, core_version="0.1"), host("python", core_version="0.1"))
    assert caught.value.code == "manifest_invalid"


def test_a_kind_that_the_host_does_not_know_is_refused_only_where_it_names_kinds() -> None:
    plugin = offer(STDIO, capability_kind="orchestrator")
    assert codes(resolve(plugin, host("python", kinds=frozenset({"tool"})))) == {"mcp_stdio": "kind_unknown"}
    assert chosen(resolve(plugin, host("python", kinds=frozenset({"tool", "orchestrator"})))) == "mcp_stdio"
    assert chosen(resolve(plugin, host("python"))) == "mcp_stdio"


def test_the_version_is_asked_before_the_kind() -> None:
    plugin = offer(STDIO, capability_kind="orchestrator", core_version="^2")
    asking = host("python", kinds=frozenset({"tool"}), core_version="1.0.0")
    assert codes(resolve(plugin, asking)) == {"mcp_stdio": "version_incompatible"}


def test_code_of_an_unknown_language_is_never_loaded() -> None:
    found = resolve(offer(InProcess(entry_point="plugin"), STDIO), host("python"))
    assert chosen(found) == "mcp_stdio"
    assert codes(found) == {"in_process": "language_mismatch"}


def test_the_language_counts_for_the_order_where_no_code_is_loaded_too() -> None:
    stdio = STDIO.model_copy(update={"language": "py"})
    assert chosen(resolve(offer(stdio, SAAS), host("python"))) == "mcp_stdio"
    assert chosen(resolve(offer(stdio, SAAS), host("go"))) == "mcp_http"


def test_an_explicit_order_wins_and_what_it_does_not_name_comes_after() -> None:
    plugin = offer(PYTHON, STDIO, SAAS)
    assert chosen(resolve(plugin, host("python", prefer=("mcp_http", "mcp_stdio")))) == "mcp_http"
    assert chosen(resolve(plugin, host("python", prefer=("sidecar", "mcp_stdio")))) == "mcp_stdio"
    assert chosen(resolve(plugin, host("python", prefer=("webview",)))) == "in_process"


def test_platforms_bind_commands_and_nothing_else() -> None:
    plugin = offer(STDIO, SAAS, platforms=("linux-x86_64",))
    found = resolve(plugin, host("go", platform="macos-arm64", prefer=("mcp_stdio",)))
    assert chosen(found) == "mcp_http"
    assert codes(found) == {"mcp_stdio": "platform_unsupported"}
    assert chosen(resolve(plugin, host("go", platform="linux-x86_64", prefer=("mcp_stdio",)))) == "mcp_stdio"
    assert chosen(resolve(plugin, host("go", prefer=("mcp_stdio",)))) == "mcp_stdio"


@pytest.mark.parametrize(
    ("url", "verify", "code"),
    [
        ("https://saas.example/x", False, "insecure_tls"),
        ("http://saas.example/x", True, "insecure_http"),
        ("https://saas.example/x", True, ""),
        ("http://127.0.0.1:1/x", True, ""),
        ("http://[::1]:1/x", True, ""),
    ],
)
def test_production_refuses_a_connection_that_is_not_protected(url: str, verify: bool, code: str) -> None:
    plugin = offer(McpHttp(url=url, tls_verify=verify))
    assert codes(resolve(plugin, host("go", environment="production"))) == (
        {"mcp_http": code} if code else {}
    )
    assert codes(resolve(plugin, host("go", environment="dev"))) == {}


# --- Agent Plugins: components, of which a host uses all that it can


def test_x2_a_host_of_http_alone_keeps_the_http_server_and_says_why_not_the_other() -> None:
    found = resolve(servers(local=STDIO, far=SAAS), host("go", "mcp_http"))
    assert [outcome.runtime for outcome in found.components] == [None, "mcp_http"]
    assert codes(found) == {"mcp_stdio": "runtime_not_supported"}
    assert found.code == ""


def test_x3_nothing_usable_and_no_skill_is_not_supported() -> None:
    found = resolve(servers(local=STDIO), host("go", "mcp_http"))
    assert found.code == "runtime_not_supported"
    with pytest.raises(ResolutionError, match="runtime_not_supported") as caught:
        found.require()
    assert caught.value.details["components"] == found.as_dict()["components"]


def test_x3_a_skill_is_enough() -> None:
    found = resolve(servers(local=STDIO, skills=(Skill("s", "skills/s", "d"),)), host("go", "mcp_http"))
    assert found.code == ""
    found.require()
    assert found.components[0].runtime is None


def test_c31_a_transport_that_the_host_does_not_speak_takes_down_its_own_server_alone() -> None:
    asking = host("go", transports=frozenset({"stdio", "streamable-http"}))
    found = resolve(servers(old=SSE, new=SAAS, local=STDIO), asking)
    assert [outcome.runtime for outcome in found.components] == [None, "mcp_http", "mcp_stdio"]
    assert codes(found) == {"mcp_http": "server_transport_unsupported"}


def test_a_plugin_that_declares_nothing_is_not_supported_anywhere() -> None:
    found = resolve(servers(), host("python"))
    assert found.as_dict() == {
        "plugin": "demo",
        "version": "1.0.0",
        "code": "runtime_not_supported",
        "components": [],
    }


# --- Keel: one kind, or a user interface with a process


UI = Webview(backend="backend")
BACKEND = Sidecar(argv=("bin/server",))


def test_x4_a_user_interface_without_its_process_is_not_supported_and_names_it() -> None:
    found = resolve(servers(ui=UI, backend=BACKEND), host("go", can_spawn=False))
    assert found.code == "runtime_not_supported"
    assert codes(found, 0) == {"webview": "backend_unavailable"}
    assert codes(found, 1) == {"sidecar": "process_unavailable"}
    assert "`backend`" in found.components[0].refusals[0].reason
    assert [outcome.id for outcome in found.components] == ["ui", "backend"]


def test_a_user_interface_runs_with_its_process_in_whatever_order_they_are_declared() -> None:
    for plugin in (servers(ui=UI, backend=BACKEND), servers(backend=BACKEND, ui=UI)):
        found = resolve(plugin, PROFILES["keel"])
        assert {outcome.id: outcome.runtime for outcome in found.components} == {
            "ui": "webview",
            "backend": "sidecar",
        }


def test_a_user_interface_whose_process_is_not_declared_is_refused() -> None:
    assert codes(resolve(servers(ui=UI), PROFILES["keel"])) == {"webview": "backend_unavailable"}


def test_d26_a_terminal_uses_a_user_interface_by_its_link() -> None:
    terminal = PROFILES["keel-tui"]
    assert terminal.screen == "link"
    assert chosen(resolve(servers(ui=Webview()), terminal)) == "webview"
    found = resolve(servers(ui=Webview()), replace(terminal, screen="none"))
    assert codes(found) == {"webview": "webview_unavailable"}


def test_d1_d3_a_built_in_plugin_is_used_only_by_a_host_that_was_built_with_it() -> None:
    plugin = servers(main=InProcess(entry_point=""))
    found = resolve(plugin, PROFILES["keel"])
    assert codes(found) == {"in_process": "not_built_in"}
    assert found.code == "runtime_not_supported"
    assert chosen(resolve(plugin, replace(PROFILES["keel"], built_in=frozenset({"demo"})))) == "in_process"


# --- ADR 0165: tiers, host classes, the matrix

HOSTED_FORGE = (STDIO, McpHttp(url="https://forge.example/mcp"))
NOTES = (InProcess(entry_point="Notes:Core", language="csharp"), STDIO, LOOPBACK)
IDE = (STDIO, McpHttp(url="http://127.0.0.1:0/mcp"))
IDE_HOST = PROFILES["cascade-ide"]


@pytest.mark.parametrize(
    ("asking", "runtimes", "tier", "expected"),
    [
        pytest.param(PROFILES["cursor"], HOSTED_FORGE, "B", "mcp_stdio", id="B1"),
        pytest.param(PROFILES["cursor"], NOTES, "B", "mcp_stdio", id="B2"),
        pytest.param(PROFILES["claude-desktop"], (STDIO,), "A", "mcp_stdio", id="B3"),
        pytest.param(PROFILES["chatgpt"], HOSTED_FORGE, "B", "mcp_http", id="B4"),
        pytest.param(replace(PROFILES["chatgpt"], tunnel="read-only"), NOTES, "B", "mcp_http", id="B6"),
        pytest.param(IDE_HOST, (STDIO, LOOPBACK), "B", "mcp_http", id="B8"),
        pytest.param(IDE_HOST, NOTES, "B", "in_process", id="B9"),
        pytest.param(IDE_HOST, (STDIO,), "A", "mcp_stdio", id="B10"),
        pytest.param(IDE_HOST, IDE, "B", "mcp_http", id="B11-window-open"),
        pytest.param(replace(IDE_HOST, gui_alive=False), IDE, "B", "mcp_stdio", id="B11-window-closed"),
        pytest.param(
            replace(IDE_HOST, gui_alive=False), (STDIO, LOOPBACK), "B", "mcp_http", id="B8-window-closed"
        ),
        pytest.param(PROFILES["cursor"], IDE, "B", "mcp_stdio", id="B11-external-host"),
    ],
)
def test_the_matrix_of_hosts(
    asking: Host, runtimes: tuple[Runtime, ...], tier: Tier, expected: RuntimeName
) -> None:
    assert chosen(resolve(offer(*runtimes, tier=tier), asking)) == expected


def test_b5_a_web_host_reaches_this_machine_only_after_an_opt_in() -> None:
    found = resolve(offer(*NOTES, tier="B"), PROFILES["chatgpt"])
    assert codes(found)["mcp_http"] == "tunnel_opt_in_required"
    assert found.code == "runtime_not_supported"


def test_b6_the_token_of_a_tunnel_can_only_read() -> None:
    asking = replace(PROFILES["chatgpt"], tunnel="read-write")
    assert codes(resolve(offer(LOOPBACK, tier="B"), asking)) == {"mcp_http": "tunnel_token_not_read_only"}


@pytest.mark.parametrize("tunnel", ["none", "read-only", "read-write"])
@pytest.mark.parametrize("web", ["chatgpt", "claude-ai"])
def test_b7_tier_a_never_reaches_a_web_host_whatever_it_offers(web: str, tunnel: str) -> None:
    asking = host_from(
        {"host": [web], "supports": [",".join(RUNTIMES)], "prefer": ["mcp_http"], "tunnel": [tunnel]}
    )
    found = resolve(offer(PYTHON, STDIO, SAAS, LOOPBACK, tier="A"), asking)
    assert {refusal.code for refusal in found.components[0].refusals} == {"transport_forbidden"}
    assert len(found.components[0].refusals) == 4


def test_b7_forbidden_is_said_before_anything_else() -> None:
    plugin = offer(SAAS, tier="A", core_version="^9", platforms=("x",), capability_kind="k")
    asking = host(
        "go", "sidecar", core_version="1.0", kinds=frozenset({"z"}), platform="y", environment="production"
    )
    assert codes(resolve(plugin, asking)) == {"mcp_http": "transport_forbidden"}


def test_b13_a_desktop_host_misses_the_bridge_of_tier_b() -> None:
    assert codes(resolve(offer(SAAS, tier="B"), PROFILES["cursor"])) == {"mcp_http": "bridge_missing"}
    assert chosen(resolve(offer(SAAS, tier="B"), PROFILES["chatgpt"])) == "mcp_http"
    assert chosen(resolve(offer(SAAS), PROFILES["cursor"])) == "mcp_http"
    assert chosen(resolve(offer(SAAS, tier="C"), PROFILES["cursor"])) == "mcp_http"


def test_b13_the_bridge_may_be_a_component_of_its_own() -> None:
    found = resolve(servers(forge=SAAS, bridge=STDIO, tier="B"), PROFILES["cursor"])
    assert [outcome.runtime for outcome in found.components] == ["mcp_http", "mcp_stdio"]


def test_a_web_host_cannot_start_a_process_even_if_it_says_so() -> None:
    asking = host_from({"host": ["chatgpt"], "supports": ["mcp_stdio"]})
    assert codes(resolve(offer(STDIO), asking)) == {"mcp_stdio": "process_unavailable"}


@pytest.mark.parametrize("host_class", ["desktop", "web", "builtin", None])
def test_x6_tier_a_is_never_reached_over_http_by_any_class(host_class: HostClass | None) -> None:
    asking = Host("h", host_class=host_class, tunnel="read-only")
    assert codes(resolve(servers(far=SAAS, tier="A"), asking)) == {"mcp_http": "transport_forbidden"}


# --- the answer


def test_x10_the_same_question_has_the_same_bytes() -> None:
    def answer() -> bytes:
        plugin = offer(PYTHON, STDIO, SAAS, tier="B")
        asking = host_from(
            {"host": ["cursor"], "language": ["py"], "kind": ["b,a", "c"], "supports": ["mcp_http,mcp_stdio"]}
        )
        return json.dumps(resolve(plugin, asking).as_dict()).encode()

    assert len({answer() for _ in range(20)}) == 1


def test_the_answer_has_the_documented_shape() -> None:
    found = resolve(offer(PYTHON, STDIO), host_from({"language": ["node"]}))
    assert found.as_dict() == {
        "plugin": "echo",
        "version": "1.0.0",
        "components": [
            {
                "id": "main",
                "runtime": "mcp_stdio",
                "refusals": [
                    {
                        "runtime": "in_process",
                        "code": "language_mismatch",
                        "reason": "its code is python, and a typescript host loads typescript code",
                    }
                ],
            }
        ],
    }
    assert found.components[0].index == 1


@pytest.mark.parametrize(
    "asking", [*PROFILES.values(), host("python"), host("go", isolate=True)], ids=lambda h: h.name
)
def test_the_plugin_document_gives_the_same_answers_as_the_manifest(asking: Host) -> None:
    plugins = [
        offer(
            PYTHON,
            STDIO,
            SAAS,
            tier="B",
            core_version="^1",
            capability_kind="tool",
            platforms=("linux-x86_64",),
        ),
        servers(
            ui=UI,
            backend=BACKEND,
            old=SSE,
            near=LOOPBACK,
            bare=McpHttp(url="http://far.example", tls_verify=False),
        ),
        servers(main=InProcess(entry_point="")),
    ]
    for plugin in plugins:
        for facts in ({}, {"core_version": "2.0", "platform": "x"}, {"environment": "production"}):
            asked = replace(asking, **facts)  # type: ignore[arg-type]  # the values are of the fields' types
            assert resolve(through_a_document(plugin), asked) == resolve(plugin, asked)


def through_a_document(plugin: Offer) -> Offer:
    entry = DocumentVersion.model_validate(
        {
            "version": plugin.version,
            "digest": Digest.of(b""),
            "size": 1,
            "published_at": "2026-01-31T12:00:00Z",
            "format": "dagstack",
            "signer": 0,
            "attestations": (),
            "components": tuple(
                DocumentComponent(
                    id=e.id, runtimes=tuple(a.runtime for a in e.alternatives), alternatives=e.alternatives
                )
                for e in plugin.entries
            ),
            "tier": plugin.tier,
            "core_version": plugin.core_version,
            "capability_kind": plugin.capability_kind,
            "platforms": plugin.platforms,
            "counts": Counts(skills=int(plugin.has_skills)),
        }
    )
    return Offer.of_document(plugin.name, DocumentVersion.model_validate_json(entry.model_dump_json()))


def test_an_alternative_travels_without_what_is_as_usual() -> None:
    assert Alternative.of(STDIO).as_dict() == {"runtime": "mcp_stdio"}
    assert Alternative.of(LOOPBACK).as_dict() == {"runtime": "mcp_http", "reach": "loopback"}


def test_a_document_that_names_only_runtimes_is_judged_by_them() -> None:
    component = DocumentComponent(id="main", runtimes=("in_process", "mcp_stdio"))
    plugin = Offer("echo", "1.0.0", (Entry("main", tuple(Alternative(r) for r in component.runtimes)),))
    assert chosen(resolve(plugin, host("python"))) == "mcp_stdio"


# --- the words of a question


@pytest.mark.parametrize(
    ("alias", "language"),
    [("node", "typescript"), ("js", "typescript"), ("JavaScript", "typescript"), ("ts", "typescript"), ("py", "python"),
     ("golang", "go"), ("rs", "rust"), ("cs", "csharp"), ("C#", "csharp"), ("dotnet", "csharp"), ("java", "java")],
)  # fmt: skip
def test_languages_have_other_names(alias: str, language: str) -> None:
    assert normal_language(alias) == language
    assert host_from({"language": [alias]}) == Host(language, language)


def test_every_language_has_every_runtime() -> None:
    for language in LANGUAGES:
        assert host_from({"language": [language]}).supports is None


def test_words_are_read_repeated_and_separated_by_commas() -> None:
    words = {
        "language": ["python"],
        "supports": ["mcp_stdio, in_process", "mcp_http"],
        "prefer": ["mcp_http,mcp_stdio"],
    }
    asking = host_from(words)
    assert asking.supports == frozenset[RuntimeName]({"mcp_stdio", "in_process", "mcp_http"})
    assert asking.prefer == ("mcp_http", "mcp_stdio")


def test_a_set_that_was_given_replaces_the_profile_and_an_empty_one_supports_nothing() -> None:
    asking = host_from({"host": ["cursor"], "supports": ["in_process"], "language": ["python"]})
    assert asking.supports == frozenset[RuntimeName]({"in_process"})
    assert host_from({"language": ["python"], "supports": [""]}).supports == frozenset()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({}, "host_missing"),
        ({"language": ["pyhton"]}, "language_unknown"),
        ({"host": ["curser"]}, "host_unknown"),
        ({"language": ["go"], "supports": ["in-process"]}, "runtime_unknown"),
        ({"language": ["go"], "prefer": ["stdio"]}, "runtime_unknown"),
        ({"language": ["go"], "core_version": ["new"]}, "core_version_invalid"),
        ({"language": ["go"], "isolate": ["maybe"]}, "setting_invalid"),
        ({"language": ["go"], "tunnel": ["yes"]}, "setting_invalid"),
        ({"language": ["go"], "kind": ["k" * 65]}, "setting_invalid"),
    ],
)
def test_a_question_that_cannot_be_understood_is_the_askers_fault(
    words: dict[str, list[str]], code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        host_from(words)
    assert caught.value.code == code
    assert caught.value.hint
