"""Somebody takes what belongs to somebody else: data of a name, a place in the list of registries, a manifest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from plugreg.check import check
from tests.support.commands import User, write_plugin
from tests.support.registries import running
from tests.support.roots import Here

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_that_calls_itself_like_an_installed_plugin(tmp_path: Path) -> None:
    """`PLUGIN_DATA` belongs to one signer: an unsigned folder of the same name does not get it."""
    here = Here(tmp_path)
    here.publish()
    here.install()
    (here.root.data("demo") / "secret").write_text("mine")
    user = User(tmp_path / "user", {"PLUGREG_ROOT": str(here.root.path)})
    stranger = write_plugin(tmp_path / "x" / "demo", servers={"s": {"type": "stdio", "command": "true"}})
    (planned,) = user.run("plan", f"{stranger}/")["plugins"]
    (own,) = user.run("plan", "demo")["plugins"]
    assert own["data"] == str(here.root.data("demo"))
    assert planned["data"] != own["data"]
    twin = write_plugin(tmp_path / "y" / "demo", servers={"s": {"type": "stdio", "command": "true"}})
    assert user.run("plan", f"{twin}/")["plugins"][0]["data"] != planned["data"]


def test_two_commands_add_a_registry_at_the_same_time(tmp_path: Path) -> None:
    user = User(tmp_path)
    with running(tmp_path / "registry") as registry:
        urls = [f"http://{host}:{registry.port}/" for host in ("127.0.0.1", "localhost")]
        for number in range(3):
            user.env()
            started = [
                user.start("registry", "add", url, "--name", f"n{number}-{place}")
                for place, url in enumerate(urls)
            ]
            assert [user.end(process).returncode for process in started] == [0, 0]
            known = json.loads((tmp_path / "home" / "registries.json").read_bytes())["registries"]
            assert sorted(entry["url"] for entry in known) == sorted(urls)
            for url in urls:
                user.run("registry", "remove", url)


def test_a_manifest_that_is_a_link_to_a_file_that_the_registry_does_not_keep(tmp_path: Path) -> None:
    """`check` says what a registry would say, and says why."""
    plugin = write_plugin(tmp_path / "p")
    (plugin / "plugin.json").rename(plugin / "real.json")
    (plugin / "plugin.json").symlink_to("real.json")
    checked = check(plugin)
    assert checked.ok
    assert not checked.publishable
    assert [finding.code for finding in checked.findings if "bundle" in finding.message] == [
        "manifest_invalid"
    ]
