"""`core_version`: the grammar, what each form admits, and its laws."""

from __future__ import annotations

import contextlib
import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg_schemas import core_version
from plugreg_schemas.core_version import CoreRange
from plugreg_schemas.errors import InvalidInput

Release = tuple[int, int, int]
numbers = st.integers(0, 12)
releases = st.tuples(numbers, numbers, numbers)


def dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        pytest.param("^99.0.0", ["99.1.0"], ["0.2.0", "100.0.0"], id="A15"),
        pytest.param("^0.2", ["0.2.0", "0.2.9"], ["0.1.9", "0.3.0"], id="A17"),
        (">=0.2.0,<0.3.0", ["0.2.0", "0.2.99"], ["0.3.0"]),
        (">=0.3.0 <1.0.0", ["0.3.0"], ["1.0.0", "0.2.9"]),
        (" >= 0.3.0 ,  < 1.0.0 ", ["0.3.0"], ["1.0.0"]),
        ("^1.2", ["1.2.0", "1.99"], ["1.1.9", "2.0.0"]),
        ("^1", ["1.0.0"], ["2.0.0"]),
        ("^0", ["0.9.0"], ["1.0.0"]),
        ("^0.0", ["0.0.9"], ["0.1.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]),
        ("~1", ["1.9.0"], ["2.0.0"]),
        ("~1.2", ["1.2.9"], ["1.3.0"]),
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
        ("~=1.2", ["1.9.0"], ["2.0.0", "1.1"]),
        ("1.2.*", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("1.*", ["1.9"], ["2.0"]),
        ("==1.2.*", ["1.2.3"], ["1.3"]),
        ("!=1.2.*", ["1.3"], ["1.2.3"]),
        ("=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("==1.2.3", ["1.2.3"], ["1.2.2"]),
        ("^1 || ^3", ["1.5", "3.0.0"], ["2.0.0", "4.0.0"]),
        (">=1 <2 || >=3, <4", ["1.5", "3.5"], ["2.5"]),
    ],
)
def test_what_a_range_admits(text: str, inside: list[str], outside: list[str]) -> None:
    wanted = CoreRange(text)
    assert [version for version in inside if not wanted.contains(version)] == []
    assert [version for version in outside if wanted.contains(version)] == []


@pytest.mark.parametrize(
    ("text", "core", "holds"),
    [
        (">=0.2.0", "0.2.0-rc.1", True),
        ("<0.3.0", "0.3.0-rc.1", False),
        ("^0.2", "0.2.0rc1", True),
        ("^0.2", "0.3.0-next.1", False),
        ("^0.2", "0.2.5-next.1", True),
        (">=0.2.0-rc.2", "0.2.0-rc.1", False),
        (">=0.2.0-rc.2", "0.2.0-rc.3", True),
        ("==0.2.0-rc.1", "0.2.0-rc.1", True),
        ("==0.2.0", "0.2.0+build.5", True),
    ],
)
def test_a_prerelease_core_counts_as_its_release_unless_the_range_names_one(
    text: str, core: str, holds: bool
) -> None:
    assert CoreRange(text).contains(core) is holds


@pytest.mark.parametrize(
    "text",
    [
        *(
            "not-a-range",
            "0.1",
            "1",
            "1.2.3",
            "",
            "  ",
            "*",
            ">=",
            "^",
            "||",
            "^1 ||",
            "|| ^1",
            ",>=1",
            ">=1,",
            ">=1,,<2",
        ),
        *(
            "~=1",
            "===1.0",
            ">=1.2.*",
            "^1.x",
            "^1.*",
            "1.*.2",
            "= =1",
            "^^1",
            "^1.2.3.4",
            ">=1 and <2",
            ">=1;<2",
        ),
        *(
            "^\uff11",
            "\uff11.*",
            ">=1\n^x",
            "^" + "9" * 300,
            "^" + "9" * 100 + ".x",
            " " * 300 + "^1",
            "\0",
            "^1 | ^2",
        ),
    ],
)
def test_a16_what_is_no_range(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CoreRange(text)
    assert refused.value.code == "manifest_invalid"
    assert refused.value.hint


def test_a16_a_bare_version_is_told_what_to_write() -> None:
    with pytest.raises(InvalidInput) as refused:
        CoreRange("0.1")
    assert refused.value.hint == "write `==0.1` or `^0.1`"


@pytest.mark.parametrize("version", ["", "x", "^1", "1.x", "9" * 5000, "1.0.0-", "\uff11.0"])
def test_a_host_that_states_no_version_is_told_so(version: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CoreRange("^1").contains(version)
    assert refused.value.code == "version_invalid"


@given(releases, releases)
def test_a_caret_is_the_range_up_to_the_next_breaking_release(base: Release, core: Release) -> None:
    major, minor, patch = base
    bound = (major + 1, 0, 0) if major else (0, minor + 1, 0) if minor else (0, 0, patch + 1)
    assert CoreRange(f"^{dotted(base)}").contains(dotted(core)) is (base <= core < bound)


@given(releases, releases)
def test_a_tilde_is_the_range_up_to_the_next_minor_release(base: Release, core: Release) -> None:
    assert CoreRange(f"~{dotted(base)}").contains(dotted(core)) is (base <= core < (base[0], base[1] + 1, 0))


@given(releases, releases)
def test_every_version_is_on_one_side_of_a_bound(bound: Release, core: Release) -> None:
    below, above = CoreRange(f"<{dotted(bound)}"), CoreRange(f">={dotted(bound)}")
    assert below.contains(dotted(core)) is not above.contains(dotted(core))
    assert below.contains(dotted(core)) is (core < bound)


@given(releases, releases, releases, st.sampled_from([",", " ", " , "]))
def test_comma_and_space_are_and_bars_are_or(low: Release, high: Release, core: Release, sep: str) -> None:
    parts = [f">={dotted(low)}", f"<{dotted(high)}"]
    each = [CoreRange(part).contains(dotted(core)) for part in parts]
    assert CoreRange(sep.join(parts)).contains(dotted(core)) is all(each)
    assert CoreRange(" || ".join(parts)).contains(dotted(core)) is any(each)


@given(st.text(max_size=300) | st.text(alphabet="^~=!<>|,. *0123456789abrcx-+", max_size=40), releases)
def test_any_text_is_a_range_or_refused(text: str, core: Release) -> None:
    with contextlib.suppress(InvalidInput):
        assert CoreRange(text).contains(dotted(core)) in {True, False}


@pytest.mark.parametrize(
    "text", [">=1," * 60 + "x", "1" * 255 + "x", "^1 " * 80 + "!", "||" * 120, "1." * 127 + "*"]
)
def test_no_text_keeps_the_reader_busy(text: str) -> None:
    started = time.monotonic()
    with pytest.raises(InvalidInput):
        CoreRange(text)
    assert time.monotonic() - started < 10


def test_examples() -> None:
    assert doctest.testmod(core_version).failed == 0
