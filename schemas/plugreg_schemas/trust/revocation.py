"""Which entry of a registry's revocations touches a release. Pure: entries and facts in, one or none out.

    newest entry for a kind and value > in force now > speaks of this release > not signed before > strongest

The list only grows. An entry is closed by a newer one for the same kind and value, and a client that saw an
entry keeps it, whatever it is served later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from plugreg_schemas.index import Level, Revocation, RevocationList

LEVELS: Final[Sequence[Level]] = ("warn", "disable", "refuse")
"""From the weakest to the strongest."""


def revoked(
    entries: Iterable[Revocation],
    *,
    name: str,
    digest: str,
    signer: str,
    when: datetime | None,
    now: datetime,
) -> Revocation | None:
    """Return the strongest entry in force for a release, or None.

    `signer` is the identity in words; `when` is the proved time of the signature, or else when the signed
    index says that the release was published. Without such a time every entry touches it. Of entries of one
    level the newest is returned.
    """
    facts = {"name": name, "digest": digest, "signer": signer}
    touching = [
        entry
        for entry in counting(entries)
        if facts[entry.kind] == entry.value and in_force(entry, now) and not _signed_before(entry, when)
    ]
    return max(reversed(touching), key=lambda entry: LEVELS.index(entry.level), default=None)


def counting(entries: Iterable[Revocation]) -> tuple[Revocation, ...]:
    """Return the entries that count, oldest first: for each kind and value the last in the list."""
    newest: dict[tuple[str, str], Revocation] = {}
    for entry in entries:
        newest.pop((entry.kind, entry.value), None)
        newest[entry.kind, entry.value] = entry
    return tuple(newest.values())


def in_force(entry: Revocation, now: datetime) -> bool:
    """Whether an entry has not ended."""
    return entry.expires is None or now < entry.expires


def merge(seen: RevocationList, served: RevocationList) -> RevocationList:
    """Return what was seen, followed by what is new in what is served: no entry is ever lost."""
    known = set(seen.entries)
    fresh = (entry for entry in dict.fromkeys(served.entries) if entry not in known)
    return seen.model_copy(update={"entries": (*seen.entries, *fresh)})


def _signed_before(entry: Revocation, when: datetime | None) -> bool:
    return entry.before is not None and when is not None and when < entry.before
