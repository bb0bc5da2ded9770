"""Traces by OpenTelemetry, when its own variables ask for them. Nothing of it is imported otherwise.

    OTEL_EXPORTER_OTLP_ENDPOINT     or OTEL_TRACES_EXPORTER=otlp: spans go to a collector by OTLP over HTTP
    OTEL_SERVICE_NAME               `plugreg-registry` if it is not given
    OTEL_SDK_DISABLED=true          or OTEL_TRACES_EXPORTER=none: no traces, whatever else is set

Every step is a span; a request to the API continues the trace of whoever sent it. Spans wait in memory and
are sent by a thread of their own: a collector that cannot be reached costs spans, and nothing else.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from plugreg_registry.observing import OK, REQUEST, observe
from plugreg_registry.version import installed_version
from plugreg_schemas.errors import UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.trace import Tracer

    from plugreg_registry.observing import Step

SERVICE: Final = "plugreg-registry"
END_SECONDS: Final = 3.0
"""How long the last spans may take to be sent when a process ends."""
SERVER_ERROR: Final = 500
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_MODULES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in _ENDPOINTS))


def check(environment: Mapping[str, str]) -> None:
    """See whether traces that are asked for can be made.

    Raises:
        UsageError: `tracing_protocol`; `extra_missing`: OpenTelemetry is not installed.
    """
    if not is_wanted(environment):
        return
    protocol = next((found for name in _PROTOCOLS if (found := environment.get(name))), "http/protobuf")
    if protocol != "http/protobuf":
        raise UsageError(
            "tracing_protocol",
            f"spans are sent by `http/protobuf`, not by {quoted(protocol)}",
            hint=f"unset `{_PROTOCOLS[1]}`, and give `{_ENDPOINTS[0]}` the collector's HTTP port, often 4318",
        )
    for module in _MODULES:
        if not _is_installed(module):
            raise UsageError(
                "extra_missing",
                f"the environment asks for traces, and `{module}` is not installed",
                hint="`pip install 'plugreg[registry,otel]'`, or set `OTEL_SDK_DISABLED=true`",
            )


def start(environment: Mapping[str, str]) -> Callable[[], None]:
    """Trace this process if the environment asks for it; return what ends that. Raises as `check`."""
    if not is_wanted(environment):
        return lambda: None
    check(environment)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - only when configured
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

    own = Resource({"service.name": SERVICE, "service.version": installed_version()})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    sending = BatchSpanProcessor(OTLPSpanExporter())
    provider.add_span_processor(sending)
    observe(_observer(provider.get_tracer("plugreg_registry", installed_version())))

    def end() -> None:
        last = Thread(target=sending.shutdown, daemon=True)  # which waits for the collector
        last.start()
        last.join(END_SECONDS)

    return end


def _observer(tracer: Tracer) -> Callable[[Step], Any]:
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - only when configured
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above
        TraceContextTextMapPropagator,
    )

    propagator = TraceContextTextMapPropagator()

    @contextmanager
    def observed(taken: Step) -> Iterator[None]:
        is_request = taken.name == REQUEST
        parent = propagator.extract({"traceparent": taken.caller}) if is_request else None
        kind = SpanKind.SERVER if is_request else SpanKind.INTERNAL
        with tracer.start_as_current_span(
            taken.name, parent, kind, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            finally:
                facts = taken.facts
                if is_request:
                    span.update_name(f"{facts['method']} {facts['route']}")
                    span.set_attribute("http.request.method", facts["method"])
                    span.set_attribute("http.route", facts["route"])
                    span.set_attribute("http.response.status_code", facts["status"])
                    span.set_attribute("plugreg.request_id", facts["id"])
                else:
                    span.set_attributes({f"plugreg.{name}": value for name, value in facts.items()})
                    span.set_attribute("plugreg.outcome", taken.outcome)
                if taken.outcome != OK or int(facts.get("status", 0)) >= SERVER_ERROR:
                    span.set_status(Status(StatusCode.ERROR, taken.outcome))

    return observed


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
