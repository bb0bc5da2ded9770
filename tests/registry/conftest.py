"""A registry for the tests of a module, and authors for it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.support.publisher import Author
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """One registry for all tests of a module: each takes names of its own."""
    with running(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def author(registry: RegistryProcess) -> Author:
    """Somebody whom the registry has not met."""
    return Author(registry.url, registry.id)


@pytest.fixture
def stranger(registry: RegistryProcess) -> Author:
    """Somebody else."""
    return Author(registry.url, registry.id)


@pytest.fixture
def name() -> str:
    """A plugin name that no other test uses."""
    return f"plugin{next(_NUMBERS)}"


@pytest.fixture
def stored(registry: RegistryProcess) -> Callable[[], set[str]]:
    """What the registry has stored now: objects and uploads, by path."""

    def look() -> set[str]:
        folders = (registry.objects, registry.data / "uploads")
        return {str(path) for folder in folders for path in folder.rglob("*") if path.is_file()}

    return look
