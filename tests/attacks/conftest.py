"""The scene of the attacks on the signed index: a person who has installed `demo` 1.0.0, in both ways to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.attacked import WAYS, Scene, Way, attacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=WAYS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """Read over HTTP, and as a folder."""
    way: Way = request.param
    with attacked(tmp_path, way) as found:
        begin(found)
        yield found


@pytest.fixture
def online(tmp_path: Path) -> Iterator[Scene]:
    """Read over HTTP only: for attacks that need a server, or that matter only there."""
    with attacked(tmp_path) as found:
        begin(found)
        yield found


def begin(scene: Scene) -> None:
    scene.publish("1.0.0")
    scene.run("install", "demo")
