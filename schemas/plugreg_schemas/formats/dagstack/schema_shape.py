"""Whether `config_schema` is a JSON Schema (2020-12): the shapes of the keywords, without compiling it.

A keyword that is not known is an annotation and stays; `$ref` is not followed, nothing is ever fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_SCHEMA: Final = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_COUNTS: Final = frozenset(
    {"maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength"}
    | {"minProperties"}
)
_NUMBERS: Final = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"})
_TEXTS: Final = frozenset(
    {"$anchor", "$comment", "$id", "$ref", "$schema", "description", "format", "pattern", "title"}
)

Fault = tuple[tuple[str | int, ...], str]


def faults(schema: object, at: tuple[str | int, ...] = ()) -> Iterator[Fault]:
    """Yield the place and the sentence of everything that makes `schema` no JSON Schema."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield at, "a JSON Schema must be an object, or true or false"
        return
    for keyword, value in schema.items():
        yield from _keyword(keyword, value, (*at, keyword))


def _keyword(keyword: str, value: object, at: tuple[str | int, ...]) -> Iterator[Fault]:
    if keyword in _SCHEMA:
        yield from faults(value, at)
    elif keyword in _SCHEMA_LISTS:
        yield from _each(list(enumerate(value)) if isinstance(value, list) and value else None, at, "list")
    elif keyword in _SCHEMA_MAPS:
        yield from _each(list(value.items()) if isinstance(value, dict) else None, at, "object")
    elif (expected := _expected(keyword, value)) is not None:
        yield at, f"`{keyword}` must be {expected}"


def _each(items: list[tuple[Any, Any]] | None, at: tuple[str | int, ...], what: str) -> Iterator[Fault]:
    if items is None:
        yield at, f"`{at[-1]}` must be {'an' if what == 'object' else 'a'} {what} of JSON Schemas"
        return
    for key, item in items:
        yield from faults(item, (*at, key))


def _expected(keyword: str, value: object) -> str | None:
    """Return what the value of a simple keyword must be, None where it is that."""
    if keyword == "type":
        good = _is_type(value) or (isinstance(value, list) and bool(value) and all(map(_is_type, value)))
        return None if good else "the name of a type of JSON, or a list of them"
    if keyword == "required":
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return None if good else "a list of texts"
    if keyword == "enum":
        return None if isinstance(value, list) else "a list"
    if keyword == "uniqueItems":
        return None if isinstance(value, bool) else "true or false"
    if keyword in _TEXTS:
        return None if isinstance(value, str) else "text"
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if keyword in _COUNTS:
        good = number is not None and number >= 0 and number == int(number)
        return None if good else "a whole number that is not negative"
    if keyword in _NUMBERS:
        good = number is not None and (keyword != "multipleOf" or number > 0)
        return None if good else "a number"
    return None


def _is_type(value: object) -> bool:
    return isinstance(value, str) and value in _TYPES
