"""Where a walk reads: a folder that is a copy of a registry's objects, or what this machine kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from plugreg.index.verdicts import ASK
from plugreg.objects import is_missing, offline
from plugreg_schemas.errors import IntegrityError, NotAvailable, TooLarge

if TYPE_CHECKING:
    from plugreg.index.folder import IndexFolder
    from plugreg.objects import Objects
    from plugreg_schemas.api import Locations
    from plugreg_schemas.names import Digest


_LIMITS: Final = {"root": 512_000, "timestamp": 16_384, "snapshot": 2_000_000}
"""Bytes of metadata, as python-tuf has them."""
_TARGETS_LIMIT: Final = 5_000_000


def target_url(places: Locations, path: str, digest: Digest) -> str:
    """Return where exactly these bytes of a target lie at a registry."""
    folder, slash, name = path.rpartition("/")
    return f"{places.targets}{folder}{slash}{digest.hex}.{name}"


class Copied:
    """A copy of a registry's objects."""

    def __init__(self, objects: Objects, places: Locations) -> None:
        self._objects = objects
        self._places = places

    def metadata(self, role: str, version: int | None) -> bytes | None:
        """See `walk.Source`."""
        name = f"{role}.json" if version is None else f"{version}.{role}.json"
        try:
            return self._objects.read(self._places.metadata + name, _LIMITS.get(role, _TARGETS_LIMIT))
        except TooLarge as error:
            raise IntegrityError(
                "index_invalid", f"the index is not valid: {error.message}", hint=ASK
            ) from None
        except NotAvailable as error:
            if not is_missing(error):
                raise
            return None

    def target(self, path: str, digest: Digest) -> bytes:
        """See `walk.Source`."""
        return self._objects.read(target_url(self._places, path, digest))


class Kept:
    """What was verified before. What is not there in the very version that is needed cannot be got now."""

    def __init__(self, where: str, folder: IndexFolder) -> None:
        self._where = where
        self._folder = folder

    def metadata(self, role: str, version: int | None) -> bytes | None:
        """See `walk.Source`."""
        if role == "root":
            return self._folder.kept_metadata(f"{version}.root")
        content = self._folder.kept_metadata(role)
        if content is None or (version is not None and _version(content) not in {version, 0}):
            raise offline(f"this machine does not have `{role}` of the index of {self._where}")
        return content

    def target(self, path: str, digest: Digest) -> bytes:
        """See `walk.Source`."""
        content = self._folder.kept_target(path, digest)
        if content is None:
            raise offline(f"this machine does not have `{path}` of {self._where}")
        return content


def _version(content: bytes) -> int:
    """Return the version that metadata claim, or 0: damaged ones are judged where they are verified."""
    try:
        return int(json.loads(content)["signed"]["version"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0
