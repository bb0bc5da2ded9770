"""What an operator does to a registry that is there, running or not: `rotate` and `revoke`.

Only what the command is about is changed: neither the discovery document's settings nor the plugin documents.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from plugreg_registry.app import compose
from plugreg_registry.ceremony import signed_trust
from plugreg_registry.metadata.migrate import check_data, migrate
from plugreg_registry.revocations import Revocations, described, revocation, with_closing, with_entry
from plugreg_registry.rotation import REST_SECONDS, ROLES, Rotation
from plugreg_registry.signed_files import SignedFiles
from plugreg_registry.signers import ONLINE, Keys
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import UsageError
from plugreg_schemas.index import SIGSTORE_TARGET
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.settings import Settings


def rotate(
    settings: Settings, roles: Sequence[str], offline: Path | None, *, rest: float = REST_SECONDS
) -> Sequence[str]:
    """Give roles new keys, sign the settings anew, and return what to say about it.

    Raises:
        UsageError: `data_missing`, `role_unknown`, `trust_config_missing`. NotAvailable:
        `offline_keys_missing`, `index_missing`. Temporary: `index_busy`, `index_moved`.
    """
    if unknown := [role for role in roles if role not in ROLES]:
        raise UsageError(
            "role_unknown",
            f"{quoted(unknown[0])} is not a role of the index",
            hint=f"the roles are {', '.join(ROLES)}",
        )
    with opened(settings) as registry:
        files = SignedFiles(registry.blobs, Keys(settings.keys, offline, settings.key_uris))
        index = replace(registry.index, files=files)
        wanted = [role for role in ROLES if role in roles]
        root = Rotation(index, registry.trusted, wanted, lambda: time.sleep(rest)).run()
        state = files.state()
        admins = [row.signer.words for row in signed_trust(files, state).admins if row.until is None]
        listed = state.targets.targets.get(SIGSTORE_TARGET)
    return (
        f"root      {root.digest}",
        f"version   {root.version}",
        f"new keys  {' '.join(wanted) or 'none'}",
        f"admins    {' '.join(admins) or 'none'}",
        f"sigstore  {'sha256:' + listed.hashes['sha256'] if listed else 'the public one'}",
    )


def default_roles() -> Sequence[str]:
    """Return the roles that get new keys where none is named: those whose keys a server holds."""
    return ONLINE


def revoke(
    settings: Settings,
    kind: str,
    value: str,
    *,
    level: str,
    reason: str,
    before: datetime | None,
    expires: datetime | None,
) -> str:
    """Add an entry to the revocations, and return what to say about it.

    Raises:
        UsageError: `data_missing`, `revocation_over`. InvalidInput: as `revocations.revocation`.
        Temporary: as `Revocations.change`.
    """
    with opened(settings) as registry:
        at = registry.index.now()
        entry = revocation(kind, value, level=level, reason=reason, at=at, before=before, expires=expires)
        changed = Revocations(registry.index).change(lambda present: with_entry(present, entry))
    return f"{'revoked' if changed else 'already':<9} {kind} {value}  {level}"


def close_revocation(settings: Settings, kind: str, value: str, *, reason: str) -> str:
    """End the entry for a value now, and return what to say about it.

    Raises:
        UsageError: `data_missing`. NotAvailable: `revocation_unknown`. InvalidInput, Temporary: as `revoke`.
    """
    with opened(settings) as registry:
        at = registry.index.now()
        changed = Revocations(registry.index).change(
            lambda present: with_closing(present, kind, value, reason=reason, at=at)
        )
    return f"{'closed' if changed else 'already':<9} {kind} {value}"


def list_revocations(settings: Settings, *, as_json: bool) -> Sequence[str]:
    """Return the revocations: a line for each value, or the list as it is signed.

    Raises:
        UsageError: `data_missing`. NotAvailable: `index_missing`. Temporary: `index_unusable`.
    """
    with opened(settings) as registry:
        present = Revocations(registry.index).present()
        if as_json:
            return (
                canonical_json(present.model_dump(mode="json", by_alias=True, exclude_none=True)).decode(),
            )
        return described(present, registry.index.now())


@contextmanager
def opened(settings: Settings) -> Iterator[Registry]:
    """Open a registry that is there, running or not.

    Raises:
        UsageError: `data_missing`. Temporary: `store_unavailable`.
    """
    check_data(settings)
    migrate(settings.database)
    registry = compose(settings)
    try:
        yield registry
    finally:
        registry.close()
