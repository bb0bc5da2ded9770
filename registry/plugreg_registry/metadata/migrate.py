"""Brings the database to the tables that this version needs.

Alembic costs memory that a server would keep, so it runs in a process of its own, and only where there is
something to do.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

from plugreg_registry.metadata.database import make_private, open_database, reading
from plugreg_schemas.errors import Temporary, UsageError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from sqlalchemy import Engine

HEAD: Final = "0002"
"""The newest revision in `migrations/versions`."""
MIGRATIONS: Final = Path(__file__).with_name("migrations")


def revision(engine: Engine) -> str | None:
    """Return the revision the database is at, or None if it is empty."""
    with reading(engine) as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return found


def migrate(database: Path) -> bool:
    """Bring the SQLite database in `database` to `HEAD` and return whether there was something to do.

    Raises:
        UsageError: `database_newer`: a newer plugreg has been here.
        Temporary: `migration_failed`, `store_unavailable`.
    """
    make_private(database)
    engine = open_database(database)
    try:
        before = revision(engine)
    finally:
        engine.dispose()
    if before == HEAD:
        return False
    if before is not None and before > HEAD:
        raise UsageError(
            "database_newer",
            f"the database `{database}` is at revision `{before}`, newer than this version's `{HEAD}`",
            hint="upgrade plugreg",
        )
    fault = _in_own_process(database)
    if fault:
        raise Temporary("migration_failed", f"the tables in `{database}` could not be made: {fault}")
    return True


def _in_own_process(database: Path) -> str:
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


def _upgrade_and_tell(database: Path, there: Connection) -> None:
    try:
        upgrade(database)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent tells it
        there.send(str(error).partition("\n")[0] or type(error).__name__)
    else:
        there.send("")


def upgrade(database: Path, to: str = HEAD) -> None:
    """Run Alembic on the SQLite database in `database`, here and now."""
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
