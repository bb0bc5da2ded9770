"""Traces go to a collector by OTLP, and a collector that is not there harms nobody."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.publisher import Author, ask, plugin
from tests.support.registries import registry_environment, running
from tests.support.scripted import Answer, serving

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.support.scripted import Server

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("opentelemetry.sdk"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def _spans(collector: Server) -> list[Span]:
    found = []
    for request in collector.requests:
        sent = ExportTraceServiceRequest.FromString(request.body)
        found += [
            s for resource in sent.resource_spans for scope in resource.scope_spans for s in scope.spans
        ]
    return found


def _commit_of(collector: Server) -> tuple[Span, Sequence[Span]]:
    end = time.monotonic() + 15
    while time.monotonic() < end:
        spans = [span for span in _spans(collector) if span.trace_id.hex() == TRACE]
        for span in spans:
            if span.name == "POST /v1/uploads/{secret}/commit":
                return span, spans
        time.sleep(0.05)
    raise AssertionError([span.name for span in _spans(collector)])


def test_a_publish_is_a_trace_that_goes_on_where_the_caller_began_it_and_tells_no_secret(
    tmp_path: Path,
) -> None:
    with serving(lambda _: Answer()) as collector:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url.rstrip("/"),
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_SERVICE_NAME": "our-registry",
        }
        with running(tmp_path, environment=environment) as registry:
            author = Author(registry.url, registry.id)
            bundle = plugin("traced")
            session = author.begin(bundle, "traced").json()
            assert author.upload(session, bundle).status == 204
            address = author.at(session["commit"])
            assert ask(address, "POST", headers={"traceparent": TRACEPARENT}).status == 201
            commit, spans = _commit_of(collector)
        sent = b"".join(request.body for request in collector.requests)
    assert commit.parent_span_id.hex() == "b7ad6b7169203331"
    names = {span.name for span in spans}
    assert names >= {"publish.commit", "publish.examine", "publish.store", "index.show"}
    inner = next(span for span in spans if span.name == "publish.commit")
    assert inner.parent_span_id == commit.span_id
    assert collector.paths[0] == "/v1/traces"
    assert b"our-registry" in sent
    assert session["session"].rpartition("/")[2].encode() not in sent


def test_a_collector_that_is_not_there_or_hangs_slows_nobody(tmp_path: Path) -> None:
    def hang(_request: object) -> Answer:
        time.sleep(5)
        return Answer(503)

    with serving(hang) as collector:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        with running(tmp_path, environment=environment) as registry:
            author = Author(registry.url, registry.id)
            began = time.monotonic()
            for number in range(5):
                assert author.publish(plugin(f"fast{number}"), f"fast{number}").status == 201
            assert time.monotonic() - began < 4
            began = time.monotonic()
            assert registry.process is not None
            registry.process.terminate()
            assert registry.process.wait(20) == 0
            assert time.monotonic() - began < 8


def _serve(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    settings = registry_environment(environment)
    settings["PYTHONPATH"] += f":{tmp_path}"
    command = [
        sys.executable,
        "-m",
        "plugreg_registry",
        "serve",
        "--port",
        "0",
        "--data",
        str(tmp_path / "d"),
    ]
    return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=60, check=False)


def test_traces_that_are_asked_for_without_the_package_are_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    done = _serve(tmp_path, OTEL_TRACES_EXPORTER="otlp")
    assert done.returncode == 2
    assert "plugreg[registry,otel]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_protocol_that_is_not_spoken_is_refused(tmp_path: Path) -> None:
    done = _serve(
        tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"
    )
    assert done.returncode == 2
    assert "http/protobuf" in done.stderr


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_the_standard_variables_say_whether_there_are_traces(
    environment: dict[str, str], wanted: bool
) -> None:
    from plugreg_registry.tracing import is_wanted

    assert is_wanted(environment) is wanted
