"""Signing by an identity token: which credential is taken, what the services may do, where the token never is."""

from __future__ import annotations

import gc
import io
import json
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.config import Config
from plugreg.credentials import TOKEN, Wanted, choose_signer, read_token
from plugreg.keyless import KeylessSigner
from plugreg.signing import KeyFile, new_key
from plugreg_schemas.errors import NotAllowed, NotAvailable, PlugregError, Temporary, UsageError
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
from tests.support.local_sigstore import LocalSigstore
from tests.support.record import publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_CI = {"PATH": "/usr/bin"}


@pytest.fixture
def settings(tmp_path: Path, sigstore: LocalSigstore) -> Config:
    config = tmp_path / "trust.json"
    config.write_bytes(sigstore.trust_config())
    return Config(home=tmp_path / "home", root=tmp_path / "root", trust_config=str(config))


def token_file(tmp_path: Path, content: str = "a.b.c\n") -> str:
    path = tmp_path / "token"
    path.write_text(content)
    return str(path)


def refused(signer: KeylessSigner) -> PlugregError:
    with pytest.raises(PlugregError) as error:
        signer.sign(publish("1.0.0"))
    said = f"{error.value} {error.value.hint} {error.value.details} {error.value.__cause__} {signer!r}"
    assert signer.token[:30] not in said
    assert error.value.__suppress_context__ or error.value.__context__ is None
    return error.value


@contextmanager
def instance(**changes: Any) -> Iterator[LocalSigstore]:
    with LocalSigstore().serving() as made:
        for name, value in changes.items():
            setattr(made, name, value)
        yield made


@pytest.mark.parametrize("rekor", [1, 2])
def test_what_is_signed_is_verified_by_a_stranger(sigstore: LocalSigstore, rekor: int) -> None:
    signer = KeylessSigner(sigstore.ci_token(), sigstore.trust_config(rekor))
    envelope = signer.sign(publish("1.0.0"))
    found = verify(envelope, {}, SigstoreVerifier(sigstore.trust_config))
    assert (found.statement, signer.public_key) == (publish("1.0.0"), "")
    assert found.signer.words == f"ci:{sigstore.issuer}#1001#2002#.ci/publish.yml"


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(lambda s: "not-a-token", id="no token"),
        pytest.param(lambda s: "a.b.c", id="malformed"),
        pytest.param(lambda s: s.ci_token(seconds=-100), id="expired"),
        pytest.param(lambda s: s.ci_token(audience="elsewhere"), id="other audience"),
    ],
)
def test_a_token_that_is_none(sigstore: LocalSigstore, token: Any) -> None:
    error = refused(KeylessSigner(token(sigstore), sigstore.trust_config()))
    assert (type(error), error.code) == (UsageError, "identity_token_invalid")
    assert "sigstore" in error.hint


def test_a_token_that_the_certificate_authority_refuses(sigstore: LocalSigstore) -> None:
    with instance() as other:
        error = refused(KeylessSigner(other.ci_token(), sigstore.trust_config()))
    assert (type(error), error.code) == (NotAllowed, "identity_refused")


@pytest.mark.parametrize(
    "path", ["/api/v2/signingCert", "/api/v2/log/entries"], ids=["certificate authority", "log"]
)
def test_a_service_that_never_answers(path: str) -> None:
    with instance(hang={path}) as slow:
        error = refused(KeylessSigner(slow.ci_token(), slow.trust_config(), seconds=1))
    assert (type(error), error.code) == (Temporary, "sigstore_timeout")


def test_services_that_are_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with instance() as gone:
        config = gone.trust_config().replace(gone.url.encode(), f"http://127.0.0.1:{port}".encode())
        error = refused(KeylessSigner(gone.ci_token(), config))
    assert (type(error), error.code) == (Temporary, "sigstore_unreachable")
    assert str(port) in error.message


def test_a_log_that_fails() -> None:
    with instance() as broken:
        config = broken.trust_config().replace(b'"majorApiVersion": 2', b'"majorApiVersion": 1')
        del broken.rekor1
        error = refused(KeylessSigner(broken.ci_token(), config))
    assert (type(error), error.code) == (Temporary, "sigstore_failed")


def test_no_timestamp_where_the_log_gives_no_time(sigstore: LocalSigstore) -> None:
    """A failing timestamp authority is a warning to the library; without any time nothing can be verified."""
    config = sigstore.trust_config(rekor=2, timestamps=False)
    error = refused(KeylessSigner(sigstore.ci_token(), config))
    assert error.code in {"sigstore_failed", "no_trusted_time"}


def test_a_certificate_that_names_nobody_is_noticed_before_anything_is_sent(sigstore: LocalSigstore) -> None:
    token = sigstore.token(sub="https://ci.example/someone")
    assert refused(KeylessSigner(token, sigstore.trust_config())).code == "certificate_identity"


def test_a_trusted_root_alone_cannot_sign(sigstore: LocalSigstore) -> None:
    root = json.dumps(sigstore.trusted_root()).encode()
    assert refused(KeylessSigner(sigstore.ci_token(), root)).code == "trust_config_invalid"


def test_a_configuration_whose_services_have_expired(sigstore: LocalSigstore) -> None:
    config = json.loads(sigstore.trust_config())
    for service in config["signingConfig"]["caUrls"]:
        service["validFor"] = {"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"}
    error = refused(KeylessSigner(sigstore.ci_token(), json.dumps(config).encode()))
    assert error.code == "trust_config_invalid"


def test_a_named_key_and_a_named_token(settings: Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        choose_signer(settings, Wanted(key="default", token_file=token_file(tmp_path)), NO_CI)
    assert error.value.code == "signer_ambiguous"


def test_what_is_named_comes_before_what_the_environment_has(settings: Config, tmp_path: Path) -> None:
    new_key(settings.keys)
    environ = {**NO_CI, TOKEN: "d.e.f"}
    assert isinstance(choose_signer(settings, Wanted(key="default"), environ), KeyFile)
    named = choose_signer(settings, Wanted(token_file=token_file(tmp_path)), environ)
    assert isinstance(named, KeylessSigner)
    assert named.token == "a.b.c"
    found = choose_signer(settings, Wanted(), environ)
    assert isinstance(found, KeylessSigner)
    assert found.token == "d.e.f"
    assert isinstance(choose_signer(settings, Wanted(), NO_CI), KeyFile)


def test_without_key_and_token_a_program_is_told_what_to_do(settings: Config) -> None:
    with pytest.raises(UsageError) as error:
        choose_signer(settings, Wanted(), NO_CI)
    assert error.value.code == "key_missing"


LEFT_OPEN = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""The library leaves the socket open on which it waits for a browser."""


@LEFT_OPEN
def test_a_person_logs_in_by_a_code(
    settings: Config, sigstore: LocalSigstore, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Out of band: the address to open is shown, the code that it gives is typed in."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("ada@example.com\n"))
    signer = choose_signer(settings, Wanted(oob=True), NO_CI, ask=lambda _prompt: "")
    assert f"{sigstore.url}/oidc/auth" in capsys.readouterr().err
    gc.collect()
    words = signer.sign(publish("1.0.0")).signer.words
    assert words == f"oidc:{sigstore.issuer}#ada@example.com"


@LEFT_OPEN
def test_nobody_logs_in(settings: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(NotAvailable) as error:
        choose_signer(settings, Wanted(oob=True), NO_CI, ask=lambda _prompt: "")
    assert error.value.code == "login_failed"
    del error
    gc.collect()


@pytest.mark.parametrize("content", ["", "\n", "two words", "a.b.c\nd.e.f", "\u00e4"])
def test_a_file_that_holds_no_token(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError) as error:
        read_token(token_file(tmp_path, content))
    assert error.value.code == "identity_token_invalid"


@pytest.mark.parametrize("name", ["nothing", ".", "a\0b"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAvailable) as error:
        read_token(name)
    assert error.value.code == "token_file_unreadable"
