"""What the index has replaced stays a day, for readers who are under way, and is then removed.

    replaced (noted before the next state is shown) > a day > looked at once more > removed > forgotten

Whether the present state names an object is asked of the state itself, under the lease: one that was put back
since, with the same bytes, stays. Roots are never replaced.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import (
    CATALOG_TARGET,
    PLUGINS_PATTERN,
    TARGETS_FOLDER,
    metadata_key,
    target_key,
)
from plugreg_schemas.listing import Listing
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugreg_registry.index import Index
    from plugreg_registry.signed_files import State

KEPT: Final = timedelta(days=1)
BATCH: Final = 200
"""Objects that are removed while nobody can publish."""

_HASHED: Final = re.compile(rf"{TARGETS_FOLDER}/((?:[a-z]+/)?)([0-9a-f]{{64}})[.](.+)")
_PLUGINS: Final = PLUGINS_PATTERN.removesuffix("*")


@dataclass(frozen=True, slots=True)
class Clearing:
    """Removes what was replaced a day ago."""

    index: Index

    def round(self) -> int:
        """Do one round, and return how many objects were removed."""
        removed = 0
        while keys := self.index.leftovers.old(self.index.now() - KEPT, BATCH):
            with self.index.alone():
                state = self.index.files.state()
                named = {*_metadata(state), *self._pages(state)}
                for key in keys:
                    if key not in named and not self._is_target(state, key):
                        self.index.blobs.delete(key)
                        removed += 1
                self.index.leftovers.remove(keys)
        return removed

    def _pages(self, state: State) -> Iterator[str]:
        """Yield the keys of the pages of the present catalog."""
        with suppress(NotAvailable):
            content = self.index.files.target(state.index, CATALOG_TARGET)
            for page in read_model(Listing, content, code="index_unusable").pages:
                yield target_key(page.path)

    def _is_target(self, state: State, key: str) -> bool:
        """Whether a state lists exactly these bytes."""
        found = _HASHED.fullmatch(key)
        if found is None:
            return False
        path, digest = found[1] + found[3], Digest.from_hex(found[2])
        roles = [state.targets, state.index, state.revocations]
        if path.startswith(_PLUGINS):
            roles = [self.index.files.bin(state, state.bins.get_role_for_target(path))]
        listed = (role.targets[path] for role in roles if path in role.targets)
        return any(target.hashes["sha256"] == digest.hex for target in listed)


def _metadata(state: State) -> Iterator[str]:
    """Yield the keys of the metadata that a state names."""
    yield metadata_key("snapshot", state.snapshot.version)
    for name, meta in state.snapshot.meta.items():
        yield metadata_key(name.removesuffix(".json"), meta.version)
