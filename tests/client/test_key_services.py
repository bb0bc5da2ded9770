"""Keys named by URIs: what they sign holds, what is no such key is refused, and no kit's words come through."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from plugreg.credentials import named_key
from plugreg.key_services import ServiceKey
from plugreg.signing import KeyFile, new_key
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NotAvailable,
    PlugregError,
    Temporary,
    UsageError,
)
from plugreg_schemas.key_uris import PASSPHRASE
from plugreg_schemas.trust.envelope import decode_base64
from plugreg_schemas.trust.verify import verify
from tests.support.commands import write_plugin
from tests.support.key_service import DER, SECRET_KEY, SPKI, KeyService, aws
from tests.support.people import identity, person
from tests.support.record import ALGORITHMS, publish
from tests.support.registries import running
from tests.support.scripted import Answer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg.signing import Signer

SECRET = SECRET_KEY
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
RSA = rsa.generate_private_key(65537, 2048)


@pytest.fixture
def service() -> KeyService:
    return KeyService()


@pytest.fixture
def cloud(service: KeyService, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with serving(service) as server:
        environment = aws(server.url)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment


def holds(signer: KeyFile | ServiceKey) -> bool:
    """Whether a stranger can verify what the signer signs."""
    proved = verify(signer.sign(publish("1.0.0")), {signer.identity.id: decode_base64(signer.public_key)})
    return proved.signer == signer.identity


def refusal(folder: Path, uri: str, **environ: str) -> PlugregError:
    with pytest.raises(PlugregError) as refused:
        named_key(folder, uri, environ)
    return refused.value


# file2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", ["file2:{}", "file2://{}"])
def test_a_file_by_its_uri_is_the_key_in_the_file(tmp_path: Path, algorithm: str, form: str) -> None:
    made = new_key(tmp_path, "mine", algorithm=algorithm)
    signer = named_key(tmp_path / "keys", form.format(made.path), {})
    assert signer.identity == made.identity
    assert holds(signer)


def test_the_prefix_of_the_library_is_obeyed(tmp_path: Path) -> None:
    made = new_key(tmp_path, "mine")
    found = named_key(tmp_path / "keys", "file2:mine.pem", {"CRYPTO_SIGNER_PATH_PREFIX": str(tmp_path)})
    assert found.identity == made.identity


def test_an_encrypted_file_wants_its_passphrase(tmp_path: Path) -> None:
    made = new_key(tmp_path, passphrase=SECRET)
    uri = f"file2:{made.path}"
    assert holds(named_key(tmp_path, uri, {PASSPHRASE: SECRET}))
    assert holds(named_key(tmp_path, uri, {}, lambda _prompt: SECRET))
    assert refusal(tmp_path, uri).code == "key_passphrase_missing"
    wrong = refusal(tmp_path, uri, **{PASSPHRASE: "other"})
    assert wrong.code == "key_passphrase_wrong"


def test_an_rsa_key_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rsa.pem").write_bytes(RSA.private_bytes(PEM, PKCS8, serialization.NoEncryption()))
    refused = refusal(tmp_path, f"file2:{tmp_path / 'rsa.pem'}")
    assert isinstance(refused, InvalidInput)
    assert refused.code == "key_invalid"


@pytest.mark.parametrize(
    "uri", ["file2:", "file2:/nowhere/x.pem", "file2:/", "file2:/a\0b", "file2:" + "x" * 5000]
)
def test_a_file_that_is_not_there(tmp_path: Path, uri: str) -> None:
    assert refusal(tmp_path, uri).code == "key_not_found"


# what is a URI


@pytest.mark.parametrize("name", ["nothing:here", "AWSKMS:alias/x", ":", "vault:x", "c:\\key.pem"])
def test_an_unknown_scheme_is_a_name_that_is_not_there(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, name).code == "key_not_found"


def test_a_file_that_is_called_like_a_uri_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = new_key(tmp_path)
    made.path.rename(tmp_path / "hv:key")
    monkeypatch.chdir(tmp_path)
    assert named_key(tmp_path / "keys", "hv:key", {}).identity == made.identity


@pytest.mark.parametrize("uri", ["gnupg:", "tkey:/dev/ttyACM0"])
def test_schemes_whose_keys_are_of_other_kinds_are_refused(tmp_path: Path, uri: str) -> None:
    assert refusal(tmp_path, uri).code == "key_invalid"


@pytest.mark.parametrize(
    "uri",
    [
        "awskms:",
        "awskms://host/key",
        "gcpkms:",
        "hv:",
        "hv:/3",
        "hsm:two",
        "azurekms:name",
        "azurekms://vault.example.com/keys/name",
        "azurekms://vault.vault.azure.net/secrets/name",
        "azurekms://vault.vault.azure.net/keys/",
        "azurekms://[",
    ],
)
def test_a_uri_that_names_no_key(tmp_path: Path, uri: str) -> None:
    refused = refusal(tmp_path, uri)
    assert isinstance(refused, UsageError)
    assert refused.code == "key_uri_invalid"
    assert uri.partition(":")[0] in refused.hint


@pytest.mark.parametrize(
    ("uri", "kit", "extra"),
    [
        ("awskms:alias/x", "boto3", "awskms"),
        ("gcpkms:projects/x", "google.cloud", "gcpkms"),
        ("azurekms://v.vault.azure.net/keys/x", "azure.core", "azurekms"),
        ("hsm:", "pkcs11", "hsm"),
        ("hv:x", "hvac", "vault"),
    ],
)
def test_a_missing_kit_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, kit: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, kit, None)
    refused = refusal(tmp_path, uri)
    assert isinstance(refused, UsageError)
    assert refused.code == "key_library_missing"
    assert refused.hint == f"pip install 'securesystemslib[{extra}]'"


# a service


@pytest.mark.usefixtures("cloud")
def test_a_key_of_a_service_signs_what_its_public_half_verifies(tmp_path: Path, service: KeyService) -> None:
    signer = named_key(tmp_path, "awskms:alias/plugins", {})
    assert isinstance(signer, ServiceKey)
    assert decode_base64(signer.public_key) == service.key.public_key().public_bytes(DER, SPKI)
    assert holds(signer)


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(
    ("shown", "algorithm"),
    [
        (RSA.public_key(), "RSASSA_PSS_SHA_256"),
        (ec.generate_private_key(ec.SECP384R1()).public_key(), "ECDSA_SHA_384"),
        (ec.generate_private_key(ec.SECP384R1()).public_key(), "ECDSA_SHA_256"),
        (ec.generate_private_key(ec.SECP256K1()).public_key(), "ECDSA_SHA_256"),
        (None, "SM2DSA"),
    ],
    ids=["rsa", "p-384", "p-384-called-p-256", "secp256k1", "sm2"],
)
def test_other_kinds_of_key_in_a_service_are_refused(
    tmp_path: Path, service: KeyService, shown: Any, algorithm: str
) -> None:
    service.shown, service.algorithm = shown, algorithm
    refused = refusal(tmp_path, "awskms:alias/plugins")
    assert isinstance(refused, InvalidInput)
    assert refused.code == "key_invalid"


@pytest.mark.usefixtures("cloud")
def test_a_service_that_signs_with_another_key_is_not_believed(tmp_path: Path, service: KeyService) -> None:
    signer = named_key(tmp_path, "awskms:alias/plugins", {})
    service.key = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(IntegrityError) as refused:
        signer.sign(publish("1.0.0"))
    assert refused.value.code == "signature_invalid"


DENIED = json.dumps({"__type": "AccessDeniedException", "message": f"not for {SECRET}"}).encode()


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (Answer(400, DENIED), NotAvailable, "key_service_failed"),
        (Answer(503, b"{}"), Temporary, "key_service_unreachable"),
        (Answer(silent=True), Temporary, "key_service_unreachable"),
        (Answer(200, b"no json"), NotAvailable, "key_service_failed"),
        (Answer(200, b"{}"), NotAvailable, "key_service_failed"),
    ],
    ids=["denied", "down", "silent", "no-json", "empty"],
)
def test_what_a_kit_raises_becomes_our_error_without_its_words(
    tmp_path: Path,
    service: KeyService,
    answer: Answer,
    kind: type[PlugregError],
    code: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    signer = named_key(tmp_path, "awskms:alias/plugins", {})
    service.refusal = answer
    for refused in (refusal(tmp_path, "awskms:alias/plugins"), failing(signer)):
        assert isinstance(refused, kind)
        assert refused.code == code
        assert SECRET not in f"{refused} {refused.hint} {refused.details} {refused.__cause__}"
    assert capfd.readouterr() == ("", "")


def failing(signer: Signer) -> PlugregError:
    with pytest.raises(PlugregError) as refused:
        signer.sign(publish("1.0.0"))
    return refused.value


def test_the_kit_is_usable_after_the_index_was_imported_without_it(tmp_path: Path) -> None:
    program = (
        "import sys, plugreg.index.signed\n"
        "assert 'boto3' not in sys.modules\n"
        "from pathlib import Path\n"
        "from plugreg.credentials import named_key\n"
        "from plugreg_schemas.errors import PlugregError\n"
        "try:\n"
        "    named_key(Path('keys'), 'awskms:alias/plugins', {})\n"
        "except PlugregError as error:\n"
        "    print(error.code, error.message)\n"
    )
    nobody = {
        k: v for k, v in aws("http://127.0.0.1:9/").items() if not k.startswith(("AWS_ACCESS", "AWS_SECRET"))
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=nobody, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("key_service_failed ")
    assert "NoCredentialsError" in done.stdout


# a Vault: Ed25519, and versions


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> ed25519.Ed25519PrivateKey:
    """A kit for Vault that keeps the third version of one key."""
    key = ed25519.Ed25519PrivateKey.generate()

    class Transit:
        def read_key(self, name: str) -> Any:
            public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
            return {"data": {"keys": {"3": {"public_key": public}, "2": {"public_key": ""}}}}

        def sign_data(self, name: str, hash_input: str, key_version: int) -> Any:
            assert (name, key_version) == ("plugins", 3)
            signature = base64.b64encode(key.sign(base64.b64decode(hash_input))).decode()
            return {"data": {"signature": f"vault:v3:{signature}"}}

    kit = types.ModuleType("hvac")
    kit.Client = lambda: types.SimpleNamespace(secrets=types.SimpleNamespace(transit=Transit()))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hvac", kit)
    return key


@pytest.mark.parametrize("uri", ["hv:plugins", "hv:plugins/3"])
def test_an_ed25519_key_in_a_vault_signs(tmp_path: Path, vault: ed25519.Ed25519PrivateKey, uri: str) -> None:
    signer = named_key(tmp_path, uri, {})
    assert decode_base64(signer.public_key) == vault.public_key().public_bytes(DER, SPKI)
    assert holds(signer)


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize("uri", ["hv:plugins/2", "hv:plugins/33"])
def test_another_version_than_the_named_one_does_not_sign(tmp_path: Path, uri: str) -> None:
    refused = refusal(tmp_path, uri)
    assert refused.code == "key_version_old"
    assert "hv:plugins/3" in refused.hint


def test_a_sealed_vault_is_worth_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class VaultDown(Exception):
        pass

    def client() -> None:
        raise VaultDown(SECRET)

    kit = types.ModuleType("hvac")
    kit.Client = client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hvac", kit)
    refused = refusal(tmp_path, "hv:plugins")
    assert isinstance(refused, Temporary)
    assert SECRET not in str(refused)


# as people do it


def test_a_plugin_is_published_and_yanked_with_keys_that_uris_name(
    tmp_path: Path, service: KeyService
) -> None:
    with running(tmp_path / "data") as registry, serving(service) as server:
        ann = person(tmp_path / "ann", registry, environment=aws(server.url))
        here = f"file2:{ann.folder / 'home' / 'keys' / 'default.pem'}"
        there = "awskms:alias/plugins"
        shown = ann.run("key", "show", there)
        assert shown["path"] == there
        first = ann.run("publish", str(write_plugin(ann.folder / "a", "demo", "1.0.0")), "--key", here)
        assert f"key:{first['signer']['id']}" == identity(ann)
        ann.run("owner", "add", "demo", shown["id"], "--key", here)
        second = ann.run("publish", str(write_plugin(ann.folder / "b", "demo", "1.1.0")), "--key", there)
        assert f"key:{second['signer']['id']}" == shown["id"]
        ann.run("yank", "demo@1.0.0", "--reason", "old", "--key", there)
        assert "1.1.0" in ann.raw("install", "demo").stdout
        assert (
            ann.fails("publish", str(ann.folder / "b"), "--key", "awskms:", code=2)["code"]
            == "key_uri_invalid"
        )
