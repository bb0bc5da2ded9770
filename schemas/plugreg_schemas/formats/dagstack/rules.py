"""What fields of a dagstack manifest must obey together, and which of the runtime invariants the text shows.

    invariant 2   a chain passes values on, so its plugins are not bound to one process
    invariant 4   `execution_model` is how a plugin in the host's process is called
    invariant 5   a unit of work counts only where it is declared
    invariant 7   `idempotency_mode` belongs to a declared unit of work
    invariant 8   equal outputs need `clock` and `rng` from the host

Whether a host's core and kinds fit is not asked here: it depends on the host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugreg_schemas.formats.dagstack import schema_shape
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.formats.dagstack.fields import Fields
    from plugreg_schemas.formats.dagstack.hookspecs import Hookspec
    from plugreg_schemas.formats.dagstack.report import Report

MAX_USUAL_PRIORITY: Final = 100
RESERVED_PRIORITY: Final = 1000
"""From here on a priority is for middleware, which goes before all plugins."""
MIDDLEWARE: Final = "middleware"
"""The capability by which a plugin says that it is middleware."""
DETERMINISTIC: Final = ("clock", "rng")

_NAME: Final = re.compile(r"[a-z0-9_-]+")


def examine(fields: Fields, kinds: Mapping[str, Hookspec], report: Report) -> None:
    """Report everything that is wrong between the fields, errors first."""
    _examine_kind_version(fields, kinds, report)
    _examine_order(fields, report)
    _examine_process(fields, kinds.get(fields.kind), report)
    for steps, message in schema_shape.faults(fields.config_schema or {}):
        report.refuse(message, "config_schema", *steps)
    _warn_of_ineffective(fields, report)
    _warn_of_unit(fields, report)


def _examine_kind_version(fields: Fields, kinds: Mapping[str, Hookspec], report: Report) -> None:
    if fields.kind_api_version is not None or not report.knows("kind", "kind_api_version"):
        return
    if fields.kind in kinds:
        message = 'there is no `kind_api_version`; "1" is assumed'
        report.warn("kind_api_version_missing", message, "kind_api_version")
    else:
        report.refuse("there is no `kind_api_version`", "kind_api_version")


def _examine_order(fields: Fields, report: Report) -> None:
    if fields.tryfirst and fields.trylast:
        report.refuse("`tryfirst` and `trylast` cannot both be true", "trylast")
    if fields.priority >= RESERVED_PRIORITY and MIDDLEWARE not in fields.capabilities:
        if report.knows("capabilities"):
            message = f"from {RESERVED_PRIORITY} on a `priority` needs the capability `{MIDDLEWARE}`"
            report.refuse(message, "priority")
    elif MAX_USUAL_PRIORITY < fields.priority < RESERVED_PRIORITY:
        report.warn("priority_unusual", f"`priority` is usually 0-{MAX_USUAL_PRIORITY}", "priority")


def _examine_process(fields: Fields, spec: Hookspec | None, report: Report) -> None:
    remote = [runtime for runtime in fields.runtime if runtime != "in_process"]
    if remote and fields.in_process_only:
        message = f"`in_process_only` is true, so `runtime` must not name `{remote[0]}`"
        report.refuse(message, "in_process_only")
    elif remote and spec is not None and spec.in_process_only and report.knows("runtime"):
        message = f"the kind {quoted(fields.kind)} runs in the host's process, so not as `{remote[0]}`"
        report.refuse(message, "runtime")
    if fields.in_process_only and spec is not None and spec.chained:
        message = f"the kind {quoted(fields.kind)} is a chain, whose plugins must not be `in_process_only`"
        report.refuse(message, "in_process_only")


def _warn_of_ineffective(fields: Fields, report: Report) -> None:
    if report.knows("name") and not _NAME.fullmatch(fields.name):
        report.warn("name_unusual", "`name` should be of a-z 0-9 - _", "name")
    if fields.supports:
        report.warn("unknown_field_ignored", "`supports` is read by no host", "supports")
    if fields.auth is not None and "mcp_http" in fields.runtime:
        message = "`auth` has no defined form; name `auth_header` and `auth_secret_env` in `mcp_http`"
        report.warn("auth_ignored", message, "auth")
    if "execution_model" in fields.model_fields_set and "in_process" not in fields.runtime:
        message = "`execution_model` has no effect: `runtime` does not name `in_process`"
        report.warn("runtime_undeclared", message, "execution_model")


def _warn_of_unit(fields: Fields, report: Report) -> None:
    unit = fields.unit_of_work
    if not unit.declared:
        for name in sorted(unit.model_fields_set - {"declared"}):
            message = f"`{name}` has no effect: `declared` is not true"
            report.warn("unit_of_work_undeclared", message, "unit_of_work", name)
    elif unit.idempotency_mode == "output_hash":
        absent = [name for name in DETERMINISTIC if name not in fields.resources.required]
        if absent and report.knows("resources"):
            message = f"`output_hash` needs {' and '.join(map(quoted, absent))} among `resources.required`"
            report.warn("determinism_resources_missing", message, "unit_of_work", "idempotency_mode")
