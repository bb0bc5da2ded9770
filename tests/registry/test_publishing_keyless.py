"""Publishing with certificates, at the door of a real registry: who is let in, and every bundle that is not."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import UsageError
from tests.support.local_sigstore import LocalSigstore
from tests.support.publisher import Answer, Author, b64, canonical, plugin, publish_statement
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def registry(sigstore: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    folder = tmp_path_factory.mktemp("keyless")
    (folder / "trust.json").write_bytes(sigstore.trust_config())
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(folder / "trust.json")}
    with running(folder / "data", environment=settings) as process:
        yield process


@pytest.fixture
def author(registry: RegistryProcess) -> Author:
    return Author(registry.url, registry.id)


@pytest.fixture(scope="module")
def foreign(sigstore: LocalSigstore) -> Iterator[LocalSigstore]:
    with LocalSigstore(issuer=sigstore.issuer).serving() as instance:
        yield instance


def begin(
    author: Author, by: LocalSigstore, name: str, version: str = "1.0.0", token: str = "", change: Any = None
) -> Answer:
    """The first step of a publish by a certificate; `change` forges the bundle."""
    content = plugin(name, version)
    statement = canonical(publish_statement(author.registry, name, version, content))
    value = by.sign(statement, token or by.ci_token())
    if change:
        change(value)
    return author.post("v1/publish", {"statement": value, "size": len(content)})


def release(author: Author, by: LocalSigstore, name: str, version: str = "1.0.0", token: str = "") -> Answer:
    return author.finish(begin(author, by, name, version, token), plugin(name, version))


def stored(registry: RegistryProcess) -> set[str]:
    kept = [registry.objects / "attestations", registry.objects / "blobs", registry.data / "uploads"]
    return {str(path) for folder in kept for path in folder.rglob("*") if path.is_file()}


def test_a_release_by_a_workflow_and_its_receipt(author: Author, sigstore: LocalSigstore) -> None:
    receipt = release(author, sigstore, "kept").json()
    assert receipt["signer"]["repository_id"] == "1001"
    document = author.document("kept")
    assert document["owners"] == [receipt["signer"]]
    assert begin(author, sigstore, "kept").json()["already"] is True


@pytest.mark.parametrize(
    "claims",
    [{"repository_id": "1002"}, {"repository_owner_id": "2003"}, {"iss": "https://elsewhere.example"}],
    ids=["repository id", "owner id", "issuer"],
)
def test_another_identity_is_refused_before_the_upload(
    registry: RegistryProcess, author: Author, sigstore: LocalSigstore, claims: dict[str, str]
) -> None:
    name = "other-" + next(iter(claims)).replace("_", "-")
    release(author, sigstore, name)
    before = stored(registry)
    answer = begin(author, sigstore, name, "1.1.0", sigstore.ci_token(**claims))
    assert (answer.status, answer.code) == (403, "not_owner")
    assert stored(registry) == before


def test_foreign_instance_with_equal_claims(
    registry: RegistryProcess, author: Author, sigstore: LocalSigstore, foreign: LocalSigstore
) -> None:
    release(author, sigstore, "ours")
    before = stored(registry)
    answer = begin(author, foreign, "ours", "1.1.0")
    assert (answer.status, answer.code) == (422, "trust_material_missing")
    assert answer.json()["missing"] == "certificate authority"
    assert stored(registry) == before


def test_certificate_bundle_on_a_key_name(author: Author, sigstore: LocalSigstore) -> None:
    author.publish(plugin("keyed"), "keyed")
    assert begin(author, sigstore, "keyed", "1.1.0").code == "not_owner"


def test_key_bundle_on_a_certificate_name(author: Author, sigstore: LocalSigstore) -> None:
    release(author, sigstore, "certified")
    assert author.begin(plugin("certified", "1.1.0"), "certified", "1.1.0").code == "not_owner"


def test_a_public_key_beside_a_certificate_proves_nothing(author: Author, sigstore: LocalSigstore) -> None:
    content = plugin("beside")
    statement = canonical(publish_statement(author.registry, "beside", "1.0.0", content))
    value = sigstore.sign(statement, sigstore.ci_token())
    body = {"statement": value, "size": len(content), "public_key": b64(author.key.spki)}
    assert author.finish(author.post("v1/publish", body), content).status == 201
    assert "public_key" not in author.document("beside")["signers"][0]


def _other_payload(value: dict[str, Any]) -> None:
    payload = json.loads(base64.b64decode(value["dsseEnvelope"]["payload"]))
    payload["predicate"]["version"] = "9.0.0"
    payload["subject"][0]["name"] = "forged-9.0.0.tar.zst"
    value["dsseEnvelope"]["payload"] = b64(canonical(payload))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(_other_payload, "signature_invalid", id="re-labelled version"),
        pytest.param(
            lambda v: v["verificationMaterial"].pop("timestampVerificationData"),
            "no_trusted_time",
            id="time removed",
        ),
        pytest.param(
            lambda v: v["verificationMaterial"]["tlogEntries"][0].update(more=1),
            "signature_invalid",
            id="member",
        ),
        pytest.param(
            lambda v: v["verificationMaterial"].update(publicKey={"hint": "AAAA"}),
            "envelope_invalid",
            id="both",
        ),
    ],
)
def test_a_forged_bundle_stores_nothing(
    registry: RegistryProcess, author: Author, sigstore: LocalSigstore, change: Any, code: str
) -> None:
    before = stored(registry)
    answer = begin(author, sigstore, "forged", change=change)
    assert (answer.status, answer.code) == (422, code)
    assert stored(registry) == before


@pytest.mark.parametrize("content", [None, b"{}"], ids=["missing", "not one"])
def test_a_trust_configuration_that_cannot_be_used_stops_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "trust.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_settings({"PLUGREG_REGISTRY_TRUST_CONFIG": str(path)}, str(tmp_path / "data"))
    assert "`PLUGREG_REGISTRY_TRUST_CONFIG`" in str(refused.value.findings[0])
