"""Running a plugin's servers for real: handshake, tools, calls, failures, and what is left afterwards."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from plugreg.launch import Terms
from plugreg.run import Target, call_tool, list_tools, plan
from plugreg_schemas import formats
from plugreg_schemas.errors import InvalidInput, NotAvailable, PlugregError, ResolutionError, Temporary
from plugreg_schemas.manifest import Component, Manifest, Skill
from plugreg_schemas.runtimes import InProcess, McpHttp, McpStdio
from plugreg_schemas.tree import DirectoryTree
from tests.servers.place import ECHO, HOSTILE, ends, host_env, left_running, place, python, terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugreg_schemas.manifest import Tier
    from plugreg_schemas.runtimes import Runtime

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="starting processes is not supported on Windows"
)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After every test no process that we started runs."""
    yield
    assert left_running(os.getpid()) == []


def hostile(folder: Path, *ways: str, env: Mapping[str, str] | None = None) -> Target:
    return place(folder, {"s": python(HOSTILE, *ways, env=env)})


def where(target: Target, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Ask the echo server how it was started."""
    return dict(shown(call_tool(target, "s", "where", {}, terms=terms(env=env)), "structuredContent"))


def shown(answer: Mapping[str, object], key: str) -> Any:
    """Return a member of a JSON answer, to be taken apart by the test."""
    return answer[key]


def text_of(result: dict[str, object]) -> str:
    return str(shown(result, "content")[0]["text"])


def record(target: Target) -> list[str]:
    return (target.data / "record").read_text().splitlines()


class TestHowAServerIsStarted:
    def test_t17_exact_strings_reach_the_server(self, tmp_path: Path) -> None:
        """F1, F3, F4: both placeholders expanded in arguments and values, everything else literal."""
        args = (
            "${PLUGIN_ROOT}/a:${PLUGIN_ROOT}",
            "${PLUGIN_DATA}",
            "${HOME}",
            "$PATH",
            "${plugin_root}",
            "a b",
            "",
        )
        env = {"BOTH": "${PLUGIN_ROOT};${PLUGIN_DATA}", "LITERAL": "${HOME}"}
        target = place(tmp_path, {"s": python(ECHO, *args, env=env)})
        seen = where(target)
        root, data = str(target.root), str(target.data)
        assert seen["argv"] == [f"{root}/a:{root}", data, "${HOME}", "$PATH", "${plugin_root}", "a b", ""]
        child_env = seen["env"]
        assert child_env["BOTH"] == f"{root};{data}"
        assert child_env["LITERAL"] == "${HOME}"
        assert (child_env["PLUGIN_ROOT"], child_env["PLUGIN_DATA"]) == (root, data)
        assert seen["cwd"] == root
        assert seen["data_writable"] is True

    @pytest.mark.parametrize(
        ("cwd", "expected"),
        [("./sub", "root/sub"), ("${PLUGIN_DATA}/w", "data/w"), ("${PLUGIN_ROOT}", "root")],
    )
    def test_c23_the_server_runs_in_its_working_directory(
        self, tmp_path: Path, cwd: str, expected: str
    ) -> None:
        (tmp_path / "root" / "sub").mkdir(parents=True)
        target = place(tmp_path, {"s": python(ECHO, cwd=cwd)})
        assert where(target)["cwd"] == str(tmp_path / expected)

    def test_c34_h12_the_child_has_what_the_plan_shows_and_no_secret(self, tmp_path: Path) -> None:
        secrets = (
            "AWS_SECRET_ACCESS_KEY",
            "PLUGREG_TOKEN",
            "OPENAI_API_KEY",
            "NODE_OPTIONS",
            "NPM_TOKEN",
            "PGPASSWORD",
        )
        target = place(tmp_path, {"s": python(ECHO, env={"LANG": "C", "MINE": "1"})})
        host = {**dict.fromkeys(secrets, "s3cret"), "LC_TIME": "C.UTF-8", "HTTPS_PROXY": "http://p:1"}
        child_env = where(target, host)["env"]
        assert not set(secrets) & set(child_env)
        assert {"PATH", "HOME", "LC_TIME", "HTTPS_PROXY", "MINE"} <= set(child_env)
        assert (child_env["LANG"], child_env["PYTHONUTF8"]) == ("C", "1")

    def test_t14_a_path_with_shell_characters_starts_and_argv_arrives_unchanged(self, tmp_path: Path) -> None:
        """F6: a `./` command in a folder whose name a shell would take apart."""
        odd = "My Plugins (x86)&$HOME'\""
        args = ("a&b", "%PATH%", "C:\\x\\y", 'q"r', "", "$HOME", "`id`", "*")
        target = place(tmp_path, {"s": McpStdio(argv=("./bin/server", *args), expand=True)}, root=odd)
        (target.root / "bin").mkdir()
        program = target.root / "bin" / "server"
        program.write_text(f"#!/usr/bin/env python\n{Path(ECHO).read_text()}")
        program.chmod(0o755)
        seen = where(target)
        assert seen["argv"] == list(args)
        assert seen["program"] == str(program)
        assert seen["cwd"] == str(target.root)

    def test_the_third_party_server_as_a_bare_command(self, tmp_path: Path) -> None:
        """PyPI `mcp-server-time`, found on the PATH of the host."""
        target = place(
            tmp_path, {"time": McpStdio(argv=("mcp-server-time", "--local-timezone", "UTC"), expand=True)}
        )
        arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        result = call_tool(target, "time", "convert_time", arguments, terms=terms())
        assert result["isError"] is False
        assert "21:00:00+09:00" in text_of(result)


class TestAnswers:
    def test_tools_are_listed_as_mcp_describes_them(self, tmp_path: Path) -> None:
        target = place(tmp_path, {"s": python(ECHO)})
        (server,) = shown(list_tools(target, terms=terms()), "servers")
        names = [tool["name"] for tool in server["tools"]]
        assert names == ["where", "say", "fail"]
        assert server["tools"][1]["inputSchema"]["required"] == ["text"]

    def test_a_tool_that_fails_is_a_result(self, tmp_path: Path) -> None:
        result = call_tool(place(tmp_path, {"s": python(ECHO)}), "s", "fail", {}, terms=terms())
        assert result["isError"] is True
        assert text_of(result).startswith("Error executing tool fail")

    def test_h7_text_arrives_byte_for_byte_in_a_host_without_utf8(self, tmp_path: Path) -> None:
        target = place(tmp_path, {"s": python(ECHO)})
        result = call_tool(
            target,
            "s",
            "say",
            {"text": "Độ 🎉"},
            terms=terms(env={"LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}),
        )
        assert text_of(result) == "Độ 🎉"

    def test_a_large_answer_arrives(self, tmp_path: Path) -> None:
        result = call_tool(hostile(tmp_path), "s", "say", {"text": "x" * 8_000_000}, terms=terms())
        assert len(text_of(result)) > 8_000_000

    @pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
    def test_servers_of_the_handshake_era(self, tmp_path: Path, version: str) -> None:
        target = hostile(tmp_path, "ancient", env={"WIRE_VERSION": version})
        assert text_of(call_tool(target, "s", "say", {"n": 1}, terms=terms())) == '{"n": 1}'

    def test_a_server_that_only_speaks_2026_07_28(self, tmp_path: Path) -> None:
        target = hostile(tmp_path, "modern")
        assert text_of(call_tool(target, "s", "say", {"n": 1}, terms=terms())) == '{"n": 1}'

    def test_a_server_that_speaks_no_version_we_know(self, tmp_path: Path) -> None:
        with pytest.raises(NotAvailable, match="server_unavailable"):
            list_tools(hostile(tmp_path, env={"WIRE_VERSION": "2099-01-01"}), terms=terms())


class TestHostileServers:
    def test_h3_a_flood_of_log_before_the_first_answer(self, tmp_path: Path) -> None:
        assert list_tools(hostile(tmp_path, "flood"), terms=terms())

    def test_h6_text_on_stdout_is_skipped(self, tmp_path: Path) -> None:
        target = hostile(tmp_path, "print")
        assert text_of(call_tool(target, "s", "say", {"t": "Độ"}, terms=terms())) == '{"t": "Độ"}'

    def test_h6_text_on_stdout_is_quoted_when_nothing_else_came(self, tmp_path: Path) -> None:
        with pytest.raises(NotAvailable) as failure:
            list_tools(hostile(tmp_path, "print", "exit"), terms=terms())
        assert (
            "4 lines on its stdout were not messages, the first was `Welcome to the server`"
            in failure.value.message
        )

    def test_h4_c32_a_server_that_exits_at_once_is_explained(self, tmp_path: Path) -> None:
        with pytest.raises(NotAvailable) as failure:
            list_tools(hostile(tmp_path, "exit"), terms=terms())
        assert failure.value.code == "server_unavailable"
        assert failure.value.message.endswith("(exit code 3); the end of its log:\nno API key")
        assert failure.value.details == {"exit_code": 3, "stderr": "no API key"}

    def test_h4_the_end_of_a_long_log_is_quoted_without_control_characters(self, tmp_path: Path) -> None:
        with pytest.raises(NotAvailable) as failure:
            list_tools(hostile(tmp_path, "flood", "exit"), terms=terms())
        assert "the last words[2J\nno API key" in failure.value.message
        assert len(failure.value.message) < 9_000

    def test_h4_c32_a_silent_server_is_given_up_and_killed_while_others_work(self, tmp_path: Path) -> None:
        servers = {
            "silent": python(HOSTILE, "silent", "stubborn"),
            "exits": python(HOSTILE, "exit"),
            "fine": python(ECHO),
        }
        patience = terms(startup_timeout_s=10, grace_s=0.2, term_s=0.2)
        found = shown(list_tools(place(tmp_path, servers), terms=patience), "servers")
        assert [(server["name"], "tools" in server) for server in found] == [
            ("silent", False),
            ("exits", False),
            ("fine", True),
        ]
        assert found[0]["error"]["code"] == "server_unavailable"
        assert "did not answer `initialize` within 10 s" in found[0]["error"]["detail"]

    def test_no_server_works(self, tmp_path: Path) -> None:
        servers = {"a": python(HOSTILE, "exit"), "b": McpStdio(argv=("no-such-launcher",), expand=True)}
        with pytest.raises(NotAvailable) as failure:
            list_tools(place(tmp_path, servers), terms=terms())
        assert failure.value.code == "servers_unavailable"
        named = shown(failure.value.details, "servers")
        assert [server["error"]["code"] for server in named] == ["server_unavailable", "launcher_missing"]

    def test_a_crash_during_a_call_is_explained(self, tmp_path: Path) -> None:
        with pytest.raises(NotAvailable) as failure:
            call_tool(hostile(tmp_path, "crash"), "s", "say", {}, terms=terms())
        assert (
            "ended during the request (exit code 7); the end of its log:\nout of memory"
            in failure.value.message
        )

    def test_h5_a_call_that_is_never_answered_times_out(self, tmp_path: Path) -> None:
        patience = Terms(host_env=terms().host_env, call_timeout_s=1, grace_s=0.2, term_s=0.2)
        with pytest.raises(Temporary, match="call_timeout"):
            call_tool(hostile(tmp_path, "hang"), "s", "say", {"text": "x" * 1_000_000}, terms=patience)

    def test_t19_h8_a_clean_end_is_waited_for(self, tmp_path: Path) -> None:
        target = hostile(tmp_path, "clean")
        list_tools(target, terms=terms(grace_s=20))
        assert record(target) == ["clean"]

    def test_a_server_that_ignores_the_end_and_sigterm_is_killed(self, tmp_path: Path) -> None:
        assert list_tools(hostile(tmp_path, "stubborn"), terms=terms(grace_s=0.2, term_s=0.2))

    @pytest.mark.parametrize("ways", [("spawn",), ("spawn_clean",), ("spawn", "exit")], ids=" ".join)
    def test_t19_h2_a_helper_in_its_own_session_does_not_survive(
        self, tmp_path: Path, ways: tuple[str, ...]
    ) -> None:
        """Without the tag it is found as long as the server lives, with it also after the server's crash."""
        target = hostile(tmp_path, *ways)
        if "exit" in ways:
            with pytest.raises(NotAvailable):
                list_tools(target, terms=terms())
        else:
            list_tools(target, terms=terms())
        pid = int(record(target)[0].split()[1])
        assert ends(pid)

    @pytest.mark.parametrize(
        ("line", "works"),
        [("exec 3<&0; python {} <&3 & wait", True), ("python {} & wait", False), ("python {}", True)],
    )
    def test_t19_h1_a_shell_in_between(self, tmp_path: Path, line: str, works: bool) -> None:
        """A shell gives a background process an empty stdin, unless told otherwise."""
        target = place(tmp_path, {"s": McpStdio(argv=("sh", "-c", line.format(HOSTILE)), expand=True)})
        if works:
            assert list_tools(target, terms=terms())
        else:
            with pytest.raises(NotAvailable, match="server_unavailable"):
                list_tools(target, terms=terms())

    @pytest.mark.parametrize("ways", [("stubborn",), ("hang", "spawn"), ("silent",)], ids=" ".join)
    def test_t19_sigterm_to_plugreg_in_the_middle_of_a_call(
        self, tmp_path: Path, ways: tuple[str, ...]
    ) -> None:
        code = (
            "import sys; from pathlib import Path\n"
            "from plugreg.run import call_tool\n"
            "from tests.servers.place import HOSTILE, place, python, terms\n"
            "target = place(Path(sys.argv[1]), {'s': python(HOSTILE, 'hang', *sys.argv[2:])})\n"
            "call_tool(target, 's', 'say', {}, terms=terms(grace_s=0.2, term_s=0.2))\n"
        )
        repository = Path(__file__).parents[2]
        host = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), *ways], cwd=repository, stderr=-1)
        while not left_running(host.pid) and host.poll() is None:
            pass
        host.terminate()
        _, log = host.communicate(timeout=60)
        assert (host.returncode, log) == (143, b"")
        assert left_running(host.pid) == []


class TestErrorsOfTheCaller:
    def test_an_unknown_server(self, tmp_path: Path) -> None:
        with pytest.raises(NotAvailable, match="server_unknown") as failure:
            call_tool(place(tmp_path, {"main": python(ECHO)}), "mian", "say", {}, terms=terms())
        assert "`main`" in failure.value.hint

    def test_an_unknown_tool_is_rejected_by_the_server(self, tmp_path: Path) -> None:
        target = place(tmp_path, {"time": McpStdio(argv=("mcp-server-time",), expand=True)})
        with pytest.raises(InvalidInput, match="call_rejected") as failure:
            call_tool(target, "time", "no_such_tool", {}, terms=terms())
        assert "no_such_tool" in failure.value.message

    def test_a_runtime_that_plugreg_does_not_run(self, tmp_path: Path) -> None:
        with pytest.raises(ResolutionError, match="runtime_not_supported"):
            list_tools(place(tmp_path, {"s": InProcess(entry_point="a:B")}), terms=terms())

    def test_a_plugin_without_servers_has_no_tools(self, tmp_path: Path) -> None:
        assert list_tools(place(tmp_path, {}), terms=terms()) == {"servers": []}


class TestPlan:
    def test_it_shows_exactly_what_the_server_gets(self, tmp_path: Path) -> None:
        target = place(
            tmp_path,
            {"s": python(ECHO, "${PLUGIN_DATA}", env={"A": "${PLUGIN_ROOT}"}, cwd="${PLUGIN_DATA}/w")},
        )
        env = dict(terms().host_env)
        (plugin,) = shown(plan(target, host_env=env), "plugins")
        (server,) = plugin["servers"]
        assert not target.data.exists()
        seen = where(target)
        child_env = seen["env"]
        assert server["env"] == {name: value for name, value in child_env.items() if name != "PLUGREG_RUN"}
        assert server["cwd"] == seen["cwd"]
        assert server["args"] == [seen["program"], *seen["argv"]]
        assert set(server) == {"name", "type", "command", "args", "env", "cwd"}
        assert Path(server["command"]).is_absolute()

    def test_t18_f9_one_bad_entry_takes_no_other_down(self, tmp_path: Path) -> None:
        servers: dict[str, Runtime] = {
            "good": python(ECHO),
            "swapped": McpStdio(argv=("./bin/server",), expand=True),
            "missing": McpStdio(argv=("no-such-launcher", "${PLUGIN_ROOT}"), expand=True),
            "remote": McpHttp(url="https://example.com/mcp", headers={"X-A": "1"}),
        }
        target = place(tmp_path, servers)
        (target.root / "bin").mkdir()
        (target.root / "bin" / "server").symlink_to("/bin/sh")
        (plugin,) = shown(plan(target, host_env=terms().host_env), "plugins")
        good, missing, remote = plugin["servers"]
        assert (good["name"], "error" in good) == ("good", False)
        assert (missing["command"], missing["args"]) == ("no-such-launcher", [str(target.root)])
        assert missing["error"]["code"] == "launcher_missing"
        assert remote == {
            "name": "remote",
            "type": "streamable-http",
            "url": "https://example.com/mcp",
            "headers": {"X-A": "1"},
        }
        assert [(s["name"], s["error"]["code"]) for s in plugin["skipped"]] == [("swapped", "command_escape")]
        with pytest.raises(PlugregError, match="command_escape"):
            list_tools(target, "swapped", terms=terms())
        assert list_tools(target, "good", terms=terms())

    def test_t18_what_the_reader_keeps_runs_and_the_rest_is_reported(self, tmp_path: Path) -> None:
        schema = "https://agent-plugins.org/schemas/1.0.0/{}.schema.json"
        good = {"type": "stdio", "command": "python", "args": [HOSTILE]}
        servers = {
            "good": good,
            "kind": {"type": "websocket", "url": "wss://h/"},
            "field": {**good, "surprise": 1},
            "args": {**good, "args": "-v"},
        }
        target = place(tmp_path, {})
        manifest = {"$schema": schema.format("plugin"), "name": "demo"}
        (target.root / "plugin.json").write_text(json.dumps(manifest))
        mcp = {"$schema": schema.format("mcp"), "mcpServers": servers}
        (target.root / "mcp.json").write_text(json.dumps(mcp))
        reading = formats.read(DirectoryTree(target.root))
        assert reading.manifest is not None
        pointers = {finding.pointer for finding in reading.findings}
        assert all(any(p.startswith(f"/mcpServers/{n}") for p in pointers) for n in ("kind", "field", "args"))
        target = Target("demo", target.root, target.data, reading.manifest)
        assert [server["name"] for server in list_tools(target, terms=terms())["servers"]] == ["good"]

    def test_skills_are_shown_by_their_place(self, tmp_path: Path) -> None:
        target = place(tmp_path, {})
        manifest = Manifest(format="agent-plugins", name="demo", skills=(Skill("a", "skills/a", "does a"),))
        (plugin,) = shown(plan(Target("demo", target.root, target.data, manifest)), "plugins")
        assert plugin["skills"] == [{"name": "a", "path": f"{target.root}/skills/a"}]
        assert (plugin["root"], plugin["data"]) == (str(target.root), str(target.data))


class Stub(BaseHTTPRequestHandler):
    """An HTTP server that answers as it was told and keeps what it was sent."""

    protocol_version = "HTTP/1.1"
    status: ClassVar[int] = 200
    location: ClassVar[str] = ""
    seen: ClassVar[list[tuple[str, dict[str, str]]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if self.location and not self.path.startswith("/inside"):
            self.reply(307, b"", Location=self.location)
        elif self.status != 200:
            self.reply(self.status, b"")
        else:
            self.answer(json.loads(body))

    def answer(self, request: dict[str, object]) -> None:
        if "id" not in request:
            self.reply(202, b"")
            return
        info = {"name": "stub", "version": "1"}
        if request["method"] == "tools/call":
            self.close_connection = True
            return
        started = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        result = started if request["method"] == "initialize" else {"tools": []}
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode())

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Keep the test output clean."""


@contextmanager
def stub(status: int = 200, location: str = "") -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Serve a stub on a free port of loopback; yield its address and what it is sent."""
    kind = type("Told", (Stub,), {"status": status, "location": location, "seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", shown(vars(kind), "seen")
        finally:
            server.shutdown()
            thread.join()


class TestRemote:
    HEADERS: ClassVar = {
        "X-Team": "blue",
        "Accept": "text/html",
        "Host": "evil.example",
        "MCP-Session-Id": "forged",
    }

    def test_f11_a_server_is_reached_with_its_headers_and_ours_win(self, tmp_path: Path) -> None:
        with stub() as (url, seen):
            target = place(tmp_path, {"r": McpHttp(url=f"{url}/mcp", headers=self.HEADERS)})
            assert list_tools(target, terms=terms()) == {"servers": [{"name": "r", "tools": []}]}
        for path, headers in seen:
            assert path == "/mcp"
            assert headers["x-team"] == "blue"
            assert headers["host"] == url.removeprefix("http://")
            assert {"application/json", "text/event-stream"} <= set(headers["accept"].split(", "))
            assert headers.get("mcp-session-id") != "forged"

    def test_the_official_server_over_http(self, tmp_path: Path) -> None:
        code = (
            "import uvicorn; from tests.servers.echo import server\n"
            "uvicorn.run(server.streamable_http_app(), port=0, log_level='info')"
        )
        command = [sys.executable, "-c", code]
        repository = Path(__file__).parents[2]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=repository) as remote:
            try:
                assert remote.stderr is not None
                url = next(
                    line.split()[line.split().index("on") + 1]
                    for line in remote.stderr
                    if "running on" in line
                )
                target = place(tmp_path, {"r": McpHttp(url=f"{url}/mcp")})
                assert text_of(call_tool(target, "r", "say", {"text": "Độ"}, terms=terms())) == "Độ"
            finally:
                remote.terminate()

    def test_c33_a_redirect_to_another_origin_gets_no_headers_at_all(self, tmp_path: Path) -> None:
        with stub() as (elsewhere, stolen), stub(location=f"{elsewhere}/inside") as (url, seen):
            target = place(tmp_path, {"r": McpHttp(url=f"{url}/mcp", headers={"X-Key": "s3cret"})})
            with pytest.raises(NotAvailable) as failure:
                list_tools(target, terms=terms())
            assert seen[0][1]["x-key"] == "s3cret"
            assert stolen == []
        assert elsewhere in failure.value.message
        assert "s3cret" not in failure.value.message

    def test_c33_a_redirect_within_the_origin_is_followed(self, tmp_path: Path) -> None:
        with stub(location="/inside") as (url, seen):
            target = place(tmp_path, {"r": McpHttp(url=f"{url}/mcp", headers={"X-Key": "k"})})
            assert list_tools(target, terms=terms())
        assert {headers["x-key"] for path, headers in seen if path == "/inside"} == {"k"}

    @pytest.mark.parametrize("status", [401, 403, 500, 503, 404])
    def test_c32_a_refusal_is_one_unavailable_server(self, tmp_path: Path, status: int) -> None:
        with stub(status) as (url, seen):
            servers: dict[str, Runtime] = {
                "r": McpHttp(url=f"{url}/mcp", headers={"X-Key": "s3cret"}),
                "fine": python(ECHO),
            }
            found = shown(list_tools(place(tmp_path, servers), terms=terms()), "servers")
        assert found[0]["error"]["code"] == "server_unavailable"
        assert f"HTTP status {status}" in found[0]["error"]["detail"]
        assert "s3cret" not in json.dumps(found)
        assert "tools" in found[1]
        assert len(seen) <= (1 if status != 404 else 3)

    def test_nobody_listens(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with stub() as (url, _):
            pass
        target = place(tmp_path, {"r": McpHttp(url=f"{url}/mcp", headers={"X-Key": "s3cret"})})
        with pytest.raises(NotAvailable, match="server_unavailable"):
            list_tools(target, terms=terms())
        assert "s3cret" not in caplog.text

    def test_a_connection_cut_in_the_middle_of_a_call(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with stub() as (url, _):
            target = place(tmp_path, {"r": McpHttp(url=f"{url}/mcp")})
            with pytest.raises(NotAvailable, match="server_unavailable") as failure:
                call_tool(target, "r", "any", {}, terms=terms())
            gc.collect()  # what nobody looked at is reported now
        assert "ended during the request" in failure.value.message
        assert [entry for entry in caplog.records if entry.name == "asyncio"] == []

    def test_c31_sse_is_refused_and_siblings_load(self, tmp_path: Path) -> None:
        servers: dict[str, Runtime] = {
            "old": McpHttp(url="http://127.0.0.1:9/sse", transport="sse"),
            "fine": python(ECHO),
        }
        found = shown(list_tools(place(tmp_path, servers), terms=terms()), "servers")
        assert found[0]["error"]["code"] == "server_transport_unsupported"
        assert "tools" in found[1]

    def test_a_secret_of_the_host_is_sent_as_declared(self, tmp_path: Path) -> None:
        with stub() as (url, seen):
            plain = McpHttp(url=url, auth_secret_env="MY_KEY")
            remote = McpHttp(url=url, auth_header="X-API-Token", auth_secret_env="MY_KEY")
            for runtime in (plain, remote):
                list_tools(place(tmp_path, {"r": runtime}), terms=terms(env={"MY_KEY": "k3y"}))
            with pytest.raises(NotAvailable, match="secret_missing"):
                list_tools(place(tmp_path, {"r": remote}), terms=terms())
        assert {headers["authorization"] for _, headers in seen if "authorization" in headers} == {
            "Bearer k3y"
        }
        assert {headers["x-api-token"] for _, headers in seen if "x-api-token" in headers} == {"k3y"}


def test_importing_the_operations_does_not_import_the_sdk() -> None:
    code = "import sys, plugreg.run; print([m for m in ('mcp', 'httpx2', 'anyio', 'jsonschema') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def alternatives(folder: Path, *runtimes: Runtime, tier: Tier | None = None) -> Target:
    """A plugin with one component that has these runtimes."""
    target = place(folder, {})
    manifest = Manifest("dagstack", "demo", components=(Component("s", runtimes),), tier=tier)
    return Target("demo", target.root, target.data, manifest)


FAR = McpHttp(url="https://far.example/mcp")
NEAR = McpHttp(url="http://127.0.0.1:1/mcp")


@pytest.mark.parametrize(
    ("runtimes", "tier", "used"),
    [
        ((FAR, python(ECHO)), None, "streamable-http"),
        ((NEAR, python(ECHO)), None, "stdio"),
        ((FAR, python(ECHO)), "A", "stdio"),
        ((FAR, python(ECHO)), "B", "stdio"),
        ((McpHttp(url="https://far.example/sse", transport="sse"), python(ECHO)), None, "stdio"),
        ((InProcess(entry_point="a:B"), NEAR), None, "streamable-http"),
    ],
    ids=["service", "loopback", "tier-a", "tier-b", "sse", "in-process"],
)
def test_the_plan_shows_the_one_runtime_that_resolve_chooses(
    tmp_path: Path, runtimes: tuple[Runtime, ...], tier: Tier | None, used: str
) -> None:
    """Whatever stands first in the declaration."""
    for declared in (runtimes, runtimes[::-1]):
        (plugin,) = shown(plan(alternatives(tmp_path, *declared, tier=tier), host_env=host_env()), "plugins")
        assert [(server["name"], server["type"]) for server in plugin["servers"]] == [("s", used)]
        assert plugin["skipped"] == []


def test_a_component_that_cannot_be_used_is_skipped_with_every_refusal(tmp_path: Path) -> None:
    target = alternatives(tmp_path, InProcess(entry_point="a:B"), FAR, tier="A")
    (plugin,) = shown(plan(target, host_env=host_env()), "plugins")
    (skipped,) = plugin["skipped"]
    assert (skipped["name"], skipped["error"]["code"]) == ("s", "runtime_not_supported")
    assert [(r["runtime"], r["code"]) for r in skipped["error"]["refusals"]] == [
        ("in_process", "runtime_not_supported"),
        ("mcp_http", "transport_forbidden"),
    ]
    with pytest.raises(ResolutionError, match="tier A") as failure:
        call_tool(target, "s", "say", {}, terms=terms())
    assert len(failure.value.details["refusals"]) == 2  # type: ignore[arg-type]


def test_a_component_with_one_runtime_is_skipped_with_the_code_of_its_refusal(tmp_path: Path) -> None:
    (plugin,) = shown(plan(alternatives(tmp_path, FAR, tier="A"), host_env=host_env()), "plugins")
    assert plugin["skipped"][0]["error"]["code"] == "transport_forbidden"


def test_components_with_alternatives_use_the_first_that_can_be_run(tmp_path: Path) -> None:
    target = place(tmp_path, {})
    component = Component("s", (InProcess(entry_point="a:B"), python(ECHO)))
    target = Target("demo", target.root, target.data, Manifest("dagstack", "demo", components=(component,)))
    assert text_of(call_tool(target, "s", "say", {"text": "hi"}, terms=terms())) == "hi"
