"""Sessions know their signer. Those that are open now belong to nobody, and end within the hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import words

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("signer", words(), nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("serial", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index("ix_sessions_signer", "sessions", ["signer", "serial"])


def downgrade() -> None:
    op.drop_index("ix_sessions_signer", "sessions")
    with op.batch_alter_table("sessions") as sessions:
        sessions.drop_column("serial")
        sessions.drop_column("signer")
