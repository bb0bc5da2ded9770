"""What keeps the index from expiring, and what an operator should know about its keys.

timestamp, revocations     a day old, or      signed again
                           from the future
snapshot, index, bins      45 days left       signed again
targets, root              90 days left       signed again if their keys are here; else a warning
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tuf.api.metadata import Root, Targets

from plugreg_registry.ceremony import differs
from plugreg_registry.signed_files import LIFETIMES, serialized
from plugreg_registry.signers import OFFLINE, ONLINE
from plugreg_schemas.errors import Conflict, PlugregError, Temporary
from plugreg_schemas.index import INDEX_ROLE, REVOCATIONS_ROLE, metadata_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tuf.api.metadata import Signed

    from plugreg_registry.ceremony import Trusted
    from plugreg_registry.signed_files import Draft, SignedFiles, State

DAILY: Final = timedelta(days=1)
AHEAD: Final = timedelta(minutes=10)
"""How far the clocks of two processes may be apart."""
HALF_LEFT: Final = timedelta(days=45)
OFFLINE_LEFT: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Renewal:
    """Signs again what comes near its end."""

    files: SignedFiles
    _ends: dict[str, tuple[int, datetime]] = field(default_factory=dict, init=False, repr=False)
    """When the bins expire, by name, each with its version: a version never changes."""

    def renew_root(self, state: State, now: datetime) -> bool:
        """Write the next root, with the same keys, if its time is near and its key is here."""
        old = state.root.signed
        signer = self.files.keys.find("root", old.roles["root"].keyids)
        if signer is None or old.expires - now >= OFFLINE_LEFT:
            return False
        root = Root.from_dict(old.to_dict())
        root.version += 1
        root.expires = now + LIFETIMES["root"]
        with suppress(Conflict):  # another process was faster
            content = io.BytesIO(serialized(root, (signer,)))
            self.files.blobs.put(metadata_key("root", root.version), content, None)
        return True

    def renew(self, draft: Draft) -> None:
        """Write again, into a draft, every role below the snapshot whose time is near."""
        state, now = draft.state, draft.now
        if state.targets.expires - now < OFFLINE_LEFT and _key_is_here(self.files, state, "targets"):
            draft.write("targets", _copy(state.targets))
        if _is_due(REVOCATIONS_ROLE, state.revocations, now):
            draft.write(REVOCATIONS_ROLE, _copy(state.revocations))
        if state.index.expires - now < HALF_LEFT:
            draft.write(INDEX_ROLE, _copy(state.index))
        for name in state.bins.get_roles():
            if self._end(state, name) - now < HALF_LEFT:
                draft.write(name, _copy(self.files.bin(state, name)))

    def stale(self, state: State, now: datetime) -> bool:
        """Whether timestamp or snapshot are to be signed again, whatever else is."""
        return _is_due("timestamp", state.timestamp, now) or state.snapshot.expires - now < HALF_LEFT

    def _end(self, state: State, name: str) -> datetime:
        version = state.version(name)
        known = self._ends.get(name)
        if known is None or known[0] != version:
            known = self._ends[name] = (version, self.files.bin(state, name).expires)
        return known[1]


@dataclass(frozen=True, slots=True)
class Warnings:
    """What an operator should look at, as it is now."""

    files: SignedFiles
    trusted: Trusted

    def now(self, now: datetime) -> tuple[str, ...]:
        """Return the words, as `/readyz` shows them."""
        try:
            return tuple(self._found(self.files.state(), now))
        except PlugregError as error:
            return (error.code,)

    def _found(self, state: State, now: datetime) -> Iterator[str]:
        if not all(_can_sign(self.files.next(state, now), role) for role in ONLINE):
            yield "index_keys_missing"
        if self.files.keys.failing:
            yield "key_service_failing"
        here = {role: _key_is_here(self.files, state, role) for role in OFFLINE}
        if any(here.values()):
            yield "root_keys_online"
        if state.root.signed.expires - now < OFFLINE_LEFT and not here["root"]:
            yield "root_expires"
        if state.targets.expires - now < OFFLINE_LEFT and not here["targets"]:
            yield "targets_expires"
        if differs(self.files, state, self.trusted):
            yield "admins_differ"


def _key_is_here(files: SignedFiles, state: State, role: str) -> bool:
    return files.keys.find(role, state.root.signed.roles[role].keyids) is not None


def _can_sign(draft: Draft, role: str) -> bool:
    try:
        draft.signer(role)
    except Temporary:
        return False
    return True


def _is_due(role: str, signed: Signed, now: datetime) -> bool:
    """Whether a role that is signed daily is a day old, or from the future: clients refuse that."""
    age = now - (signed.expires - LIFETIMES[role])
    return not -AHEAD < age < DAILY


def _copy(signed: Targets) -> Targets:
    return Targets(targets=dict(signed.targets), delegations=signed.delegations)
