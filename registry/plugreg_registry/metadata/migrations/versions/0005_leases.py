"""One publisher of the index at a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import words

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", words(40), nullable=False),
        sa.Column("holder", words(200), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def downgrade() -> None:
    op.drop_table("leases")
