"""The version after this one: a copy of the registry with one more migration, in a folder of a test.

environment = next_version(tmp_path / "next", serves="0008")     PYTHONPATH for processes of that version
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from alembic.script import ScriptDirectory

from plugreg_registry.metadata.migrate import HEAD, MIGRATIONS
from tests.support.registries import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

REVISIONS: Final = sorted(one.revision for one in ScriptDirectory(str(MIGRATIONS)).walk_revisions())
"""All revisions there are, the oldest first."""
_NUMBER: Final = f"{len(REVISIONS) + 1:04}"
_MIGRATION: Final = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade():
    op.create_table("later", sa.Column("one", sa.Integer(), primary_key=True))
    for table in ("plugins", "statements", "releases", "sessions", "audit"):
        op.add_column(table, sa.Column("later", sa.Text(), nullable=False, server_default="x"))
        op.add_column(table, sa.Column("much_later", sa.BigInteger(), nullable=True))
    op.create_index("ix_releases_later", "releases", ["later"])
"""


def next_revision(serves: str = "") -> str:
    """The name of the next revision; `serves` is the oldest one whose programs may go on with it."""
    return f"{_NUMBER}_from_{serves}" if serves else _NUMBER


def next_version(folder: Path, serves: str = "") -> dict[str, str]:
    """Make the next version, and return the environment of its processes."""
    revision = next_revision(serves)
    package = folder / "plugreg_registry"
    shutil.copytree(REPOSITORY / "registry" / package.name, package)
    migrate = package / "metadata" / "migrate.py"
    source = migrate.read_text("utf-8")
    assert source.count(f'HEAD: Final = "{HEAD}"') == 1
    migrate.write_text(source.replace(f'HEAD: Final = "{HEAD}"', f'HEAD: Final = "{revision}"'), "utf-8")
    migration = package / "metadata" / "migrations" / "versions" / f"{revision}_later.py"
    migration.write_text(_MIGRATION.format(revision=revision, before=HEAD), "utf-8")
    folders = (folder, REPOSITORY / "schemas", REPOSITORY / "client")
    return {"PYTHONPATH": os.pathsep.join(map(str, folders))}
