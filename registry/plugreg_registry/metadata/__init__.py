"""The plugins, sessions and audit entries in a database: SQLAlchemy Core, Alembic migrations beside it.

SQLite today. What only SQLite understands stands in `database`, so another database is another engine there.
"""
