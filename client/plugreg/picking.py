"""Which version of a plugin a wish comes to, of those that its document lists. Pure: nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg import revocations
from plugreg_schemas.errors import NotAvailable
from plugreg_schemas.names import Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugreg.pinning import Options, Wish
    from plugreg_schemas.api import DocumentVersion, PluginDocument
    from plugreg_schemas.errors import NotAllowed
    from plugreg_schemas.history import History
    from plugreg_schemas.index import Revocation
    from plugreg_schemas.names import VersionRange


def pick(
    wish: Wish,
    document: PluginDocument,
    history: History,
    options: Options,
    refused: Mapping[str, Revocation],
) -> DocumentVersion:
    """Return the version to have.

    Never a yanked one unless it is named exactly, never an older one without being asked, never one of those
    that are `refused` already. Where a lock file names a version, it is that one.

    Raises:
        NotAvailable: `version_not_found`, `version_withheld`.
        NotAllowed: `revoked`: only refused versions are left.
    """
    if wish.locked is not None:
        return _locked(wish.name, wish.locked.version, document, refused)
    fitting = (
        v.version
        for v in document.versions
        if v.version not in refused and all(r.matches(Version(v.version)) for r in wish.needed)
    )
    best = wish.range.choose(fitting, history.yanked, prereleases=options.prereleases)
    have = Version(wish.installed.version) if wish.installed else None
    if have and wish.range.matches(have, prereleases=True) and (best is None or have >= best):
        if have.text in refused:
            raise _revoked(wish.name, have.text, refused, best)
        entry = document.version(have.text)
        if entry is None:
            raise NotAvailable(
                "version_withheld",
                f"`{wish.name} {have}` is installed, and its registry does not offer it any more",
                hint=f"to go back, name an older version: `plugreg install {wish.name}@VERSION`",
            )
        return entry
    entry = document.version(best.text) if best else None
    if entry is None and refused:
        raise _revoked(wish.name, next(iter(refused)), refused)
    if entry is None:
        raise NotAvailable(
            "version_not_found",
            _none_fits(wish, document, history),
            hint=f"`plugreg info {wish.name}` shows all versions",
        )
    return entry


def _locked(
    name: str, version: str, document: PluginDocument, refused: Mapping[str, Revocation]
) -> DocumentVersion:
    if version in refused:
        raise _revoked(name, version, refused)
    entry = document.version(version)
    if entry is None:
        raise NotAvailable(
            "version_withheld",
            f"`{name} {version}` is locked, and its registry does not offer it",
            hint=f"ask its operator; to lock another version: `plugreg lock {name}`",
        )
    return entry


def _revoked(
    name: str, version: str, refused: Mapping[str, Revocation], other: Version | None = None
) -> NotAllowed:
    hint = f"another version is not revoked: `plugreg install {name}@{other}`" if other else ""
    return revocations.refusal(refused[version], name, version, hint=hint)


def _none_fits(wish: Wish, document: PluginDocument, history: History) -> str:
    fitting = [
        v.version for v in document.versions if wish.range.matches(Version(v.version), prereleases=True)
    ]
    yanked = [version for version in fitting if version in history.yanked]
    text = f"`{wish.name}` has no version in `{wish.range}`"
    if wish.needed:
        return f"{text} that other plugins can use: they need {ranges_in_words(wish.needed)}"
    if yanked:
        return f"{text} that is not yanked; yanked are {', '.join(yanked)}"
    return f"{text} but prereleases: {', '.join(fitting)}" if fitting else text


def ranges_in_words(ranges: Sequence[VersionRange]) -> str:
    """Return ranges for people, each once."""
    return " and ".join(f"`{text}`" for text in dict.fromkeys(map(str, ranges)))
