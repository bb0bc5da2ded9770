"""What plugins are found by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plugreg_registry.metadata.columns import NUMBER, words

revision = "0006"
down_revision = "0005"

_ON_SQLITE = (
    """
    CREATE VIRTUAL TABLE search_words USING fts5(
        words, content='search', content_rowid='id', detail=none, columnsize=0,
        tokenize="ascii tokenchars ':-._%~'", prefix='3 4 5'
    )
    """,
    """
    CREATE TRIGGER search_added AFTER INSERT ON search BEGIN
        INSERT INTO search_words (rowid, words) VALUES (new.id, new.words);
    END
    """,
    """
    CREATE TRIGGER search_removed AFTER DELETE ON search BEGIN
        INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', old.id, old.words);
    END
    """,
)
_ON_POSTGRESQL = (
    """
    ALTER TABLE search ADD COLUMN lexemes tsvector
        GENERATED ALWAYS AS (array_to_tsvector(string_to_array(btrim(words, ' '), ' '))) STORED
    """,
    "CREATE INDEX ix_search_lexemes ON search USING gin (lexemes)",
)


def upgrade() -> None:
    op.create_table(
        "search",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("name", words(64), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("made", sa.Integer(), nullable=False),
        sa.Column("standing", sa.Integer(), nullable=False),
        sa.Column("age", sa.BigInteger(), nullable=False),
        sa.Column("words", words(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_search"),
        sa.UniqueConstraint("name", name="uq_search_name"),
    )
    op.create_index("ix_search_standing", "search", ["standing", "name"])
    op.create_index("ix_search_age", "search", ["age", "name"])
    is_server = op.get_bind().dialect.name == "postgresql"
    for statement in _ON_POSTGRESQL if is_server else _ON_SQLITE:
        op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute("DROP TABLE search_words")
    op.drop_table("search")
