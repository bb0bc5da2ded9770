"""Who asks: what a host can use, the hosts that are known by name, and the languages of hosts.

    Host                 the facts; what is not stated is not checked
    PROFILES, LANGUAGES  the tables
    MATRIX               which way comes first for a host class and a tier (ADR 0165, section 4)
    host_from            words of a command line or a query > Host

A profile says what a host's own configuration can express, not what could be arranged around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from plugreg_schemas.errors import InvalidInput, UsageError
from plugreg_schemas.names import quoted
from plugreg_schemas.runtimes import RuntimeName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from plugreg_schemas.alternatives import Transport
    from plugreg_schemas.manifest import Tier

HostClass = Literal["desktop", "web", "builtin"]
"""Starts processes on the user's machine; reaches URLs alone; is the program that has the core in it."""
Tunnel = Literal["none", "read-only", "read-write"]
"""Whether the user opted in to a tunnel to this machine, and what its token allows."""
Screen = Literal["view", "link", "none"]
"""Whether a user interface is shown, opened elsewhere by its link (a terminal), or neither."""
Environment = Literal["dev", "production"]

RUNTIMES: Final[tuple[RuntimeName, ...]] = get_args(RuntimeName)
MCP: Final = frozenset[RuntimeName]({"mcp_stdio", "mcp_http"})
MAX_WORD: Final = 64
"""Characters of one word of a question; nothing that has a meaning is longer."""


@dataclass(frozen=True, slots=True)
class Host:
    """Who asks. None means that nothing was said, and then nothing is checked by it."""

    name: str = ""
    language: str = ""
    """What code it can load into itself is written in; "": it loads none."""
    supports: frozenset[RuntimeName] | None = None
    prefer: tuple[RuntimeName, ...] = ()
    """An explicit order, which wins over every other."""
    host_class: HostClass | None = None
    transports: frozenset[Transport] | None = None
    isolate: bool = False
    """Whether the plugin's code must not run in the host's own process."""
    core_version: str | None = None
    kinds: frozenset[str] | None = None
    platform: str | None = None
    environment: Environment | None = None
    built_in: frozenset[str] = frozenset()
    """The names of the plugins that are compiled into it."""
    can_spawn: bool = True
    screen: Screen = "view"
    tunnel: Tunnel = "none"
    gui_alive: bool = True
    """Whether its own window is open, so that what it serves itself can be reached."""


MATRIX: Final[Mapping[tuple[HostClass | None, Tier | None], tuple[RuntimeName, ...]]] = {
    ("desktop", "A"): ("mcp_stdio",),
    ("desktop", "B"): ("mcp_stdio", "mcp_http"),
    ("web", "B"): ("mcp_http",),
    ("builtin", "A"): ("mcp_stdio",),
    ("builtin", "B"): ("in_process", "mcp_http", "mcp_stdio"),
}
"""What comes first, before the flowchart's order. What is forbidden stands in `grounds`."""

LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "python": ("py", "python3"),
    "typescript": ("ts", "javascript", "js", "node", "nodejs", "deno", "bun"),
    "go": ("golang",),
    "rust": ("rs",),
    "java": ("jvm",),
    "csharp": ("cs", "c#", "dotnet", ".net"),
}
"""Languages and their other names. Each implements every runtime; code is loaded only in its own language."""

_ALIASES: Final = {alias: name for name, aliases in LANGUAGES.items() for alias in (name, *aliases)}


def _desktop(name: str, *transports: Transport) -> Host:
    supports = frozenset[RuntimeName](("mcp_stdio",) if transports == ("stdio",) else MCP)
    return Host(
        name, supports=supports, host_class="desktop", transports=frozenset(transports), screen="none"
    )


def _web(name: str) -> Host:
    return Host(
        name,
        supports=frozenset({"mcp_http"}),
        host_class="web",
        transports=frozenset({"streamable-http"}),
        can_spawn=False,
        screen="none",
    )


_ALL: Final[tuple[Transport, ...]] = ("stdio", "streamable-http", "sse")
_NO_SSE: Final[tuple[Transport, ...]] = ("stdio", "streamable-http")

PROFILES: Final[Mapping[str, Host]] = {
    host.name: host
    for host in (
        _desktop("claude-code", *_ALL),
        _desktop("claude-desktop", "stdio"),
        _desktop("codex", *_NO_SSE),
        _desktop("continue", *_ALL),
        _desktop("copilot-cli", *_ALL),
        _desktop("cursor", *_ALL),
        _desktop("gemini-cli", *_ALL),
        _desktop("jetbrains", *_ALL),
        _desktop("kiro", *_NO_SSE),
        _desktop("openclaw", *_NO_SSE),
        _desktop("opencode", *_NO_SSE),
        _desktop("vscode", *_ALL),
        _desktop("windsurf", *_ALL),
        _desktop("zed", *_NO_SSE),
        _web("chatgpt"),
        _web("claude-ai"),
        Host(
            "cascade-ide",
            "csharp",
            supports=frozenset({"in_process", *MCP}),
            host_class="builtin",
            screen="none",
        ),
        Host("keel", "go", supports=frozenset({"in_process", "sidecar", "webview"})),
        Host("keel-tui", "go", supports=frozenset({"in_process", "sidecar", "webview"}), screen="link"),
    )
}
"""The hosts that are known by name."""


def normal_language(text: str) -> str:
    """Return the usual name of a language; one that is not known here stays as it is, in lower case.

    >>> normal_language("Node"), normal_language("golang"), normal_language("Zig")
    ('typescript', 'go', 'zig')
    """
    word = text.strip().lower()
    return _ALIASES.get(word, word)


def host_from(words: Mapping[str, Iterable[str]]) -> Host:
    """Return the host that a question describes: by name, by language, or by a name with changes.

    `words` has for each key the values as they were written, repeated or separated by commas: `host`,
    `language`, `supports`, `prefer`, `kind`, `core_version`, `platform`, `tunnel`, `environment`, and
    `isolate` (`true` or `false`).
    A key that is missing leaves the profile as it is; other keys are ignored.

    Raises:
        UsageError: `host_unknown`, `language_unknown`, `host_missing`, `runtime_unknown`,
            `core_version_invalid`, `setting_invalid`.
    """
    host = _named(_one(words, "host"), _one(words, "language"))
    if "supports" in words:
        host = replace(host, supports=frozenset(_runtimes(words, "supports")))
    if "prefer" in words:
        host = replace(host, prefer=_runtimes(words, "prefer"))
    if core := _one(words, "core_version"):
        host = replace(host, core_version=_checked_core(core))
    if kinds := frozenset(_many(words, "kind")):
        host = replace(host, kinds=kinds)
    if isolate := _choice(words, "isolate", ("true", "false")):
        host = replace(host, isolate=isolate == "true")
    if tunnel := _choice(words, "tunnel", get_args(Tunnel)):
        host = replace(host, tunnel=tunnel)  # type: ignore[arg-type]  # one of the choices
    if environment := _choice(words, "environment", get_args(Environment)):
        host = replace(host, environment=environment)  # type: ignore[arg-type]  # one of the choices
    return replace(host, platform=_one(words, "platform") or host.platform)


def _named(name: str, language: str) -> Host:
    spoken = normal_language(language)
    if spoken and spoken not in LANGUAGES:
        hint = f"known languages are {', '.join(LANGUAGES)}"
        raise UsageError("language_unknown", f"{quoted(language)} is not a language known here", hint=hint)
    if not name and not spoken:
        raise UsageError(
            "host_missing",
            "nothing says who asks",
            hint="name a language (`python`, ...) or a host (`cursor`, ...)",
        )
    if not name:
        return Host(spoken, spoken)
    profile = PROFILES.get(name.lower())
    if profile is None:
        hint = f"known hosts are {', '.join(sorted(PROFILES))}"
        raise UsageError("host_unknown", f"{quoted(name)} is not a host known here", hint=hint)
    return replace(profile, language=spoken or profile.language)


def _runtimes(words: Mapping[str, Iterable[str]], key: str) -> tuple[RuntimeName, ...]:
    known = {name: name for name in RUNTIMES}
    found = []
    for word in _many(words, key):
        if word not in known:
            hint = f"runtimes are {', '.join(RUNTIMES)}"
            raise UsageError("runtime_unknown", f"{quoted(word)} is not a runtime", hint=hint)
        found.append(known[word])
    return tuple(dict.fromkeys(found))


def _checked_core(text: str) -> str:
    from plugreg_schemas.core_version import CoreRange  # noqa: PLC0415 - `packaging` costs a start that asks no core

    try:
        CoreRange(">=0").contains(text)
    except InvalidInput as error:
        hint = "write for example `1.4.0`"
        raise UsageError(
            "core_version_invalid", f"{quoted(text)} is not a version of a core", hint=hint
        ) from error
    return text


def _choice(words: Mapping[str, Iterable[str]], key: str, choices: Sequence[str]) -> str:
    word = _one(words, key)
    if word and word not in choices:
        raise UsageError(
            "setting_invalid", f"`{key}` is {quoted(word)}", hint=f"write {' or '.join(choices)}"
        )
    return word


def _one(words: Mapping[str, Iterable[str]], key: str) -> str:
    """The only value of a key, or the last of several, as a later flag wins over an earlier one."""
    found = _many(words, key)
    return found[-1] if found else ""


def _many(words: Mapping[str, Iterable[str]], key: str) -> tuple[str, ...]:
    found = [part.strip() for value in words.get(key, ()) for part in value.split(",")]
    long = next((word for word in found if len(word) > MAX_WORD), None)
    if long is not None:
        raise UsageError(
            "setting_invalid", f"a word of `{key}` is too long: {quoted(long)}", hint=f"at most {MAX_WORD}"
        )
    return tuple(word for word in found if word)
