"""A plugin's history is proved by its statements, and compared with what this machine has seen of it.

prove > check_seen > remember

A history that lacks what was seen is refused (`history_forked`): `plugreg owner resend` hands the registry
what it lost, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.histories import SeenHistory, SeenStatement
from plugreg_schemas.errors import IntegrityError
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.proof import prove_history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg.sources import Registry
    from plugreg_schemas.api import PluginDocument
    from plugreg_schemas.history import History
    from plugreg_schemas.names import Digest
    from plugreg_schemas.trust.envelope import Envelope


def prove(registry: Registry, document: PluginDocument) -> History:
    """Prove the history that a document lists.

    Raises:
        IntegrityError, Unverifiable: as `prove_history`.
    """
    return prove_history(
        document,
        registry.attestation,
        registry.ref.id,
        sigstore=registry.sigstore,
        admins=registry.admins,
    )


def extend(registry: Registry, history: History, envelope: Envelope, public_key: str) -> None:
    """Keep a statement that was just taken, behind the history that it follows."""
    seen = registry.histories.seen(history.registry, history.plugin) if registry.histories else None
    if registry.histories is None or seen is None or seen.digests != history.digests:
        return
    new = SeenStatement(digest=envelope.digest, envelope=envelope.content.decode(), public_key=public_key)
    registry.histories.keep(seen.model_copy(update={"statements": (*seen.statements, new)}))


def check_seen(registry: Registry, history: History, *, accepted: bool = False) -> None:
    """Refuse a history that lacks a statement which this machine has seen.

    `accepted`: a person has named the signer, so another plugin may have taken the name. That one begins with
    another statement; a history that begins as before and lacks something is never accepted.

    Raises:
        IntegrityError: `history_forked`.
    """
    seen = registry.histories.seen(history.registry, history.plugin) if registry.histories else None
    if seen is None or set(seen.digests) <= set(history.digests):
        return
    if accepted and seen.digests[0] != history.digests[0]:
        return
    raise forked(history.plugin)


def forked(name: str) -> IntegrityError:
    """Return the refusal of a history that lacks a statement which was in it before."""
    return IntegrityError(
        "history_forked",
        f"the history of `{name}` lacks a statement that was in it before",
        hint="the registry lost or hides a statement; if its operator put an older backup in place, "
        f"`plugreg owner resend {name}` gives it back what this machine has seen",
    )


def remember(registry: Registry, document: PluginDocument, history: History) -> None:
    """Keep a proved history that goes on from what was seen, with the bytes of its statements."""
    if registry.histories is None:
        return
    seen = registry.histories.seen(history.registry, history.plugin)
    if seen is not None and seen.digests == history.digests:
        return
    known = {statement.digest: statement for statement in seen.statements} if seen else {}
    keys = {row.signer.words: row.public_key or "" for row in document.signers}
    registry.histories.keep(
        SeenHistory(
            registry=history.registry,
            plugin=history.plugin,
            statements=tuple(
                known.get(digest) or _seen(registry, digest, keys) for digest in history.digests
            ),
        )
    )


def _seen(registry: Registry, digest: Digest, keys: Mapping[str, str]) -> SeenStatement:
    content = registry.attestation(digest)
    words = parse_envelope(content).signer.words
    return SeenStatement(digest=digest, envelope=content.decode(), public_key=keys.get(words, ""))
