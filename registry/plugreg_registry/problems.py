"""Every error as a document (RFC 9457), its status that of its class."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from plugreg_schemas.api import PROBLEM_TYPE, Problem, ProblemItem
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Temporary, status_of

if TYPE_CHECKING:
    from plugreg_schemas.errors import PlugregError

RETRY_AFTER_SECONDS: Final = 5

_OF_HTTP: Final = {
    404: ("not_found", "nothing is at this address"),
    405: ("method_not_allowed", "this address does not take this method"),
}

_CHALLENGES: Final = {
    "token_invalid": ', error="invalid_token"',
    "token_scope": ', error="insufficient_scope", scope="audit"',
}
"""What a refusal adds to the challenge (RFC 6750, 3)."""


def problem_of(error: PlugregError, request_id: str = "") -> Problem:
    """Return the document of an error; its details become members beside the standard ones."""
    status = status_of(error)
    known = Problem.model_fields.keys()
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=error.code,
        detail=error.message,
        hint=error.hint,
        errors=tuple(ProblemItem(**finding.as_dict()) for finding in error.findings),
        request_id=request_id,
        retryable=isinstance(error, Temporary),
        **{name: value for name, value in error.details.items() if name not in known},  # type: ignore[arg-type]
    )


def http_problem(status: int, request_id: str = "") -> Problem:
    """Return the document of an error that HTTP itself has a word for."""
    code, detail = _OF_HTTP.get(status, ("http_error", HTTPStatus(status).phrase))
    return Problem(
        title=HTTPStatus(status).phrase, status=status, code=code, detail=detail, request_id=request_id
    )


def internal_problem(request_id: str) -> Problem:
    """Return the document of a fault of ours, which tells nothing but where the log has it."""
    return Problem(
        title=HTTPStatus(500).phrase,
        status=500,
        code="internal_error",
        detail="the registry failed; its log has the reason under this request id",
        request_id=request_id,
        retryable=True,
    )


def problem_bytes(problem: Problem) -> bytes:
    """Return a problem as it is sent."""
    return canonical_json(problem.model_dump(mode="json"))


def problem_headers(problem: Problem) -> dict[str, str]:
    """Return the headers that go with a problem; no error is ever kept by a cache."""
    headers = {"content-type": PROBLEM_TYPE, "cache-control": "no-store", "x-content-type-options": "nosniff"}
    if problem.status in {429, 503, 507}:
        headers["retry-after"] = str((problem.model_extra or {}).get("retry_after", RETRY_AFTER_SECONDS))
    if problem.status == 401 or problem.code in _CHALLENGES:  # noqa: PLR2004
        headers["www-authenticate"] = f'Bearer realm="plugreg"{_CHALLENGES.get(problem.code, "")}'
    if problem.status == 413:  # noqa: PLR2004 - the rest of the body is not read
        headers["connection"] = "close"
    return headers
