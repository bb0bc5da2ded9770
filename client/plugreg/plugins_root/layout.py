"""Where everything in a plugins root is, and whether one of its entries is ours.

Reads links, changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from plugreg_schemas.errors import InvalidInput, NotAllowed
from plugreg_schemas.names import Digest, PluginName, Version, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plugreg_schemas.trust.sigstore import SigstoreVerifier

    Judge = Callable[[str], SigstoreVerifier | None]
    """From a registry's id to what judges the certificates of its plugins; None: only keys are accepted."""

STORE: Final = ".store"
STAGING: Final = ".staging"
DATA: Final = ".data"
FOLDERS: Final = ".folders"
SHOWN: Final = 40
"""Characters of a folder's own name that stand in the name of its data folder."""
STATE: Final = ".state"
LOCK: Final = ".lock"
BUNDLE: Final = ".tar.zst"
ATTESTATION: Final = ".sigstore.json"
FACTS: Final = ".facts.json"
DIGITS: Final = 12
"""Digits of the digest in a folder's name:

enough to tell releases apart, while the full digest is recorded beside it.
"""

DEFAULT_PATIENCE_S: Final = 300.0
"""Seconds that a writer waits for another one."""

_KEY = re.compile(r"(?P<version>[0-9A-Za-z.+-]{1,64})-(?P<digits>[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """One release in the store: its tree, and beside it what proves the tree."""

    name: str
    key: str
    """`<version>-<digest12>`."""
    folder: Path
    """`.store/<name>`."""

    @property
    def tree(self) -> Path:
        """The plugin's files: PLUGIN_ROOT while this release is active."""
        return self.folder / self.key

    @property
    def bundle(self) -> Path:
        """The signed bundle that the tree was unpacked from."""
        return self.folder / (self.key + BUNDLE)

    @property
    def attestation(self) -> Path:
        """The signed statement that published the bundle."""
        return self.folder / (self.key + ATTESTATION)

    @property
    def facts(self) -> Path:
        """What was known when the release was installed."""
        return self.folder / (self.key + FACTS)

    @property
    def parts(self) -> tuple[Path, Path, Path, Path]:
        """The four of them, the tree last."""
        return (self.bundle, self.attestation, self.facts, self.tree)

    @property
    def version(self) -> str:
        """The version as the folder's name says it, for a release whose facts are gone."""
        return self.key[: -DIGITS - 1]

    @property
    def target(self) -> str:
        """What a link in the root says to make this release active."""
        return f"{STORE}/{self.name}/{self.key}"

    def is_complete(self) -> bool:
        """Whether all four parts are there; whether they are unaltered is `examination`'s question."""
        return is_folder(self.tree) and all(part.is_file() for part in self.parts[:3])


def no_judge(registry: str) -> None:
    """Judge no certificate."""


@dataclass(frozen=True, slots=True)
class PluginsRoot:
    """A plugins root by its absolute path, links resolved.

    `patience` is how many seconds a writer waits for another one; `judge` returns what judges the
    certificates of what was installed from a registry, and without it only keys are accepted.
    """

    path: Path
    patience: float = DEFAULT_PATIENCE_S
    judge: Judge = no_judge

    @classmethod
    def at(
        cls,
        path: Path | str,
        patience: float = DEFAULT_PATIENCE_S,
        judge: Judge = no_judge,
    ) -> Self:
        """Return the root at `path`, which need not exist."""
        return cls(Path(os.path.realpath(Path(path).expanduser())), patience, judge)

    @property
    def store(self) -> Path:
        """The folder of releases."""
        return self.path / STORE

    @property
    def staging(self) -> Path:
        """The folder of unfinished work.

        It lies in the root: a move out of it never crosses a file system.
        """
        return self.store / STAGING

    @property
    def states(self) -> Path:
        """The folder of records."""
        return self.path / STATE

    @property
    def all_data(self) -> Path:
        """The folder of every plugin's PLUGIN_DATA."""
        return self.path / DATA

    @property
    def lock(self) -> Path:
        """The file that the one writer holds."""
        return self.path / LOCK

    def link(self, name: str) -> Path:
        """The entry that makes a plugin active."""
        return self.path / name

    def data(self, name: str) -> Path:
        """A plugin's PLUGIN_DATA."""
        return self.all_data / name

    def data_of_folder(self, folder: Path) -> Path:
        """The data folder of a plugin that is run from where it lies, by its place.

        Nobody signed it, so the data of an installed plugin of that name is not for it,
        whatever name it gives itself.
        """
        place = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:DIGITS]
        return self.all_data / FOLDERS / f"{folder.resolve().name[:SHOWN]}-{place}"

    def state(self, name: str) -> Path:
        """A plugin's record."""
        return self.states / f"{name}.json"

    def entry(self, name: str, version: Version | str, digest: Digest) -> StoreEntry:
        """Where a release lies or would lie."""
        return StoreEntry(name, f"{version}-{digest.hex[:DIGITS]}", self.store / name)

    def entries(self, name: str) -> tuple[StoreEntry, ...]:
        """Every release of a plugin of which anything is in the store, by name."""
        folder = self.store / name
        keys = set()
        for found in names_in(folder):
            for end in (BUNDLE, ATTESTATION, FACTS, ""):
                if found.endswith(end) and _KEY.fullmatch(found.removesuffix(end)):
                    keys.add(found.removesuffix(end))
                    break
        return tuple(StoreEntry(name, key, folder) for key in sorted(keys))

    def linked(self, name: str) -> StoreEntry | None:
        """Return the release that the entry `name` makes active, or None where that is nothing of ours."""
        try:
            target = str(self.link(name).readlink()).replace(os.sep, "/")
        except OSError:
            return None
        start = f"{STORE}/{name}/"
        if not target.startswith(start) or not _KEY.fullmatch(target.removeprefix(start)):
            return None
        return StoreEntry(name, target.removeprefix(start), self.store / name)

    def active(self, name: str) -> StoreEntry | None:
        """Return the active release of a plugin, or None where no entry has its name.

        Raises:
            NotAllowed: `not_ours`: the entry of that name is not a link into our store.
        """
        found = self.linked(name)
        if found is None and os.path.lexists(self.link(name)):
            raise NotAllowed(
                "not_ours",
                f"{self.link(name)} was not made by plugreg, so it stays as it is",
                hint="move it away, or choose another plugins root with `--root`",
            )
        return found

    def active_names(self) -> Iterator[str]:
        """Yield the names of all active plugins, sorted."""
        for found in names_in(self.path):
            if not found.startswith(".") and is_name(found) and self.linked(found) is not None:
                yield found

    def room(self) -> tuple[int, int]:
        """Bytes that a path inside a plugin may have here, and bytes that one part of it may have."""
        whole, part = _system_limits(self.store)
        deepest = max(len(os.fsencode(self.staging)) + _STAGED, len(os.fsencode(self.store)) + _STORED)
        return whole - deepest, part


_STAGED: Final = len("/0123456789abcdef/999/tree/")
_STORED: Final = 1 + 64 + 1 + 64 + 1 + DIGITS + 1
"""The longest `/<name>/<version>-<digest12>/`: names and versions have at most 64 characters."""

_WINDOWS_PATH: Final = 259
"""Characters of a path on Windows without long paths (Microsoft, Maximum Path Length Limitation)."""


def _system_limits(folder: Path) -> tuple[int, int]:
    """Bytes of a path without its final NUL, and of one of its parts, on the file system of `folder`."""
    if not hasattr(os, "pathconf"):
        return _WINDOWS_PATH, 255
    return os.pathconf(folder, "PC_PATH_MAX") - 1, os.pathconf(folder, "PC_NAME_MAX")


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; a folder that is not there has none."""
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def is_folder(path: Path) -> bool:
    """Whether a folder stands at `path` itself: what a link leads to is not ours to tidy or to fill."""
    return path.is_dir() and not path.is_symlink()


def check_ours(*folders: Path) -> None:
    """Refuse to work in folders that are links.

    Raises:
        NotAllowed: `not_ours`.
    """
    for folder in folders:
        if folder.is_symlink():
            raise NotAllowed(
                "not_ours",
                f"{folder} is a link, and plugreg makes none there: what it leads to stays as it is",
                hint="remove the link, or choose another plugins root with `--root`",
            )


def is_name(text: str) -> bool:
    """Whether `text` could be the name of a plugin."""
    try:
        PluginName(text)
    except InvalidInput:
        return False
    return True


def too_long(path: str, room: int) -> InvalidInput:
    """Return the refusal of a path that does not fit below this root."""
    return InvalidInput(
        "path_too_long_here",
        f"{quoted(path)} has more than the {max(room, 0)} bytes that this plugins root leaves to it",
        hint="choose a plugins root with a shorter path: `--root`",
    )
