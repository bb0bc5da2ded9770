"""Where the static objects of a registry are read: over HTTP, in a folder that is a copy of them, or nowhere.

HttpObjects     a registry that answers
FolderObjects   `file://`: the registry's `objects` folder, or what `plugreg mirror` made; no network at all
NoObjects       `--offline`: no connection is even tried
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

from plugreg.link import LINK_CODES, steadily
from plugreg.network import without_password
from plugreg.own_files import WrongKindError, open_regular, read_small
from plugreg_schemas.errors import Gone, NotAvailable, TooLarge, UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from urllib3 import BaseHTTPResponse

    from plugreg.arrival import Arrival
    from plugreg.link import Link

    Progress = Callable[[str, int, int], None]

CHUNK: Final = 1 << 18
MAX_OBJECT: Final = 16 << 20
"""Bytes of any object that is read into memory."""
FILE_SCHEME: Final = "file:"


class Objects(Protocol):
    """The static objects of one registry by their path, which is relative to its URL."""

    def read(self, path: str, limit: int = MAX_OBJECT) -> bytes:
        """Return a small object; of one with more than `limit` bytes hardly more than these are fetched.

        Raises:
            NotAvailable: a code of `LINK_CODES`, else it is not there; Gone: it is no longer there.
            TooLarge: `document_too_large`.
        """
        ...

    def receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        """Take what comes of the bytes that an arrival lacks, until they end or the connection does.

        Raises as `read`, and as `Arrival.take`.
        """
        ...


def is_missing(error: NotAvailable) -> bool:
    """Whether a refusal says that the object is not there, and not that nobody could be asked."""
    return error.code not in LINK_CODES and not isinstance(error, Gone)


class HttpObjects:
    """The objects of a registry that is reached by a link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def read(self, path: str, limit: int = MAX_OBJECT) -> bytes:
        """See `Objects`."""
        with _only_whether_it_is_there():
            return self._link.whole("GET", path, limit=limit)[1]

    def receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        """See `Objects`."""
        with _only_whether_it_is_there():
            response = self._link.request("GET", path, headers=arrival.wish())
        if not arrival.fits(response):
            response.close()
            return
        for chunk in _chunks(response):
            arrival.take(chunk)
            progress("download", arrival.done, arrival.size)


@contextmanager
def _only_whether_it_is_there() -> Iterator[None]:
    """Keep a server from choosing the code of a refusal: it can say that an object is not there, no more.

    Whoever is in between could else say that there is no such plugin, or that nobody was asked.
    """
    try:
        yield
    except NotAvailable as error:
        if error.code in LINK_CODES:
            raise
        kind = Gone if isinstance(error, Gone) else NotAvailable
        raise kind("object_missing", error.message, hint=error.hint, details=error.details) from None


def _chunks(response: BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the content as it comes, until it ends or the connection does."""
    from urllib3.exceptions import HTTPError

    with response:
        try:
            yield from steadily(response, CHUNK)
        except (HTTPError, OSError):
            return


class NoObjects:
    """A registry that must not be asked."""

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self, path: str, limit: int = MAX_OBJECT) -> bytes:
        """Refuse; see `Objects`."""
        del path, limit
        raise offline(f"the registry {self._url} is not asked")

    def receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        """Refuse; see `Objects`."""
        del path, arrival, progress
        raise offline(f"the registry {self._url} is not asked, and the bundle is not in the plugins root")


def offline(reason: str) -> NotAvailable:
    """Return the refusal of what is not on this machine."""
    return NotAvailable(
        "offline", f"`--offline` was given: {reason}", hint="run the command once without `--offline`"
    )


class FolderObjects:
    """The objects in a folder. No path leads out of it, whatever its documents and links say."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(os.path.realpath(folder))

    def read(self, path: str, limit: int = MAX_OBJECT) -> bytes:
        """See `Objects`."""
        place = self._place(path)
        try:
            return read_small(place, limit)
        except WrongKindError as error:
            if place.is_file():
                raise TooLarge("document_too_large", f"{place} is larger than {limit} bytes") from None
            raise self._missing(place, error) from None
        except OSError as error:
            raise self._missing(place, error) from None

    def receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        """See `Objects`."""
        place = self._place(path)
        try:
            file = open_regular(place)
        except OSError as error:
            raise self._missing(place, error) from None
        arrival.restart()
        with file:
            while chunk := file.read(CHUNK):
                arrival.take(chunk)
                progress("download", arrival.done, arrival.size)

    def _place(self, path: str) -> Path:
        """Return where an object lies.

        Raises:
            NotAvailable: `registry_url_invalid`: not in the folder.
        """
        parts = PurePosixPath(path).parts
        plain = not path.startswith("/") and ".." not in parts and not set(path) & set("\\:\0")
        place = Path(os.path.realpath(self._folder.joinpath(*parts))) if plain else self._folder
        if not plain or not place.is_relative_to(self._folder):
            raise NotAvailable(
                "registry_url_invalid", f"{quoted(path)} leads out of the folder {self._folder}"
            )
        return place

    def _missing(self, place: Path, error: OSError) -> NotAvailable:
        return NotAvailable("object_missing", f"{place} cannot be read: {error.strerror or error}")


def folder_of(url: str) -> Path:
    """Return the folder that a `file://` URL names.

    Raises:
        UsageError: `registry_url_invalid`.
    """
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or "\0" in unquote(parts.path):
        raise UsageError(
            "registry_url_invalid",
            f"{quoted(without_password(url))} does not name a folder",
            hint="write for example `file:///srv/plugins`",
        )
    from urllib.request import url2pathname

    return Path(url2pathname(parts.path))
