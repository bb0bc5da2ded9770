"""The JSON Schema of Keel's `plugin.yaml`, for editors: what they can say while somebody types.

It takes every manifest that `keel.read` takes and refuses most of those that it refuses; what needs the files
of the plugin, or every name at once, only the reader knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.formats.keel import KINDS, MAX_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_VARIABLE: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
_LITERALS: Final = {
    "type": "object",
    "propertyNames": {"pattern": _VARIABLE},
    "additionalProperties": {"type": ["string", "null"]},
}

_ENTRY: Final = {
    "type": ["object", "null"],
    "description": "What is started: empty for `in-process`, the backend for `webview`.",
    "additionalProperties": False,
    "properties": {
        "command": {
            "type": "string",
            "minLength": 1,
            "description": "A bare name, searched on the PATH, or `./path` inside the plugin.",
        },
        "args": {**_TEXTS, "description": "Handed over as they are written; nothing is expanded."},
        "env": {
            "description": "Names that are passed on from the host, and literal values.",
            "anyOf": [
                {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": _VARIABLE}, _LITERALS]}},
                _LITERALS,
            ],
        },
    },
}
_PROVIDES: Final = {
    "type": "object",
    "properties": {
        "tools": {**_TEXTS, "uniqueItems": True, "description": "The names of the tools."},
        "ui": {
            "type": "object",
            "description": "The page of a `webview`.",
            "properties": {
                "entry": {
                    "type": "string",
                    "minLength": 1,
                    "pattern": r"^[^/\\]",
                    "default": "index.html",
                    "description": "A file below `ui/`.",
                }
            },
        },
    },
}
_TIER: Final = {"type": "object", "properties": {"tier": {"enum": ["A", "B", "C"]}}}


def _when(kind: str, **then: object) -> dict[str, Any]:
    stated = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
    return {"if": stated, "then": then}


SCHEMA: Final[Mapping[str, Any]] = {
    "title": "Keel plugin",
    "description": "`plugin.yaml`: a plugin that is exactly one of three kinds of thing.",
    "type": "object",
    "required": ["id", "version", "kind"],
    "properties": {
        "id": {
            "type": "string",
            "maxLength": MAX_ID,
            "pattern": r"^[a-z0-9]+([.-][a-z0-9]+)*$",
            "description": "Under which the plugin is published.",
        },
        "version": {
            "type": "string",
            "pattern": r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$",
            "description": "A semantic version, in quotes.",
        },
        "kind": {"enum": list(KINDS), "description": "It never changes; another kind is another plugin."},
        "name": {"type": "string", "description": "Shown to people."},
        "description": {"type": "string"},
        "license": {"type": "string", "description": "An SPDX expression."},
        "homepage": {"type": "string"},
        "repository": {"type": "string"},
        "authors": _TEXTS,
        "keywords": _TEXTS,
        "entry": _ENTRY,
        "provides": _PROVIDES,
        "config": {"type": "object", "description": "For the plugin itself; hosts hand it over."},
        "x-plugreg": _TIER,
    },
    "allOf": [
        _when("in-process", properties={"entry": {"maxProperties": 0}}),
        _when(
            "sidecar", required=["entry"], properties={"entry": {"type": "object", "required": ["command"]}}
        ),
        _when(
            "webview",
            properties={"entry": {"anyOf": [{"maxProperties": 0}, {"required": ["command"]}]}},
        ),
        {
            "if": {"properties": {"kind": {"enum": ["in-process", "sidecar"]}}, "required": ["kind"]},
            "then": {"properties": {"provides": {"properties": {"ui": False}}}},
        },
    ],
}
