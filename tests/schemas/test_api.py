"""What travels: the published schemas are those of the models, and every code has one class."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped] # it has no types of its own
import pytest

import plugreg
import plugreg_registry
import plugreg_schemas
from plugreg_schemas import errors, export
from plugreg_schemas.api import Discovery, Problem, PublishRequest
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import InvalidInput, PlugregError
from plugreg_schemas.fields import check_model, read_model
from plugreg_schemas.statement import Owners, Yank, owner_of, successor_statement
from tests.support.record import REGISTRY, Record, author, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
KINDS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PlugregError)
}


def sources(package: ModuleType) -> list[Path]:
    found = sorted(Path(str(package.__file__)).parent.rglob("*.py"))
    assert found
    return found


def raised(package: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield the class, the literal code and the place of every fault that a package makes."""
    for path in sources(package):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in KINDS
                and node.args
            ):
                for code in codes_of(node.args[0]):
                    yield node.func.id, code, f"{path.name}:{node.lineno}"


def codes_of(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return codes_of(node.body) + codes_of(node.orelse)
    return []


PACKAGES = [plugreg_schemas, plugreg_registry, plugreg]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_codes_are_snake_case(package: ModuleType) -> None:
    found = list(raised(package))
    assert found
    assert [row for row in found if not CODE.fullmatch(row[1])] == []


@pytest.mark.parametrize("package", [plugreg_schemas, plugreg_registry], ids=lambda package: package.__name__)
def test_a_client_can_tell_forged_and_unverifiable_from_bad_input(package: ModuleType) -> None:
    """HTTP has one status for the three; the code decides, so the lists of codes must be complete."""
    for kind, code, place in raised(package):
        if kind == "IntegrityError":
            assert code in errors.INTEGRITY_CODES, place
        elif kind == "Unverifiable":
            assert code in errors.UNVERIFIABLE_CODES, place
        else:
            assert code not in errors.INTEGRITY_CODES | errors.UNVERIFIABLE_CODES, place


def test_the_lists_of_codes_name_nothing_that_is_never_raised() -> None:
    made = {code for package in PACKAGES for _, code, _ in raised(package)}
    assert made >= errors.INTEGRITY_CODES | errors.UNVERIFIABLE_CODES


def test_every_class_has_a_status() -> None:
    kinds = {vars(errors)[name] for name in KINDS} - {PlugregError}
    assert set(errors.STATUSES) == kinds
    for kind in kinds:
        assert errors.status_of(kind("x", "x")) == errors.STATUSES[kind]
    assert errors.status_of(PlugregError("x", "x")) == 500


def test_published_schemas_are_those_of_the_models() -> None:
    assert export.drifted() == []


@pytest.mark.parametrize("name", sorted(export.MODELS))
def test_published_schemas_are_valid_and_name_themselves(name: str) -> None:
    schema = json.loads((export.FOLDER / f"{name}.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"{export.BASE}{name}.schema.json"


def test_what_is_made_validates_against_the_published_schemas() -> None:
    by = author()
    record = Record.begin(by, "1.0.0")
    owners = Owners(**record.place(), add=(owner_of(author().signer),))
    yank = Yank(**record.place(), version="1.0.0", yanked=True)
    made: dict[str, Any] = {
        "plugin-document": record.value(),
        "predicate-publish": json.loads(publish("1.0.0").payload())["predicate"],
        "predicate-owners": json.loads(successor_statement(owners).payload())["predicate"],
        "predicate-yank": json.loads(successor_statement(yank).payload())["predicate"],
        "publish-request": {
            "statement": json.loads(by.sign(publish("1.0.0")).content),
            "size": 1,
            "public_key": "x",
        },
    }
    for name, value in made.items():
        schema = json.loads((export.FOLDER / f"{name}.schema.json").read_bytes())
        jsonschema.Draft202012Validator(schema).validate(value)


DISCOVERY: dict[str, Any] = {
    "api-versions": ["1"],
    "registry": {"id": REGISTRY},
    "limits": {"compressed": 1, "unpacked": 1, "members": 1, "path": 1, "component": 1, "ratio": 1},
}


def test_members_have_the_names_that_travel_and_no_others() -> None:
    found = read_model(Discovery, canonical_json(DISCOVERY | {"api_versions": ["9"]}), code="x")
    assert found.api_versions == ("1",)


@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        ({}, {"/statement", "/size"}),
        ({"statement": {}, "size": "1"}, {"/size"}),
        ({"statement": {}, "size": 0}, {"/size"}),
        ({"statement": {}, "size": 1.5, "public_key": None}, {"/size", "/public_key"}),
        ({"statement": [], "size": 1, "more": 1}, {"/statement", "/more"}),
        ({"statement": {}, "size": 1, "public_key": "x" * 2049}, {"/public_key"}),
        ([], {""}),
        (None, {""}),
    ],
)
def test_every_fault_of_a_request_is_named_by_its_pointer(value: object, pointers: set[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_model(PublishRequest, value, code="request_invalid")
    assert {finding.pointer for finding in refused.value.findings} == pointers
    assert {finding.code for finding in refused.value.findings} == {"request_invalid"}


def test_pointers_have_no_steps_that_the_input_lacks() -> None:
    value = Record.begin(author(), "1.0.0").place() | {"add": [{"kind": "key", "id": "short"}, {"kind": "x"}]}
    with pytest.raises(InvalidInput) as refused:
        check_model(Owners, value, code="x")
    assert {finding.pointer for finding in refused.value.findings} == {"/add/0/id", "/add/1"}


def test_a_problem_keeps_members_that_it_does_not_know() -> None:
    problem = Problem.model_validate({"title": "t", "status": 409, "code": "c", "head": "sha256:x"})
    assert problem.model_extra == {"head": "sha256:x"}
