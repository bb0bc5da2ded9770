"""What a state of the signed index names in the store: all that a reader of this state may ask for.

timestamp.json   roots, snapshot, roles       by their versions
targets          under their hashes, and again under their names, for readers that do not verify
catalog pages    under their hashes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugreg_registry.signed_files import digest_of
from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import (
    CATALOG_TARGET,
    INDEX_ROLE,
    REVOCATIONS_ROLE,
    hashed_target_key,
    metadata_key,
    target_key,
)
from plugreg_schemas.listing import Listing
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuf.api.metadata import Targets

    from plugreg_registry.signed_files import SignedFiles, State


class Named(NamedTuple):
    """An object that is named."""

    key: str
    digest: Digest | None = None
    """Of its bytes, if what names it says so."""


def named_by(files: SignedFiles, state: State) -> Iterator[Named]:
    """Yield what a state names, `timestamp.json` first.

    Raises:
        Temporary: `index_unusable`.
    """
    yield Named(metadata_key("timestamp"))
    yield from (Named(metadata_key("root", number)) for number in range(1, state.root.version + 1))
    yield Named(metadata_key("snapshot", state.snapshot.version))
    for role in roles_of(state):
        yield Named(metadata_key(role, state.version(role)))
    for signed in (state.targets, state.index, state.revocations):
        yield from _targets(signed)
    for name in state.bins.get_roles():
        yield from _targets(files.bin(state, name))
    yield from _pages(files, state)


def roles_of(state: State) -> tuple[str, ...]:
    """Return the roles below the snapshot that count. Its other names are bins of former times."""
    return ("targets", INDEX_ROLE, REVOCATIONS_ROLE, *state.bins.get_roles())


def _targets(signed: Targets) -> Iterator[Named]:
    for path, listed in signed.targets.items():
        digest = digest_of(listed)
        yield Named(hashed_target_key(path, digest), digest)
        yield Named(target_key(path), digest)


def _pages(files: SignedFiles, state: State) -> Iterator[Named]:
    try:
        content = files.target(state.index, CATALOG_TARGET)
    except NotAvailable:
        return
    for page in read_model(Listing, content, code="index_unusable").pages:
        yield Named(target_key(page.path), Digest(page.digest))
