"""The purge hook is told what has changed, whatever state it is in, and nobody waits for it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.operation import PurgeHook
from plugreg_registry.purging import MOST_WAITING, Purger
from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import UsageError
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import running
from tests.support.scripted import Answer, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.scripted import Request, Server

TIMESTAMP = "/index/metadata/timestamp.json"


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def _paths(hook: Server) -> set[str]:
    return {path for request in hook.requests for path in json.loads(request.body)["paths"]}


def test_every_change_reaches_a_hook_that_is_well_slow_or_down_for_a_while(tmp_path: Path) -> None:
    mood = "well"

    def answer(_request: Request) -> Answer:
        if mood == "slow":
            time.sleep(2)
        return Answer(500 if mood == "down" else 204)

    (tmp_path / "token").write_text("purge-secret\n")
    with serving(answer) as hook:
        environment = {
            "PLUGREG_REGISTRY_PURGE_URL": hook.url + "purge?zone=z1",
            "PLUGREG_REGISTRY_PURGE_TOKEN_FILE": str(tmp_path / "token"),
        }
        with running(tmp_path / "data", environment=environment) as registry:
            author = Author(registry.url, registry.id)
            assert author.publish(plugin("well"), "well").status == 201
            _until(lambda: {TIMESTAMP, "/index/plugins/well.json"} <= _paths(hook))
            first = hook.requests[0]
            assert (first.method, first.path) == ("POST", "/purge?zone=z1")
            assert first.headers["Authorization"] == "Bearer purge-secret"
            assert not [path for path in _paths(hook) if path.startswith(("/blobs", "/attestations"))]
            assert not [path for path in _paths(hook) if path.endswith("1.root.json")]
            for mood in ("slow", "down"):
                began = time.monotonic()
                assert author.publish(plugin(mood), mood).status == 201
                assert time.monotonic() - began < 2
                _until(lambda: f"/index/plugins/{mood}.json" in _paths(hook))  # noqa: B023 - called at once
            text = ask(registry.url + "metrics").body.decode()
            assert 'plugreg_steps_total{outcome="ok",step="purge"}' in text
            _until(lambda: "did not take" in "".join(registry.log))
            failed = len(hook.requests)
            mood = "well"
            _until(lambda: len(hook.requests) > failed)
            assert "/index/plugins/down.json" in json.loads(hook.requests[-1].body)["paths"]
            assert "purge-secret" not in "".join(registry.log)
            assert "zone=z1" not in "".join(registry.log)


def test_a_hook_that_is_gone_holds_a_bounded_number_of_paths_and_ends_quickly() -> None:
    with serving(lambda _: Answer(503)) as hook:
        address = hook.url
    purger = Purger(PurgeHook(address))
    for number in range(MOST_WAITING + 500):
        purger.note(f"index/plugins/p{number}.json")
    began = time.monotonic()
    purger.close()
    assert time.monotonic() - began < 3
    assert 0 < len(purger._waiting) <= MOST_WAITING  # noqa: SLF001 - the bound itself
    purger.note("index/plugins/late.json")


def test_what_is_left_is_sent_when_a_command_ends() -> None:
    with serving(lambda _: Answer(200)) as hook:
        purger = Purger(PurgeHook(hook.url))
        for number in range(3):
            purger.note(f"index/plugins/p{number}.json")
        purger.close()
        assert _paths(hook) == {f"/index/plugins/p{number}.json" for number in range(3)}


def test_a_hook_that_sends_elsewhere_is_not_followed_with_the_token() -> None:
    with (
        serving(lambda _: Answer(200)) as other,
        serving(lambda _: Answer(307, headers={"Location": other.url})) as hook,
    ):
        purger = Purger(PurgeHook(hook.url, "secret"))
        purger.note("index/catalog.json")
        purger.close()
        assert hook.requests
        assert not other.requests


@pytest.mark.parametrize(
    "url",
    [
        "ftp://c/x",
        "https://user:word@cdn.example.com/",
        "https://",
        "https://c/#f",
        "https://c/a b",
        "http://cdn.example.com/purge",
        "https://c:99999/",
    ],
)
def test_an_address_that_would_leak_the_token_or_lead_nowhere_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(UsageError, match="PURGE_URL") as refused:
        read_settings(
            {
                "PLUGREG_REGISTRY_PURGE_URL": url,
                "PLUGREG_REGISTRY_PURGE_TOKEN_FILE": str(tmp_path / "token"),
            }
        )
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "two words", "line\nline", "x" * 9000, "\x00"])
def test_a_file_that_does_not_hold_one_token_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(UsageError, match="PURGE_TOKEN_FILE"):
        read_settings(
            {
                "PLUGREG_REGISTRY_PURGE_URL": "https://cdn.example.com",
                "PLUGREG_REGISTRY_PURGE_TOKEN_FILE": str(tmp_path / "token"),
            }
        )


def test_other_settings_of_the_operation_are_checked_too() -> None:
    with pytest.raises(UsageError) as refused:
        read_settings(
            {
                "PLUGREG_REGISTRY_METRICS": "everyone",
                "PLUGREG_REGISTRY_DRAIN_SECONDS": "301",
                "PLUGREG_REGISTRY_PURGE_TOKEN_FILE": "/nowhere/token",
            }
        )
    assert len(refused.value.findings) == 3
