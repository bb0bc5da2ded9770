"""What is said against a plugin that is about to be started or rolled back to: the newest to be had quickly.

    registry of the plugin > its revocations now, for at most 3 seconds > else what this machine has seen

A start never fails because a registry is not there. What was once seen in a list counts for good.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from plugreg import revocations
from plugreg.index.terms import Terms
from plugreg.link import Patience
from plugreg.registries import Registries
from plugreg_schemas.errors import IntegrityError, PlugregError, Unverifiable
from plugreg_schemas.index import RevocationList

if TYPE_CHECKING:
    from plugreg.config import Config
    from plugreg.plugins_root import Facts
    from plugreg_schemas.errors import NotAllowed
    from plugreg_schemas.index import Revocation

BUDGET_S: Final = 3.0
"""Seconds that a start waits for a registry. What comes later is of use to the next one."""
LOCK_S: Final = 0.5
"""Seconds to wait for another command that reads the same index."""
LIFETIME: Final = timedelta(days=7)
"""How long a list of revocations is good for."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is said against a plugin: the refusal to start it, if there is one, and what a person is told."""

    refusal: NotAllowed | None = None
    notes: tuple[str, ...] = ()


def said_against(settings: Config, facts: Facts) -> tuple[Revocation | None, tuple[str, ...]]:
    """Return the strongest revocation of an installed release, and what a person is told of the list."""
    asked = _asked(settings, facts)
    listed = asked.listed
    notes = asked.notes
    if listed is None:
        kept = _kept(settings, facts)
        listed, notes = kept.listed or RevocationList(), (*notes, *kept.notes)
    return revocations.of_installed(listed, facts), notes


def standing(settings: Config, facts: Facts) -> Standing:
    """Return what its registry says against an installed plugin, as far as it can be told."""
    entry, notes = said_against(settings, facts)
    if entry is None:
        return Standing(notes=notes)
    if not revocations.may_start(entry):
        return Standing(revocations.refusal(entry, facts.name, facts.version), notes)
    return Standing(notes=(*notes, revocations.warning(entry, facts.name, facts.version)))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was learned: the list, or None where there is none to go by."""

    listed: RevocationList | None = None
    notes: tuple[str, ...] = ()


def _asked(settings: Config, facts: Facts) -> _Answer:
    """Return the list as the registry has it now; nothing where that takes too long or fails.

    That it cannot be reached is not said. That it was reached, and what it says cannot be relied on, is.
    """
    answers: list[_Answer] = []

    def ask() -> None:
        try:
            answers.append(_ask(settings, facts))
        except (IntegrityError, Unverifiable) as error:
            answers.append(_Answer(notes=(f"warning: what is revoked now cannot be told: {error.message}",)))
        except (PlugregError, OSError):
            return  # whatever it is: the next command that needs the registry says it

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(BUDGET_S)
    return answers[0] if answers else _Answer()


def _ask(settings: Config, facts: Facts) -> _Answer:
    """Ask once. A root that is not pinned is not pinned here: nobody looks at what a start prints."""
    from plugreg.reader import Reader

    registries = Registries(settings)
    entry = next((known for known in registries.known() if known.id == facts.registry.id), None)
    url = entry.url if entry else facts.registry.url
    reader = Reader(
        url,
        Terms(settings.home, first_use="refuse", patience_s=LOCK_S),
        expected_id=facts.registry.id,
        insecure_http=entry.insecure_http if entry else False,
        patience=Patience(tries=1),
        network=registries.network(),
        token=registries.token(url),
    )
    listed = reader.revocations
    return _Answer(listed, tuple(note for note in reader.notes if note.startswith("warning")))


def _kept(settings: Config, facts: Facts) -> _Answer:
    """Return what this machine has seen, and how old that is where it is older than a list is good for."""
    from plugreg.index import signed

    terms = Terms(settings.home, offline=True, allow_old_index=True, patience_s=LOCK_S)
    try:
        index = signed.from_kept(facts.registry.url, facts.registry.id, terms)
        listed = index.revocations
    except (PlugregError, OSError):
        return _Answer(signed.seen_revocations(settings.home, facts.registry.id))
    age = datetime.now(UTC) - index.signed_at
    note = (
        f"note: the registry {facts.registry.url} was not reached; "
        f"what it revokes was last read {age.days} days ago"
    )
    return _Answer(listed, (note,) if age > LIFETIME else ())
