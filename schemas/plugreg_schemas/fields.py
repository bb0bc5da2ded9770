"""pydantic fields for the names of `names`, and the one way from outside bytes to a model.

read_model(Model, content)     strict JSON, then validation, every fault with its JSON pointer
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from plugreg_schemas.documents import canonical_json, parse_json, pointer_to
from plugreg_schemas.errors import Collector, InvalidInput
from plugreg_schemas.names import (
    MAX_RANGE,
    MAX_VERSION,
    NAME_PATTERN,
    Digest,
    PluginName,
    RegistryId,
    Version,
    VersionRange,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REASON: Final = 500
"""Characters in a reason that people give for a yank or a status."""

_Model = TypeVar("_Model", bound=BaseModel)


def _accepts(kind: Callable[[str], object]) -> Callable[[str], str]:
    """Turn our own refusal into the one that pydantic collects."""

    def validate(text: str) -> str:
        try:
            value = kind(text)
        except InvalidInput as error:
            raise ValueError(f"{error.message}; {error.hint}" if error.hint else error.message) from None
        return value if isinstance(value, str) else text

    return validate


def _utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time needs its zone, for example `2026-01-31T12:00:00Z`")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time must lie within the years 1 to 9999 in UTC") from None


def format_time(value: datetime) -> str:
    """Return a time as RFC 3339 in UTC with `Z`, to the second, or to the microsecond where it has one."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


NameField = Annotated[
    str, AfterValidator(_accepts(PluginName)), Field(json_schema_extra={"pattern": f"^{NAME_PATTERN}$"})
]
VersionField = Annotated[str, AfterValidator(_accepts(Version)), Field(max_length=MAX_VERSION)]
DigestField = Annotated[
    str, AfterValidator(_accepts(Digest)), Field(json_schema_extra={"pattern": "^sha256:[0-9a-f]{64}$"})
]
RegistryIdField = Annotated[str, AfterValidator(_accepts(RegistryId)), Field(max_length=200)]
RangeField = Annotated[str, AfterValidator(_accepts(VersionRange)), Field(max_length=MAX_RANGE)]
ReasonField = Annotated[str, Field(max_length=MAX_REASON, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""One line: a reason is shown to people, and a control character could make it look like something else."""
TimeField = Annotated[
    datetime, AfterValidator(_utc), PlainSerializer(format_time, return_type=str, when_used="json")
]


class Closed(BaseModel):
    """A value from outside in which an unknown member is a fault."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Open(BaseModel):
    """A value from outside in which a newer writer may have added members: they are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


def read_model(kind: type[_Model], content: bytes, *, code: str, file: str = "") -> _Model:
    """Read JSON bytes into a model.

    Raises:
        InvalidInput: `code`, or the code of the JSON fault; `findings` has every fault with its pointer.
    """
    return check_model(kind, parse_json(content, file), code=code, file=file)


def check_model(kind: type[_Model], value: object, *, code: str, file: str = "") -> _Model:
    """Validate plain JSON values as a model; see `read_model`.

    Types are never converted (`"1"` is no number) and members go only by the names that travel, so that two
    readers of the same bytes see the same values.
    """
    try:
        return kind.model_validate_json(canonical_json(value), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        faults = Collector(code, f"{file or kind.__name__} is not valid")
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            faults.add(
                code,
                fault["msg"].removeprefix("Value error, "),
                file=file,
                pointer=_pointer(value, fault["loc"]),
            )
        faults.raise_if_any()
        raise  # unreachable: a ValidationError has at least one error


def _pointer(value: Any, steps: tuple[str | int, ...]) -> str:  # noqa: ANN401 - parsed JSON
    """Return the JSON pointer of a fault, without the steps that pydantic adds for unions and for keys."""
    real: list[str | int] = []
    for place, step in enumerate(steps):
        if _has(value, step):
            value = value[step]
        elif place < len(steps) - 1 or step == "[key]" or not isinstance(value, dict):
            continue
        real.append(step)
    return pointer_to(*real)


def _has(value: Any, step: str | int) -> bool:  # noqa: ANN401 - parsed JSON
    return step in (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
