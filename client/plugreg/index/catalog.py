"""The list of plugins for hosts, page by page: the index vouches for it, and what was read once is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from plugreg.index.verdicts import invalid, mismatch
from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import CATALOG_TARGET
from plugreg_schemas.listing import PAGES_FOLDER, Listing, ListingPage, page_path
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg.index.folder import IndexFolder
    from plugreg.index.signed import SignedIndex
    from plugreg_schemas.listing import Listed

_Model = TypeVar("_Model", Listing, ListingPage)
_KEPT_PAGES: Final = f"*.{quote(PAGES_FOLDER + '/', '')}*.json"


def rows_of(
    where: str, index: SignedIndex, folder: IndexFolder, read: Callable[[str], bytes]
) -> tuple[Listed, ...]:
    """Return all rows; none if nothing was listed yet. `read` gets a page by its path, unverified.

    Raises:
        PlugregError: see `verdicts`; and what `read` raises.
    """
    content = index.target(CATALOG_TARGET)
    if content is None:
        return ()
    listing = _parsed(Listing, content, where, CATALOG_TARGET)
    pages = {page_path(Digest(page.digest).hex): Digest(page.digest) for page in listing.pages}
    rows: list[Listed] = []
    for path, digest in pages.items():
        rows += _parsed(ListingPage, _page(where, folder, path, digest, read), where, path).plugins
    _forget_others(folder, pages)
    return tuple(rows)


def _page(where: str, folder: IndexFolder, path: str, digest: Digest, read: Callable[[str], bytes]) -> bytes:
    kept = folder.kept_target(path, digest)
    if kept is not None and Digest.of(kept) == digest:
        return kept
    content = read(path)
    if Digest.of(content) != digest:
        raise mismatch(where, path)
    folder.keep_target(path, digest, content)
    return content


def _forget_others(folder: IndexFolder, pages: dict[str, Digest]) -> None:
    """Remove the pages of lists from before."""
    present = {folder.target(path, digest) for path, digest in pages.items()}
    for place in (folder.path / "targets").glob(_KEPT_PAGES):
        if place not in present:
            place.unlink(missing_ok=True)


def _parsed(kind: type[_Model], content: bytes, where: str, path: str) -> _Model:
    try:
        return read_model(kind, content, code="index_invalid", file=path)
    except InvalidInput:
        raise invalid(where, path) from None
