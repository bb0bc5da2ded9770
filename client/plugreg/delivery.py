"""One proved release on its way: downloaded, unpacked in staging, its manifest compared with what was signed.

    size > digest > bundle, proved while it is unpacked > manifest

Nothing of a plugin is parsed before its signature is verified: a choice is proved when it gets here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg.plugins_root.durability import FILE_MODE
from plugreg.plugins_root.examination import LIMITS, examine
from plugreg.plugins_root.records import Facts, read_facts, write_record
from plugreg.plugins_root.staging import check_fits, unpack
from plugreg_schemas import formats
from plugreg_schemas.errors import IntegrityError, InvalidInput, PlugregError, TooLarge
from plugreg_schemas.names import quoted
from plugreg_schemas.tree import DirectoryTree
from plugreg_schemas.trust.envelope import encode_base64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from pathlib import Path

    from plugreg.choosing import Choice
    from plugreg.plugins_root import PluginsRoot, StoreEntry, Workspace
    from plugreg.plugins_root.staging import Staged
    from plugreg.sources import Progress
    from plugreg_schemas.manifest import Manifest
    from plugreg_schemas.trust.proof import ProvedRelease
    from plugreg_schemas.trust.sigstore import SigstoreVerifier


@dataclass(frozen=True, slots=True)
class Ready:
    """A release that has everything it needs to become active.

    `staged` is None where the store has it already.
    """

    choice: Choice
    entry: StoreEntry
    facts: Facts
    manifest: Manifest
    staged: Staged | None


def prepare(work: Workspace, choice: Choice, progress: Progress, now: Callable[[], datetime]) -> Ready | None:
    """Download, prove and unpack one release, unless it stays or the store has it whole and unaltered."""
    release = choice.release
    if release is None:
        return None
    facts = _facts(choice, release, now())
    entry = work.root.entry(release.name, release.version, release.digest)
    if _is_in_store(entry, facts, work.root.judge(facts.registry.id)):
        write_record(work.staging, entry.facts, facts)
        return Ready(choice, entry, facts, _manifest(choice, release, entry.tree), None)
    staged = work.place()
    _fetch(work.root, choice, release, staged, progress)
    manifest = _manifest(choice, release, staged.tree)
    staged.attestation.write_bytes(release.attestation)
    write_record(work.staging, staged.facts, facts)
    for part in (staged.bundle, staged.attestation):
        part.chmod(FILE_MODE)
    return Ready(choice, entry, facts, manifest, staged)


def _facts(choice: Choice, release: ProvedRelease, when: datetime) -> Facts:
    return Facts(
        name=release.name,
        version=release.version,
        digest=release.digest,
        size=release.size,
        registry=choice.registry.ref,
        signer=release.signer,
        public_key=encode_base64(release.public_key),
        head=choice.history.head,
        installed_at=when,
        range=choice.wish.range.text,
        yanked=release.yanked,
        published_at=release.published_at,
        signed_at=release.signed_at,
        index_time=choice.registry.index_time,
    )


def _is_in_store(entry: StoreEntry, facts: Facts, sigstore: SigstoreVerifier | None) -> bool:
    """Whether the store has this very release. It is examined: a power cut may have left it half written."""
    if not entry.is_complete():
        return False
    try:
        known = read_facts(entry)
        if known.digest != facts.digest:
            return False
        examine(entry, known, None, sigstore)
    except PlugregError:
        return False
    return True


def _fetch(
    root: PluginsRoot, choice: Choice, release: ProvedRelease, staged: Staged, progress: Progress
) -> None:
    limits = LIMITS.smaller(choice.registry.limits)
    if release.size > limits.compressed:
        raise TooLarge(
            "bundle_too_large",
            f"`{release.name} {release.version}` has {release.size} bytes, "
            f"at most {limits.compressed} are accepted",
        )
    with staged.bundle.open("x+b") as file:
        choice.registry.download(release.digest, release.size, file, progress)
        file.flush()
        file.seek(0)
        check_fits(root, file, limits)
        unpack(file, staged.tree, limits)


def _manifest(choice: Choice, release: ProvedRelease, tree: Path) -> Manifest:
    """Read the manifest of an unpacked tree and compare it with what was signed."""
    reading = formats.read(DirectoryTree(tree))
    manifest = reading.manifest
    if manifest is None:
        raise InvalidInput(
            "plugin_invalid",
            f"`{release.name} {release.version}` is not a plugin that can be used",
            findings=reading.findings,
        )
    said = (manifest.name, manifest.version or release.version, manifest.format)
    if said != (release.name, release.version, choice.entry.format):
        raise IntegrityError(
            "manifest_mismatch",
            f"what is signed as `{release.name} {release.version}` ({choice.entry.format}) "
            f"calls itself `{manifest.name} {manifest.version}` ({manifest.format})",
        )
    _check_offer(choice, manifest)
    return manifest


def _check_offer(choice: Choice, manifest: Manifest) -> None:
    """Compare what the choice was made by: the bundle is signed, the document that offered it is not.

    Raises:
        IntegrityError: `manifest_mismatch`.
    """
    offered, name = choice.entry, f"`{manifest.name} {choice.entry.version}`"
    needs, claimed = ({need.name for need in given.requires} for given in (manifest, offered))
    if set(manifest.requires) != set(offered.requires):
        raise IntegrityError(
            "manifest_mismatch",
            f"the registry says that {name} depends on {_listed(claimed)}, "
            f"and what is signed depends on {_listed(needs)}, or on others of their versions",
            hint="do not install it until the registry's operator explains",
        )
    if offered.capability_kind not in {"", manifest.capability_kind}:
        raise IntegrityError(
            "manifest_mismatch",
            f"the registry says that {name} is of the kind {quoted(offered.capability_kind)}, "
            f"and what is signed is of the kind {quoted(manifest.capability_kind)}",
            hint="do not install it until the registry's operator explains",
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, sorted(names))) or "nothing"
