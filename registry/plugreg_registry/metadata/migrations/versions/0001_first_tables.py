"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import NUMBER, words

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "registry",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", words(200), nullable=False),
        sa.Column("created_at", words(40), nullable=False),
        sa.CheckConstraint("one = 1", name="ck_registry_one_row"),
        sa.PrimaryKeyConstraint("one", name="pk_registry"),
    )
    op.create_table(
        "plugins",
        sa.Column("name", words(64), nullable=False),
        sa.Column("folded", words(64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("indexed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_plugins"),
        sa.UniqueConstraint("folded", name="uq_plugins_folded"),
    )
    op.create_table(
        "statements",
        sa.Column("plugin", words(64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("digest", words(71), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_at", words(40), nullable=False),
        sa.ForeignKeyConstraint(["plugin"], ["plugins.name"], name="fk_statements_plugin"),
        sa.PrimaryKeyConstraint("plugin", "place", name="pk_statements"),
        sa.UniqueConstraint("digest", name="uq_statements_digest"),
    )
    op.create_table(
        "releases",
        sa.Column("plugin", words(64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("version", words(64), nullable=False),
        sa.Column("digest", words(71), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("format", words(20), nullable=False),
        sa.Column("published_at", words(40), nullable=False),
        sa.Column("attestation", words(71), nullable=False),
        sa.Column("signer", words(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["plugin"], ["plugins.name"], name="fk_releases_plugin"),
        sa.PrimaryKeyConstraint("plugin", "place", name="pk_releases"),
        sa.UniqueConstraint("plugin", "version", name="uq_releases_plugin_version"),
    )
    op.create_index("ix_releases_digest", "releases", ["digest"])
    op.create_table(
        "sessions",
        sa.Column("id", words(64), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("claims", sa.Boolean(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_expires", "sessions", ["expires"])
    op.create_table(
        "audit",
        sa.Column("serial", NUMBER, autoincrement=False, nullable=False),
        sa.Column("digest", words(71), nullable=False),
        sa.Column("at", words(40), nullable=False),
        sa.Column("action", words(20), nullable=False),
        sa.Column("plugin", words(64), nullable=False),
        sa.Column("version", words(64), nullable=False),
        sa.Column("signer", words(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name="pk_audit"),
        sa.UniqueConstraint("digest", name="uq_audit_digest"),
    )
    op.create_index("ix_audit_plugin", "audit", ["plugin"])


def downgrade() -> None:
    for table in ("audit", "sessions", "releases", "statements", "plugins", "registry"):
        op.drop_table(table)
