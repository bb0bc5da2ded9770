"""An index over the network: the unmodified client of python-tuf, over our own requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any

from tuf.api.exceptions import DownloadHTTPError, DownloadLengthMismatchError
from tuf.api.metadata import Metadata, Root
from tuf.ngclient import FetcherInterface, Updater

from plugreg.index.sources import target_url
from plugreg.index.verdicts import check_clock, judged, signed_at
from plugreg.objects import is_missing
from plugreg_schemas.errors import NotAvailable, TooLarge
from plugreg_schemas.index import registry_of_root
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager, _GeneratorContextManager

    from tuf.api.metadata import TargetFile

    from plugreg.index.folder import IndexFolder
    from plugreg.objects import Objects
    from plugreg_schemas.api import Locations


class Online:
    """The newest state of an index, verified and fresh. Who calls holds the lock of the folder."""

    def __init__(
        self, where: str, root: bytes, folder: IndexFolder, objects: Objects, places: Locations
    ) -> None:
        """Verify the newest state, from the pinned root on.

        Raises:
            PlugregError: see `verdicts`.
        """
        self._where = where
        self._folder = folder
        self._places = places
        self._fetcher = _Fetcher(objects, folder)
        folder.make_metadata()
        with self._judged():
            self._updater = Updater(
                metadata_dir=str(folder.metadata),
                metadata_base_url=places.metadata,
                target_base_url=places.targets,
                fetcher=self._fetcher,
                bootstrap=root,
            )
            self._updater.refresh()
            root_now = Metadata[Root].from_bytes(folder.kept_metadata("root") or b"").signed
        self.registry = registry_of_root(root_now.unrecognized_fields)
        self.signed_at = signed_at(folder.kept_metadata("timestamp") or b"")
        check_clock(where, self.signed_at)

    def find(self, path: str) -> TargetFile | None:
        """Return what the index says of a target, or None where it does not list it.

        Raises:
            PlugregError: see `verdicts`.
        """
        with self._judged():
            return self._updater.get_targetinfo(path)

    def content(self, target: TargetFile, digest: Digest) -> bytes:
        """Return the content of a target, verified.

        Raises:
            PlugregError: see `verdicts`.
        """
        kept = self._folder.kept_target(target.path, digest)
        if kept is not None and Digest.of(kept) == digest:
            return kept
        with self._judged():
            content = self._fetcher.download_bytes(
                target_url(self._places, target.path, digest), target.length
            )
            target.verify_length_and_hashes(content)
        self._folder.keep_target(target.path, digest, content)
        return content

    def _judged(self) -> AbstractContextManager[None]:
        return judged(self._where, self._fetcher)


class _Fetcher(FetcherInterface):
    """Requests of the library as ours. It remembers what it was asked for: the verdict names it."""

    def __init__(self, objects: Objects, folder: IndexFolder) -> None:
        self._objects = objects
        self._folder = folder
        self._read: dict[str, bytes] = {}
        self._limit = 0
        self.last = ""

    def bytes_of(self, role: str) -> bytes:
        """Return the newest bytes of a role."""
        return self._read.get(role) or self._folder.kept_metadata(role) or b""

    def download_file(self, url: str, max_length: int) -> _GeneratorContextManager[IO[Any]]:
        """See the library. It counts what has arrived; here no more than it wants is fetched."""
        self._limit = max_length
        return super().download_file(url, max_length)

    def _fetch(self, url: str) -> Iterator[bytes]:
        name = url.rpartition("/")[2].removesuffix(".json")
        version, _, role = name.partition(".")
        self.last = role or version
        try:
            content = self._objects.read(url, self._limit)
        except TooLarge as error:
            raise DownloadLengthMismatchError(str(error)) from None
        except NotAvailable as error:
            if not is_missing(error):
                raise
            raise DownloadHTTPError(str(error), HTTPStatus.NOT_FOUND) from None
        self._read[self.last] = content
        return iter((content,))
