"""Plugin versions and version ranges.

A `Version` keeps its spelling and orders by SemVer 2.0.0 precedence; a `VersionRange` is the one range
grammar of plugreg:

    range       := alternative ( "||" alternative )*
    alternative := comparator ( ("," | " ") comparator )*        all must hold
    comparator  := "^" partial | "~" partial | op partial | wildcard
    op          := "=" | "==" | "!=" | ">=" | "<=" | ">" | "<"
    wildcard    := "*" | "1.*" | "1.2.*"
    partial     := "1" | "1.2" | a full version

A version without an operator is exact. A prerelease matches only where a comparator names a prerelease of the
same major.minor.patch, or where the caller asks for prereleases.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import semver

from plugreg_schemas.errors import InvalidInput, quoted

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

MAX_VERSION: Final = 64
MAX_RANGE: Final = 256


@dataclass(frozen=True, slots=True)
class Version:
    """A SemVer 2.0.0 version, exactly as written; `<` and `>` compare by precedence (clause 11).

    Raises:
        InvalidInput: `version_invalid`, with the nearest valid spelling as hint.

    >>> Version("1.10.0") > Version("1.9.0")
    True
    """

    text: str

    def __post_init__(self) -> None:
        if len(self.text) > MAX_VERSION or not semver.Version.is_valid(self.text):
            nearest = nearest_version(self.text)
            hint = f"write `{nearest}`" if nearest else "write MAJOR.MINOR.PATCH, for example `1.0.0`"
            raise InvalidInput(
                "version_invalid", f"{quoted(self.text)} is not a SemVer 2.0.0 version", hint=hint
            )

    @property
    def parsed(self) -> semver.Version:
        """The parts of the version."""
        return _parsed(self.text)

    @property
    def core(self) -> tuple[int, int, int]:
        """Major, minor and patch."""
        parsed = self.parsed
        return (parsed.major, parsed.minor, parsed.patch)

    @property
    def is_prerelease(self) -> bool:
        """Whether the version has a prerelease part."""
        return self.parsed.prerelease is not None

    @property
    def without_build(self) -> str:
        """The version without build metadata: two versions that agree here may not both exist."""
        return self.text.split("+", 1)[0]

    def __lt__(self, other: Version) -> bool:
        return self.parsed.compare(other.parsed) < 0

    def __gt__(self, other: Version) -> bool:
        return self.parsed.compare(other.parsed) > 0

    def __le__(self, other: Version) -> bool:
        return self.parsed.compare(other.parsed) <= 0

    def __ge__(self, other: Version) -> bool:
        return self.parsed.compare(other.parsed) >= 0

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> semver.Version:
    """Parse a version once: choosing among thousands compares each many times."""
    return semver.Version.parse(text)


@dataclass(frozen=True, slots=True)
class _Comparator:
    """One bound, or the one exact version or precedence class `=`."""

    op: str
    version: Version

    def holds(self, version: Version) -> bool:
        if self.op == "exact":
            return version.text == self.version.text or (
                "+" not in self.version.text and version.without_build == self.version.text
            )
        compared = version.parsed.compare(self.version.parsed)
        return {
            "=": compared == 0,
            "!=": compared != 0,
            ">=": compared >= 0,
            "<=": compared <= 0,
            ">": compared > 0,
            "<": compared < 0,
        }[self.op]


_PARTIAL = re.compile(r"(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?(?:\.(0|[1-9]\d*))?")

_COMPARATOR = re.compile(r"\s*(\^|~|==|!=|>=|<=|=|>|<)?\s*([0-9A-Za-z.*+-]+)")


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A set of versions, as in `NAME@RANGE`. The empty text and `*` mean every release.

    Raises:
        InvalidInput: `range_invalid`.

    >>> VersionRange("^1.2").matches(Version("1.9.0"))
    True
    >>> VersionRange("^1.2").matches(Version("2.0.0"))
    False
    """

    text: str

    def __post_init__(self) -> None:
        self._alternatives()

    def _alternatives(self) -> tuple[tuple[_Comparator, ...], ...]:
        return _parse_range(self.text)

    @property
    def exact(self) -> Version | None:
        """The version, where the range is one exact version."""
        alternatives = self._alternatives()
        if len(alternatives) == 1 and len(alternatives[0]) == 1 and alternatives[0][0].op == "exact":
            return alternatives[0][0].version
        return None

    def matches(self, version: Version, *, prereleases: bool = False) -> bool:
        """Whether `version` is in the range; prereleases as the module head says."""
        return any(
            all(c.holds(version) for c in alternative)
            and (not version.is_prerelease or prereleases or _names_prerelease_of(version, alternative))
            for alternative in self._alternatives()
        )

    def best(self, versions: Iterable[Version], *, prereleases: bool = False) -> Version | None:
        """Return the version with the highest precedence in the range, or None."""
        best: Version | None = None
        for version in versions:
            if self.matches(version, prereleases=prereleases) and (best is None or version > best):
                best = version
        return best

    def choose(
        self, versions: Iterable[str], withdrawn: Container[str], *, prereleases: bool = False
    ) -> Version | None:
        """Return the version that a request for this range gets, or None: the best that is not withdrawn.

        A withdrawn version is chosen only where the range is that one version.
        """
        offered = (Version(text) for text in versions if self.exact or text not in withdrawn)
        return self.best(offered, prereleases=prereleases)

    def __str__(self) -> str:
        return self.text or "*"


def nearest_version(text: str) -> str | None:
    """Return the SemVer spelling that was probably meant, or None.

    >>> nearest_version("v1.0")
    '1.0.0'
    """
    found = re.fullmatch(
        r"[vV=\s]*(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?([-+].*)?\s*", text[: MAX_VERSION * 2]
    )
    if not found:
        return None
    core = ".".join(str(int(part or 0)) for part in found.group(1, 2, 3))
    candidate = core + (found[4] or "")
    for spelling in (candidate, core):
        if len(spelling) <= MAX_VERSION and semver.Version.is_valid(spelling):
            return spelling
    return None


def _names_prerelease_of(version: Version, alternative: tuple[_Comparator, ...]) -> bool:
    return any(c.version.is_prerelease and c.version.core == version.core for c in alternative)


@functools.lru_cache(maxsize=256)
def _parse_range(text: str) -> tuple[tuple[_Comparator, ...], ...]:
    if len(text) > MAX_RANGE:
        raise InvalidInput("range_invalid", f"a version range is at most {MAX_RANGE} characters")
    if not text.strip():
        return ((),)
    try:
        return tuple(_parse_alternative(part, text) for part in text.split("||"))
    except InvalidInput as error:
        if error.code == "range_invalid":
            raise
        raise _bad_range(text) from None  # a bound that is longer than a version may be


def _parse_alternative(part: str, whole: str) -> tuple[_Comparator, ...]:
    comparators: list[_Comparator] = []
    position = 0
    part = part.strip()
    if not part:
        raise _bad_range(whole)
    while position < len(part):
        found = _COMPARATOR.match(part, position)
        if not found:
            raise _bad_range(whole)
        comparators += _comparators(found[1] or "", found[2], whole)
        separator = re.compile(r"\s*,\s*|\s+|$").match(part, found.end())
        if not separator or (separator.end() == len(part) and separator[0].strip() == ","):
            raise _bad_range(whole)
        position = separator.end()
    return tuple(comparators)


def _comparators(op: str, operand: str, whole: str) -> list[_Comparator]:
    if operand == "*" and not op:
        return []
    if operand.endswith(".*"):
        if op not in {"", "=", "=="}:
            raise _bad_range(whole)
        major, minor, patch = _partial(operand[:-2], whole)
        if major is None or patch is not None:
            raise _bad_range(whole)
        return _between(
            (major, minor or 0, 0), (major, minor + 1, 0) if minor is not None else (major + 1, 0, 0)
        )
    if semver.Version.is_valid(operand) and len(operand) <= MAX_VERSION:
        return _full(op, Version(operand))
    if not op:
        nearest = nearest_version(operand)
        hint = (
            f"write `{nearest}` for exactly that version or `{operand}.*` for all below it" if nearest else ""
        )
        raise InvalidInput("range_invalid", f"{quoted(whole)} is not a version range", hint=hint)
    return _part(op, _partial(operand, whole), whole)


def _full(op: str, version: Version) -> list[_Comparator]:
    major, minor, patch = version.core
    match op:
        case "":
            return [_Comparator("exact", version)]
        case "==" | "=":
            return [_Comparator("=", version)]
        case "^":
            upper = (major + 1, 0, 0) if major else (0, minor + 1, 0) if minor else (0, 0, patch + 1)
            return [_Comparator(">=", version), _below(upper)]
        case "~":
            return [_Comparator(">=", version), _below((major, minor + 1, 0))]
        case _:
            return [_Comparator(op, version)]


def _part(op: str, partial: tuple[int | None, int | None, int | None], whole: str) -> list[_Comparator]:
    major, minor, _ = partial
    if major is None:
        raise _bad_range(whole)
    lower = (major, minor or 0, 0)
    upper = (major, minor + 1, 0) if minor is not None else (major + 1, 0, 0)
    match op:
        case "^":
            return _between(lower, upper if major == 0 and minor is not None else (major + 1, 0, 0))
        case "~" | "=" | "==":
            return _between(lower, upper)
        case ">=":
            return [_Comparator(">=", _version(lower))]
        case "<":
            return [_below(lower)]
        case ">":
            return [_Comparator(">=", _version(upper))]
        case "<=":
            return [_below(upper)]
        case _:
            raise _bad_range(whole)


def _partial(text: str, whole: str) -> tuple[int | None, int | None, int | None]:
    found = _PARTIAL.fullmatch(text)
    if not found or len(text) > MAX_VERSION:
        raise _bad_range(whole)
    major, minor, patch = (int(part) if part is not None else None for part in found.groups())
    return major, minor, patch


def _between(lower: tuple[int, int, int], upper: tuple[int, int, int]) -> list[_Comparator]:
    return [_Comparator(">=", _version(lower)), _below(upper)]


def _below(bound: tuple[int, int, int]) -> _Comparator:
    """Less than `bound` and all its prereleases: `^1.2` never admits `2.0.0-rc.1`, even with prereleases."""
    return _Comparator("<", Version(".".join(map(str, bound)) + "-0"))


def _version(core: tuple[int, int, int]) -> Version:
    return Version(".".join(map(str, core)))


def _bad_range(text: str) -> InvalidInput:
    return InvalidInput(
        "range_invalid",
        f"{quoted(text)} is not a version range",
        hint="write for example `^1.2`, `>=1.0 <2.0`, `1.2.*` or `1.2.3`",
    )
