"""`gc`, `backup` and `restore`, and what they say: lines for people, or one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugreg_registry.backup import back_up
from plugreg_registry.garbage import Garbage
from plugreg_registry.operating import opened
from plugreg_registry.restore import bring_back
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError
from plugreg_schemas.fields import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from plugreg_registry.archive import Manifest
    from plugreg_registry.settings import Settings

Said = tuple["Sequence[str]", "dict[str, Any]"]
"""Lines, and the same as JSON."""


def collect(settings: Settings, grace: timedelta, *, dry_run: bool, now: datetime | None = None) -> Said:
    """Remove what nothing names and is older than the grace; or only look for it.

    Raises:
        UsageError: `data_missing`. Temporary, NotAvailable: as `Garbage.sweep`.
    """
    with opened(settings) as registry:
        before = (now or registry.index.now()) - grace
        garbage = Garbage(registry.index, registry.store.inventory, settings.uploads, before)
        swept = garbage.look() if dry_run else garbage.sweep()
        uploads = 0 if dry_run else registry.janitor.clear()
    said = {
        "dry_run": dry_run,
        "before": format_time(before),
        "objects": [{"key": found.key, "size": found.size} for found in swept.objects],
        "size": swept.size,
        "index_files": list(swept.index_files),
        "uploads": uploads,
    }
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb}  {found.key}  {found.size} bytes" for found in swept.objects]
    lines.append(f"{verb}  {len(swept.objects)} objects, {swept.size} bytes")
    lines.append(f"index    {len(swept.index_files)} files that nothing names go in a day")
    lines.append(f"uploads  {uploads} cleared")
    return lines, said


def back_up_said(settings: Settings, folder: Path, *, keys: bool) -> Said:
    """Make a backup. Raises as `back_up`."""
    copied = back_up(settings, folder, keys=keys)
    said = {
        **_shown(copied.manifest),
        "objects": copied.objects,
        "new": copied.new,
        "keys": keys,
        "missing": list(copied.manifest.missing),
    }
    lines = (
        f"registry  {copied.manifest.registry}",
        f"index     version {copied.manifest.index}, {format_time(copied.manifest.made_at)}",
        f"objects   {copied.objects}, {copied.new} of them new; all are checked",
        f"keys      {'the online keys are in the copy: keep it secret' if keys else 'not in the copy'}",
        *(f"missing   {key}" for key in copied.manifest.missing),
    )
    return lines, said


def check_complete(said: dict[str, Any]) -> None:
    """Raise if the store lacked objects that a record names. The backup of the rest is finished.

    Raises:
        IntegrityError: `objects_missing`.
    """
    if said["missing"]:
        raise IntegrityError(
            "objects_missing",
            f"{len(said['missing'])} objects are missing in the store, or altered; the rest is in the backup",
            hint="bring them back from an earlier backup; the list is in the output",
        )


def restore_said(
    settings: Settings, folder: Path, *, keys: Path | None, compare: Path | None, unchanged: bool
) -> Said:
    """Bring a registry back. Raises as `bring_back`."""
    back = bring_back(settings, folder, keys=keys, compare=compare, unchanged=unchanged)
    same = back.index == back.manifest.index
    said = {
        **_shown(back.manifest),
        "objects": back.objects,
        "index": back.index,
        "unchanged": same,
        "gone": None if back.gone is None else [found._asdict() for found in back.gone],
    }
    lines = (
        f"registry  {back.manifest.registry}",
        f"objects   {back.objects}, all of them checked",
        f"index     version {back.index}, {'unchanged' if same else 'signed again'}",
        *(
            f"gone      {found.plugin} {found.version or 'statement'}  {found.digest}"
            for found in back.gone or ()
        ),
    )
    return lines, said


def as_json(said: dict[str, Any]) -> str:
    """Return a report as one line."""
    return canonical_json(said).decode()


def _shown(manifest: Manifest) -> dict[str, Any]:
    return {
        "registry": manifest.registry,
        "made_at": format_time(manifest.made_at),
        "index": manifest.index,
        "releases": manifest.tables["releases"].lines if "releases" in manifest.tables else 0,
    }
