"""The read plane: stored objects as bytes, in front of the API and without it.

A raw ASGI application: this is what hosts and caches ask for all the time. Only paths of the shapes that
`object_kinds` knows reach the store, as they stand: a path with an escape, a dot segment or anything else
unusual is simply not there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from anyio.to_thread import run_sync

from plugreg_registry.object_kinds import kind_of
from plugreg_registry.observing import READS
from plugreg_registry.problems import http_problem, problem_bytes, problem_headers, problem_of
from plugreg_registry.small_files import PACKED_FROM
from plugreg_schemas.api import Problem
from plugreg_schemas.errors import NotAvailable, PlugregError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from plugreg_registry.object_kinds import ObjectKind
    from plugreg_registry.small_files import Head, Headers, Ready

_RANGE: Final = re.compile(rb"bytes=([0-9]{0,15})-([0-9]{0,15})")
_EVERYWHERE: Final[Headers] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"ETag, Content-Length, Content-Range, Accept-Ranges"),
    (b"x-content-type-options", b"nosniff"),
]
_METHODS: Final = b"GET, HEAD, OPTIONS"
_TAKES_GZIP: Final = re.compile(
    rb"(?:^|,)\s*gzip\s*(?:;\s*q=(?:1(?:[.]0*)?|0?[.][0-9]*[1-9][0-9]*)\s*)?(?:,|$)"
)
"""A coding with a weight of 0 is refused (RFC 9110, 12.5.3)."""
_EMPTY: Final = {"type": "http.response.body", "body": b""}


class Opened(Protocol):
    """A large object that is open."""

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    def chunks(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes `start` to `end` (not included) in pieces that fit into memory."""
        ...


class Shelf(Protocol):
    """Where the read plane takes objects from. All raise `Temporary` if the store cannot answer now."""

    def ready(self, path: bytes) -> Ready | None:
        """Return what is known for a request path, if it is certain without waiting that it still holds."""
        ...

    async def small(self, path: bytes, key: str, head: Head) -> Ready:
        """Return a small object as it is now.

        Raises:
            NotAvailable: `object_not_found`.
        """
        ...

    def open(self, key: str) -> AbstractAsyncContextManager[Opened]:
        """Open a large object. Raises as `small`."""
        ...


class ReadPlane:
    """Serves the objects of one shelf."""

    def __init__(self, shelf: Shelf, index_max_age: int = 0) -> None:
        self._shelf = shelf
        self._index_max_age = index_max_age

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request."""
        method, path = scope["method"], scope["raw_path"]
        ready = self._shelf.ready(path)
        if ready is not None and method in {"GET", "HEAD"}:
            READS[scope["path"][1], await _send_small(scope, send, ready)] += 1
        else:
            await self._serve(scope, counted(scope, send), path[1:].decode("latin-1"))

    async def _serve(self, scope: Scope, send: Send, key: str) -> None:
        if scope["method"] == "OPTIONS":
            await _answer(send, 204, _preflight())
        elif scope["method"] not in {"GET", "HEAD"}:
            await _problem(send, http_problem(405), [(b"allow", _METHODS)])
        else:
            await self._look(scope, send, key)

    async def _look(self, scope: Scope, send: Send, key: str) -> None:
        kind = kind_of(key, self._index_max_age)
        if kind is None:
            await _problem(send, http_problem(404))
        elif kind.is_bundle:
            await self._serve_bundle(scope, send, key, kind)
        else:
            await self._serve_small(scope, send, key, kind)

    async def _serve_small(self, scope: Scope, send: Send, key: str, kind: ObjectKind) -> None:
        def head(etag: bytes, size: int) -> tuple[bytes, Headers, Headers]:
            etag = _etag(kind) or etag
            content = [(b"content-type", kind.media_type.encode()), (b"content-length", b"%d" % size)]
            vary = [(b"vary", b"Accept-Encoding")] if size >= PACKED_FROM else []
            always = [(b"etag", etag), (b"cache-control", kind.cache.encode()), *vary, *_EVERYWHERE]
            return etag, always, content

        try:
            ready = await self._shelf.small(scope["raw_path"], key, head)
        except PlugregError as error:
            await _refuse(send, error)
            return
        await _send_small(scope, send, ready)

    async def _serve_bundle(self, scope: Scope, send: Send, key: str, kind: ObjectKind) -> None:
        begun = False
        try:
            async with self._shelf.open(key) as opened:
                async for message in _bundle_messages(scope, opened, kind):
                    begun = True
                    await send(message)
        except PlugregError as error:
            if begun:
                raise
            await _refuse(send, error)


class Redirects:
    """Sends those who want a bundle elsewhere. Everything else is served by the read plane."""

    def __init__(self, read_plane: ASGIApp, address: Callable[[str, str], str]) -> None:
        self._read_plane = read_plane
        self._address = address
        """Key and method > where it is to be had. May raise `Temporary`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method, key = scope["method"], scope["raw_path"][1:].decode("latin-1")
        kind = kind_of(key) if method in {"GET", "HEAD"} else None
        if kind is None or not kind.is_bundle:
            await self._read_plane(scope, receive, send)
            return
        send = counted(scope, send)
        try:
            address = await run_sync(self._address, key, method)
        except PlugregError as error:
            await _refuse(send, error)
            return
        headers = [(b"location", address.encode()), (b"cache-control", b"no-store")]
        await _answer(send, 307, [*headers, (b"content-length", b"0"), *_EVERYWHERE])


def counted(scope: Scope, send: Send) -> Send:
    """Return `send`, counting the answer when it begins."""

    async def send_counted(message: Message) -> None:
        if message["type"] == "http.response.start":
            READS[scope["path"][1], message["status"]] += 1
        await send(message)

    return send_counted


async def _bundle_messages(scope: Scope, opened: Opened, kind: ObjectKind) -> AsyncIterator[Message]:
    size, etag = opened.size, _etag(kind)
    headers = [
        (b"etag", etag),
        (b"cache-control", kind.cache.encode()),
        (b"accept-ranges", b"bytes"),
        *_EVERYWHERE,
    ]
    if _matches(_header(scope, b"if-none-match"), etag):
        yield {"type": "http.response.start", "status": 304, "headers": headers}
        yield _EMPTY
        return
    asked = _header(scope, b"range")
    condition = _header(scope, b"if-range")
    span = _span(asked, size) if asked and condition in {b"", etag} else None
    if span == ():
        for message in _problem_messages(_unsatisfiable(size), [(b"content-range", b"bytes */%d" % size)]):
            yield message
        return
    start, end = span or (0, size)
    headers += [(b"content-type", kind.media_type.encode()), (b"content-length", b"%d" % (end - start))]
    if span:
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size)))
    if scope["method"] == "HEAD":
        end = start
    begin: Message = {"type": "http.response.start", "status": 206 if span else 200, "headers": headers}
    chunks = opened.chunks(start, end)
    first = await anext(chunks, b"")  # before the answer begins: now it can still be another one
    yield begin
    yield {"type": "http.response.body", "body": first, "more_body": True}
    async for chunk in chunks:
        yield {"type": "http.response.body", "body": chunk, "more_body": True}
    yield _EMPTY


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


async def _send_small(scope: Scope, send: Send, ready: Ready) -> int:
    """Send an object, or that it is unchanged; return the status."""
    if ready.size >= PACKED_FROM and _TAKES_GZIP.search(_header(scope, b"accept-encoding")):
        ready = await run_sync(ready.packed)
    if _matches(_header(scope, b"if-none-match"), ready.etag):
        await send(ready.unchanged)
        await send(_EMPTY)
        return 304
    await send(ready.start)
    await send(_EMPTY if scope["method"] == "HEAD" else ready.body)
    return 200


def _etag(kind: ObjectKind) -> bytes:
    return f'"{kind.digest}"'.encode() if kind.digest else b""


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
        (b"access-control-allow-headers", b"Authorization, Range, If-Range, If-None-Match"),
        (b"access-control-max-age", b"86400"),
        *_EVERYWHERE,
    ]


async def _refuse(send: Send, error: PlugregError) -> None:
    absent = isinstance(error, NotAvailable)
    await _problem(send, http_problem(404) if absent else problem_of(error))


async def _problem(send: Send, problem: Problem, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    for message in _problem_messages(problem, more):
        await send(message)


def _problem_messages(problem: Problem, more: Iterable[tuple[bytes, bytes]] = ()) -> tuple[Message, ...]:
    body = problem_bytes(problem)
    headers = [(name.encode(), value.encode()) for name, value in problem_headers(problem).items()]
    headers += [(b"content-length", b"%d" % len(body)), *_EVERYWHERE[:2], *more]
    return _messages(problem.status, headers, body)


async def _answer(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    for message in _messages(status, headers, body):
        await send(message)


def _messages(status: int, headers: Headers, body: bytes) -> tuple[Message, ...]:
    return (
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )
