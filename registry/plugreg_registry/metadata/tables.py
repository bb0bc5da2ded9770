"""The tables.

    registry     one row: the registry's id
    plugins      a row per name; `folded` makes look-alikes impossible, `indexed` trails `revision`
    statements   a plugin's history, by place; rows are only added
    releases     a plugin's versions, by place; rows are only added
    sessions     publishes that wait for their bytes; `serial` orders those of one signer
    audit        what was accepted, in order
    leases       who does now what one process does at a time
    leftovers    objects that the index has replaced, and since when
    tokens       who may read, by the hash of a secret
    usage        what identities have used up: bytes in all, and publishes and new names of one day
    search       what plugins are found by, made from their records; each database has an index of the words
                 that only itself knows (`search_words`, `lexemes`)

Text is in the order of its bytes on every database (`columns.words`). Times are RFC 3339 text in UTC,
except those that are compared: seconds since 1970, and milliseconds for a lease.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from plugreg_registry.metadata.columns import NUMBER, words

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

REGISTRY: Final = Table(
    "registry",
    METADATA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("id", words(200), nullable=False),
    Column("created_at", words(40), nullable=False),
    CheckConstraint("one = 1", name="one_row"),
)

PLUGINS: Final = Table(
    "plugins",
    METADATA,
    Column("name", words(64), primary_key=True),
    Column("folded", words(64), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("indexed", BigInteger, nullable=False),
    UniqueConstraint("folded"),
)

STATEMENTS: Final = Table(
    "statements",
    METADATA,
    Column("plugin", words(64), ForeignKey("plugins.name"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("digest", words(71), nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("accepted_at", words(40), nullable=False),
    UniqueConstraint("digest"),
)

RELEASES: Final = Table(
    "releases",
    METADATA,
    Column("plugin", words(64), ForeignKey("plugins.name"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("version", words(64), nullable=False),
    Column("digest", words(71), nullable=False, index=True),
    Column("size", BigInteger, nullable=False),
    Column("format", words(20), nullable=False),
    Column("published_at", words(40), nullable=False),
    Column("attestation", words(71), nullable=False),
    Column("signer", words(), nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("facts", Text, nullable=False),
    Column("provenance", words(71), nullable=False, server_default=""),
    UniqueConstraint("plugin", "version"),
)

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    Column("id", words(64), primary_key=True),
    Column("envelope", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("claims", Boolean, nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
    Column("signer", words(), nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("provenance", LargeBinary, nullable=False, server_default=""),
    Index("ix_sessions_signer", "signer", "serial"),
)

AUDIT: Final = Table(
    "audit",
    METADATA,
    Column("serial", NUMBER, primary_key=True, autoincrement=False),
    Column("digest", words(71), nullable=False),
    Column("at", words(40), nullable=False),
    Column("action", words(20), nullable=False),
    Column("plugin", words(64), nullable=False, index=True),
    Column("version", words(64), nullable=False),
    Column("signer", words(), nullable=False),
    UniqueConstraint("digest"),
)

LEFTOVERS: Final = Table(
    "leftovers",
    METADATA,
    Column("key", words(200), primary_key=True),
    Column("at", BigInteger, nullable=False, index=True),
)

LEASES: Final = Table(
    "leases",
    METADATA,
    Column("name", words(40), primary_key=True),
    Column("holder", words(200), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
)

SEARCH: Final = Table(
    "search",
    METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("name", words(64), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("made", Integer, nullable=False),
    Column("standing", Integer, nullable=False),
    Column("age", BigInteger, nullable=False),
    Column("words", words(), nullable=False),
    Column("shown", Text, nullable=False),
    UniqueConstraint("name"),
    Index("ix_search_standing", "standing", "name"),
    Index("ix_search_age", "age", "name"),
)

TOKENS: Final = Table(
    "tokens",
    METADATA,
    Column("id", words(20), primary_key=True),
    Column("name", words(100), nullable=False),
    Column("scope", words(10), nullable=False),
    Column("hash", words(64), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=True),
    Column("used", BigInteger, nullable=True),
    UniqueConstraint("hash"),
)

USAGE: Final = Table(
    "usage",
    METADATA,
    Column("signer", words(), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("publishes", Integer, nullable=False),
    Column("names", Integer, nullable=False),
)
