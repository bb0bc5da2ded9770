"""The composition root: settings > adapters > services > one ASGI application.

prepare    once, before anything is served: folders, tables, registry id, discovery document
compose    the services over their adapters
create     the application of one process
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import io
import os
import secrets
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from sqlalchemy import text

from plugreg_registry import tracing
from plugreg_registry.blobs.folders import PRIVATE, PUBLIC, make_public, set_mode, store_faults
from plugreg_registry.blobs.locks import FileLocks, Presence
from plugreg_registry.catalog import Catalog
from plugreg_registry.ceremony import Trusted, root_ref
from plugreg_registry.chores import doing
from plugreg_registry.connections import affordable
from plugreg_registry.description import describe_problems
from plugreg_registry.draining import Draining
from plugreg_registry.feeds import Feeds
from plugreg_registry.front import LOG, Front, log_to_stderr
from plugreg_registry.gate import KEPT_SECONDS, Doorkeeper, Gate
from plugreg_registry.index import Index
from plugreg_registry.leftovers import Clearing
from plugreg_registry.lifecycle import (
    CATCH_UP_SECONDS,
    JANITOR_SECONDS,
    WARNING_SECONDS,
    Janitor,
    WarningLog,
)
from plugreg_registry.listing import LOOK_SECONDS, Lister
from plugreg_registry.metadata.advisory import ServerLocks
from plugreg_registry.metadata.backlog import DatabaseBacklog
from plugreg_registry.metadata.database import open_database, reading
from plugreg_registry.metadata.identity import registry_id
from plugreg_registry.metadata.journal import DatabaseJournal
from plugreg_registry.metadata.lease import DatabaseLease
from plugreg_registry.metadata.leftovers import DatabaseLeftovers
from plugreg_registry.metadata.migrate import migrate
from plugreg_registry.metadata.releases import DatabaseReleases
from plugreg_registry.metadata.search import DatabaseSearch
from plugreg_registry.metadata.sessions import DatabaseSessions
from plugreg_registry.metadata.tokens import DatabaseTokens
from plugreg_registry.metrics import Metrics, count_connections, count_steps, settle_reads
from plugreg_registry.publishing import Publishing
from plugreg_registry.purging import Purged, Purger
from plugreg_registry.renewal import Renewal, Warnings
from plugreg_registry.routes import Services, answer_problems, operation_routes, publish_routes, query_routes
from plugreg_registry.searching import Finder
from plugreg_registry.settings import read_settings
from plugreg_registry.signed_files import SignedFiles
from plugreg_registry.signers import Keys
from plugreg_registry.stores import open_store, read_plane
from plugreg_registry.throttle import Rate, Throttle
from plugreg_registry.tiers import changed_tiers, remember_tiers
from plugreg_registry.tokens import FRESH_SECONDS
from plugreg_registry.trusted import TrustTarget
from plugreg_registry.uploads import Uploads
from plugreg_registry.version import installed_version
from plugreg_registry.waiting import SHARE, Watch
from plugreg_registry.withdrawal import Withdrawal
from plugreg_schemas.api import DISCOVERY_PATH, Discovery, LimitsDocument, RegistryRef, Trust
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Temporary, UsageError
from plugreg_schemas.trust.sigstore import SigstoreVerifier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from sqlalchemy import Engine
    from starlette.types import ASGIApp

    from plugreg_registry.ports import BlobStore, Lock
    from plugreg_registry.settings import Settings
    from plugreg_registry.signed_files import RootFile
    from plugreg_registry.stores import Store
    from plugreg_schemas.names import Digest


_ARENA_MAX: Final = -8
"""`M_ARENA_MAX` of <malloc.h>."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The services of one process."""

    ref: RegistryRef
    blobs: BlobStore
    index: Index
    services: Services
    janitor: Janitor
    chores: tuple[tuple[float, Callable[[], object]], ...]
    """What is done unasked, at the start and then every so many seconds."""
    trusted: Trusted
    """What the settings say about trust."""
    store: Store
    doorkeeper: Doorkeeper
    draining: Draining
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Who a registry is, and the digest of the newest root of its index."""

    ref: RegistryRef
    root: Digest


def prepare(settings: Settings, wanted_id: str | None = None) -> Prepared:
    """Make the data folder one that can be served, and return who the registry is. It may be repeated.

    Raises:
        UsageError: `registry_id_fixed`, `database_newer`, `data_unusable`; `s3_unusable`, `s3_refused`,
        `s3_bucket_missing`, `s3_unsuited`. Temporary, NoSpace: the store or the database cannot be used.
    """
    make_folders(settings)
    with _alone(settings):
        migrate(settings.database)
        registry = compose(settings, wanted_id)
        try:
            registry.store.abilities()
            _show_tiers(settings, registry.index)
            root = registry.index.found(registry.trusted)
            document = discovery(settings, registry.ref, root).model_dump(mode="json", by_alias=True)
            registry.blobs.put(DISCOVERY_PATH, io.BytesIO(canonical_json(document)))
        finally:
            registry.close()
    return Prepared(registry.ref, root.digest)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Be the only one, of all processes and machines, who makes what is absent."""
    engine = open_database(settings.database)
    try:
        with _locks(settings, engine)("index", "prepare"):
            yield
    finally:
        engine.dispose()


def _locks(settings: Settings, engine: Engine) -> Lock:
    local = FileLocks(settings.locks)
    return local if isinstance(settings.database, Path) else ServerLocks(engine, local)


def make_folders(settings: Settings) -> None:
    """Make the folders of a data folder, as far as they are missing.

    Raises:
        UsageError: `data_unusable`.
    """
    try:
        with store_faults(settings.data):
            for folder in (settings.data, settings.uploads, settings.locks):
                folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
                set_mode(folder, PRIVATE)
            set_mode(settings.data, PUBLIC)  # a web server may pass through to the objects
            for kind in ("", "blobs/sha256", "attestations/sha256", "index/plugins"):
                if settings.bucket is None:
                    make_public(settings.objects / kind, settings.objects)
    except OSError as error:
        raise UsageError(
            "data_unusable",
            f"`{settings.data}` cannot be a data folder: {error.strerror}",
            hint="name a folder with `--data`",
        ) from None


def _show_tiers(settings: Settings, index: Index) -> None:
    """Write the documents of the plugins again whose tier the operator has changed since the last start."""
    changed = changed_tiers(settings.shown_tiers, settings.tiers)
    if not changed:
        return
    index.backlog.again(tuple(changed))
    with store_faults(settings.data):
        remember_tiers(settings.shown_tiers, settings.tiers)


def discovery(settings: Settings, ref: RegistryRef, root: RootFile) -> Discovery:
    """Return the discovery document."""
    return Discovery(
        registry=ref,
        limits=LimitsDocument(**asdict(settings.limits)),
        trust=Trust(kinds=("key", "certificate"), root=root_ref(root)),
        features=("yank", "owners"),
    )


def compose(settings: Settings, wanted_id: str | None = None) -> Registry:
    """Put the services over their adapters."""
    engine = open_database(settings.database, settings.database_connections)
    count_connections(engine)
    ref = RegistryRef(id=registry_id(engine, wanted_id), url=settings.public_url, name=settings.name)
    lock = _locks(settings, engine)
    store = open_store(settings)
    hook = settings.operation.purge
    purger = Purger(hook) if hook else None
    blobs = Purged(store.blobs, purger) if purger else store.blobs
    releases = DatabaseReleases(engine)
    finder = Finder(DatabaseSearch(engine), releases, settings.tiers)
    journal = DatabaseJournal(engine)
    uploads = Uploads(DatabaseSessions(engine), store.spool, _now, settings.sessions)
    presence = Presence(settings.locks)
    files = SignedFiles(blobs, Keys(settings.keys, uris=settings.key_uris))
    index = Index(
        releases=releases,
        backlog=DatabaseBacklog(engine),
        journal=journal,
        blobs=blobs,
        leftovers=DatabaseLeftovers(engine),
        lease=DatabaseLease(engine, presence.name, presence.may_live),
        files=files,
        renewal=Renewal(files),
        withdrawal=Withdrawal(releases, blobs, lock),
        finder=finder,
        tiers=settings.tiers,
        now=_now,
    )
    publishing = Publishing(
        registry=ref,
        admission=settings.admission,
        trusted=TrustTarget(files),
        limits=settings.limits,
        quotas=settings.quotas,
        tiers=settings.tiers,
        releases=releases,
        journal=journal,
        blobs=blobs,
        uploads=uploads,
        index=index,
        lock=lock,
        now=_now,
        secret=lambda: secrets.token_hex(32),
        sigstore=_sigstore(settings),
        direct=store.direct if settings.transfers.direct_uploads else None,
    )

    draining = Draining(settings.operation.drain_seconds)

    def check() -> None:
        draining.check()
        with reading(engine) as connection:
            connection.execute(text("SELECT 1"))
        if not blobs.has(DISCOVERY_PATH):
            raise Temporary("store_unavailable", "the store of objects does not have the discovery document")

    def look_for_warnings() -> tuple[str, ...]:
        return (*_warnings(settings), *warnings.now(_now()))

    def close() -> None:
        presence.leave()
        if purger is not None:
            purger.close()
        engine.dispose()
        store.close()

    private = settings.readers == "tokens"
    doorkeeper = Doorkeeper(DatabaseTokens(engine), _now, KEPT_SECONDS if private else 0)
    trusted = Trusted(ref.id, settings.admins, settings.trust_config)
    warnings = Warnings(files, trusted)
    services = Services(
        publishing,
        uploads,
        Catalog(releases, settings.tiers, index),
        check,
        look_for_warnings,
        store.abilities,
        Feeds(journal),
        Watch(journal.newest, max(1, affordable(settings.connections) // SHARE)),
        lambda request: doorkeeper.admit(request.scope["headers"], "audit"),
        finder,
        Metrics(settings.operation.metrics, index, uploads.sessions, check, look_for_warnings, _now),
    )
    janitor = Janitor(uploads.sessions, uploads.spool, index, store.sweep, _now)
    chores: tuple[tuple[float, Callable[[], object]], ...] = (
        (JANITOR_SECONDS, janitor.round),
        (CATCH_UP_SECONDS, index.drain),
        (CATCH_UP_SECONDS, finder.round),
        (LOOK_SECONDS, Lister(index).round),
        (JANITOR_SECONDS, Clearing(index).round),
        (WARNING_SECONDS, WarningLog(services.warnings, LOG).say),
        (JANITOR_SECONDS, doorkeeper.note_uses),
        (CATCH_UP_SECONDS, settle_reads),
        *(((FRESH_SECONDS, doorkeeper.refresh),) if private else ()),
    )
    return Registry(ref, blobs, index, services, janitor, chores, trusted, store, doorkeeper, draining, close)


def _sigstore(settings: Settings) -> SigstoreVerifier:
    if not settings.trust_config:
        return SigstoreVerifier()
    return SigstoreVerifier(lambda: settings.trust_config)


def _share_heaps() -> None:
    """Let threads share two heaps of the C library. By default each has one, and gives nothing back."""
    with suppress(AttributeError, OSError):  # another C library, which does not do so
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def application(settings: Settings) -> ASGIApp:
    """Return the ASGI application over a prepared data folder."""
    _share_heaps()
    count_steps()
    registry = compose(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        registry.draining.listen()
        end_tracing = tracing.start(os.environ)
        async with doing(registry.chores):
            gc.collect()
            gc.freeze()  # what is here by now stays; collecting it again and again would slow every request
            yield
        await asyncio.to_thread(registry.close)
        await asyncio.to_thread(end_tracing)

    api = FastAPI(
        title="plugreg registry",
        version=installed_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,  # what a document leaves out is its default
        telemetry={"tracing": False, "metrics": False, "logs": False},  # it would show secret paths
    )
    routers = [make(registry.services) for make in (publish_routes, query_routes, operation_routes)]
    for router in routers:
        api.include_router(router)
    answer_problems(api, routers)
    describe_problems(api)
    plane: ASGIApp = read_plane(settings, registry.store)
    asked: ASGIApp = api
    if settings.readers == "tokens":
        plane, asked = Gate(plane, registry.doorkeeper), Gate(asked, registry.doorkeeper)
    if settings.requests_per_minute:
        asked = Throttle(asked, Rate(settings.requests_per_minute), settings.trusted_proxies)
    return Front(plane, asked, affordable(settings.connections))


def create() -> ASGIApp:
    """Return the application of a worker process; its settings come from the environment."""
    log_to_stderr()
    return application(read_settings(os.environ))


def _now() -> datetime:
    """Return the time to the second: it is repeated in every version of every document."""
    return datetime.now(UTC).replace(microsecond=0)


def _warnings(settings: Settings) -> tuple[str, ...]:
    open_to_all = settings.admission.rule == "anyone" and bool(settings.public_url)
    around_the_gate = settings.readers == "tokens" and settings.transfers.downloads == "cdn"
    shown = {"admission_anyone": open_to_all, "downloads_without_token": around_the_gate}
    return tuple(word for word, holds in shown.items() if holds)
