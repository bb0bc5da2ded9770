"""Tokens of readers and auditors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import words

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", words(20), nullable=False),
        sa.Column("name", words(100), nullable=False),
        sa.Column("scope", words(10), nullable=False),
        sa.Column("hash", words(64), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.Column("used", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )


def downgrade() -> None:
    op.drop_table("tokens")
