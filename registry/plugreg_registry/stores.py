"""Where a process keeps objects and uploads, by its settings: in folders or in a bucket.

boto3 costs a third of a second and 30 MB: it is imported where a bucket is used, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from plugreg_registry.blobs.filesystem import FilesystemBlobs
from plugreg_registry.blobs.folder_shelf import FolderShelf
from plugreg_registry.blobs.spool import FolderSpool
from plugreg_registry.object_kinds import PRIVATE
from plugreg_registry.static import ReadPlane, Redirects
from plugreg_registry.storage import KEY_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp

    from plugreg_registry.ports import BlobStore, DirectAccess, Inventory, Spool
    from plugreg_registry.settings import Settings
    from plugreg_registry.static import Shelf
    from plugreg_registry.storage import Bucket


@dataclass(frozen=True, slots=True)
class Store:
    """The adapters of one place."""

    blobs: BlobStore
    inventory: Inventory
    spool: Spool
    shelf: Shelf
    sweep: Callable[[], int]
    """Removes what crashed writers left half-written, and returns how much that was."""
    abilities: Callable[[], Mapping[str, Any]]
    """Looks what the place can do, once. Raises `UsageError` if that is not enough."""
    close: Callable[[], None]
    direct: DirectAccess | None = None


def open_store(settings: Settings) -> Store:
    """Return the adapters that the settings ask for.

    Raises:
        UsageError: `s3_unusable`.
    """
    return _in_folders(settings) if settings.bucket is None else _in_bucket(settings, settings.bucket)


def read_plane(settings: Settings, store: Store) -> ASGIApp:
    """Return what serves the objects of a store, as the settings ask for."""
    plane = ReadPlane(store.shelf, settings.index_max_age)
    transfers, direct = settings.transfers, store.direct
    if transfers.downloads == "cdn":
        return Redirects(plane, lambda key, _method: transfers.template.replace(KEY_FIELD, key))
    if transfers.downloads == "redirect" and direct is not None:
        return Redirects(plane, direct.download_url)
    return plane


def _in_folders(settings: Settings) -> Store:
    blobs = FilesystemBlobs(settings.objects)
    return Store(
        blobs,
        blobs,
        FolderSpool(settings.uploads),
        FolderShelf(settings.objects),
        sweep=blobs.sweep,
        abilities=lambda: {"kind": "folder"},
        close=lambda: None,
    )


def _in_bucket(settings: Settings, bucket: Bucket) -> Store:
    from plugreg_registry.blobs.bucket import open_bucket  # noqa: PLC0415 - imports boto3
    from plugreg_registry.blobs.s3 import S3Access, S3Blobs  # noqa: PLC0415
    from plugreg_registry.blobs.s3_probe import probe  # noqa: PLC0415
    from plugreg_registry.blobs.s3_shelf import S3Shelf  # noqa: PLC0415
    from plugreg_registry.blobs.s3_spool import S3Spool  # noqa: PLC0415

    opened = open_bucket(bucket)
    blobs = S3Blobs(opened, settings.index_max_age)
    return Store(
        blobs,
        blobs,
        S3Spool(blobs, settings.uploads),
        S3Shelf(blobs),
        sweep=blobs.sweep,
        abilities=cache(lambda: probe(opened).facts()),
        close=opened.client.close,
        direct=S3Access(opened, PRIVATE if settings.readers == "tokens" else ""),
    )
