"""The topology of an organisation on this machine: the demo goes through it, and its parts may die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.support.registries import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wheels are installed on Linux only")


def started(*words: str) -> subprocess.Popen[str]:
    """Run a module of `infra/` in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=REPOSITORY,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def left(mark: str) -> list[str]:
    """The processes whose command line has this mark."""
    found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return [" ".join(words) for words in found if any(mark in word for word in words)]


def test_the_demo_goes_through_the_cluster_and_ctrl_c_leaves_nothing() -> None:
    with started("infra.cluster", "--stay") as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "It runs on" in line:
                os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0, said
    for shown in ("registry 2", "PostgreSQL", "SeaweedFS", "published notebook 1.1.0", "2 in all"):
        assert shown in said
    folder = re.search(r"/tmp/plugreg-cluster-\w+", said)
    assert folder is not None
    assert left(folder[0]) == []
    assert not Path(folder[0]).exists()


def test_nothing_acknowledged_is_lost_when_each_part_is_killed() -> None:
    """About 20 seconds on two free cores; `make chaos` is the long form."""
    words = ("infra.chaos", "--seconds", "10", "--publishers", "10", "--installers", "20")
    with started(*words) as process:
        said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    assert "0 things were wrong" in said
    for part in ("registry 1", "PostgreSQL", "SeaweedFS"):
        assert f"{part} was killed" in said
