"""`plugreg resolve`: which declared runtime a host uses, and why not the others, without installing anything.

folder or bundle > formats.read               > Offer > resolve(offer, host) > Resolution
NAME[@V]         > the proved plugin document > Offer > resolve(offer, host) > Resolution
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg import revocations
from plugreg.choosing import check_state
from plugreg_schemas import bundle, formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.errors import InvalidInput, NotAvailable, UsageError
from plugreg_schemas.names import Ref
from plugreg_schemas.resolve import resolve
from plugreg_schemas.tree import DirectoryTree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugreg.remote import Remote
    from plugreg_schemas.hosts import Host
    from plugreg_schemas.manifest import Manifest
    from plugreg_schemas.resolve import Resolution

BUNDLE_SUFFIX = ".tar.zst"


def resolve_target(
    target: str, host: Host, remotes: Callable[[], Sequence[Remote]], environ: Mapping[str, str]
) -> Resolution:
    """Resolve a path, or a plugin of a registry; `remotes` is asked for only then.

    What has a separator in it, is `.` or `..`, or ends as a bundle does, is a path.

    Raises:
        NotAvailable: `path_not_found`, `plugin_not_found`, `version_not_found`.
        NotAllowed: `revoked`, `plugin_quarantined`. Gone: `plugin_removed`.
        InvalidInput: `plugin_invalid`, with why in its findings; `name_invalid`, `range_invalid`.
        IntegrityError: the plugin document contradicts what was signed.
    """
    if is_path(target):
        return resolve(Offer.of(manifest_of_path(Path(target))), host)
    ref = Ref.parse(target)
    try:
        return resolve(_offer_of_registry(ref, remotes(), environ), host)
    except (NotAvailable, UsageError) as error:
        if error.code not in {"plugin_not_found", "no_registry"} or not Path(target).exists():
            raise
        raise type(error)(
            error.code, error.message, hint=f"for the folder here write `.{os.sep}{target}`"
        ) from error


def manifest_of_path(path: Path) -> Manifest:
    """Return what the plugin in a folder or a bundle declares.

    Raises:
        NotAvailable: `path_not_found`.
        InvalidInput: `plugin_invalid`, or the codes of a faulty bundle.
    """
    if path.is_dir():
        reading = formats.read(DirectoryTree(path))
    elif path.is_file():
        with path.open("rb") as stream:
            reading = formats.read(bundle.outline(stream, bundle.DEFAULT_LIMITS, formats.is_wanted))
    else:
        raise NotAvailable("path_not_found", f"there is no folder or bundle `{path}`")
    if reading.manifest is None:
        raise InvalidInput(
            "plugin_invalid",
            f"`{path}` does not load as a plugin",
            hint="`plugreg check` explains every fault",
            findings=reading.errors,
        )
    return reading.manifest


def _offer_of_registry(ref: Ref, remotes: Sequence[Remote], environ: Mapping[str, str]) -> Offer:
    from plugreg import info

    found = info.look_up(remotes, ref, environ)
    check_state(found.history)
    offered = (v.version for v in found.document.versions if v.version not in found.refused)
    best = ref.range.choose(offered, found.history.yanked)
    entry = found.document.version(best.text) if best else None
    if entry is None and found.revoked and found.entry.version in found.refused:
        raise revocations.refusal(found.revoked, ref.name, found.entry.version)
    if entry is None:
        raise NotAvailable(
            "version_not_found",
            f"`{ref.name}` has no version in `{ref.range}` that is neither yanked nor a prerelease",
            hint="name a version exactly, and it is taken whatever it is",
        )
    return Offer.of_document(found.document.name, entry)


def is_path(target: str) -> bool:
    """Whether a word names a folder or a bundle, and not a plugin."""
    separators = {os.sep, os.altsep or os.sep}
    return target in {".", ".."} or target.endswith(BUNDLE_SUFFIX) or any(s in target for s in separators)
