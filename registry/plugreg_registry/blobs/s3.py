"""`BlobStore` in a bucket: an object's key is its name below the prefix, as a CDN in front would ask for it.

A small object is one request; a large one comes in parts, which are given up if its source fails. What must
stand in its place is said by the store's own conditions (`If-None-Match`, `If-Match`): of two writers on two
machines one wins. Objects carry their media type and how long they may be cached, so the bucket can be served
as it is.
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, cast

from botocore.exceptions import ClientError

from plugreg_registry.blobs.bucket import STAGING, status_of
from plugreg_registry.object_kinds import ObjectKind, kind_of
from plugreg_registry.ports import Over, check_key
from plugreg_registry.records import StoredObject
from plugreg_schemas.errors import Conflict, NotAvailable, PlugregError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from botocore.response import StreamingBody
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, HeadObjectOutputTypeDef

    from plugreg_registry.blobs.bucket import OpenBucket
    from plugreg_registry.ports import Source

PART_BYTES: Final = 8 << 20
"""The most of one object that is in memory. S3 takes parts from 5 MiB on, 10,000 of them."""
ABANDONED: Final = timedelta(hours=1)
"""An object in parts that has not become one in this time has no writer any more."""
PRESIGNED_SECONDS: Final = 300

_OURS: Final = ObjectKind("application/octet-stream", "no-store")
"""What nobody reads but the registry."""


@dataclass(frozen=True, slots=True)
class S3Blobs:
    """The objects below the prefix of a bucket."""

    bucket: OpenBucket
    index_max_age: int = 0

    def put(self, key: str, source: Source, over: bytes | Literal[Over.ANY] | None = Over.ANY) -> None:
        """See `BlobStore.put`."""
        condition = self._condition(check_key(key), over)
        parts = _parts(source)
        first = next(parts, b"")
        try:
            if len(first) < PART_BYTES:
                with self.bucket.faults():
                    self.bucket.client.put_object(
                        **self.bucket.at(key), **self._described(key), **condition, Body=first
                    )
            else:
                self._put_parts(key, chain([first], parts), condition)
        except NotAvailable:  # what was to be replaced has gone since
            raise _changed(key) from None

    def open(self, key: str) -> BinaryIO:
        """See `BlobStore.open`."""
        return _reader(self.bucket, self._get(check_key(key))["Body"])

    def has(self, key: str) -> bool:
        """See `BlobStore.has`."""
        return self.size(key) is not None

    def delete(self, key: str) -> None:
        """See `BlobStore.delete`."""
        check_key(key)
        with suppress(NotAvailable), self.bucket.faults():
            self.bucket.client.delete_object(**self.bucket.at(key))

    def keys(self, prefix: str) -> Iterator[str]:
        """See `BlobStore.keys`."""
        yield from (key for key, _ in self.bucket.listed(f"{check_key(prefix)}/"))

    def objects(self, folder: str) -> Iterator[StoredObject]:
        """See `Inventory.objects`."""
        pages = self.bucket.client.get_paginator("list_objects_v2")
        with self.bucket.faults():
            for page in pages.paginate(**self.bucket.below(f"{check_key(folder)}/")):
                for entry in page.get("Contents", ()):
                    yield StoredObject(self.bucket.key(entry["Key"]), entry["Size"], entry["LastModified"])

    def changed(self, key: str) -> datetime | None:
        """See `Inventory.changed`."""
        found = self._head(key)
        return found["LastModified"] if found else None

    def size(self, key: str) -> int | None:
        """Return the bytes of an object, or None if there is none."""
        found = self._head(key)
        return found["ContentLength"] if found else None

    def span(self, key: str, start: int, end: int) -> BinaryIO:
        """Open the bytes `start` to `end` (not included) of an object. Raises as `open`."""
        return _reader(self.bucket, self._get(key, Range=f"bytes={start}-{end - 1}")["Body"])

    def read(self, key: str, seen: str = "") -> tuple[bytes, str] | None:
        """Return a small object and the store's mark of it; None if its mark is still `seen`.

        Raises:
            NotAvailable: `object_not_found`.
        """
        try:
            with self.bucket.faults():
                found = self._ask(key, **({"IfNoneMatch": seen} if seen else {}))
                if found is None:
                    return None
                with found["Body"] as body:
                    return body.read(), found["ETag"]
        except NotAvailable:
            raise _missing(key) from None

    def sweep(self, now: datetime | None = None) -> int:
        """Give up objects in parts whose writers have crashed, and return how many they were."""
        before = (now or datetime.now(UTC)) - ABANDONED
        uploads = self.bucket.client.get_paginator("list_multipart_uploads")
        swept = 0
        with self.bucket.faults():
            for page in uploads.paginate(**self.bucket.below("")):
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < before:
                        self._give_up(self.bucket.key(upload["Key"]), upload["UploadId"])
                        swept += 1
        return swept

    def _condition(self, key: str, over: bytes | Literal[Over.ANY] | None) -> dict[str, Any]:
        if over is Over.ANY:
            return {}
        if over is None:
            return {"IfNoneMatch": "*"}
        try:
            found = self.read(key)
        except NotAvailable:
            found = None
        if found is None or found[0] != over:
            raise _changed(key)
        return {"IfMatch": found[1]}

    def _put_parts(self, key: str, parts: Iterable[bytes], condition: dict[str, Any]) -> None:
        client, at = self.bucket.client, self.bucket.at(key)
        with self.bucket.faults():
            upload = client.create_multipart_upload(**at, **self._described(key))["UploadId"]
        try:
            done: list[CompletedPartTypeDef] = []
            for number, part in enumerate(parts, 1):
                with self.bucket.faults():
                    sent = client.upload_part(**at, UploadId=upload, PartNumber=number, Body=part)
                done.append({"PartNumber": number, "ETag": sent["ETag"]})
            with self.bucket.faults():
                client.complete_multipart_upload(
                    **at, **condition, UploadId=upload, MultipartUpload={"Parts": done}
                )
        except BaseException:
            with suppress(PlugregError):
                self._give_up(key, upload)
            raise

    def _give_up(self, key: str, upload: str) -> None:
        with suppress(NotAvailable), self.bucket.faults():
            self.bucket.client.abort_multipart_upload(**self.bucket.at(key), UploadId=upload)

    def _described(self, key: str) -> dict[str, Any]:
        """Return what is kept with an object."""
        kind = kind_of(key, self.index_max_age) or _OURS
        return {"ContentType": kind.media_type, "CacheControl": kind.cache, **self.bucket.encrypted}

    def _head(self, key: str) -> HeadObjectOutputTypeDef | None:
        check_key(key)
        try:
            with self.bucket.faults():
                return self.bucket.client.head_object(**self.bucket.at(key))
        except NotAvailable:
            return None

    def _get(self, key: str, **more: Any) -> Any:  # noqa: ANN401 - boto3's answers are dictionaries
        try:
            with self.bucket.faults():
                return self._ask(key, **more)
        except NotAvailable:
            raise _missing(key) from None

    def _ask(self, key: str, **more: Any) -> Any:  # noqa: ANN401 - as above
        try:
            return self.bucket.client.get_object(**self.bucket.at(key), **more)
        except ClientError as error:
            if status_of(error) == 304:  # noqa: PLR2004
                return None
            raise


@dataclass(frozen=True, slots=True)
class S3Access:
    """`DirectAccess` to a bucket: addresses that are signed by us, for clients."""

    bucket: OpenBucket
    cache: str = ""
    """Cache-Control of downloads, in place of what is kept with the objects."""

    def upload_url(self, session: str, size: int, seconds: int) -> str:
        """See `DirectAccess.upload_url`."""
        params = {**self.bucket.at(direct_key(session)), "ContentLength": size}
        return self._signed("put_object", params, seconds)

    def download_url(self, key: str, method: str) -> str:
        """See `DirectAccess.download_url`."""
        params: dict[str, Any] = {**self.bucket.at(check_key(key))}
        if method == "HEAD":
            return self._signed("head_object", params, PRESIGNED_SECONDS)
        if self.cache:
            params["ResponseCacheControl"] = self.cache
        return self._signed("get_object", params, PRESIGNED_SECONDS)

    def _signed(self, action: Any, params: dict[str, Any], seconds: int) -> str:  # noqa: ANN401 - a name
        with self.bucket.faults():
            return self.bucket.public.generate_presigned_url(action, Params=params, ExpiresIn=seconds)


def staging_folder(session: str) -> str:
    """Return the folder of the keys of an upload."""
    return f"{STAGING}{session}/"


def direct_key(session: str) -> str:
    """Return the key at which a client may put a whole upload itself."""
    return f"{staging_folder(session)}direct"


class _Body(io.RawIOBase):
    """The content of an object while it arrives."""

    def __init__(self, bucket: OpenBucket, body: StreamingBody) -> None:
        self._bucket = bucket
        self._body = body

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        view = memoryview(buffer).cast("B")
        with self._bucket.faults():
            chunk = self._body.read(len(view))
        view[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()


def _reader(bucket: OpenBucket, body: StreamingBody) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Body(bucket, body), 1 << 16))


def _parts(source: Source) -> Iterator[bytes]:
    """Yield what a source has in parts of `PART_BYTES`, the last one smaller."""
    while part := _part(source):
        yield part
        if len(part) < PART_BYTES:
            return


def _part(source: Source) -> bytes:
    part = source.read(PART_BYTES)  # of a file all at once, so there is no second copy
    while len(part) < PART_BYTES and (chunk := source.read(PART_BYTES - len(part))):
        part += chunk
    return part


def _missing(key: str) -> NotAvailable:
    return NotAvailable("object_not_found", f"there is no object `{key}`")


def _changed(key: str) -> Conflict:
    return Conflict("object_changed", f"another process has written `{key}`")
