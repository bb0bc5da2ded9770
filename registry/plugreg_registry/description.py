"""What `/openapi.json` says: what may be asked, and every answer there is. It checks and decides nothing.

Bodies and questions are read by `limits`, `questions`, `feeds` and `search_questions`, not by the framework,
so the framework is told of them here. Every error is a `Problem`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, get_args

from plugreg_registry.feeds import MAX_ENTRIES, MAX_WAIT_SECONDS
from plugreg_registry.questions import PARAMETERS
from plugreg_registry.search_questions import DEFAULT_PAGE, MAX_PAGE, SORTS, STATUSES
from plugreg_registry.search_questions import PARAMETERS as SEARCH_PARAMETERS
from plugreg_schemas.api import PROBLEM_TYPE, Problem
from plugreg_schemas.hosts import RUNTIMES, Environment, Tunnel
from plugreg_schemas.search import KNOWN, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from pydantic import BaseModel

    Answers = dict[int | str, dict[str, Any]]

_REFS: Final = "#/components/schemas/{model}"
_ANY_TIME: Final = (400, 405, 429, 503)
"""A request that is none, another method, too many requests, and a database or store that is away."""
_TEXT: Final = {"type": "string"}
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": _TEXT}},
    405: {"Allow": {"required": True, "schema": _TEXT}},
    429: {"Retry-After": {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}},
    503: {"Retry-After": {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}},
    507: {"Retry-After": {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}},
}
OFFSET: Final[dict[str, Any]] = {
    "description": "So much is there",
    "headers": {"Upload-Offset": {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}},
}
"""The answer of an upload."""
VERSION: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name", "version", "digest", "size", "published_at", "signer", "status", "index"],
    "properties": {
        "name": _TEXT,
        "version": _TEXT,
        "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        "size": {"type": "integer", "minimum": 0},
        "published_at": {"type": "string", "format": "date-time"},
        "signer": {"type": "object"},
        "status": {"type": "object"},
        "index": {"type": "string", "enum": ["published", "pending"]},
    },
}
"""One version of a plugin."""
RESOLUTION: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["plugin", "version", "components"],
    "properties": {
        "plugin": _TEXT,
        "version": {"type": ["string", "null"]},
        "code": _TEXT,
        "components": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "runtime", "refusals"],
                "properties": {"id": _TEXT, "runtime": {"type": ["string", "null"]}},
            },
        },
    },
}
"""What a host uses of a plugin."""


def problems(*statuses: int) -> Answers:
    """Return the refusals of an address: these, and those that every address may give."""
    return {status: _problem(status) for status in sorted({*_ANY_TIME, *statuses})}


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {PROBLEM_TYPE: {"schema": {"$ref": _REFS.format(model="Problem")}}},
        "headers": _HEADERS.get(status, {}),
    }


def shows(schema: dict[str, Any]) -> Answers:
    """Return the answer 200 that has this schema."""
    return {200: {"content": {"application/json": {"schema": schema}}}}


def takes(kind: type[BaseModel]) -> dict[str, Any]:
    """Return what is said of a body."""
    schema = kind.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def takes_bytes() -> dict[str, Any]:
    """Return what is said of the bytes of a bundle, or of a part of it."""
    schema = {"type": "string", "format": "binary"}
    return {
        "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": schema}}},
        "parameters": [
            {
                "name": "Content-Range",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "pattern": "^bytes [0-9]{1,15}-[0-9]{1,15}/[0-9]{1,15}$"},
            }
        ],
    }


def asks() -> dict[str, Any]:
    """Return what is said of the question which runtime a host uses."""
    schemas: dict[str, dict[str, Any]] = {
        "language": {"type": "string", "examples": ["python"]},
        "tunnel": {"type": "string", "enum": list(get_args(Tunnel))},
        "environment": {"type": "string", "enum": list(get_args(Environment))},
        "supports": {"type": "array", "items": {"type": "string", "enum": list(RUNTIMES)}},
        "prefer": {"type": "array", "items": {"type": "string", "enum": list(RUNTIMES)}},
        "kind": {"type": "array", "items": _TEXT},
    }
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name == "plugin", "schema": schemas.get(name, _TEXT)}
            for name in PARAMETERS
        ]
    }


def slices(known: Sequence[str]) -> dict[str, Any]:
    """Return what is said of a question for a feed."""
    schemas = {
        "since": {"type": "string", "pattern": "^[0-9]{1,18}(-[0-9a-f]{16})?$"},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ENTRIES},
        "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
    }
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": schemas[name]} for name in known
        ]
    }


def searches() -> dict[str, Any]:
    """Return what is said of a search."""
    schemas: dict[str, dict[str, Any]] = {
        "q": {"type": "string", "maxLength": MAX_TEXT},
        "tool": {"type": "string", "maxLength": MAX_TEXT},
        "skill": {"type": "string", "maxLength": MAX_TEXT},
        **{facet: {"type": "string", "enum": list(known)} for facet, known in KNOWN.items()},
        "status": {"type": "string", "enum": list(STATUSES)},
        "sort": {"type": "string", "enum": list(SORTS), "default": SORTS[0]},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE},
        "cursor": {"type": "string", "description": "`next` of the page before"},
    }
    return {
        "parameters": [{"name": name, "in": "query", "schema": schemas[name]} for name in SEARCH_PARAMETERS]
    }


def describe_problems(api: FastAPI) -> None:
    """Add the schema of a problem to what an application says of itself."""
    make = api.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        schema = Problem.model_json_schema(ref_template=_REFS)
        parts = schema.pop("$defs", {})
        document.setdefault("components", {}).setdefault("schemas", {}).update({**parts, "Problem": schema})
        return document

    api.openapi = openapi  # type: ignore[method-assign] # the way the framework offers
