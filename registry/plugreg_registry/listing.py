"""The list of plugins for hosts: made from the plugin documents by a timer, never by a publish.

    bins > documents that have changed > rows > pages under their hashes > `catalog.json`, a target of `index`

Rows are made without the lease; what changed meanwhile is read under it. A bin is known by its version and a
document by its digest: what has not changed is not read again.
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tuf.api.metadata import Targets

from plugreg_registry.signed_files import LIFETIMES, digest_of
from plugreg_schemas.api import PluginDocument
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Conflict, NotAvailable
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import CATALOG_TARGET, INDEX_ROLE, target_key
from plugreg_schemas.listing import Listed, Listing, ListingPage, PageRef, in_pages, one_line, page_path
from plugreg_schemas.names import Digest, Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugreg_registry.index import Index
    from plugreg_registry.signed_files import State
    from plugreg_schemas.api import DocumentVersion

LISTING_SECONDS: Final = 60
"""Between two lists, whatever number of processes serve."""
LOOK_SECONDS: Final = 20
"""How often a process looks whether it is time."""


_Rows = dict[str, tuple[Digest, Listed | None]]
"""By target path: the digest of a document, and its row."""


@dataclass(slots=True)
class Lister:
    """Keeps the list."""

    index: Index
    _bins: dict[str, tuple[int, _Rows]] = field(default_factory=dict, init=False)
    """By name: the version of a bin, and its rows."""
    _seen: tuple[int, ...] | None = field(default=None, init=False)
    """The versions of the bins for which the list is right; None before the first look."""

    def round(self) -> bool:
        """Write the list if the plugins have changed since the last one; return whether it was written.

        Raises:
            Temporary: `index_busy`, `index_unusable`, `index_key_missing`. NoSpace: `disk_full`.
        """
        if not self._is_due(self.index.files.state()):
            return False
        with self.index.alone():
            state = self.index.files.state()
            if not self._is_due(state):
                return False
            with suppress(Conflict):  # the lease was over; the next round does it
                self._write(state, *self._content(state))
                return True
        return False

    def _is_due(self, state: State) -> bool:
        """Whether the list is another one by now, and the last was signed a minute ago, by whomever.

        The first look reads nothing if there is a list: a process that starts has better things to do.
        """
        listed = state.index.targets.get(CATALOG_TARGET)
        seen, self._seen = self._seen, self._seen or ()
        if listed is None or seen is None:
            return listed is None
        signed_at = state.index.expires - LIFETIMES[INDEX_ROLE]
        versions = tuple(map(state.version, state.bins.get_roles()))
        if seen == versions or self.index.now() - signed_at < timedelta(seconds=LISTING_SECONDS):
            return False
        if Digest.of(self._content(state)[0]) != digest_of(listed):
            return True
        self._seen = versions
        return False

    def _content(self, state: State) -> tuple[bytes, Mapping[str, bytes]]:
        """Return `catalog.json`, and the pages by path."""
        refs, pages = [], {}
        rows = self._listed(state)
        for page in in_pages(rows):
            content = _plain(ListingPage(plugins=page))
            digest = Digest.of(content)
            path = page_path(digest.hex)
            pages[path] = content
            refs.append(
                PageRef(path=path, digest=digest, size=len(content), first=page[0].name, last=page[-1].name)
            )
        return _plain(Listing(plugins=len(rows), pages=tuple(refs))), pages

    def _listed(self, state: State) -> Sequence[Listed]:
        """Return the rows of a state, reading what is new."""
        bins = {}
        for name in state.bins.get_roles():
            version = state.version(name)
            known = self._bins.get(name, (0, {}))
            bins[name] = known if known[0] == version else (version, self._rows(state, name, known[1]))
        self._bins = bins
        return [row for _, rows in bins.values() for _, row in rows.values() if row is not None]

    def _rows(self, state: State, name: str, known: _Rows) -> _Rows:
        """Return the rows of one bin; those of documents that are the same are known."""
        signed = self.index.files.bin(state, name)
        rows: _Rows = {}
        for path, target in signed.targets.items():
            digest = digest_of(target)
            before = known.get(path)
            if before is None or before[0] != digest:
                before = (digest, row_of(self.index.files.target(signed, path)))
            rows[path] = before
        return rows

    def _write(self, state: State, content: bytes, pages: Mapping[str, bytes]) -> None:
        index = self.index
        for path, page in pages.items():
            with suppress(Conflict):  # it is there
                index.blobs.put(target_key(path), io.BytesIO(page), None)
        draft = index.files.next(state, index.now())
        new = draft.put_target(CATALOG_TARGET, content)
        draft.replace(state.index.targets.get(CATALOG_TARGET), new)
        gone = {page.path for page in self._present(state).pages} - pages.keys()
        draft.replaced += map(target_key, sorted(gone))
        targets = {**state.index.targets, CATALOG_TARGET: new}
        draft.write(INDEX_ROLE, Targets(targets=targets, delegations=state.index.delegations))
        index.publish(draft)
        index.files.copy_targets(index.files.state())

    def _present(self, state: State) -> Listing:
        try:
            content = self.index.files.target(state.index, CATALOG_TARGET)
        except NotAvailable:
            return Listing(plugins=0, pages=())
        return read_model(Listing, content, code="index_unusable", file=CATALOG_TARGET)


def row_of(content: bytes) -> Listed | None:
    """Return the row of a plugin, from the bytes of its document; None if it is not listed."""
    document = PluginDocument.model_validate_json(content)
    state = document.status.state
    if state not in {"active", "deprecated"} or not document.versions:
        return None
    newest = _newest(document.versions)
    return listed(document.name, document.description, newest, deprecated=state == "deprecated")


def listed(name: str, description: str, newest: DocumentVersion, *, deprecated: bool) -> Listed:
    """Return the row of a plugin by its newest version."""
    kinds = {runtime for component in newest.components for runtime in component.runtimes}
    return Listed(
        name=name,
        latest=newest.version,
        description=one_line(description),
        runtimes=tuple(sorted(kinds)),
        status="deprecated" if deprecated else "active",
    )


def _newest(versions: Sequence[DocumentVersion]) -> DocumentVersion:
    """Return what would be installed; without that a prerelease, and a yanked version only if all are."""
    known = {Version(entry.version): entry for entry in versions}
    return known[max(known, key=lambda v: (not known[v].yanked, not v.is_prerelease, v))]


def _plain(model: Listing | ListingPage) -> bytes:
    return canonical_json(model.model_dump(mode="json", by_alias=True))
