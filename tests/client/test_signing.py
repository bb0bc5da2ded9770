"""Keys in files: private to their owner, never overwritten, never named in an error."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa

from plugreg.signing import (
    KeyFile,
    choose_key,
    key_identity,
    key_names,
    load_key,
    new_key,
    read_public_key,
)
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable, PlugregError, UsageError
from plugreg_schemas.key_uris import PASSPHRASE
from plugreg_schemas.trust.envelope import decode_base64
from plugreg_schemas.trust.verify import verify
from tests.support.record import ALGORITHMS, publish

if TYPE_CHECKING:
    from pathlib import Path

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
PLAIN = serialization.NoEncryption()
SECRET = "correct horse battery staple"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_new_key_signs_what_its_public_half_verifies(tmp_path: Path, algorithm: str) -> None:
    made = new_key(tmp_path / "keys", algorithm=algorithm)
    read = load_key(tmp_path / "keys", "default", {})
    envelope = read.sign(publish("1.0.0"))
    signed = verify(envelope, {made.identity.id: decode_base64(made.public_key)})
    assert (
        signed.signer == made.identity == read.identity == read_public_key(tmp_path / "keys" / "default.pub")
    )


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_private_files_are_for_their_owner_only(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        made = new_key(tmp_path / "keys")
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    made = new_key(tmp_path)
    before = made.path.read_bytes(), made.path.with_suffix(".pub").read_bytes()
    with pytest.raises(Conflict) as refused:
        new_key(tmp_path, algorithm="ecdsa-p256")
    assert refused.value.code == "key_exists"
    assert (made.path.read_bytes(), made.path.with_suffix(".pub").read_bytes()) == before


def test_a_link_in_the_place_of_a_key_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "default.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        new_key(tmp_path / "keys")
    assert not (tmp_path / "elsewhere").exists()


def test_the_public_half_of_a_lost_key_is_not_overwritten(tmp_path: Path) -> None:
    made = new_key(tmp_path)
    made.path.unlink()
    before = made.path.with_suffix(".pub").read_bytes()
    with pytest.raises(Conflict) as refused:
        new_key(tmp_path)
    assert refused.value.code == "key_exists"
    assert made.path.with_suffix(".pub").read_bytes() == before
    assert not made.path.exists()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "-k", ".hidden", "x" * 65, "a b", "\u00e4", "a\n"]
)
def test_names_that_are_not_for_keys(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        new_key(tmp_path / "keys", name)
    assert refused.value.code == "key_name_invalid"
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_passphrase_from_the_environment_or_by_asking(tmp_path: Path, algorithm: str) -> None:
    made = new_key(tmp_path, algorithm=algorithm, passphrase=SECRET)
    assert b"ENCRYPTED" in made.path.read_bytes()
    assert load_key(tmp_path, "default", {PASSPHRASE: SECRET}).identity == made.identity
    assert load_key(tmp_path, "default", {}, lambda _prompt: SECRET).identity == made.identity


def test_passphrase_missing(tmp_path: Path) -> None:
    new_key(tmp_path, passphrase=SECRET)
    with pytest.raises(UsageError) as refused:
        load_key(tmp_path, "default", {})
    assert refused.value.code == "key_passphrase_missing"
    assert PASSPHRASE in refused.value.hint


@pytest.mark.parametrize("wrong", ["wrong", "", SECRET + " ", "\u00e4", "x" * 2000])
def test_passphrase_wrong(tmp_path: Path, wrong: str) -> None:
    new_key(tmp_path, passphrase=SECRET)
    with pytest.raises(InvalidInput) as refused:
        load_key(tmp_path, "default", {}, lambda _prompt: wrong)
    assert refused.value.code == "key_passphrase_wrong"


def test_a_passphrase_for_a_key_without_one_is_not_needed(tmp_path: Path) -> None:
    made = new_key(tmp_path)
    assert load_key(tmp_path, "default", {PASSPHRASE: SECRET}).identity == made.identity


FOREIGN: dict[str, Any] = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p-384": ec.generate_private_key(ec.SECP384R1()),
    "ed448": ed448.Ed448PrivateKey.generate(),
    "dsa": dsa.generate_private_key(2048),
}


@pytest.mark.parametrize("kind", sorted(FOREIGN))
@pytest.mark.parametrize("passphrase", ["", SECRET], ids=["plain", "encrypted"])
def test_other_kinds_of_key_are_refused(tmp_path: Path, kind: str, passphrase: str) -> None:
    encryption = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else PLAIN
    (tmp_path / "other.pem").write_bytes(FOREIGN[kind].private_bytes(PEM, PKCS8, encryption))
    with pytest.raises(InvalidInput) as refused:
        load_key(tmp_path, "other", {PASSPHRASE: passphrase})
    assert refused.value.code == "key_invalid"


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_other_kinds_of_public_key_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other.pub"
    path.write_bytes(FOREIGN[kind].public_key().public_bytes(PEM, SPKI))
    with pytest.raises(InvalidInput) as refused:
        read_public_key(path)
    assert refused.value.code == "public_key_invalid"


def test_public_key_in_der(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    path = tmp_path / "a.der"
    path.write_bytes(key.public_key().public_bytes(serialization.Encoding.DER, SPKI))
    assert read_public_key(path) == KeyFile(path, key).identity


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PUBLIC KEY-----\nAA\n-----END PUBLIC KEY-----\n", b"\0" * 44]
)
def test_files_that_hold_no_key(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pem").write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        load_key(tmp_path, "x", {})
    assert refused.value.code == "key_invalid"
    with pytest.raises(InvalidInput) as public:
        read_public_key(tmp_path / "x.pem")
    assert public.value.code == "public_key_invalid"


def test_a_private_key_handed_over_as_a_public_one_is_refused_and_not_repeated(tmp_path: Path) -> None:
    made = new_key(tmp_path)
    with pytest.raises(InvalidInput) as refused:
        read_public_key(made.path)
    assert refused.value.code == "public_key_invalid"
    body = made.path.read_text().splitlines()[1]
    assert body not in f"{refused.value} {refused.value.hint}"


def test_no_secret_in_an_error_message(tmp_path: Path) -> None:
    made = new_key(tmp_path, passphrase=SECRET)
    body = made.path.read_text().splitlines()[1]
    broken = made.path.read_text().replace(body, body[::-1])
    (tmp_path / "broken.pem").write_text(broken)
    for name, secret in (("default", SECRET + "x"), ("broken", SECRET)):
        with pytest.raises(PlugregError) as refused:
            load_key(tmp_path, name, {PASSPHRASE: secret})
        words = f"{refused.value} {refused.value.hint} {refused.value.details} {refused.value.__cause__}"
        assert SECRET not in words
        assert body not in words
        assert body[::-1] not in words


def test_the_only_key_is_chosen_and_two_are_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as missing:
        choose_key(tmp_path / "keys", "", {})
    assert missing.value.code == "key_missing"
    ada = new_key(tmp_path / "keys", "ada")
    assert choose_key(tmp_path / "keys", "", {}).identity == ada.identity
    new_key(tmp_path / "keys", "bob")
    with pytest.raises(UsageError) as refused:
        choose_key(tmp_path / "keys", "", {})
    assert refused.value.code == "key_ambiguous"
    assert "ada, bob" in refused.value.message
    assert choose_key(tmp_path / "keys", "ada", {}).identity == ada.identity


def test_a_key_may_be_a_file_anywhere(tmp_path: Path) -> None:
    made = new_key(tmp_path / "elsewhere", "mine")
    assert choose_key(tmp_path / "keys", str(made.path), {}).identity == made.identity


@pytest.mark.parametrize("name", ["nobody", "../nobody", "/nowhere/x.pem", "x" * 300, "."])
def test_a_key_that_is_not_there(tmp_path: Path, name: str) -> None:
    new_key(tmp_path, "ada")
    with pytest.raises(NotAvailable) as refused:
        load_key(tmp_path, name, {})
    assert refused.value.code == "key_not_found"
    assert "ada" in refused.value.hint


def test_identities_are_listed_without_a_passphrase(tmp_path: Path) -> None:
    made = new_key(tmp_path, "a.b", passphrase=SECRET)
    assert key_names(tmp_path) == ["a.b"]
    assert key_identity(tmp_path, "a.b") == made.identity.words
    made.path.with_suffix(".pub").unlink()
    assert key_identity(tmp_path, "a.b") == ""
    assert key_names(tmp_path / "nowhere") == []
