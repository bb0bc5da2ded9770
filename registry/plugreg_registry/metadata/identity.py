"""The registry's id: made once, create-if-absent, so that processes that start together agree."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from plugreg_registry.metadata.database import alone, writing
from plugreg_registry.metadata.tables import REGISTRY
from plugreg_schemas.errors import UsageError
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import RegistryId

if TYPE_CHECKING:
    from sqlalchemy import Engine


def registry_id(engine: Engine, wanted: str | None = None) -> RegistryId:
    """Return the registry's id; make it if there is none: `wanted`, or else a new `urn:uuid:`.

    Raises:
        UsageError: `registry_id_fixed`: it has another one than `wanted`.
        InvalidInput: `registry_id_invalid`.
    """
    new = RegistryId(wanted or f"urn:uuid:{uuid.uuid4()}")
    with writing(engine) as connection:
        alone(connection, "registry")
        found = connection.execute(select(REGISTRY.c.id)).scalar()
        if found is None:
            row = {"one": 1, "id": str(new), "created_at": format_time(datetime.now(UTC))}
            connection.execute(insert(REGISTRY).values(**row))
            return new
    if wanted is not None and found != wanted:
        raise UsageError(
            "registry_id_fixed",
            f"this registry is `{found}` already, it cannot become `{wanted}`",
            hint="every statement in it names its id; a new id needs a new data folder",
        )
    return RegistryId(found)
