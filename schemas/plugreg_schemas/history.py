"""The fold over a plugin's signed statements: who owns it, what is yanked, what state it is in.

    entry 0            the first publish: its signer is the first owner
    entry 1, 2, ...    owners, yank and status statements, each naming the digest of the one before

Both sides fold the same list: the registry before it appends, the client before it believes a document.

    who                              may sign
    an owner                         owners, yank; status, unless it sets or lifts `quarantined` or `removed`
    an administrator                 owners (who is no owner reassigns the name); status, unless it sets or
                                     lifts `deprecated`

Who was an owner or administrator when a statement was signed counts. When that was is proved by the statement
itself, or else said by the registry that took it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed, Unverifiable
from plugreg_schemas.index import Admins
from plugreg_schemas.statement import Owners, Publish, Status, Yank, conditions_of, owner_of
from plugreg_schemas.trust.policy import check_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from plugreg_schemas.names import Digest
    from plugreg_schemas.statement import AnyOwner, Predicate, State
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.verify import Signed

_Row = TypeVar("_Row")

MODERATED: Final = frozenset({"quarantined", "removed"})
"""States that only administrators set and lift."""


class Administrators(Protocol):
    """Who is an administrator of the registry."""

    def include(self, signer: AnySigner, at: datetime | None) -> bool:
        """Whether `signer` was an administrator at a time."""
        ...


class _Admitted:
    def include(self, signer: AnySigner, at: datetime | None) -> bool:  # noqa: ARG002 - the port
        return True


NOBODY: Final = Admins()
ADMITTED: Final = _Admitted()
"""Everybody is an administrator: only for a registry that folds what it has taken and stored itself."""


@dataclass(frozen=True, slots=True)
class History:
    """What a plugin's statements amount to. `head` is the digest of the last one, `revision` its place."""

    registry: str
    plugin: str
    head: Digest
    digests: tuple[Digest, ...]
    owners: tuple[AnyOwner, ...]
    yanked: dict[str, str] = field(default_factory=dict)
    """Reasons by yanked version."""
    state: State = "active"
    reason: str = ""
    replacement: str | None = None
    removed_at: dict[str, datetime | None] = field(default_factory=dict)
    """When former owners were removed, by their words; None where no time is known."""
    former: dict[str, AnyOwner] = field(default_factory=dict)
    """Former owners as they last stood, by their words."""
    reassigned: tuple[int, ...] = ()
    """Places of the statements by which an administrator gave the name to others."""

    @property
    def ever_owners(self) -> frozenset[str]:
        """The owners of now and of the past, in words."""
        return frozenset((*(owner.words for owner in self.owners), *self.former))

    @property
    def revision(self) -> int:
        """The place of the last statement; the first publish has 0."""
        return len(self.digests) - 1

    def owned_by(self, signer: AnySigner) -> bool:
        """Whether `signer` is an owner now, whatever the conditions."""
        return self.owner(signer) is not None

    def owner(self, signer: AnySigner) -> AnyOwner | None:
        """Return the owner entry of `signer`, or None where they are no owner now."""
        return next((owner for owner in self.owners if owner.words == signer.words), None)


def begin(first: Signed) -> History:
    """Return the history that a plugin's first publish begins.

    Raises:
        IntegrityError: `history_invalid`.
    """
    said = first.statement.predicate
    if not isinstance(said, Publish):
        raise IntegrityError("history_invalid", "a history begins with a publish statement")
    return History(
        registry=said.registry,
        plugin=said.plugin,
        head=first.digest,
        digests=(first.digest,),
        owners=(owner_of(first.signer),),
    )


def append(
    history: History, signed: Signed, *, at: datetime | None = None, admins: Administrators = NOBODY
) -> History:
    """Return the history with one more statement.

    `at` is when the registry took it: by its clock, or by the signed index. A proved time of the signature
    counts more.

    Raises:
        IntegrityError: `history_forked`: it does not follow this head; `history_invalid`: it is about another
            plugin or registry, or is not a statement that a history can hold; `key_outside_validity`,
            `ref_not_allowed`: the owner may not sign then or from there.
        Unverifiable: `no_trusted_time`: the owner has a condition that needs one.
        NotAllowed: `not_owner`, `last_owner`, `admin_only`.
        InvalidInput: `statement_without_effect`.
    """
    said = signed.statement.predicate
    if isinstance(said, Publish):
        raise IntegrityError("history_invalid", "only the first publish stands in a history")
    if (said.registry, said.plugin) != (history.registry, history.plugin):
        raise IntegrityError(
            "history_invalid", f"the statement is about `{said.plugin}` in `{said.registry}`"
        )
    if said.previous != history.head or said.revision != history.revision + 1:
        raise IntegrityError("history_forked", "the statement does not follow the newest one of this history")
    when = signed.time or at
    is_by_owner = _check_signer(history, said, signed.signer, when, admins)
    changed = _apply(history, said, when)
    if isinstance(said, Owners) and not is_by_owner:
        changed = replace(changed, reassigned=(*history.reassigned, said.revision))
    return replace(changed, head=signed.digest, digests=(*history.digests, signed.digest))


def fold(
    entries: Iterable[Signed], *, times: Sequence[datetime] = (), admins: Administrators = NOBODY
) -> History:
    """Fold a whole history, oldest statement first. `times`: when the registry took each, if that is known.

    Raises:
        IntegrityError: `history_invalid`, `history_forked`: no registry could have accepted it;
            `key_outside_validity`, `ref_not_allowed`.
        Unverifiable: `no_trusted_time`.
    """
    steps = list(entries)
    if not steps:
        raise IntegrityError("history_invalid", "the history is empty")
    history = begin(steps[0])
    for signed, at in zip_longest(steps[1:], times[1 : len(steps)]):
        try:
            history = append(history, signed, at=at, admins=admins)
        except (NotAllowed, InvalidInput) as error:
            place = history.revision + 1
            raise IntegrityError(
                "history_invalid", f"statement {place} of the history cannot stand: {error.message}"
            ) from None
    return history


def _check_signer(
    history: History, said: Predicate, signer: AnySigner, when: datetime | None, admins: Administrators
) -> bool:
    """Decide whether `signer` may make this statement, and return whether they make it as an owner.

    An owner whose conditions do not hold is none here: an administrator may still do what only that takes.
    """
    owner, is_admin = history.owner(signer), admins.include(signer, when)
    moderates = isinstance(said, Status) and bool({said.state, history.state} & MODERATED)
    if moderates and not is_admin:
        raise NotAllowed(
            "admin_only", "only an administrator of the registry may set or lift `quarantined` and `removed`"
        )
    for_owners = isinstance(said, Yank) or (
        isinstance(said, Status) and (not moderates or said.state == "deprecated")
    )
    needs_owner = for_owners or not is_admin
    if owner is None and needs_owner:
        raise NotAllowed(
            "not_owner",
            f"`{signer.words}` is not an owner of `{history.plugin}`",
            hint="an owner can add you: `plugreg owner add`",
        )
    if owner is None or admins is ADMITTED:  # what is stored was held to its conditions when it came
        return owner is not None
    try:
        check_conditions(owner, signer, when)
    except (IntegrityError, Unverifiable):
        if needs_owner:
            raise
        return False
    return True


def _apply(history: History, said: Predicate, when: datetime | None) -> History:
    match said:
        case Owners():
            return _change_owners(history, said, when)
        case Yank():
            return _change_yank(history, said)
        case Status():
            return _change_status(history, said)
        case _:
            raise IntegrityError("history_invalid", "only the first publish stands in a history")


def _change_owners(history: History, said: Owners, when: datetime | None) -> History:
    removed = {signer.words for signer in said.remove}
    present = {owner.words: owner for owner in history.owners}
    added = {owner.words: owner for owner in said.add}
    if (
        not removed <= present.keys()
        or any(present.get(owner.words) and _same(present[owner.words], owner) for owner in said.add)
        or len(added) < len(said.add)
        or (added.keys() & removed)
        or not (added or removed)
    ):
        raise InvalidInput(
            "statement_without_effect",
            "the statement must add identities that are not owners, or with other conditions, "
            "and remove ones that are",
            hint="`plugreg owner list` shows the owners",
        )
    after = {words: owner for words, owner in (present | added).items() if words not in removed}
    if not after:
        raise NotAllowed(
            "last_owner",
            f"the last owner of `{history.plugin}` cannot be removed",
            hint="add another owner first",
        )
    gone = {words: present[words] for words in removed}
    return replace(
        history,
        owners=tuple(after.values()),
        removed_at=_without(history.removed_at, added) | dict.fromkeys(gone, when),
        former=_without(history.former, added) | gone,
    )


def _same(one: AnyOwner, other: AnyOwner) -> bool:
    return conditions_of(one) == conditions_of(other)


def _without(rows: dict[str, _Row], words: Iterable[str]) -> dict[str, _Row]:
    gone = set(words)
    return {key: row for key, row in rows.items() if key not in gone}


def _change_yank(history: History, said: Yank) -> History:
    if said.yanked == (said.version in history.yanked):
        state = "already yanked" if said.yanked else "not yanked"
        raise InvalidInput("statement_without_effect", f"`{said.plugin} {said.version}` is {state}")
    yanked = dict(history.yanked)
    if said.yanked:
        yanked[said.version] = said.reason
    else:
        del yanked[said.version]
    return replace(history, yanked=yanked)


def _change_status(history: History, said: Status) -> History:
    if (said.state, said.reason, said.replacement) == (history.state, history.reason, history.replacement):
        raise InvalidInput("statement_without_effect", f"`{said.plugin}` is `{said.state}` already")
    return replace(history, state=said.state, reason=said.reason, replacement=said.replacement)
