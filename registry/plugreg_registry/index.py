"""The publisher of the index: from records to documents that a reader can verify, many at a time.

    record waits > lease > documents under their hashes > changed bins > snapshot > timestamp: VISIBLE
                 > documents by name > journal, search > the record is marked as shown > lease given back

A publish waits until the index shows it. Whoever gets the lease takes the work of all along, up to 500
plugins at a time; one thread of a process tries, the others wait for it. Nothing is kept in memory but what
was verified: each group begins at timestamp.json. A crash anywhere leaves records that wait, and the next
group goes through all steps again. The store, not the lease, sees to it that the index is never taken back.
"""

from __future__ import annotations

import io
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tuf.api.metadata import Delegations, SuccinctRoles, Targets

from plugreg_registry import ceremony
from plugreg_registry.documents import audit_entries, plain_document
from plugreg_registry.observing import step
from plugreg_registry.signed_files import at_once
from plugreg_schemas.api import PluginDocument
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Conflict, NotAvailable, Temporary
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import INDEX_ROLE, bin_bits, plugin_target, target_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from securesystemslib.signer import Signer
    from tuf.api.metadata import TargetFile

    from plugreg_registry.ceremony import Trusted
    from plugreg_registry.ports import Backlog, BlobStore, Journal, Lease, Leftovers, Releases
    from plugreg_registry.records import PluginRecord
    from plugreg_registry.renewal import Renewal
    from plugreg_registry.searching import Finder
    from plugreg_registry.signed_files import Draft, RootFile, SignedFiles
    from plugreg_registry.withdrawal import Withdrawal
    from plugreg_schemas.tiers import TierPolicy

GROUP: Final = 500
"""Plugins that one group takes along."""
WAIT_SECONDS: Final = 10.0
"""How long an answer waits for the index."""
POLL_SECONDS: Final = 0.015
"""Between two looks whether another process is done."""
LOOK_SECONDS: Final = 0.25
"""How long a thread queues for its turn before it looks whether another has done its work."""
REMEMBERED: Final = 10_000
"""Plugins of which a process remembers what it has shown itself."""
PATIENCE_SECONDS: Final = 60.0
"""How long an operator's command waits for the lease: longer than a lease lasts."""


@dataclass(frozen=True, slots=True)
class Index:
    """Writes the index."""

    releases: Releases
    backlog: Backlog
    journal: Journal
    blobs: BlobStore
    leftovers: Leftovers
    lease: Lease
    files: SignedFiles
    renewal: Renewal
    withdrawal: Withdrawal
    finder: Finder
    tiers: TierPolicy
    now: Callable[[], datetime]
    wait: float = WAIT_SECONDS
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _shown: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Revisions that this process has shown: its threads need not ask the database for them."""

    def show(self, name: str, revision: int) -> bool:
        """Wait until every reader sees this revision of a plugin, or a newer one; return whether they do.

        Raises:
            Temporary: `index_key_missing`, `index_unusable`, ... NoSpace: `disk_full`.
        """
        with step("index.show") as shown:
            visible = self._wait_for(name, revision)
            if not visible:
                shown.outcome = "pending"
        return visible

    def lists(self, record: PluginRecord, version: str) -> bool:
        """Whether readers see a version of a plugin."""
        if self.backlog.shows(record.name, record.revision):
            return True
        content = self._read(target_key(plugin_target(record.name)))
        if content is None:
            return False
        document = read_model(PluginDocument, content, code="document_invalid")
        return document.version(version) is not None

    def drain(self) -> None:
        """Show what waits, unless another process is at it. Raises as `show`."""
        with self._turn:
            while self.backlog.waiting(1) and self._try_group():
                pass

    def renew(self) -> None:
        """Sign again what comes near its end, unless another process is at it. Raises as `show`."""
        with self._turn:
            token = self.lease.take()
            if token is not None:
                try:
                    self._renew()
                finally:
                    self.lease.release(token)

    def found(self, trusted: Trusted) -> RootFile:
        """Make the index if there is none, bring it to what the records say, and return its root.

        Raises:
            Temporary: `index_busy`; and as `ceremony.found` and `show`.
        """
        if not self.files.exists():
            with self.alone():
                if not self.files.exists():
                    self.backlog.again()
                    ceremony.found(self.files, trusted, self.backlog.plugins(), self.now())
            self.drain()
        state = self.files.state()
        self.files.copy_targets(state)
        return state.root

    @contextmanager
    def alone(self) -> Iterator[Callable[[], None]]:
        """Be the only one who writes the index, after the one who does now. Not to be entered twice.

        The value is called before each part of work that may take longer than a lease: it prolongs the lease.

        Raises:
            Temporary: `index_busy`.
        """
        with self._turn:
            end = time.monotonic() + PATIENCE_SECONDS
            while (token := self.lease.take()) is None:
                if time.monotonic() > end:
                    raise _busy()
                time.sleep(POLL_SECONDS)

            def prolong() -> None:
                nonlocal token
                newer = self.lease.take()
                if newer is None:
                    raise _busy()
                token = newer

            try:
                yield prolong
            finally:
                self.lease.release(token)

    def publish(
        self,
        draft: Draft,
        snapshot_signers: Sequence[Signer] = (),
        timestamp_signers: Sequence[Signer] = (),
    ) -> None:
        """Show a draft, by whoever holds the lease, and remember what it takes the place of.

        Raises as `Draft.publish`.
        """
        self.leftovers.add(draft.leaving, draft.now)
        draft.publish(snapshot_signers, timestamp_signers)

    def _wait_for(self, name: str, revision: int) -> bool:
        end = time.monotonic() + self.wait
        while not self._shows(name, revision):
            left = end - time.monotonic()
            if left <= 0:
                return False
            if self._turn.acquire(timeout=min(left, LOOK_SECONDS)):
                try:
                    if not self._shows(name, revision) and not self._try_group():
                        time.sleep(POLL_SECONDS)
                finally:
                    self._turn.release()
        return True

    def _try_group(self) -> bool:
        """Show one group if the lease is free; return whether something was done."""
        token = self.lease.take()
        if token is None:
            return False
        try:
            self._show_group(self.backlog.waiting(GROUP))
        except Conflict:
            return False  # the lease was over, and its next holder was faster: what waits is looked at again
        finally:
            self.lease.release(token)
        return True

    def _show_group(self, names: Sequence[str]) -> None:
        records = [record for name in names if (record := self.releases.find(name)) is not None]
        if records:
            with step("index.group", plugins=len(records)):
                self._show_records(records)

    def _show_records(self, records: Sequence[PluginRecord]) -> None:
        documents = {plugin_target(r.name): canonical_json(plain_document(r, self.tiers)) for r in records}
        seen = {path: self._read(target_key(path)) for path in documents}
        draft = self.files.next(self.files.state(), self.now())
        self._list(draft, draft.put_targets(documents))
        if draft.changed:
            self.publish(draft)
        for record in records:
            self.withdrawal.enforce(record)
        self._copy({path: content for path, content in documents.items() if content != seen[path]}, seen)
        entries = (entry for record in records for entry in audit_entries(record))
        self.journal.record(sorted(entries, key=lambda entry: entry.at))  # what it names can be seen
        self.finder.show(records)
        shown = {record.name: record.revision for record in records}
        self.backlog.mark(shown)
        if len(self._shown) > REMEMBERED:
            self._shown.clear()
        self._shown.update(shown)

    def _shows(self, name: str, revision: int) -> bool:
        return self._shown.get(name, 0) >= revision or self.backlog.shows(name, revision)

    def _list(self, draft: Draft, changed: Mapping[str, TargetFile]) -> None:
        """Write the bins that list these targets; all bins anew if the plugins are too many for them."""
        bins = draft.state.bins
        bits = bin_bits(self.backlog.plugins())
        if bits > bins.bit_length:
            self._spread(draft, changed, bits)
            return
        written = {}
        for name, targets in _by_bin(bins, changed).items():
            before = self.files.bin(draft.state, name).targets
            if any(before.get(path) != target for path, target in targets.items()):
                for path, target in targets.items():
                    draft.replace(before.get(path), target)
                written[name] = Targets(targets={**before, **targets})
        draft.write_all(written)

    def _spread(self, draft: Draft, changed: Mapping[str, TargetFile], bits: int) -> None:
        """Write all bins anew, more of them than before. The old names stay in the snapshot."""
        state = draft.state
        every: dict[str, TargetFile] = {}
        for name in state.bins.get_roles():
            every |= self.files.bin(state, name).targets
        for path, target in changed.items():
            draft.replace(every.get(path), target)
        bins = SuccinctRoles(state.bins.keyids, state.bins.threshold, bits, state.bins.name_prefix)
        spread = _by_bin(bins, {**every, **changed})
        draft.write_all({name: Targets(targets=spread.get(name, {})) for name in bins.get_roles()})
        keys = {keyid: state.index.get_key(keyid) for keyid in bins.keyids}
        index = Targets(targets=state.index.targets, delegations=Delegations(keys, None, bins))
        draft.write(INDEX_ROLE, index)

    def _copy(self, documents: Mapping[str, bytes], seen: Mapping[str, bytes | None]) -> None:
        """Put documents by name in the place of those that were seen there."""

        def put(path: str) -> None:
            self.blobs.put(target_key(path), io.BytesIO(documents[path]), seen[path])

        at_once(put, documents)

    def _renew(self) -> None:
        state, now = self.files.state(), self.now()
        if self.renewal.renew_root(state, now):
            state = self.files.state()
        ceremony.announce_root(self.blobs, state.root)
        draft = self.files.next(state, now)
        self.renewal.renew(draft)
        if draft.changed or self.renewal.stale(state, now):
            self.publish(draft)
        self.files.copy_targets(state)

    def _read(self, key: str) -> bytes | None:
        try:
            with self.blobs.open(key) as file:
                return file.read()
        except NotAvailable:
            return None


def _busy() -> Temporary:
    return Temporary("index_busy", "another process publishes the index", hint="try again in a minute")


def _by_bin(bins: SuccinctRoles, targets: Mapping[str, TargetFile]) -> dict[str, dict[str, TargetFile]]:
    found: dict[str, dict[str, TargetFile]] = {}
    for path, target in targets.items():
        found.setdefault(bins.get_role_for_target(path), {})[path] = target
    return found
