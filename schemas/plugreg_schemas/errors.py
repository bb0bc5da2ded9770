"""Every way in which plugreg says no.

    PlugregError              a stable code, a sentence, perhaps a hint, perhaps findings
    +- UsageError             the command or setting is wrong            exit 2   HTTP 400
    +- InvalidInput           the input is wrong: correct it             exit 3   HTTP 422
    |  +- TooLarge            the input is over a limit                  exit 3   HTTP 413
    +- IntegrityError         forged, altered, re-labelled: do not use   exit 4   HTTP 422
    +- ResolutionError        nothing fits what was asked for            exit 5   HTTP 422
    +- NotAllowed             correct, but not for you                   exit 6   HTTP 403
    |  +- Unauthenticated     nobody has said who asks, or not rightly   exit 6   HTTP 401
    |  +- Conflict            correct, but the state says otherwise      exit 6   HTTP 409
    +- NotAvailable           not here: not found, offline               exit 7   HTTP 404
    |  +- Gone                was here, is withdrawn                     exit 7   HTTP 410
    |  +- Unverifiable        cannot be judged: something is missing     exit 7   HTTP 422
    +- Temporary              try again later                            exit 8   HTTP 503
       +- TooMany             you have asked too often                   exit 8   HTTP 429
       +- NoSpace             the disk is full                           exit 8   HTTP 507

A class is what the caller does next; a code is what happened. The code is the only thing that a program may
branch on. Exit codes stand in `plugreg.cli`, HTTP statuses in `STATUSES` below: one table each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_FINDINGS = 100
"""Findings kept of one input; what comes after is counted, so a hostile input cannot fill the memory."""


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Boundary(StrEnum):
    """What a finding takes down with it: the failure boundaries of the formats, and the registry's."""

    PLUGIN = "plugin"
    COMPONENT = "component"
    ENTRY = "entry"
    PROCESS = "process"
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing noticed in one place of an input.

    `file` is a path inside the plugin, `pointer` a JSON pointer (RFC 6901) into it; either may be empty.
    The message names keys and never values: values may be secrets.
    """

    code: str
    message: str
    severity: Severity = Severity.ERROR
    boundary: Boundary = Boundary.PLUGIN
    file: str = ""
    pointer: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the finding as in `check --json` and in `errors[]` of a problem."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "boundary": self.boundary.value,
            "file": self.file,
            "pointer": self.pointer,
            "message": self.message,
        }

    def __str__(self) -> str:
        place = self.file + (f"#{self.pointer}" if self.pointer else "")
        return f"{place}: {self.message} [{self.code}]" if place else f"{self.message} [{self.code}]"


class PlugregError(Exception):
    """A refusal with a stable `code`, a sentence, and perhaps a `hint` that says what to do next.

    `findings` are all the faults of the input; `details` are extra members of the problem document, such as
    the digest that won or the offset to resume from.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        findings: Iterable[Finding] = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.findings = tuple(findings)
        self.details = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class UsageError(PlugregError):
    """The command line or a setting is wrong."""


class InvalidInput(PlugregError):
    """The input breaks a rule; `findings` says where."""


class TooLarge(InvalidInput):
    """The input is over a limit."""


class IntegrityError(PlugregError):
    """The bytes are not what was signed or promised: forged, altered or re-labelled."""


class ResolutionError(PlugregError):
    """Nothing fits what was asked for."""


class NotAllowed(PlugregError):
    """The request is well formed, and this caller may not do it."""


class Unauthenticated(NotAllowed):
    """The request is well formed, and does not prove that it comes from one who may."""


class Conflict(NotAllowed):
    """The request is well formed, and the present state forbids it."""


class NotAvailable(PlugregError):
    """What was asked for is not here or cannot be reached."""


class Gone(NotAvailable):
    """What was asked for has been withdrawn."""


class Unverifiable(NotAvailable):
    """A signature cannot be judged because something needed for it is missing."""


class Temporary(PlugregError):
    """The same request may succeed later."""


class TooMany(Temporary):
    """The caller has asked too often; `details` has `retry_after`, in seconds."""


class NoSpace(Temporary):
    """The disk is full."""


STATUSES: Final[Mapping[type[PlugregError], int]] = {
    UsageError: 400,
    InvalidInput: 422,
    TooLarge: 413,
    IntegrityError: 422,
    ResolutionError: 422,
    NotAllowed: 403,
    Unauthenticated: 401,
    Conflict: 409,
    NotAvailable: 404,
    Gone: 410,
    Unverifiable: 422,
    Temporary: 503,
    TooMany: 429,
    NoSpace: 507,
}
"""The HTTP status of every class, in the registry's answers and in what `--json` prints of a failure."""


def status_of(error: PlugregError) -> int:
    """Return the HTTP status of an error: that of its class, or of the nearest class above."""
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


INTEGRITY_CODES = frozenset(
    {
        "attestation_altered",
        "backup_damaged",
        "digest_mismatch",
        "document_contradicts_history",
        "document_mismatch",
        "envelope_not_canonical",
        "history_forked",
        "history_invalid",
        "index_invalid",
        "key_outside_validity",
        "objects_missing",
        "provenance_mismatch",
        "public_key_mismatch",
        "ref_not_allowed",
        "registry_mismatch",
        "release_mismatch",
        "signature_invalid",
        "signer_not_owner",
        "statement_mismatch",
    }
)
"""Codes of `IntegrityError`: the HTTP status 422 alone does not tell them from bad input."""

UNVERIFIABLE_CODES = frozenset(
    {"envelope_version", "no_trusted_time", "public_key_missing", "signature_kind", "trust_material_missing"}
)
"""Codes of `Unverifiable`, for the same reason."""


@dataclass(slots=True)
class Collector:
    """Gathers every fault of one input and raises them together.

    >>> faults = Collector("manifest_invalid", "the manifest is not valid")
    >>> faults.add("name_invalid", "`name` is empty", file="plugin.json", pointer="/name")
    >>> faults.raise_if_any()
    Traceback (most recent call last):
    ...
    plugreg_schemas.errors.InvalidInput: the manifest is not valid: `name` is empty [name_invalid]
    """

    code: str
    message: str
    findings: list[Finding] = field(default_factory=list)
    dropped: int = 0
    _advice: list[int] = field(default_factory=list, init=False, repr=False)
    """Places of findings that an error may take."""

    def add(
        self,
        code: str,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        boundary: Boundary = Boundary.PLUGIN,
        file: str = "",
        pointer: str = "",
    ) -> None:
        """Keep one finding; over `MAX_FINDINGS` it is only counted."""
        self.keep(Finding(code, message, severity, boundary, file, pointer))

    def keep(self, finding: Finding) -> None:
        """Keep a finding made elsewhere. An error takes the place of advice: a flood of it hides no fault."""
        is_error = finding.severity is Severity.ERROR
        if len(self.findings) < MAX_FINDINGS:
            if not is_error:
                self._advice.append(len(self.findings))
            self.findings.append(finding)
            return
        self.dropped += 1
        if is_error and self._advice:
            self.findings[self._advice.pop()] = finding

    def extend(self, findings: Iterable[Finding]) -> Self:
        """Keep several findings made elsewhere."""
        for finding in findings:
            self.keep(finding)
        return self

    @property
    def failed(self) -> bool:
        """Whether a finding with severity `error` was kept."""
        return any(f.severity is Severity.ERROR for f in self.findings)

    def raise_if_any(self, kind: type[PlugregError] = InvalidInput, *, hint: str = "") -> None:
        """Raise `kind` with all findings if one of them is an error.

        With a single error its own code becomes the code of the whole: the caller learns the cause, not the
        category.
        """
        if not self.failed:
            return
        errors = [f for f in self.findings if f.severity is Severity.ERROR]
        code, message = self.code, self.message
        if len({f.code for f in errors}) == 1:
            code = errors[0].code
        if len(errors) == 1:
            message = f"{self.message}: {errors[0].message}"
        details: dict[str, object] = {"findings_not_shown": self.dropped} if self.dropped else {}
        raise kind(code, message, hint=hint, findings=self.findings, details=details)


def quoted(text: str) -> str:
    """Return `text` between backticks, safe to print: shortened, control characters escaped."""
    shown = text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004 - a line of a terminal
    safe = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in shown
    )
    return f"`{safe}`"
