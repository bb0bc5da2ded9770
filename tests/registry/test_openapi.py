"""The API does what its own description says: to all that Schemathesis asks, with tokens and without."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

from plugreg_registry import tokens
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.tokens import DatabaseTokens
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugreg_registry.records import Scope
    from tests.support.registries import RegistryProcess

NAME, VERSION = "demo", "1.0.0"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
ADMITTED = (*CHECKS, "unsupported_method")
"""Without a token nothing is told, not even which methods there are."""
OPEN = {"GET /livez", "GET /readyz", "GET /metrics"}
READ = {
    "GET /v1/plugins",
    "GET /v1/plugins/{name}",
    "GET /v1/plugins/{name}/{version}",
    "GET /v1/resolve",
    "GET /v1/changes",
}
SHOWN = {"": OPEN, "read": OPEN | READ, "audit": OPEN | READ | {"GET /v1/audit"}}
"""What is answered with 200, by the scope of a token."""
EXAMPLES = 8
"""Questions for each operation beyond those that follow from its description."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """One that shows nothing without a token, and has something to show."""
    settings = {"PLUGREG_REGISTRY_READERS": "tokens", "PLUGREG_REGISTRY_REQUESTS_PER_MINUTE": "0"}
    with running(tmp_path_factory.mktemp("registry"), environment=settings) as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin(NAME, VERSION), NAME, VERSION).status == 201
        yield registry


def secret_for(registry: RegistryProcess, scope: Scope) -> str:
    token, secret = tokens.issue("somebody", scope, datetime.now(UTC))
    engine = open_database(registry.data / "registry.sqlite3")
    DatabaseTokens(engine).add(token)
    engine.dispose()
    return secret


@pytest.mark.parametrize("scope", ["", "read", "audit"])
def test_every_answer_is_one_that_the_description_has(
    registry: RegistryProcess, scope: Scope | Literal[""]
) -> None:
    reader = {"Authorization": f"Bearer {secret_for(registry, 'read')}"}
    headers = {"Authorization": f"Bearer {secret_for(registry, scope)}"} if scope else {}
    config = SchemathesisConfig.from_dict(settings(headers))
    schema = schemathesis.openapi.from_url(f"{registry.url}openapi.json", config=config, headers=reader)
    answered: dict[str, set[int]] = {}
    faults = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            answered.setdefault(event.recorder.label, set()).update(
                interaction.response.status_code
                for interaction in event.recorder.interactions.values()
                if interaction.response
            )
            if event.status in {Status.FAILURE, Status.ERROR}:
                faults += [
                    f"{event.recorder.label}: {check.name}: {check.failure_info.failure}"
                    for checks in event.recorder.checks.values()
                    for check in checks
                    if check.failure_info
                ]
        elif isinstance(event, events.NonFatalError | events.FatalError):
            faults.append(str(event))
    assert not faults, "\n\n".join(dict.fromkeys(faults))
    assert len(answered) == sum(map(len, schema.raw_schema["paths"].values()))
    assert {label for label, statuses in answered.items() if 200 in statuses} == SHOWN[scope]


def test_whoever_asks_by_another_method_is_told_all_that_there_are(registry: RegistryProcess) -> None:
    reader = {"Authorization": f"Bearer {secret_for(registry, 'read')}"}
    described = ask(f"{registry.url}openapi.json", headers=reader).json()["paths"]
    for path, operations in described.items():
        answer = ask(registry.url + path[1:].replace("{", "").replace("}", ""), "PATCH", headers=reader)
        allowed = {method.lower() for method in answer.headers["allow"].split(", ")}
        assert (answer.status, allowed) == (405, operations.keys()), path


def settings(headers: dict[str, str]) -> dict[str, Any]:
    return {
        "seed": 5,
        "headers": headers,
        "parameters": {
            "path.name": NAME,
            "path.version": VERSION,
            "query.plugin": NAME,
            "query.wait": 1,  # seconds for which an answer may be kept back
        },
        "generation": {"max-examples": EXAMPLES, "deterministic": True, "no-shrink": True},
        "checks": {name: {"enabled": True} for name in (ADMITTED if headers else CHECKS)}
        | {"enabled": False},
        "phases": {"stateful": {"enabled": False}},
    }
