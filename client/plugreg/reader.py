"""One registry as those see it who install from it: what its signed index vouches for, and its bundles.

    discovery > signed index > document, administrators, revocations
    attestation, bundle                                             by digest

A registry is reached over HTTP, as a folder or an export of it (`file://`), or with `--offline` through what
this machine kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, Final

from plugreg.arrival import Arrival
from plugreg.export_file import ExportObjects, is_file
from plugreg.index.folder import IndexFolder, registry_at
from plugreg.link import LINK_CODES, PATIENT, Link, Patience
from plugreg.objects import FILE_SCHEME, FolderObjects, HttpObjects, NoObjects, folder_of, is_missing, offline
from plugreg_schemas.api import API_VERSION, DISCOVERY_PATH, Discovery, Locations, RegistryRef
from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NotAvailable,
    Temporary,
    TooLarge,
    Unverifiable,
)
from plugreg_schemas.fields import read_model
from plugreg_schemas.trust.envelope import MAX_ENVELOPE
from plugreg_schemas.trust.material import public_trust_config
from plugreg_schemas.trust.sigstore import SigstoreVerifier

if TYPE_CHECKING:
    from datetime import datetime

    from plugreg.histories import Histories
    from plugreg.index.signed import SignedIndex
    from plugreg.index.terms import Terms
    from plugreg.index.whole import Whole
    from plugreg.network import Network
    from plugreg.objects import Objects
    from plugreg_schemas.index import Admins, RevocationList
    from plugreg_schemas.listing import Listed
    from plugreg_schemas.names import Digest

Progress = Callable[[str, int, int], None]
"""Called with what is being moved, the bytes done and the bytes in all."""

CLIENT_LIMITS: Final = DEFAULT_LIMITS.scaled(4)
"""What this client accepts at most, whatever a registry allows."""
ONCE: Final = Patience(tries=1)


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


class Reader:
    """A registry by its URL, not contacted before something is asked of it.

    `expected_id` is the id known for this URL: another one stops every operation (`registry_changed`).
    `sigstore` judges the certificates of signers; without it the registry's own trust configuration does, or
    else the public one. `network` is the way there, and `token` says there who asks.
    """

    def __init__(  # noqa: PLR0913 - all but two have a default
        self,
        url: str,
        terms: Terms,
        *,
        expected_id: str = "",
        name: str = "",
        insecure_http: bool = False,
        patience: Patience = PATIENT,
        sigstore: SigstoreVerifier | None = None,
        network: Network | None = None,
        token: str = "",
    ) -> None:
        self._terms = terms
        self._expected_id = expected_id
        self._name = name
        self._sigstore = sigstore
        self._index: SignedIndex | None = None
        self._link: Link | None = None
        self._is_copy = url.startswith(FILE_SCHEME)
        self._objects: Objects
        if self._is_copy:
            folder = folder_of(url)
            self.url = folder.as_uri().rstrip("/") + "/"
            self._objects = ExportObjects(folder) if is_file(folder) else FolderObjects(folder)
            self._patience = ONCE
        else:
            self._link = Link(
                url, insecure_http=insecure_http, patience=patience, network=network, token=token
            )
            self.url, self._patience = self._link.url, patience
            self._objects = NoObjects(self.url) if terms.offline else HttpObjects(self._link)
        self.histories: Histories | None = None

    # who it is

    @cached_property
    def discovery(self) -> Discovery:
        """The registry's own description of itself.

        Raises:
            NotAvailable: `not_a_registry`, `registry_unreachable`, `tls_failed`, `api_version_unsupported`,
                `offline`.
            IntegrityError: `registry_changed`: another registry answers at this URL.
        """
        try:
            found = read_model(
                Discovery, self._objects.read(DISCOVERY_PATH), code="discovery_invalid", file=DISCOVERY_PATH
            )
        except (NotAvailable, InvalidInput) as error:
            if error.code in LINK_CODES:
                raise
            raise NotAvailable(
                "not_a_registry",
                f"there is no plugreg registry at {self.url}",
                hint="is the address right?",
                findings=error.findings,
            ) from None
        if API_VERSION not in found.api_versions:
            raise NotAvailable(
                "api_version_unsupported",
                f"the registry at {self.url} does not speak version {API_VERSION} of the API",
                hint="use a plugreg that is as new as the registry",
            )
        if self._expected_id and found.registry.id != self._expected_id:
            raise IntegrityError(
                "registry_changed",
                f"the registry at {self.url} was `{self._expected_id}` and is now `{found.registry.id}`",
                hint="if that is intended, run `plugreg registry remove` and `plugreg registry add` again",
            )
        return found

    @property
    def ref(self) -> RegistryRef:
        """The registry's id, URL and name."""
        if self._is_unasked:
            return RegistryRef(id=self._known_id, url=self.url, name=self._name)
        said = self.discovery.registry
        return RegistryRef(id=said.id, url=self.url, name=self._name or said.name)

    @property
    def limits(self) -> Limits:
        """The smaller of the registry's limits and our own."""
        if self._is_unasked:
            return CLIENT_LIMITS
        return CLIENT_LIMITS.smaller(Limits(**self.discovery.limits.model_dump()))

    @property
    def _is_unasked(self) -> bool:
        return self._terms.offline and not self._is_copy

    @cached_property
    def _known_id(self) -> str:
        known = self._expected_id or registry_at(self._terms.home, self.url)
        if not known:
            raise offline(f"this machine has never read the index of {self.url}")
        return known

    # what its index says

    @property
    def index(self) -> SignedIndex:
        """The signed index in one verified state, the same for the whole command.

        Raises:
            PlugregError: see `index.verdicts` and `index.roots`.
        """
        if self._index is None:
            self._index = self._open()
        return self._index

    def verify_index(self) -> None:
        """Read the index and verify it, and pin its root at the first use; see `index`."""
        _ = self.index

    def refresh(self) -> None:
        """Let the next question be answered from the newest state of the index."""
        self._index = None

    def _open(self) -> SignedIndex:
        from plugreg.index import signed

        if self._is_unasked:
            return signed.from_kept(self.url, self._known_id, self._terms)
        of_any_age = self._is_copy or self._terms.locked_roots is not None
        read = signed.from_copy if of_any_age else signed.from_registry
        opened = read(self.url, self._objects, self.discovery, self._terms)
        IndexFolder.of(self._terms.home, self.discovery.registry.id).note_url(
            self.discovery.registry.id, self.url
        )
        return opened

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the index, as far as it was read."""
        return tuple(self._index.notes) if self._index else ()

    @property
    def index_time(self) -> datetime | None:
        """When the state of the index that was read was confirmed; None before it was read."""
        return self._index.signed_at if self._index else None

    @property
    def admins(self) -> Admins:
        """The administrators, as the offline role of the index lists them."""
        return self.index.admins

    @property
    def revocations(self) -> RevocationList:
        """What is revoked, and everything that this machine ever saw revoked there."""
        return self.index.revocations

    @property
    def sigstore(self) -> SigstoreVerifier:
        """What judges certificates: what the user chose, else the registry's own, else the public one."""
        return self._sigstore or self._of_registry

    @cached_property
    def _of_registry(self) -> SigstoreVerifier:
        return SigstoreVerifier(lambda: self.index.sigstore or public_trust_config())

    def document(self, name: str) -> bytes:
        """Return a plugin's document, as the index vouches for it.

        Raises:
            NotAvailable: `plugin_not_found`.
            PlugregError: see `index`.
        """
        content = self.index.document(name)
        if content is None:
            raise NotAvailable(
                "plugin_not_found",
                f"`{name}` is not in the registry {self.url}",
                hint="look at the spelling of the name",
            )
        return content

    def whole_index(self, there: Objects | None = None) -> Whole:
        """Return all of the index for a copy; what `there` has of it already is read there.

        Raises:
            PlugregError: see `index`.
        """
        from plugreg.index.whole import whole

        self.verify_index()
        return whole(self.url, self._terms, self._objects, self.discovery, there)

    def listing(self) -> tuple[Listed, ...]:
        """Return the list of plugins for hosts, verified; what came in the last minute may be missing.

        Raises:
            PlugregError: see `index`; NotAvailable: a page cannot be read.
        """
        from plugreg.index.catalog import rows_of

        folder = IndexFolder.of(self._terms.home, self.ref.id)
        places = Locations() if self._is_unasked else self.discovery.urls
        return rows_of(self.url, self.index, folder, lambda path: self._objects.read(places.targets + path))

    # what is named by its digest

    def attestation(self, digest: Digest) -> bytes:
        """Return a signed statement by its digest, unchecked.

        Raises:
            Unverifiable: `attestation_missing`.
        """
        folder = IndexFolder.of(self._terms.home, self.ref.id)
        kept = folder.kept_attestation(digest)
        if kept is not None:
            return kept
        try:
            content = self._objects.read(self._place("attestation", digest), MAX_ENVELOPE)
        except NotAvailable as error:
            if not is_missing(error):
                raise
            raise Unverifiable(
                "attestation_missing", f"the registry does not have the signed statement `{digest}`"
            ) from None
        folder.keep_attestation(digest, content)
        return content

    def download(self, digest: Digest, size: int, into: BinaryIO, progress: Progress = no_progress) -> None:
        """Write a bundle into the empty file `into`, going on where a cut connection stopped.

        Stops at the first piece beyond `size` bytes.

        Raises:
            TooLarge: `bundle_too_large`: `size` is over our own limit or the registry's.
            IntegrityError: `digest_mismatch`: all bytes came and they are not the signed ones.
            NotAvailable: `bundle_missing`.
            Temporary: `download_incomplete`.
        """
        limit = self.limits.compressed
        if size > limit:
            raise TooLarge("bundle_too_large", f"the bundle has {size} bytes, at most {limit} are accepted")
        path = self._place("blob", digest)
        arrival = Arrival(into, size)
        for pause in self._patience.pauses():
            self._receive(path, arrival, progress)
            if arrival.complete:
                if arrival.digest == digest:
                    return
                if not arrival.pieced:
                    raise IntegrityError(
                        "digest_mismatch",
                        f"the bundle's digest is `{arrival.digest}`, signed is `{digest}`",
                        hint="the bytes were altered on the way or in the store; do not use them",
                    )
                arrival.restart()  # pieces of two answers: that is no proof that somebody altered anything
            if pause is None:
                break
            time.sleep(pause)
        raise Temporary(
            "download_incomplete",
            f"the download is incomplete: got {arrival.done} of {size} bytes",
            hint="the connection ended too early too often; try again",
        )

    def _place(self, kind: str, digest: Digest) -> str:
        template: str = "" if self._is_unasked else getattr(self.discovery.urls, kind)
        return template.replace("{hex}", digest.hex)

    def _receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        try:
            self._objects.receive(path, arrival, progress)
        except NotAvailable as error:
            if not is_missing(error):
                raise
            raise NotAvailable(
                "bundle_missing", f"the registry {self.url} does not have the bundle"
            ) from None
