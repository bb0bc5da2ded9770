"""A real HTTP server on loopback whose answers a test writes: one function from request to answer.

with serving(lambda request: Answer(200, b"...")) as server:
    Remote(server.url, Terms(home))
    assert server.paths == ["/.well-known/plugreg.json"]
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from plugreg_schemas.documents import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    number: int
    """How many requests with this method and path came before."""


@dataclass(frozen=True)
class Answer:
    """`content` is what is announced; of it only `sent` bytes go out before the connection ends."""

    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: int | None = None
    silent: bool = False
    """End the connection without a word."""
    wire: bytes = b""
    """Send exactly this, whatever else is said, and end the connection."""


@dataclass
class Server:
    url: str
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    """Bytes of content that went out."""

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def of(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(status, canonical_json(value), {"Content-Type": "application/json"})


def problem(status: int, code: str, **more: Any) -> Answer:
    value = {"title": "t", "status": status, "code": code, "detail": f"it is {code}", **more}
    return Answer(status, canonical_json(value), {"Content-Type": "application/problem+json"})


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            with lock:
                number = len(server.of(self.command, self.path))
                request = Request(self.command, self.path, dict(self.headers), body, number)
                server.requests.append(request)
            self.reply(answer(request))

        def reply(self, said: Answer) -> None:
            if said.silent or said.wire:
                self.wfile.write(said.wire)
                self.close_connection = True
                return
            self.send_response(said.status)
            for name, value in {
                "Content-Length": str(len(said.content)),
                "Connection": "close",
                **said.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            content = b"" if self.command == "HEAD" else said.content[: said.sent]
            for start in range(0, len(content), 1 << 14):
                try:
                    self.wfile.write(content[start : start + (1 << 14)])
                except OSError:
                    break
                server.sent += len(content[start : start + (1 << 14)])
            self.close_connection = True

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_one  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the tests' output clean."""

    lock = threading.Lock()
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = Server(f"http://127.0.0.1:{http.server_port}/")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
