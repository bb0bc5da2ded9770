"""T23, K3: this machine's clock is wrong. What was signed stays signed; whether the index is fresh, it says honestly."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.attacked import attacked
from tests.support.clocks import shifted_clock
from tests.support.commands import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.attacked import Scene

TEN_YEARS = 3653
CLOCKS = {"a day slow": -1, "ten years fast": TEN_YEARS}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with attacked(tmp_path_factory.mktemp("clock")) as found:
        found.publish("1.0.0")
        yield found


def times_in(text: str) -> list[datetime]:
    """The times that a sentence names, in the order of the sentence."""
    return [datetime.fromisoformat(time) for time in re.findall(r"\d{4}-\d\d-\d\dT[\d:]+Z", text)]


def expiry(scene: Scene, role: str) -> datetime:
    expires: datetime = scene.index.signed[role].expires
    return expires


@pytest.fixture
def user(scene: Scene, tmp_path: Path) -> User:
    """Somebody with a good clock so far, and `demo` installed."""
    made = User(tmp_path / "ann")
    made.folder.mkdir()
    made.run("install", "demo", "--registry", scene.url)
    return made


@pytest.mark.parametrize("days", CLOCKS.values(), ids=CLOCKS)
def test_verdicts_do_not_depend_on_the_clock(user: User, tmp_path: Path, days: int) -> None:
    user.environment |= shifted_clock(tmp_path, days)
    (row,) = user.run("verify")["plugins"]
    assert row["verdict"] == "verified"


def test_clock_ten_years_fast_and_the_index_has_ended(user: User, scene: Scene, tmp_path: Path) -> None:
    """It says when the index ended and what this clock says, so that a person sees which one is wrong."""
    user.environment |= shifted_clock(tmp_path, TEN_YEARS)
    problem = user.fails("update", "--registry", scene.url, code=7)
    assert problem["code"] == "index_expired"
    ended, clock = times_in(problem["detail"])
    assert ended in {expiry(scene, role) for role in ("root", "timestamp")}
    assert abs(clock - datetime.now(UTC) - timedelta(days=TEN_YEARS)) < timedelta(hours=1)


def test_clock_a_day_slow_and_the_index_is_from_the_future(user: User, scene: Scene, tmp_path: Path) -> None:
    user.environment |= shifted_clock(tmp_path, -1)
    problem = user.fails("update", "--registry", scene.url, code=7)
    assert problem["code"] == "clock_suspect"
    now = datetime.now(UTC)
    assert f"{now - timedelta(days=1):%Y-%m-%d}" in problem["detail"]
    assert (
        f"{now:%Y-%m-%d}" in problem["detail"] or f"{now + timedelta(days=7):%Y-%m-%d}" in problem["detail"]
    )


def test_clock_is_right_again(user: User, scene: Scene, tmp_path: Path) -> None:
    """A refusal leaves nothing behind that would outlast it."""
    right = dict(user.environment)
    for days in CLOCKS.values():
        user.environment = right | shifted_clock(tmp_path, days)
        user.fails("update", "--registry", scene.url, code=7)
    user.environment = right
    user.run("update", "--registry", scene.url)
