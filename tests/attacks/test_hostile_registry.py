"""A registry that wants something else than to serve plugins."""

from __future__ import annotations

import io
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from plugreg import link
from plugreg.arrival import Arrival
from plugreg.link import Link, Patience, raise_for
from plugreg.objects import HttpObjects
from plugreg_schemas.errors import NotAvailable, PlugregError
from tests.support.scripted import Answer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

ONCE = Patience(tries=1)


@pytest.mark.parametrize(
    "way",
    [
        "http://127.0.0.1:2375/containers/prune",
        "http://localhost:9/x",
        "http://[::1]:9/x",
        "https://127.0.0.1:9/x",
        "//localhost:9/x",
        "https://LOCALHOST.:9/x",
        "https://a.localhost:9/x",
        "https://127.1:9/x",
        "https://2130706433:9/x",
        "https://0.0.0.0:9/x",
        "https://[::]:9/x",
        "https://[::ffff:127.0.0.1]:9/x",
    ],
)
@pytest.mark.parametrize("insecure", [False, True])
def test_a_registry_elsewhere_leads_to_this_machine(way: str, *, insecure: bool) -> None:
    """Upload and commit addresses are the registry's words: no request is made for it behind the firewall."""
    link = Link("https://plugins.example.com/", insecure_http=insecure, patience=ONCE)
    with pytest.raises(NotAvailable, match="registry_url_insecure"):
        link.once("POST", way)


@pytest.mark.parametrize(
    "content",
    [
        b'{"title":"t","status":404,"code":"x","extra":NaN}',
        b'{"title":"t","status":404,"code":"x","extra":1e999}',
        b'{"title":"t","status":404,"code":"x","code":"y"}',
        b'{"title":"t","status":404,"code":""}',
        b'{"title":"t","status":404,"code":"\\u001b[31m"}',
        b'{"title":"t","status":404,"code":"two words"}',
        b'{"title":"t","status":404,"code":"' + b"a" * 5000 + b'"}',
        b'{"title":"t","status":404,"code":"x","detail":"\\ud800"}',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_a_problem_document_that_a_program_could_not_read(content: bytes) -> None:
    """What `--json` prints of it would be no JSON, and its code nothing to branch on."""
    with (
        serving(lambda _: Answer(500, content, {"Content-Type": "application/problem+json"})) as server,
        pytest.raises(PlugregError, match="http_error"),
    ):
        raise_for(Link(server.url, patience=ONCE).once("GET", "x"))


@pytest.mark.parametrize("status", [300, 304, 399])
def test_a_status_that_is_neither_success_nor_error(status: int) -> None:
    """It is not the user's input that is wrong."""
    with (
        serving(lambda _: Answer(status, b"")) as server,
        pytest.raises(NotAvailable, match="http_error"),
    ):
        raise_for(Link(server.url, patience=ONCE).once("GET", "x"))


@contextmanager
def dripping(pause_s: float) -> Iterator[str]:
    """A server that sends the head of every answer at once, and then a byte now and then."""

    class Drip(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            with suppress(OSError):
                while not ended.wait(pause_s):
                    self.wfile.write(b" ")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the library
            """Say nothing."""

    ended = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def test_a_registry_that_sends_a_byte_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow retrieval: no read takes long, and all of them together would never end."""
    monkeypatch.setattr(link, "DRIP_SECONDS", 1)
    with dripping(0.05) as url:
        began = time.monotonic()
        with pytest.raises(NotAvailable) as refused:
            Link(url, patience=ONCE).whole("GET", "x")
        assert refused.value.code == "registry_unreachable"
        into = io.BytesIO()
        arrival = Arrival(into, 1_000_000)
        HttpObjects(Link(url, patience=ONCE)).receive("x", arrival, lambda *_: None)
        assert 0 < arrival.done < 1000
        assert time.monotonic() - began < 10
