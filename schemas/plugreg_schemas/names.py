"""Plugin names, references, digests and registry ids; versions and ranges come from `versions`.

A `PluginName`, a `Digest` and a `RegistryId` are strings that are known to be well formed.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Self

from plugreg_schemas.errors import InvalidInput, quoted
from plugreg_schemas.versions import MAX_RANGE, MAX_VERSION, Version, VersionRange, nearest_version

__all__ = [
    "MAX_NAME",
    "MAX_RANGE",
    "MAX_VERSION",
    "NAME_PATTERN",
    "RESERVED_NAMES",
    "WINDOWS_DEVICES",
    "Digest",
    "PluginName",
    "Ref",
    "RegistryId",
    "Version",
    "VersionRange",
    "nearest_version",
    "quoted",
]

MAX_NAME: Final = 64

NAME_PATTERN: Final = r"(?!.*(?:\.\.|--|__))[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?"
_NAME = re.compile(NAME_PATTERN)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_REGISTRY_ID = re.compile(
    r"urn:uuid:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|https://[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[1-9][0-9]{0,4})?"
)

WINDOWS_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "clock$", "conin$", "conout$"}
    | {f"com{n}" for n in "0123456789¹²³"}
    | {f"lpt{n}" for n in "0123456789¹²³"}
)
"""Names that Windows gives to devices, whatever follows the first dot (Microsoft, Naming Files)."""

RESERVED_NAMES: Final = frozenset({"plugreg", "all", "latest", "none", "null", "undefined", "unknown"})
"""Names that commands, hosts and people would mistake for something else."""


class PluginName(str):
    """The name of a plugin: 1-64 of `a-z 0-9 . _ -`, alphanumeric at both ends, no separator doubled.

    Raises:
        InvalidInput: `name_invalid` or `name_reserved`.

    >>> PluginName("lint3r")
    'lint3r'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not _NAME.fullmatch(text):
            raise InvalidInput("name_invalid", f"{quoted(text)} is not a plugin name", hint=_name_hint(text))
        if text.split(".", 1)[0] in WINDOWS_DEVICES or text in RESERVED_NAMES:
            raise InvalidInput(
                "name_reserved",
                f"{quoted(text)} is a reserved name",
                hint="choose another name, for example with a prefix",
            )
        return super().__new__(cls, text)

    @property
    def folded(self) -> str:
        """The name as look-alikes are compared: `.` and `_` folded to `-`."""
        return self.replace(".", "-").replace("_", "-")


class Digest(str):
    """A SHA-256 digest, spelled `sha256:` and 64 lower-case hexadecimal digits.

    Raises:
        InvalidInput: `digest_invalid`.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not _DIGEST.fullmatch(text):
            raise InvalidInput(
                "digest_invalid",
                f"{quoted(text)} is not a digest",
                hint="write `sha256:` and 64 lower-case hex digits",
            )
        return super().__new__(cls, text)

    @classmethod
    def of(cls, content: bytes) -> Self:
        """Return the digest of `content`."""
        return cls("sha256:" + hashlib.sha256(content).hexdigest())

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Return the digest with these 64 hexadecimal digits, the form used in URLs."""
        return cls("sha256:" + text)

    @property
    def hex(self) -> str:
        """The 64 hexadecimal digits alone, the form used in URLs and statements."""
        return self[7:]


class RegistryId(str):
    """The identity of a registry: `urn:uuid:...`, or an https origin chosen by its operator.

    It is never derived from where the registry listens, so a registry can move and be mirrored.

    Raises:
        InvalidInput: `registry_id_invalid`.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not _REGISTRY_ID.fullmatch(text):
            raise InvalidInput(
                "registry_id_invalid",
                f"{quoted(text)} is not a registry id",
                hint="write `urn:uuid:` and a UUID, or an https origin such as `https://plugins.example.com`",
            )
        return super().__new__(cls, text)


@dataclass(frozen=True, slots=True)
class Ref:
    """What a person types for a plugin: `NAME` or `NAME@RANGE`.

    >>> Ref.parse("lint3r@^1.2").range.text
    '^1.2'
    """

    name: PluginName
    range: VersionRange

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference.

        Raises:
            InvalidInput: `name_invalid`, `name_reserved`, `range_invalid`.
        """
        name, _, wanted = text.partition("@")
        return cls(PluginName(name), VersionRange(wanted.strip()))

    def __str__(self) -> str:
        return f"{self.name}@{self.range.text}" if self.range.text else str(self.name)


def _name_hint(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text[: MAX_NAME * 4]).encode("ascii", "ignore").decode().lower()
    near = (
        re.sub(r"[-._]{2,}", "-", re.sub(r"[^a-z0-9._-]+", "-", plain)).strip("-._")[:MAX_NAME].strip("-._")
    )
    rule = "1-64 of a-z 0-9 . _ -, a letter or digit at both ends, no doubled separator"
    return f"{rule}; for example `{near}`" if near and _NAME.fullmatch(near) else rule
