"""Where settings come from: flag > environment > project `plugreg.toml` > user `config.toml` > default.

    PLUGREG_HOME       our own folder: `config.toml`, `registries.json`, `keys/`
                       (default: the platform's configuration folder)
    PLUGREG_ROOT       the plugins root (default: ~/.agents/plugins)
    PLUGREG_REGISTRY   the registry to use, by name or URL (default: every registry that was added)
    PLUGREG_TRUST_CONFIG   the trust configuration of a Sigstore of one's own (default: the public one);
                       never from a project's file

There is no built-in registry.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plugreg.own_files import read_small
from plugreg_schemas.errors import NotAllowed, UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT_SETTINGS: Final = ("root", "registry")
"""The settings that a project's file may give; the environment spells them `PLUGREG_ROOT` and so on."""
USER_SETTINGS: Final = (*PROJECT_SETTINGS, "trust_config")
"""The user's own file says whom to trust as well. A project's may not: it comes with whatever was cloned."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one command."""

    home: Path
    root: Path
    registry: str = ""
    trust_config: str = ""
    """The file that names the Sigstore instance; empty for the public one."""

    @property
    def keys(self) -> Path:
        """The folder of signing keys."""
        return self.home / "keys"


def load(
    environ: Mapping[str, str],
    *,
    root: str = "",
    registry: str = "",
    trust_config: str = "",
    folder: Path | None = None,
) -> Config:
    """Return the settings, taking the first source that has each one.

    Raises:
        UsageError: `config_invalid`.
    """
    home = _home(environ)
    project = _read_toml((folder or Path()) / "plugreg.toml", PROJECT_SETTINGS)  # a folder may be gone
    user = _read_toml(home / "config.toml", USER_SETTINGS)

    def setting(name: str, flag: str, default: str) -> str:
        return (
            flag or environ.get(f"PLUGREG_{name.upper()}") or project.get(name) or user.get(name) or default
        )

    return Config(
        home=home,
        root=_folder(setting("root", root, "~/.agents/plugins")),
        registry=setting("registry", registry, ""),
        trust_config=setting("trust_config", trust_config, ""),
    )


def _home(environ: Mapping[str, str]) -> Path:
    if environ.get("PLUGREG_HOME"):
        return _folder(environ["PLUGREG_HOME"])
    import platformdirs

    return platformdirs.user_config_path("plugreg", appauthor=False)


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise UsageError("config_invalid", f"there is no home folder for {quoted(text)}") from None


def _read_toml(path: Path, known: tuple[str, ...]) -> dict[str, str]:
    try:
        content: dict[str, Any] = tomllib.loads(read_small(path).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, OSError, RecursionError) as error:
        raise UsageError("config_invalid", f"{path.absolute()} cannot be read: {error}") from None
    unknown = [key for key in content if key not in known]
    if unknown:
        raise UsageError(
            "config_invalid",
            f"{path.absolute()} has settings that are not known: {', '.join(map(quoted, unknown))}",
            hint=f"known are: {', '.join(known)}",
        )
    wrong = [key for key, value in content.items() if not isinstance(value, str) or "\0" in value]
    if wrong:
        raise UsageError(
            "config_invalid", f"{path.absolute()} has settings that are not text: {', '.join(wrong)}"
        )
    return content


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old or the new one, never a half.

    A link stays, and what it leads to is replaced: settings may well be kept elsewhere. A folder, a pipe or a
    device is left alone.

    Raises:
        NotAllowed: `not_a_file`.
    """
    if path.exists() and not path.is_file():
        raise NotAllowed("not_a_file", f"{path} is not a file, so it stays as it is", hint="name a file")
    path = Path(os.path.realpath(path))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
