"""What plugins are found by, made from their records, and the answers to who looks for some.

    the index shows a record > its row is written > the record is marked as shown
    a row is missing, or older than what the index shows, or made by an older rule > a timer makes it again

So rows follow the index, a crash loses none, and a registry that had none before gets them while it serves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from plugreg_registry.documents import document_version, newest_release
from plugreg_registry.listing import listed
from plugreg_registry.records import ACTIVE, DEPRECATED, UNLISTED, SearchRow
from plugreg_registry.search_questions import cursor_at
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.api import Found, SearchPage
from plugreg_schemas.hosts import LANGUAGES, PROFILES, host_from
from plugreg_schemas.resolve import resolve
from plugreg_schemas.search import Subject, lexemes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugreg_registry.ports import Releases, Search
    from plugreg_registry.records import PluginRecord
    from plugreg_registry.search_questions import SearchQuestion
    from plugreg_schemas.hosts import Host
    from plugreg_schemas.tiers import TierPolicy

RULE: Final = 1
"""The number of the rule by which rows are made. With a new one, or a new host, all rows are made again."""
ROUND_SECONDS: Final = 2.0
"""How long a round takes at most; the next one goes on."""
LOOK_SECONDS: Final = 300.0
"""Between two looks whether a row is behind, once none is."""
BATCH: Final = 100

_BY_LANGUAGE: Final[Mapping[str, Host]] = {name: host_from({"language": [name]}) for name in LANGUAGES}


@dataclass(slots=True)
class Finder:
    """Keeps the rows, and finds plugins by them."""

    search: Search
    releases: Releases
    tiers: TierPolicy
    _due: float = field(default=0.0, init=False)
    """When to look again whether a row is behind, by the monotonic clock."""

    def show(self, records: Sequence[PluginRecord]) -> None:
        """Let plugins be found as the index shows them."""
        self.search.keep([row_of(record, self.tiers) for record in records])

    def round(self) -> int:
        """Make rows that are behind, for a while, and return how many were made."""
        done, end = 0, time.monotonic() + ROUND_SECONDS
        while self._due <= time.monotonic() < end:
            records = [self.releases.find(name) for name in self.search.behind(RULE, BATCH)]
            self.show([record for record in records if record is not None])
            done += len(records)
            if len(records) < BATCH:
                self._due = time.monotonic() + LOOK_SECONDS
        return done

    def page(self, question: SearchQuestion) -> SearchPage:
        """Return a page of what is found, and the cursor of the next one if there is more."""
        lookup = question.lookup
        hits = self.search.find(replace(lookup, limit=lookup.limit + 1))
        shown, more = hits[: lookup.limit], len(hits) > lookup.limit
        return SearchPage(
            plugins=tuple(Found.model_validate_json(hit.shown) for hit in shown),
            next=cursor_at(shown[-1].place, question.mark) if more else None,
        )


def row_of(record: PluginRecord, tiers: TierPolicy) -> SearchRow:
    """Return what a plugin is found by: what its latest version says."""
    history = record.history
    standing = {"active": ACTIVE, "deprecated": DEPRECATED}.get(history.state, UNLISTED)
    if standing == UNLISTED:
        return SearchRow(record.name, record.revision, RULE, UNLISTED, 0, (), "{}")
    release = newest_release(record)
    version = document_version(release, tiers.tier_of(record.name, release.facts.tier))
    row = listed(record.name, release.facts.description, version, deprecated=standing == DEPRECATED)
    shown = Found(
        **row.model_dump(), published_at=release.published_at, yanked=release.version in history.yanked
    )
    offer = Offer.of_document(record.name, version)
    subject = Subject(
        name=record.name,
        description=release.facts.description,
        components=tuple(component.id for component in version.components),
        tools=release.facts.tools,
        skills=release.facts.skills,
        runtimes=row.runtimes,
        languages=_usable(offer, _BY_LANGUAGE),
        hosts=_usable(offer, PROFILES),
    )
    age = -int(release.published_at.timestamp())
    return SearchRow(
        record.name, record.revision, RULE, standing, age, lexemes(subject), shown.model_dump_json()
    )


def _usable(offer: Offer, hosts: Mapping[str, Host]) -> tuple[str, ...]:
    """Return the names of the hosts that can use something of a plugin."""
    return tuple(name for name, host in hosts.items() if not resolve(offer, host).code)
