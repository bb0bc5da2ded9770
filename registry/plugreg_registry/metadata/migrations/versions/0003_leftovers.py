"""Objects that the index has replaced, and since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import words

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "leftovers",
        sa.Column("key", words(200), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_leftovers"),
    )
    op.create_index("ix_leftovers_at", "leftovers", ["at"])


def downgrade() -> None:
    op.drop_table("leftovers")
