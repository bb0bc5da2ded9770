"""Publishing: everything that stands against it at once, and every step repeatable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from plugreg.index.terms import Terms
from plugreg.info import info, look_up
from plugreg.link import Patience
from plugreg.publish import prepare, publish
from plugreg.remote import Remote
from plugreg.scaffold import init
from plugreg.signing import new_key
from plugreg.statements import proved
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NotAllowed,
    NotAvailable,
    PlugregError,
    UsageError,
)
from plugreg_schemas.names import Ref
from plugreg_schemas.trust.proof import prove_release
from tests.support.record import OTHER_REGISTRY, REGISTRY
from tests.support.scripted import Server, problem, serving
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg.signing import KeyFile
    from tests.support.scripted import Answer, Request

QUICK = Patience(tries=3, first_pause_s=0.001, longest_pause_s=0.01)


@pytest.fixture
def registry() -> SmallRegistry:
    return SmallRegistry()


@pytest.fixture
def server(registry: SmallRegistry) -> Iterator[Server]:
    with serving(registry) as running:
        yield running


@pytest.fixture
def remote(server: Server, tmp_path: Path) -> Remote:
    return Remote(server.url, Terms(tmp_path / "home"), patience=QUICK)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init(tmp_path / "demo")
    return tmp_path / "demo"


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    return new_key(tmp_path / "keys", algorithm="ecdsa-p256")


def test_what_is_published_can_be_proved(folder: Path, key: KeyFile, remote: Remote) -> None:
    prepared = prepare(folder)
    told: list[int] = []
    done = publish(prepared, remote, key, progress=lambda _what, sent, _total: told.append(sent))
    assert (done.name, done.version, done.digest, done.already) == (
        "demo",
        "0.1.0",
        prepared.packed.digest,
        False,
    )
    assert told[-1] == len(prepared.packed.content)
    document, history = proved(remote, "demo")
    release = prove_release(document, document.versions[0], remote.attestation, history)
    assert (release.digest, release.signer, release.registry) == (
        prepared.packed.digest,
        key.identity,
        REGISTRY,
    )


def test_publishing_again_is_acknowledged(folder: Path, key: KeyFile, remote: Remote, server: Server) -> None:
    publish(prepare(folder), remote, key)
    sent = len([request for request in server.requests if request.method == "PUT"])
    assert publish(prepare(folder), remote, key).already
    assert len([request for request in server.requests if request.method == "PUT"]) == sent


def test_lost_answer_to_the_commit(
    folder: Path, key: KeyFile, remote: Remote, registry: SmallRegistry
) -> None:
    """The release is there, its session is gone: the publish starts over and finds it published."""
    registry.lose_commits = 1
    done = publish(prepare(folder), remote, key)
    assert done.already
    assert len(registry.releases["demo"]) == 1


def test_a_session_that_is_always_gone_ends(
    folder: Path, key: KeyFile, remote: Remote, registry: SmallRegistry
) -> None:
    registry.before = lambda request: problem(404, "session_unknown") if "/commits/" in request.path else None
    with pytest.raises(NotAvailable) as refused:
        publish(prepare(folder), remote, key)
    assert refused.value.code == "session_unknown"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "not_owner", NotAllowed),
        (409, "version_exists", NotAllowed),
        (422, "registry_mismatch", IntegrityError),
    ],
)
def test_refusals_of_the_registry(
    folder: Path,
    key: KeyFile,
    remote: Remote,
    registry: SmallRegistry,
    status: int,
    code: str,
    kind: type[PlugregError],
) -> None:
    registry.before = lambda request: problem(status, code) if request.path == "/v1/publish" else None
    with pytest.raises(kind) as refused:
        publish(prepare(folder), remote, key)
    assert refused.value.code == code


def test_registry_that_claims_to_be_another_place(
    folder: Path, key: KeyFile, remote: Remote, registry: SmallRegistry, server: Server
) -> None:
    """A statement signed for `https://plugins.example` could be replayed there: nothing is signed unasked."""
    registry.id = "https://plugins.example"
    with pytest.raises(NotAllowed) as refused:
        publish(prepare(folder), remote, key)
    assert refused.value.code == "registry_not_accepted"
    assert not [request for request in server.requests if request.method == "POST"]
    with pytest.raises(NotAllowed):
        publish(prepare(folder), remote, key, accept_registry="https://other.example")
    assert publish(prepare(folder), remote, key, accept_registry="https://plugins.example").version == "0.1.0"


def test_registry_whose_id_is_not_the_known_one(folder: Path, key: KeyFile, server: Server) -> None:
    remote = Remote(server.url, Terms(folder / "home"), expected_id=OTHER_REGISTRY, patience=QUICK)
    with pytest.raises(IntegrityError) as refused:
        publish(prepare(folder), remote, key)
    assert refused.value.code == "registry_changed"
    assert {request.method for request in server.requests} == {"GET"}


def test_a_file_is_not_published(folder: Path) -> None:
    with pytest.raises(UsageError) as refused:
        prepare(folder / "plugin.json")
    assert refused.value.code == "not_a_folder"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable) as refused:
        prepare(tmp_path / "nowhere")
    assert refused.value.code == "path_not_found"


def test_files_that_look_like_secrets(folder: Path) -> None:
    for name in (".env", "id_rsa", "deploy.pem"):
        (folder / name).write_text("x")
    with pytest.raises(InvalidInput) as refused:
        prepare(folder)
    assert refused.value.code == "sensitive_file"
    assert "--allow-sensitive" in refused.value.hint
    found = {finding.file for finding in refused.value.findings}
    assert {".env", "id_rsa"} <= found
    assert prepare(folder, sensitive=frozenset(found)).name == "demo"
    assert prepare(folder, sensitive=frozenset({"*"})).name == "demo"
    with pytest.raises(InvalidInput):
        prepare(folder, sensitive=frozenset({".env"}))


def test_everything_that_stands_against_it_is_said_at_once(folder: Path) -> None:
    manifest = json.loads((folder / "plugin.json").read_bytes())
    del manifest["version"]
    (folder / "plugin.json").write_text(json.dumps(manifest))
    (folder / ".env").write_text("x")
    with pytest.raises(InvalidInput) as refused:
        prepare(folder)
    assert refused.value.code == "not_publishable"
    assert {"version_missing", "sensitive_file"} <= {finding.code for finding in refused.value.findings}
    assert prepare(folder, "2.0.0", sensitive=frozenset({"*"})).version == "2.0.0"


@pytest.mark.parametrize("version", ["0.1.1", "v1", "", "1.0"])
def test_a_version_that_is_not_the_manifests(folder: Path, version: str) -> None:
    with pytest.raises(InvalidInput):
        prepare(folder, version)


def test_info_shows_only_what_is_proved(
    folder: Path, key: KeyFile, remote: Remote, registry: SmallRegistry, tmp_path: Path
) -> None:
    publish(prepare(folder), remote, key)
    shown = info(remote, Ref.parse("demo"), {"PATH": ""}).as_dict()
    assert (shown["version"], shown["signer_id"], shown["owners"]) == (
        "0.1.0",
        key.identity.words,
        [key.identity.words],
    )
    assert json.loads(json.dumps(shown)) == shown

    def altered(request: Request) -> Answer | None:
        if not request.path.startswith("/attestations/"):
            return None
        answer = registry.answer(request)
        return type(answer)(200, answer.content.replace(b"e", b"f", 1))

    registry.before = altered
    elsewhere = Remote(remote.url, Terms(tmp_path / "elsewhere"), patience=QUICK)
    with pytest.raises(IntegrityError) as refused:
        info(elsewhere, Ref.parse("demo"), {})
    assert refused.value.code == "attestation_altered"


def test_info_of_a_version_that_is_not_there(folder: Path, key: KeyFile, remote: Remote) -> None:
    publish(prepare(folder), remote, key)
    for ref, code in (
        ("demo@9.9.9", "version_not_found"),
        ("demo@^2", "version_not_found"),
        ("domo", "plugin_not_found"),
    ):
        with pytest.raises(NotAvailable) as refused:
            look_up([remote], Ref.parse(ref), {})
        assert refused.value.code == code


def test_a_name_in_two_registries_is_nobodys(
    folder: Path, key: KeyFile, remote: Remote, tmp_path: Path
) -> None:
    publish(prepare(folder), remote, key)
    with serving(SmallRegistry(id=OTHER_REGISTRY)) as second:
        other = Remote(second.url, Terms(tmp_path / "home"), patience=QUICK)
        assert look_up([other, remote], Ref.parse("demo"), {}).registry["id"] == REGISTRY
        publish(prepare(folder), other, key)
        with pytest.raises(NotAllowed) as refused:
            look_up([remote, other], Ref.parse("demo"), {})
        assert refused.value.code == "name_in_several_registries"
        assert second.url in refused.value.message
