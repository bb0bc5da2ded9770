"""`plugreg yank`, `unyank` and `owner`: signed statements that go to the end of a plugin's history.

document > prove its history > predicate that follows its head > sign > submit; again where the head moved
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import parse_json
from plugreg_schemas.errors import Conflict, NotAvailable
from plugreg_schemas.names import PluginName
from plugreg_schemas.statement import Owners, Yank, successor_statement
from plugreg_schemas.trust.proof import prove_history, read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugreg.remote import Remote
    from plugreg.signing import Signer
    from plugreg_schemas.api import PluginDocument, StatementReceipt
    from plugreg_schemas.history import History
    from plugreg_schemas.statement import Status
    from plugreg_schemas.trust.identity import AnySigner

    Make = Callable[[PluginDocument, History], Owners | Yank | Status]

TRIES: Final = 5
"""Times that a statement is made anew because another one came first."""


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


def proved(remote: Remote, name: str) -> tuple[PluginDocument, History]:
    """Return a plugin's document with its proved history.

    Raises:
        InvalidInput: `name_invalid`.
        NotAvailable: `plugin_not_found`.
        IntegrityError: as `prove_history`.
    """
    document = read_document(remote.document(PluginName(name)), name)
    return document, prove_history(document, remote.attestation, remote.ref.id, sigstore=remote.sigstore)


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
    """Add and remove owners of a name.

    Raises:
        NotAllowed: `not_owner`, `last_owner`.
        InvalidInput: `statement_without_effect`.
    """
    return _submit(
        remote,
        signer,
        name,
        lambda _document, history: Owners(**_place(history), add=tuple(add), remove=tuple(remove)),
    )


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
    for last in (*(False,) * (TRIES - 1), True):
        document, history = proved(remote, name)
        envelope = signer.sign(successor_statement(make(document, history)))
        value = parse_json(envelope.content)
        if not isinstance(value, dict):
            raise AssertionError("an envelope is a JSON object")  # noqa: TRY004 - it is ours, not the caller's
        try:
            receipt: StatementReceipt = remote.submit(value, signer.public_key)
        except Conflict as error:
            if error.code != "history_moved" or last:
                raise
        else:
            return Submitted(name, receipt.digest, receipt.revision, envelope.signer)
    raise AssertionError  # the last round returns or raises
