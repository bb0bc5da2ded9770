"""Before a start: the registry is asked quickly what it revokes, and what was once seen counts for good."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg import starting
from plugreg_schemas.fields import format_time
from tests.support.attacked import Person, Scene, attacked
from tests.support.commands import SCHEMAS, User, write_plugin
from tests.support.offers import PUBLISHED_AT, plugin_files
from tests.support.registries import registry_environment, running
from tests.support.scripted import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.scripted import Answer, Request

SERVER = {"one": {"type": "stdio", "command": "python3", "args": ["-c", "pass"]}}
STARTS = (("plan", "demo"), ("tools", "demo"), ("call", "demo", "one", "x"))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """`demo` is installed from a registry over HTTP that was never added."""
    with attacked(tmp_path) as scene:
        mcp = json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": SERVER})
        files = plugin_files("demo", "1.0.0", {"mcp.json": mcp})
        scene.offers.publish(scene.author, "demo", "1.0.0", files)
        scene.index.take(scene.offers)
        scene.run("install", "demo")
        yield scene


def revoke(scene: Scene, level: str, **more: Any) -> None:
    now = format_time(datetime.now(UTC))
    row = {"kind": "name", "value": "demo", "level": level, "reason": "steals tokens", "at": now, **more}
    scene.index.revocations.append(row)
    scene.index.publish()


def planned(person: Person) -> tuple[list[str], list[str], str]:
    """The names of servers and the codes of skipped ones in a plan, and what was said."""
    code, said, complained = person.raw("plan", "demo", "--json")
    assert code == 0
    (plugin,) = json.loads(said)["plugins"]
    servers = [row["name"] for row in plugin["servers"]]
    return servers, [row["error"]["code"] for row in plugin["skipped"]], complained


def test_what_is_not_revoked_starts_without_a_word(scene: Scene) -> None:
    assert planned(scene.person) == (["one"], [], "")


@pytest.mark.parametrize("level", ["disable", "refuse"])
def test_what_is_disabled_or_refused_is_not_started_and_stays_with_its_data(scene: Scene, level: str) -> None:
    revoke(scene, level)
    assert planned(scene.person)[:2] == ([], ["revoked"])
    for words in STARTS[1:]:
        code, problem = scene.person.fails(*words)
        assert (code, problem["code"], problem["level"]) == (6, "revoked", level)
        assert "steals tokens" in problem["detail"]
    assert scene.person.installed() == {"demo": "1.0.0"}
    assert (scene.person.root / ".data/demo").is_dir()


def test_a_warning_does_not_stop_a_start(scene: Scene) -> None:
    revoke(scene, "warn")
    servers, skipped, said = planned(scene.person)
    assert (servers, skipped) == (["one"], [])
    assert said.startswith("warning: `demo 1.0.0` is revoked")
    assert "not started" not in said


def test_an_entry_that_was_seen_counts_when_it_is_served_no_more(scene: Scene) -> None:
    revoke(scene, "disable")
    planned(scene.person)
    scene.index.revocations.clear()
    scene.index.publish()
    assert planned(scene.person)[1] == ["revoked"]
    revoke(scene, "disable", expires="2026-01-01T00:00:00Z")  # closed by an entry, as it should be
    assert planned(scene.person)[0] == ["one"]


def test_an_entry_that_was_seen_counts_when_nothing_is_served(scene: Scene) -> None:
    revoke(scene, "disable")
    planned(scene.person)
    scene.index.store.clear()
    assert planned(scene.person)[1] == ["revoked"]


def test_an_entry_that_an_installation_saw_counts_at_the_start(scene: Scene) -> None:
    revoke(scene, "disable")
    scene.run("update")
    scene.index.store.clear()
    assert planned(scene.person)[1] == ["revoked"]


def test_a_registry_that_is_gone_stops_no_start(scene: Scene) -> None:
    scene.index.store.clear()
    assert planned(scene.person)[0] == ["one"]


def test_a_registry_that_does_not_answer_costs_its_seconds_and_no_more(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "BUDGET_S", 0.3)

    def slow(request: Request) -> Answer:
        time.sleep(4)
        return scene.index.answer(request)

    with serving(slow) as server:
        scene.person.run("registry", "list")
        write_registries(scene.person, scene.offers.ref.id, server.url)
        began = time.monotonic()
        assert planned(scene.person)[0] == ["one"]
        assert time.monotonic() - began < 3


def write_registries(person: Person, registry: str, url: str) -> None:
    person.home.mkdir(exist_ok=True)
    known = {"registries": [{"id": registry, "url": url, "name": "team"}]}
    (person.home / "registries.json").write_text(json.dumps(known))


def test_a_registry_is_found_by_its_id_where_it_is_known_now(scene: Scene) -> None:
    with serving(scene.index.answer) as moved:
        write_registries(scene.person, scene.offers.ref.id, moved.url)
        revoke(scene, "disable")
        before = len(scene.server.requests)
        assert planned(scene.person)[1] == ["revoked"]
        assert len(scene.server.requests) == before
        assert moved.requests


def test_a_start_pins_no_root(scene: Scene) -> None:
    shutil.rmtree(scene.person.home / "index")
    assert planned(scene.person) == (["one"], [], "")
    assert not list((scene.person.home / "index").rglob("pinned/*"))


def test_an_index_that_cannot_be_relied_on_is_said_and_what_was_seen_counts(scene: Scene) -> None:
    revoke(scene, "disable")
    planned(scene.person)
    scene.index.store["index/metadata/timestamp.json"] = b"{}"
    _, skipped, said = planned(scene.person)
    assert skipped == ["revoked"]
    assert "warning: what is revoked now cannot be told" in said


def test_a_list_that_has_expired_is_warned_of_online(scene: Scene) -> None:
    scene.index.lifetimes["revocations"] = timedelta(days=-1)
    revoke(scene, "warn")
    servers, _, said = planned(scene.person)
    assert servers == ["one"]
    assert "warning: nothing says what is revoked now" in said


def test_how_old_the_list_is_is_said_where_nobody_can_be_asked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.index.store.clear()
    assert "not reached" not in scene.person.raw("plan", "demo")[2]
    monkeypatch.setattr(starting, "LIFETIME", timedelta(seconds=-1))
    assert "what it revokes was last read 0 days ago" in scene.person.raw("plan", "demo")[2]


def test_info_and_resolve_know_what_is_revoked(scene: Scene) -> None:
    scene.publish("1.1.0")
    (row,) = (v for v in json.loads(scene.offers.document("demo"))["versions"] if v["version"] == "1.1.0")
    revoke(scene, "refuse", kind="digest", value=row["digest"])
    found = scene.run("info", "demo")
    assert (found["version"], found["verdict"]) == ("1.1.0", "verified")
    assert found["revoked"] == {
        "kind": "digest",
        "value": row["digest"],
        "level": "refuse",
        "reason": "steals tokens",
    }
    assert "revoked    refuse: steals tokens" in scene.person.raw("info", "demo", "--registry", scene.url)[1]
    words = ("resolve", "demo", "--language", "python", "--registry", scene.url)
    assert json.loads(scene.person.raw(*words, "--json")[1])["version"] == "1.0.0"
    revoke(scene, "refuse")
    code, problem = scene.person.fails(*words)
    assert (code, problem["code"]) == (6, "revoked")


def test_list_shows_the_times_that_were_recorded(scene: Scene) -> None:
    (row,) = scene.run("list")["plugins"]
    assert row["published_at"] == PUBLISHED_AT
    assert row["signed_at"] is None
    assert row["index_time"] is not None


def test_nobody_is_asked_about_a_plugin_in_a_folder(scene: Scene, tmp_path: Path) -> None:
    before = len(scene.server.requests)
    scene.person.run("plan", str(write_plugin(tmp_path / "own", servers=SERVER)))
    assert len(scene.server.requests) == before


def test_verify_reads_no_list(scene: Scene) -> None:
    revoke(scene, "refuse")
    before = len(scene.server.requests)
    assert scene.person.run("verify")["plugins"][0]["verdict"] == "verified"
    assert len(scene.server.requests) == before


def test_an_operator_revokes_and_takes_it_back_and_users_obey(tmp_path: Path) -> None:
    """Everything real: two programs, a registry that runs, a stolen key."""
    ann = User(tmp_path / "ann")
    key = ann.run("key", "new")["id"]
    with running(tmp_path / "registry") as registry:

        def operate(*words: str) -> None:
            command = [sys.executable, "-m", "plugreg_registry", "revoke", *words]
            subprocess.run(
                [*command, "--data", str(registry.data)], env=registry_environment(), check=True, text=True
            )

        ann.run("registry", "add", registry.url, "--name", "team")
        ann.run("publish", str(write_plugin(tmp_path / "demo", servers=SERVER)))
        ann.run("install", "demo")
        assert ann.run("plan", "demo")["plugins"][0]["skipped"] == []
        operate("signer", key, "--level", "refuse", "--reason", "the key was stolen")
        assert ann.run("plan", "demo")["plugins"][0]["skipped"][0]["error"]["code"] == "revoked"
        assert "the key was stolen" in ann.fails("tools", "demo", code=6)["detail"]
        bob = User(tmp_path / "bob")
        assert bob.fails("install", "demo", "--registry", registry.url, code=6)["code"] == "revoked"
        operate("signer", key, "--level", "refuse", "--reason", "stolen", "--before", "2199-01-01T00:00:00Z")
        bob.run("install", "demo", "--registry", registry.url)
        assert ann.run("plan", "demo")["plugins"][0]["skipped"] == []
        operate("name", "demo", "--level", "disable", "--reason", "steals")
        ann.run("plan", "demo")
    assert ann.run("plan", "demo")["plugins"][0]["skipped"][0]["error"]["code"] == "revoked"
    assert ann.run("verify")["plugins"][0]["verdict"] == "verified"
