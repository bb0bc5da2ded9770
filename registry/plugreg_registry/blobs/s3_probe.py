"""What a store that speaks S3 really does. Found out by trying, before anything is served from it.

The registry stands on conditional writes: without them two replicas would overwrite each other's index. A
store that has none is refused. The rest is told to operators by `/readyz`.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from plugreg_registry.blobs.bucket import STAGING, refused_at_start, status_of
from plugreg_schemas.errors import PlugregError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugreg_registry.blobs.bucket import OpenBucket

_CHANGED: Final = frozenset({409, 412})
_BAD: Final = frozenset({400})
_UNKNOWN: Final = frozenset({400, 404, 405, 411, 501})
"""How stores refuse what they have never heard of. 404 is an answer to `If-Match`, or to parts."""
_OTHER_ETAG: Final = f'"{"0" * 32}"'
_WRONG_CRC32: Final = "AAAAAA=="


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a store does as Amazon's does."""

    conditional_put: bool
    """Writes only where nothing is, if it is asked to."""
    if_match: bool
    """Replaces only what the writer has seen."""
    multipart: bool
    conditional_multipart: bool
    """The same conditions hold for objects in parts."""
    checksums: bool
    """Compares a checksum that comes along with the bytes."""

    def facts(self) -> Mapping[str, Any]:
        """Return what `/readyz` shows."""
        return {"kind": "s3", **asdict(self)}


def probe(bucket: OpenBucket) -> Abilities:
    """Try what the registry needs, below the staging folder, and leave nothing.

    Raises:
        UsageError: `s3_refused`, `s3_bucket_missing`; `s3_unsuited`: no conditional writes, or no parts.
        Temporary: `store_unavailable`.
    """
    try:
        found = _Probe(bucket, bucket.at(f"{STAGING}probe-{secrets.token_hex(8)}")).run()
    except PlugregError as error:
        raise refused_at_start(bucket.bucket, error.__cause__) or error from error.__cause__
    lacks = [
        what
        for what, can in (
            ("`If-None-Match: *` with PUT", found.conditional_put),
            ("`If-Match` with PUT", found.if_match),
            ("uploads in parts", found.multipart),
        )
        if not can
    ]
    if lacks:
        raise UsageError(
            "s3_unsuited",
            f"the store of `{bucket.bucket.url}` does not obey {', nor '.join(lacks)}",
            hint="without it the index cannot be kept whole: use a newer version of the store, or another",
        )
    return found


@dataclass(frozen=True, slots=True)
class _Probe:
    bucket: OpenBucket
    at: dict[str, Any]

    def run(self) -> Abilities:
        client = self.bucket.client
        with self.bucket.faults():
            client.list_objects_v2(**self.bucket.below(STAGING), MaxKeys=1)
            etag = self._put()["ETag"]
            try:
                parts, conditional_parts = self._parts()
                return Abilities(
                    conditional_put=_refused(lambda: self._put(IfNoneMatch="*"), _CHANGED),
                    if_match=_refused(lambda: self._put(IfMatch=_OTHER_ETAG), _CHANGED)
                    and _done(lambda: self._put(IfMatch=etag)),
                    multipart=parts,
                    conditional_multipart=conditional_parts,
                    checksums=_refused(lambda: self._put(ChecksumCRC32=_WRONG_CRC32), _BAD)
                    and _done(lambda: self._put(ChecksumAlgorithm="CRC32")),
                )
            finally:
                with suppress(ClientError):
                    client.delete_object(**self.at)

    def _put(self, **more: Any) -> Any:  # noqa: ANN401 - boto3's answers are dictionaries
        return self.bucket.client.put_object(**self.at, **self.bucket.encrypted, **more, Body=b"probe")

    def _parts(self) -> tuple[bool, bool]:
        """Return whether objects can come in parts and be given up, and whether conditions hold for them."""
        client = self.bucket.client
        try:
            upload = client.create_multipart_upload(**self.at, **self.bucket.encrypted)["UploadId"]
            sent = client.upload_part(**self.at, UploadId=upload, PartNumber=1, Body=b"probe")
            parts: Any = {"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}
            conditional = _refused(
                lambda: client.complete_multipart_upload(
                    **self.at, UploadId=upload, IfNoneMatch="*", MultipartUpload=parts
                ),
                _CHANGED,
            )
            if conditional:
                client.abort_multipart_upload(**self.at, UploadId=upload)
        except ClientError as error:
            if status_of(error) in _UNKNOWN:
                return False, False
            raise
        return True, conditional


def _refused(act: Callable[[], object], statuses: frozenset[int]) -> bool:
    """Whether the store refuses with one of these statuses what has to be refused."""
    try:
        act()
    except ClientError as error:
        if status_of(error) in statuses:
            return True
        if status_of(error) in _UNKNOWN:
            return False
        raise
    return False


def _done(act: Callable[[], object]) -> bool:
    """Whether the store does what has to be done."""
    try:
        act()
    except ClientError as error:
        if status_of(error) in _UNKNOWN | _CHANGED:
            return False
        raise
    return True
