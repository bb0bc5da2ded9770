"""The list for hosts: its order, and pages that stay what they are when one plugin is added."""

from __future__ import annotations

import pytest

from plugreg_schemas.listing import MAX_LINE, PAGE_ROWS, Listed, in_pages, one_line


def rows(*names: str, deprecated: bool = False) -> list[Listed]:
    return [
        Listed(name=name, latest="1.0.0", status="deprecated" if deprecated else "active") for name in names
    ]


def test_deprecated_plugins_come_last_and_each_kind_is_ordered_by_name() -> None:
    found = list(in_pages([*rows("zeta", "alpha"), *rows("beta", "aleph", deprecated=True)]))
    assert [[row.name for row in page] for page in found] == [["alpha", "zeta"], ["aleph", "beta"]]


def test_an_empty_list_has_no_page() -> None:
    assert list(in_pages([])) == []


def test_a_page_has_at_most_so_many_rows_and_none_is_lost() -> None:
    names = [f"plugin{number:05}" for number in range(5000)]
    pages = list(in_pages(rows(*names)))
    assert [row.name for page in pages for row in page] == names
    assert max(map(len, pages)) <= PAGE_ROWS
    assert len(pages) < 40


@pytest.mark.parametrize("name", ["plugin00000a", "plugin02500a", "plugin04999a"])
def test_one_plugin_more_changes_one_page_or_two(name: str) -> None:
    names = [f"plugin{number:05}" for number in range(5000)]
    before = set(in_pages(rows(*names)))
    after = set(in_pages(rows(*names, name)))
    assert 1 <= len(after - before) <= 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n\n  First.  \nSecond.", "First."),
        ("tab\there \x1b[31mred", "tab here [31mred"),
        ("x" * 500, "x" * (MAX_LINE - 3) + "..."),
    ],
)
def test_a_description_is_one_printable_line(text: str, line: str) -> None:
    assert one_line(text) == line
