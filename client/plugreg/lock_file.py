"""`plugreg.lock`: which releases a project uses, to be read by people and merged by version control.

    version = 1
    [registries."urn:uuid:..."]      its pinned root, and as a hint where it is
    [plugins.hello]                  version, digest, registry, signer, newest statement, and the wanted range

The same content is always the same bytes: one block for each name, in the order of names, and no sum over
all. The file comes with whatever was cloned, so it only ever narrows what is accepted (see `frozen`): it is
compared, and nobody is asked or trusted because it says so.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, model_validator

from plugreg.config import write_atomically
from plugreg.own_files import WrongKindError, read_small
from plugreg_schemas.errors import InvalidInput, NotAllowed, ResolutionError
from plugreg_schemas.fields import (
    Closed,
    DigestField,
    NameField,
    RangeField,
    RegistryIdField,
    VersionField,
    check_model,
)
from plugreg_schemas.names import quoted
from plugreg_schemas.toml import MAX_TOML, parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from pydantic import BaseModel

FILE: Final = "plugreg.lock"
FORMAT: Final = 1
MAX_LOCKED: Final = 500
"""Plugins in one file: as many as one command installs."""
HEAD: Final = "# Written by `plugreg lock`. `plugreg sync` installs exactly this. Keep it in version control."

URL: Final = r"https?://[A-Za-z0-9._~:/%\[\]-]+"
"""An address that may be shown and copied: it hides no other host, and means nothing to a shell."""

_ANEW: Final = "restore the file, or write it anew: `plugreg lock`"
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class LockedRegistry(Closed):
    """A registry that plugins are locked from. `url` is shown to people, and never contacted."""

    root: DigestField | None = None
    url: Annotated[str, Field(max_length=2000, pattern=f"^({URL})?$")] = ""


class LockedPlugin(Closed):
    """A plugin as it is locked: one release, by whom, and the newest statement of its history by then."""

    version: VersionField
    range: RangeField = ""
    digest: DigestField
    registry: RegistryIdField
    signer: Annotated[str, Field(max_length=1000, pattern=r"^(key|oidc|ci):[^\x00-\x1f\x7f-\x9f]+$")]
    head: DigestField


class LockFile(Closed):
    """The content of the file."""

    version: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    registries: dict[RegistryIdField, LockedRegistry] = Field(default_factory=dict)
    plugins: dict[NameField, LockedPlugin] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _knows_its_registries(self) -> Self:
        unknown = [name for name, row in self.plugins.items() if row.registry not in self.registries]
        if unknown:
            raise ValueError(f"the registry of {quoted(unknown[0])} is not among `registries`")
        return self

    @property
    def roots(self) -> Mapping[str, str]:
        """The roots that it names, by registry."""
        return {registry: row.root for registry, row in self.registries.items() if row.root}

    def as_dict(self) -> dict[str, object]:
        """Return the rows as `lock --json` prints them, by name."""
        return {
            "registries": [{"id": key, **row.model_dump()} for key, row in sorted(self.registries.items())],
            "plugins": [{"name": key, **row.model_dump()} for key, row in sorted(self.plugins.items())],
        }


def read_lock(path: Path) -> LockFile:
    """Read a lock file.

    Raises:
        ResolutionError: `lock_missing`.
        InvalidInput: `lock_invalid` with every fault, `lock_version`.
    """
    try:
        return parse(read_small(path, MAX_TOML), str(path))
    except FileNotFoundError:
        raise ResolutionError(
            "lock_missing", f"there is no {path} here", hint="`plugreg lock` writes one"
        ) from None
    except WrongKindError as error:
        raise InvalidInput("lock_invalid", f"{path} cannot be used: {error.strerror}", hint=_ANEW) from None


def parse(content: bytes, file: str = FILE) -> LockFile:
    """Return what the bytes of a lock file say.

    Raises:
        InvalidInput: `lock_invalid` with every fault, `lock_version`.
    """
    try:
        value = parse_toml(content, file)
        version = value.get("version")
        if isinstance(version, int) and version > FORMAT:
            raise InvalidInput(
                "lock_version",
                f"{file} has the form {version}, and this plugreg reads the form {FORMAT}",
                hint="use a newer plugreg",
            )
        _check_size(value, file)
        return check_model(LockFile, value, code="lock_invalid", file=file)
    except InvalidInput as error:
        if error.code == "lock_version":
            raise
        message = error.message if file in error.message else f"{file}: {error.message}"
        raise InvalidInput("lock_invalid", message, hint=_ANEW, findings=error.findings) from None


def _check_size(value: Mapping[str, object], file: str) -> None:
    """Refuse a crowd of rows before each of them is judged."""
    for table in ("registries", "plugins"):
        rows = value.get(table)
        if isinstance(rows, dict) and len(rows) > MAX_LOCKED:
            raise InvalidInput("lock_invalid", f"{file} has more than {MAX_LOCKED} `{table}`")


def render(lock: LockFile) -> bytes:
    """Return the bytes of a lock file, the same for the same content."""
    lines = [HEAD, f"version = {lock.version}"]
    lines += _blocks("registries", lock.registries)
    lines += _blocks("plugins", lock.plugins)
    return ("\n".join(lines) + "\n").encode()


def _blocks(table: str, rows: Mapping[str, BaseModel]) -> Iterator[str]:
    for key, row in sorted(rows.items()):
        yield ""
        yield f"[{table}.{key if _BARE_KEY.fullmatch(key) else json.dumps(key)}]"
        yield from (f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in row if text)


def write_lock(path: Path, lock: LockFile) -> bool:
    """Write a lock file, and return whether that changed it. What could not be read again is not written.

    Raises:
        InvalidInput: `lock_invalid`: more plugins than one file may have.
        NotAllowed: `not_a_file`: a link, a folder or a device stands there, and stays as it is.
    """
    if path.is_symlink():  # it comes with a project, and could lead to any file of this user
        raise NotAllowed("not_a_file", f"{path} is a link, so it stays as it is", hint="remove the link")
    content = render(lock)
    parse(content, str(path))
    try:
        if read_small(path, MAX_TOML) == content:
            return False
    except (FileNotFoundError, WrongKindError):
        pass
    write_atomically(path, content)
    return True
