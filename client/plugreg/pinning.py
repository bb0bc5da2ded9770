"""Whom a name belongs to on this machine, and which changes of that are silent: none.

A name is pinned to {registry, signer, newest statement of its history}. A release by another signer is taken
without a question only where its signer is an owner by a history that contains the pinned statement: then
the owners whom this machine trusted have signed for the new one themselves. A history that lacks the pinned
statement is either another plugin that took the name (its signer differs: `signer_changed`, to be accepted by
naming the new signer) or a registry that hides a statement (the signer is the same: `history_forked`, never
acceptable). An administrator who gives the name to others does that in its history: where that came after the
pinned statement, it is a change of signer as well, whoever signed the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg.proving import forked
from plugreg.trust_policy import NO_RULES
from plugreg_schemas.errors import NotAllowed
from plugreg_schemas.names import Digest, VersionRange

if TYPE_CHECKING:
    from plugreg.lock_file import LockedPlugin, LockFile
    from plugreg.plugins_root import Facts, Pin, State
    from plugreg.trust_policy import TrustPolicy
    from plugreg_schemas.history import History
    from plugreg_schemas.names import Version


@dataclass(frozen=True, slots=True)
class Options:
    """What a person decided for one command.

    `accept_signer` is an identity in words and `accept_registry` a registry id: each accepts exactly the
    one it names.
    """

    prereleases: bool = False
    accept_signer: str = ""
    accept_registry: str = ""
    allow_quarantined: str = ""
    """Why a plugin in quarantine is to be installed all the same; empty: it is not."""
    policy: TrustPolicy = NO_RULES
    """Whom this machine trusts with which names."""
    lock: LockFile | None = None
    """What alone may be chosen; see `frozen`."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A plugin that is wanted, and what this machine knows of it.

    `asked` is None where no range was given.
    """

    name: str
    asked: VersionRange | None
    installed: Facts | None = None
    state: State | None = None
    whole: bool = False
    """Whether everything of the installed release is in its place."""
    needed: tuple[VersionRange, ...] = ()
    """The ranges that other plugins need it in. They limit this choice, and are not kept."""
    locked: LockedPlugin | None = None
    """The one release that may be chosen, where a lock file says it."""

    @property
    def pin(self) -> Pin | None:
        """Whom the name belongs to here."""
        return self.state.pin if self.state else None

    @property
    def range(self) -> VersionRange:
        """The range to choose from: the one asked for now, else the one asked for at first."""
        return self.asked or VersionRange(self.state.range if self.state else "")

    def takes(self, version: Version) -> bool:
        """Whether this version may be had: the locked one, else one in the range."""
        if self.locked is not None:
            return self.locked.version == version.text
        return self.range.matches(version, prereleases=True)


def check_pin(wish: Wish, registry: str, signer: str, history: History, options: Options) -> None:
    """Refuse what would give a name, or data that is kept of it, to somebody else.

    `registry` and `signer` are those of the release, `history` is proved.

    Raises:
        NotAllowed: `registry_changed`, `signer_changed`, `data_belongs_to_other_signer`.
        IntegrityError: `history_forked`.
    """
    pin = wish.pin
    if pin is None:
        return
    if pin.registry != registry:
        if options.accept_registry != registry:
            raise other_registry(wish, registry)
    elif pin.head in history.digests:
        _check_reassigned(wish, history, options)
        return
    if pin.signer != signer:
        if options.accept_signer != signer:
            raise _other_signer(wish, signer)
    elif pin.registry == registry:
        raise forked(wish.name)


def check_same(wish: Wish, registry: str, signer: str, options: Options) -> None:
    """Refuse a release by another signer or registry than the pinned one, where no history is at hand.

    Raises:
        NotAllowed: `registry_changed`, `signer_changed`.
    """
    pin = wish.pin
    if pin is not None and pin.registry != registry != options.accept_registry:
        raise other_registry(wish, registry)
    if pin is not None and pin.signer != signer != options.accept_signer:
        raise _other_signer(wish, signer)


def _check_reassigned(wish: Wish, history: History, options: Options) -> None:
    """Refuse a name that an administrator gave to others after the pinned statement."""
    pinned = history.digests.index(Digest(wish.pin.head)) if wish.pin else 0
    owners = [owner.words for owner in history.owners]
    if all(place <= pinned for place in history.reassigned) or options.accept_signer in owners:
        return
    raise _refusal(
        wish, owners[0], f"an administrator of its registry has given the name to `{'`, `'.join(owners)}`"
    )


def other_registry(wish: Wish, registry: str) -> NotAllowed:
    """Return the refusal of a plugin from another registry than the pinned one."""
    pinned = wish.pin.registry if wish.pin else ""
    code = "registry_changed" if wish.installed else "data_belongs_to_other_signer"
    return NotAllowed(
        code,
        f"{_belongings(wish)} belongs to the registry `{pinned}`, and this one is `{registry}`",
        hint=f"if both are the same plugin to you, add `--accept-registry {registry}`",
        details={"pinned": pinned, "offered": registry},
    )


def _other_signer(wish: Wish, signer: str) -> NotAllowed:
    return _refusal(wish, signer, f"this release is signed by `{signer}`")


def _refusal(wish: Wish, signer: str, event: str) -> NotAllowed:
    pinned = wish.pin.signer if wish.pin else ""
    code = "signer_changed" if wish.installed else "data_belongs_to_other_signer"
    return NotAllowed(
        code,
        f"{_belongings(wish)} belongs to the signer `{pinned}`, and {event}",
        hint=f"if you trust the new signer with it, add `--accept-signer {signer}`",
        details={"pinned": pinned, "offered": signer},
    )


def _belongings(wish: Wish) -> str:
    return f"`{wish.name}`" if wish.installed else f"the data kept of `{wish.name}`"
