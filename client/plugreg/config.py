"""Where settings come from: flag > environment > project `plugreg.toml` > user `config.toml` > default.

    PLUGREG_HOME       our own folder: `config.toml`, `registries.json`, `keys/`
                       (default: the platform's configuration folder)
    PLUGREG_ROOT       the plugins root (default: ~/.agents/plugins)
    PLUGREG_REGISTRY   the registry to use, by name or URL (default: every registry that was added)
    PLUGREG_TOKEN      the token by which that registry is read; only from the environment (see `tokens`)
    PLUGREG_TRUST_CONFIG   the trust configuration of a Sigstore of one's own (default: the public one);
                       never from a project's file
    PLUGREG_FIRST_USE  `refuse`: neither a registry nor a signer is trusted because it was the first
                       (default: `pin`; see `trust_policy`); never from a project's file
    PLUGREG_TIMESTAMP_URL  the timestamp authority (RFC 3161) for signatures by a key (default: none);
                       never from a project's file
    PLUGREG_CA_FILE    the certificate authorities that servers are judged by, instead of the system's;
                       never from a project's file. After it SSL_CERT_FILE and REQUESTS_CA_BUNDLE count

There is no built-in registry.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugreg.own_files import read_small
from plugreg_schemas.errors import NotAllowed, UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

PROJECT_SETTINGS: Final = ("root", "registry")
"""The settings that a project's file may give; the environment spells them `PLUGREG_ROOT` and so on."""
USER_SETTINGS: Final = (*PROJECT_SETTINGS, "trust_config", "first_use", "timestamp_url", "ca_file")
"""The user's own file says whom to trust as well. A project's may not: it comes with whatever was cloned."""


FLAGS: Final = ("root", "registry", "trust_config", "timestamp_url", "ca_file")
"""The settings that a flag may give; not every command has every flag."""


class CaFile(NamedTuple):
    """The certificate authorities that are believed: a file, a folder, or with an empty path the system's."""

    path: str = ""
    named_by: str = ""
    """The flag, variable or setting that said so."""


SYSTEM_CA: Final = CaFile()


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one command."""

    home: Path
    root: Path
    registry: str = ""
    token: str = field(default="", repr=False)
    """Says to one registry who asks; a secret."""
    token_for: str = ""
    """The registry that the user names, which a project's file may not: it would be sent the token."""
    trust_config: str = ""
    """The file that names the Sigstore instance; empty for the public one."""
    first_use: str = "pin"
    """`pin` or `refuse`; the file `trust.toml` may be stricter, so ask `trust_policy`."""
    timestamp_url: str = ""
    """The timestamp authority for signatures by a key; empty for none."""
    ca_file: CaFile = SYSTEM_CA
    offline: bool = False
    """Nobody is asked: what this machine has must do. This and the next two are decided for one command."""
    allow_old_index: bool = False
    accept_root: str = ""
    """The digest of the one root that may take the place of a pinned one."""

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
    timestamp_url: str = "",
    ca_file: str = "",
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
        token=environ.get("PLUGREG_TOKEN", "").strip(),
        token_for=registry or environ.get("PLUGREG_REGISTRY") or user.get("registry", ""),
        trust_config=setting("trust_config", trust_config, ""),
        first_use=_first_use(setting("first_use", "", "pin")),
        timestamp_url=setting("timestamp_url", timestamp_url, ""),
        ca_file=_ca_file(ca_file, environ, user),
    )


def of_command(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Return the settings of a command: `load` with the flags that it has."""
    flags: dict[str, Any] = {name: getattr(arguments, name, "") for name in FLAGS}
    return replace(
        load(environ, **flags),
        offline=getattr(arguments, "offline", False),
        allow_old_index=getattr(arguments, "allow_old_index", False),
        accept_root=getattr(arguments, "accept_root", ""),
    )


def _ca_file(flag: str, environ: Mapping[str, str], user: Mapping[str, str]) -> CaFile:
    sources = (
        ("--ca-file", flag),
        ("PLUGREG_CA_FILE", environ.get("PLUGREG_CA_FILE")),
        ("ca_file", user.get("ca_file")),
        ("SSL_CERT_FILE", environ.get("SSL_CERT_FILE")),
        ("REQUESTS_CA_BUNDLE", environ.get("REQUESTS_CA_BUNDLE")),
    )
    return next((CaFile(path, name) for name, path in sources if path), SYSTEM_CA)


def _first_use(text: str) -> str:
    if text not in {"pin", "refuse"}:
        raise UsageError(
            "config_invalid",
            f"`first_use` is `pin` or `refuse`, and not {quoted(text)}",
            hint="correct `first_use` in the settings, or `PLUGREG_FIRST_USE`",
        )
    return text


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
