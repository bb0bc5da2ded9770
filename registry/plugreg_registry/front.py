"""The first thing a request meets: the read plane for static paths, the API for the rest.

It answers so many requests at once and no more, so that what a process may hold is bounded; whether it lives
is answered always. For the API it gives the request an id, writes one line to the log when it is answered,
and is the last net: what nobody caught becomes a problem document that tells nothing, and a log entry that
tells all. Secrets of uploads stand in paths, so paths are logged without them. The read plane is counted and
not logged: that is for whatever stands in front of it.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from plugreg_registry.metrics import REQUESTS
from plugreg_registry.observing import CURRENT_REQUEST, OTHER, REQUEST, step
from plugreg_registry.problems import internal_problem, problem_bytes, problem_headers, problem_of
from plugreg_registry.routes import REQUEST_ID
from plugreg_registry.static import counted
from plugreg_schemas.errors import PlugregError, Temporary

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from plugreg_schemas.api import Problem

LOG: Final = logging.getLogger("plugreg.registry")
LIVE: Final = "/livez"
STATIC: Final = ("/index/", "/blobs/", "/attestations/", "/.well-known/")
MAX_HEADER: Final = 128
"""Characters of an id that a peer gave its request."""
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._:/=+-]")
_SECRET: Final = re.compile(r"(/uploads/)[^/]*")


class Front:
    """The registry as one ASGI application."""

    def __init__(self, read_plane: ASGIApp, api: ASGIApp, at_once: int) -> None:
        self._read_plane = read_plane
        self._api = api
        self._at_once = at_once
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the application's lifespan."""
        if scope["type"] != "http":
            await self._api(scope, receive, send)
        elif self._requests >= self._at_once and scope["path"] != LIVE:
            await _refuse(scope, send)
        else:
            self._requests += 1
            try:
                await self._admit(scope, receive, send)
            finally:
                self._requests -= 1

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(STATIC):
            await self._static(scope, receive, send)
        else:
            await self._ask(scope, receive, send)

    async def _static(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._read_plane(scope, receive, send)
        except Exception:
            answer = _Answer(counted(scope, send), scope)
            LOG.exception("internal error", extra={"fields": answer.fields()})
            with suppress(RuntimeError):  # the answer had begun, and the server cuts it off
                await answer.fail(internal_problem(answer.id))

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send, scope)
        CURRENT_REQUEST.set(answer.id)  # the server runs every request in a context of its own
        with step(REQUEST, _header(scope, b"traceparent"), method=scope["method"], id=answer.id) as request:
            try:
                await self._api(scope, receive, answer.send)
            except PlugregError as error:  # its body is not read, so the connection ends with it
                await answer.fail(problem_of(error, answer.id), (b"connection", b"close"))
            except Exception:
                LOG.exception("internal error", extra={"fields": answer.fields()})
                await answer.fail(internal_problem(answer.id))
            finally:
                request.facts |= {
                    "route": getattr(scope.get("route"), "path", OTHER),
                    "status": answer.status,
                }
            LOG.info("request", extra={"fields": answer.fields()})


async def _refuse(scope: Scope, send: Send) -> None:
    """Answer a request that is one too many; its body is not read, so the connection ends with it."""
    answer = _Answer(send, scope)
    busy = Temporary(
        "registry_busy", "the registry answers as many requests as it can", hint="try again in a moment"
    )
    await answer.fail(problem_of(busy, answer.id), (b"connection", b"close"))
    REQUESTS.labels(OTHER, OTHER, answer.status).inc()
    LOG.warning("refused", extra={"fields": answer.fields()})


class _Answer:
    """Watches an answer being sent."""

    __slots__ = ("_scope", "_send", "_started", "id", "status")

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self.status = 0
        self._started = time.monotonic()
        self.id = scope[REQUEST_ID] = secrets.token_hex(8)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self.id.encode())]
        await self._send(message)

    async def fail(self, problem: Problem, *more: tuple[bytes, bytes]) -> None:
        """Answer with a problem, if nothing was answered yet."""
        if self.status:
            return
        headers = [(name.encode(), value.encode()) for name, value in problem_headers(problem).items()]
        await self.send(
            {"type": "http.response.start", "status": problem.status, "headers": [*headers, *more]}
        )
        await self.send({"type": "http.response.body", "body": problem_bytes(problem)})

    def fields(self) -> dict[str, Any]:
        theirs = {"peer_request_id": given} if (given := _header(self._scope, b"x-request-id")) else {}
        return {
            "request_id": self.id,
            **theirs,
            "method": self._scope["method"],
            "path": _SECRET.sub(r"\1...", self._scope["path"])[:300],
            "status": self.status,
            "ms": round((time.monotonic() - self._started) * 1000, 1),
        }


def _header(scope: Scope, name: bytes) -> str:
    """Return a header that a peer sends along for its own log, without what could be anything else."""
    value = next((value for key, value in scope["headers"] if key == name), b"")
    return _UNUSUAL.sub("", value[:MAX_HEADER].decode("latin-1"))


class _Lines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": _SECRET.sub(r"\1...", record.getMessage()),
            **({"request_id": id_now} if (id_now := CURRENT_REQUEST.get()) else {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = _SECRET.sub(r"\1...", self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr() -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
