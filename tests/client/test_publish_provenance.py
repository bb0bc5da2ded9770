"""`plugreg publish --provenance`: how a bundle was built goes along with it, if it is about this bundle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.documents import canonical_json
from tests.support.commands import User, write_plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.local_sigstore import LocalSigstore


@dataclass
class Publisher:
    """Somebody whose CI publishes `demo` to a real registry."""

    user: User
    registry: RegistryProcess
    plugin: str
    sigstore: LocalSigstore

    def built(self, digest: str = "", token: str = "") -> dict[str, Any]:
        """What a builder says of a bundle, by default of the one of `demo`."""
        digest = digest or self.user.run("pack", self.plugin, "-o", f"{self.plugin}.tar.zst")["digest"]
        said = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "demo", "digest": {"sha256": digest.removeprefix("sha256:")}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {"buildType": "https://ci.example/workflow/v1", "externalParameters": {}},
                "runDetails": {"builder": {"id": "https://ci.example/runner"}},
            },
        }
        return self.sigstore.sign(canonical_json(said), token or self.sigstore.ci_token())

    def file(self, content: bytes) -> str:
        path = self.user.folder / "provenance.json"
        path.write_bytes(content)
        return str(path)

    def words(self, content: bytes) -> tuple[str, ...]:
        return ("publish", self.plugin, "--registry", self.registry.url, "--provenance", self.file(content))


@pytest.fixture
def publisher(tmp_path: Path, sigstore: LocalSigstore) -> Iterator[Publisher]:
    config = tmp_path / "trust.json"
    config.write_bytes(sigstore.trust_config())
    environment = {"PLUGREG_TRUST_CONFIG": str(config), "PLUGREG_IDENTITY_TOKEN": sigstore.ci_token()}
    user = User(tmp_path / "ann", environment)
    user.folder.mkdir()
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(config)}
    with running(tmp_path / "registry", environment=settings) as registry:
        yield Publisher(user, registry, str(write_plugin(tmp_path / "demo")), sigstore)


def test_provenance_is_sent_and_shown(publisher: Publisher) -> None:
    publisher.user.run(*publisher.words(json.dumps(publisher.built(), indent=1).encode()))
    found = publisher.user.run("info", "demo", "--registry", publisher.registry.url)
    assert found["provenance"]["builder"] == "https://ci.example/runner"
    assert found["verdict"] == "verified"
    publisher.user.run("install", "demo", "--registry", publisher.registry.url)


def test_provenance_that_is_not_of_this_release_is_never_sent(publisher: Publisher) -> None:
    other = publisher.sigstore.ci_token(repository_id="6")
    refused = [
        (json.dumps(publisher.built("sha256:" + "0" * 64)).encode(), 4, "provenance_mismatch"),
        (json.dumps(publisher.built(token=other)).encode(), 4, "provenance_mismatch"),
        (b"{}", 3, "envelope_invalid"),
        (b"no json", 3, "json_invalid"),
    ]
    for content, exits, code in refused:
        assert publisher.user.fails(*publisher.words(content), code=exits)["code"] == code
    gone = ("publish", publisher.plugin, "--registry", publisher.registry.url, "--provenance", "nowhere.json")
    assert publisher.user.fails(*gone, code=7)["code"] == "file_unavailable"
    assert not list((publisher.registry.objects / "attestations").rglob("*.json"))
