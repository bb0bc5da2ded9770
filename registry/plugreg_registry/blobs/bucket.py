"""A bucket behind boto3: the client with the settings that suit every store, and its faults as ours.

    no such key                               NotAvailable  object_not_found
    something else is there (412, 409)        Conflict      object_changed
    full, over its quota                      NoSpace       disk_full
    slow, broken, unreachable, refusing us    Temporary     store_unavailable

Messages name the bucket, the operation and the store's own code: no address, no key, no secret.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)
from botocore.loaders import create_loader
from botocore.session import get_session
from urllib3.exceptions import HTTPError

from plugreg_schemas.errors import Conflict, NoSpace, NotAvailable, PlugregError, Temporary, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.session import Session
    from mypy_boto3_s3 import S3Client

    from plugreg_registry.storage import Bucket

ANY_REGION: Final = "us-east-1"
"""What stores that have no regions want signatures to name."""
STAGING: Final = "staging/"
"""Below the prefix: what is nobody's but ours."""

_CHECKSUMS: Final = ("request_checksum_calculation", "response_checksum_validation")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_CONNECTIONS: Final = 64
_MODELS: Final = create_loader()
"""What boto3 knows of the services: read once for all clients of a process, for it is large."""
_FULL: Final = {
    "InsufficientStorage",
    "QuotaExceeded",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a store may take. The longest silence is (connect + read) * (1 + retries) and some pauses."""

    connect: float = 2
    read: float = 10
    retries: int = 2


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """A bucket that can be used. The client may be used by many threads."""

    bucket: Bucket
    client: S3Client
    public: S3Client
    """Makes presigned addresses, as clients reach the store."""
    encrypted: dict[str, Any] = field(default_factory=dict)
    """What goes along with every object that is written."""

    def at(self, key: str) -> dict[str, Any]:
        """Return what names an object in a request."""
        return {"Bucket": self.bucket.name, "Key": self.bucket.prefix + key}

    def below(self, key: str) -> dict[str, Any]:
        """Return what names all objects whose keys begin so in a request."""
        return {"Bucket": self.bucket.name, "Prefix": self.bucket.prefix + key}

    def key(self, full: str) -> str:
        """Return the key of an object by its name in the bucket."""
        return full.removeprefix(self.bucket.prefix)

    def listed(self, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the keys below a folder, sorted, each with its size."""
        pages = self.client.get_paginator("list_objects_v2")
        with self.faults():
            for page in pages.paginate(**self.below(folder)):
                yield from ((self.key(entry["Key"]), entry["Size"]) for entry in page.get("Contents", ()))

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn what the store says, or what becomes of the connection, into what a port promises."""
        try:
            yield
        except ClientError as error:
            raise _meant(self.bucket, error) from error
        except (BotoCoreError, HTTPError) as error:
            raise _unavailable(self.bucket, type(error).__name__) from error


def open_bucket(bucket: Bucket, patience: Patience | None = None) -> OpenBucket:
    """Return a client for a bucket. Nothing is sent yet.

    Raises:
        UsageError: `s3_unusable`: what boto3 reads from the environment and its files does not do.
    """
    encrypted: dict[str, Any] = {}
    if bucket.encryption:
        encrypted["ServerSideEncryption"] = bucket.encryption
    if bucket.encryption_key:
        encrypted["SSEKMSKeyId"] = bucket.encryption_key
    patience = patience or Patience(read=bucket.timeout)
    try:
        client = _client(bucket, bucket.endpoint, patience)
        public = _client(bucket, bucket.public_endpoint, patience) if bucket.public_endpoint else client
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            "s3_unusable",
            f"`{bucket.url}` cannot be used: {type(error).__name__}",
            hint="set `PLUGREG_REGISTRY_S3_REGION`"
            if isinstance(error, NoRegionError)
            else "look at the `AWS_` variables and at ~/.aws/config",
        ) from error
    return OpenBucket(bucket, client, public, encrypted)


def _client(bucket: Bucket, endpoint: str, patience: Patience) -> S3Client:
    core = get_session()
    core.register_component("data_loader", _MODELS)
    session = boto3.Session(botocore_session=core)
    amazon = not (endpoint or any(os.environ.get(name) for name in _ENDPOINTS))
    path_style = bucket.path_style if bucket.path_style is not None else not amazon
    config = Config(
        signature_version="s3v4",
        connect_timeout=patience.connect,
        read_timeout=patience.read,
        retries={"mode": "standard", "max_attempts": patience.retries},
        max_pool_connections=_CONNECTIONS,
        s3={"addressing_style": "path" if path_style else "auto"},
        **({} if amazon else _safe_checksums(core)),
    )
    client: S3Client = session.client(
        "s3",
        region_name=bucket.region or session.region_name or (None if amazon else ANY_REGION),
        endpoint_url=endpoint or None,
        config=config,
        verify=_authorities(core),
    )
    return client


def _safe_checksums(session: Session) -> dict[str, Any]:
    """Return settings under which stores that know no checksums work, where nobody has chosen others."""
    files = session.get_scoped_config()
    return {
        name: "when_required"
        for name in _CHECKSUMS
        if not os.environ.get(f"AWS_{name.upper()}") and not files.get(name)
    }


def _authorities(session: Session) -> str | None:
    """Return the certificates of a private authority, by the variable that botocore does not look at."""
    if session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE"):
        return None
    return os.environ.get("SSL_CERT_FILE") or None


def status_of(error: ClientError) -> int:
    """Return the HTTP status of a store's answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """Return a store's own word for what is wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _meant(bucket: Bucket, error: ClientError) -> PlugregError:
    status, code = status_of(error), code_of(error)
    if status in {409, 412} and code != "OperationAborted":
        return Conflict("object_changed", "another process has written this object")
    if status == 404 and code != "NoSuchBucket":  # noqa: PLR2004
        return NotAvailable("object_not_found", "there is no such object")
    if status == 507 or code in _FULL:  # noqa: PLR2004
        return NoSpace(
            "disk_full",
            f"no space is left in `{bucket.url}`",
            hint="the registry's operator must free some space",
        )
    return _unavailable(bucket, f"{error.operation_name} was answered with {status} {code}")


def _unavailable(bucket: Bucket, reason: str) -> Temporary:
    return Temporary("store_unavailable", f"`{bucket.url}` cannot be used now: {reason}")


def refused_at_start(bucket: Bucket, error: BaseException | None) -> UsageError | None:
    """Return what an operator has to correct before a start, if that is the cause of an error."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return UsageError(
            "s3_refused",
            f"there are no credentials for `{bucket.url}`",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
        )
    if not isinstance(error, ClientError):
        return None
    status, code = status_of(error), code_of(error)
    if code in {"NoSuchBucket", "InvalidBucketName"}:
        return UsageError(
            "s3_bucket_missing",
            f"there is no bucket `{bucket.name}`",
            hint="make it, or correct `PLUGREG_REGISTRY_BLOBS` and `PLUGREG_REGISTRY_S3_ENDPOINT`",
        )
    if status in {301, 307, 400, 401, 403}:
        return UsageError(
            "s3_refused",
            f"`{bucket.url}` refuses this registry: {error.operation_name} was answered with {status} {code}",
            hint="check the credentials, what they allow (docs/scale.md, S3), the region and the endpoint",
        )
    return None
