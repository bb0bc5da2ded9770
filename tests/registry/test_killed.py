"""Publishes that are cut off: at every single step, and by SIGKILL of the process. Nothing is ever half visible."""

from __future__ import annotations

import http.client
import io
import json
import random
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plugreg_registry.app import Registry, compose, prepare
from plugreg_registry.blobs.locks import Presence
from plugreg_registry.metadata.lease import DatabaseLease
from plugreg_registry.settings import read_settings
from plugreg_registry.signed_files import SignedFiles
from plugreg_registry.uploads import Part
from plugreg_schemas.api import PluginDocument, PublishRequest, PublishSession, StatementRequest
from plugreg_schemas.index import hashed_target_key, plugin_target
from plugreg_schemas.names import Digest
from tests.support.publisher import Author, ask, b64, canonical, digest_of, plugin, publish_statement
from tests.support.registries import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from plugreg_registry.ports import Lease
    from plugreg_registry.publishing import Publishing
    from plugreg_registry.settings import Settings


class PowerCut(BaseException):
    """Nothing catches it, so nothing is cleaned up."""


class Line:
    """Counts the calls of the ports, and cuts before or after one of them: from then on nothing is done."""

    def __init__(self, cut: int = -1) -> None:
        self.calls = 0
        self.cut = cut
        self.over = False

    def through(self, port: object) -> Any:
        return _Wired(self, port)

    def call(self, act: Callable[..., object], *given: object) -> object:
        if self.over:
            raise PowerCut
        place, self.calls = self.calls, self.calls + 1
        self.over = place == self.cut // 2
        if self.over and self.cut % 2 == 0:
            raise PowerCut
        answer = act(*given)
        if self.over:
            if isinstance(answer, io.IOBase):
                answer.close()  # as the end of a process does
            raise PowerCut
        return answer


class _Wired:
    def __init__(self, line: Line, port: object) -> None:
        self._line = line
        self._port = port

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *given: self._line.call(getattr(self._port, name), *given)


def wired(publishing: Publishing, line: Line) -> Publishing:
    """The same services, with every port behind the line, in a process that is already dead to all others."""
    ports = {name: line.through(getattr(publishing, name)) for name in ("releases", "journal", "blobs")}
    uploads = replace(
        publishing.uploads,
        sessions=line.through(publishing.uploads.sessions),
        spool=line.through(publishing.uploads.spool),
    )
    index = replace(
        publishing.index,
        **ports,
        backlog=line.through(publishing.index.backlog),
        leftovers=line.through(publishing.index.leftovers),
        lease=line.through(dead_holder(publishing.index.lease)),
        files=replace(publishing.index.files, blobs=ports["blobs"]),
    )
    return replace(publishing, uploads=uploads, index=index, **ports)


def dead_holder(lease: Lease) -> Lease:
    """The lease as a process holds it that has died: its file is there, and nobody has locked it."""
    assert isinstance(lease, DatabaseLease)
    presence = getattr(lease.may_live, "__self__", None)
    assert isinstance(presence, Presence)
    presence.path("dead").touch()
    return replace(lease, holder="dead")


def publish(publishing: Publishing, author: Author, name: str) -> None:
    """All three steps, in this process."""
    bundle = plugin(name)
    begun = publishing.begin(PublishRequest.model_validate_json(_body(author, name, bundle)))
    if isinstance(begun, PublishSession):
        secret = begun.upload.rpartition("/")[2]
        with publishing.uploads.receive(secret, Part(0, len(bundle), len(bundle)), len(bundle)) as writer:
            writer.write(bundle)
        publishing.commit(secret)


def _body(author: Author, name: str, bundle: bytes) -> bytes:
    envelope = author.key.envelope(publish_statement(author.registry, name, "1.0.0", bundle))
    return canonical({"statement": envelope, "size": len(bundle), "public_key": b64(author.key.spki)})


def _restart(settings: Settings) -> Registry:
    registry = compose(settings)
    registry.janitor.round()
    return registry


def _check_whole(registry: Registry, settings: Settings, name: str) -> bool:
    """Whether the plugin is visible; if it is, all of it must be."""
    file = settings.objects / "index" / "plugins" / f"{name}.json"
    assert registry.index.backlog.waiting(10) == ()
    _check_signed(registry, file, name)
    record = registry.services.publishing.releases.find(name)
    assert file.exists() == (record is not None), "the index shows what is released, and all of it"
    if record is None:
        return False
    document = PluginDocument.model_validate_json(file.read_bytes())
    (version,) = document.versions
    stored = settings.objects / "blobs" / "sha256" / version.digest[7:]
    assert digest_of(stored.read_bytes()) == version.digest
    for digest in document.history:
        attestation = settings.objects / "attestations" / "sha256" / f"{digest[7:]}.json"
        assert digest_of(attestation.read_bytes()) == digest
    return True


def _check_signed(registry: Registry, file: Path, name: str) -> None:
    """The signed index lists exactly the document that everybody sees, and has its bytes."""
    index, path = registry.index, plugin_target(name)
    state = SignedFiles(index.blobs, index.files.keys).state()  # as somebody who remembers nothing
    listed = index.files.bin(state, state.bins.get_role_for_target(path)).targets.get(path)
    assert (listed is not None) == file.exists()
    if listed is not None:
        assert listed.hashes["sha256"] == digest_of(file.read_bytes())[7:]
        with index.blobs.open(hashed_target_key(path, Digest(digest_of(file.read_bytes())))) as stored:
            assert stored.read() == file.read_bytes()


def _audited(registry: Registry, name: str) -> list[str]:
    entries = registry.services.publishing.journal.read(limit=10_000)
    return [entry.action for _, entry in entries if entry.plugin == name]


def _cuts(work: Callable[[Line], None]) -> Iterator[int]:
    whole = Line()
    work(whole)
    assert whole.calls > 5
    yield from range(2 * whole.calls)


def test_a_publish_cut_at_every_step_is_whole_or_absent_and_is_repeated(tmp_path: Path) -> None:
    settings = read_settings({}, str(tmp_path / "data"))
    ref = prepare(settings).ref
    author = Author("", ref.id)
    first = compose(settings)
    publishing = first.services.publishing
    seen: set[bool] = set()
    for cut in _cuts(lambda line: publish(wired(publishing, line), author, "whole")):
        name = f"cut{cut}"
        with suppress(PowerCut):
            publish(wired(publishing, Line(cut)), author, name)
        registry = _restart(settings)
        seen.add(_check_whole(registry, settings, name))
        publish(registry.services.publishing, author, name)
        assert _check_whole(registry, settings, name)
        assert _audited(registry, name) == ["publish"]
        registry.close()
    first.close()
    assert seen == {True, False}


def test_a_statement_cut_at_every_step_is_whole_or_absent_and_is_repeated(tmp_path: Path) -> None:
    settings = read_settings({}, str(tmp_path / "data"))
    ref = prepare(settings).ref
    author = Author("", ref.id)
    first = compose(settings)
    publishing = first.services.publishing

    def yank(publishing: Publishing, name: str) -> None:
        record = publishing.releases.find(name)
        assert record is not None
        head = record.history.digests[0]
        body = author.successor("yank", name, 1, str(head), version="1.0.0", yanked=True)
        publishing.state(StatementRequest.model_validate_json(json.dumps(body)))

    def prepared(line: Line) -> None:
        publish(publishing, author, "whole")
        yank(wired(publishing, line), "whole")

    for cut in _cuts(prepared):
        name = f"cut{cut}"
        publish(publishing, author, name)
        with suppress(PowerCut):
            yank(wired(publishing, Line(cut + 2)), name)  # the first call is the test's own look
        registry = _restart(settings)
        assert _check_whole(registry, settings, name)
        yank(registry.services.publishing, name)
        assert _check_whole(registry, settings, name)
        assert _audited(registry, name) == ["publish", "yank"]
        registry.close()
    first.close()


def test_the_first_index_cut_at_every_step_is_made_at_the_next_start(tmp_path: Path) -> None:
    settings = read_settings({}, str(tmp_path / "data"))
    author = Author("", prepare(settings).ref.id)

    def begin(line: Line) -> None:
        for gone in (settings.keys, settings.objects / "index" / "metadata"):
            shutil.rmtree(gone)
        registry = compose(settings)
        index, blobs = registry.index, line.through(registry.blobs)
        wired = replace(
            index,
            blobs=blobs,
            backlog=line.through(index.backlog),
            lease=line.through(dead_holder(index.lease)),
            files=SignedFiles(blobs, index.files.keys),
        )
        try:
            wired.found(registry.trusted)
        finally:
            registry.close()

    for cut in list(_cuts(begin))[::3]:
        with suppress(PowerCut):
            begin(Line(cut))
        made = prepare(settings)
        registry = compose(settings)
        state = SignedFiles(registry.blobs, registry.index.files.keys).state()
        assert (state.root.digest, state.root.version) == (made.root, 1)
        publish(registry.services.publishing, author, "demo")
        assert _check_whole(registry, settings, "demo")
        registry.close()


def test_sigkill_of_the_server_at_25_moments_of_a_publish(tmp_path: Path) -> None:
    moments = random.Random(8470)
    with running(tmp_path / "data") as registry:
        author = Author(registry.url, registry.id)
        published: list[str] = []
        for turn in range(25):
            version = f"1.{turn}.0"
            bundle = plugin("demo", version)
            killer = threading.Timer(moments.uniform(0, 0.04), registry.kill)
            killer.start()
            with suppress(OSError, http.client.HTTPException):
                author.publish(bundle, "demo", version)
            killer.join()
            registry.start()
            shown = ask(author.at("index/plugins/demo.json"))
            versions = [entry["version"] for entry in shown.json()["versions"]] if shown.status == 200 else []
            assert versions in (published, [*published, version])
            again = author.publish(bundle, "demo", version)
            assert again.status == (200 if version in versions else 201), again
            assert again.json()["digest"] == digest_of(bundle)
            published.append(version)
        document = author.document()
        assert [entry["version"] for entry in document["versions"]] == published
        for entry in document["versions"]:
            assert digest_of(ask(author.at(f"blobs/sha256/{entry['digest'][7:]}")).body) == entry["digest"]
