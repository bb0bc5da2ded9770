"""Alembic's entry: runs the revisions in one transaction on the engine that `migrate.upgrade` made."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Engine

from plugreg_registry.metadata.database import alone, without_limits, writing
from plugreg_registry.metadata.tables import METADATA

engine = context.config.attributes["engine"]
if not isinstance(engine, Engine):
    raise TypeError("run migrations with `plugreg-registry migrate`")
with writing(engine) as connection:
    without_limits(connection)
    alone(connection, "migrations")
    context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
    context.run_migrations()
