"""A version reads what the next one writes: members that it does not know are ignored, but in identities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from plugreg_schemas import api, index, listing
from plugreg_schemas.alternatives import Alternative
from plugreg_schemas.fields import Open
from plugreg_schemas.manifest import Requirement
from tests.support.record import Record, author

if TYPE_CHECKING:
    from pydantic import BaseModel

NAMED = [kind for part in (api, index, listing) for kind in vars(part).values()]
READ = [api.Problem, *(kind for kind in NAMED if isinstance(kind, type) and issubclass(kind, Open))]
"""All that a client reads."""
IDENTITIES = {"KeySigner", "OidcSigner", "CiSigner", "KeyOwner", "CiOwner"}
"""What is not understood of an identity could be what limits it."""


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_nothing_that_is_read_is_closed_but_identities(kind: type[BaseModel]) -> None:
    schema = kind.model_json_schema()
    parts = {**schema.get("$defs", {}), kind.__name__: schema}
    closed = {name for name, part in parts.items() if part.get("additionalProperties") is False}
    assert closed <= IDENTITIES


@pytest.mark.parametrize(
    ("kind", "value"), [(Alternative, {"runtime": "mcp_stdio"}), (Requirement, {"name": "demo"})]
)
def test_the_values_in_a_document_are_open_too(kind: type[Any], value: dict[str, str]) -> None:
    adapter = TypeAdapter(kind)
    assert adapter.validate_python({**value, "later": {"x": 1}}) == adapter.validate_python(value)


def with_later(value: Any, key: str = "") -> Any:
    """A document of a later version: in every object stands one more member."""
    if isinstance(value, dict):
        more = {} if key in {"signer", "owners"} else {"later": {"x": [1]}}
        return {name: with_later(inner, name) for name, inner in value.items()} | more
    return [with_later(inner, key) for inner in value] if isinstance(value, list) else value


def test_a_document_with_members_of_a_later_version_says_the_same() -> None:
    document = Record.begin(author(), "1.0.0").value()
    later = with_later(document)
    assert later != document
    assert api.PluginDocument.model_validate(later) == api.PluginDocument.model_validate(document)
