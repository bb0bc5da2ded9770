"""The fields of a dagstack plugin, as models: types, defaults, and what one field alone must obey.

    Fields
      resources     Resources      what the host must and may inject
      unit_of_work  UnitOfWork     how a long operation is split
      mcp_stdio     StdioTable     `mcp_stdio`, `mcp_http`: how the runtime of that name is reached
      mcp_http      HttpTable

Every table is closed but for keys that begin with `x-`, which `split_extensions` takes out before. Rules
about two fields or more are in `rules`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from plugreg_schemas.core_version import CoreRange
from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.names import VersionRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RUNTIMES: Final = ("in_process", "mcp_stdio", "mcp_http")
RuntimeChoice = Literal["in_process", "mcp_stdio", "mcp_http"]

TABLES: Final = ("resources", "unit_of_work", "mcp_stdio", "mcp_http")
"""The tables whose keys are known; in the other four anything may stand."""

_VERSION: Final = (
    r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)?"
)


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _runtimes(value: object) -> object:
    return (value,) if isinstance(value, str) else _tuple(value)


def _dependency(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _distinct(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) < len(value):
        raise ValueError("must not name anything twice")
    return value


def _major_or_version(text: str) -> str:
    if not re.fullmatch(_VERSION, text, re.ASCII):
        raise ValueError('must be a major version such as "1", or a version such as "1.0.0"')
    return text


def _accepted_by(kind: Callable[[str], object]) -> AfterValidator:
    """Turn a refusal of ours into the one that pydantic collects."""

    def validate(text: str) -> str:
        try:
            kind(text)
        except InvalidInput as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise ValueError(f"cannot be read: {error.message}{hint}") from None
        return text

    return AfterValidator(validate)


Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_tuple)]
Seconds = Annotated[int, Field(gt=0)]
Command = Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=1)]
ApiVersion = Annotated[str, AfterValidator(_major_or_version)]


class Table(BaseModel):
    """A closed table; keys that begin with `x-` are the author's own."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra={"patternProperties": {"^x-.": {}}}
    )


class Dependency(Table):
    """Another plugin that must be there first."""

    name: Text
    kind: Text | None = None
    version: Annotated[str, _accepted_by(VersionRange)] | None = None


class Resources(Table):
    """What the host injects: without a required one the plugin is unavailable."""

    required: Texts = ()
    optional: Texts = ()


class UnitOfWork(Table):
    """How long operations are run by an orchestrator; unless `declared`, the rest counts for nothing."""

    declared: bool = False
    partition_key: str | None = None
    estimated_duration_sec: int | None = None
    idempotency_mode: Literal["output_hash", "input_hash", "none"] = "none"
    checkpointable: bool = False
    content_hash: Texts = ()


class StdioTable(Table):
    """A child process that speaks MCP over its standard streams."""

    command: Command | None = None
    working_dir: Text | None = None
    env: dict[str, str] | None = None
    startup_timeout_sec: Seconds = 30


class HttpTable(Table):
    """A service that speaks MCP over HTTP."""

    url: Text | None = None
    auth_header: Text | None = None
    auth_secret_env: Text | None = None
    timeout_sec: Seconds = 60
    tls_ca_bundle: Text | None = None
    tls_verify: bool = True


class Fields(Table):
    """One plugin."""

    schema_version: Literal["1", "1.0.0"]
    name: Text
    kind: Text
    kind_api_version: ApiVersion | None = None
    core_version: Annotated[str, _accepted_by(CoreRange)]
    runtime: Annotated[
        tuple[RuntimeChoice, ...],
        BeforeValidator(_runtimes),
        Field(min_length=1),
        AfterValidator(_distinct),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": list(RUNTIMES)},
                    {"type": "array", "items": {"enum": list(RUNTIMES)}, "minItems": 1, "uniqueItems": True},
                ]
            }
        ),
    ]
    entry_point: Text | None = None
    version: str | None = None
    license: str | None = None
    maintainer: str | None = None
    homepage: str | None = None
    description: str | None = None
    authors: Texts = ()
    capabilities: Texts = ()
    priority: Annotated[int, Field(ge=0)] = 0
    depends_on: Annotated[
        tuple[
            Annotated[Dependency, BeforeValidator(_dependency, json_schema_input_type=str | Dependency)], ...
        ],
        BeforeValidator(_tuple),
    ] = ()
    tryfirst: bool = False
    trylast: bool = False
    startup_timeout_sec: Seconds = 30
    teardown_timeout_sec: Seconds = 15
    supports_languages: Texts = ()
    supports_extensions: Texts = ()
    supports_mime_types: Texts = ()
    fallback: bool = False
    execution_model: Literal["async", "sync", "thread_cpu_bound", "process_cpu_bound"] = "sync"
    in_process_only: bool = False
    health_check: str | None = None
    command: Command | None = None
    env: dict[str, str] | None = None
    url: Text | None = None
    auth: dict[str, Any] | None = None
    config_schema: dict[str, Any] | None = None
    resources: Resources = Resources()
    unit_of_work: UnitOfWork = UnitOfWork()
    metadata: dict[str, Any] = Field(default_factory=dict)
    supports: dict[str, Any] = Field(default_factory=dict)
    mcp_stdio: StdioTable | None = None
    mcp_http: HttpTable | None = None


def split_extensions(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the format, and the author's own below the same tables.

    >>> split_extensions({"name": "demo", "x-team": "a", "resources": {"x-why": "b"}})
    ({'name': 'demo', 'resources': {}}, {'x-team': 'a', 'resources': {'x-why': 'b'}})
    """
    plain: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in fields.items():
        if key.startswith("x-"):
            own[key] = value
        elif key in TABLES and isinstance(value, dict):
            plain[key], below = split_extensions(value)
            own |= {key: below} if below else {}
        else:
            plain[key] = value
    return plain, own


def document_schema() -> dict[str, Any]:
    """Return the JSON Schema of a whole file: `plugin` with the fields in it, or the fields alone."""
    fields = Fields.model_json_schema()
    definitions = fields.pop("$defs")
    return {
        "title": "A dagstack plugin",
        "description": "`[plugin]` of `dagstack.toml`; `plugin` of `dagstack.json`, or its fields alone.",
        "if": {"required": ["plugin"]},
        "then": {
            "type": "object",
            "properties": {"plugin": {"$ref": "#/$defs/Fields"}},
            "patternProperties": {"^x-.": {}},
            "additionalProperties": False,
        },
        "else": {"$ref": "#/$defs/Fields"},
        "$defs": {"Fields": fields, **definitions},
    }
