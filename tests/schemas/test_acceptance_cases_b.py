"""ADR 0165 as a host meets it: the matrix to the exact address, and the settings `[mcp]` of a host (B1-B11, B14-B16, B22-B25)."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas import wire_names
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.errors import UsageError
from plugreg_schemas.hosts import PROFILES
from plugreg_schemas.ide_settings import IdeSettings, Loopback, read_ide_settings
from plugreg_schemas.manifest import Component, Manifest
from plugreg_schemas.resolve import resolve
from plugreg_schemas.runtimes import InProcess, McpHttp, McpStdio
from plugreg_schemas.wire_names import MAX_SERVER, MAX_WIRE, wire_name

if TYPE_CHECKING:
    from plugreg_schemas.hosts import Host

SERVERS = {
    "forge": ("B", (McpHttp(url="http://127.0.0.1:8770/mcp"), McpStdio(argv=("AgentForge.Mcp",)))),
    "hosted-forge": ("B", (McpHttp(url="https://forge.example/mcp"), McpStdio(argv=("AgentForge.Mcp",)))),
    "notes": (
        "B",
        (
            McpHttp(url="http://127.0.0.1:8791/mcp"),
            InProcess(entry_point="AgentNotes:Core", language="csharp"),
            McpStdio(argv=("agent-notes-mcp", "--config", "notes.toml")),
        ),
    ),
    "ide": ("B", (McpHttp(url="http://127.0.0.1:0/mcp"), McpStdio(argv=("CascadeIDE", "--mcp-stdio")))),
    "roslyn": ("A", (McpStdio(argv=("roslyn-mcp",)),)),
    "dotnet-debug": ("A", (McpStdio(argv=("dotnet-debug-mcp",)), McpHttp(url="https://debug.example/mcp"))),
}
WEB, IDE = PROFILES["chatgpt"], PROFILES["cascade-ide"]


def used(server: str, asking: Host) -> str:
    """What the host would start, load or connect to; a code for each refusal where it uses nothing."""
    tier, runtimes = SERVERS[server]
    manifest = Manifest("dagstack", server, components=(Component("main", runtimes),), tier=tier)  # type: ignore[arg-type]
    (outcome,) = resolve(Offer.of(manifest), asking).components
    if outcome.index is None:
        return " ".join(sorted({refusal.code for refusal in outcome.refusals}))
    runtime = runtimes[outcome.index]
    if isinstance(runtime, McpStdio):
        return " ".join(runtime.argv)
    return runtime.url if isinstance(runtime, McpHttp) else runtime.entry_point


@pytest.mark.parametrize(
    ("asking", "server", "expected"),
    [
        pytest.param(PROFILES["cursor"], "forge", "AgentForge.Mcp", id="B1"),
        pytest.param(PROFILES["cursor"], "notes", "agent-notes-mcp --config notes.toml", id="B2"),
        pytest.param(PROFILES["claude-desktop"], "roslyn", "roslyn-mcp", id="B3"),
        pytest.param(WEB, "hosted-forge", "https://forge.example/mcp", id="B4"),
        pytest.param(replace(WEB, tunnel="read-only"), "notes", "http://127.0.0.1:8791/mcp", id="B6"),
        pytest.param(WEB, "dotnet-debug", "transport_forbidden", id="B7"),
        pytest.param(
            replace(WEB, tunnel="read-only", supports=None, prefer=("mcp_http",), can_spawn=True),
            "dotnet-debug",
            "transport_forbidden",
            id="B7-whatever-it-offers",
        ),
        pytest.param(IDE, "forge", "http://127.0.0.1:8770/mcp", id="B8"),
        pytest.param(IDE, "notes", "AgentNotes:Core", id="B9"),
        pytest.param(IDE, "roslyn", "roslyn-mcp", id="B10"),
        pytest.param(IDE, "ide", "http://127.0.0.1:0/mcp", id="B11-window-open"),
        pytest.param(replace(IDE, gui_alive=False), "ide", "CascadeIDE --mcp-stdio", id="B11-window-closed"),
    ],
)  # fmt: skip
def test_what_a_host_uses_of_a_server(asking: Host, server: str, expected: str) -> None:
    assert used(server, asking) == expected


def test_b5_without_an_opt_in_there_is_no_tunnel_and_no_other_way() -> None:
    refused = used("notes", WEB).split()
    assert refused == ["runtime_not_supported", "tunnel_opt_in_required"]


# --- the table [mcp]


def unreadable(path: str) -> bytes:
    raise FileNotFoundError(path)


def settings(lines: str) -> IdeSettings:
    return read_ide_settings(f"[mcp]\n{lines}\n".encode(), unreadable)


def listed(*servers: object) -> str:
    return f"external_servers_json = '{json.dumps(servers)}'"


def refusal(lines: str) -> UsageError:
    with pytest.raises(UsageError) as refused:
        settings(lines)
    return refused.value


def test_without_settings_everything_is_as_usual() -> None:
    usual = IdeSettings(Loopback(enabled=True, bind="127.0.0.1", port=0, rotate="session"), "loopback", True)
    assert read_ide_settings(b"", unreadable) == usual
    assert read_ide_settings(b"[editor]\nsaved = 2024-01-01\n", unreadable) == usual


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.4", "localhost", "", "::1%eth0"])  # noqa: S104
def test_b14_the_host_serves_this_machine_alone(address: str) -> None:
    found = refusal(f'loopback_bind = "{address}"')
    assert found.code == "loopback_bind_forbidden"
    assert [finding.pointer for finding in found.findings] == ["/mcp/loopback_bind"]
    assert "`mcp.loopback_bind`" in found.message


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1"])
def test_b14_addresses_of_this_machine_are_taken(address: str) -> None:
    assert settings(f'loopback_bind = "{address}"').loopback.bind == address


def test_b15_port_0_is_kept_for_the_server_to_choose() -> None:
    assert settings("loopback_port = 0").loopback.port == 0


@pytest.mark.parametrize(
    "line",
    [
        "loopback_port = 70000",
        "loopback_port = -1",
        'loopback_port = "1"',
        "loopback_port = true",
        'loopback_token_rotate = "daily"',
        'acp_ide_mcp_transport = "pipe"',
        "acp_auto_inject_ide_mcp = 1",
        "loopback_enabled = 'yes'",
        "external_servers_json = []",
        "external_servers_json = '{}'",
        "external_servers_json = '['",
    ],
)
def test_b16_a_setting_that_cannot_be_is_named(line: str) -> None:
    found = refusal(line)
    key = line.partition(" ")[0]
    assert [finding.pointer for finding in found.findings] == [f"/mcp/{key}"]
    assert f"`mcp.{key}`" in found.message
    assert found.code == ("json_invalid" if line.endswith("'['") else "setting_invalid")


def test_b16_every_fault_is_told_at_once() -> None:
    wrong = listed(
        {},
        3,
        {"type": "pipe"},
        {"name": "a", "command": "c", "z": 1},
        {"type": "sse", "name": "b", "url": "x"},
    )
    found = refusal(f'loopback_bind = "::"\nloopback_port = -1\nacp_ide_mcp_transport = "pipe"\n{wrong}')
    assert found.code == "setting_invalid"
    assert [finding.pointer.removeprefix("/mcp/") for finding in found.findings] == [
        "loopback_port",
        "acp_ide_mcp_transport",
        "loopback_bind",
        "external_servers_json/0/name",
        "external_servers_json/0/command",
        "external_servers_json/1",
        "external_servers_json/2",
        "external_servers_json/3/z",
        "external_servers_json/4/url",
    ]


@pytest.mark.parametrize(
    "content", [b"[mcp", b"mcp = 3", b"\xff\xfe", b"[mcp]\nx = 2024-01-01", b"#" * (2 << 20), b"a." * 200_000]
)
def test_what_is_no_settings_file_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError) as refused:
        read_ide_settings(content, unreadable)
    assert refused.value.findings


def test_values_never_stand_in_messages() -> None:
    found = refusal(
        listed({"name": "a", "command": "c", "env": {"TOKEN": 1, "B": ["s3cr3t"]}, "toolPrefix": "s3cr3t-"})
    )
    assert len(found.findings) == 3
    assert "s3cr3t" not in str([str(finding) for finding in found.findings])


def test_an_unknown_setting_is_passed_over_with_a_warning() -> None:
    assert [(f.code, f.pointer) for f in settings("later = 1").warnings] == [
        ("unknown_field_ignored", "/mcp/later")
    ]


MINE = {"name": "cascade-ide", "command": "my-ide", "arguments": ["--mine"]}


def test_b22_what_the_user_wrote_goes_before_what_is_added() -> None:
    (only,) = settings(f"acp_auto_inject_ide_mcp = true\n{listed(MINE)}").offered("/opt/ide")
    assert isinstance(only.runtime, McpStdio)
    assert (only.name, only.runtime.argv) == ("cascade-ide", ("my-ide", "--mine"))


def test_b22_a_disabled_entry_keeps_the_name_free() -> None:
    assert settings(listed(MINE | {"enabled": False})).offered("/opt/ide") == ()


def test_b23_the_host_adds_itself() -> None:
    (only,) = settings("acp_auto_inject_ide_mcp = true").offered("/opt/ide")
    assert isinstance(only.runtime, McpStdio)
    assert (only.name, only.runtime.argv, only.prefix) == ("cascade-ide", ("/opt/ide", "--mcp-stdio"), "ide_")
    assert settings("acp_auto_inject_ide_mcp = false").offered("/opt/ide") == ()


def test_b23_the_servers_of_a_session_are_those_of_the_user_and_then_the_host() -> None:
    lines = listed(
        {"name": "a", "command": "x", "args": ["1"], "env": {"K": "v"}, "toolPrefix": "a_"},
        {"name": "b", "type": "http", "url": "https://b.example/mcp", "headers": {"X-A": "1"}},
        {"name": "c", "type": "sse", "url": "https://c.example/sse", "enabled": False},
        {"name": "a", "command": "y"},
    )
    found = settings(lines)
    a, b, own = found.offered("/opt/ide")
    assert (a.name, a.runtime, a.prefix) == (
        "a",
        McpStdio(argv=("x", "1"), env={"K": "v"}, cwd_base="host_cwd"),
        "a_",
    )
    assert (b.name, b.runtime) == ("b", McpHttp(url="https://b.example/mcp", headers={"X-A": "1"}))
    assert own.name == "cascade-ide"
    assert [finding.code for finding in found.warnings] == ["server_duplicate"]


BOTH = f'external_servers_json_path = "servers.json"\n{listed({"name": "inline", "command": "x"})}'


def test_b24_a_file_that_cannot_be_read_leaves_the_servers_in_the_settings() -> None:
    found = settings(BOTH)
    assert [server.name for server in found.servers] == ["inline"]
    assert [finding.code for finding in found.warnings] == ["external_servers_unreadable"]


def test_b24_a_file_that_can_be_read_replaces_them() -> None:
    asked = []

    def read(path: str) -> bytes:
        asked.append(path)
        return b'[{"name": "filed", "command": "x"}]'

    found = read_ide_settings(f"[mcp]\n{BOTH}".encode(), read)
    assert [server.name for server in found.servers] == ["filed"]
    assert (asked, found.warnings) == (["servers.json"], ())


def test_b24_a_file_that_is_wrong_is_not_passed_over() -> None:
    with pytest.raises(UsageError) as refused:
        read_ide_settings(f"[mcp]\n{BOTH}".encode(), lambda _: b'[{"name": "x"}]')
    assert [(f.file, f.pointer) for f in refused.value.findings] == [("servers.json", "/0/command")]


@pytest.mark.parametrize(
    ("lines", "gui_alive", "expected"),
    [
        ("", True, "loopback"),
        ("", False, "stdio"),
        ("loopback_enabled = false", True, "stdio"),
        ('acp_ide_mcp_transport = "stdio"', True, "stdio"),
    ],
)
def test_b11_an_agent_in_the_host_uses_loopback_while_the_window_is_open(
    lines: str, gui_alive: bool, expected: str
) -> None:
    assert settings(lines).own_transport(gui_alive=gui_alive) == expected


# --- names on the wire


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param("intercom.reveal_attachment", "ide_intercom_reveal_attachment", id="B25"),
        pytest.param("open-file", "ide_open_file", id="B25-hyphen"),
        pytest.param("ä/b c", "ide___b_c", id="B25-other"),
        pytest.param("x" * 45, "ide_" + "x" * 45, id="B25-60-together"),
        pytest.param("x" * 46, "ide_" + "x" * 36 + "_404e0d6b", id="B25-61-together"),
    ],
)
def test_b25_names_on_the_wire(tool: str, expected: str) -> None:
    assert wire_name("cascade-ide", tool, "ide_") == expected


@pytest.mark.parametrize("server", ["s", "cascade-ide", "s" * MAX_SERVER])
def test_b25_a_long_name_gets_an_alias_that_is_short_stable_and_its_own(server: str) -> None:
    long = [f"{'group.' * 30}tool_{n}" for n in range(500)]
    found = wire_names.wire_names(server, long)
    assert len(set(found.values())) == 500
    assert all(len(server) + len(name) <= MAX_WIRE for name in found.values())
    assert found == wire_names.wire_names(server, reversed(long))
    assert all(wire_name(server, tool) == name for tool, name in found.items())


def test_b25_two_tools_are_never_called_alike() -> None:
    found = wire_names.wire_names("s", ["a.b", "a_b", "a-b", "c.d"])
    assert (found["a_b"], found["c.d"]) == ("a_b", "c_d")
    assert len(set(found.values())) == 4


def test_a_server_whose_name_leaves_no_place_for_tools_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        wire_name("s" * (MAX_SERVER + 1), "x")
    assert refused.value.code == "server_name_too_long"


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(wire_names) == (0, 1)
