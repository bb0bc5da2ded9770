"""`--timestamp-url`: a signature by a key gets a proved time, or nothing is sent at all."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from plugreg import timestamping
from plugreg.config import Config, load
from plugreg.credentials import Wanted, choose_signer
from plugreg.network import Network
from plugreg.signing import KeyFile, new_key
from plugreg.timestamping import MAX_REPLY, signed, timestamp
from plugreg_schemas.errors import PlugregError, Temporary, Unverifiable, UsageError
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import publish_statement
from plugreg_schemas.trust.envelope import decode_base64, parse_envelope
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
from tests.support.commands import User, write_plugin
from tests.support.record import REGISTRY
from tests.support.registries import running
from tests.support.timestamps import TimestampAuthority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.local_sigstore import LocalSigstore

STATEMENT = publish_statement(
    Digest.of(b"x"), registry=REGISTRY, plugin="demo", version="1.0.0", format="agent-plugins"
)
Answer = tuple[int, bytes]


@dataclass
class Service:
    """A timestamp authority on loopback. `answer` decides what is said to a request."""

    authority: TimestampAuthority = field(default_factory=TimestampAuthority)
    answer: Callable[[bytes], Answer] | None = None
    asked: list[bytes] = field(default_factory=list)
    url: str = ""

    def reply(self, request: bytes) -> Answer:
        self.asked.append(request)
        return self.answer(request) if self.answer else (200, self.authority.answer(request))


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["content-type"] == "application/timestamp-query"
            status, content = service.reply(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            if status == 302:
                self.send_header("location", service.url)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as instance:
        yield instance


def stamping(folder: Path, url: str) -> KeyFile:
    new_key(folder / "keys")
    signer = choose_signer(Config(home=folder, root=folder, timestamp_url=url), Wanted(), {})
    assert isinstance(signer, KeyFile)
    return signer


def knowing(sigstore: LocalSigstore) -> SigstoreVerifier:
    return SigstoreVerifier(lambda: json.dumps(sigstore.trusted_root()).encode())


# a good one


def test_a_signature_gets_its_time_from_the_authority(tmp_path: Path, sigstore: LocalSigstore) -> None:
    signer = stamping(tmp_path, f"{sigstore.url}/timestamps")
    envelope = signed(signer, STATEMENT, knowing(sigstore))
    assert len(envelope.timestamps) == 1
    assert parse_envelope(envelope.content) == envelope
    keys = {signer.identity.id: decode_base64(signer.public_key)}
    found = verify(envelope, keys, knowing(sigstore))
    assert found.time is not None
    assert abs(found.time - datetime.now(UTC)) < timedelta(minutes=1)
    assert verify(envelope, keys).time is None


def test_without_the_setting_nobody_is_asked_and_the_envelope_is_as_it_was(tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys")
    signer = choose_signer(Config(home=tmp_path, root=tmp_path), Wanted(), {})
    envelope = signed(signer, STATEMENT, None)
    assert (envelope.timestamps, envelope.content) == ((), key.sign(STATEMENT).content)


@pytest.mark.parametrize("source", ["flag", "environment", "user"])
def test_the_authority_is_named_by_flag_environment_or_user(tmp_path: Path, source: str) -> None:
    environ = {"PLUGREG_HOME": str(tmp_path)}
    if source == "environment":
        environ["PLUGREG_TIMESTAMP_URL"] = "https://tsa.example"
    elif source == "user":
        (tmp_path / "config.toml").write_text('timestamp_url = "https://tsa.example"')
    flag = "https://tsa.example" if source == "flag" else ""
    assert load(environ, timestamp_url=flag).timestamp_url == "https://tsa.example"


def test_a_project_does_not_choose_the_authority(tmp_path: Path) -> None:
    (tmp_path / "plugreg.toml").write_text('timestamp_url = "https://tsa.example"')
    with pytest.raises(UsageError, match="config_invalid"):
        load({"PLUGREG_HOME": str(tmp_path / "home")}, folder=tmp_path)


# bad ones: nothing is signed then


def refused(url: str) -> PlugregError:
    with pytest.raises(PlugregError) as caught:
        timestamp(url, b"a signature", Network())
    return caught.value


@pytest.mark.parametrize(
    "url", ["tsa.example", "ftp://tsa.example", "https://", "http://[::1", "http://a b/", ""]
)
def test_what_is_no_url_is_refused_before_the_key_is_used(tmp_path: Path, url: str) -> None:
    error = refused(url)
    assert (type(error), error.code) == (UsageError, "timestamp_url_invalid")
    if url:
        with pytest.raises(UsageError, match="timestamp_url_invalid"):
            stamping(tmp_path, url)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda _: (500, b""), "status 500"),
        (lambda _: (302, b""), "status 302"),
        (lambda _: (200, b""), "no timestamp"),
        (lambda _: (200, b"<html>"), "no timestamp"),
        (lambda _: (200, b"\x30\x05\x30\x03\x02\x01\x02"), "refused with the status 2"),
        (lambda _: (200, b"x" * (MAX_REPLY + 1)), "larger than"),
    ],
)
def test_an_answer_that_is_no_timestamp_is_refused(
    service: Service, answer: Callable[[bytes], Answer], words: str
) -> None:
    service.answer = answer
    error = refused(service.url)
    assert (type(error), error.code) == (Temporary, "timestamp_failed")
    assert words in error.message
    assert len(service.asked) == 1


def test_a_timestamp_of_another_signature_is_refused(service: Service) -> None:
    other = Service()
    with serving(other):
        timestamp(other.url, b"another signature", Network())
    service.answer = lambda _: (200, service.authority.answer(other.asked[0]))
    assert "something else" in refused(service.url).message


def test_an_old_answer_served_again_is_refused(service: Service) -> None:
    """The nonce of each request is its own."""
    first = timestamp(service.url, b"a signature", Network())
    service.answer = lambda _: (200, first)
    assert "another request" in refused(service.url).message


def test_nobody_there_is_said(service: Service) -> None:
    with serving(Service()) as gone:
        pass
    error = refused(gone.url)
    assert (error.code, "cannot be reached" in error.message) == ("timestamp_failed", True)


@pytest.mark.parametrize("host", ["127.0.0.1:9", "exa mple:9"])
def test_a_password_in_the_address_is_not_shown(host: str) -> None:
    error = refused(f"http://user:secret@{host}/")
    assert error.code in {"timestamp_failed", "timestamp_url_invalid"}
    assert "secret" not in f"{error.message}{error.hint}{error.details}"


def test_a_reply_that_drips_is_given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamping, "TOTAL_S", -1)
    assert "cannot be reached" in refused(service.url).message


def test_a_forged_timestamp_is_not_sent(tmp_path: Path, service: Service, sigstore: LocalSigstore) -> None:
    """It names a known authority, which did not sign it."""
    forger = TimestampAuthority()
    forger.certificate = sigstore.timestamps.certificate
    service.authority = forger
    with pytest.raises(Temporary, match="timestamp_failed"):
        signed(stamping(tmp_path, service.url), STATEMENT, knowing(sigstore))


def test_a_timestamp_that_readers_cannot_use_is_not_sent(
    tmp_path: Path, service: Service, sigstore: LocalSigstore
) -> None:
    signer = stamping(tmp_path, service.url)
    for material in (knowing(sigstore), None):
        with pytest.raises(Unverifiable) as caught:
            signed(signer, STATEMENT, material)
        assert caught.value.code == "trust_material_missing"
        assert caught.value.details == {"missing": "timestamp authority"}


# the commands


def test_a_publish_with_a_timestamp_is_stored_with_it(tmp_path: Path, sigstore: LocalSigstore) -> None:
    config = tmp_path / "trust.json"
    config.write_bytes(sigstore.trust_config())
    user = User(tmp_path / "ann", {"PLUGREG_TRUST_CONFIG": str(config)})
    user.run("key", "new")
    plugin = write_plugin(tmp_path / "demo")
    with running(
        tmp_path / "registry", environment={"PLUGREG_REGISTRY_TRUST_CONFIG": str(config)}
    ) as registry:
        user.run("registry", "add", registry.url, "--name", "team")
        problem = user.fails("publish", str(plugin), "--timestamp-url", "http://127.0.0.1:9/", code=8)
        assert problem["code"] == "timestamp_failed"
        assert user.fails("info", "demo", code=7)["code"] == "plugin_not_found"
        user.run("publish", str(plugin), "--timestamp-url", f"{sigstore.url}/timestamps")
        stamped = [
            parse_envelope(path.read_bytes()).timestamps
            for path in (registry.objects / "attestations").rglob("*.json")
        ]
        assert [len(stamps) for stamps in stamped] == [1]
        user.environment["PLUGREG_TIMESTAMP_URL"] = f"{sigstore.url}/timestamps"
        user.run("yank", "demo@1.0.0", "--reason", "a test")
        user.run("install", "demo@1.0.0")
        facts = json.loads(next((user.root / ".store/demo").glob("*.facts.json")).read_bytes())
        assert facts["signed_at"] is not None
        assert facts["published_at"] is not None
