"""The question of `GET /v1/resolve`: which version of which plugin, and who asks.

    plugin, range                                          what
    host, language, supports, prefer, isolate,             who, as `hosts.host_from` reads it
    core_version, kind, platform, tunnel, environment

`supports`, `prefer` and `kind` are lists: repeated, or separated by commas. A parameter that is not known is
a fault, because a misspelt one would be answered as if it had not been there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Boundary, Collector, InvalidInput, UsageError
from plugreg_schemas.hosts import Host, host_from
from plugreg_schemas.names import PluginName, VersionRange, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LISTS: Final = ("supports", "prefer", "kind")
WHO: Final = ("host", "language")
"""One of these must be given."""
SINGLE: Final = (*WHO, "isolate", "core_version", "platform", "tunnel", "environment")
WHAT: Final = ("plugin", "range")
PARAMETERS: Final = (*WHAT, *SINGLE, *LISTS)

_ANYBODY: Final = {"language": ["python"]}
"""Beside a word about the host, so that this word alone can be at fault."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a plugin, the versions that would do, and the host that would use it."""

    plugin: PluginName
    range: VersionRange
    host: Host


def read_question(query: Iterable[tuple[str, str]]) -> Question:
    """Read the parameters of a query, in any order.

    Raises:
        UsageError: `question_invalid`, or the one code of all faults: `parameter_unknown`,
            `parameter_missing`, `parameter_repeated`, `name_invalid`, `range_invalid`, or as `host_from`.
    """
    faults = Collector("question_invalid", "the question is not valid")
    words = _words(query, faults)
    plugin = _plugin(words, faults)
    wanted = _range(words, faults)
    host = _host({key: words[key] for key in (*SINGLE, *LISTS) if key in words}, faults)
    faults.raise_if_any(UsageError, hint=f"parameters are {', '.join(PARAMETERS)}")
    if plugin is None or wanted is None or host is None:
        raise AssertionError("what could not be read is a fault")
    return Question(plugin, wanted, host)


def _words(query: Iterable[tuple[str, str]], faults: Collector) -> dict[str, list[str]]:
    words: dict[str, list[str]] = {}
    for key, value in query:
        if key in PARAMETERS:
            words.setdefault(key, []).append(value)
        else:
            _fault(faults, "parameter_unknown", f"{quoted(key)} is not a parameter")
    for key in (*WHAT, *SINGLE):
        values = words.get(key, [])
        if len(values) > 1 or (key in SINGLE and any("," in value for value in values)):
            _fault(faults, "parameter_repeated", f"`{key}` takes one value")
            words[key] = [values[0] if key in WHAT else values[0].partition(",")[0]]
    return {key: values for key, values in words.items() if key in LISTS or any(values)}


def _plugin(words: Mapping[str, list[str]], faults: Collector) -> PluginName | None:
    if "plugin" not in words:
        _fault(faults, "parameter_missing", "`plugin` is missing")
        return None
    try:
        return PluginName(words["plugin"][0])
    except InvalidInput as error:
        _fault(faults, error.code, f"`plugin`: {error.message}", error.hint)
        return None


def _range(words: Mapping[str, list[str]], faults: Collector) -> VersionRange | None:
    try:
        return VersionRange(words.get("range", [""])[0].strip())
    except InvalidInput as error:
        _fault(faults, error.code, f"`range`: {error.message}", error.hint)
        return None


def _host(words: Mapping[str, list[str]], faults: Collector) -> Host | None:
    """Return the host, after asking about each word by itself: so every fault is found."""
    before = len(faults.findings) + faults.dropped
    for key, values in words.items():
        try:
            host_from({key: values} if key in WHO else {**_ANYBODY, key: values})
        except UsageError as error:
            _fault(faults, error.code, f"`{key}`: {error.message}", error.hint)
    if len(faults.findings) + faults.dropped > before:
        return None
    try:
        return host_from(words)
    except UsageError as error:  # nobody said who asks
        _fault(faults, error.code, error.message, error.hint)
        return None


def _fault(faults: Collector, code: str, message: str, hint: str = "") -> None:
    faults.add(code, f"{message}; {hint}" if hint else message, boundary=Boundary.REGISTRY)
