"""Commands that fetch the program they start: which version that will be, and which variables it will see.

    npx, bunx, pnpm dlx    NAME@VERSION        uvx, pipx run   NAME@VERSION, NAME==VERSION
    docker run, podman run IMAGE:TAG           dnx             NAME@VERSION

Without a version the newest one is started, so what was signed says nothing about what runs. A tag such as
`latest` or a range is no version. Only what is certain is reported: an unknown option ends the search.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Boundary, Finding, Severity
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from plugreg_schemas.manifest import Component

_RUN: Final[Mapping[str, tuple[str, ...]]] = {
    "npx": (),
    "bunx": (),
    "pnpx": (),
    "uvx": (),
    "dnx": (),
    "pnpm": ("dlx",),
    "yarn": ("dlx",),
    "bun": ("x",),
    "npm": ("exec",),
    "uv": ("tool", "run"),
    "pipx": ("run",),
    "docker": ("run",),
    "podman": ("run",),
}
"""Launchers, and the words by which they fetch and start something."""
_CONTAINERS: Final = frozenset({"docker", "podman"})

_PACKAGE_OPTIONS: Final = frozenset({"-p", "--package", "--from", "--spec"})
"""Options whose value is the package, instead of the first word that is no option."""
_VALUES: Final = frozenset(
    {"--with", "--python", "--index-url", "--extra-index-url", "--index", "--registry", "--cache", "--prefix"}
    | {"--env-file", "--with-requirements", "--with-editable", "--loglevel", "--userconfig"}
)
"""Options of package launchers that take the next word as their value."""
_CONTAINER_FLAGS: Final = frozenset(
    {"-i", "-t", "-it", "-ti", "-d", "--rm", "--init", "--interactive", "--tty", "--privileged", "--detach"}
    | {"--read-only", "-P", "--publish-all", "--no-healthcheck", "--quiet", "-q", "--replace"}
)
"""Options of containers that take no value; every other one does, after `=` or as the next word."""

_EXACT: Final = re.compile(r"v?\d+(?:\.\d+){1,3}(?:[-+.][0-9A-Za-z.+-]+|(?:a|b|rc|\.?post|\.?dev)\d+)?")
_ENV_OPTIONS: Final = ("-e", "--env")


def advise(component: Component) -> Iterator[Finding]:
    """Yield a warning, without its place, for what a command fetches unnamed or passes on unset."""
    for runtime in component.runtimes:
        if isinstance(runtime, Command):
            yield from _advise(component.id, runtime)


def unpinned(argv: Sequence[str]) -> bool:
    """Whether this command fetches the newest version of something, whatever that is at the time.

    >>> unpinned(["npx", "-y", "@scope/tool"]), unpinned(["npx", "-y", "@scope/tool@1.4.0"])
    (True, False)
    >>> unpinned(["docker", "run", "-i", "acme/tool:latest"]), unpinned(["python3", "server.py"])
    (True, False)
    """
    start = _start(argv)
    if start is None:
        return False
    if argv[0] in _CONTAINERS:
        at = _image_at(argv, start)
        return at < len(argv) and not _is_exact_image(argv[at])
    package = _package(argv[start:])
    return bool(package) and not _is_exact_package(package)


def variables_passed_by_name(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the variables that a container gets by `-e NAME`, from the environment of its launcher.

    >>> variables_passed_by_name(["docker", "run", "-e", "TOKEN", "--env=MODE", "-e", "A=1", "acme/tool:1.0"])
    ('TOKEN', 'MODE')
    """
    start = _start(argv)
    if start is None or argv[0] not in _CONTAINERS:
        return ()
    words = argv[start : _image_at(argv, start)]
    values = [
        words[at + 1] if word in _ENV_OPTIONS and at + 1 < len(words) else word.removeprefix("--env=")
        for at, word in enumerate(words)
        if word in _ENV_OPTIONS or word.startswith("--env=")
    ]
    return tuple(value for value in values if value and "=" not in value and value not in _ENV_OPTIONS)


def _advise(component: str, runtime: Command) -> Iterator[Finding]:
    if unpinned(runtime.argv):
        message = (
            f"{quoted(component)}: `{runtime.argv[0]}` starts whatever version is newest at the time; "
            "name the package with an exact version"
        )
        yield _warning("launcher_unpinned", message)
    if runtime.env_policy == "inherit":
        return
    for name in variables_passed_by_name(runtime.argv):
        if name not in runtime.env and name not in runtime.env_passthrough:
            message = (
                f"{quoted(component)}: `-e` passes {quoted(name)} into the container, and `env` does not "
                "set it: it arrives only where the user stores a value for it"
            )
            yield _warning("container_env_unset", message)


def _warning(code: str, message: str) -> Finding:
    return Finding(code, message, Severity.WARNING, Boundary.REGISTRY)


def _start(argv: Sequence[str]) -> int | None:
    """Return where the words after the launcher and its verb begin; None where it fetches nothing."""
    verbs = _RUN.get(argv[0]) if argv else None
    if verbs is None or tuple(argv[1 : 1 + len(verbs)]) != verbs:
        return None
    return 1 + len(verbs)


def _package(words: Sequence[str]) -> str:
    at = 0
    while at < len(words):
        word = words[at]
        name, stated, value = word.partition("=")
        if name in _PACKAGE_OPTIONS:
            return value if stated else "".join(words[at + 1 : at + 2])
        if not word.startswith("-"):
            return word
        at += 2 if word in _VALUES else 1
    return ""


def _image_at(argv: Sequence[str], start: int) -> int:
    """Return where the image stands; the words after it are for what runs inside."""
    at = start
    while at < len(argv) and argv[at].startswith("-"):
        at += 1 if argv[at] in _CONTAINER_FLAGS or "=" in argv[at] else 2
    return at


def _is_exact_package(text: str) -> bool:
    """Whether a package is named with one version, one commit or tag, or is no package of an index at all."""
    if text.startswith((".", "/", "~", "$")):
        return True
    if "://" in text or text.startswith(("git+", "github:")):
        return "#" in text or "@" in text.rpartition("/")[2] or bool(_EXACT.search(text.rpartition("/")[2]))
    name, stated, version = text.partition("==")
    if not stated:
        name, _, version = text.rpartition("@")
    return bool(name) and bool(_EXACT.fullmatch(version))


def _is_exact_image(text: str) -> bool:
    if "@sha256:" in text or text.startswith("$"):
        return True
    tag = text.rpartition("/")[2].partition(":")[2]
    return tag not in {"", "latest", "stable", "main", "master", "edge", "nightly"}
