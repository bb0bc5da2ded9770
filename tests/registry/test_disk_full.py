"""T16, E7, J6: a data folder without space refuses what does not fit, names itself, and goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.publisher import Author, ask, bundle_of, plugin, plugin_files
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTED = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"']
"""Starts a command that sees a 2 MiB file system at the path that comes next; nobody else sees it."""


def _mounts(folder: Path) -> str:
    """Why a small file system cannot be mounted here, or empty."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "mount namespaces need Linux and `unshare`"
    done = subprocess.run([*MOUNTED, str(folder), "true"], capture_output=True, text=True, check=False)
    return f"mounting a tmpfs is not permitted here: {done.stderr.strip()}" if done.returncode else ""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[RegistryProcess]:
    data = tmp_path / "data"
    data.mkdir()
    reason = _mounts(data)
    if reason:
        pytest.skip(reason)
    with running(data, prefix=[*MOUNTED, str(data)]) as registry:
        yield registry


def _files(registry: RegistryProcess, folder: str) -> set[str]:
    """What the registry's own view of the file system has."""
    seen = f"/proc/{registry.pid}/root{registry.data}/{folder}"
    return {str(path) for path in Path(seen).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "size", [5 << 20, 1_100_000], ids=["the upload does not fit", "its second copy does not fit"]
)
def test_t16_e7_j6_a_bundle_that_does_not_fit(small: RegistryProcess, size: int) -> None:
    author = Author(small.url, small.id)
    assert author.publish(plugin(), "demo").status == 201
    index, objects = ask(author.at("index/plugins/demo.json")).body, _files(small, "objects")
    large = bundle_of(plugin_files("demo", "2.0.0", noise=os.urandom(size)))
    answer = author.publish(large, "demo", "2.0.0")
    assert (answer.status, answer.code) == (507, "disk_full")
    assert str(small.data) in answer.json()["detail"]
    assert (answer.json()["retryable"], answer.headers["retry-after"]) == (True, "5")
    assert ask(author.at("index/plugins/demo.json")).body == index
    assert (_files(small, "objects"), _files(small, "uploads")) == (objects, set())
    assert author.publish(plugin("demo", "1.1.0"), "demo", "1.1.0").status == 201
    assert ask(author.at("readyz")).status == 200


def test_e7_many_small_ones_until_nothing_fits(small: RegistryProcess) -> None:
    author = Author(small.url, small.id)
    statuses: list[int] = []
    for number in range(60):
        bundle = bundle_of(plugin_files("demo", f"1.{number}.0", noise=os.urandom(60_000)))
        statuses.append(author.publish(bundle, "demo", f"1.{number}.0").status)
        if statuses[-1] != 201:
            break
    assert statuses[-1] == 507
    shown = {entry["version"] for entry in author.document()["versions"]}
    assert {f"1.{number}.0" for number, status in enumerate(statuses) if status == 201} <= shown
    for entry in author.document()["versions"]:
        assert ask(author.at(f"blobs/sha256/{entry['digest'][7:]}")).status == 200
