"""The list of revocations: entries are added, never changed and never dropped.

    revoke   a value is checked for its kind > an entry at the end of the list
    close    the newest entry for a value again, with its end now

The newest entry for a kind and value counts. What is asked for twice stands once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tuf.api.metadata import Targets

from plugreg_registry.ceremony import plain
from plugreg_schemas.errors import Conflict, NotAvailable, Temporary, UsageError
from plugreg_schemas.fields import check_model, format_time, read_model
from plugreg_schemas.index import REVOCATIONS_ROLE, REVOCATIONS_TARGET, Revocation, RevocationList
from plugreg_schemas.names import Digest, PluginName, quoted
from plugreg_schemas.trust.identity import parse_signer
from plugreg_schemas.trust.revocation import counting, in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from plugreg_registry.index import Index
    from plugreg_registry.signed_files import State

_VALUES: Final[Mapping[str, Callable[[str], str]]] = {
    "digest": Digest,
    "signer": lambda words: parse_signer(words).words,
    "name": PluginName,
}
_COUNTS: Final = ("level", "reason", "before", "expires")
"""What two entries for one value differ in, if they differ."""


@dataclass(frozen=True, slots=True)
class Revocations:
    """The list in the signed index."""

    index: Index

    def present(self) -> RevocationList:
        """Return the list as every reader sees it. Raises `Temporary`: `index_unusable`."""
        return self._of(self.index.files.state())

    def change(self, edit: Callable[[RevocationList], RevocationList]) -> bool:
        """Put what `edit` makes of the list in its place; return whether it is another one.

        After this every reader sees it.

        Raises:
            Temporary: `index_busy`, `index_moved`, `index_key_missing`; and what `edit` raises.
        """
        index = self.index
        with index.alone():
            state = index.files.state()
            before = self._of(state)
            after = edit(before)
            if after is before:
                return False
            draft = index.files.next(state, index.now())
            listed = draft.put_target(REVOCATIONS_TARGET, plain(after))
            draft.replace(state.revocations.targets.get(REVOCATIONS_TARGET), listed)
            draft.write(REVOCATIONS_ROLE, Targets(targets={REVOCATIONS_TARGET: listed}))
            try:
                index.publish(draft)
            except Conflict:
                raise Temporary(
                    "index_moved",
                    "another process has changed the index meanwhile",
                    hint="run the command again",
                ) from None
            index.files.copy_targets(index.files.state())
            return True

    def _of(self, state: State) -> RevocationList:
        content = self.index.files.target(state.revocations, REVOCATIONS_TARGET)
        return read_model(RevocationList, content, code="index_unusable", file=REVOCATIONS_TARGET)


def revocation(
    kind: str,
    value: str,
    *,
    level: str,
    reason: str,
    at: datetime,
    before: datetime | None = None,
    expires: datetime | None = None,
) -> Revocation:
    """Return an entry, made from what an operator typed.

    Raises:
        InvalidInput: `digest_invalid`, `signer_invalid`, `name_invalid`, `name_reserved`,
        `revocation_invalid`. UsageError: `revocation_over`: it would have ended already.
    """
    if expires is not None and expires <= at:
        raise UsageError(
            "revocation_over",
            f"`--expires {format_time(expires)}` is not in the future",
            hint="`plugreg-registry revoke --close` ends an entry now",
        )
    entry = {"kind": kind, "value": _VALUES[kind](value), "level": level, "reason": reason}
    times = {"at": at, "before": before, "expires": expires}
    entry |= {name: format_time(time) for name, time in times.items() if time is not None}
    return check_model(Revocation, entry, code="revocation_invalid", file="the revocation")


def with_entry(present: RevocationList, entry: Revocation) -> RevocationList:
    """Return the list with an entry at its end; the same list if that is what it says already."""
    newest = newest_of(present, entry.kind, entry.value)
    if newest is not None and all(getattr(newest, name) == getattr(entry, name) for name in _COUNTS):
        return present
    return _added(present, entry)


def with_closing(
    present: RevocationList, kind: str, value: str, *, reason: str, at: datetime
) -> RevocationList:
    """Return the list in which the entry for a value has its end; the same list if that is over already.

    Raises:
        NotAvailable: `revocation_unknown`. InvalidInput: as `revocation`.
    """
    newest = newest_of(present, kind, _VALUES[kind](value))
    if newest is None:
        raise NotAvailable(
            "revocation_unknown",
            f"the {kind} {quoted(value)} is not revoked",
            hint="`plugreg-registry revoke --list` shows what is",
        )
    if not in_force(newest, at):
        return present
    closing = newest.model_dump(mode="json", exclude_none=True)
    closing |= {"reason": reason, "at": format_time(at), "expires": format_time(at)}
    entry = check_model(Revocation, closing, code="revocation_invalid", file="the revocation")
    return _added(present, entry)


def _added(present: RevocationList, entry: Revocation) -> RevocationList:
    """Add an entry, later than all others: a client takes equal ones for one that it has seen."""
    newest = max((one.at for one in present.entries), default=None)
    if newest is not None and entry.at <= newest:
        entry = entry.model_copy(update={"at": newest + timedelta(seconds=1)})
    return present.model_copy(update={"entries": (*present.entries, entry)})


def newest_of(present: RevocationList, kind: str, value: str) -> Revocation | None:
    """Return the entry that counts for a value, or None."""
    found = (entry for entry in counting(present.entries) if (entry.kind, entry.value) == (kind, value))
    return next(found, None)


def described(present: RevocationList, now: datetime) -> tuple[str, ...]:
    """Return a line for each entry that counts, the newest last."""
    return tuple(_line(entry, now) for entry in counting(present.entries))


def _line(entry: Revocation, now: datetime) -> str:
    over = not in_force(entry, now)
    times = [] if over else [f"since {format_time(entry.at)}"]
    if entry.before is not None:
        times.append(f"signed before {format_time(entry.before)} is fine")
    if entry.expires is not None:
        times.append(f"{'closed' if over else 'until'} {format_time(entry.expires)}")
    level = "closed" if over else entry.level
    return f"{level:<8} {entry.kind:<7} {entry.value}  ({', '.join(times)}): {entry.reason}"
