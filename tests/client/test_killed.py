"""SIGKILL at any moment: exactly the old or the new version, verified, and the next command leaves nothing behind."""

from __future__ import annotations

import random
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from plugreg.inventory import verify
from plugreg.plugins_root import PluginsRoot
from tests.support.offers import Offers
from tests.support.roots import Here, Job, Running, assert_settled

if TYPE_CHECKING:
    from pathlib import Path

MOMENTS = 25
FILES = {f"src/part{n % 7}/file{n:03}.txt": f"content {n}\n" * (n + 1) for n in range(80)}
"""Enough to be killed among."""


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def fresh(here: Here, number: int, old: str = "") -> None:
    """Go on in a new root, in which the version `old` is installed with a range that admits every one."""
    here.root = PluginsRoot.at(here.folder / f"root{number}", patience=60)
    if old:
        here.install("demo@>=1.0", registries=[Offers(here.folder / "old")])
        assert here.listed() == {"demo": old}
        (here.root.data("demo") / "db").write_text("kept")


def publish_update(here: Here, files: dict[str, str]) -> None:
    """Publish 1.1.0, keeping beside it the registry as it was before."""
    shutil.copytree(here.offers.folder, here.folder / "old")
    here.publish("1.1.0", files | {"new": "x"})


def check(here: Here, before: dict[str, str], after: dict[str, str], *words: str) -> bool:
    """Check what a killed command left, repeat it, and check that nothing is left over; say if it had an effect."""
    found = here.listed()
    assert found in (before, after)
    verify(here.root).raise_if_any()
    if words[0] != "uninstall" or found:
        Job(here.root.path, here.offers.folder, words).run(here.said.append)
    else:
        here.install()  # whatever is done next heals
        here.uninstall()
    assert here.listed() == after
    assert_settled(here.root)
    return found == after


def killed_at_random(here: Here, old: str, after: dict[str, str], *words: str) -> None:
    before = {"demo": old} if old else {}
    fresh(here, 0, old)
    end, seconds, _ = Running.start(Job(here.root.path, here.offers.folder, words)).last()
    assert end == "done"
    chance = random.Random(5)
    interrupted = 0
    for number in range(1, MOMENTS + 1):
        fresh(here, number, old)
        running = Running.start(Job(here.root.path, here.offers.folder, words))
        killer = threading.Timer(seconds * (number - chance.random()) / MOMENTS, running.process.kill)
        killer.start()
        interrupted += running.last()[0] != "done"
        killer.join()
        check(here, before, after, *words)
        assert not old or (here.root.data("demo") / "db").read_text() == "kept"
    assert interrupted


def killed_before_every_step(here: Here, old: str, after: dict[str, str], *words: str) -> None:
    """Kill a command before each thing that it does to the file system, one after the other."""
    before = {"demo": old} if old else {}
    fresh(here, 0, old)
    end, _, steps = Running.start(Job(here.root.path, here.offers.folder, words)).last()
    assert end == "done"
    effects = []
    for cut in range(1, steps + 1):
        fresh(here, cut, old)
        running = Running.start(Job(here.root.path, here.offers.folder, words, cut=cut))
        assert running.last()[0] == "killed"
        effects.append(check(here, before, after, *words))
        assert not old or (here.root.data("demo") / "db").read_text() == "kept"
    assert effects == sorted(effects), "there is one commit point"
    assert effects[0] < effects[-1]


def test_t15_e6_killed_at_random_moments_of_an_install(here: Here) -> None:
    here.publish("1.0.0", FILES)
    killed_at_random(here, "", {"demo": "1.0.0"}, "install", "demo")


def test_t15_e6_killed_at_random_moments_of_an_update(here: Here) -> None:
    here.publish("1.0.0", FILES)
    publish_update(here, FILES)
    killed_at_random(here, "1.0.0", {"demo": "1.1.0"}, "update", "demo")


def test_t15_killed_before_every_step_of_an_install(here: Here) -> None:
    here.publish("1.0.0", {"bin/run": "#!/bin/sh\n"}, links={"run": "bin/run"})
    killed_before_every_step(here, "", {"demo": "1.0.0"}, "install", "demo")


def test_t15_killed_before_every_step_of_an_update(here: Here) -> None:
    here.publish("1.0.0")
    publish_update(here, {})
    killed_before_every_step(here, "1.0.0", {"demo": "1.1.0"}, "update", "demo")


def test_t15_killed_before_every_step_of_an_uninstall(here: Here) -> None:
    here.publish("1.0.0")
    shutil.copytree(here.offers.folder, here.folder / "old")
    killed_before_every_step(here, "1.0.0", {}, "uninstall", "demo")
