"""The main job from outside: a registry process, `plugreg` processes, fresh folders; exit codes and files are checked."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.commands import User, write_plugin
from tests.support.publisher import Author as Publisher
from tests.support.publisher import Key, plugin
from tests.support.registries import running
from tests.support.stolen_keys import StolenKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.registries import RegistryProcess

STOPPED_S = 3

WRITER = """#!/usr/bin/env python3
import json, os, sys
from pathlib import Path
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, said = asked["method"], asked.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": said["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        (Path(os.environ["PLUGIN_DATA"]) / "db").write_bytes(os.urandom(1 << 20))
        result = {"content": [{"type": "text", "text": "written"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
WRITING: dict[str, Any] = {
    "servers": {"main": {"type": "stdio", "command": "./bin/server"}},
    "files": {"bin/server": WRITER},
}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with running(tmp_path / "registry") as process:
        yield process


def person(folder: Path, *registries: RegistryProcess, key: bool = True) -> User:
    """A new user who knows these registries as r0, r1, ... and has a key."""
    user = User(folder)
    for number, process in enumerate(registries):
        user.run("registry", "add", process.url, "--name", f"r{number}")
    if key:
        user.run("key", "new")
    return user


@pytest.fixture
def ann(tmp_path: Path, registry: RegistryProcess) -> User:
    return person(tmp_path / "ann", registry)


def test_third_party_server_is_published_installed_and_called(tmp_path: Path, ann: User) -> None:
    servers = {"time": {"type": "stdio", "command": "mcp-server-time", "args": ["--local-timezone", "UTC"]}}
    ann.run("publish", str(write_plugin(tmp_path / "clock", "clock", servers=servers)))
    installed = ann.run("install", "clock")["installed"][0]
    assert installed["launchers"] == ["mcp-server-time"]
    listed = ann.run("tools", "clock")["servers"][0]["tools"]
    assert {"get_current_time", "convert_time"} <= {tool["name"] for tool in listed}
    answer = ann.run(
        "call",
        "clock",
        "time",
        "convert_time",
        json.dumps({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    )
    assert "21:00" in answer["content"][0]["text"]


def test_t01_a_version_is_never_replaced(tmp_path: Path, ann: User, registry: RegistryProcess) -> None:
    first = ann.run("publish", str(write_plugin(tmp_path / "a")))
    before = (registry.objects / "index/plugins/demo.json").read_bytes()
    refused = ann.fails("publish", str(write_plugin(tmp_path / "b", files={"other.txt": "B"})), code=6)
    assert refused["code"] == "version_exists"
    assert refused["digest"] == first["digest"]
    assert (registry.objects / "index/plugins/demo.json").read_bytes() == before
    assert ann.run("install", "demo")["installed"][0]["digest"] == first["digest"]
    assert ann.run("publish", str(tmp_path / "a"))["already"]


def test_t04_and_c35_data_survives_updates_and_uninstall_until_it_is_purged(
    tmp_path: Path, ann: User
) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        ann.run("publish", str(write_plugin(tmp_path / version, version=version, **WRITING)))
    ann.run("install", "demo@1.0.0")
    ann.run("call", "demo", "main", "write")
    database = ann.root / ".data" / "demo" / "db"
    written = hashlib.sha256(database.read_bytes()).hexdigest()
    for reference in ("demo@1.1.0", "demo@^1", "demo@1.0.0"):
        ann.run("install", reference)
        assert hashlib.sha256(database.read_bytes()).hexdigest() == written
    gone = ann.run("uninstall", "demo")["uninstalled"][0]
    assert gone["data"] == str(database.parent)
    assert not (ann.root / "demo").exists()
    ann.run("install", "demo")
    assert hashlib.sha256(database.read_bytes()).hexdigest() == written
    ann.run("uninstall", "demo", "--purge-data")
    assert not database.parent.exists()


def test_t06_names_that_look_alike_live_side_by_side_in_one_root(
    tmp_path: Path, registry: RegistryProcess
) -> None:
    with running(tmp_path / "other") as other:
        ann = person(tmp_path / "ann", registry, other)
        dotted = write_plugin(tmp_path / "dotted", "acme.tools", **WRITING)
        dashed = write_plugin(tmp_path / "dashed", "acme-tools", **WRITING)
        ann.run("publish", str(dotted), "--registry", "r0")
        assert ann.fails("publish", str(dashed), "--registry", "r0", code=6)["code"] == "name_lookalike"
        ann.run("publish", str(dashed), "--registry", "r1")
        rows = ann.run("install", "acme.tools", "acme-tools")["installed"]
        assert len({row["root"] for row in rows}) == len({row["data"] for row in rows}) == 2
        for row in rows:
            [server] = ann.run("tools", row["name"])["servers"]
            assert [tool["name"] for tool in server["tools"]] == ["write"]


def test_t07_declared_command_runs_after_install_whatever_its_mode_was(tmp_path: Path, ann: User) -> None:
    folder = write_plugin(tmp_path / "p", **WRITING)
    (folder / "bin/server").chmod(0o644)
    ann.run("publish", str(folder))
    root = ann.run("install", "demo")["installed"][0]["root"]
    assert (ann.root / "demo" / "bin" / "server").stat().st_mode & 0o777 == 0o755
    assert ann.run("plan", "demo")["plugins"][0]["servers"][0]["command"] == f"{root}/bin/server"
    assert ann.run("call", "demo", "main", "write")["content"][0]["text"] == "written"


def test_t18_and_c32_one_bad_server_takes_nothing_else_down(tmp_path: Path, ann: User) -> None:
    servers = {
        **WRITING["servers"],
        "unknown": {"type": "http", "url": "https://example.com/mcp"},
        "extra": {"type": "stdio", "command": "python3", "shell": True},
        "wrong": {"type": "stdio", "command": "python3", "args": "x"},
        "dies": {"type": "stdio", "command": "false"},
    }
    folder = write_plugin(tmp_path / "p", servers=servers, files=WRITING["files"])
    checked = ann.run("check", str(folder))
    assert {row["name"] for row in checked["servers"] if row["verdict"] == "load"} == {"main", "dies"}
    assert {f["pointer"].split("/")[2] for f in checked["findings"] if f["code"] == "server_invalid"} == {
        "unknown",
        "extra",
        "wrong",
    }
    ann.run("publish", str(folder))
    ann.run("install", "demo")
    outcome = {row["name"]: row for row in ann.run("tools", "demo")["servers"]}
    assert outcome["main"]["tools"][0]["name"] == "write"
    assert outcome["dies"]["error"]["code"] == "server_unavailable"


def test_t18_servers_of_another_schema_version_are_off_and_the_plugin_installs(
    tmp_path: Path, ann: User
) -> None:
    folder = write_plugin(tmp_path / "p", **WRITING)
    text = (folder / "mcp.json").read_text().replace("schemas/1.0.0", "schemas/1.1.0")
    (folder / "mcp.json").write_text(text)
    ann.run("publish", str(folder))
    ann.run("install", "demo")
    assert ann.run("plan", "demo")["plugins"][0]["servers"] == []


def test_yanked_version_is_not_chosen_and_an_exact_request_gets_it_with_a_warning(
    tmp_path: Path, ann: User
) -> None:
    for version in ("1.0.0", "1.1.0"):
        ann.run("publish", str(write_plugin(tmp_path / version, version=version)))
    ann.run("yank", "demo@1.1.0", "--reason", "loses data")
    assert ann.run("install", "demo")["installed"][0]["version"] == "1.0.0"
    exact = ann.raw("install", "demo@1.1.0")
    assert exact.returncode == 0
    assert "loses data" in exact.stdout + exact.stderr
    [row] = ann.run("list")["plugins"]
    assert (row["status"], row["reason"]) == ("yanked", "loses data")
    ann.run("unyank", "demo@1.1.0")
    assert ann.run("info", "demo")["version"] == "1.1.0"


def test_new_owner_publishes_and_pinned_users_follow_a_stranger_is_refused(
    tmp_path: Path, ann: User, registry: RegistryProcess
) -> None:
    bob, eve, user = (person(tmp_path / name, registry) for name in ("bob", "eve", "user"))
    ann.run("publish", str(write_plugin(tmp_path / "1", version="1.0.0")))
    user.run("install", "demo")
    next_one = str(write_plugin(tmp_path / "2", version="1.1.0"))
    assert eve.fails("publish", next_one, code=6)["code"] == "not_owner"
    assert eve.fails("yank", "demo@1.0.0", "--reason", "mine now", code=6)["code"] == "not_owner"
    bob_id = bob.run("key", "show")["id"]
    ann.run("owner", "add", "demo", bob_id)
    bob.run("publish", next_one)
    [row] = user.run("update")["installed"]
    assert (row["version"], row["change"]) == ("1.1.0", "updated")
    assert (
        ann.fails("owner", "remove", "demo", eve.run("key", "show")["id"], code=3)["code"]
        == "statement_without_effect"
    )
    bob.run("owner", "remove", "demo", ann.run("key", "show")["id"])
    assert bob.fails("owner", "remove", "demo", bob_id, code=6)["code"] == "last_owner"
    assert [row["words"] for row in user.run("owner", "list", "demo")["owners"]] == [bob_id]


def test_same_name_of_another_registry_never_gets_the_data(tmp_path: Path, registry: RegistryProcess) -> None:
    with running(tmp_path / "other") as other:
        ann, eve = person(tmp_path / "ann", registry), person(tmp_path / "eve", other)
        ann.run("publish", str(write_plugin(tmp_path / "p", **WRITING)))
        eve.run("publish", str(write_plugin(tmp_path / "q", version="99.0.0", **WRITING)))
        user = person(tmp_path / "user", registry, other, key=False)
        assert user.fails("install", "demo", code=6)["code"] == "name_in_several_registries"
        user.run("install", "demo", "--registry", "r0")
        assert user.run("update")["installed"][0]["version"] == "1.0.0"
        assert user.fails("install", "demo", "--registry", "r1", code=6)["code"] == "registry_changed"
        user.run("uninstall", "demo")
        refused = user.fails("install", "demo", "--registry", "r1", "--yes", code=6)
        assert refused["code"] == "data_belongs_to_other_signer"
        accept = ("--accept-registry", other.id, "--accept-signer", eve.run("key", "show")["id"])
        assert user.run("install", "demo", "--registry", "r1", *accept)["installed"][0]["version"] == "99.0.0"


def test_statement_for_another_registry_is_refused(
    tmp_path: Path, ann: User, registry: RegistryProcess
) -> None:
    """The attestation of one registry, served by another: copied store, other id, an index of its own."""
    ann.run("publish", str(write_plugin(tmp_path / "p")))
    with running(tmp_path / "other") as other:
        for kind in ("blobs", "attestations"):
            shutil.copytree(registry.objects / kind, other.objects / kind, dirs_exist_ok=True)
        document = (registry.objects / "index/plugins/demo.json").read_bytes()
        StolenKeys(other.data).serve("demo", document)
        user = person(tmp_path / "user", other, key=False)
        assert user.fails("install", "demo", code=4)["code"] == "registry_mismatch"


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "name": (lambda d: d.update(name="other"), "document_mismatch"),
    "version": (lambda d: d["versions"][0].update(version="2.0.0"), "release_mismatch"),
    "digest": (lambda d: d["versions"][0].update(digest="sha256:" + "0" * 64), "release_mismatch"),
    "owner": (
        lambda d: d["owners"].append({"kind": "key", "id": "sha256:" + "0" * 64}),
        "document_contradicts_history",
    ),
    "yank": (lambda d: d["versions"][0].update(yanked=True, reason="x"), "document_contradicts_history"),
    "status": (lambda d: d["status"].update(state="removed"), "document_contradicts_history"),
    "unsigned": (lambda d: d["versions"][0].update(attestations=[]), "unsigned"),
    "history": (lambda d: d.update(history=["sha256:" + "0" * 64]), "attestation_missing"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_changed_document_served_anyway_is_refused(
    tmp_path: Path, ann: User, registry: RegistryProcess, what: str
) -> None:
    ann.run("publish", str(write_plugin(tmp_path / "p")))
    change, code = CHANGES[what]
    StolenKeys(registry.data).change("demo", change)
    done = ann.raw("install", "demo", "--json")
    assert json.loads(done.stdout)["error"]["code"] == code
    assert done.returncode == {"unsigned": 6, "attestation_missing": 7}.get(code, 4)
    assert not (ann.root / "demo").exists()


def test_one_byte_changed_in_what_is_served_is_refused_and_named(
    tmp_path: Path, ann: User, registry: RegistryProcess
) -> None:
    ann.run("publish", str(write_plugin(tmp_path / "p", **WRITING)))
    [bundle] = (registry.objects / "blobs/sha256").iterdir()
    [attestation] = (registry.objects / "attestations/sha256").iterdir()
    for path, code in ((attestation, "attestation_altered"), (bundle, "digest_mismatch")):
        content = path.read_bytes()
        for place in (0, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            assert ann.fails("install", "demo", code=4)["code"] == code
            assert not (ann.root / "demo").exists()
        path.write_bytes(content)
    ann.run("install", "demo")
    tree = ann.root / "demo" / "bin" / "server"
    tree.write_bytes(tree.read_bytes() + b"#")
    refused = ann.fails("verify", code=4)
    assert "bin/server" in json.dumps(refused)


def test_publish_needs_no_more_than_one_of_the_keys_and_says_which_there_are(
    tmp_path: Path, ann: User
) -> None:
    ann.run("key", "new", "second", "--algorithm", "ecdsa-p256")
    folder = str(write_plugin(tmp_path / "p"))
    refused = ann.fails("publish", folder, code=2)
    assert refused["code"] == "key_ambiguous"
    assert "default" in refused["detail"]
    assert "second" in refused["detail"]
    assert ann.run("publish", folder, "--key", "second")["signer"]["kind"] == "key"


def test_secrets_are_not_published_unless_told(tmp_path: Path, ann: User, registry: RegistryProcess) -> None:
    folder = str(write_plugin(tmp_path / "p", files={".env": "TOKEN=1", "id_rsa": "x"}))
    refused = ann.fails("publish", folder, code=3)
    assert refused["code"] == "sensitive_file"
    assert {item["file"] for item in refused["errors"]} == {".env", "id_rsa"}
    assert not list((registry.objects / "blobs/sha256").iterdir())
    ann.run("publish", folder, "--allow-sensitive")


def test_release_of_a_former_owner_is_installed_where_the_index_dates_it_before_the_removal(
    tmp_path: Path, ann: User, registry: RegistryProcess
) -> None:
    bob, user = person(tmp_path / "bob", registry), person(tmp_path / "user", registry, key=False)
    ann.run("publish", str(write_plugin(tmp_path / "1", version="1.0.0")))
    user.run("install", "demo")
    ann.run("owner", "add", "demo", bob.run("key", "show")["id"])
    bob.run("owner", "remove", "demo", ann.run("key", "show")["id"])
    late, later = (person(tmp_path / name, registry, key=False) for name in ("late", "later"))
    assert late.run("install", "demo")["installed"][0]["version"] == "1.0.0"
    assert user.run("update")["installed"][0]["change"] == "unchanged"

    def undated(document: dict[str, Any]) -> None:
        document["versions"][0]["published_at"] = "2999-01-01T00:00:00Z"

    StolenKeys(registry.data).change("demo", undated)
    assert later.fails("install", "demo", code=7)["code"] == "no_trusted_time"
    assert later.run("info", "demo")["verdict"] == "no_trusted_time"


def test_server_that_imports_its_own_modules_leaves_the_signed_tree_as_it_is(
    tmp_path: Path, ann: User
) -> None:
    files: dict[str, str | bytes] = {
        "bin/server": WRITER.replace("import json", "import beside\nimport json", 1),
        "bin/beside.py": "",
    }
    ann.run("publish", str(write_plugin(tmp_path / "p", servers=WRITING["servers"], files=files)))
    ann.run("install", "demo")
    ann.run("call", "demo", "main", "write")
    assert ann.run("verify")["plugins"][0]["verdict"] == "verified"


def test_t12_many_commands_at_once_in_one_root(tmp_path: Path, ann: User, registry: RegistryProcess) -> None:
    """Eight install one plugin, then sixteen install a plugin each; one of them is stopped for a while."""
    names = [f"p{number}" for number in range(16)]
    publisher = Publisher(registry.url, registry.id, Key())
    for name in ["demo", *names]:
        assert publisher.publish(plugin(name, "1.0.0"), name, "1.0.0").status == 201
    same = [ann.start("install", "demo") for _ in range(8)]
    assert [ann.end(process).returncode for process in same] == [0] * 8
    different = [ann.start("install", name) for name in names]
    different[0].send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)  # whoever it holds up waits for it
    different[0].send_signal(signal.SIGCONT)
    assert [ann.end(process).returncode for process in different] == [0] * 16
    assert {row["name"] for row in ann.run("list")["plugins"]} == {"demo", *names}
    assert {row["verdict"] for row in ann.run("verify")["plugins"]} == {"verified"}
