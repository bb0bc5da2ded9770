"""A rolling upgrade: processes of two versions serve together, and the older ones may be started again."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import inspect, text

from plugreg_registry.metadata.database import open_database, reading, writing
from plugreg_registry.metadata.migrate import HEAD, check_same, migrate, revision_of, serves, upgrade
from plugreg_schemas.errors import UsageError
from tests.support.next_version import REVISIONS, next_revision, next_version
from tests.support.postgres import NEWEST
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import RegistryProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from plugreg_registry.databases import Database
    from tests.support.postgres import PostgresServer

Shape = dict[str, dict[str, Any]]


def shape(file: Path) -> Shape:
    """The tables of a database and what old programs meet in them."""
    engine = open_database(file)
    with reading(engine) as connection:
        found = inspect(connection)
        tables = {
            table: {
                "columns": {column["name"]: column for column in found.get_columns(table)},
                "rules": (
                    found.get_pk_constraint(table)["constrained_columns"],
                    sorted(rule["column_names"] for rule in found.get_unique_constraints(table)),
                    sorted(index["column_names"] for index in found.get_indexes(table) if index["unique"]),
                    sorted(rule["sqltext"] for rule in found.get_check_constraints(table)),
                    sorted(rule["constrained_columns"] for rule in found.get_foreign_keys(table)),
                ),
            }
            for table in found.get_table_names()
        }
    engine.dispose()
    return tables


def test_a_migration_only_adds_what_older_programs_need_not_know(tmp_path: Path) -> None:
    file = tmp_path / "registry.sqlite3"
    before: Shape = {}
    for revision in REVISIONS:
        upgrade(file, revision)
        now = shape(file)
        for table, old in before.items():
            new = now[table]
            assert new["rules"] == old["rules"], f"{revision} changes a rule of {table}"
            for name, column in old["columns"].items():
                there = new["columns"][name]
                same = (str(there["type"]), there["nullable"]) == (str(column["type"]), column["nullable"])
                assert same, f"{revision} changes {table}.{name}"
            for name in new["columns"].keys() - old["columns"].keys():
                added = new["columns"][name]
                optional = added["nullable"] or added["default"] is not None
                assert optional, f"{revision} adds {table}.{name}, which older programs do not write"
        before = now


@pytest.mark.parametrize(
    ("found", "head", "may"),
    [
        ("0009", "0008", False),
        ("0009_from_0008", "0008", True),
        ("0010_from_0008", "0008", True),
        ("0010_from_0009", "0008", False),
        ("0011_from_0009", "0010_from_0008", True),
        ("0012_from_0011", "0010_from_0008", False),
    ],
)
def test_the_name_of_a_revision_says_whose_programs_it_serves(found: str, head: str, may: bool) -> None:
    assert found > head
    assert serves(found, head) == may


def set_revision(database: Database, revision: str) -> None:
    engine = open_database(database)
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :name"), {"name": revision})
    engine.dispose()


def test_newer_tables_that_serve_this_version_are_left_as_they_are_but_not_copied(empty: Database) -> None:
    migrate(empty)
    check_same(empty)
    set_revision(empty, next_revision(HEAD))
    assert not migrate(empty)
    assert revision_of(empty) == next_revision(HEAD)
    with pytest.raises(UsageError, match="database_newer"):
        check_same(empty)
    set_revision(empty, next_revision())
    with pytest.raises(UsageError, match="database_newer"):
        migrate(empty)


def publishes(registry: RegistryProcess, readers: tuple[RegistryProcess, ...], name: str) -> None:
    """Publish at one, and see it at all."""
    author = Author(registry.url, registry.id)
    assert author.publish(plugin(name), name).status == 201
    for reader in readers:
        assert ask(f"{reader.url}v1/plugins/{name}/1.0.0").json()["index"] == "published"
        assert ask(f"{reader.url}index/plugins/{name}.json").status == 200
    assert author.state("yank", name, version="1.0.0", yanked=True, reason="old").status == 201


def test_two_versions_serve_together_and_the_older_one_starts_again(
    postgres: Callable[[str], PostgresServer], tmp_path: Path
) -> None:
    oldest = HEAD.partition("_")[0]
    later = next_version(tmp_path / "next", oldest)
    database = postgres(NEWEST).create()
    settings = {"PLUGREG_REGISTRY_DATABASE": database.address}
    old = RegistryProcess(tmp_path / "registry", environment=settings)
    new = RegistryProcess(tmp_path / "registry", environment={**settings, **later})
    with ExitStack() as stack:
        stack.callback(old.stop)
        stack.callback(new.stop)
        old.start()
        publishes(old, (old,), "before")
        new.start()
        assert revision_of(database) == next_revision(oldest)
        publishes(old, (old, new), "while-old")
        publishes(new, (old, new), "while-new")
        old.kill()
        old.start()
        publishes(old, (old, new), "again-old")
        publishes(new, (old, new), "again-new")
        names = {row["name"] for row in ask(f"{old.url}v1/plugins").json()["plugins"]}
        assert names == {row["name"] for row in ask(f"{new.url}v1/plugins").json()["plugins"]}
