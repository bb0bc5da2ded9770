"""Bodies of requests, counted while they arrive: what is over a limit is refused before it is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel

from plugreg_schemas.errors import InvalidInput, TooLarge
from plugreg_schemas.fields import read_model

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_JSON: Final = 2 << 20
"""Bytes of a JSON body: a signed statement is at most 1 MiB."""

_Model = TypeVar("_Model", bound=BaseModel)


def content_length(request: Request) -> int | None:
    """Return the announced size of the body, or None.

    Raises:
        InvalidInput: `content_length_invalid`.
    """
    text = request.headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput("content_length_invalid", "`Content-Length` is not a number")
    return int(text[:20])


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        TooLarge: `body_too_large`: announced or found to be over `limit`.
    """
    length = content_length(request)
    if length is not None and length > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > limit:
            raise _too_large(limit)
        body += chunk
    return bytes(body)


async def read_request(request: Request, kind: type[_Model]) -> _Model:
    """Return the JSON body as a model.

    Raises:
        TooLarge: `body_too_large`.
        InvalidInput: `request_invalid` or a JSON fault, with every fault of the body.
    """
    return read_model(kind, await read_body(request, MAX_JSON), code="request_invalid")


def _too_large(limit: int) -> TooLarge:
    return TooLarge("body_too_large", f"the body of this request is at most {limit} bytes")
