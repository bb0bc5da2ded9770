"""`core_version` of dagstack: the versions of the host's core that a plugin works with.

    range       := alternative ( "||" alternative )*
    alternative := comparator ( ("," | " ") comparator )*        all must hold
    comparator  := ("==" | "=" | "!=" | ">=" | "<=" | ">" | "<" | "~=") version      as in PEP 440
                 | ("^" | "~") x[.y[.z]]
                 | x.* | x.y.*

`^0.2` is `>=0.2,<0.3`, `^1.2` is `>=1.2,<2`, `~1.2` is `>=1.2,<1.3`. A version without an operator is not
accepted: some readers take it for exactly that version, others for a series.

A core that is itself a prerelease counts as the release that it will become, so `0.3.0-rc.1` is outside of
`<0.3.0`; only where an alternative names a prerelease is it compared as it is.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.names import MAX_RANGE, MAX_VERSION, quoted

_COMPARATOR: Final = re.compile(r"\s*(\^|~=|~|===?|!=|>=|<=|=|>|<)?\s*([0-9A-Za-z.!*+_-]+)")
_SEPARATOR: Final = re.compile(r"\s*,\s*(?=\S)|\s+|\Z")
_WILDCARD: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))?\.\*")
_PARTIAL: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){0,2}(?:-?[A-Za-z][0-9A-Za-z.-]*)?")
_SUFFIX: Final = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)[-+][0-9A-Za-z.+-]+")
_HINT: Final = "write for example `^0.2`, `>=0.2.0,<0.3.0` or `0.2.*`"


@dataclass(frozen=True, slots=True)
class CoreRange:
    """A set of core versions.

    Raises:
        InvalidInput: `manifest_invalid`: the text is not a range.

    >>> CoreRange("^0.2").contains("0.2.9"), CoreRange("^0.2").contains("0.3.0")
    (True, False)
    """

    text: str

    def __post_init__(self) -> None:
        _parsed(self.text)

    def contains(self, version: str) -> bool:
        """Whether a core of this version may load the plugin.

        Raises:
            InvalidInput: `version_invalid`: the host's version is none.
        """
        core = _core(version)
        release = Version(core.base_version)
        return any(
            specifiers.contains(core if names_prerelease else release, prereleases=True)
            for specifiers, names_prerelease in _parsed(self.text)
        )

    def __str__(self) -> str:
        return self.text


def _core(text: str) -> Version:
    """Return the version of a core; one whose suffix only SemVer knows counts as its release."""
    found = _SUFFIX.fullmatch(text[:MAX_VERSION])
    for spelling in (text, found[1] if found else "") if len(text) <= MAX_VERSION else ():
        try:
            return Version(spelling)
        except InvalidVersion:
            continue
    raise InvalidInput(
        "version_invalid", f"{quoted(text)} is not a core version", hint="write for example `0.2.0`"
    )


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[tuple[SpecifierSet, bool], ...]:
    """Return what each alternative demands, and whether it names a prerelease."""
    if len(text) > MAX_RANGE:
        raise InvalidInput(
            "manifest_invalid", f"a version range is at most {MAX_RANGE} characters", hint=_HINT
        )
    return tuple(_alternative(part.strip(), text) for part in text.split("||"))


def _alternative(part: str, whole: str) -> tuple[SpecifierSet, bool]:
    specifiers: list[str] = []
    position = 0
    while position < len(part) or not specifiers:
        found = _COMPARATOR.match(part, position)
        separator = _SEPARATOR.match(part, found.end()) if found else None
        if not found or not separator:
            raise _invalid(whole)
        specifiers += _specifiers(found[1] or "", found[2], whole)
        position = separator.end()
    try:
        parsed = SpecifierSet(",".join(specifiers))
    except InvalidSpecifier:
        raise _invalid(whole) from None
    return parsed, any(bool(specifier.prereleases) for specifier in parsed)


def _specifiers(op: str, operand: str, whole: str) -> list[str]:
    """Return one comparator as specifiers of PEP 440."""
    match op:
        case "":
            if not _WILDCARD.fullmatch(operand):
                raise _invalid(whole, operand)
            return [f"=={operand}"]
        case "=":
            return [f"=={operand}"]
        case "^" | "~":
            if not _PARTIAL.fullmatch(operand):
                raise _invalid(whole)
            return [f">={operand}", f"<{_next(op, operand, whole)}"]
        case "===":
            raise _invalid(whole)
        case _:
            return [op + operand]


def _next(op: str, operand: str, whole: str) -> str:
    """Return the first release that `^` or `~` no longer admits."""
    try:
        release = Version(operand).release
    except InvalidVersion:
        raise _invalid(whole) from None
    if op == "~":
        kept = 0 if len(release) == 1 else 1
    else:
        kept = next((place for place, number in enumerate(release) if number), len(release) - 1)
    return ".".join(map(str, (*release[:kept], release[kept] + 1)))


def _invalid(text: str, bare: str = "") -> InvalidInput:
    message = f"{quoted(text)} is not a range of core versions"
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)*", bare):
        return InvalidInput(
            "manifest_invalid", f"{message}: there is no operator", hint=f"write `=={bare}` or `^{bare}`"
        )
    return InvalidInput("manifest_invalid", message, hint=_HINT)
