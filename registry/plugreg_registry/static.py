"""The read plane: stored objects as bytes, in front of the API and without it.

    /.well-known/plugreg.json   /index/...                no-cache, strong ETag of the content
    /blobs/sha256/<hex>         /attestations/sha256/<hex>.json    a year, immutable, ETag is the name

A raw ASGI application: this is what hosts and caches ask for all the time. Only paths of the four shapes
above reach the disk, as they stand: a path with an escape, a dot segment or anything else unusual is simply
not there.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg_registry.problems import http_problem, problem_bytes, problem_headers
from plugreg_registry.small_files import Headers, SmallFiles
from plugreg_schemas.api import Problem
from plugreg_schemas.bundle import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from plugreg_registry.small_files import Ready

CHUNK: Final = 1 << 20
IMMUTABLE: Final = b"public, max-age=31536000, immutable"

_SHAPES: Final = re.compile(
    rb"/(?:(?P<blob>blobs/sha256/(?P<blob_hex>[0-9a-f]{64}))"
    rb"|(?P<attestation>attestations/sha256/(?P<attestation_hex>[0-9a-f]{64})[.]json)"
    rb"|(?P<document>[.]well-known/plugreg[.]json|index(?:/[a-z0-9][a-z0-9._-]{0,99}){1,3}[.]json))"
)
_RANGE: Final = re.compile(rb"bytes=([0-9]{0,15})-([0-9]{0,15})")
_EVERYWHERE: Final[Headers] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag, Content-Length, Content-Range, Accept-Ranges"),
    (b"x-content-type-options", b"nosniff"),
]
_METHODS: Final = b"GET, HEAD, OPTIONS"
_EMPTY: Final = {"type": "http.response.body", "body": b""}


@dataclass(frozen=True, slots=True)
class _Target:
    """What a path asks for: the key of the object, and what is known of it without looking."""

    key: str
    etag: bytes
    """Empty where the content decides."""
    kind: bytes
    cache: bytes
    ranges: bool


class ReadPlane:
    """Serves the objects in one folder."""

    def __init__(self, folder: Path, index_max_age: int = 0) -> None:
        self._folder = str(folder)
        self._small = SmallFiles()
        self._mutable = f"public, max-age={index_max_age}".encode() if index_max_age else b"no-cache"

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request."""
        method, path = scope["method"], scope["raw_path"]
        ready = self._small.ready(path)
        if ready is not None and method in {"GET", "HEAD"}:
            await _send_small(scope, send, ready)
        elif method == "OPTIONS":
            await _answer(send, 204, _preflight())
        elif method not in {"GET", "HEAD"}:
            await _problem(send, http_problem(405), [(b"allow", _METHODS)])
        elif (target := self._target(path)) is None:
            await _problem(send, http_problem(404))
        elif target.ranges:
            await self._serve_blob(scope, send, target)
        else:
            await self._serve_small(scope, send, target)

    def _target(self, path: bytes) -> _Target | None:
        found = _SHAPES.fullmatch(path)
        if found is None:
            return None
        key = path[1:].decode("ascii")
        if found["blob"]:
            etag = b'"' + found["blob_hex"] + b'"'
            return _Target(key, etag, MEDIA_TYPE.encode(), IMMUTABLE + b", no-transform", ranges=True)
        if found["attestation"]:
            etag = b'"' + found["attestation_hex"] + b'"'
            return _Target(key, etag, b"application/json", IMMUTABLE, ranges=False)
        return _Target(key, b"", b"application/json", self._mutable, ranges=False)

    async def _serve_small(self, scope: Scope, send: Send, target: _Target) -> None:
        try:
            ready = self._read_small(scope["raw_path"], target)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            await _problem(send, http_problem(404))
            return
        await _send_small(scope, send, ready)

    def _read_small(self, path: bytes, target: _Target) -> Ready:
        def head(etag: bytes, size: int) -> tuple[bytes, Headers, Headers]:
            always = [(b"etag", target.etag or etag), (b"cache-control", target.cache), *_EVERYWHERE]
            content = [(b"content-type", target.kind), (b"content-length", b"%d" % size)]
            return target.etag or etag, always, content

        return self._small.read(path, f"{self._folder}/{target.key}", head)

    async def _serve_blob(self, scope: Scope, send: Send, target: _Target) -> None:
        try:
            descriptor = os.open(f"{self._folder}/{target.key}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            await _problem(send, http_problem(404))
            return
        try:
            await _send_blob(scope, send, target, descriptor)
        finally:
            os.close(descriptor)


async def _send_blob(scope: Scope, send: Send, target: _Target, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    headers = [
        (b"etag", target.etag),
        (b"cache-control", target.cache),
        (b"accept-ranges", b"bytes"),
        *_EVERYWHERE,
    ]
    if _matches(_header(scope, b"if-none-match"), target.etag):
        await _answer(send, 304, headers)
        return
    asked = _header(scope, b"range")
    condition = _header(scope, b"if-range")
    span = _span(asked, size) if asked and condition in {b"", target.etag} else None
    if span == ():
        await _problem(send, _unsatisfiable(size), [(b"content-range", b"bytes */%d" % size)])
        return
    start, end = span or (0, size)
    headers += [(b"content-type", target.kind), (b"content-length", b"%d" % (end - start))]
    if span:
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size)))
    await send({"type": "http.response.start", "status": 206 if span else 200, "headers": headers})
    if scope["method"] == "HEAD":
        start = end
    while start < end:
        chunk = await asyncio.to_thread(os.pread, descriptor, min(CHUNK, end - start), start)
        if not chunk:
            raise OSError(f"{target.key} has become shorter while it was read")
        start += len(chunk)
        await send({"type": "http.response.body", "body": chunk, "more_body": start < end})
    if start == 0 or scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})


def _span(asked: bytes, size: int) -> tuple[int, int] | tuple[()] | None:
    """Return start and end of the one range asked for, () if it lies outside, None if all is to be sent.

    Several ranges, other units and nonsense are answered with all (RFC 9110, 14.2: a server may ignore them).
    """
    found = _RANGE.fullmatch(asked.strip())
    if found is None or found[0] == b"bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        length = min(int(last), size)
        return (size - length, size) if length else ()
    start, end = int(first), min(int(last) + 1, size) if last else size
    if last and int(last) < start:
        return None
    return (start, end) if start < size else ()


async def _send_small(scope: Scope, send: Send, ready: Ready) -> None:
    if _matches(_header(scope, b"if-none-match"), ready.etag):
        await send(ready.unchanged)
        await send(_EMPTY)
        return
    await send(ready.start)
    await send(_EMPTY if scope["method"] == "HEAD" else ready.body)


def _header(scope: Scope, name: bytes) -> bytes:
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def _matches(condition: bytes, etag: bytes) -> bool:
    if not condition:
        return False
    return condition == b"*" or any(tag.strip().removeprefix(b"W/") == etag for tag in condition.split(b","))


def _unsatisfiable(size: int) -> Problem:
    return Problem(
        title="Range Not Satisfiable", status=416, code="range_invalid", detail=f"the object has {size} bytes"
    )


def _preflight() -> Headers:
    return [
        (b"allow", _METHODS),
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", b"Range, If-Range, If-None-Match"),
        (b"access-control-max-age", b"86400"),
        *_EVERYWHERE,
    ]


async def _problem(send: Send, problem: Problem, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    body = problem_bytes(problem)
    headers = [(name.encode(), value.encode()) for name, value in problem_headers(problem).items()]
    headers += [(b"content-length", b"%d" % len(body)), *_EVERYWHERE[:2], *more]
    await _answer(send, problem.status, headers, body)


async def _answer(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
