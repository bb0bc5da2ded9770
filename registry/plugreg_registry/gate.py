"""The gate in front of what not everybody may read.

    Doorkeeper   knows the tokens: read again every few seconds, so that a removed one is soon worth nothing
    Gate         an ASGI application behind it, whose answers no shared cache keeps

A token that is not known is looked for in the database at once, by one look for all who wait: a new one is
good from the first second, and who guesses costs little. While the database cannot be read, tokens that were
good stay so for a while: the read plane does not go down with it. Publishing needs no token, because a
signature is more than that; neither does whoever asks whether the registry lives.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Final

from anyio.to_thread import run_sync

from plugreg_registry.problems import problem_bytes, problem_headers, problem_of
from plugreg_registry.routes import REQUEST_ID
from plugreg_registry.tokens import by_hash, check, hash_of, secret_in
from plugreg_schemas.errors import PlugregError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from plugreg_registry.ports import Tokens
    from plugreg_registry.records import Scope as TokenScope
    from plugreg_registry.records import Token

    Headers = Iterable[tuple[bytes, bytes]]

KEPT_SECONDS: Final = 600
"""How long known tokens are good while the database cannot be read."""
OPEN: Final = ("/livez", "/readyz", "/metrics", "/v1/publish", "/v1/statements")
"""`/metrics` has a rule of its own."""
UPLOADS: Final = "/v1/uploads/"
"""Their addresses are secrets themselves."""


class Doorkeeper:
    """Knows the tokens. `kept` is for how many seconds it believes what it has read; 0 is not at all."""

    def __init__(self, tokens: Tokens, now: Callable[[], datetime], kept: float = 0) -> None:
        self._tokens = tokens
        self._now = now
        self._kept = kept
        self._known: Mapping[str, Token] = {}
        self._read = float("-inf")
        self._turn = asyncio.Lock()
        self._reading = threading.Lock()
        self._uses: dict[str, datetime] = {}

    async def admit(self, headers: Headers, scope: TokenScope) -> None:
        """Return if a request brings a token that is good for this.

        Raises:
            Unauthenticated: `token_missing`, `token_invalid`. NotAllowed: `token_scope`. Temporary: the
            database cannot be read.
        """
        secret = secret_in(headers)
        token = check(secret, await self._find(hash_of(secret)), scope, self._now())
        self._uses[token.id] = self._now()

    def refresh(self) -> None:
        """Read all tokens again. Raises `Temporary`."""
        with self._reading:  # what was read later must not give way to what was read before
            began = time.monotonic()
            self._known = by_hash(self._tokens.all())
            self._read = began

    def note_uses(self) -> None:
        """Write down when tokens were used. Raises `Temporary`."""
        uses, self._uses = self._uses, {}
        self._tokens.note_uses(uses)

    async def _find(self, wanted: str) -> Token | None:
        came = time.monotonic()
        if wanted not in self._known or came - self._read > self._kept:
            async with self._turn:
                if self._read < came:  # else somebody has read them while this one waited
                    await run_sync(self.refresh)
        return self._known.get(wanted)


class Gate:
    """An application that only those may read who have a token."""

    def __init__(self, inner: ASGIApp, doorkeeper: Doorkeeper) -> None:
        self._inner = inner
        self._doorkeeper = doorkeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the application's lifespan."""
        if scope["type"] != "http" or _is_open(scope):
            await self._inner(scope, receive, send)
            return
        try:
            await self._doorkeeper.admit(scope["headers"], "read")
        except PlugregError as error:
            await _refuse(scope, send, error)
            return

        async def send_privately(message: Message) -> None:
            begins = message["type"] == "http.response.start"
            await send({**message, "headers": _private(message["headers"])} if begins else message)

        await self._inner(scope, receive, send_privately)


def _is_open(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "OPTIONS" or path in OPEN or path.startswith(UPLOADS)


def _private(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer that only who asked may keep."""
    cache = dict(headers).get(b"cache-control", b"")
    others = [header for header in headers if header[0] != b"cache-control"]
    return [*others, (b"cache-control", _kept_privately(cache)), (b"vary", b"Authorization")]


def _kept_privately(cache: bytes) -> bytes:
    words = [word.strip() for word in cache.split(b",")]
    if b"no-store" in words:
        return cache
    return b", ".join([b"private", *(word for word in words if word not in {b"", b"public"})])


async def _refuse(scope: Scope, send: Send, error: PlugregError) -> None:
    problem = problem_of(error, str(scope.get(REQUEST_ID, "")))
    headers = [(name.encode(), value.encode()) for name, value in problem_headers(problem).items()]
    headers += [(b"vary", b"Authorization"), (b"access-control-allow-origin", b"*")]
    body = problem_bytes(problem)
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
