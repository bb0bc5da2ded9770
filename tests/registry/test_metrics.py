"""What `/metrics` says, who may read it, and what the log says of a request."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.publisher import Author, ask, plugin
from tests.support.registries import running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.registries import RegistryProcess

DISCOVERY = ".well-known/plugreg.json"


def metrics(url: str) -> dict[str, float]:
    """The lines of `/metrics` and their values."""
    answer = ask(url + "metrics")
    assert answer.status == 200, answer
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_requests_are_counted_by_the_template_of_their_route_and_never_by_names(
    registry: RegistryProcess, author: Author, name: str
) -> None:
    bundle = plugin(name)
    begun = author.begin(bundle, name)
    assert author.finish(begun, bundle).status == 201
    for _ in range(3):
        assert ask(f"{registry.url}v1/plugins/{name}").status == 200
    assert ask(f"{registry.url}v1/{name}").status == 404
    assert ask(f"{registry.url}index/plugins/{name}.json").status == 200
    assert ask(f"{registry.url}blobs/sha256/{'0' * 64}").status == 404
    found = metrics(registry.url)
    assert found['plugreg_requests_total{method="GET",route="/v1/plugins/{name}",status="200"}'] >= 3
    assert found['plugreg_request_seconds_count{route="/v1/uploads/{secret}/commit"}'] >= 1
    assert found['plugreg_requests_total{method="GET",route="other",status="404"}'] >= 1
    assert found['plugreg_reads_total{kind="index",status="200"}'] >= 1
    assert found['plugreg_reads_total{kind="blob",status="404"}'] >= 1
    text = ask(registry.url + "metrics").body.decode()
    assert f'"{name}"' not in text
    assert author.key.id not in text
    secret = begun.json()["session"].rpartition("/")[2]
    assert secret not in text


def test_methods_that_nobody_knows_are_one_method(registry: RegistryProcess) -> None:
    for number in range(3):
        ask(registry.url + "v1/plugins", f"ODD{number}")
    assert not [line for line in metrics(registry.url) if "ODD" in line]


def test_publishes_are_counted_by_how_they_ended(
    registry: RegistryProcess, author: Author, name: str
) -> None:
    assert author.publish(plugin(name), name).status == 201
    assert author.publish(plugin(name, mark="other bytes"), name).code == "version_exists"
    found = metrics(registry.url)
    assert found['plugreg_steps_total{outcome="ok",step="publish.commit"}'] >= 1
    assert found['plugreg_steps_total{outcome="version_exists",step="publish.begin"}'] == 1
    assert found['plugreg_steps_total{outcome="ok",step="index.group"}'] >= 1
    assert found["plugreg_index_group_plugins_sum"] >= 1
    assert found['plugreg_steps_running{step="index.group"}'] == 0


def test_the_state_of_the_registry_is_looked_up(registry: RegistryProcess, author: Author, name: str) -> None:
    before = metrics(registry.url)
    assert author.begin(plugin(name), name).status == 202
    found = metrics(registry.url)
    assert found["plugreg_sessions"] == before["plugreg_sessions"] + 1
    assert found["plugreg_waiting_plugins"] == 0
    assert found["plugreg_ready"] == 1
    assert 6 * 86_400 < found['plugreg_role_left_seconds{role="timestamp"}'] <= 7 * 86_400
    assert found['plugreg_warning{word="root_keys_online"}'] == 1
    assert found["process_resident_memory_bytes"] > 10 << 20
    assert found["plugreg_database_connections"] >= 0


def test_what_cannot_be_looked_up_does_not_hide_the_rest(registry: RegistryProcess) -> None:
    (registry.objects / DISCOVERY).rename(registry.data / "aside")
    try:
        found = metrics(registry.url)
    finally:
        (registry.data / "aside").rename(registry.objects / DISCOVERY)
    assert found["plugreg_ready"] == 0
    assert "plugreg_plugins" in found


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_metrics_are_not_for_those_who_come_through_a_proxy(registry: RegistryProcess, header: str) -> None:
    answer = ask(registry.url + "metrics", headers={header: "127.0.0.1"})
    assert (answer.status, answer.code) == (403, "metrics_not_for_you")
    assert answer.headers["content-type"] == "application/problem+json"


def test_several_workers_answer_with_the_sum_of_all_even_when_one_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, workers=2) as registry:
        counted = 'plugreg_requests_total{method="GET",route="/v1/plugins/{name}",status="404"}'
        for _ in range(40):
            assert ask(registry.url + "v1/plugins/nothing").status == 404
        assert {metrics(registry.url)[counted] for _ in range(6)} == {40}
        children = [int(line) for line in _children(registry.pid)]
        os.kill(children[-1], signal.SIGKILL)
        found = _when_it_answers(registry.url)
        assert found[counted] == 40
        assert found["process_resident_memory_bytes"] > 10 << 20
        registry.process.terminate()  # type: ignore[union-attr]
        assert registry.process.wait(30) == 0  # type: ignore[union-attr]


def _children(pid: int) -> list[str]:
    """The processes that serve: not the one that watches over shared resources."""
    from pathlib import Path

    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _when_it_answers(url: str) -> dict[str, float]:
    """A connection that the dead process had taken is cut."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            return metrics(url)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("no answer")


def _log_of(registry: RegistryProcess, request_id: str) -> list[dict[str, object]]:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        lines = [json.loads(line) for line in registry.log if request_id in line]
        if any(line["message"] == "request" for line in lines):
            return lines
        time.sleep(0.02)
    raise AssertionError(f"no line with {request_id}")


def test_a_request_has_one_id_in_answer_problem_and_log_whatever_the_peer_calls_it(
    registry: RegistryProcess,
) -> None:
    hostile = 'x"}<é>' + "y" * 500
    answer = ask(registry.url + "v1/plugins/nothing", headers={"X-Request-Id": hostile})
    own = answer.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{16}", own)
    assert answer.json()["request_id"] == own
    (line,) = _log_of(registry, own)
    assert re.fullmatch(r"xy{1,125}", str(line["peer_request_id"])), line


def test_the_first_line_of_the_log_says_what_serves(registry: RegistryProcess) -> None:
    line = next(json.loads(line) for line in registry.log if '"serving"' in line)
    assert line["address"] == f"127.0.0.1:{registry.port}"
    assert line["metrics"] == "loopback"
    assert line["version"]
