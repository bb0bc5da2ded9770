"""The tables.

    registry     one row: the registry's id
    plugins      a row per name; `folded` makes look-alikes impossible, `indexed` trails `revision`
    statements   a plugin's history, by place; rows are only added
    releases     a plugin's versions, by place; rows are only added
    sessions     publishes that wait for their bytes; `serial` orders those of one signer
    audit        what was accepted, in order

Times are RFC 3339 text in UTC, except those that are compared: seconds since 1970.
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
    String,
    Table,
    Text,
    UniqueConstraint,
)

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
    Column("id", String(200), nullable=False),
    Column("created_at", String(40), nullable=False),
    CheckConstraint("one = 1", name="one_row"),
)

PLUGINS: Final = Table(
    "plugins",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("folded", String(64), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("indexed", BigInteger, nullable=False),
    UniqueConstraint("folded"),
)

STATEMENTS: Final = Table(
    "statements",
    METADATA,
    Column("plugin", String(64), ForeignKey("plugins.name"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("digest", String(71), nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("accepted_at", String(40), nullable=False),
    UniqueConstraint("digest"),
)

RELEASES: Final = Table(
    "releases",
    METADATA,
    Column("plugin", String(64), ForeignKey("plugins.name"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("version", String(64), nullable=False),
    Column("digest", String(71), nullable=False, index=True),
    Column("size", BigInteger, nullable=False),
    Column("format", String(20), nullable=False),
    Column("published_at", String(40), nullable=False),
    Column("attestation", String(71), nullable=False),
    Column("signer", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("facts", Text, nullable=False),
    UniqueConstraint("plugin", "version"),
)

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("envelope", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("claims", Boolean, nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
    Column("signer", Text, nullable=False),
    Column("serial", BigInteger, nullable=False),
    Index("ix_sessions_signer", "signer", "serial"),
)

AUDIT: Final = Table(
    "audit",
    METADATA,
    Column("serial", Integer, primary_key=True, autoincrement=True),
    Column("digest", String(71), nullable=False),
    Column("at", String(40), nullable=False),
    Column("action", String(20), nullable=False),
    Column("plugin", String(64), nullable=False, index=True),
    Column("version", String(64), nullable=False),
    Column("signer", Text, nullable=False),
    UniqueConstraint("digest"),
)
