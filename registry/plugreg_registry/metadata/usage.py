"""What identities have used up: a row for each, counted in the transaction that inserts a release."""

from __future__ import annotations

from datetime import UTC, date
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from plugreg_registry.metadata.tables import USAGE
from plugreg_registry.quotas import Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Row

    from plugreg_registry.records import StoredRelease


def used(connection: Connection, signer: str) -> Usage:
    """Return what an identity, in words, has used up."""
    return _usage(connection.execute(select(USAGE).where(USAGE.c.signer == signer)).one_or_none())


def count(
    connection: Connection, release: StoredRelease, afford: Callable[[Usage], object], *, claims: bool
) -> None:
    """Count a release, unless `afford` refuses it.

    Releases of one identity wait here for each other, where the database locks rows and not itself. Of those
    who come first at once the tables let one in, and the others begin again.
    """
    signer = release.signer.words
    row = connection.execute(select(USAGE).where(USAGE.c.signer == signer).with_for_update()).one_or_none()
    usage = _usage(row)
    afford(usage)
    after = usage.plus(release.size, release.published_at.astimezone(UTC).date(), claims=claims)
    values = {
        "size": after.size,
        "day": after.day.toordinal(),
        "publishes": after.publishes,
        "names": after.names,
    }
    if row is None:
        connection.execute(insert(USAGE).values(signer=signer, **values))
    else:
        connection.execute(update(USAGE).where(USAGE.c.signer == signer).values(**values))


def _usage(row: Row[Any] | None) -> Usage:
    return Usage() if row is None else Usage(row.size, date.fromordinal(row.day), row.publishes, row.names)
