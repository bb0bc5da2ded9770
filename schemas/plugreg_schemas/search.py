"""What a plugin is found by, and which finds come first: one rule for every database and for the client.

    Subject > lexemes    f:git-hub n:git n:hub n:github t:git t:ith ... d:files runtime:mcp_stdio
    Wanted  > levels     f:git-hub > f:git-hub* > n:git* and n:hub* > ... > anywhere; the best level first
    rank                 the number of the first level that a plugin's lexemes meet

A lexeme is a class, a colon and a word. Whoever keeps lexemes compares them and nothing else: a word is found
by its beginning, and a name also by what stands inside it. Each level holds the one before.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from plugreg_schemas.errors import UsageError, quoted
from plugreg_schemas.hosts import LANGUAGES, PROFILES, RUNTIMES, normal_language

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MAX_TEXT: Final = 200
"""Characters of a search, and of a value that must be met exactly."""
MAX_WORDS: Final = 20
"""Words of a search."""
MAX_WORD: Final = 32
"""Characters by which words are compared."""
MAX_LEXEMES: Final = 600
"""Lexemes of one plugin."""
FACETS: Final = ("runtime", "language", "host", "tool", "skill")
"""What can be met exactly."""
KNOWN: Final[Mapping[str, Sequence[str]]] = {
    "runtime": RUNTIMES,
    "language": tuple(LANGUAGES),
    "host": tuple(sorted(PROFILES)),
}
"""The values of facets that have no others."""
_TRIGRAM: Final = 3
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin as it is found: what is empty says nothing, and is not found by it."""

    name: str
    description: str = ""
    components: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    """The languages of hosts that can use something of it; `hosts` likewise."""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for: words, and what must be met exactly; what is empty is not looked at."""

    text: str = ""
    runtime: str = ""
    language: str = ""
    host: str = ""
    tool: str = ""
    skill: str = ""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A lexeme that must be there; with `begins`, one that begins so."""

    text: str
    begins: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """All parts are met. Without parts it is met by everything."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part is met; there is one."""

    parts: tuple[Condition, ...]


Condition = Lexeme | Every | Either


def spelled(facet: str, value: str) -> str:
    """Return a value of a facet as it is usually spelled.

    Raises:
        UsageError: `runtime_unknown`, `language_unknown`, `host_unknown`; `search_too_long`.

    >>> spelled("language", "golang"), spelled("tool", "readFile")
    ('go', 'readFile')
    """
    if len(value) > MAX_TEXT:
        raise UsageError("search_too_long", f"`{facet}` has more than {MAX_TEXT} characters")
    if facet not in KNOWN:
        return value
    usual = normal_language(value) if facet == "language" else value.lower()
    if usual not in KNOWN[facet]:
        known = f"known are {', '.join(KNOWN[facet])}"
        raise UsageError(f"{facet}_unknown", f"{quoted(value)} is no {facet} known here", hint=known)
    return usual


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, each once: without case, accents and forms that only look different.

    Scripts that are written without spaces have a word for each character.

    >>> words("Crème-Brûlée, ﬁne"), words("文件 v2")
    (('creme', 'brulee', 'fine'), ('文', '件', 'v2'))
    """
    if text.isascii():
        found: Iterable[str] = _ASCII_WORD.findall(text.lower())
    else:
        found = _split(_plain(text))
    return tuple(dict.fromkeys(word[:MAX_WORD] for word in found))


def lexemes(subject: Subject) -> tuple[str, ...]:
    """Return what a plugin is found by, each once, at most `MAX_LEXEMES`.

    >>> lexemes(Subject("pdf", "Reads PDFs."))
    ('f:pdf', 'n:pdf', 't:pdf', 'd:reads', 'd:pdfs')
    """
    return tuple(dict.fromkeys(_lexemes(subject)))[:MAX_LEXEMES]


def levels(wanted: Wanted) -> tuple[Condition, ...]:
    """Return the conditions of which a find meets one, the best first; none where nothing can be found.

    name, beginning of the name, words in the name, words in names (or inside the name), words anywhere.

    Raises:
        UsageError: `search_too_long`.
    """
    facets = tuple(_facets(wanted))
    if not wanted.text.strip():
        return (Every(facets),)
    found = words(wanted.text)
    if len(wanted.text) > MAX_TEXT or len(found) > MAX_WORDS:
        raise UsageError(
            "search_too_long", f"a search has at most {MAX_TEXT} characters and {MAX_WORDS} words"
        )
    if not found:
        return ()
    name = "f:" + "-".join(found)
    conditions = (
        (Lexeme(name),),
        (Lexeme(name, begins=True),),
        tuple(_word(word, "n") for word in found),
        tuple(_word(word, "ntp") for word in found),
        tuple(_word(word, "ntpd") for word in found),
    )
    return tuple(Every((*condition, *facets)) for condition in conditions)


def meets(kept: Collection[str], condition: Condition) -> bool:
    """Whether a plugin with these lexemes meets a condition."""
    if isinstance(condition, Every):
        return all(meets(kept, part) for part in condition.parts)
    if isinstance(condition, Either):
        return any(meets(kept, part) for part in condition.parts)
    return condition.text in kept or (
        condition.begins and any(lexeme.startswith(condition.text) for lexeme in kept)
    )


def rank(kept: Collection[str], wanted: tuple[Condition, ...]) -> int | None:
    """Return the number of the first level that is met, or None."""
    return next((number for number, level in enumerate(wanted) if meets(kept, level)), None)


def names_between(level: Condition) -> tuple[str, str]:
    """Return two texts between which every name lies that can meet a level, the first one included.

    >>> names_between(levels(Wanted("git hub"))[1])
    ('git-hub', 'git_hub~')
    """
    name = level.parts[0] if isinstance(level, Every) and level.parts else None
    if not isinstance(name, Lexeme) or not name.text.startswith("f:"):
        return ("", "~")
    begin = name.text.removeprefix("f:")
    return (begin, begin.replace("-", "_") + "~")  # `-` is the first of `-._`, `_` the last


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", "".join(c for c in folded if unicodedata.category(c) != "Mn"))


def _split(text: str) -> Iterator[str]:
    word = ""
    for c in text:
        if _is_whole(c) or not (c.isalnum() or unicodedata.category(c) == "Mc"):
            if word:
                yield word
            word = ""
            if _is_whole(c):
                yield c
        else:
            word += c
    if word:
        yield word


def _is_whole(c: str) -> bool:
    """Whether a character is a word: ideographs and kana."""
    return unicodedata.category(c) == "Lo" and unicodedata.east_asian_width(c) in "WF"


def _lexemes(subject: Subject) -> Iterator[str]:
    name = words(subject.name)
    joined = "".join(name)
    yield "f:" + subject.name.replace(".", "-").replace("_", "-")
    yield from (f"n:{word}" for word in (*name, joined[:MAX_WORD]))
    yield from (f"t:{joined[at : at + _TRIGRAM]}" for at in range(len(joined) - _TRIGRAM + 1))
    facets = {
        "runtime": subject.runtimes,
        "language": subject.languages,
        "host": subject.hosts,
        "tool": subject.tools,
        "skill": subject.skills,
    }
    yield from (_exact(kind, value) for kind, values in facets.items() for value in values)
    for part in (*subject.tools, *subject.skills, *subject.components):
        yield from (f"p:{word}" for word in (*words(part), *words(_HUMP.sub(" ", part))))
    yield from (f"d:{word}" for word in words(subject.description))


def _facets(wanted: Wanted) -> Iterator[Lexeme]:
    for kind in FACETS:
        value = getattr(wanted, kind)
        if value:
            yield Lexeme(_exact(kind, value))


def _exact(kind: str, value: str) -> str:
    """Return the lexeme of a value that is met as a whole: no space nor sign of a query is left in it."""
    return f"{kind}:{quote(value.casefold(), safe='', errors='replace').lower()[:MAX_TEXT]}"


def _word(word: str, classes: str) -> Condition:
    """Return how a word is met by lexemes of some classes; a name has it inside if it has its trigrams."""
    parts: list[Condition] = [Lexeme(f"{kind}:{word}", begins=True) for kind in classes if kind != "t"]
    if "t" in classes and len(word) >= _TRIGRAM:
        inside = (word[at : at + _TRIGRAM] for at in range(len(word) - _TRIGRAM + 1))
        parts.append(Every(tuple(Lexeme(f"t:{trigram}") for trigram in inside)))
    return Either(tuple(parts))
