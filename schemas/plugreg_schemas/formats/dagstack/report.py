"""What is found wrong with a dagstack manifest, and which of its fields can still be judged.

`checked` reports every fault of one field alone. Such a field is `unknown` and stands at its default, so that
rules about other fields still apply and no fault is told twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Severity
from plugreg_schemas.formats.dagstack.fields import RUNTIMES, Fields
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from plugreg_schemas.errors import Collector

_STANDING_IN: Final[Mapping[str, Any]] = {
    "schema_version": "1",
    "name": "?",
    "kind": "?",
    "core_version": ">=0",
    "runtime": ["in_process"],
}
"""Values for required fields at fault, which no rule looks at."""

_SENTENCES: Final[Mapping[str, str]] = {
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must not be less than {ge}",
}


@dataclass(slots=True)
class Report:
    """The findings about the fields that stand at `steps` of `file`."""

    file: str
    steps: tuple[str, ...]
    faults: Collector
    refused: bool = False
    unknown: set[str] = field(default_factory=set)

    def refuse(self, message: str, *steps: str | int, code: str = "manifest_invalid") -> None:
        """Report a fault that rejects the plugin."""
        self.refused = True
        self.faults.add(code, message, file=self.file, pointer=pointer_to(*self.steps, *steps))

    def forbid(self, message: str, *steps: str | int) -> None:
        """Report a fault with which the plugin loads, and no registry takes it."""
        where = pointer_to(*self.steps, *steps)
        self.faults.add(
            "manifest_invalid", message, boundary=Boundary.REGISTRY, file=self.file, pointer=where
        )

    def warn(self, code: str, message: str, *steps: str | int) -> None:
        """Report something that the author probably did not mean."""
        where = pointer_to(*self.steps, *steps)
        self.faults.add(code, message, severity=Severity.WARNING, file=self.file, pointer=where)

    def knows(self, *fields: str) -> bool:
        """Whether all of these fields hold what the author wrote, or are not there."""
        return self.unknown.isdisjoint(fields)


def checked(fields: Mapping[str, Any], report: Report) -> Fields:
    """Validate the fields one by one; see the head of the module."""
    try:
        return Fields.model_validate(fields)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            _tell(fields, fault, report)
            report.unknown.add(str(fault["loc"][0]))
    sound = {key: value for key, value in fields.items() if key not in report.unknown}
    standing_in = {key: value for key, value in _STANDING_IN.items() if key in report.unknown}
    return Fields.model_validate(sound | standing_in)


def _tell(fields: Mapping[str, Any], fault: ErrorDetails, report: Report) -> None:
    steps = _steps(fields, fault["loc"])
    name = quoted(".".join(str(step) for step in steps if isinstance(step, str)))
    what = f"each of {name}" if isinstance(steps[-1], int) else name
    if fault["type"] == "missing":
        report.refuse(f"there is no {name}", *steps)
    elif fault["type"] == "extra_forbidden":
        report.refuse(f"{name} is not a field of dagstack; a field of your own begins with `x-`", *steps)
    elif fault["type"] == "literal_error":
        allowed = fault.get("ctx", {}).get("expected", "").replace("'", "`")
        report.refuse(f"{what} must be {allowed}{_hint(fields, steps)}", *steps)
    elif fault["type"] == "value_error":
        report.refuse(f"{what} {fault['msg'].removeprefix('Value error, ')}", *steps)
    else:
        sentence = _SENTENCES.get(fault["type"], "is not valid").format_map(fault.get("ctx", {}))
        report.refuse(f"{what} {sentence}", *steps)


def _hint(fields: Mapping[str, Any], steps: tuple[str | int, ...]) -> str:
    value = fields.get("runtime") if steps[0] == "runtime" else None
    spelled = value if isinstance(value, str) else ""
    near = spelled.strip().lower().replace("-", "_")
    return f"; {quoted(spelled)} is spelled `{near}`" if near in RUNTIMES and spelled != near else ""


def _steps(fields: Mapping[str, Any], loc: tuple[int | str, ...]) -> tuple[str | int, ...]:
    """Return the place of a fault in what the author wrote: text may stand there for a list or a table."""
    steps: list[str | int] = []
    value: Any = fields
    for step in loc:
        if isinstance(value, str):
            break
        steps.append(step)
        inside = isinstance(value, dict) or (isinstance(value, list) and isinstance(step, int))
        try:
            value = value[step] if inside else None
        except (KeyError, IndexError):
            value = None
    return tuple(steps)
