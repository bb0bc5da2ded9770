"""The plugins, sessions and audit entries in a database: SQLAlchemy Core, Alembic migrations beside it.

The same adapters serve SQLite and PostgreSQL; what only one understands is in `sqlite` and `postgres`.
"""
