"""What plugins are found by: words are the same however they are written, and every level holds the one before."""

from __future__ import annotations

import random

import pytest

from plugreg_schemas.errors import UsageError
from plugreg_schemas.search import (
    MAX_LEXEMES,
    MAX_TEXT,
    MAX_WORDS,
    Subject,
    Wanted,
    levels,
    lexemes,
    meets,
    names_between,
    rank,
    spelled,
    words,
)

LINTER = Subject(
    "git-hub.lint3r",
    "Findet Fehler in Bäumen.",
    components=("mainServer",),
    tools=("readFile",),
    skills=("code-review",),
    runtimes=("mcp_stdio",),
    hosts=("cursor",),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("  Two\twords\n", ("two", "words")),
        ("C++ & C#", ("c",)),
        ("naïve NAI\u0308VE ＮＡＩＶＥ", ("naive",)),  # noqa: RUF001 - full width
        ("Straße STRASSE", ("strasse",)),
        ("ﬁle", ("file",)),
        ("文件 か゚", ("文", "件", "か")),
        ("한국어", ("한", "국", "어")),
        ("😀 a😀b", ("a", "b")),
        ("a_b-c.d/e", ("a", "b", "c", "d", "e")),
        ("x" * 100, ("x" * 32,)),
        ("\0\x1b[31m red", ("31m", "red")),
    ],
)
def test_words(text: str, found: tuple[str, ...]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("git-hub.lint3r", 0),
        ("Git Hub Lint3r", 0),
        ("git-hub", 1),
        ("gi", 1),
        ("lint3r git", 2),
        ("github", 2),
        ("thublin", 3),
        ("readfile", 3),
        ("file", 3),
        ("review git", 3),
        ("server", 3),
        ("baum", 4),
        ("fehler code", 4),
        ("hu", 2),
        ("ub", None),
        ("nothing", None),
        ("git nothing", None),
        ("😀", None),
    ],
)
def test_where_words_are_met_decides_the_level(text: str, level: int | None) -> None:
    assert rank(frozenset(lexemes(LINTER)), levels(Wanted(text))) == level


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        (Wanted(), True),
        (Wanted(" "), True),
        (Wanted(runtime="mcp_stdio"), True),
        (Wanted(runtime="mcp"), False),
        (Wanted(tool="readfile"), True),
        (Wanted(tool="read"), False),
        (Wanted("git", host="cursor"), True),
        (Wanted("git", host="zed"), False),
        (Wanted("nothing", host="cursor"), False),
        (Wanted(skill="code-review", tool="README"), False),
    ],
)
def test_what_must_be_met_exactly(wanted: Wanted, holds: bool) -> None:
    assert (rank(frozenset(lexemes(LINTER)), levels(wanted)) is not None) is holds


def test_every_level_holds_the_one_before_and_names_lie_where_they_are_said_to_lie() -> None:
    chance = random.Random(7)
    letters = "abc-._9"
    for _ in range(2000):
        name = "a" + "".join(chance.choices(letters, k=chance.randint(0, 8))) + "b"
        kept = frozenset(lexemes(Subject(name, "a b c")))
        wanted = levels(Wanted("".join(chance.choices(letters + " ", k=chance.randint(1, 6)))))
        met = [meets(kept, level) for level in wanted]
        assert met == sorted(met), (name, wanted)
        for level, holds in zip(wanted, met, strict=True):
            first, last = names_between(level)
            assert not holds or first <= name < last


def test_no_lexeme_has_a_sign_of_a_query_in_it() -> None:
    hostile = '\' OR "1" * NEAR(a, b) \\ % _ ; -- \0 \u2019'
    kept = lexemes(Subject("demo", hostile, (hostile,), (hostile,), (hostile,)))
    assert not set("".join(kept)) & set("'\"\\ *;\0()")


def test_a_plugin_with_very_many_words_is_still_found_by_its_name_and_skills() -> None:
    skills = tuple(f"skill-{number}" for number in range(100))
    kept = lexemes(Subject("demo", " ".join(map(str, range(5000))), skills=skills))
    assert len(kept) == MAX_LEXEMES
    assert rank(frozenset(kept), levels(Wanted("demo", skill="skill-99"))) == 0


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT + 1), " ".join(map(str, range(MAX_WORDS + 1)))])
def test_a_search_that_is_too_long(text: str) -> None:
    with pytest.raises(UsageError, match="search_too_long"):
        levels(Wanted(text))


def test_values_are_spelled_as_usual_and_unknown_ones_are_told_the_known() -> None:
    assert spelled("host", "Cursor") == "cursor"
    assert spelled("language", "C#") == "csharp"
    for facet, value in (("host", "emacs"), ("language", "cobol"), ("runtime", "mcp")):
        with pytest.raises(UsageError, match=f"{facet}_unknown") as caught:
            spelled(facet, value)
        assert "known are " in caught.value.hint
    with pytest.raises(UsageError, match="search_too_long"):
        spelled("tool", "x" * (MAX_TEXT + 1))
