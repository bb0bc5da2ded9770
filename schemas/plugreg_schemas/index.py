"""The signed index: which roles sign what, where it lies, and the small documents that it vouches for.

    root           offline   who signs for the other roles; the registry's id
    targets        offline   `trust.json`, `sigstore.json`; delegates to the two below
      index        online    `catalog.json`; delegates `plugins/*` to its bins
        bin-<hex>  online    `plugins/<name>.json`, spread by the hash of the path
      revocations  online, with a key of its own     `revocations.json`
    snapshot       online    the versions of all metadata, as one state
    timestamp      online    the newest snapshot; mutable, the rest is immutable

The Update Framework (TUF) 1.0 with consistent snapshots. Paths of targets are relative to `/index/`, and a
target lies there with the hash of its content before its file name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from plugreg_schemas.errors import IntegrityError, InvalidInput
from plugreg_schemas.fields import Open, ReasonField, RegistryIdField, TimeField
from plugreg_schemas.names import RegistryId
from plugreg_schemas.trust.identity import Signer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from plugreg_schemas.names import Digest
    from plugreg_schemas.trust.identity import AnySigner

METADATA_FOLDER: Final = "index/metadata"
TARGETS_FOLDER: Final = "index"
INDEX_ROLE: Final = "index"
REVOCATIONS_ROLE: Final = "revocations"
BIN_PREFIX: Final = "bin"
PLUGINS_PATTERN: Final = "plugins/*"
TRUST_TARGET: Final = "trust.json"
SIGSTORE_TARGET: Final = "sigstore.json"
CATALOG_TARGET: Final = "catalog.json"
REVOCATIONS_TARGET: Final = "revocations.json"
ROOT_MEMBER: Final = "plugreg"
"""The member of the signed part of a root that is ours: `{"registry": <id>}`."""

LEAST_BITS: Final = 4
MOST_BITS: Final = 14

Level = Literal["warn", "disable", "refuse"]


class Admin(Open):
    """An administrator of the registry. A former one stays listed, with `until`."""

    signer: Signer
    since: TimeField
    until: TimeField | None = None


class TrustDocument(Open):
    """`trust.json`: what only the offline role can say."""

    api_version: Annotated[Literal["1"], Field(alias="api-version")] = "1"
    registry: RegistryIdField
    admins: tuple[Admin, ...] = ()


class Revocation(Open):
    """That something is not to be used any more; the newest entry for a kind and value counts.

    `value` is a digest of a bundle, an identity in words, or a plugin's name. What is proved to be signed
    before `before` is not touched. From `expires` on the entry has no effect: that is how one is closed.
    """

    kind: Literal["digest", "signer", "name"]
    value: Annotated[str, Field(min_length=1, max_length=2000)]
    level: Level
    reason: ReasonField
    at: TimeField
    before: TimeField | None = None
    expires: TimeField | None = None


class RevocationList(Open):
    """`revocations.json`: entries are added and never dropped."""

    api_version: Annotated[Literal["1"], Field(alias="api-version")] = "1"
    entries: Annotated[tuple[Revocation, ...], Field(max_length=100_000)] = ()


@dataclass(frozen=True, slots=True)
class Admins:
    """The administrators as the trust target lists them."""

    rows: tuple[Admin, ...] = ()

    def include(self, signer: AnySigner, at: datetime | None) -> bool:
        """Whether `signer` was an administrator at a time. A former one needs a time that is proved."""
        return any(
            row.signer.words == signer.words and (row.until is None or (at is not None and at < row.until))
            for row in self.rows
        )


def plugin_target(name: str) -> str:
    """Return the path of a plugin's document as a target."""
    return f"plugins/{name}.json"


def target_key(target: str) -> str:
    """Return where the newest bytes of a target lie, for readers that do not verify the index."""
    return f"{TARGETS_FOLDER}/{target}"


def hashed_target_key(target: str, digest: Digest) -> str:
    """Return where exactly these bytes of a target lie."""
    folder, slash, name = target.rpartition("/")
    return f"{TARGETS_FOLDER}/{folder}{slash}{digest.hex}.{name}"


def metadata_key(role: str, version: int | None = None) -> str:
    """Return where the metadata of a role lies; without a version that of `timestamp`."""
    return f"{METADATA_FOLDER}/{role}.json" if version is None else f"{METADATA_FOLDER}/{version}.{role}.json"


def bin_bits(plugins: int) -> int:
    """Return how many bits of a path's hash choose its bin: twice as many bins as the square root."""
    wanted = math.ceil(math.log2(2 * math.sqrt(max(plugins, 1))))
    return min(max(wanted, LEAST_BITS), MOST_BITS)


def registry_of_root(unrecognized: Mapping[str, Any]) -> RegistryId:
    """Return the registry's id from the members of a verified root that TUF does not know.

    Raises:
        IntegrityError: `index_invalid`.
    """
    ours = unrecognized.get(ROOT_MEMBER)
    try:
        return RegistryId(str(ours["registry"])) if isinstance(ours, dict) else RegistryId("")
    except (KeyError, InvalidInput):
        raise IntegrityError("index_invalid", "the root of the index names no registry") from None
