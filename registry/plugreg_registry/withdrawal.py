"""What a removal takes away: the bundles of a plugin that is `removed`. Statements and records stay.

    row says removed: THE COMMIT POINT > index > bundles deleted > the record is marked as shown

A crash before the mark is healed with the index: whoever finishes it comes here first. The statement that
lifts a removal brings no bytes back; publishing the very same version again does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg_registry.ports import blob_key

if TYPE_CHECKING:
    from plugreg_registry.ports import BlobStore, Lock, Releases
    from plugreg_registry.records import PluginRecord


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Deletes the bundles of removed plugins."""

    releases: Releases
    blobs: BlobStore
    lock: Lock

    def enforce(self, record: PluginRecord) -> None:
        """Delete the bundles of a plugin if it is removed. It may be repeated.

        A commit stores a bundle under the same lock, so what is published after a removal was lifted is
        never taken away: the state is looked at again for every bundle.
        """
        if record.history.state != "removed":
            return
        for digest in dict.fromkeys(release.digest for release in record.releases):
            with self.lock("object", digest):
                if self._is_removed(record.name):
                    self.blobs.delete(blob_key(digest))

    def _is_removed(self, name: str) -> bool:
        record = self.releases.find(name)
        return record is not None and record.history.state == "removed"
