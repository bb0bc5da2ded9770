"""Types of columns that are the same on every database, for the tables and for the migrations to them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Integer, String, Text

NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""The number of a row: 64 bits. SQLite has those in what it calls INTEGER, if that is the primary key."""


def words(length: int | None = None) -> String:
    """Return the type of text that is compared and sorted by its bytes.

    PostgreSQL would sort as the language of the database does, and an index by that order breaks when the
    operating system learns to spell; the length is SQLite's, which does not look at it.
    """
    text = Text() if length is None else String(length)
    return text.with_variant(Text(collation="C"), "postgresql")
