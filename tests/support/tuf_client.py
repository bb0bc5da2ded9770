"""A reader of the signed index that is not ours: the unmodified client of python-tuf, over a folder or HTTP.

client = TufClient(tmp_path / "client", registry.objects)        files, without a server
client = TufClient(tmp_path / "client", registry.url)            real HTTP; `client.received` counts bytes
client.target("plugins/demo.json")                               bytes, or None; each call looks for news
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import FetcherInterface, Updater
from tuf.ngclient.urllib3_fetcher import Urllib3Fetcher

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Folder(FetcherInterface):
    """Fetches from the objects of a registry as they lie in its folder."""

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            return iter([Path(url.removeprefix("file:")).read_bytes()])
        except FileNotFoundError:
            raise DownloadHTTPError("there is no such file", 404) from None


class _Counting(FetcherInterface):
    """Counts what another fetcher brings."""

    def __init__(self, inner: FetcherInterface) -> None:
        self.inner = inner
        self.received = 0
        self.asked: list[str] = []

    def _fetch(self, url: str) -> Iterator[bytes]:
        self.asked.append(url)
        return self._count(self.inner.fetch(url))

    def _count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.received += len(chunk)
            yield chunk


@dataclass
class TufClient:
    """A client whose memory is a folder; it begins with the first root that is there."""

    folder: Path
    place: Path | str
    fetcher: _Counting = field(init=False)
    root: bytes = b""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.fetcher = _Counting(_Folder() if isinstance(self.place, Path) else Urllib3Fetcher())
        fetched = self.fetcher.fetch(f"{self.base}index/metadata/1.root.json")
        self.root = self.root or b"".join(fetched)

    @property
    def base(self) -> str:
        return f"file:{self.place}/" if isinstance(self.place, Path) else self.place

    @property
    def received(self) -> int:
        """Bytes of all bodies since the last time this was asked."""
        count, self.fetcher.received = self.fetcher.received, 0
        return count

    def updater(self) -> Updater:
        """A refreshed updater: one state of the index."""
        updater = Updater(
            str(self.folder),
            f"{self.base}index/metadata/",
            str(self.folder),
            f"{self.base}index/",
            self.fetcher,
            bootstrap=self.root,
        )
        updater.refresh()
        return updater

    def target(self, path: str) -> bytes | None:
        """The newest bytes of a target, as the index vouches for them."""
        updater = self.updater()
        listed = updater.get_targetinfo(path)
        return None if listed is None else Path(updater.download_target(listed)).read_bytes()

    def document(self, name: str) -> Any:
        """A plugin's document, or None."""
        content = self.target(f"plugins/{name}.json")
        return None if content is None else json.loads(content)

    def root_version(self) -> int:
        """The version of the root that this client trusts now."""
        self.updater()
        return int(json.loads((self.folder / "root.json").read_bytes())["signed"]["version"])
