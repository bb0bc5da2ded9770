"""Which root this machine trusts a registry by.

    pinned before      that one, and what it was followed by
    --accept-root D    the offered root in place of the pinned one, if it is exactly this
    --root-digest D    the root of this digest, for a registry that is added
    a lock file        names a root that must lead to the one chosen so, or follow from it; it chooses none
    first use          the newest root that the registry offers, unless `first_use = refuse`

The discovery document names the newest root. That is a claim: only what is pinned by then is a proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugreg.index.folder import Pin
from plugreg.index.verdicts import mismatch, missing
from plugreg.index.walk import leads_to
from plugreg.objects import offline
from plugreg_schemas.errors import IntegrityError, NotAllowed
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from plugreg.index.folder import IndexFolder
    from plugreg.index.terms import Terms
    from plugreg.index.walk import Source
    from plugreg_schemas.api import RootRef

MAX_VERSIONS: Final = 256


def choose(
    where: str, folder: IndexFolder, source: Source, offered: RootRef | None, terms: Terms
) -> tuple[Pin, bytes]:
    """Return the root to begin from, with its bytes, which have its digest and are not verified.

    Raises:
        Unverifiable: `index_missing`.
        NotAllowed: `root_not_pinned`.
        IntegrityError: `root_changed`, `root_mismatch`, `index_mismatch`.
    """
    pinned = folder.pin()
    newest = Pin(offered.version, Digest(offered.digest)) if offered else None
    if pinned is not None and not _is_accepted(newest, pinned, terms):
        _check_given(where, pinned, source, newest, terms)
        return pinned, folder.pinned_root(pinned) or _fetched(where, source, pinned)
    if newest is None:
        raise missing(where, "root")
    if terms.root_digest:
        newest = _of_digest(where, source, newest, Digest(terms.root_digest))
    elif terms.first_use == "refuse" and terms.accept_root != newest.digest:
        raise NotAllowed(
            "root_not_pinned",
            f"the root of {where} is not pinned on this machine, and `first_use` is `refuse`",
            hint="get the digest of its root from its operator: "
            "`plugreg registry add URL --root-digest sha256:...`",
            details={"offered": newest.digest},
        )
    return newest, _fetched(where, source, newest)


def check_locked(
    where: str, locked: str, pin: Pin, root: bytes, source: Source, offered: RootRef | None
) -> None:
    """Refuse a pinned root that is not of one line with the root that a lock file names.

    `offered` is None where nobody is asked: then only the pinned root and what followed it is known.

    Raises:
        IntegrityError: `root_changed`.
        NotAvailable: `offline`.
    """
    if locked in {"", pin.digest}:
        return
    for version in range(1, min(offered.version if offered else MAX_VERSIONS, MAX_VERSIONS) + 1):
        content = source.metadata("root", version)
        if content is not None and Digest.of(content) == locked:
            older = version < pin.version
            start, end = (content, pin) if older else (root, Pin(version, Digest(locked)))
            if version != pin.version and leads_to(start, source, end.version, end.digest):
                return
            break
    else:
        if offered is None:
            raise offline(f"this machine does not have the root `{locked}` of {where}, which is locked")
    raise IntegrityError(
        "root_changed",
        f"the root of {where} that is pinned here is `{pin.digest}`, "
        f"and the lock file names `{locked}`, from which it does not follow",
        hint="one of both is another registry. Ask its operator for the digest; "
        "if the pinned one is right, `plugreg lock` writes it into the file",
        details={"pinned": pin.digest, "offered": locked},
    )


def changed(where: str, pinned: Pin, offered: Digest) -> IntegrityError:
    """Return the refusal of a registry that has another root than the pinned one."""
    return IntegrityError(
        "root_changed",
        f"the root of {where} that is pinned here is `{pinned.digest}`, "
        f"and the registry offers `{offered}`, which does not follow from it",
        hint="this is another registry, or one that was made anew. Only if its operator confirms the digest "
        f"by another way, add `--accept-root {offered}` to `plugreg install` or `plugreg update`",
        details={"pinned": pinned.digest, "offered": offered},
    )


def _is_accepted(newest: Pin | None, pinned: Pin, terms: Terms) -> bool:
    return newest is not None and newest.digest == terms.accept_root != pinned.digest


def _check_given(where: str, pinned: Pin, source: Source, newest: Pin | None, terms: Terms) -> None:
    """Refuse a registry that is added by another root than the one that is trusted here already."""
    if terms.root_digest in {"", pinned.digest}:
        return
    given = Digest(terms.root_digest)
    if newest is not None and _of_digest(where, source, newest, given) != pinned:
        raise changed(where, pinned, given)


def _of_digest(where: str, source: Source, newest: Pin, digest: Digest) -> Pin:
    """Return the root that a person names, which may be an older one."""
    if newest.digest == digest:
        return newest
    for version in range(1, min(newest.version, MAX_VERSIONS) + 1):
        content = source.metadata("root", version)
        if content is not None and Digest.of(content) == digest:
            return Pin(version, digest)
    raise IntegrityError(
        "root_mismatch",
        f"{where} has no root `{digest}`; its newest is `{newest.digest}`",
        hint="compare the digest with what its operator says; if it is right, this is not the registry",
        details={"wanted": digest, "offered": newest.digest},
    )


def _fetched(where: str, source: Source, pin: Pin) -> bytes:
    content = source.metadata("root", pin.version)
    if content is None:
        raise missing(where, "root")
    if Digest.of(content) != pin.digest:
        raise mismatch(where, "root")
    return content
