"""The collector: a flood of advice hides no fault, and advice alone fails nothing."""

from __future__ import annotations

import doctest

import pytest

from plugreg_schemas import errors
from plugreg_schemas.errors import MAX_FINDINGS, Collector, InvalidInput, Severity


def flooded() -> Collector:
    faults = Collector("input_invalid", "the input is not valid")
    for number in range(MAX_FINDINGS + 50):
        faults.add("odd", f"advice {number}", severity=Severity.WARNING)
    return faults


def test_advice_alone_fails_nothing_however_much_of_it() -> None:
    faults = flooded()
    assert not faults.failed
    faults.raise_if_any()


def test_an_error_behind_a_flood_of_advice_is_kept() -> None:
    faults = flooded()
    faults.add("wrong", "the fault", file="x.json", pointer="/a")
    with pytest.raises(InvalidInput) as caught:
        faults.raise_if_any()
    assert caught.value.code == "wrong"
    assert len(caught.value.findings) == MAX_FINDINGS
    assert caught.value.details["findings_not_shown"] == 51


def test_errors_over_the_limit_are_counted() -> None:
    faults = Collector("input_invalid", "the input is not valid")
    for _ in range(MAX_FINDINGS + 7):
        faults.add("wrong", "a fault")
    assert (len(faults.findings), faults.dropped) == (MAX_FINDINGS, 7)


def test_the_examples_in_the_docstrings_run() -> None:
    failed, tried = doctest.testmod(errors)
    assert tried
    assert failed == 0
