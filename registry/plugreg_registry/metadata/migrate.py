"""Brings the database to the tables that this version needs.

Alembic costs memory that a server would keep, so it runs in a process of its own, and only where there is
something to do. Of processes that come at once one does it, and the others find it done.

While several processes are upgraded one after another, older ones go on with newer tables, also if they are
started again. Down to which revision's programs that holds stands in the name of the newer revision:
`0010_from_0008`. A revision that is only a number, such as `0008`, serves no program that is older.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

from plugreg_registry.metadata.database import open_database, reading
from plugreg_registry.metadata.sqlite import make_private
from plugreg_schemas.errors import Temporary, UsageError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from sqlalchemy import Engine

    from plugreg_registry.databases import Database, Server
    from plugreg_registry.settings import Settings

HEAD: Final = "0008"
"""The newest revision in `migrations/versions`."""
_FROM: Final = "_from_"
MIGRATIONS: Final = Path(__file__).with_name("migrations")


def revision(engine: Engine) -> str | None:
    """Return the revision the database is at, or None if it is empty."""
    with reading(engine) as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return found


def serves(found: str, head: str = HEAD) -> bool:
    """Whether a program whose newest revision is `head` may use the tables of a newer revision."""
    oldest = found.partition(_FROM)[2] or found
    return oldest <= head


def is_there(database: Database) -> bool:
    """Whether a registry has been here: a file, or tables on a server.

    Raises:
        Temporary: `store_unavailable`.
    """
    if isinstance(database, Path):
        return database.is_file()
    return revision_of(database) is not None


def check_data(settings: Settings) -> None:
    """Refuse to work on a registry that is not there.

    Raises:
        UsageError: `data_missing`. Temporary: `store_unavailable`.
    """
    if not is_there(settings.database):
        raise UsageError(
            "data_missing",
            f"there is no registry in `{settings.data}`",
            hint="`plugreg-registry init` makes one; `--data` names another",
        )


def migrate(database: Database) -> bool:
    """Bring a database to `HEAD` and return whether there was something to do.

    Newer tables are left as they are, if this version may use them.

    Raises:
        UsageError: `database_newer`: its tables are of a plugreg that is too new. `database_encoding`: not
        every text can be written to it.
        Temporary: `migration_failed`, `store_unavailable`.
    """
    if isinstance(database, Path):
        make_private(database)
    before = revision_of(database)
    if before is None and not isinstance(database, Path):
        _check_encoding(database)
    if before == HEAD:
        return False
    if before is not None and before > HEAD:
        if serves(before):
            return False
        raise _newer(database, before)
    fault = _in_own_process(database)
    if fault:
        raise Temporary("migration_failed", f"the tables in `{database}` could not be made: {fault}")
    return True


def check_same(database: Database) -> None:
    """Refuse what only a program may do that knows all tables, such as a complete copy.

    Raises:
        UsageError: `database_newer`. Temporary: `store_unavailable`.
    """
    found = revision_of(database)
    if found is not None and found > HEAD:
        raise _newer(database, found)


def _newer(database: Database, found: str) -> UsageError:
    """Return the refusal of tables that are too new."""
    return UsageError(
        "database_newer",
        f"the database `{database}` is at revision `{found}`, newer than this version's `{HEAD}`",
        hint="upgrade plugreg",
    )


def revision_of(database: Database) -> str | None:
    """Return the revision of a database, or None if it is empty.

    Raises:
        Temporary: `store_unavailable`.
    """
    engine = open_database(database)
    try:
        return revision(engine)
    finally:
        engine.dispose()


def _check_encoding(server: Server) -> None:
    engine = open_database(server)
    try:
        with reading(engine) as connection:
            encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    finally:
        engine.dispose()
    if encoding != "UTF8":
        raise UsageError(
            "database_encoding",
            f"the database `{server}` has the encoding `{encoding}`",
            hint="make one with `CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`",
        )


def _in_own_process(database: Database) -> str:
    """Upgrade, and return what went wrong."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_upgrade_and_tell, args=(database, there))
    child.start()
    there.close()
    try:
        fault: str = here.recv()
    except EOFError:
        fault = "the process that makes them ended too early"
    child.join()
    return fault


def _upgrade_and_tell(database: Database, there: Connection) -> None:
    try:
        upgrade(database)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent tells it
        there.send(str(error).partition("\n")[0] or type(error).__name__)
    else:
        there.send("")


def upgrade(database: Database, to: str = HEAD) -> None:
    """Run Alembic on a database, here and now."""
    from alembic import command  # noqa: PLC0415 - only where there is something to migrate
    from alembic.config import Config  # noqa: PLC0415

    engine = open_database(database)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["engine"] = engine
    try:
        command.upgrade(config, to)
    finally:
        engine.dispose()
