"""The published JSON Schemas, made from the models: `python -m plugreg_schemas.export [--check]`.

    json/<name>.schema.json     one file for each thing that travels between programs

Without `--check` the files are written; with it they are compared, and a difference is exit 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from plugreg_schemas import api, index, listing, statement
from plugreg_schemas.formats import keel_schema
from plugreg_schemas.formats.dagstack import fields as dagstack_fields
from plugreg_schemas.runtimes import Runtime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

BASE: Final = "https://plugreg.dev/schemas/v1/"
FOLDER: Final = Path(__file__).parent / "json"

MODELS: Final[dict[str, type[BaseModel]]] = {
    "discovery": api.Discovery,
    "plugin-document": api.PluginDocument,
    "problem": api.Problem,
    "publish-request": api.PublishRequest,
    "publish-session": api.PublishSession,
    "receipt": api.Receipt,
    "search-page": api.SearchPage,
    "statement-request": api.StatementRequest,
    "statement-receipt": api.StatementReceipt,
    "changes": api.ChangesPage,
    "audit": api.AuditPage,
    "predicate-publish": statement.Publish,
    "predicate-owners": statement.Owners,
    "predicate-yank": statement.Yank,
    "predicate-status": statement.Status,
    "trust": index.TrustDocument,
    "revocations": index.RevocationList,
    "catalog": listing.Listing,
    "catalog-page": listing.ListingPage,
}

UNIONS: Final[dict[str, tuple[str, TypeAdapter[Any]]]] = {
    "runtime": ("One way to run a component, as `plugreg plan` and hosts see it.", TypeAdapter(Runtime))
}
"""What is one of several models, with what it is."""

MANIFESTS: Final[dict[str, Mapping[str, Any]]] = {
    "dagstack-plugin": dagstack_fields.document_schema(),
    "keel-plugin": keel_schema.SCHEMA,
}
"""What authors write, for their editors."""

NAMES: Final = (*MODELS, *UNIONS, *MANIFESTS)


def schema_text(name: str) -> str:
    """Return one JSON Schema (2020-12) as the text of its file."""
    schema = _schema(name)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{BASE}{name}.schema.json"}
    return json.dumps(head | dict(schema), indent=2, ensure_ascii=False) + "\n"


def _schema(name: str) -> Mapping[str, Any]:
    if name in MODELS:
        return MODELS[name].model_json_schema(by_alias=True, mode="validation")
    if name in UNIONS:
        description, adapter = UNIONS[name]
        return {"title": "Runtime", "description": description} | adapter.json_schema(mode="validation")
    return MANIFESTS[name]


def drifted() -> list[str]:
    """Return the names of the files that differ from their models, or are missing or left over."""
    expected = {f"{name}.schema.json": schema_text(name) for name in NAMES}
    present = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.schema.json")}
    return sorted(
        name for name in expected.keys() | present.keys() if expected.get(name) != present.get(name)
    )


def main(arguments: list[str]) -> int:
    """Write or compare the files."""
    if arguments == ["--check"]:
        for name in drifted():
            sys.stderr.write(f"error: json/{name} is not what the models say\nhint: run `make schemas`\n")
        return 1 if drifted() else 0
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        (FOLDER / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
