"""Agent Plugins from the manifest to what would be started: arguments, environment, folder (C14, C23-C26, C31, C34)."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.environment import launch_of
from plugreg_schemas import formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.hosts import PROFILES
from plugreg_schemas.resolve import resolve
from plugreg_schemas.runtimes import McpStdio
from plugreg_schemas.tree import MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg.environment import Launch
    from plugreg_schemas.manifest import Reading

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
PLUGIN = json.dumps({"$schema": f"{SCHEMAS}/plugin.schema.json", "name": "demo"})


def read(**servers: object) -> Reading:
    document = json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers})
    return formats.read(MemoryTree.of({"plugin.json": PLUGIN, "mcp.json": document}))


def started(root: Path, data: Path, host: dict[str, str] | None = None, **fields: Any) -> Launch:
    """What would be started of the one server of a plugin in `root`."""
    manifest = read(a={"type": "stdio", "command": "node", **fields}).manifest
    assert manifest is not None
    (component,) = manifest.components
    (runtime,) = component.runtimes
    assert isinstance(runtime, McpStdio)
    root.mkdir(exist_ok=True)
    return launch_of("a", runtime, root, data, host or {}, find=lambda command, _: f"/bin/{command}")


def test_c1_and_c14_a_plugin_without_servers_is_no_fault_and_of_no_use() -> None:
    for reading in (formats.read(MemoryTree.of({"plugin.json": PLUGIN})), read()):
        assert (reading.ok, reading.findings, reading.servers) == (True, (), ())
        assert reading.manifest is not None
        assert resolve(Offer.of(reading.manifest), PROFILES["cursor"]).code == "runtime_not_supported"


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        pytest.param(None, "root", id="C23-omitted"),
        pytest.param("./", "root", id="C23-dot"),
        pytest.param("${PLUGIN_DATA}/work", "data/work", id="C23-data"),
    ],
)
def test_c23_where_a_server_starts(tmp_path: Path, cwd: str | None, expected: str) -> None:
    fields: dict[str, Any] = {} if cwd is None else {"cwd": cwd}
    assert started(tmp_path / "root", tmp_path / "data", **fields).cwd == tmp_path / expected


def test_c25_both_of_two_tokens_are_replaced_and_the_rest_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    args = ["${PLUGIN_ROOT}/a:${PLUGIN_ROOT}", "${HOME}", "../x"]
    found = started(root, tmp_path / "data", {"HOME": "/home/u"}, args=args)
    assert found.argv == ("/bin/node", f"{root}/a:{root}", "${HOME}", "../x")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows folders cannot be called like this")
def test_c26_inserted_text_is_not_looked_at_again(tmp_path: Path) -> None:
    data = tmp_path / "${PLUGIN_ROOT}" / "data"
    found = started(tmp_path / "root", data, args=["${PLUGIN_DATA}"])
    assert found.argv[1] == str(data)


def test_c31_sse_is_refused_alone() -> None:
    manifest = read(
        old={"type": "sse", "url": "https://h/sse"}, new={"type": "streamable-http", "url": "https://h/mcp"}
    ).manifest
    assert manifest is not None
    old, new = resolve(Offer.of(manifest), PROFILES["codex"]).components
    assert (old.runtime, [refusal.code for refusal in old.refusals]) == (
        None,
        ["server_transport_unsupported"],
    )
    assert new.runtime == "mcp_http"


def test_c34_the_plugins_environment_lies_over_the_hosts_and_root_and_data_come_last(tmp_path: Path) -> None:
    root, data = tmp_path / "root", tmp_path / "data"
    host = {"LANG": "C", "HOME": "/home/u", "PLUGIN_ROOT": "/evil", "TOKEN": "secret"}
    found = started(root, data, host, env={"LANG": "de_DE.UTF-8", "CACHE": "${PLUGIN_DATA}/c"})
    assert found.env["LANG"] == "de_DE.UTF-8"
    assert found.env["HOME"] == "/home/u"
    assert found.env["CACHE"] == f"{data}/c"
    assert (found.env["PLUGIN_ROOT"], found.env["PLUGIN_DATA"]) == (str(root), str(data))
    assert os.path.isabs(found.env["PLUGIN_ROOT"])  # noqa: PTH117 - the text itself is what counts
    assert "TOKEN" not in found.env
