"""The index of a registry that comes back from a backup which is not its newest state.

Clients refuse an index that is older than what they have seen. What was signed after the backup is lost, and
so is how far its versions went. So every file that the online keys sign is signed again, so many versions
further on that no client has seen more. What the offline keys sign stays as it is.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from tuf.api.metadata import MetaFile, Snapshot, Targets, Timestamp

from plugreg_registry.named import roles_of
from plugreg_registry.signed_files import LIFETIMES, serialized
from plugreg_schemas.index import INDEX_ROLE, REVOCATIONS_ROLE, metadata_key
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from datetime import datetime

    from plugreg_registry.signed_files import SignedFiles

JUMP: Final = 1_000_000
"""Versions that nobody has seen: a registry that signs once a second needs twelve days for as many."""


def jump(files: SignedFiles, now: datetime) -> int:
    """Sign the present state again, `JUMP` versions further on; return the version of its timestamp.

    Raises:
        NotAvailable: `index_missing`. Temporary: `index_unusable`, `index_key_missing`.
    """
    state = files.state()
    draft = files.next(state, now)
    signed = {INDEX_ROLE: state.index, REVOCATIONS_ROLE: state.revocations}
    signed |= {name: files.bin(state, name) for name in state.bins.get_roles()}
    for role in roles_of(state):
        if role in signed:
            draft.meta[f"{role}.json"] = MetaFile(state.version(role) + JUMP - 1)
    draft.write_all({role: _copy(targets) for role, targets in signed.items()})
    snapshot = Snapshot(expires=now + LIFETIMES["snapshot"], meta=draft.meta)
    least = state.timestamp.snapshot_meta.version + JUMP
    content = files.write("snapshot", snapshot, (draft.signer("snapshot"),), least=least)
    timestamp = Timestamp(
        version=state.timestamp.version + JUMP,
        expires=now + LIFETIMES["timestamp"],
        snapshot_meta=MetaFile(snapshot.version, len(content), {"sha256": Digest.of(content).hex}),
    )
    stamp = io.BytesIO(serialized(timestamp, (draft.signer("timestamp"),)))
    files.blobs.put(metadata_key("timestamp"), stamp, state.timestamp_content)
    return timestamp.version


def _copy(signed: Targets) -> Targets:
    return Targets(targets=dict(signed.targets), delegations=signed.delegations)
