"""Where objects lie that do not lie in a folder, and the way they take: the settings of S3 and of transfers.

PLUGREG_REGISTRY_BLOBS               s3://BUCKET[/PREFIX] instead of a folder
PLUGREG_REGISTRY_S3_ENDPOINT         address of a store that is not Amazon's
        ..._S3_PUBLIC_ENDPOINT       the same store as clients reach it, for presigned addresses
        ..._S3_REGION                region that signatures name
        ..._S3_PATH_STYLE            `yes`: the bucket stands in the path, `no`: in the host name
        ..._S3_SSE, _S3_SSE_KEY      encryption at rest: `AES256` or `aws:kms`; with the latter, its key
        ..._S3_TIMEOUT               seconds of silence after which the store is asked again, twice
PLUGREG_REGISTRY_DOWNLOADS           how bundles reach clients: `stream` through the registry, `redirect` to
                                     the bucket, or `cdn:` and an address with `{key}` in it
PLUGREG_REGISTRY_UPLOADS             `stream` through the registry, or `direct`: also to the bucket
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast
from urllib.parse import urlsplit

from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STORAGE_SETTINGS: Final = (
    "S3_ENDPOINT",
    "S3_PUBLIC_ENDPOINT",
    "S3_REGION",
    "S3_PATH_STYLE",
    "S3_SSE",
    "S3_SSE_KEY",
    "S3_TIMEOUT",
    "DOWNLOADS",
    "UPLOADS",
)
S3_SCHEME: Final = "s3://"
DEFAULT_TIMEOUT: Final = 10
MAX_TIMEOUT: Final = 300
KEY_FIELD: Final = "{key}"

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,9})?")

Encryption = Literal["AES256", "aws:kms"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A place in a store that speaks S3. Credentials come from where boto3 looks for them."""

    name: str
    prefix: str = ""
    """Before every key: empty, or it ends in `/`."""
    endpoint: str = ""
    """Empty for Amazon's own store."""
    public_endpoint: str = ""
    region: str = ""
    path_style: bool | None = None
    """None: as the kind of store suggests."""
    encryption: Encryption | None = None
    encryption_key: str = ""
    timeout: int = DEFAULT_TIMEOUT
    """Seconds of silence after which a request has failed."""

    @property
    def url(self) -> str:
        """What people call it."""
        return f"{S3_SCHEME}{self.name}/{self.prefix}"


@dataclass(frozen=True, slots=True)
class Transfers:
    """The way that bundles take."""

    downloads: Literal["stream", "redirect", "cdn"] = "stream"
    template: str = ""
    """For `cdn`: an address with `{key}`."""
    direct_uploads: bool = False


@dataclass(frozen=True, slots=True)
class StorageReader:
    """Reads the settings of this module; what is wrong is told to `refuse`: the setting, and why."""

    given: Mapping[str, str]
    refuse: Callable[[str, str], None]

    def bucket(self) -> Bucket | None:
        """Return the bucket that the objects lie in; None if they lie in a folder."""
        text = self.given.get("BLOBS", "")
        if not text.startswith(S3_SCHEME):
            for name in STORAGE_SETTINGS:
                if name.startswith("S3_") and name in self.given:
                    self.refuse(name, f"this is only for objects in S3: `BLOBS` is not `{S3_SCHEME}...`")
            return None
        name, _, prefix = text.removeprefix(S3_SCHEME).strip("/").partition("/")
        if not _BUCKET.fullmatch(name) or not _PREFIX.fullmatch(prefix):
            self.refuse(
                "BLOBS",
                f"write `{S3_SCHEME}BUCKET` or `{S3_SCHEME}BUCKET/PREFIX`; credentials come from elsewhere",
            )
            return None
        return Bucket(
            name=name,
            prefix=f"{prefix}/" if prefix else "",
            endpoint=self._address("S3_ENDPOINT"),
            public_endpoint=self._address("S3_PUBLIC_ENDPOINT"),
            region=self.given.get("S3_REGION", ""),
            path_style=self._path_style(),
            encryption=self._encryption(),
            encryption_key=self._encryption_key(),
            timeout=self._timeout(),
        )

    def transfers(self) -> Transfers:
        """Return the way that bundles take."""
        in_s3 = self.given.get("BLOBS", "").startswith(S3_SCHEME)
        uploads = self.given.get("UPLOADS", "stream")
        if uploads not in {"stream", "direct"} or (uploads == "direct" and not in_s3):
            self.refuse("UPLOADS", "write `stream`, or `direct` if the objects lie in S3")
        downloads, _, template = self.given.get("DOWNLOADS", "stream").partition(":")
        if downloads == "cdn" and _is_address(template.replace(KEY_FIELD, "key")) and KEY_FIELD in template:
            return Transfers("cdn", template, direct_uploads=uploads == "direct")
        if template or not (downloads == "stream" or (downloads == "redirect" and in_s3)):
            self.refuse(
                "DOWNLOADS",
                "write `stream`, `cdn:` and an address such as `https://cdn.example.com/{key}`, "
                "or `redirect` if the objects lie in S3",
            )
            return Transfers()
        return Transfers(
            "redirect" if downloads == "redirect" else "stream", direct_uploads=uploads == "direct"
        )

    def _address(self, name: str) -> str:
        text = self.given.get(name, "")
        if text and not _is_address(text):
            self.refuse(name, "write an http or https address without credentials, query and fragment")
            return ""
        return text.rstrip("/")

    def _path_style(self) -> bool | None:
        text = self.given.get("S3_PATH_STYLE")
        if text not in {None, "yes", "no"}:
            self.refuse("S3_PATH_STYLE", f"write `yes` or `no`, not {quoted(text or '')}")
        return None if text is None else text == "yes"

    def _encryption(self) -> Encryption | None:
        text = self.given.get("S3_SSE")
        if text not in {None, "AES256", "aws:kms"}:
            self.refuse("S3_SSE", f"write `AES256` or `aws:kms`, not {quoted(text or '')}")
            return None
        return cast("Encryption | None", text)

    def _timeout(self) -> int:
        text = self.given.get("S3_TIMEOUT", str(DEFAULT_TIMEOUT))
        if text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_TIMEOUT:  # noqa: PLR2004
            return int(text)
        self.refuse("S3_TIMEOUT", f"{quoted(text)} is not a whole number from 1 to {MAX_TIMEOUT}")
        return DEFAULT_TIMEOUT

    def _encryption_key(self) -> str:
        text = self.given.get("S3_SSE_KEY", "")
        if text and self.given.get("S3_SSE") != "aws:kms":
            self.refuse("S3_SSE_KEY", "a key is only used where `S3_SSE` is `aws:kms`")
        return text


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.username is None
            and parts.password is None
            and not (parts.query or parts.fragment)
        )
    except ValueError:
        return False
