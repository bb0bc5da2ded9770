"""New keys for the index, and the settings as the offline role signs them. It may be cut off anywhere.

    new keys beside the old ones > trust targets > bins, `index`, `revocations` with their new keys
    > targets, snapshot and timestamp, signed by the old and by the new key
    > the next root, signed by the old and by the new key: THE COMMIT POINT
    > a rest, for clients that looked for it just before > the old keys are removed

Until the root is there, readers follow the old one, and the old keys sign; from then on the new ones do. So
a registry that was cut off goes on, and rotates again. `index` and `revocations` are named by targets, so
they change with the timestamp. Where nobody has the old key of timestamp or snapshot, the root comes first,
and until the timestamp is there, only another rotation goes on.
"""

from __future__ import annotations

import io
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tuf.api.metadata import Delegations, SuccinctRoles, Targets

from plugreg_registry.ceremony import (
    announce_root,
    check_apart,
    delegations,
    new_admins,
    signed_trust,
    trust_targets,
)
from plugreg_registry.signed_files import LIFETIMES, RootFile, serialized
from plugreg_registry.signers import OFFLINE, ONLINE
from plugreg_schemas.errors import Conflict, Temporary, UsageError
from plugreg_schemas.index import (
    BIN_PREFIX,
    INDEX_ROLE,
    REVOCATIONS_ROLE,
    SIGSTORE_TARGET,
    metadata_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from securesystemslib.signer import Signer

    from plugreg_registry.ceremony import Trusted
    from plugreg_registry.index import Index
    from plugreg_registry.signed_files import Draft, State

    Ring = Mapping[str, Sequence[Signer]]
    """The keys that sign each role in between: the old one, if there is one, and last the one that stays."""

ROLES: Final = (*OFFLINE, *ONLINE)
REST_SECONDS: Final = 3.0
"""How long nothing is published after a new root: who looked for it just before reads the rest by then."""
BINS_AT_A_TIME: Final = 256
"""What is written before the lease is prolonged: a second's work."""
_NEXT: Final = "next"
"""The word in the name of a key file that is not in use yet."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What is to be changed in an index, whose keys include the offline ones."""

    index: Index
    trusted: Trusted
    roles: Collection[str]
    """The roles that get new keys."""
    rest: Callable[[], None]

    def run(self) -> RootFile:
        """Rotate, and return the new root. While this goes on, nobody publishes.

        Raises:
            UsageError: `trust_config_missing`, `keys_unusable`, `key_not_new`, `keys_not_apart`.
            NotAvailable: `offline_keys_missing`, `index_missing`.
            Temporary: `index_busy`, `index_moved`: another process has the index, or has changed it
            meanwhile; `index_key_missing`.
        """
        with self.index.alone() as prolong:
            state = self.index.files.state_to_rotate()
            trust = self._trust(state)
            self._settle(state)
            ring = self._ring(state)
            try:
                root = self._write(state, ring, trust, prolong)
            except Conflict:
                raise _moved() from None
            self.rest()
            self._finish(root)
        return root

    def _write(
        self, state: State, ring: Ring, trust: Mapping[str, bytes], prolong: Callable[[], None]
    ) -> RootFile:
        """Write the next state, then the next root; the other way round if nobody has the old key."""
        lost = [role for role in ("snapshot", "timestamp") if role in self.roles and len(ring[role]) == 1]
        if lost:
            root = self._put_root(state, ring)
            self._publish(state, ring, trust, prolong)
            return root
        self._publish(state, ring, trust, prolong)
        prolong()
        self._check_lead(state)
        return self._put_root(state, ring)

    def _trust(self, state: State) -> dict[str, bytes]:
        """Return the targets of the offline role, by path."""
        present = signed_trust(self.index.files, state)
        if SIGSTORE_TARGET in state.targets.targets and not self.trusted.trust_config:
            raise UsageError(
                "trust_config_missing",
                "clients get a trust configuration from this registry, and the settings name none",
                hint="set `PLUGREG_REGISTRY_TRUST_CONFIG` as for `serve`",
            )
        if self.trusted.admins is not None:
            admins = new_admins(present, self.trusted.admins, self.index.now())
            present = present.model_copy(update={"admins": admins})
        return trust_targets(present, self.trusted.trust_config)

    def _ring(self, state: State) -> Ring:
        """Return the keys; the online ones of roles that get new keys may be lost."""
        keys = self.index.files.keys
        ring = {}
        for role in ROLES:
            named = named_for(state, role)
            may_be_lost = role in self.roles and role not in OFFLINE
            old = keys.find(role, named) if may_be_lost else keys.signer(role, named)
            ring[role] = [old] if old is not None else []
        for role in self.roles:  # only now: whoever lacks a key makes none
            ring[role].append(keys.make(role, _NEXT))
        if self.roles and all(_is_same(ring[role]) for role in self.roles):
            raise _not_new(self.roles)
        check_apart({role: ring[role][-1].public_key for role in ONLINE})
        return ring

    def _publish(
        self, state: State, ring: Ring, trust: Mapping[str, bytes], prolong: Callable[[], None]
    ) -> None:
        """Write everything but the root, as readers with the old root and with the new one accept it."""
        draft = self.index.files.next(state, self.index.now())
        listed = {path: draft.put_target(path, content) for path, content in trust.items()}
        for path, target in state.targets.targets.items():
            draft.replace(target, listed.get(path))
        if INDEX_ROLE in self.roles:
            self._hand_over_bins(draft, ring[INDEX_ROLE][-1], prolong)
        if REVOCATIONS_ROLE in self.roles:
            signers = ring[REVOCATIONS_ROLE][-1:]
            draft.write(REVOCATIONS_ROLE, Targets(targets=dict(state.revocations.targets)), signers)
        below = delegations(ring[INDEX_ROLE][-1].public_key, ring[REVOCATIONS_ROLE][-1].public_key)
        draft.write("targets", Targets(targets=listed, delegations=below), ring["targets"])
        prolong()
        self.index.publish(draft, ring["snapshot"], ring["timestamp"])

    def _hand_over_bins(self, draft: Draft, signer: Signer, prolong: Callable[[], None]) -> None:
        state, key = draft.state, signer.public_key
        names = list(state.bins.get_roles())
        for start in range(0, len(names), BINS_AT_A_TIME):
            prolong()
            some = names[start : start + BINS_AT_A_TIME]
            targets = {name: dict(self.index.files.bin(state, name).targets) for name in some}
            draft.write_all({name: Targets(targets=targets[name]) for name in some}, (signer,))
        bins = SuccinctRoles([key.keyid], 1, state.bins.bit_length, BIN_PREFIX)
        below = Delegations({key.keyid: key}, None, bins)
        draft.write(INDEX_ROLE, Targets(targets=dict(state.index.targets), delegations=below), (signer,))

    def _check_lead(self, before: State) -> None:
        """Raise if somebody has published since: what the old keys sign is nothing to the new root."""
        if self.index.files.state().timestamp.version != before.timestamp.version + 1:
            raise _moved()

    def _put_root(self, state: State, ring: Ring) -> RootFile:
        root = deepcopy(state.root.signed)
        root.version += 1
        root.expires = self.index.now() + LIFETIMES["root"]
        for role in set(self.roles) & root.roles.keys():
            for keyid in tuple(root.roles[role].keyids):
                root.revoke_key(keyid, role)
            root.add_key(ring[role][-1].public_key, role)
        content = serialized(root, ring["root"])
        self.index.blobs.put(metadata_key("root", root.version), io.BytesIO(content), None)
        return RootFile(content, root)

    def _finish(self, root: RootFile) -> None:
        state = self.index.files.state()
        self.index.files.copy_targets(state)
        announce_root(self.index.blobs, root)
        self._settle(state)

    def _settle(self, state: State) -> None:
        """Give the keys that are in use their plain names; remove those that are not."""
        for role in ROLES:
            self.index.files.keys.settle(role, named_for(state, role))


def named_for(state: State, role: str) -> Sequence[str]:
    """Return the ids of the keys that a state names for a role."""
    if role in state.root.signed.roles:
        return state.root.signed.roles[role].keyids
    keyids: Sequence[str] = state.targets.get_delegated_role(role).keyids
    return keyids


def _is_same(signers: Sequence[Signer]) -> bool:
    """Whether a role would get the key that it has: a service was not asked for another one."""
    return len({signer.public_key.keyid for signer in signers}) < len(signers)


def _not_new(roles: Collection[str]) -> UsageError:
    return UsageError(
        "key_not_new",
        f"the keys that the settings name for {', '.join(roles)} sign already",
        hint="make another key where it is kept and name that one, or leave the role away; "
        "`--keep-keys` signs with the keys there are",
    )


def _moved() -> Temporary:
    return Temporary(
        "index_moved",
        "another process has changed the index meanwhile, so no new root was made",
        hint="run the command again",
    )
