"""The fold over a plugin's signed statements: who owns it, what is yanked, what state it is in.

    entry 0            the first publish: its signer is the first owner
    entry 1, 2, ...    owners, yank and status statements, each naming the digest of the one before

Both sides fold the same list: the registry before it appends, the client before it believes a document.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed
from plugreg_schemas.statement import Owners, Publish, Status, Yank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugreg_schemas.names import Digest
    from plugreg_schemas.statement import Predicate, State
    from plugreg_schemas.trust.identity import CiSigner, KeySigner, OidcSigner
    from plugreg_schemas.trust.verify import Signed

    AnySigner = KeySigner | OidcSigner | CiSigner


@dataclass(frozen=True, slots=True)
class History:
    """What a plugin's statements amount to. `head` is the digest of the last one, `revision` its place."""

    registry: str
    plugin: str
    head: Digest
    digests: tuple[Digest, ...]
    owners: tuple[AnySigner, ...]
    ever_owners: frozenset[str]
    yanked: dict[str, str] = field(default_factory=dict)
    """Reasons by yanked version."""
    state: State = "active"
    reason: str = ""
    replacement: str | None = None

    @property
    def revision(self) -> int:
        """The place of the last statement; the first publish has 0."""
        return len(self.digests) - 1

    def owned_by(self, signer: AnySigner) -> bool:
        """Whether `signer` is an owner now."""
        return any(owner.words == signer.words for owner in self.owners)


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
        owners=(first.signer,),
        ever_owners=frozenset({first.signer.words}),
    )


def append(history: History, signed: Signed) -> History:
    """Return the history with one more statement.

    Raises:
        IntegrityError: `history_forked`: it does not follow this head; `history_invalid`: it is about another
            plugin or registry, or is not a statement that a history can hold.
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
    if not history.owned_by(signed.signer):
        raise NotAllowed(
            "not_owner",
            f"`{signed.signer.words}` is not an owner of `{history.plugin}`",
            hint="an owner can add you: `plugreg owner add`",
        )
    return replace(_apply(history, said), head=signed.digest, digests=(*history.digests, signed.digest))


def fold(entries: Iterable[Signed]) -> History:
    """Fold a whole history, oldest statement first.

    Raises:
        IntegrityError: `history_invalid`, `history_forked`: no registry could have accepted it.
    """
    steps = iter(entries)
    first = next(steps, None)
    if first is None:
        raise IntegrityError("history_invalid", "the history is empty")
    history = begin(first)
    for signed in steps:
        try:
            history = append(history, signed)
        except (NotAllowed, InvalidInput) as error:
            place = history.revision + 1
            raise IntegrityError(
                "history_invalid", f"statement {place} of the history cannot stand: {error.message}"
            ) from None
    return history


def _apply(history: History, said: Predicate) -> History:
    match said:
        case Owners():
            return _change_owners(history, said)
        case Yank():
            return _change_yank(history, said)
        case Status():
            return _change_status(history, said)
        case _:
            raise IntegrityError("history_invalid", "only the first publish stands in a history")


def _change_owners(history: History, said: Owners) -> History:
    removed = {signer.words for signer in said.remove}
    present = {owner.words for owner in history.owners}
    added = {signer.words: signer for signer in said.add}
    if (
        not removed <= present
        or (added.keys() & present)
        or (added.keys() & removed)
        or not (added or removed)
    ):
        raise InvalidInput(
            "statement_without_effect",
            "the statement must add identities that are not owners and remove ones that are",
            hint="`plugreg owner list` shows the owners",
        )
    owners = (*(o for o in history.owners if o.words not in removed), *added.values())
    if not owners:
        raise NotAllowed(
            "last_owner",
            f"the last owner of `{history.plugin}` cannot be removed",
            hint="add another owner first",
        )
    return replace(history, owners=owners, ever_owners=history.ever_owners | added.keys())


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
    if {said.state, history.state} & {"quarantined", "removed"}:
        raise NotAllowed(
            "admin_only", "only an administrator of the registry may set or lift `quarantined` and `removed`"
        )
    if (said.state, said.reason, said.replacement) == (history.state, history.reason, history.replacement):
        raise InvalidInput("statement_without_effect", f"`{said.plugin}` is `{said.state}` already")
    return replace(history, state=said.state, reason=said.reason, replacement=said.replacement)
