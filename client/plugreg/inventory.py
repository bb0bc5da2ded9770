"""What is installed, what depends on what there, and whether it is still what was signed.

Readers: they take no lock and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from plugreg.plugins_root.durability import disk_faults
from plugreg.plugins_root.examination import examine
from plugreg.plugins_root.records import Seen, State, read_facts, read_state
from plugreg_schemas.errors import (
    MAX_FINDINGS,
    Finding,
    IntegrityError,
    NotAvailable,
    PlugregError,
    Unverifiable,
)
from plugreg_schemas.fields import format_time
from plugreg_schemas.tree import DirectoryTree

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from plugreg.plugins_root import Facts, Pin, PluginsRoot, StoreEntry
    from plugreg_schemas.manifest import Manifest

Status = Literal["active", "deprecated", "yanked", "quarantined", "removed", "damaged"]
"""Of several that are true the last one is shown. What the registry says is as this machine last saw it."""


@dataclass(frozen=True, slots=True)
class Row:
    """An installed plugin. `facts` is None where they cannot be read; `reason` says why it is withdrawn."""

    name: str
    version: str
    facts: Facts | None
    root: Path
    data: Path
    status: Status
    reason: str = ""
    allowed: str = ""
    """Why it was installed although it was in quarantine."""

    @property
    def withdrawn(self) -> str:
        """The warning about a plugin that its registry has withdrawn; empty for others."""
        if self.status not in {"quarantined", "removed"}:
            return ""
        what = "is in quarantine" if self.status == "quarantined" else "was removed from its registry"
        because = f"; it was installed because: {self.allowed}" if self.allowed else ""
        return f"warning: `{self.name}` {what}: {self.reason or 'no reason given'}{because}"

    def as_dict(self) -> dict[str, object]:
        """Return a member of `plugins` in `list --json`."""
        facts = self.facts
        return {
            "name": self.name,
            "version": self.version,
            "digest": facts.digest if facts else None,
            "signer": facts.signer.model_dump(mode="json") if facts else None,
            "registry": facts.registry.model_dump(mode="json") if facts else None,
            "root": str(self.root),
            "data": str(self.data),
            "status": self.status,
            "reason": self.reason,
            "published_at": _time(facts.published_at if facts else None),
            "signed_at": _time(facts.signed_at if facts else None),
            "index_time": _time(facts.index_time if facts else None),
            "allowed": self.allowed or None,
        }


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that is installed in a root."""

    plugins: tuple[Row, ...]

    def as_dict(self) -> dict[str, object]:
        """Return what `list --json` prints."""
        return {"plugins": [row.as_dict() for row in self.plugins]}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the proof of one plugin; `error` is None where it is verified."""

    name: str
    version: str
    error: PlugregError | None = None

    @property
    def verdict(self) -> Literal["verified", "invalid", "unverifiable"]:
        """`invalid`: not what was signed; `unverifiable`: what proves it is missing."""
        if self.error is None:
            return "verified"
        return "unverifiable" if isinstance(self.error, Unverifiable) else "invalid"

    def as_dict(self) -> dict[str, object]:
        """Return a member of `plugins` in `verify --json`."""
        return {
            "name": self.name,
            "version": self.version,
            "verdict": self.verdict,
            "code": self.error.code if self.error else None,
            "message": self.error.message if self.error else "",
            "findings": [finding.as_dict() for finding in self.error.findings] if self.error else [],
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of all proofs."""

    plugins: tuple[Verdict, ...]

    def as_dict(self) -> dict[str, object]:
        """Return what `verify --json` prints."""
        return {"plugins": [verdict.as_dict() for verdict in self.plugins]}

    @property
    def error(self) -> PlugregError | None:
        """The one refusal that stands for all.

        An altered plugin counts for more than one that cannot be judged.
        """
        failed = [(verdict.name, verdict.error) for verdict in self.plugins if verdict.error is not None]
        if len(failed) < 2:  # noqa: PLR2004 - one speaks for itself
            return failed[0][1] if failed else None
        worst = next((error for _, error in failed if not isinstance(error, Unverifiable)), failed[0][1])
        names = ", ".join(f"`{name}` ({error.code})" for name, error in failed)
        findings = [
            Finding(f.code, f.message, f.severity, f.boundary, f"{name}/{f.file}", f.pointer)
            for name, error in failed
            for f in error.findings
        ]
        return type(worst)(
            worst.code, f"not verified: {names}", hint=worst.hint, findings=findings[:MAX_FINDINGS]
        )

    def raise_if_any(self) -> None:
        """Raise `error` if there is one."""
        if self.error is not None:
            raise self.error


def _time(value: datetime | None) -> str | None:
    return format_time(value) if value else None


def list_installed(root: PluginsRoot) -> Inventory:
    """Return every plugin that is active in `root`, by name. A root that does not exist has none."""
    with disk_faults(root.path):
        rows = [_row(root, name) for name in root.active_names()]
    return Inventory(tuple(row for row in rows if row is not None))


def locate(root: PluginsRoot, name: str) -> Row:
    """Return the active release of one plugin, to be used.

    Raises:
        NotAvailable: `not_installed`.
        NotAllowed: `not_ours`.
        IntegrityError: `plugin_damaged`: its files or facts are gone.
    """
    with disk_faults(root.path):
        row = _row(root, name)
    if row is None:
        root.active(name)
        raise NotAvailable(
            "not_installed", f"`{name}` is not installed", hint=f"`plugreg install {name}` installs it"
        )
    if row.status == "damaged":
        raise IntegrityError(
            "plugin_damaged",
            f"files of `{name} {row.version}` are gone",
            hint=f"`plugreg install {name}` brings them back",
        )
    return row


def verify(root: PluginsRoot, names: Sequence[str] = ()) -> Verification:
    """Prove the named plugins, or all, from what lies beside them. Reads no index, no network and no clock.

    Raises:
        NotAvailable: `not_installed`.
        NotAllowed: `not_ours`.
    """
    with disk_faults(root.path):
        verdicts = [_verdict(root, name) for name in names or tuple(root.active_names())]
    if names and None in verdicts:
        missing = names[verdicts.index(None)]
        root.active(missing)
        raise NotAvailable(
            "not_installed", f"`{missing}` is not installed", hint="`plugreg list` shows what is installed"
        )
    return Verification(tuple(verdict for verdict in verdicts if verdict is not None))


def declared(root: PluginsRoot, name: str) -> Manifest | None:
    """Return what the active release of a plugin declares, with the version that was signed.

    None where there is no release that can be used.
    """
    entry = root.linked(name)
    return declared_in(entry) if entry and entry.is_complete() else None


def declared_in(entry: StoreEntry) -> Manifest | None:
    """Return what a release in the store declares, with the version that was signed; None if no plugin."""
    from plugreg_schemas import formats

    manifest = formats.read(DirectoryTree(entry.tree)).manifest
    return replace(manifest, version=entry.version) if manifest else None


def others(root: PluginsRoot, names: Container[str]) -> Iterator[Manifest]:
    """Yield what every installed plugin but those named declares, by name."""
    for name in root.active_names():
        manifest = declared(root, name) if name not in names else None
        if manifest is not None:
            yield manifest


def _row(root: PluginsRoot, name: str) -> Row | None:
    found = _look(root, name)
    if found is None:
        return None
    entry, facts, whole = found
    state = recorded(root, name)
    about_this = state is not None and facts is not None and state.digest == facts.digest
    yanked = state.yanked if state and about_this else facts.yanked if facts else None
    status, reason = _status(state.seen if state else Seen(), yanked) if whole else ("damaged", yanked or "")
    return Row(
        name,
        entry.version,
        facts,
        entry.tree,
        root.data(name),
        status,
        reason,
        state.allowed if state and about_this else "",
    )


def _status(seen: Seen, yanked: str | None) -> tuple[Status, str]:
    """Return the status of a release that is whole, and the reason for it."""
    if yanked is not None and seen.state in {"active", "deprecated"}:
        return "yanked", yanked
    return seen.state, seen.reason


def _look(root: PluginsRoot, name: str) -> tuple[StoreEntry, Facts | None, bool] | None:
    """Return the active release with its facts and whether all of it is there, or None where there is none.

    A writer may take a release away between the look at the link and the look at the release: then the link
    is another one by now, even if it says the same, and everything is looked at again.
    """
    while True:
        before = _identity(root, name)
        entry = root.linked(name)
        if entry is None:
            return None
        facts: Facts | None
        try:
            facts = read_facts(entry)
        except IntegrityError:
            facts = None
        whole = facts is not None and entry.is_complete()
        if whole or before == _identity(root, name):
            return entry, facts, whole


def _identity(root: PluginsRoot, name: str) -> tuple[int, int] | None:
    """Return what no other link, made later in the same place, has in common with this one."""
    try:
        found = root.link(name).lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def recorded(root: PluginsRoot, name: str) -> State | None:
    """Return the record of a plugin, or None where there is none or it is damaged."""
    try:
        return read_state(root, name)
    except IntegrityError:
        return None  # the link is the truth; `verify` and the next writer speak of the record


def _verdict(root: PluginsRoot, name: str) -> Verdict | None:
    """Prove one plugin; where a writer took the release away meanwhile, the one that is there now."""
    while (found := _look(root, name)) is not None:
        entry, facts, _ = found
        before = _identity(root, name)
        try:
            known = facts or read_facts(entry)
            examine(entry, known, _pin(root, facts), root.judge(known.registry.id))
        except PlugregError as error:
            if before == _identity(root, name):
                return Verdict(name, entry.version, error)
        else:
            return Verdict(name, entry.version)
    return None


def _pin(root: PluginsRoot, facts: Facts | None) -> Pin | None:
    """Return the pin that goes with these facts; a record about another release was not written any more."""
    state = read_state(root, facts.name) if facts else None
    return state.pin if state and facts and state.digest == facts.digest else None
