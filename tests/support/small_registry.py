"""A registry in memory behind real HTTP, small enough to be told to lose an answer or to be overtaken.

It verifies and folds with the same code as any registry; it keeps nothing on disk and examines no bundle.
Its documents are vouched for by the signed index of a `TufRepository`, made anew when one of them changed.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import PlugregError, status_of
from plugreg_schemas.history import append, begin
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Publish
from plugreg_schemas.trust.envelope import decode_base64, read_envelope
from plugreg_schemas.trust.policy import check_registry
from plugreg_schemas.trust.verify import verify
from tests.support.record import PUBLISHED_AT, REGISTRY
from tests.support.scripted import Answer, as_json, problem
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg_schemas.history import History
    from plugreg_schemas.trust.verify import Signed
    from tests.support.scripted import Request


@dataclass
class SmallRegistry:
    """`before` is called with every request, and may answer in the registry's place."""

    id: str = REGISTRY
    before: Callable[[Request], Answer | None] = lambda _request: None
    lose_commits: int = 0
    """How many answers to a commit get lost after it took place."""
    attestations: dict[str, bytes] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    releases: dict[str, list[tuple[Signed, int]]] = field(default_factory=dict)
    offered: dict[str, tuple[Signed, int]] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    index: TufRepository = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.index = TufRepository(self.id)

    def __call__(self, request: Request) -> Answer:
        try:
            return self.before(request) or self.answer(request)
        except PlugregError as error:
            return problem(status_of(error), error.code, detail=error.message, hint=error.hint)

    def answer(self, request: Request) -> Answer:
        head, _, rest = request.path.strip("/").partition("/")
        match request.method, head, rest:
            case "GET", ".well-known" | "index", _:
                self.renew_index()
                return self.index.answer(request)
            case "GET", "attestations", _:
                return self.attestation("sha256:" + rest.removeprefix("sha256/").removesuffix(".json"))
            case "POST", "v1", "publish":
                return self.offer(json.loads(request.body))
            case "POST", "v1", "statements":
                return self.state(json.loads(request.body))
            case "PUT", "uploads", _:
                self.uploads[rest] = request.body
                return Answer(204, headers={"Upload-Offset": str(len(request.body))})
            case "POST", "commits", _:
                return self.commit(rest)
        return problem(404, "not_found")

    def signed(self, body: dict[str, Any]) -> Signed:
        envelope = read_envelope(body["statement"])
        assert envelope.signer.kind == "key"
        signed = verify(envelope, {envelope.signer.id: decode_base64(body["public_key"])})
        check_registry(signed.statement.predicate.registry, self.id)
        self.keys[envelope.signer.id] = body["public_key"]
        self.attestations[envelope.digest] = envelope.content
        return signed

    def offer(self, body: dict[str, Any]) -> Answer:
        signed = self.signed(body)
        for release, _ in self.releases.get(signed.statement.predicate.plugin, []):
            if release.statement == signed.statement:
                return as_json(self.receipt(release, body["size"], already=True))
        number = str(len(self.offered))
        self.offered[number] = (signed, body["size"])
        session = {
            "session": number,
            "upload": f"/uploads/{number}",
            "commit": f"/commits/{number}",
            "offset": 0,
        }
        return as_json(session | {"expires": PUBLISHED_AT}, 202)

    def commit(self, number: str) -> Answer:
        if number not in self.uploads:
            return problem(404, "session_unknown")
        signed, size = self.offered[number]
        if Digest.of(self.uploads.pop(number)) != signed.statement.digest:
            return problem(422, "digest_mismatch")
        name = signed.statement.predicate.plugin
        self.histories.setdefault(name, begin(signed))
        self.releases.setdefault(name, []).append((signed, size))
        if self.lose_commits:
            self.lose_commits -= 1
            return Answer(silent=True)
        return as_json(self.receipt(signed, size), 201)

    def receipt(self, signed: Signed, size: int, *, already: bool = False) -> dict[str, Any]:
        said = signed.statement.predicate
        assert isinstance(said, Publish)
        return {
            "name": said.plugin,
            "version": said.version,
            "digest": signed.statement.digest,
            "size": size,
            "published_at": PUBLISHED_AT,
            "registry": {"id": self.id},
            "signer": signed.signer.model_dump(),
            "url": f"/index/plugins/{said.plugin}.json",
            "attestation": signed.digest,
            "already": already,
        }

    def state(self, body: dict[str, Any]) -> Answer:
        signed = self.signed(body)
        said = signed.statement.predicate
        assert not isinstance(said, Publish)
        history = self.histories[said.plugin]
        if said.previous != history.head:
            return problem(409, "history_moved", head=history.head, revision=history.revision)
        history = self.histories[said.plugin] = append(history, signed)
        answer = {
            "plugin": said.plugin,
            "digest": signed.digest,
            "revision": history.revision,
            "head": history.head,
        }
        return as_json(answer, 201)

    def renew_index(self) -> None:
        """Publish the documents as they are now, if one of them is news."""
        with self.lock:
            if self.index.registry != self.id:  # another registry stands here now
                self.index = TufRepository(self.id)
            documents = {name: canonical_json(self.document(name)) for name in self.releases}
            if documents != self.index.documents:
                self.index.documents = documents
                self.index.publish()

    def document(self, name: str) -> dict[str, Any]:
        history = self.histories[name]
        numbers = {key: number for number, key in enumerate(self.keys)}
        return {
            "name": name,
            "status": {
                "state": history.state,
                "reason": history.reason,
                "replacement": history.replacement,
            },
            "history": list(history.digests),
            "history_times": [PUBLISHED_AT for _ in history.digests],
            "owners": [owner.model_dump(mode="json", exclude_none=True) for owner in history.owners],
            "signers": [
                {"signer": {"kind": "key", "id": key}, "public_key": public}
                for key, public in self.keys.items()
            ],
            "versions": [
                {
                    "version": said.version,
                    "digest": signed.statement.digest,
                    "size": size,
                    "published_at": PUBLISHED_AT,
                    "format": said.format,
                    "signer": numbers[signed.signer.words.removeprefix("key:")],
                    "attestations": [signed.digest],
                    "launchers": ["python3"],
                    "yanked": said.version in history.yanked,
                    "reason": history.yanked.get(said.version, ""),
                }
                for signed, size in self.releases[name]
                if isinstance(said := signed.statement.predicate, Publish)
            ],
        }

    def attestation(self, digest: str) -> Answer:
        content = self.attestations.get(digest)
        return Answer(200, content) if content is not None else problem(404, "not_found")
