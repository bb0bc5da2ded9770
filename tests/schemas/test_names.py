"""Names, versions and ranges: right values, the laws of ranges, the precedence of SemVer."""

from __future__ import annotations

import contextlib
import doctest
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg_schemas import names
from plugreg_schemas import versions as versions_module
from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.names import (
    WINDOWS_DEVICES,
    Digest,
    PluginName,
    Ref,
    Version,
    VersionRange,
    nearest_version,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def code_of(make: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as caught:
        make()
    return caught.value.code


@pytest.mark.parametrize("module", [names, versions_module])
def test_the_examples_in_the_docstrings_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 1
    assert failed == 0


@pytest.mark.parametrize(
    "name",
    ["a", "lint3r", "my-plugin", "acme.tools", "acme_tools", "a.-b", "0", "a" * 64, "console", "com10"],
)
def test_names_that_are_given_out(name: str) -> None:
    assert PluginName(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "My-Plugin",
        "-a",
        "a-",
        "a--b",
        "a..b",
        "a__b",
        "a" * 65,
        "a/b",
        "a%2fb",
        "\uff41",
        "demo\n",
        "",
        ".",
        "..",
        ".a",
        "a.",
        " a",
        "a b",
        "a\x00",
        "caf\u00e9",
        "\u0430",
        "a\\b",
        "a@b",
        "\ud800",
    ],
)
def test_names_the_schema_forbids_do_not_get_in_i4(name: str) -> None:
    """Field report I4: the whole text is matched, a trailing newline included."""
    assert code_of(lambda: PluginName(name)) == "name_invalid"


@pytest.mark.parametrize(
    "name", ["con", "aux", "nul", "com1", "lpt9", "con.tools", "latest", "all", "plugreg"]
)
def test_names_that_mean_something_else_are_reserved(name: str) -> None:
    assert code_of(lambda: PluginName(name)) == "name_reserved"


def test_every_windows_device_is_refused_as_a_name() -> None:
    for device in WINDOWS_DEVICES:
        assert code_of(lambda device=device: PluginName(device)) in {"name_invalid", "name_reserved"}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("My Plugin", "`my-plugin`"), ("a--b", "`a-b`"), ("Caf\u00e9", "`cafe`"), ("-a-", "`a`")],
)
def test_a_refused_name_comes_with_the_nearest_good_one(wrong: str, near: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PluginName(wrong)
    assert near in caught.value.hint


@given(st.text(max_size=70))
def test_any_text_is_a_good_name_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        name = PluginName(text)
        assert 1 <= len(name) <= 64
        assert name[0].isalnum()
        assert name[-1].isalnum()
        assert name.isascii()
        assert name == name.lower()
        assert not {"..", "--", "__"} & {name[i : i + 2] for i in range(len(name))}


def test_look_alikes_fold_to_one_x9() -> None:
    assert (
        PluginName("acme.tools").folded == PluginName("acme-tools").folded == PluginName("acme_tools").folded
    )


@pytest.mark.parametrize(
    "text", ["", "sha256:", "sha256:" + "0" * 63, "sha256:" + "A" * 64, "md5:" + "0" * 32]
)
def test_digests_that_are_not(text: str) -> None:
    assert code_of(lambda: Digest(text)) == "digest_invalid"


def test_a_digest_of_bytes() -> None:
    digest = Digest.of(b"abc")
    assert digest == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert Digest.from_hex(digest.hex) == digest


# The chain of examples in clause 11 of SemVer 2.0.0.
CHAIN = [
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "2.0.0",
    "2.1.0",
    "2.1.1",
    "2.10.0",
]


def test_precedence_is_that_of_semver() -> None:
    for low, lower in enumerate(CHAIN):
        for high, higher in enumerate(CHAIN):
            assert (Version(lower) < Version(higher)) is (low < high)
            assert (Version(lower) <= Version(higher)) is (low <= high)
            assert (Version(lower) > Version(higher)) is (low > high)
            assert (Version(lower) >= Version(higher)) is (low >= high)


def test_build_metadata_has_no_precedence_and_is_kept() -> None:
    one, two = Version("1.0.0+a"), Version("1.0.0+b")
    assert not one < two
    assert not one > two
    assert one != two
    assert one.without_build == two.without_build == "1.0.0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-01",
        "1.0.0-",
        "1.0.0+",
        "1.0.0-a..b",
        "1.0.0\n",
        " 1.0.0",
        "1.0.0.0",
        "1\u0663.0.0",
        "latest",
        "unknown",
        "-1.0.0",
        "1.0.0-\u00e9",
        "1.0.0-" + "a" * 64,
    ],
)
def test_versions_that_are_not(text: str) -> None:
    assert code_of(lambda: Version(text)) == "version_invalid"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("v1.0", "1.0.0"),
        ("1", "1.0.0"),
        ("01.02.03", "1.2.3"),
        ("V2.1.0-rc.1", "2.1.0-rc.1"),
        ("1.0-beta", "1.0.0-beta"),
        ("1.0.0-01", "1.0.0"),
        ("1.2.3\n", "1.2.3"),
        ("latest", None),
        ("1.2.3.4", None),
        ("", None),
    ],
)
def test_the_nearest_version(text: str, near: str | None) -> None:
    assert nearest_version(text) == near


MATCHES = [
    ("", "1.0.0", True),
    ("*", "0.0.1", True),
    ("1.2.3", "1.2.3", True),
    ("1.2.3", "1.2.3+b", True),
    ("1.2.3+b", "1.2.3+c", False),
    ("1.2.3", "1.2.4", False),
    ("=1.2.3", "1.2.3", True),
    ("==1.2", "1.2.9", True),
    ("!=1.2.3", "1.2.3", False),
    ("!=1.2.3", "1.2.4", True),
    ("^1.2.3", "1.9.0", True),
    ("^1.2.3", "1.2.2", False),
    ("^1.2.3", "2.0.0", False),
    ("^0.2.3", "0.2.9", True),
    ("^0.2.3", "0.3.0", False),
    ("^0.0.3", "0.0.3", True),
    ("^0.0.3", "0.0.4", False),
    ("^0", "0.9.9", True),
    ("^0.0", "0.0.9", True),
    ("^0.0", "0.1.0", False),
    ("~1.2.3", "1.2.9", True),
    ("~1.2.3", "1.3.0", False),
    ("~1.2", "1.2.0", True),
    ("~1", "1.9.0", True),
    ("~1", "2.0.0", False),
    (">=1.0 <2.0", "1.9.9", True),
    (">=1.0,<2.0", "2.0.0", False),
    (">= 1.0 , < 2.0", "1.5.0", True),
    (">1.2", "1.2.9", False),
    (">1.2", "1.3.0", True),
    ("<=1.2", "1.2.9", True),
    ("<=1.2", "1.3.0", False),
    ("1.*", "1.9.0", True),
    ("1.2.*", "1.3.0", False),
    ("^1 || ^3", "3.1.0", True),
    ("^1 || ^3", "2.1.0", False),
]


@pytest.mark.parametrize(("wanted", "version", "expected"), MATCHES)
def test_what_a_range_matches(wanted: str, version: str, expected: bool) -> None:
    assert VersionRange(wanted).matches(Version(version)) is expected


@pytest.mark.parametrize(
    ("wanted", "version", "plain", "asked"),
    [
        ("^1.0", "1.1.0-rc.1", False, True),
        ("^1.0", "2.0.0-rc.1", False, False),
        ("<2.0", "2.0.0-rc.1", False, False),
        ("*", "1.0.0-rc.1", False, True),
        ("1.0.0-rc.1", "1.0.0-rc.1", True, True),
        (">=1.0.0-rc.1", "1.0.0-rc.2", True, True),
        (">=1.0.0-rc.1", "1.0.1-rc.2", False, True),
        ("^1.0.0-rc.1", "1.0.0", True, True),
    ],
)
def test_prereleases_match_only_where_they_are_named_or_asked_for_a11(
    wanted: str, version: str, plain: bool, asked: bool
) -> None:
    """Field report A11: a prerelease is never picked as the latest."""
    assert VersionRange(wanted).matches(Version(version)) is plain
    assert VersionRange(wanted).matches(Version(version), prereleases=True) is asked


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1.2",
        "v1.2.3",
        "latest",
        "^",
        "^*",
        ">=",
        "1.*.*",
        "*.1",
        "^1.2.*",
        "!=1.2",
        "!=1.*",
        "||",
        "^1 ||",
        "|| ^1",
        "^1,,^2",
        ",^1",
        "^1,",
        ">=1.0<2.0",
        "1.0.0 - 2.0.0",
        "^01",
        "=>1.0",
        "^1.2.3.4",
        "^" + "9" * 63,
        "^" + "9" * 60 + ".0.0",
        "x" * 300,
        "\u0663.*",
        "^1;rm",
    ],
)
def test_ranges_that_are_not(text: str) -> None:
    assert code_of(lambda: VersionRange(text)) == "range_invalid"


def test_the_best_of_a_range_is_the_highest_release() -> None:
    versions = [Version(text) for text in ("1.4.0", "2.0.0-beta.1", "1.10.0", "1.9.0")]
    assert VersionRange("*").best(versions) == Version("1.10.0")
    assert VersionRange("*").best(versions, prereleases=True) == Version("2.0.0-beta.1")
    assert VersionRange("^3").best(versions) is None


def test_an_exact_range_knows_its_version() -> None:
    assert VersionRange("1.2.3").exact == Version("1.2.3")
    assert VersionRange("^1.2.3").exact is None
    assert VersionRange("1.2.3 || 1.2.4").exact is None


def test_references() -> None:
    assert Ref.parse("lint3r") == Ref(PluginName("lint3r"), VersionRange(""))
    assert str(Ref.parse("lint3r@^1.2")) == "lint3r@^1.2"
    assert code_of(lambda: Ref.parse("Lint3r@1.0.0")) == "name_invalid"
    assert code_of(lambda: Ref.parse("lint3r@1")) == "range_invalid"
    assert code_of(lambda: Ref.parse("@1.0.0")) == "name_invalid"


numbers = st.integers(min_value=0, max_value=30)
prereleases = st.sampled_from(["", "-0", "-alpha", "-alpha.1", "-rc.1", "-rc.2"])
versions = st.builds(lambda a, b, c, p: Version(f"{a}.{b}.{c}{p}"), numbers, numbers, numbers, prereleases)
releases = st.builds(lambda a, b, c: Version(f"{a}.{b}.{c}"), numbers, numbers, numbers)
comparators = st.one_of(
    st.builds(
        lambda op, v: f"{op}{v}", st.sampled_from(["^", "~", "=", "!=", ">=", "<=", ">", "<", ""]), versions
    ),
    st.builds(
        lambda op, a, b: f"{op}{a}.{b}",
        st.sampled_from(["^", "~", "=", ">=", "<=", ">", "<"]),
        numbers,
        numbers,
    ),
    st.builds(lambda a: f"{a}.*", numbers),
)
ranges = st.lists(comparators, min_size=1, max_size=3)


@given(ranges, versions, st.booleans())
def test_law_alternatives_are_a_union(parts: list[str], version: Version, pre: bool) -> None:
    whole = VersionRange(" || ".join(parts)).matches(version, prereleases=pre)
    assert whole is any(VersionRange(part).matches(version, prereleases=pre) for part in parts)


@given(ranges, versions)
def test_law_comparators_are_an_intersection(parts: list[str], version: Version) -> None:
    whole = VersionRange(" ".join(parts)).matches(version, prereleases=True)
    assert whole is all(VersionRange(part).matches(version, prereleases=True) for part in parts)
    assert VersionRange(",".join(parts)).matches(version, prereleases=True) is whole


@given(ranges, versions)
def test_law_asking_for_prereleases_only_adds(parts: list[str], version: Version) -> None:
    wanted = VersionRange(" || ".join(parts))
    assert wanted.matches(version, prereleases=True) or not wanted.matches(version)


@given(versions)
def test_law_caret_and_tilde_hold_their_own_version_and_tilde_is_the_narrower(version: Version) -> None:
    assert VersionRange(f"^{version}").matches(version)
    assert VersionRange(f"~{version}").matches(version)


@given(releases, releases)
def test_law_tilde_is_within_caret_from_one_on(bound: Version, version: Version) -> None:
    if bound.core[0] and VersionRange(f"~{bound}").matches(version):
        assert VersionRange(f"^{bound}").matches(version)


@given(versions, versions)
def test_law_bounds_are_complements(bound: Version, version: Version) -> None:
    for one, other in ((">=", "<"), (">", "<="), ("=", "!=")):
        matched = {op: VersionRange(f"{op}{bound}").matches(version, prereleases=True) for op in (one, other)}
        assert matched[one] is not matched[other]


@given(st.lists(versions, max_size=8), ranges)
def test_law_the_best_is_in_the_range_and_none_in_it_is_better(
    found: list[Version], parts: list[str]
) -> None:
    wanted = VersionRange(" || ".join(parts))
    best = wanted.best(found)
    matching = [version for version in found if wanted.matches(version)]
    assert (best is None) is (not matching)
    assert best is None or (best in matching and not any(version > best for version in matching))


@given(versions, versions, versions)
def test_law_precedence_is_transitive(one: Version, two: Version, three: Version) -> None:
    low, middle, high = sorted((one, two, three))
    assert low <= middle <= high
    assert low <= high


@given(st.text(alphabet="0123456789.*^~<>=!|, -+abrcv", max_size=20))
def test_any_text_is_a_range_or_refused_as_one(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        VersionRange(text).matches(Version("1.2.3"))


@given(st.text())
def test_quoted_text_is_short_and_printable(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert shown.encode()
    assert len(shown) < 1000
