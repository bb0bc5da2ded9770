"""Ten thousand seeded changes of good bytes: none is accepted that says something else, none ends in a traceback."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from tuf.api.metadata import Metadata

from plugreg.index.folder import IndexFolder
from plugreg.index.online import Online
from plugreg.index.sources import Copied
from plugreg.index.walk import Walk
from plugreg.objects import MAX_OBJECT
from plugreg_schemas.api import Locations
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import NotAvailable, PlugregError, TooLarge
from plugreg_schemas.index import metadata_key
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import KeyOwner, Owners, Status, Yank, parse_statement, successor_statement
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
from tests.support.mutations import mutations
from tests.support.record import ALGORITHMS, REGISTRY, author, publish
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from plugreg.arrival import Arrival
    from plugreg.objects import Progress
    from plugreg_schemas.statement import Statement
    from tests.support.local_sigstore import LocalSigstore

WHERE = "https://plugins.example/"
DOCUMENT = b'{"name":"demo"}'
ROLES = ("root", "timestamp", "snapshot", "targets", "index", "the bin", "revocations")
KEY_ENVELOPES, CERTIFICATE_ENVELOPES, STATEMENTS = 1500, 1500, 700
WALKED, FETCHED = 300, 100


def successors() -> dict[str, Statement]:
    ada, bob = (KeyOwner.model_validate(author().signer.model_dump()) for _ in range(2))
    place: dict[str, Any] = {
        "registry": REGISTRY,
        "plugin": "demo",
        "revision": 1,
        "previous": Digest.of(b"before"),
    }
    return {
        "publish": publish("1.0.0"),
        "owners": successor_statement(Owners(**place, add=(ada,), remove=(bob,))),
        "yank": successor_statement(Yank(**place, version="1.0.0", yanked=True, reason="loses data")),
        "status": successor_statement(Status(**place, state="deprecated", replacement="newer")),
    }


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_changed_envelope_of_a_key(algorithm: str) -> None:
    by = author(algorithm)
    genuine = by.sign(publish("1.0.0"))
    for changed in mutations(genuine.content, KEY_ENVELOPES, seed=1):
        try:
            signed = verify(parse_envelope(changed), {by.signer.id: by.spki})
        except PlugregError:
            continue
        assert signed.statement.payload() == genuine.payload, changed
        assert signed.signer == by.signer


@pytest.mark.parametrize("rekor", [1, 2])
def test_changed_envelope_of_a_certificate(sigstore: LocalSigstore, rekor: int) -> None:
    verifier = SigstoreVerifier(sigstore.trust_config)
    content = canonical_json(sigstore.sign(publish("1.0.0").payload(), sigstore.ci_token(), rekor))
    genuine = verify(parse_envelope(content), {}, verifier)
    for changed in mutations(content, CERTIFICATE_ENVELOPES // 2, seed=2):
        try:
            signed = verify(parse_envelope(changed), {}, verifier)
        except PlugregError:
            continue
        assert (signed.statement, signed.signer) == (genuine.statement, genuine.signer), changed


@pytest.mark.parametrize("kind", ["publish", "owners", "yank", "status"])
def test_changed_statement(kind: str) -> None:
    """Signed again by its author, so that it is read: what is read back has one spelling, or it is refused."""
    by, genuine = author(), successors()[kind]
    original = by.sign(genuine)
    for changed in mutations(genuine.payload(), STATEMENTS, seed=3):
        envelope = by.sign_payload(changed)
        try:
            statement = verify(envelope, {by.signer.id: by.spki}).statement
        except PlugregError:
            continue
        assert parse_statement(statement.payload()) == statement
    for changed in mutations(genuine.payload(), STATEMENTS // 2, seed=4):
        forged = json.loads(original.content)
        forged["dsseEnvelope"]["payload"] = _base64(changed)
        with pytest.raises(PlugregError):
            verify(parse_envelope(canonical_json(forged)), {by.signer.id: by.spki})


def _base64(content: bytes) -> str:
    import base64

    return base64.b64encode(content).decode()


class Memory:
    """The objects of a registry."""

    def __init__(self, store: Mapping[str, bytes]) -> None:
        self.store = store

    def read(self, path: str, limit: int = MAX_OBJECT) -> bytes:
        if path not in self.store:
            raise NotAvailable("object_missing", f"there is no {path}")
        if len(self.store[path]) > limit:
            raise TooLarge("document_too_large", f"{path} is larger than {limit} bytes")
        return self.store[path]

    def receive(self, path: str, arrival: Arrival, progress: Progress) -> None:
        chunk = self.read(path)[arrival.done :]
        arrival.take(chunk)
        progress("download", arrival.done, arrival.size)


@pytest.fixture(scope="module")
def index() -> TufRepository:
    """An index with something in every role, and a second root."""
    made = TufRepository(admins=[{"signer": {"kind": "oidc", "issuer": "https://i.example", "subject": "ada"},
                                  "since": "2026-01-01T00:00:00Z"}])  # fmt: skip
    made.catalog = b'{"plugins":["demo"]}'
    made.documents["demo"] = DOCUMENT
    made.rotate("root", "timestamp")
    made.publish()
    return made


def read_all(reader: Online | Walk) -> bytes:
    """Read what every role lists; the document of the plugin is returned."""
    found = {}
    for path in ("trust.json", "catalog.json", "revocations.json", "plugins/demo.json", "plugins/none.json"):
        target = reader.find(path)
        if target is not None:
            found[path] = reader.content(target, Digest.from_hex(target.hashes["sha256"]))
    return found["plugins/demo.json"]


def by_walk(index: TufRepository, store: Mapping[str, bytes], _folder: Path) -> bytes:
    root = index.store[metadata_key("root", 1)]
    return read_all(Walk(WHERE, root, Copied(Memory(store), Locations()), allow_old=False))


def by_library(index: TufRepository, store: Mapping[str, bytes], folder: Path) -> bytes:
    root = index.store[metadata_key("root", 1)]
    return read_all(Online(WHERE, root, IndexFolder(folder), Memory(store), Locations()))


def meaning(content: bytes) -> dict[str, Any]:
    """What the library reads, which is also what it verifies the signature of."""
    return Metadata[Any].from_bytes(content).signed.to_dict()  # type: ignore[no-any-return]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("read", "count"), [(by_walk, WALKED), (by_library, FETCHED)])
def test_changed_metadata(index: TufRepository, tmp_path: Path, role: str, read: Any, count: int) -> None:
    """What is accepted means what was signed: blanks, foreign signatures and unknown members beside it do not count."""
    place = index.current(index.bin_of("demo") if role == "the bin" else role)
    genuine = index.store[place]
    assert read(index, index.store, tmp_path / "genuine") == DOCUMENT
    for number, changed in zip(itertools.count(), mutations(genuine, count, seed=5), strict=False):
        try:
            document = read(index, {**index.store, place: changed}, tmp_path / str(number))
        except PlugregError:
            continue
        assert document == DOCUMENT
        assert meaning(changed) == meaning(genuine), changed
