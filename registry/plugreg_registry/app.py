"""The composition root: settings > adapters > services > one ASGI application.

prepare    once, before anything is served: folders, tables, registry id, discovery document
compose    the services over their adapters
create     the application of one process
"""

from __future__ import annotations

import asyncio
import gc
import io
import os
import secrets
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastapi import FastAPI
from sqlalchemy import text

from plugreg_registry.blobs.filesystem import FilesystemBlobs
from plugreg_registry.blobs.folders import PRIVATE, PUBLIC, make_public, set_mode, store_faults
from plugreg_registry.blobs.locks import FileLocks
from plugreg_registry.blobs.spool import FolderSpool
from plugreg_registry.catalog import Catalog
from plugreg_registry.connections import affordable
from plugreg_registry.front import LOG, Front, log_to_stderr
from plugreg_registry.index import Index
from plugreg_registry.lifecycle import JANITOR_SECONDS, Janitor
from plugreg_registry.metadata.database import open_database, reading
from plugreg_registry.metadata.identity import registry_id
from plugreg_registry.metadata.journal import DatabaseJournal
from plugreg_registry.metadata.migrate import migrate
from plugreg_registry.metadata.releases import DatabaseReleases
from plugreg_registry.metadata.sessions import DatabaseSessions
from plugreg_registry.publishing import Publishing
from plugreg_registry.routes import Services, answer_problems, publish_routes, query_routes
from plugreg_registry.settings import read_settings
from plugreg_registry.static import ReadPlane
from plugreg_registry.tiers import changed_tiers, remember_tiers
from plugreg_registry.uploads import Uploads
from plugreg_registry.version import installed_version
from plugreg_schemas.api import DISCOVERY_PATH, Discovery, LimitsDocument, RegistryRef, Trust
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import PlugregError, Temporary, UsageError
from plugreg_schemas.trust.sigstore import SigstoreVerifier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp

    from plugreg_registry.settings import Settings


@dataclass(frozen=True, slots=True)
class Registry:
    """The services of one process."""

    ref: RegistryRef
    blobs: FilesystemBlobs
    index: Index
    services: Services
    janitor: Janitor
    close: Callable[[], None]


def prepare(settings: Settings, wanted_id: str | None = None) -> RegistryRef:
    """Make the data folder one that can be served, and return who the registry is. It may be repeated.

    Raises:
        UsageError: `registry_id_fixed`, `database_newer`, `data_unusable`.
        Temporary, NoSpace: the folder or the database cannot be used.
    """
    _make_folders(settings)
    with FileLocks(settings.locks)("index", "prepare"):
        migrate(settings.database)
        registry = compose(settings, wanted_id)
        try:
            document = discovery(settings, registry.ref).model_dump(mode="json", by_alias=True)
            registry.blobs.put(DISCOVERY_PATH, io.BytesIO(canonical_json(document)))
            _show_tiers(settings, registry.index)
        finally:
            registry.close()
    return registry.ref


def _make_folders(settings: Settings) -> None:
    try:
        with store_faults(settings.data):
            for folder in (settings.data, settings.uploads, settings.locks):
                folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
                set_mode(folder, PRIVATE)
            set_mode(settings.data, PUBLIC)  # a web server may pass through to the objects
            for kind in ("", "blobs/sha256", "attestations/sha256", "index/plugins"):
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
    for name in changed:
        index.publish(name)
    with store_faults(settings.data):
        remember_tiers(settings.shown_tiers, settings.tiers)


def discovery(settings: Settings, ref: RegistryRef) -> Discovery:
    """Return the discovery document."""
    return Discovery(
        registry=ref,
        limits=LimitsDocument(**asdict(settings.limits)),
        trust=Trust(kinds=("key", "certificate")),
        features=("yank", "owners"),
    )


def compose(settings: Settings, wanted_id: str | None = None) -> Registry:
    """Put the services over their adapters."""
    engine = open_database(settings.database)
    ref = RegistryRef(id=registry_id(engine, wanted_id), url=settings.public_url, name=settings.name)
    lock = FileLocks(settings.locks)
    blobs = FilesystemBlobs(settings.objects)
    releases = DatabaseReleases(engine)
    journal = DatabaseJournal(engine)
    uploads = Uploads(DatabaseSessions(engine), FolderSpool(settings.uploads), _now, settings.sessions)
    index = Index(releases, journal, blobs, lock, settings.tiers)
    publishing = Publishing(
        registry=ref,
        admission=settings.admission,
        limits=settings.limits,
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
    )

    def check() -> None:
        with reading(engine) as connection:
            connection.execute(text("SELECT 1"))
        if not blobs.has(DISCOVERY_PATH):
            raise Temporary("store_unavailable", "the store of objects does not have the discovery document")

    services = Services(publishing, uploads, Catalog(releases, settings.tiers), check, _warnings(settings))
    janitor = Janitor(uploads.sessions, uploads.spool, index, blobs.sweep, _now)
    return Registry(ref, blobs, index, services, janitor, engine.dispose)


def _sigstore(settings: Settings) -> SigstoreVerifier:
    if not settings.trust_config:
        return SigstoreVerifier()
    return SigstoreVerifier(lambda: settings.trust_config)


def application(settings: Settings) -> ASGIApp:
    """Return the ASGI application over a prepared data folder."""
    registry = compose(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(registry.janitor.round)
        rounds = asyncio.create_task(_keep_house(registry.janitor))
        gc.collect()
        gc.freeze()  # what is here by now stays; collecting it again and again would slow every request
        yield
        rounds.cancel()
        registry.close()

    api = FastAPI(
        title="plugreg registry",
        version=installed_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api.include_router(publish_routes(registry.services))
    api.include_router(query_routes(registry.services))
    answer_problems(api)
    read_plane = ReadPlane(settings.objects, settings.index_max_age)
    return Front(read_plane, api, affordable(settings.connections))


def create() -> ASGIApp:
    """Return the application of a worker process; its settings come from the environment."""
    log_to_stderr()
    return application(read_settings(os.environ))


async def _keep_house(janitor: Janitor) -> None:
    while True:
        await asyncio.sleep(JANITOR_SECONDS)
        try:
            await asyncio.to_thread(janitor.round)
        except PlugregError as error:
            LOG.warning("the janitor will try again: %s", error)


def _now() -> datetime:
    """Return the time to the second: it is repeated in every version of every document."""
    return datetime.now(UTC).replace(microsecond=0)


def _warnings(settings: Settings) -> tuple[str, ...]:
    if settings.admission.rule == "anyone" and settings.public_url:
        return ("admission_anyone",)
    return ()
