"""Publishing: from a signed statement and a bundle to a release that everyone can read.

    begin    who signed? > is it for us, may they, is the version free? > a session
             (the bytes arrive: `uploads`)
    commit   are these the signed bytes? > is it a bundle, a plugin, the one the statement speaks of?
             > bundle and attestation stored > policy again and release inserted: THE COMMIT POINT
             > index > receipt
    state    who signed? > policy and statement appended: THE COMMIT POINT > index > receipt

A signature is proved before anything that was signed is parsed, and nothing unsigned or unauthorised stores
a byte. Every step can be repeated: what is done already is only confirmed.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Semaphore
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from plugreg_registry import policy
from plugreg_registry.examination import examine
from plugreg_registry.observing import step
from plugreg_registry.policy import Arrival, Rules
from plugreg_registry.ports import attestation_key, blob_key, lookalike
from plugreg_registry.proved import Proved, check_digest
from plugreg_registry.quotas import Quotas, check_quotas
from plugreg_registry.records import StoredRelease, UploadSession
from plugreg_registry.uploads import session_id, too_large
from plugreg_schemas.api import PublishSession, Receipt, StatementReceipt
from plugreg_schemas.errors import (
    Conflict,
    IntegrityError,
    InvalidInput,
    NoSpace,
    NotAllowed,
    NotAvailable,
    TooLarge,
)
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Publish
from plugreg_schemas.trust.envelope import decode_base64, parse_envelope, read_envelope
from plugreg_schemas.trust.policy import check_registry
from plugreg_schemas.trust.provenance import check_provenance, read_provenance
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from plugreg_registry.examination import Examined
    from plugreg_registry.index import Index
    from plugreg_registry.ports import BlobStore, DirectAccess, Journal, Lock, Releases
    from plugreg_registry.quotas import Usage
    from plugreg_registry.records import PluginRecord
    from plugreg_registry.trusted import TrustTarget
    from plugreg_registry.uploads import Uploads
    from plugreg_schemas.api import ProblemItem, PublishRequest, RegistryRef, StatementRequest
    from plugreg_schemas.bundle import Limits
    from plugreg_schemas.statement import Owners, Status, Yank
    from plugreg_schemas.tiers import TierPolicy
    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.policy import Admission
    from plugreg_schemas.trust.sigstore import SigstoreVerifier
    from plugreg_schemas.trust.verify import Signed

SESSION_TIME: Final = timedelta(hours=1)
EXAMINED_AT_ONCE: Final = 2
"""Bundles that one process examines at a time; each may hold some tens of MiB of manifests."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """The write side of the registry."""

    registry: RegistryRef
    admission: Admission
    trusted: TrustTarget
    limits: Limits
    tiers: TierPolicy
    releases: Releases
    journal: Journal
    blobs: BlobStore
    uploads: Uploads
    index: Index
    lock: Lock
    now: Callable[[], datetime]
    secret: Callable[[], str]
    quotas: Quotas = field(default_factory=Quotas)
    sigstore: SigstoreVerifier | None = None
    """What judges certificates; without it only keys are accepted."""
    direct: DirectAccess | None = None
    """Where clients may also put a bundle, if the operator wants that."""
    examining: Semaphore = field(default_factory=lambda: Semaphore(EXAMINED_AT_ONCE), repr=False)

    @step("publish.begin")
    def begin(self, request: PublishRequest) -> PublishSession | Receipt:
        """Let a publish in and say where its bytes go; or confirm one that is done.

        Raises:
            IntegrityError: `signature_invalid`, `public_key_mismatch`, `statement_mismatch`,
            `registry_mismatch`. Unverifiable: `public_key_missing`, `signature_kind`, `envelope_version`,
            `trust_material_missing`, `no_trusted_time`.
            InvalidInput: `envelope_invalid`, `statement_invalid`, `statement_kind`, ... TooLarge:
            `bundle_too_large`. NotAllowed, Conflict, Gone: as `policy.admit`, `name_lookalike` and
            `quota_exceeded`. Of a provenance that comes along: as `check_provenance`.
        """
        envelope = read_envelope(request.statement)
        arrival = self._arrival(envelope, _public_key(request.public_key))
        record = self.releases.find(arrival.said.plugin)
        policy.admit(record, arrival, self._rules())
        if request.size > self.limits.compressed:
            raise TooLarge("bundle_too_large", f"a bundle here is at most {self.limits.compressed} bytes")
        done = policy.published(record, arrival)
        if record is not None and done is not None and self._is_whole(done):
            return self._receipt(arrival, done, shown=self._show(record), already=True)
        self._check_lookalike(record, arrival.said.plugin)
        if self.quotas.are_set:
            self._afford(self.releases.used(arrival.signed.signer.words), arrival, request.size, record)
        provenance = self._provenance(request, arrival)
        return self._open_session(request, arrival, provenance, claims=record is None)

    @step("publish.commit")
    def commit(self, secret: str) -> Receipt:
        """Publish what was uploaded, or confirm that it is published.

        A bundle that fails a check is forgotten with its session.

        Raises:
            NotAvailable: `session_unknown`.
            Conflict: `upload_incomplete`, with the offset; `kind_immutable`; and as `begin`.
            IntegrityError: `digest_mismatch`: other bytes than were signed; `statement_mismatch`: another
            plugin. InvalidInput: the faults of the bundle and of what is in it. NoSpace: `disk_full`.
        """
        session = self.uploads.session(secret)
        with self.lock("session", session.id):
            session = self.uploads.session(secret)  # a second commit waited here for the first
            arrival = self._arrival(
                parse_envelope(session.envelope), session.public_key, claims=session.claims
            )
            record = self.releases.find(arrival.said.plugin)
            done = policy.published(record, arrival)
            if record is not None and done is not None and self._is_whole(done):
                self.uploads.spool.remove(session.id)
                return self._receipt(arrival, done, shown=self._show(record), already=True)
            self._check_complete(session)
            try:
                return self._commit(session, arrival, record)
            except (InvalidInput, IntegrityError, NotAllowed, NotAvailable, NoSpace):
                self.uploads.forget(session.id)
                raise

    @step("publish.state")
    def state(self, request: StatementRequest) -> StatementReceipt:
        """Append an owners, yank or status statement to a plugin's history, or confirm that it is there.

        Raises:
            InvalidInput: `statement_kind`; and as `begin` and `policy.with_statement`.
        """
        envelope = read_envelope(request.statement)
        signed = self._signed(envelope, _public_key(request.public_key))
        said = signed.statement.predicate
        if isinstance(said, Publish):
            raise InvalidInput("statement_kind", "a publish statement goes to `v1/publish`")
        before = self.releases.find(said.plugin)
        policy.with_statement(before, signed, said, envelope.content, self._rules())  # before a byte is kept
        already = before is not None and signed.digest in before.history.digests
        after = self._append(envelope, signed, said)
        self._show(after)
        history = after.history
        return StatementReceipt(
            plugin=said.plugin,
            digest=signed.digest,
            revision=history.digests.index(signed.digest),
            head=history.head,
            already=already,
        )

    def _rules(self) -> Rules:
        """Return what is in force now."""
        return Rules(self.admission, self.trusted.admins(), self.now())

    def _signed(self, envelope: Envelope, public_key: bytes | None) -> Signed:
        keys: dict[str, bytes] = {}
        if envelope.signer.kind == "key" and public_key is not None:
            keys[envelope.signer.id] = public_key
        signed = verify(envelope, keys, self.sigstore)
        check_registry(signed.statement.predicate.registry, self.registry.id)
        return signed

    def _arrival(self, envelope: Envelope, public_key: bytes | None, *, claims: bool = False) -> Arrival:
        signed = self._signed(envelope, public_key)
        said = signed.statement.predicate
        if not isinstance(said, Publish):
            raise InvalidInput(
                "statement_kind", f"a statement of kind `{signed.statement.kind}` publishes nothing"
            )
        return Arrival(signed, said, envelope.content, claims)

    def _provenance(self, request: PublishRequest, arrival: Arrival) -> bytes:
        """Return the attestation of provenance that comes along, verified; empty without one."""
        if request.provenance is None:
            return b""
        envelope = read_provenance(request.provenance)
        signed = arrival.signed
        check_provenance(
            envelope, digest=signed.statement.digest, signer=signed.signer, sigstore=self.sigstore
        )
        return envelope.content

    def _check_lookalike(self, record: PluginRecord | None, name: str) -> None:
        twin = self.releases.lookalike(name) if record is None else None
        if twin is not None:
            raise lookalike(name, twin)

    def _afford(self, usage: Usage, arrival: Arrival, size: int, record: PluginRecord | None) -> None:
        """Refuse a release more that is over a quota of its signer, who is no administrator."""
        rules = self._rules()
        if not rules.is_admin(arrival.signed.signer):
            check_quotas(self.quotas, usage, size, rules.now, claims=record is None)

    def _open_session(
        self, request: PublishRequest, arrival: Arrival, provenance: bytes, *, claims: bool
    ) -> PublishSession:
        secret = self.secret()
        expires = (self.now() + SESSION_TIME).replace(microsecond=0)
        session = UploadSession(
            session_id(secret),
            arrival.envelope,
            arrival.signed.public_key,
            request.size,
            claims,
            expires,
            arrival.signed.signer.words,
            provenance,
        )
        self.uploads.open(session)
        url = f"{self.registry.url}v1/uploads/{secret}"
        seconds = int(SESSION_TIME.total_seconds())
        direct = self.direct.upload_url(session.id, request.size, seconds) if self.direct else None
        return PublishSession(
            session=url, upload=url, commit=f"{url}/commit", direct=direct, offset=0, expires=expires
        )

    def _check_complete(self, session: UploadSession) -> None:
        offset = self.uploads.spool.size(session.id)
        if offset > session.size:  # only what was put elsewhere than here
            self.uploads.forget(session.id)
            raise too_large()
        if offset < session.size:
            raise Conflict(
                "upload_incomplete",
                f"{offset} of {session.size} bytes have arrived",
                hint="upload the rest, then commit again",
                details={"offset": offset},
            )

    def _commit(self, session: UploadSession, arrival: Arrival, record: PluginRecord | None) -> Receipt:
        digest = arrival.signed.statement.digest
        with self.examining, self.uploads.spool.open(session.id) as staged:
            with step("publish.examine"):
                check_digest(staged, digest)
                examined = examine(staged, self.limits, arrival.said, self.tiers)
            release = policy.published(record, arrival) or self._release(session, arrival, examined)
            policy.check_kind(record, release)
            after, inserted = self._insert(staged, arrival, release, session.provenance)
        self.uploads.spool.remove(session.id)
        stored = after.release(release.version) or release
        shown = self._show(after)
        findings = (*examined.notes, *policy.advice(after))
        return self._receipt(arrival, stored, shown=shown, findings=findings, already=not inserted)

    def _release(self, session: UploadSession, arrival: Arrival, examined: Examined) -> StoredRelease:
        return StoredRelease(
            version=arrival.said.version,
            digest=Digest(arrival.signed.statement.digest),
            size=session.size,
            format=arrival.said.format,
            published_at=self.now(),
            attestation=arrival.signed.digest,
            signer=arrival.signed.signer,
            public_key=arrival.signed.public_key,
            facts=examined.facts,
            provenance=Digest.of(session.provenance) if session.provenance else None,
        )

    def _is_whole(self, release: StoredRelease) -> bool:
        """Whether the bytes of a release are here. A removal took them, and lifting it brings none back."""
        return self.blobs.has(blob_key(release.digest))

    def _insert(
        self, staged: BinaryIO, arrival: Arrival, release: StoredRelease, provenance: bytes
    ) -> tuple[PluginRecord, bool]:
        """Store the bytes, then the row; return the record and whether the row is new."""
        before: PluginRecord | None = None
        inserted = False

        def decide(record: PluginRecord | None) -> PluginRecord:
            nonlocal before, inserted
            after = policy.with_release(record, arrival, release, self._rules())
            before, inserted = record, after is not record
            return after

        def afford(usage: Usage) -> None:
            self._afford(usage, arrival, release.size, before)

        blob = blob_key(release.digest)
        attestations = _attestations(arrival, release, provenance)

        def put() -> None:
            staged.seek(0)
            with step("publish.store"):
                self.blobs.put(blob, Proved(staged, release.digest))
                for key, content in attestations.items():
                    self.blobs.put(key, io.BytesIO(content))

        with self.lock("object", release.digest):
            with self._taking_back(arrival.said.plugin, blob, *attestations) as brought:
                put()
                after = self.releases.change(arrival.said.plugin, decide, afford)
            self._put_if_gone(put, {blob, *attestations}.difference(brought))
        return after, inserted

    def _append(self, envelope: Envelope, signed: Signed, said: Owners | Yank | Status) -> PluginRecord:
        key = attestation_key(envelope.digest)

        def put() -> None:
            self.blobs.put(key, io.BytesIO(envelope.content))

        def decide(record: PluginRecord | None) -> PluginRecord:
            return policy.with_statement(record, signed, said, envelope.content, self._rules())

        with self.lock("object", envelope.digest):
            with self._taking_back(said.plugin, key) as brought:
                put()
                after = self.releases.change(said.plugin, decide)
            self._put_if_gone(put, {key}.difference(brought))
        return after

    def _put_if_gone(self, put: Callable[[], None], stood: Iterable[str]) -> None:
        """Put objects again if one that had stood there was removed before a record named it (`garbage`)."""
        if not all(map(self.blobs.has, stood)):
            put()

    @contextmanager
    def _taking_back(self, plugin: str, *keys: str) -> Iterator[Sequence[str]]:
        """Remove what was newly stored under `keys` if the row is refused: a loser leaves nothing.

        On another machine somebody may have been faster with the same bytes; then they are named by now.
        The value is which keys are new.
        """
        brought = [key for key in keys if not self.blobs.has(key)]
        try:
            yield brought
        except (InvalidInput, IntegrityError, NotAllowed, NotAvailable, NoSpace):
            named = _named(self.releases.find(plugin)) if brought else frozenset()
            for key in brought:
                if key not in named:
                    self.blobs.delete(key)
            raise

    def _show(self, record: PluginRecord) -> Literal["published", "pending"]:
        """Wait until readers see a record, and return whether they do."""
        return "published" if self.index.show(record.name, record.revision) else "pending"

    def _receipt(
        self,
        arrival: Arrival,
        release: StoredRelease,
        *,
        shown: Literal["published", "pending"],
        findings: tuple[ProblemItem, ...] = (),
        already: bool = False,
    ) -> Receipt:
        return Receipt(
            name=arrival.said.plugin,
            version=release.version,
            digest=release.digest,
            size=release.size,
            published_at=release.published_at,
            registry=self.registry,
            signer=release.signer,
            url=f"{self.registry.url}v1/plugins/{arrival.said.plugin}/{release.version}",
            attestation=release.attestation,
            findings=findings,
            already=already,
            index=shown,
        )


def _named(record: PluginRecord | None) -> frozenset[str]:
    """Return the keys of what a record names."""
    if record is None:
        return frozenset()
    bundles = (blob_key(release.digest) for release in record.releases)
    provenance = (attestation_key(one.provenance) for one in record.releases if one.provenance)
    statements = (attestation_key(statement.digest) for statement in record.statements)
    published = (attestation_key(release.attestation) for release in record.releases)
    return frozenset((*bundles, *provenance, *statements, *published))


def _attestations(arrival: Arrival, release: StoredRelease, provenance: bytes) -> dict[str, bytes]:
    """Return what was brought of the statements that a release names, by key.

    Whoever publishes the same bytes again may bring another statement, which no document will name.
    """
    brought = {arrival.signed.digest: arrival.envelope, Digest.of(provenance): provenance}
    named = (release.attestation, release.provenance)
    return {attestation_key(digest): brought[digest] for digest in named if digest in brought}


def _public_key(text: str) -> bytes | None:
    if not text:
        return None
    try:
        return decode_base64(text)
    except ValueError as error:
        raise InvalidInput("public_key_invalid", f"`public_key` is {error}") from None
