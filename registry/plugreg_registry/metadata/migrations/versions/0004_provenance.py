"""A publish may bring provenance: its session keeps it, its release names it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import words

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("provenance", sa.LargeBinary(), nullable=False, server_default=""))
    op.add_column("releases", sa.Column("provenance", words(71), nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("sessions", "releases"):
        with op.batch_alter_table(name) as table:
            table.drop_column("provenance")
