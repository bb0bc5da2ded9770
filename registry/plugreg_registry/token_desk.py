"""Where an operator gives tokens out and takes them back: `plugreg-registry token`.

It needs the database and nothing else, so it does not wait for what a server imports.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from plugreg_registry import tokens
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import check_data, migrate
from plugreg_registry.metadata.tokens import DatabaseTokens
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugreg_registry.ports import Tokens
    from plugreg_registry.records import Scope
    from plugreg_registry.settings import Settings


def add(settings: Settings, name: str, scope: Scope, expires: datetime | None) -> tuple[str, str]:
    """Make a token, and return its secret, which nobody can tell again, and what to say about it.

    Raises:
        UsageError: `data_missing`; and as `tokens.issue`.
    """
    with _opened(settings) as kept:
        token, secret = tokens.issue(name, scope, _now(), expires)
        kept.add(token)
    return secret, f"token {token.id} of {quoted(token.name)}, scope `{scope}`; the secret is shown once"


def listed(settings: Settings, *, as_json: bool) -> Sequence[str]:
    """Return a line for each token, or all of them as JSON.

    Raises:
        UsageError: `data_missing`.
    """
    with _opened(settings) as kept:
        rows = [tokens.row(token, _now()) for token in kept.all()]
    if as_json:
        return (canonical_json({"tokens": rows}).decode(),)
    return tuple(
        f"{row['id']}  {row['scope']:<5}  {row['created']}  {row['state']:<7}  {row['name']}" for row in rows
    )


def remove(settings: Settings, token: str) -> str:
    """Remove a token by its id, and return what to say about it.

    Raises:
        UsageError: `data_missing`. NotAvailable: `token_unknown`.
    """
    with _opened(settings) as kept:
        tokens.remove(kept, token)
    return f"removed   {token}  within {tokens.FRESH_SECONDS} seconds it opens nothing"


@contextmanager
def _opened(settings: Settings) -> Iterator[Tokens]:
    check_data(settings)
    migrate(settings.database)
    engine = open_database(settings.database)
    try:
        yield DatabaseTokens(engine)
    finally:
        engine.dispose()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
