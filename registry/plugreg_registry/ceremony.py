"""The beginning of the signed index, and what only its offline keys can change.

    keys > root > targets with who is trusted > bins, `index` and `revocations`, empty > snapshot, timestamp

Each step makes what is absent, so a ceremony that was cut off is gone through again: timestamp.json comes
last, and without it there is no index. A registry with plugins gets an index that lists all of them.
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    MetaFile,
    Root,
    Snapshot,
    SuccinctRoles,
    Targets,
    Timestamp,
)

from plugreg_registry.signed_files import BIN_LIFETIME, LIFETIMES, RootFile, put_targets, serialized
from plugreg_registry.signers import OFFLINE, ONLINE
from plugreg_schemas.api import DISCOVERY_PATH, RootRef
from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable, UsageError
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import (
    BIN_PREFIX,
    CATALOG_TARGET,
    INDEX_ROLE,
    PLUGINS_PATTERN,
    REVOCATIONS_ROLE,
    REVOCATIONS_TARGET,
    ROOT_MEMBER,
    SIGSTORE_TARGET,
    TRUST_TARGET,
    Admin,
    RevocationList,
    TrustDocument,
    bin_bits,
    metadata_key,
)
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from securesystemslib.signer import Key

    from plugreg_registry.ports import BlobStore
    from plugreg_registry.signed_files import SignedFiles, State
    from plugreg_schemas.trust.identity import AnySigner


@dataclass(frozen=True, slots=True)
class Trusted:
    """What the operator wants the offline role to say: the settings that are input at `init` and `rotate`."""

    registry: str
    admins: tuple[AnySigner, ...] | None = None
    """None where the setting is not given: then nothing is compared and nothing changes."""
    trust_config: bytes = b""


def found(files: SignedFiles, trusted: Trusted, plugins: int, now: datetime) -> None:
    """Make the index of a registry that has none, listing nothing yet; `plugins` says how many will come.

    Raises:
        UsageError: `keys_unusable`, `key_unreadable`, `keys_not_apart`.
        NotAvailable: `offline_keys_missing`.
    """
    root = files.root() or make_root(files, trusted.registry, now)
    trust = trust_document(trusted.registry, new_admins(None, trusted.admins or (), now))
    listed = put_targets(files.blobs, trust_targets(trust, trusted.trust_config))
    revocations = put_targets(files.blobs, {REVOCATIONS_TARGET: plain(RevocationList())})
    key = {role: files.keys.make(role).public_key for role in (INDEX_ROLE, REVOCATIONS_ROLE)}
    bins = succinct(key[INDEX_ROLE], bin_bits(plugins))
    roles = {
        "targets": Targets(targets=listed, delegations=delegations(key[INDEX_ROLE], key[REVOCATIONS_ROLE])),
        INDEX_ROLE: Targets(delegations=Delegations({key[INDEX_ROLE].keyid: key[INDEX_ROLE]}, None, bins)),
        REVOCATIONS_ROLE: Targets(targets=revocations),
        **{name: Targets() for name in bins.get_roles()},
    }
    meta = {}
    for role, signed in roles.items():
        signed.expires = now + LIFETIMES.get(role, BIN_LIFETIME)
        signer = files.keys.signer(*_key_of(role, root.signed, key))
        files.write(role, signed, (signer,), least=1)
        meta[f"{role}.json"] = MetaFile(signed.version)
    _show(files, root.signed, meta, now)


def make_root(files: SignedFiles, registry: str, now: datetime) -> RootFile:
    """Make the keys, and the first root that names them and the registry."""
    root = Root(
        expires=now + LIFETIMES["root"],
        consistent_snapshot=True,
        unrecognized_fields={ROOT_MEMBER: {"registry": registry}},
    )
    keys = {role: files.keys.make(role) for role in (*OFFLINE, *ONLINE)}
    check_apart({role: signer.public_key for role, signer in keys.items()})
    for role in root.roles:
        root.add_key(keys[role].public_key, role)
    content = serialized(root, (keys["root"],))
    with suppress(Conflict):  # another process was faster, and its root is the root
        files.blobs.put(metadata_key("root", 1), io.BytesIO(content), None)
    made = files.root()
    if made is None:
        raise NotAvailable("index_missing", "the root of the index is not in the store")
    return made


def check_apart(keys: Mapping[str, Key]) -> None:
    """Refuse to let one key sign revocations and anything else: who steals it could hide that it was stolen.

    Raises:
        UsageError: `keys_not_apart`.
    """
    for role, key in keys.items():
        if role != REVOCATIONS_ROLE and key.keyid == keys[REVOCATIONS_ROLE].keyid:
            raise UsageError(
                "keys_not_apart",
                f"revocations and `{role}` would be signed by the same key",
                hint="name another key with `PLUGREG_REGISTRY_REVOCATIONS_KEY`",
            )


def _key_of(role: str, root: Root, key: Mapping[str, Key]) -> tuple[str, Sequence[str]]:
    """Return whose key signs a role, and the ids that are named for it."""
    if role in root.roles:
        return role, root.roles[role].keyids
    owner = REVOCATIONS_ROLE if role == REVOCATIONS_ROLE else INDEX_ROLE
    return owner, [key[owner].keyid]


def _show(files: SignedFiles, root: Root, meta: dict[str, MetaFile], now: datetime) -> None:
    snapshot = Snapshot(expires=now + LIFETIMES["snapshot"], meta=meta)
    signer = files.keys.signer("snapshot", root.roles["snapshot"].keyids)
    content = files.write("snapshot", snapshot, (signer,), least=1)
    stamp = MetaFile(snapshot.version, len(content), {"sha256": Digest.of(content).hex})
    timestamp = Timestamp(expires=now + LIFETIMES["timestamp"], snapshot_meta=stamp)
    signer = files.keys.signer("timestamp", root.roles["timestamp"].keyids)
    files.blobs.put(metadata_key("timestamp"), io.BytesIO(serialized(timestamp, (signer,))), None)


def delegations(index: Key, revocations: Key) -> Delegations:
    """Return what the role `targets` hands on: the plugins and the catalog, and the revocations."""
    roles = (
        DelegatedRole(
            INDEX_ROLE, [index.keyid], 1, terminating=True, paths=[PLUGINS_PATTERN, CATALOG_TARGET]
        ),
        DelegatedRole(REVOCATIONS_ROLE, [revocations.keyid], 1, terminating=True, paths=[REVOCATIONS_TARGET]),
    )
    keys = {key.keyid: key for key in (index, revocations)}
    return Delegations(keys, roles={role.name: role for role in roles})


def succinct(index: Key, bits: int) -> SuccinctRoles:
    """Return the bins of the role `index`."""
    return SuccinctRoles([index.keyid], 1, bits, BIN_PREFIX)


def new_admins(
    present: TrustDocument | None, wanted: Iterable[AnySigner], now: datetime
) -> tuple[Admin, ...]:
    """Return the administrators after a change: who is gone stays listed with an end, newcomers begin now."""
    rows = present.admins if present else ()
    by_words = {signer.words: signer for signer in wanted}
    kept = tuple(
        row if row.until or row.signer.words in by_words else row.model_copy(update={"until": now})
        for row in rows
    )
    standing = {row.signer.words for row in rows if row.until is None}
    new = (Admin(signer=by_words[words], since=now) for words in by_words if words not in standing)
    return (*kept, *new)


def trust_document(registry: str, admins: tuple[Admin, ...]) -> TrustDocument:
    """Return the trust target."""
    return TrustDocument(registry=registry, admins=admins)


def trust_targets(trust: TrustDocument, trust_config: bytes) -> dict[str, bytes]:
    """Return the targets of the offline role by path."""
    config = {SIGSTORE_TARGET: trust_config} if trust_config else {}
    return {TRUST_TARGET: plain(trust), **config}


def signed_trust(files: SignedFiles, state: State) -> TrustDocument:
    """Return the trust target of a state. Raises `Temporary`: `index_unusable`."""
    return read_model(
        TrustDocument, files.target(state.targets, TRUST_TARGET), code="trust_invalid", file=TRUST_TARGET
    )


def differs(files: SignedFiles, state: State, trusted: Trusted) -> bool:
    """Whether the settings say something else about trust than what is signed: then `rotate` is to be run."""
    listed = state.targets.targets.get(SIGSTORE_TARGET)
    config = listed.hashes["sha256"] if listed else ""
    if config != (Digest.of(trusted.trust_config).hex if trusted.trust_config else ""):
        return True
    if trusted.admins is None:
        return False
    standing = {row.signer.words for row in signed_trust(files, state).admins if row.until is None}
    return standing != {signer.words for signer in trusted.admins}


def announce_root(blobs: BlobStore, root: RootFile) -> None:
    """Let the discovery document name the newest root."""
    try:
        with blobs.open(DISCOVERY_PATH) as file:
            document = parse_json(file.read())
    except (NotAvailable, InvalidInput):
        return  # the next start writes it
    if not isinstance(document, dict):
        return
    trust: dict[str, Any] = document.setdefault("trust", {})
    named = root_ref(root).model_dump(mode="json")
    if trust.get("root") != named:
        trust["root"] = named
        blobs.put(DISCOVERY_PATH, io.BytesIO(canonical_json(document)))


def root_ref(root: RootFile) -> RootRef:
    """Return how the discovery document names a root."""
    return RootRef(version=root.version, digest=root.digest)


def plain(model: TrustDocument | RevocationList) -> bytes:
    """Return the bytes of a target."""
    return canonical_json(model.model_dump(mode="json", by_alias=True, exclude_none=True))
