"""A registry for the tests of a module, and authors for it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import upgrade
from tests.support.postgres import INSTALLED
from tests.support.publisher import Author
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Engine

    from plugreg_registry.databases import Database
    from tests.support.postgres import PostgresServer

_NUMBERS = count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module that has `DATABASES` on each of them."""
    if "database_settings" in metafunc.fixturenames and hasattr(metafunc.module, "DATABASES"):
        metafunc.parametrize("database_settings", metafunc.module.DATABASES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def database_settings(
    request: pytest.FixtureRequest, postgres: Callable[[str], PostgresServer]
) -> Mapping[str, str]:
    """The settings of the registry of a module: what says in which database it keeps its records."""
    kind = getattr(request, "param", "sqlite")
    return {} if kind == "sqlite" else {"PLUGREG_REGISTRY_DATABASE": postgres(kind).create().address}


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, database_settings: Mapping[str, str]
) -> Iterator[RegistryProcess]:
    """One registry for all tests of a module: each takes names of its own."""
    with running(tmp_path_factory.mktemp("registry"), environment=database_settings) as registry:
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


@pytest.fixture(params=["sqlite", *INSTALLED])
def empty(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[str], PostgresServer]
) -> Iterator[Database]:
    """A database of each kind that is here, without tables."""
    if request.param == "sqlite":
        yield tmp_path / "registry.sqlite3"
        return
    server = postgres(request.param)
    database = server.create()
    yield database
    server.drop(database)


@pytest.fixture(params=["sqlite", *INSTALLED])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[str], PostgresServer]
) -> Iterator[Engine]:
    """A database of each kind that is here, with its tables."""
    if request.param == "sqlite":
        file = tmp_path / "registry.sqlite3"
        upgrade(file)
        engine = open_database(file)
        yield engine
        engine.dispose()
        return
    server = postgres(request.param)
    database = server.create(server.migrated)
    engine = open_database(database)
    yield engine
    engine.dispose()
    server.drop(database)
