"""What identities have used up: so far the bytes of what they have published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import words

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "usage",
        sa.Column("signer", words(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("publishes", sa.Integer(), nullable=False),
        sa.Column("names", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("signer", name="pk_usage"),
    )
    op.execute(
        "INSERT INTO usage (signer, size, day, publishes, names) "
        "SELECT signer, CAST(SUM(size) AS BIGINT), 1, 0, 0 FROM releases GROUP BY signer"
    )


def downgrade() -> None:
    op.drop_table("usage")
