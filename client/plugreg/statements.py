"""`plugreg yank`, `deprecate`, `owner`, `moderate`: signed statements at the end of a plugin's history.

document > prove its history > predicate that follows its head > sign > submit; again where the head moved

`resend` signs nothing: it submits again what others signed, this machine saw, and the registry lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from plugreg.link import Patience
from plugreg.proving import check_seen, extend, prove, remember
from plugreg.timestamping import signed
from plugreg_schemas.documents import parse_json
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable, UsageError
from plugreg_schemas.fields import MAX_REASON, Closed, check_model
from plugreg_schemas.names import PluginName
from plugreg_schemas.statement import (
    Owner,
    Owners,
    Status,
    Yank,
    conditions_of,
    owner_of,
    successor_statement,
)
from plugreg_schemas.trust.identity import parse_signer
from plugreg_schemas.trust.proof import read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugreg.remote import Remote
    from plugreg.signing import Signer
    from plugreg_schemas.api import PluginDocument, StatementReceipt
    from plugreg_schemas.history import History
    from plugreg_schemas.statement import AnyOwner, State
    from plugreg_schemas.trust.identity import AnySigner

    Make = Callable[[PluginDocument, History], Owners | Yank | Status]

PATIENCE: Final = Patience(tries=5, first_pause_s=0.1)
"""How often a statement is made anew because another one came first."""


class _Entry(Closed):
    owner: Owner


@dataclass(frozen=True, slots=True)
class Submitted:
    """A statement that the registry has taken."""

    name: str
    digest: str
    revision: int
    signer: AnySigner

    def as_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return {
            "name": self.name,
            "digest": self.digest,
            "revision": self.revision,
            "signer": self.signer.model_dump(),
        }


@dataclass(frozen=True, slots=True)
class Resent:
    """What became of the statements that this machine had seen; `sent` are those that the registry lacked."""

    name: str
    seen: int
    sent: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return {"name": self.name, "seen": self.seen, "sent": list(self.sent)}


def proved(remote: Remote, name: str) -> tuple[PluginDocument, History]:
    """Return a plugin's document with its proved history, which goes on from what this machine has seen.

    Raises:
        InvalidInput: `name_invalid`.
        NotAvailable: `plugin_not_found`.
        IntegrityError: as `prove_history`; `history_forked`.
    """
    document = read_document(remote.document(PluginName(name)), name)
    history = prove(remote, document)
    check_seen(remote, history)
    remember(remote, document, history)
    return document, history


def yank(remote: Remote, signer: Signer, name: str, version: str, reason: str) -> Submitted:
    """Withdraw a version.

    Raises:
        NotAvailable: `version_not_found`.
        NotAllowed: `not_owner`.
        InvalidInput: `statement_without_effect`: it is yanked already.
    """
    return _submit(
        remote,
        signer,
        name,
        lambda document, history: _yank(document, history, version, yanked=True, reason=reason),
    )


def unyank(remote: Remote, signer: Signer, name: str, version: str) -> Submitted:
    """Take a withdrawal back; see `yank`."""
    return _submit(
        remote,
        signer,
        name,
        lambda document, history: _yank(document, history, version, yanked=False, reason=""),
    )


def change_owners(
    remote: Remote, signer: Signer, name: str, add: Sequence[AnySigner] = (), remove: Sequence[AnySigner] = ()
) -> Submitted:
    """Add and remove owners of a name. Who is an owner already can be added with other conditions.

    Raises:
        NotAllowed: `not_owner`, `last_owner`.
        InvalidInput: `statement_without_effect`.
    """
    return _submit(
        remote,
        signer,
        name,
        lambda _document, history: Owners(
            **_place(history), add=tuple(map(owner_of, add)), remove=tuple(remove)
        ),
    )


def owner_entry(
    identity: AnySigner, *, not_before: str = "", not_after: str = "", refs: str = ""
) -> AnyOwner:
    """Return the owner entry of an identity with these conditions; an empty one is none.

    Raises:
        UsageError: `owner_condition_invalid`: the condition is malformed, or goes with another kind of owner.
    """
    conditions = {"not_before": not_before, "not_after": not_after, "refs": refs}
    given = {name: text for name, text in conditions.items() if text}
    entry = owner_of(identity).model_dump(mode="json") | given
    try:
        return check_model(_Entry, {"owner": entry}, code="owner_condition_invalid").owner
    except InvalidInput as error:
        raise UsageError(
            "owner_condition_invalid",
            "the owner's conditions are not valid",
            hint="`--not-before` and `--not-after` go with a key and are times such as "
            "`2027-01-31T12:00:00Z`; `--refs` goes with a CI",
            findings=error.findings,
        ) from None


def shown_owner(owner: AnyOwner) -> str:
    """Return an owner in words, with what limits them."""
    limits = [f"{name.replace('_', ' ')} {value}" for name, value in conditions_of(owner).items()]
    return f"{owner.words} ({', '.join(limits)})" if limits else owner.words


def set_state(
    remote: Remote, signer: Signer, name: str, state: State, reason: str = "", replacement: str | None = None
) -> Submitted:
    """Change the state of a plugin as a whole.

    Raises:
        NotAllowed: `not_owner`: only owners set and lift `deprecated`; `admin_only`: only administrators set
            and lift `quarantined` and `removed`.
        InvalidInput: `statement_without_effect`.
    """
    return _submit(
        remote,
        signer,
        name,
        lambda _document, history: Status(
            **_place(history), state=state, reason=reason, replacement=replacement
        ),
    )


def reassign(remote: Remote, signer: Signer, name: str, to: AnySigner, reason: str) -> Submitted:
    """Give a name to one owner, in place of all that it has. `signer` is an administrator.

    Raises:
        NotAllowed: `not_owner`: the signer is neither an owner nor an administrator.
        InvalidInput: `statement_without_effect`: nobody else owns it.
    """

    def owners(_document: PluginDocument, history: History) -> Owners:
        add = () if history.owned_by(to) else (owner_of(to),)
        remove = tuple(parse_signer(owner.words) for owner in history.owners if owner.words != to.words)
        return Owners(**_place(history), add=add, remove=remove, reason=reason)

    return _submit(remote, signer, name, owners)


def resend(remote: Remote, name: str) -> Resent:
    """Submit again, byte for byte, what this machine has seen of a plugin's history.

    What the registry has already it only confirms.

    Raises:
        InvalidInput: `name_invalid`.
        NotAvailable: `history_unknown`: this machine has seen nothing of it; `plugin_not_found`.
        Conflict: `history_moved`: the registry has taken another statement in the place of a lost one.
        PlugregError: whatever else the registry says to a statement.
    """
    seen = remote.histories.seen(remote.ref.id, PluginName(name)) if remote.histories else None
    if seen is None:
        raise NotAvailable(
            "history_unknown",
            f"this machine has never seen the history of `{name}`",
            hint="run it where the plugin was installed, shown or changed before the statement was lost",
        )
    sent = []
    for statement in seen.statements[1:]:
        try:
            receipt = remote.submit(_value(statement.envelope.encode()), statement.public_key)
        except Conflict as error:
            if error.code != "history_moved":
                raise
            raise Conflict(
                "history_moved",
                f"the history of `{name}` went on without the lost statement `{statement.digest}`, "
                "which can follow no more",
                hint="its owners can sign anew what was lost",
                details=error.details,
            ) from None
        if not receipt.already:
            sent.append(statement.digest)
    return Resent(name, len(seen.statements), tuple(sent))


def _yank(document: PluginDocument, history: History, version: str, *, yanked: bool, reason: str) -> Yank:
    if document.version(version) is None:
        known = ", ".join(entry.version for entry in document.versions[-5:])
        raise NotAvailable(
            "version_not_found",
            f"`{document.name}` has no version `{version}`",
            hint=f"the newest are: {known}",
        )
    return Yank(**_place(history), version=version, yanked=yanked, reason=reason)


def _place(history: History) -> dict[str, Any]:
    return {
        "registry": history.registry,
        "plugin": history.plugin,
        "revision": history.revision + 1,
        "previous": history.head,
    }


def _submit(remote: Remote, signer: Signer, name: str, make: Make) -> Submitted:
    for pause in PATIENCE.pauses():
        document, history = proved(remote, name)
        envelope = signed(signer, successor_statement(_made(make, document, history)), remote.sigstore)
        try:
            receipt: StatementReceipt = remote.submit(_value(envelope.content), signer.public_key)
        except Conflict as error:
            if error.code != "history_moved" or pause is None:
                raise
            time.sleep(pause)  # the index shows the other statement a moment after it was taken
        else:
            extend(remote, history, envelope, signer.public_key)
            return Submitted(name, receipt.digest, receipt.revision, envelope.signer)
    raise AssertionError  # the last pause is None and ends the loop


def _made(make: Make, document: PluginDocument, history: History) -> Owners | Yank | Status:
    """Return the predicate that follows a history.

    Raises:
        InvalidInput: `statement_invalid`: what was given cannot stand in a statement.
    """
    try:
        return make(document, history)
    except ValidationError as error:
        faults = [f"`{'/'.join(map(str, fault['loc']))}`: {fault['msg']}" for fault in error.errors()]
        raise InvalidInput(
            "statement_invalid",
            f"this cannot be said in a statement: {'; '.join(faults)}",
            hint=f"a reason is one line of at most {MAX_REASON} characters",
        ) from None


def _value(envelope: bytes) -> dict[str, Any]:
    value = parse_json(envelope)
    if not isinstance(value, dict):
        raise AssertionError("an envelope is a JSON object")  # noqa: TRY004 - it is ours, not the caller's
    return value
