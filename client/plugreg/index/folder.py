"""What this machine keeps of one registry's index. Nothing in it is believed before it is verified again.

<home>/index/<registry>/
  lock                              one command at a time
  registry.json                     the registry's id, and where it was reached
  pinned/<version>.<sha256>.json    the root that this machine trusts: its digest is its name
  metadata/<root>/                  what TUF verified last from this root on, as python-tuf lays it out
  targets/<sha256>.<path>           what the index vouched for
  attestations/<sha256>.json        signed statements
  revocations/<sha256>.json         every revocation that was ever seen
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from plugreg.config import write_atomically
from plugreg.own_files import read_small
from plugreg.plugins_root.durability import disk_faults
from plugreg.plugins_root.locking import held
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.fields import Open, RegistryIdField, read_model
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = "index"
_PINNED: Final = re.compile(r"([1-9][0-9]{0,8})\.([0-9a-f]{64})\.json")


@dataclass(frozen=True, slots=True)
class Pin:
    """The root that is trusted here: its version and digest."""

    version: int
    digest: Digest


class _Reached(Open):
    id: RegistryIdField
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The folder of one registry, which need not exist."""

    path: Path
    root: str = ""
    """The folder of metadata: the first digits of the pinned root."""

    @classmethod
    def of(cls, home: Path, registry: str) -> IndexFolder:
        """Return the folder of a registry: its id in letters of a file name, and a part of its hash."""
        words = re.sub(r"[^a-z0-9.]+", "-", registry)[:60]
        return cls(home / FOLDER / f"{words}-{hashlib.sha256(registry.encode()).hexdigest()[:8]}")

    def of_root(self, pin: Pin) -> IndexFolder:
        """Return the same folder for what follows from a root."""
        return replace(self, root=pin.digest.hex[:16])

    @property
    def metadata(self) -> Path:
        """The folder that python-tuf keeps its metadata in."""
        return self.path / "metadata" / self.root

    @contextmanager
    def lock(self, patience_s: float) -> Iterator[None]:
        """Hold the folder alone.

        Raises:
            Temporary: `root_locked`, `disk_error`. NoSpace: `disk_full`.
            NotAllowed: `root_not_writable`, `root_damaged`. InvalidInput: `path_too_long_here`.
        """
        with disk_faults(self.path, "another folder for what plugreg keeps: `PLUGREG_HOME`"):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with held(self.path / "lock", patience_s, lambda _: None, what=f"the index in {self.path}"):
                yield

    # the pin

    def pin(self) -> Pin | None:
        """Return the pinned root. A file's name says it, so it stays known where the file is damaged."""
        found = [_PINNED.fullmatch(name) for name in _names(self.path / "pinned")]
        pins = [Pin(int(match[1]), Digest.from_hex(match[2])) for match in found if match]
        return max(pins, key=lambda pin: pin.version, default=None)

    def pinned_root(self, pin: Pin) -> bytes | None:
        """Return the pinned root, or None where its file is gone or damaged."""
        return _with_digest(self._pinned(pin), pin.digest)

    def set_pin(self, pin: Pin, content: bytes) -> None:
        """Trust this root from now on, and no other. What another root vouched for is forgotten."""
        if self.pin() == pin and self.pinned_root(pin) is not None:
            return
        place = self._pinned(pin)
        if place.is_symlink():
            place.unlink()  # what it leads to is nobody's root
        write_atomically(place, content)
        for name in _names(self.path / "pinned"):
            if name != place.name:
                (self.path / "pinned" / name).unlink(missing_ok=True)
        for name in _names(self.path / "metadata"):
            if name != pin.digest.hex[:16]:
                shutil.rmtree(self.path / "metadata" / name, ignore_errors=True)

    def forget(self) -> None:
        """Forget the pin and all that it vouched for. Revocations that were seen are kept."""
        for name in ("pinned", "metadata", "targets", "attestations"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / "registry.json").unlink(missing_ok=True)

    def _pinned(self, pin: Pin) -> Path:
        return self.path / "pinned" / f"{pin.version}.{pin.digest.hex}.json"

    # what was verified

    def kept_metadata(self, role: str) -> bytes | None:
        """Return metadata that was verified once; `role` is `<version>.root` for a root."""
        return _content(self._metadata(role))

    def _metadata(self, role: str) -> Path:
        name = f"root_history/{role}.json" if role.endswith(".root") else f"{quote(role, '')}.json"
        return self.metadata / name

    def make_metadata(self) -> None:
        """Make the folder for python-tuf, and remove what is no file in it.

        The library would wait for a pipe.
        """
        history = self.metadata / "root_history"
        if history.is_symlink() or not history.is_dir():
            history.unlink(missing_ok=True)
        history.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.metadata, history):
            for path in folder.iterdir():
                if path.is_file() or path == history:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def keep_metadata(self, role: str, content: bytes) -> None:
        """Keep metadata that were verified just now, as python-tuf keeps them."""
        if self.kept_metadata(role) != content:
            _write(self._metadata(role), content)

    def target(self, path: str, digest: Digest) -> Path:
        """Return where the content of a target is kept."""
        return self.path / "targets" / f"{digest.hex}.{quote(path, '')}"

    def kept_target(self, path: str, digest: Digest) -> bytes | None:
        """Return the content of a target, unverified; None where it is not kept."""
        return _content(self.target(path, digest))

    def keep_target(self, path: str, digest: Digest, content: bytes) -> None:
        """Keep the content of a target in place of what it was before."""
        if self.kept_target(path, digest) != content:
            _write(self.target(path, digest), content)
            self.drop_older(path, digest)

    def drop_older(self, path: str, digest: Digest) -> None:
        """Remove what a target was before."""
        place = self.target(path, digest)
        for name in _names(place.parent):
            if name != place.name and name[64:] == place.name[64:]:
                (place.parent / name).unlink(missing_ok=True)

    def kept_attestation(self, digest: Digest) -> bytes | None:
        """Return a signed statement, or None where it is not kept or was damaged."""
        return _with_digest(self.path / "attestations" / f"{digest.hex}.json", digest)

    def keep_attestation(self, digest: Digest, content: bytes) -> None:
        """Keep a signed statement, if it is the one of this digest."""
        if Digest.of(content) == digest:
            _write(self.path / "attestations" / f"{digest.hex}.json", content)

    # revocations

    def seen_revocations(self) -> tuple[tuple[bytes, ...], bool]:
        """Return the lists of revocations that were seen, and whether all that are there are damaged.

        It is one list, and two where a command was killed, or is busy, while it put one in the other's place.
        """
        names, whole = self._lists()
        if names and not whole:
            names, whole = self._lists()  # what was listed may have been replaced before it was read
        return whole, bool(names) and not whole

    def _lists(self) -> tuple[list[str], tuple[bytes, ...]]:
        folder = self.path / "revocations"
        names = _names(folder)
        contents = ((name, _content(folder / name)) for name in names)
        return names, tuple(c for name, c in contents if c is not None and name == f"{Digest.of(c).hex}.json")

    def keep_revocations(self, content: bytes) -> None:
        """Keep a list in place of the one before."""
        name = f"{Digest.of(content).hex}.json"
        _write(self.path / "revocations" / name, content)
        for other in _names(self.path / "revocations"):
            if other != name:
                (self.path / "revocations" / other).unlink(missing_ok=True)

    # where it was reached

    def note_url(self, registry: str, url: str) -> None:
        """Remember that this registry was reached at a URL."""
        known = self._reached()
        urls = known.urls if known is not None and known.id == registry else ()
        if url not in urls:
            value = {"id": registry, "urls": [*urls, url]}
            _write(self.path / "registry.json", canonical_json(value))

    def _reached(self) -> _Reached | None:
        content = _content(self.path / "registry.json")
        try:
            return read_model(_Reached, content or b"", code="index_invalid")
        except InvalidInput:
            return None


def registry_at(home: Path, url: str) -> str:
    """Return the id of the registry that was reached at a URL before, or an empty text."""
    for name in _names(home / FOLDER):
        folder = IndexFolder(home / FOLDER / name)
        found = folder._reached()  # noqa: SLF001 - of this module
        if found is not None and url in found.urls and folder == IndexFolder.of(home, found.id):
            return found.id
    return ""


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _content(path: Path) -> bytes | None:
    try:
        return read_small(path)
    except OSError:
        return None


def _with_digest(path: Path, digest: Digest) -> bytes | None:
    content = _content(path)
    return content if content is not None and Digest.of(content) == digest else None


def _write(path: Path, content: bytes) -> None:
    """Write a file that is verified whenever it is read: whole or not at all, but not forced to the disk."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
