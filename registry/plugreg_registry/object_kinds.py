"""What an object is, by its key: its media type, how long it may be kept, and whether its name is its digest.

    .well-known/plugreg.json   index/...                  asked again every time, unless the operator allows
    index/metadata/<version>.<role>.json                  a year, immutable
    index/.../<sha256>.<name>.json                        the same
    blobs/sha256/<hex>         attestations/sha256/<hex>.json      the same; ETag is the name

The read plane sends it with every answer. A store that is served without us keeps it with every object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from plugreg_schemas.bundle import MEDIA_TYPE

IMMUTABLE: Final = "public, max-age=31536000, immutable"
PRIVATE: Final = "private, max-age=31536000, immutable, no-transform"
"""Of a bundle that only those may have who have a token."""

_SHAPES: Final = re.compile(
    r"(?P<bundle>blobs/sha256/(?P<bundle_hex>[0-9a-f]{64}))"
    r"|(?P<attestation>attestations/sha256/(?P<attestation_hex>[0-9a-f]{64})[.]json)"
    r"|(?P<fixed>index/metadata/[1-9][0-9]{0,9}[.][a-z0-9-]{1,40}[.]json"
    r"|index/(?:plugins/)?[0-9a-f]{64}[.][a-z0-9._-]{1,64}[.]json|index/catalog/[0-9a-f]{64}[.]json)"
    r"|(?P<document>[.]well-known/plugreg[.]json|index(?:/[a-z0-9][a-z0-9._-]{0,99}){1,3}[.]json)"
)


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """How one object is served."""

    media_type: str
    cache: str
    """Cache-Control."""
    digest: str = ""
    """The hexadecimal digest that is its name; empty where the content decides."""
    is_bundle: bool = False
    is_fixed: bool = True
    """Whether its bytes never change under this key."""


def kind_of(key: str, index_max_age: int = 0) -> ObjectKind | None:
    """Return the kind of an object of the read plane, or None if the key is of another shape.

    `index_max_age` is for how many seconds a cache may keep what changes.
    """
    found = _SHAPES.fullmatch(key)
    if found is None:
        return None
    if found["bundle"]:
        return ObjectKind(MEDIA_TYPE, f"{IMMUTABLE}, no-transform", found["bundle_hex"], is_bundle=True)
    if found["attestation"]:
        return ObjectKind("application/json", IMMUTABLE, found["attestation_hex"])
    if found["fixed"]:
        return ObjectKind("application/json", IMMUTABLE)
    changing = f"public, max-age={index_max_age}" if index_max_age else "no-cache"
    return ObjectKind("application/json", changing, is_fixed=False)
