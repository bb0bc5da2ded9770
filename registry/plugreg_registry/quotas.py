"""How much one identity may publish here. Pure: what it has used up in, a refusal or nothing out.

    publishes   releases in one day, of all its plugins
    names       new names that it claims in one day
    size        bytes of all its bundles, ever

Zero is no quota. A day is one of UTC, by the registry's clock. Administrators have no quotas. It is asked at
the door, before a byte is taken, and in the transaction that stores, where no other release comes between.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from plugreg_schemas.errors import NotAllowed
from plugreg_schemas.fields import format_time


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one identity may use up."""

    publishes: int = 0
    names: int = 0
    size: int = 0

    @property
    def are_set(self) -> bool:
        """Whether there is one."""
        return bool(self.publishes or self.names or self.size)


@dataclass(frozen=True, slots=True)
class Usage:
    """What one identity has used up: the bytes of its releases, and its releases and new names of one day."""

    size: int = 0
    day: date = date.min
    publishes: int = 0
    names: int = 0

    def on(self, day: date) -> Usage:
        """Return it as it stands on a day: the counts of another day are over."""
        return self if day == self.day else Usage(self.size, day)

    def plus(self, size: int, day: date, *, claims: bool) -> Usage:
        """Return it after one release more, which `claims` a new name or not."""
        now = self.on(day)
        return Usage(now.size + size, day, now.publishes + 1, now.names + int(claims))


def check_quotas(quotas: Quotas, usage: Usage, size: int, now: datetime, *, claims: bool) -> None:
    """Refuse one release more, of `size` bytes, if that is over a quota; `claims`: its name is new.

    Raises:
        NotAllowed: `quota_exceeded`; `details` has the quota, its limit, what is used, and for those of a day
        when it begins anew.
    """
    today = usage.on(now.astimezone(UTC).date())
    if quotas.size and today.size + size > quotas.size:
        used = f"its bundles have {today.size} bytes, and this one has {size}"
        raise _exceeded("size", quotas.size, today.size, f"{quotas.size} bytes in all: {used}")
    tomorrow = format_time(datetime.combine(today.day + timedelta(days=1), time(), UTC))
    if quotas.publishes and today.publishes >= quotas.publishes:
        words = f"{quotas.publishes} publishes a day, until {tomorrow}"
        raise _exceeded("publishes", quotas.publishes, today.publishes, words, until=tomorrow)
    if claims and quotas.names and today.names >= quotas.names:
        words = f"{quotas.names} new names a day, until {tomorrow}"
        raise _exceeded("names", quotas.names, today.names, words, until=tomorrow)


def _exceeded(quota: str, limit: int, used: int, words: str, **more: Any) -> NotAllowed:  # noqa: ANN401 - members of JSON
    return NotAllowed(
        "quota_exceeded",
        f"one identity may publish {words}",
        hint="publish later" if more else "the registry's operator may allow more",
        details={"quota": quota, "limit": limit, "used": used, **more},
    )
