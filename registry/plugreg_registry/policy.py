"""Who may do what here. Pure: a record and a verified statement in, the next record or a refusal out.

`admit` is asked at the door, before a byte is taken; `with_release` and `with_statement` are asked in the
transaction that stores, where the record cannot change any more. Both judge by the registry's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from plugreg_registry.records import PluginRecord, StoredStatement
from plugreg_schemas import formats
from plugreg_schemas.api import ONE_OWNER, ProblemItem
from plugreg_schemas.errors import Conflict, NotAllowed, NotAvailable
from plugreg_schemas.fields import format_time
from plugreg_schemas.history import append
from plugreg_schemas.names import quoted
from plugreg_schemas.statement import Owners, Publish, Yank
from plugreg_schemas.trust.policy import check_claim, check_conditions, check_publish

if TYPE_CHECKING:
    from datetime import datetime

    from plugreg_registry.records import StoredRelease
    from plugreg_schemas.history import History
    from plugreg_schemas.index import Admins
    from plugreg_schemas.statement import Status
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.policy import Admission
    from plugreg_schemas.trust.verify import Signed


@dataclass(frozen=True, slots=True)
class Arrival:
    """A verified publish statement at the door. `claims`: the name was free when it first came."""

    signed: Signed
    said: Publish
    envelope: bytes
    claims: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What is in force when something is decided: who may claim a name, who administers, what time it is."""

    admission: Admission
    admins: Admins
    now: datetime

    def is_admin(self, signer: AnySigner) -> bool:
        """Whether `signer` is an administrator now."""
        return self.admins.include(signer, self.now)


def admit(record: PluginRecord | None, arrival: Arrival, rules: Rules) -> None:
    """Decide whether a publish may go on. An administrator may claim any free name.

    Raises:
        NotAllowed: `not_admitted`, `name_held`, `not_owner`, `plugin_quarantined`.
        IntegrityError: `key_outside_validity`, `ref_not_allowed`: the owner may not sign now, or from there.
        Gone: `plugin_removed`.
        Conflict: `name_taken`: a stranger came first; `version_exists`, `version_differs_in_build`.
    """
    said, signer = arrival.said, arrival.signed.signer
    if record is None:
        if not rules.is_admin(signer):
            check_claim(rules.admission, said.plugin, signer)
        return
    contended = arrival.claims or record.release(said.version) is not None
    if contended and record.history.state != "removed" and not record.history.owned_by(signer):
        raise _taken(record, signer.words)
    check_publish(
        said, signer, record.history, record.standing(said.version), arrival.signed.statement.digest
    )
    _check_conditions(record.history, arrival.signed, rules.now)


def published(record: PluginRecord | None, arrival: Arrival) -> StoredRelease | None:
    """Return the release that this statement asks for, if it is there already, with these bytes."""
    release = record.release(arrival.said.version) if record else None
    same = release is not None and release.digest == arrival.signed.statement.digest
    return release if same else None


def with_release(
    record: PluginRecord | None, arrival: Arrival, release: StoredRelease, rules: Rules
) -> PluginRecord:
    """Return the record with a release more; the record itself if it is in there.

    Raises as `admit` and `check_kind`.
    """
    admit(record, arrival, rules)
    if record is None:
        first = StoredStatement(
            arrival.signed.digest, arrival.envelope, arrival.signed.public_key, release.published_at
        )
        return PluginRecord(arrival.said.plugin, (first,), (release,))
    if published(record, arrival) is not None:
        return record
    check_kind(record, release)
    return replace(record, releases=(*record.releases, release))


def advice(record: PluginRecord) -> tuple[ProblemItem, ...]:
    """Return what the publisher of a plugin's first version should know."""
    if len(record.releases) > 1 or len(record.history.owners) > 1:
        return ()
    message = f"`{record.name}` has one owner: who loses that key or account loses the name with it"
    return (ProblemItem(code=ONE_OWNER, severity="note", boundary="registry", message=message),)


def check_kind(record: PluginRecord | None, release: StoredRelease) -> None:
    """Refuse a release that is another kind of thing than those before it.

    Raises:
        Conflict: `kind_immutable`.
    """
    if record is None:
        return
    before = next((r.facts.runtime_kind for r in record.releases if r.facts.runtime_kind), "")
    formats.check_kind(quoted(record.name), before, release.facts.runtime_kind)


def with_statement(
    record: PluginRecord | None, signed: Signed, said: Owners | Yank | Status, envelope: bytes, rules: Rules
) -> PluginRecord:
    """Return the record with a statement more; the record itself if it is in there.

    Raises:
        NotAvailable: `plugin_not_found`, `version_not_found`.
        Conflict: `history_moved`: another statement came first; `details` has the present head.
        NotAllowed: `not_owner`, `last_owner`, `admin_only`.
        IntegrityError: `key_outside_validity`, `ref_not_allowed`: the owner may not sign now, or from there.
        InvalidInput: `statement_without_effect`.
    """
    if record is None:
        raise NotAvailable("plugin_not_found", f"there is no plugin `{said.plugin}` here")
    history = record.history
    if signed.digest in history.digests:
        return record
    if not (history.owned_by(signed.signer) or rules.is_admin(signed.signer)):
        raise NotAllowed(
            "not_owner",
            f"`{signed.signer.words}` is not an owner of `{said.plugin}`",
            hint=f"an owner can add you: `plugreg owner add {said.plugin} ID`; "
            "administrators are named by the registry's operator",
        )
    if (said.previous, said.revision) != (history.head, history.revision + 1):
        raise Conflict(
            "history_moved",
            f"the history of `{said.plugin}` has gone on: its newest revision is {history.revision}",
            hint="read the plugin again, and sign a statement that follows its newest one",
            details={"head": str(history.head), "revision": history.revision},
        )
    if isinstance(said, Yank) and record.release(said.version) is None:
        raise NotAvailable("version_not_found", f"there is no `{said.plugin} {said.version}` here")
    taken = _taken_at(record, said, rules.now)
    for judged in (replace(signed, time=None), signed):  # by our own clock, and by the time that clients see
        append(history, judged, at=taken, admins=rules.admins)
    stored = StoredStatement(signed.digest, envelope, signed.public_key, taken)
    return replace(record, statements=(*record.statements, stored))


def _taken_at(record: PluginRecord, said: Owners | Yank | Status, now: datetime) -> datetime:
    """Return when a statement was taken: an owner is removed later than every release of theirs came.

    Clients refuse a former owner's release that is not earlier than the removal. Our clock counts whole
    seconds, and may have gone back.
    """
    gone = {owner.words for owner in said.remove} if isinstance(said, Owners) else set()
    theirs = (release.published_at for release in record.releases if release.signer.words in gone)
    return max((now, *(time + timedelta(seconds=1) for time in theirs)))


def _check_conditions(history: History, signed: Signed, now: datetime) -> None:
    """Refuse an owner whose key is not valid now, or was not when it signed, or a ref that is not theirs.

    What clients would refuse by the proved time of the signature must never become a release.
    """
    owner = history.owner(signed.signer)
    if owner is not None:
        for when in {now, signed.time or now}:
            check_conditions(owner, signed.signer, when)


def _taken(record: PluginRecord, signer: str) -> Conflict:
    first = record.releases[0]
    return Conflict(
        "name_taken",
        f"`{record.name}` was claimed at {format_time(first.published_at)}, and `{signer}` is not an owner",
        hint="choose another name, or ask an owner to add you",
        details={"digest": str(first.digest), "version": first.version},
    )
