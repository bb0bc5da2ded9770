"""The main job without a key: a CI's token publishes, users install and verify, the next tag is the same signer.

Everything is real: the registry and the commands are processes, the Sigstore is a local one on loopback.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.documents import canonical_json
from tests.support.commands import PROGRAMS, User, write_plugin
from tests.support.local_sigstore import LocalSigstore
from tests.support.registries import RegistryProcess, running
from tests.support.stolen_keys import StolenKeys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def trust_config(sigstore: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trust") / "trust.json"
    path.write_bytes(sigstore.trust_config())
    return path


@pytest.fixture(scope="module")
def registry(trust_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(trust_config)}
    with running(tmp_path_factory.mktemp("registry") / "data", environment=settings) as process:
        yield process


@pytest.fixture
def user(tmp_path: Path, trust_config: Path, registry: RegistryProcess) -> User:
    made = User(tmp_path / "ann", {"PLUGREG_TRUST_CONFIG": str(trust_config)})
    made.folder.mkdir()
    made.run("registry", "add", registry.url)
    return made


def publish_words(user: User, name: str, version: str, token: str) -> list[str]:
    folder = write_plugin(user.folder / f"{name}-{version}", name, version, files={"README.md": version})
    path = user.folder / "token"
    path.write_text(token + "\n")
    return ["publish", str(folder), "--identity-token-file", str(path)]


def sessions(registry: RegistryProcess) -> list[Path]:
    return list((registry.data / "uploads").iterdir())


def test_publish_by_a_ci_token_then_install_verify_and_update_from_another_tag(
    user: User, sigstore: LocalSigstore
) -> None:
    words = f"ci:{sigstore.issuer}#1001#2002#.ci/publish.yml"
    done = user.run(*publish_words(user, "released", "1.0.0", sigstore.ci_token("refs/tags/v1")))
    assert (done["signer"]["kind"], done["signer"]["ref"]) == ("ci", "refs/tags/v1")
    user.run("install", "released")
    assert user.run("verify")["plugins"][0]["verdict"] == "verified"
    user.run(*publish_words(user, "released", "1.1.0", sigstore.ci_token("refs/tags/v2")))
    (updated,) = user.run("update")["installed"]
    assert (updated["version"], updated["signer"]["ref"]) == ("1.1.0", "refs/tags/v2")
    assert user.run("verify")["plugins"][0]["verdict"] == "verified"
    shown = user.run("info", "released")
    assert (shown["signer_id"], shown["owners"], shown["verdict"]) == (words, [words], "verified")
    assert shown["signer"]["ref"] == "refs/tags/v2"
    origin = "  from       https://ci.example/acme/demo at refs/tags/v2, workflow .ci/publish.yml\n"
    assert origin in user.raw("info", "released").stdout
    (row,) = user.run("list")["plugins"]
    assert row["signer"]["repository"].endswith("/acme/demo")


@pytest.mark.parametrize(
    "claims",
    [
        {"repository_id": "1002"},
        {"repository_owner_id": "2003"},
        {"workflow_ref": "acme/demo/.ci/other.yml@refs/tags/v1"},
    ],
    ids=["same name, other repository id", "other owner id", "other workflow"],
)
def test_a_token_that_is_not_an_owners_is_refused_before_the_upload(
    user: User, sigstore: LocalSigstore, registry: RegistryProcess, claims: dict[str, str]
) -> None:
    name = f"held-{len(claims)}{next(iter(claims)).replace('_', '-')}"
    user.run(*publish_words(user, name, "1.0.0", sigstore.ci_token()))
    before = sessions(registry)
    problem = user.fails(*publish_words(user, name, "1.1.0", sigstore.ci_token(**claims)), code=6)
    assert problem["code"] == "not_owner"
    assert sessions(registry) == before


def test_yank_and_owners_by_tokens_and_keys(user: User, sigstore: LocalSigstore, tmp_path: Path) -> None:
    """A keyless owner adds a key and an e-mail identity; each then may."""
    user.run(*publish_words(user, "shared", "1.0.0", sigstore.ci_token()))
    key = user.run("key", "new")
    token = ["--identity-token-file", str(user.folder / "token")]
    user.run("owner", "add", "shared", key["id"], *token)
    ada = f"oidc:{sigstore.issuer}#ada@example.com"
    user.run("owner", "add", "shared", ada, "--key", "default")
    (user.folder / "token").write_text(sigstore.token(email="ada@example.com"))
    done = user.run("yank", "shared@1.0.0", "--reason", "loses data", *token)
    assert done["signer"] == {"kind": "oidc", "issuer": sigstore.issuer, "subject": "ada@example.com"}
    assert user.run("info", "shared")["yanked"] is True
    user.run("unyank", "shared@1.0.0", "--key", "default")
    user.run("install", "shared")


def test_the_token_is_read_from_standard_input_and_shown_nowhere(user: User, sigstore: LocalSigstore) -> None:
    token = sigstore.ci_token()
    words = publish_words(user, "piped", "1.0.0", token)
    process = subprocess.run(
        [PROGRAMS / "plugreg", *words[:-1], "-", "--json"],
        input=token, env=user.env() | {"PLUGREG_DEBUG": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert token not in process.stdout + process.stderr
    refused = subprocess.run(
        [PROGRAMS / "plugreg", *words[:-1], "-"],
        input=token[:-9] + "A" * 9, env=user.env(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 6, refused.stderr
    assert "gives no certificate" in refused.stderr
    assert token[:40] not in refused.stdout + refused.stderr


def test_the_token_of_the_environment_and_of_the_ci(user: User, sigstore: LocalSigstore) -> None:
    folder = str(write_plugin(user.folder / "p", "ambient", "1.0.0"))
    user.environment["PLUGREG_IDENTITY_TOKEN"] = sigstore.ci_token()
    assert user.run("publish", folder)["signer"]["kind"] == "ci"
    del user.environment["PLUGREG_IDENTITY_TOKEN"]
    user.run("key", "new")
    user.environment |= {
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{sigstore.url}/oidc/ci-token?x=1",
    }
    write_plugin(user.folder / "p", "ambient", "1.1.0")
    assert user.run("publish", folder)["signer"]["kind"] == "ci"
    assert user.fails("publish", folder, "--key", "default", code=6)["code"] == "name_taken"


def test_a_ci_without_the_permission_uses_the_only_key_and_else_says_what_is_missing(user: User) -> None:
    folder = str(write_plugin(user.folder / "p", "no-permission", "1.0.0"))
    user.environment["GITHUB_ACTIONS"] = "true"
    problem = user.fails("publish", folder, code=2)
    assert problem["code"] == "ci_token_missing"
    assert "id-token: write" in problem["hint"]
    user.run("key", "new")
    assert user.run("publish", folder)["signer"]["kind"] == "key"


def test_a_user_without_the_trust_config_is_told_which_part_is_missing(
    user: User, sigstore: LocalSigstore
) -> None:
    """K8: could not verify is not forged; T23: another exit code."""
    user.run(*publish_words(user, "private", "1.0.0", sigstore.ci_token()))
    user.run("install", "private")
    del user.environment["PLUGREG_TRUST_CONFIG"]
    problem = user.fails("verify", code=7)
    assert (problem["code"], "certificate authority" in problem["detail"]) == ("trust_material_missing", True)
    user.environment["PLUGREG_TRUST_CONFIG"] = str(user.folder / "gone.json")
    assert user.fails("verify", code=7)["code"] == "trust_material_missing"
    (user.folder / "empty.json").write_text("{}")
    assert user.fails("verify", "--trust-config", str(user.folder / "empty.json"), code=2)["code"] == (
        "trust_config_invalid"
    )


def test_keys_alone_never_load_sigstore(user: User) -> None:
    user.run("key", "new")
    user.run("publish", str(write_plugin(user.folder / "p", "keyed", "1.0.0")))
    user.run("install", "keyed")
    for words in (["info", "keyed"], ["verify"], ["list"], ["install", "keyed"]):
        program = (
            "import sys\nfrom plugreg.cli import main\n"
            f"assert main({words!r}) == 0\n"
            "assert not [m for m in sys.modules if m.split('.')[0] in ('sigstore', 'rfc3161_client', 'jwt')]\n"
        )
        done = subprocess.run(
            [PROGRAMS / "python", "-c", program], env=user.env(), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stderr}"


def test_published_document_shows_who_and_from_where(
    user: User, sigstore: LocalSigstore, registry: RegistryProcess
) -> None:
    user.run(*publish_words(user, "shown", "1.0.0", sigstore.ci_token()))
    document = json.loads((registry.objects / "index/plugins/shown.json").read_bytes())
    (row,) = document["signers"]
    assert "public_key" not in row
    assert row["signer"]["workflow"] == ".ci/publish.yml"


def test_verify_needs_no_network(user: User, sigstore: LocalSigstore) -> None:
    """T23, K1: in a namespace without a network."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--"]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("this machine gives no network namespace (`unshare --net`)")
    user.run(*publish_words(user, "offline", "1.0.0", sigstore.ci_token()))
    user.run("install", "offline")
    done = subprocess.run(
        [*command, PROGRAMS / "plugreg", "verify"],
        env=user.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "offline 1.0.0: verified\n"), done.stderr


@pytest.mark.parametrize("attack", ["foreign instance", "time removed", "unsigned", "other signer"])
def test_served_anyway(user: User, sigstore: LocalSigstore, registry: RegistryProcess, attack: str) -> None:
    """What a registry would never take, written straight into its store: the client refuses it by itself."""
    name = "served-" + attack.replace(" ", "-")
    user.run(*publish_words(user, name, "1.0.0", sigstore.ci_token()))
    thief = StolenKeys(registry.data)
    document = thief.document(name)
    genuine = json.loads(thief.statement(document["history"][0]))
    payload = base64.b64decode(genuine["dsseEnvelope"]["payload"])
    (version,) = document["versions"]
    match attack:
        case "foreign instance":
            with LocalSigstore(issuer=sigstore.issuer).serving() as foreign:
                forged = foreign.sign(payload, foreign.ci_token())
            expected = (7, "trust_material_missing")
        case "time removed":
            forged = genuine
            del forged["verificationMaterial"]["timestampVerificationData"]
            expected = (7, "no_trusted_time")
        case "other signer":
            forged = sigstore.sign(payload, sigstore.ci_token(repository_id="6"))
            expected = (4, "release_mismatch")
        case _:
            forged, version["attestations"] = genuine, []
            expected = (6, "unsigned")
    served = thief.keep(canonical_json(forged))
    if version["attestations"]:
        version["attestations"] = [served]
    thief.serve(name, canonical_json(document))
    problem = user.fails("install", name, code=expected[0])
    assert problem["code"] == expected[1]
    assert not (user.root / name).exists()
