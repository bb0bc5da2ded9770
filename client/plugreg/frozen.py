"""What a lock file demands of a choice: this release, by this signer, with all that was seen of its history.

    hold            a wish may only come to what is locked
    check_locked    what it came to is what is locked

A lock file only narrows. What this machine has pinned, what its `trust.toml` says and what is revoked is
judged as without one, and before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from plugreg.lock_file import FILE
from plugreg.proving import forked
from plugreg_schemas.errors import IntegrityError, ResolutionError
from plugreg_schemas.names import Version, VersionRange, quoted

if TYPE_CHECKING:
    from plugreg.lock_file import LockFile
    from plugreg.pinning import Wish
    from plugreg_schemas.history import History


def hold(wish: Wish, lock: LockFile | None) -> Wish:
    """Return the wish limited to what a lock file says of its plugin.

    The range that it was locked with is kept, unless another one was asked for.

    Raises:
        ResolutionError: `not_locked`; `lock_outdated`: the locked version is not what is wanted or needed.
    """
    if lock is None:
        return wish
    locked = lock.plugins.get(wish.name)
    if locked is None:
        raise ResolutionError(
            "not_locked",
            f"{quoted(wish.name)} is not in `{FILE}`",
            hint=f"`plugreg lock {wish.name}` adds it, with what it depends on",
        )
    asked, version = wish.asked or VersionRange(locked.range), Version(locked.version)
    for wanted in (asked, *wish.needed):
        if not wanted.matches(version, prereleases=True):
            raise ResolutionError(
                "lock_outdated",
                f"`{FILE}` has `{wish.name} {version}`, and {quoted(wanted.text)} is wanted",
                hint=f"`plugreg lock {wish.name}@RANGE` chooses a version anew",
            )
    return replace(wish, asked=asked, locked=locked)


def check_locked(wish: Wish, digest: str, signer: str, history: History) -> None:
    """Refuse what is not the locked release; all that is given was proved.

    Raises:
        IntegrityError: `lock_mismatch`, `history_forked`.
    """
    locked = wish.locked
    if locked is None:
        return
    for what, here, there in (
        ("has the digest", locked.digest, digest),
        ("is signed by", locked.signer, signer),
    ):
        if here != there:
            raise IntegrityError(
                "lock_mismatch",
                f"`{wish.name} {locked.version}` {what} {quoted(here)} by `{FILE}`, "
                f"and {quoted(there)} by its registry",
                hint=f"do not install it. Who changed the registry, or `{FILE}`? Compare with other machines",
                details={"locked": here, "offered": there},
            )
    if locked.head not in history.digests:
        raise forked(wish.name)
