"""The API under `/v1`, and what operators ask: translates between HTTP and the services, decides nothing.

POST /v1/publish                       PublishRequest > 202 PublishSession | 200 Receipt
PUT, HEAD /v1/uploads/{secret}         bytes > 204 with Upload-Offset
POST /v1/uploads/{secret}/commit       > 201 Receipt | 200 Receipt
POST /v1/statements                    StatementRequest > 201 StatementReceipt | 200 StatementReceipt
GET /v1/plugins                        > SearchPage
GET /v1/plugins/{name}[/{version}]     > PluginDocument | one version
GET /v1/resolve                        > which runtime a host uses, and why not the others
GET /v1/changes                        > what has become visible since, waiting for it if asked to
GET /v1/audit                          > the same and who signed it, for a token of the scope `audit`
GET /livez, /readyz, /metrics
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.concurrency import contextmanager_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from plugreg_registry.catalog import Catalog
from plugreg_registry.description import (
    OFFSET,
    RESOLUTION,
    VERSION,
    asks,
    problems,
    searches,
    shows,
    slices,
    takes,
    takes_bytes,
)
from plugreg_registry.feeds import AUDIT, CHANGES, Feeds, read_slice
from plugreg_registry.limits import content_length, read_request
from plugreg_registry.metrics import CONTENT_TYPE, Metrics
from plugreg_registry.problems import (
    http_problem,
    internal_problem,
    problem_bytes,
    problem_headers,
    problem_of,
)
from plugreg_registry.publishing import Publishing
from plugreg_registry.questions import read_question
from plugreg_registry.search_questions import read_search
from plugreg_registry.searching import Finder
from plugreg_registry.uploads import Part, Uploads
from plugreg_registry.waiting import Watch
from plugreg_schemas.api import (
    AuditPage,
    ChangesPage,
    PluginDocument,
    Problem,
    PublishRequest,
    PublishSession,
    Receipt,
    SearchPage,
    StatementReceipt,
    StatementRequest,
)
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import InvalidInput, PlugregError

WRITE_BYTES: Final = 1 << 20
"""Bytes of an upload gathered before they are written: small enough for memory, large enough for disks."""
COMMITS_AT_ONCE: Final = 64
"""Threads of one process that commit, most of them waiting: for their turn, or for the index."""
REQUEST_ID: Final = "plugreg.request_id"
"""Where in the ASGI scope the front puts the id of a request."""

_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Services:
    """What the routes translate for. `check` raises `Temporary` if a store cannot be reached."""

    publishing: Publishing
    uploads: Uploads
    catalog: Catalog
    check: Callable[[], None]
    warnings: Callable[[], tuple[str, ...]]
    """Looks what an operator should know now."""
    store: Callable[[], Mapping[str, Any]]
    """Looks what the store of objects can do."""
    feeds: Feeds
    watch: Watch
    audits: Callable[[Request], Awaitable[None]]
    """Returns if a request comes from an auditor, else raises `NotAllowed`."""
    finder: Finder
    metrics: Metrics


def publish_routes(services: Services) -> APIRouter:
    """Return the routes that write."""
    router = APIRouter(prefix="/v1", tags=["publish"])
    publishing, uploads = services.publishing, services.uploads
    commits = anyio.CapacityLimiter(COMMITS_AT_ONCE)

    @router.post(
        "/publish",
        status_code=202,
        openapi_extra=takes(PublishRequest),
        responses={
            202: {"model": PublishSession},
            200: {"model": Receipt},
            **problems(403, 409, 410, 413, 422, 507),
        },
    )
    async def publish(request: Request) -> Response:
        answer = await run_sync(publishing.begin, await read_request(request, PublishRequest))
        return _json(answer, 200 if isinstance(answer, Receipt) else 202)

    @router.head("/uploads/{secret}", status_code=204, responses={204: OFFSET, **problems(404, 422)})
    async def offset(secret: str) -> Response:
        return _offset(await run_sync(uploads.offset, secret))

    @router.put(
        "/uploads/{secret}",
        status_code=204,
        openapi_extra=takes_bytes(),
        responses={204: OFFSET, **problems(404, 409, 413, 422, 507)},
    )
    async def upload(secret: str, request: Request) -> Response:
        receiving = uploads.receive(secret, _part(request), content_length(request))
        async with contextmanager_in_threadpool(receiving) as writer:
            async for chunk in _gathered(request):
                await run_sync(writer.write, chunk)
            return _offset(writer.offset)

    @router.post(
        "/uploads/{secret}/commit",
        status_code=201,
        responses={
            200: {"model": Receipt},
            201: {"model": Receipt},
            202: {"model": Receipt},
            **problems(403, 404, 409, 410, 413, 422, 507),
        },
    )
    async def commit(secret: str) -> Response:
        receipt = await run_sync(publishing.commit, secret, limiter=commits)
        return _json(receipt, _status(receipt))

    @router.post(
        "/statements",
        status_code=201,
        openapi_extra=takes(StatementRequest),
        responses={
            201: {"model": StatementReceipt},
            200: {"model": StatementReceipt},
            **problems(403, 404, 409, 410, 413, 422, 507),
        },
    )
    async def state(request: Request) -> Response:
        asked = await read_request(request, StatementRequest)
        receipt = await run_sync(publishing.state, asked, limiter=commits)
        return _json(receipt, 200 if receipt.already else 201)

    return router


def _status(receipt: Receipt) -> int:
    if receipt.already:
        return 200
    return 201 if receipt.index == "published" else 202


def query_routes(services: Services) -> APIRouter:
    """Return the routes that only read."""
    router = APIRouter()

    @router.get(
        "/v1/plugins",
        tags=["catalog"],
        openapi_extra=searches(),
        responses={200: {"model": SearchPage}, **problems(401, 403, 422)},
    )
    async def search(request: Request) -> Response:
        question = read_search(request.query_params.multi_items())
        return _json(await run_sync(services.finder.page, question), 200)

    @router.get(
        "/v1/plugins/{name}",
        tags=["catalog"],
        responses={200: {"model": PluginDocument}, **problems(401, 403, 404, 410, 422)},
    )
    async def plugin(name: str) -> Response:
        return _json(await run_sync(services.catalog.plugin, name), 200)

    @router.get(
        "/v1/plugins/{name}/{version}",
        tags=["catalog"],
        responses={**shows(VERSION), **problems(401, 403, 404, 410, 422)},
    )
    async def version(name: str, version: str) -> Response:
        return _json(await run_sync(services.catalog.version, name, version), 200)

    @router.get(
        "/v1/resolve",
        tags=["catalog"],
        openapi_extra=asks(),
        responses={**shows(RESOLUTION), **problems(401, 403, 404, 410, 422)},
    )
    async def resolve(request: Request) -> Response:
        question = read_question(request.query_params.multi_items())
        return _json((await run_sync(services.catalog.resolve, question)).as_dict(), 200)

    @router.get(
        "/v1/changes",
        tags=["catalog"],
        openapi_extra=slices(CHANGES),
        responses={200: {"model": ChangesPage}, **problems(401, 403, 409, 422)},
    )
    async def changes(request: Request) -> Response:
        asked = read_slice(request.query_params.multi_items(), CHANGES)
        page = await run_sync(services.feeds.changes, asked)
        if asked.wait and not page.changes:
            await services.watch.beyond(asked.since.serial, asked.wait, request)
            page = await run_sync(services.feeds.changes, asked)
        return _json(page, 200)

    @router.get(
        "/v1/audit",
        tags=["operation"],
        openapi_extra=slices(AUDIT),
        responses={200: {"model": AuditPage}, **problems(401, 403, 409, 422)},
        dependencies=[Depends(HTTPBearer(auto_error=False, description="a token of the scope `audit`"))],
    )
    async def audit(request: Request) -> Response:
        await services.audits(request)
        asked = read_slice(request.query_params.multi_items(), AUDIT)
        return _json(await run_sync(services.feeds.audit, asked), 200)

    return router


def operation_routes(services: Services) -> APIRouter:
    """Return the routes for those who operate the registry."""
    router = APIRouter()

    @router.get("/livez", tags=["operation"], responses=problems())
    async def live() -> Response:
        return _json({"live": True}, 200)

    @router.get("/readyz", tags=["operation"], responses=problems())
    async def ready() -> Response:
        await run_sync(services.check)
        warnings, store = await run_sync(services.warnings), await run_sync(services.store)
        return _json({"ready": True, "warnings": warnings, "store": dict(store)}, 200)

    @router.get(
        "/metrics",
        tags=["operation"],
        response_class=PlainTextResponse,
        responses=problems(403, 404),
    )
    async def metrics(request: Request) -> Response:
        peer = request.client.host if request.client else ""
        page = await run_sync(services.metrics.page, peer, request.scope["headers"])
        return Response(page, 200, {"cache-control": "no-store"}, media_type=CONTENT_TYPE)

    return router


def answer_problems(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Make every error of the application, which has these routers, a problem document."""

    async def refused(request: Request, error: Exception) -> Response:
        if not isinstance(error, PlugregError):
            raise error
        offset = error.details.get("offset")
        more = {} if offset is None else {"upload-offset": str(offset)}
        return _problem(problem_of(error, _request_id(request)), more)

    async def http(request: Request, error: Exception) -> Response:
        status, headers = (
            (error.status_code, error.headers) if isinstance(error, HTTPException) else (422, None)
        )
        allowed = _methods(routers, request) if status == HTTPStatus.METHOD_NOT_ALLOWED else ""
        more = {"Allow": allowed} if allowed else {}
        return _problem(http_problem(status, _request_id(request)), {**(headers or {}), **more})

    async def gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=400)  # nobody is there to read it

    async def failed(request: Request, _error: Exception) -> Response:
        return _problem(internal_problem(_request_id(request)), {})

    app.add_exception_handler(PlugregError, refused)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, http)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, failed)


async def _gathered(request: Request) -> AsyncIterator[bytes]:
    """Yield the body in chunks worth a write. Of a body that breaks off, what has arrived is yielded too."""
    gathered = bytearray()
    try:
        async for chunk in request.stream():
            gathered += chunk
            if len(gathered) >= WRITE_BYTES:
                yield bytes(gathered)
                gathered.clear()
    except ClientDisconnect:
        if gathered:
            yield bytes(gathered)
        raise
    if gathered:
        yield bytes(gathered)


def _part(request: Request) -> Part | None:
    text = request.headers.get("content-range")
    if text is None:
        return None
    found = _CONTENT_RANGE.fullmatch(text)
    first, last, total = (int(number) for number in found.groups()) if found else (1, 0, 0)
    if last < first:
        raise InvalidInput(
            "upload_range",
            "`Content-Range` is not `bytes FIRST-LAST/SIZE`",
            hint="write for example `bytes 0-99/100`",
        )
    return Part(first, last + 1, total)


def _methods(routers: Sequence[APIRouter], request: Request) -> str:
    """Return the methods of an address, also where each has a route of its own."""
    every = (route for router in routers for route in router.routes)
    routes = [route for route in every if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in routes for method in getattr(route, "methods", None) or ()}))


def _request_id(request: Request) -> str:
    return str(request.scope.get(REQUEST_ID, ""))


def _json(value: BaseModel | dict[str, Any], status: int) -> Response:
    plain = (
        value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(value, BaseModel)
        else value
    )
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(canonical_json(plain), status, headers, media_type="application/json")


def _offset(offset: int) -> Response:
    return Response(status_code=204, headers={"upload-offset": str(offset), "cache-control": "no-store"})


def _problem(problem: Problem, more: dict[str, str]) -> Response:
    return Response(problem_bytes(problem), problem.status, {**problem_headers(problem), **more})
