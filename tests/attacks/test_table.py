"""The table of attacks names tests that are there."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests import attacks

TESTS = Path(__file__).parents[1]


def test_every_attack_of_the_table_has_its_tests() -> None:
    lines = [line for line in (attacks.__doc__ or "").splitlines() if line.startswith("| ")]
    rows = [line.split("|")[1:3] for line in lines[1:]]
    assert len(rows) > 30
    texts: defaultdict[str, str] = defaultdict(str)
    for path in TESTS.rglob("test_*.py"):
        texts[path.stem] += path.read_text("utf-8")
    for attack, places in rows:
        for place in places.split(";"):
            module, _, names = place.partition(":")
            for name in re.findall(r"test_\w+", names):
                assert f"def {name}(" in texts[module.strip()], f"{attack.strip()}: {module.strip()}.{name}"
