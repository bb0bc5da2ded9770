"""What is wrong with an index, in our own words: every exception of the library becomes one of our errors.

index_forged        signed by somebody whom the root does not name, or not at all
index_rolled_back   older than what was seen before, or it lost something that was in it
index_mismatch      parts of different states, or other bytes than were announced
index_invalid       no metadata of an index
index_expired       nobody has confirmed it for too long
clock_suspect       it is from the future, or the clock of this machine is wrong
index_missing       there is no index, or a part of it
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from tuf.api.exceptions import (
    BadVersionNumberError,
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
    UnsignedMetadataError,
)
from tuf.api.serialization import DeserializationError

from plugreg_schemas.errors import IntegrityError, PlugregError, Unverifiable
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    _Verdicts = Sequence[tuple[type[Exception], Callable[[str, str], PlugregError]]]

_EXPIRED: Final = re.compile(r"([a-z0-9-]+)(?:\.json)? is expired")
"""Where the library names the role that is expired."""
TIMESTAMP_LIFETIME: Final = timedelta(days=7)
"""How long a timestamp is valid; so it tells when it was signed."""
CLOCK_TOLERANCE: Final = timedelta(hours=1)
"""Clocks of two machines may differ by so much."""
ASK: Final = "do not install from it; ask its operator by another way"


class Seen(Protocol):
    """What was read so far: the role that was read last, and the bytes of any role."""

    @property
    def last(self) -> str: ...

    def bytes_of(self, role: str) -> bytes: ...


@contextmanager
def judged(where: str, seen: Seen) -> Iterator[None]:
    """Turn what the library raises into our errors.

    Raises:
        PlugregError: as the table above; what stopped a request comes out as it was raised.
        OSError: the cache cannot be written.
    """
    try:
        yield
    except (PlugregError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - it raises what it likes, and none of it means verified
        raise _verdict(error, where, seen) from None


def _verdict(error: Exception, where: str, seen: Seen) -> PlugregError:
    if isinstance(error, DownloadError) and isinstance(error.__cause__, PlugregError):
        return error.__cause__
    if isinstance(error, ExpiredMetadataError):
        named = _EXPIRED.search(str(error))
        role = named[1] if named else seen.last
        return expired(where, role, expiry(seen.bytes_of(role)))
    kinds = (*_OF_ROLE.get(seen.last, ()), *_ALWAYS)
    return next(verdict for kind, verdict in kinds if isinstance(error, kind))(where, seen.last)


def missing(where: str, role: str) -> Unverifiable:
    """Return the refusal of an index that is not there as a whole."""
    what = "has no signed index" if role in {"", "root"} else f"does not have {quoted(role)} of its index"
    return Unverifiable(
        "index_missing",
        f"{where} {what}",
        hint="nothing says what it offers; ask its operator, or try again later",
    )


def forged(where: str, role: str) -> IntegrityError:
    """Return the refusal of metadata that nobody signed who may."""
    return IntegrityError(
        "index_forged", f"{quoted(role)} of the index of {where} is not signed by who may sign it", hint=ASK
    )


def mismatch(where: str, role: str) -> IntegrityError:
    """Return the refusal of a part that is not the one which the rest speaks of."""
    return IntegrityError(
        "index_mismatch",
        f"{quoted(role)} of the index of {where} is not what the rest of the index says that it is",
        hint="it was altered on the way or in the store, or belongs to another state; try another network",
    )


def invalid(where: str, role: str) -> IntegrityError:
    """Return the refusal of what is no metadata."""
    return IntegrityError("index_invalid", f"{quoted(role)} of the index of {where} is not valid", hint=ASK)


def rolled_back(where: str, role: str) -> IntegrityError:
    """Return the refusal of an index that is older than what this machine has seen."""
    return IntegrityError(
        "index_rolled_back",
        f"{quoted(role)} of the index of {where} is older than what this machine has seen, "
        "or lacks something that was in it",
        hint="somebody serves an old state; try another network, then ask the operator",
    )


def expired(where: str, role: str, end: datetime | None) -> Unverifiable:
    """Return the refusal of what was valid once. It names both times: one of the two clocks may be wrong."""
    until = f"expired at {format_time(end)}" if end else "has expired"
    return Unverifiable(
        "index_expired",
        f"{quoted(role)} of the index of {where} {until}, and this machine's clock says {_clock()}",
        hint="if the clock is right, the registry or a mirror of it is out of date; "
        "`--offline` uses what this machine has",
    )


def signed_at(timestamp: bytes) -> datetime:
    """Return when a verified timestamp was signed."""
    return (expiry(timestamp) or datetime.now(UTC)) - TIMESTAMP_LIFETIME


def check_clock(where: str, signed_at: datetime) -> None:
    """Refuse an index that is from the future.

    Raises:
        Unverifiable: `clock_suspect`.
    """
    if signed_at > datetime.now(UTC) + CLOCK_TOLERANCE:
        raise Unverifiable(
            "clock_suspect",
            f"the index of {where} was signed at {format_time(signed_at)}, "
            f"and this machine's clock says {_clock()}",
            hint="correct the clock: with a wrong one nobody can tell whether an index is fresh",
        )


def _clock() -> str:
    return format_time(datetime.now(UTC).replace(microsecond=0))


def expiry(content: bytes) -> datetime | None:
    """Return until when metadata are valid, by their own words."""
    try:
        text = json.loads(content)["signed"]["expires"]
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


_ALWAYS: Final[_Verdicts] = (
    (DownloadHTTPError, missing),
    (UnsignedMetadataError, forged),
    (LengthOrHashMismatchError, mismatch),
    (DownloadLengthMismatchError, mismatch),
    (BadVersionNumberError, mismatch),
    (Exception, invalid),
)
"""What an exception means; the first that fits counts."""
_OF_ROLE: Final[Mapping[str, _Verdicts]] = {
    "timestamp": ((BadVersionNumberError, rolled_back),),
    "snapshot": (*_ALWAYS[:4], (DeserializationError, invalid), (RepositoryError, rolled_back)),
}
"""What it means for some roles: only these two are compared with what was seen before."""
