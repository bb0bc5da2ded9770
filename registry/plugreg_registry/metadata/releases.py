"""`Releases` in the database. `change` is the commit point of every publish and statement."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

from sqlalchemy import Connection, Engine, Row, insert, select, update

from plugreg_registry.metadata.database import reading, repeated, writing
from plugreg_registry.metadata.tables import PLUGINS, RELEASES, STATEMENTS
from plugreg_registry.metadata.usage import count, used
from plugreg_registry.ports import lookalike
from plugreg_registry.records import Facts, PluginRecord, StoredRelease, StoredStatement
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import Digest, PluginName
from plugreg_schemas.trust.identity import parse_signer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from plugreg_registry.quotas import Usage
    from plugreg_schemas.manifest import Format

KEPT_ROWS: Final = 4096
"""Releases kept in memory by one process: those of a few plugins with a thousand versions."""
KEPT_RECORDS: Final = 16
"""Plugins kept in memory by one process, so that those with many versions are not read for every question."""
ASKED_AT_ONCE: Final = 5000
"""Values in one statement: both databases take more."""
_NAMING: Final = (RELEASES.c.digest, RELEASES.c.attestation, RELEASES.c.provenance, STATEMENTS.c.digest)
_RELEASE_COLUMNS: Final = tuple(column.name for column in RELEASES.columns)


class _Known:
    """Records that were read lately. A record is what its name and revision say, in every process."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, PluginRecord] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str, revision: int) -> PluginRecord | None:
        with self._lock:
            record = self._records.get(name)
            return record if record is not None and record.revision == revision else None

    def keep(self, record: PluginRecord) -> PluginRecord:
        """Keep a record that is committed."""
        with self._lock:
            self._records[record.name] = record
            self._records.move_to_end(record.name)
            if len(self._records) > KEPT_RECORDS:
                self._records.popitem(last=False)
        return record


@dataclass(frozen=True, slots=True)
class DatabaseReleases:
    """The plugins, their statements and releases."""

    engine: Engine
    _known: _Known = field(default_factory=_Known, init=False, repr=False, compare=False)

    def find(self, name: str) -> PluginRecord | None:
        """See `Releases.find`."""
        with reading(self.engine) as connection:
            revision = connection.execute(select(PLUGINS.c.revision).where(PLUGINS.c.name == name)).scalar()
            return self._load(connection, name, revision)

    def change(
        self,
        name: str,
        decide: Callable[[PluginRecord | None], PluginRecord],
        afford: Callable[[Usage], object] = bool,
    ) -> PluginRecord:
        """See `Releases.change`."""
        return repeated(lambda: self._change(name, decide, afford))

    def used(self, signer: str) -> Usage:
        """See `Releases.used`."""
        with reading(self.engine) as connection:
            return used(connection, signer)

    def _change(
        self,
        name: str,
        decide: Callable[[PluginRecord | None], PluginRecord],
        afford: Callable[[Usage], object],
    ) -> PluginRecord:
        with writing(self.engine) as connection:
            before = self._load(connection, name, _lock(connection, name))
            after = decide(before)
            if after is before:
                return after
            after = replace(after, revision=before.revision + 1 if before else 1)
            if before is None:
                _claim(connection, name)
            known = (len(before.statements), len(before.releases)) if before else (0, 0)
            _append(connection, after, *known)
            for release in after.releases[known[1] :]:
                count(connection, release, afford, claims=before is None)
        return self._known.keep(after)

    def _load(self, connection: Connection, name: str, revision: int | None) -> PluginRecord | None:
        if revision is None:
            return None
        return self._known.get(name, revision) or self._known.keep(_read(connection, name, revision))

    def lookalike(self, name: str) -> str | None:
        """See `Releases.lookalike`."""
        with reading(self.engine) as connection:
            return _lookalike(connection, name)

    def named(self, digests: Collection[Digest]) -> Collection[Digest]:
        """See `Releases.named`."""
        wanted = [str(digest) for digest in digests]
        found: set[str] = set()
        with reading(self.engine) as connection:
            for column in _NAMING:
                for start in range(0, len(wanted), ASKED_AT_ONCE):
                    some = column.in_(wanted[start : start + ASKED_AT_ONCE])
                    found.update(connection.execute(select(column).where(some)).scalars())
        return {digest for digest in digests if digest in found}


def _lock(connection: Connection, name: str) -> int | None:
    """Wait for other transactions on this plugin, where the database locks rows and not itself.

    Returns the revision that stands until this transaction ends. Without one the name is free: of those who
    claim it at once the tables let one in, and the others begin again.
    """
    row = select(PLUGINS.c.revision).where(PLUGINS.c.name == name).with_for_update()
    found: int | None = connection.execute(row).scalar()
    return found


def _read(connection: Connection, name: str, revision: int) -> PluginRecord:
    statements = select(STATEMENTS).where(STATEMENTS.c.plugin == name).order_by(STATEMENTS.c.place)
    releases = select(RELEASES).where(RELEASES.c.plugin == name).order_by(RELEASES.c.place)
    return PluginRecord(
        name,
        tuple(map(_statement, connection.execute(statements))),
        tuple(_release(tuple(row)) for row in connection.execute(releases)),
        revision,
    )


def _lookalike(connection: Connection, name: str) -> str | None:
    twins = select(PLUGINS.c.name).where(PLUGINS.c.folded == PluginName(name).folded, PLUGINS.c.name != name)
    found: str | None = connection.execute(twins).scalar()
    return found


def _claim(connection: Connection, name: str) -> None:
    twin = _lookalike(connection, name)
    if twin is not None:
        raise lookalike(name, twin)
    row = {"name": name, "folded": PluginName(name).folded, "revision": 0, "indexed": 0}
    connection.execute(insert(PLUGINS).values(**row))


def _append(connection: Connection, record: PluginRecord, statements: int, releases: int) -> None:
    for place, statement in enumerate(record.statements[statements:], statements):
        connection.execute(insert(STATEMENTS).values(**_statement_row(record.name, place, statement)))
    for place, release in enumerate(record.releases[releases:], releases):
        connection.execute(insert(RELEASES).values(**_release_row(record.name, place, release)))
    connection.execute(update(PLUGINS).where(PLUGINS.c.name == record.name).values(revision=record.revision))


def _statement_row(plugin: str, place: int, statement: StoredStatement) -> dict[str, Any]:
    return {
        "plugin": plugin,
        "place": place,
        "digest": str(statement.digest),
        "envelope": statement.envelope,
        "public_key": statement.public_key,
        "accepted_at": format_time(statement.accepted_at),
    }


def _statement(row: Row[Any]) -> StoredStatement:
    return StoredStatement(
        Digest(row.digest), row.envelope, row.public_key, datetime.fromisoformat(row.accepted_at)
    )


def _release_row(plugin: str, place: int, release: StoredRelease) -> dict[str, Any]:
    return {
        "plugin": plugin,
        "place": place,
        "version": release.version,
        "digest": str(release.digest),
        "size": release.size,
        "format": release.format,
        "published_at": format_time(release.published_at),
        "attestation": str(release.attestation),
        "signer": release.signer.words,
        "public_key": release.public_key,
        "facts": release.facts.model_dump_json(exclude_defaults=True),
        "provenance": release.provenance or "",
    }


@lru_cache(maxsize=KEPT_ROWS)
def _release(row: tuple[Any, ...]) -> StoredRelease:
    """Return the release of a row. Rows never change, so what was read once is read."""
    found = dict(zip(_RELEASE_COLUMNS, row, strict=True))
    return StoredRelease(
        version=found["version"],
        digest=Digest(found["digest"]),
        size=found["size"],
        format=cast("Format", found["format"]),
        published_at=datetime.fromisoformat(found["published_at"]),
        attestation=Digest(found["attestation"]),
        signer=parse_signer(found["signer"]),
        public_key=found["public_key"],
        facts=Facts.model_validate_json(found["facts"]),
        provenance=Digest(found["provenance"]) if found["provenance"] else None,
    )
