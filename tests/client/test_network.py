"""Whose certificates are believed, and which proxy is used: real TLS servers, real proxies, real commands."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from plugreg.config import SYSTEM_CA, CaFile, Config, load
from plugreg.credentials import Wanted, choose_signer
from plugreg.keyless import KeylessSigner
from plugreg.link import Link, Patience
from plugreg.network import REQUESTS_VARIABLE, Network, origin, proxy_of, without_password
from plugreg_schemas.errors import NotAvailable, UsageError
from tests.support.commands import User, write_plugin
from tests.support.publisher import ask
from tests.support.record import publish
from tests.support.registries import running
from tests.support.scripted import Answer, as_json, problem, serving
from tests.support.tls import Authority, fronted, tunnelling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.local_sigstore import LocalSigstore
    from tests.support.registries import RegistryProcess
    from tests.support.scripted import Request, Server

QUICK = Patience(tries=2, first_pause_s=0.001)
GENERAL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine that runs the tests counts."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in GENERAL:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority("Inspection Services")


@pytest.fixture
def pem(ca: Authority, tmp_path: Path) -> str:
    return ca.write(tmp_path / "ca.pem")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


@contextmanager
def hello(ca: Authority, *names: str, days: int = 1) -> Iterator[str]:
    """A server that says hello, behind TLS; its URL."""
    with (
        serving(lambda _: Answer(200, b"hello")) as server,
        fronted(port_of(server.url), ca.server(*names, days=days)) as port,
    ):
        yield f"https://127.0.0.1:{port}/"


def said(url: str, network: Network) -> bytes:
    return Link(url, patience=QUICK, network=network).whole("GET", "x")[1]


def refused(url: str, network: Network) -> NotAvailable:
    with pytest.raises(NotAvailable) as error:
        said(url, network)
    assert error.value.code == "tls_failed"
    return error.value


# --- L1: a registry behind an authority that no system knows ---------------------------------------------------------


def settings_of(user: User, how: str, pem: str) -> list[str]:
    """Name the authority in one of the ways there are; return the words that go with every command."""
    if how == "--ca-file":
        return ["--ca-file", pem]
    if how == "config.toml":
        (user.folder / "home").mkdir(parents=True)
        (user.folder / "home" / "config.toml").write_text(f'ca_file = "{pem}"')
    else:
        user.environment[how] = pem
    return []


@pytest.mark.parametrize("how", [*GENERAL, "--ca-file"])
def test_t25_publish_install_and_verify_behind_a_private_authority(
    registry: RegistryProcess, ca: Authority, pem: str, tmp_path: Path, how: str
) -> None:
    name = f"demo-{how.strip('-').replace('_', '-').lower()}"
    user = User(tmp_path / "user")
    with fronted(registry.port, ca.server()) as port:
        words = settings_of(user, how, pem)
        user.run("registry", "add", f"https://localhost:{port}", *words)
        user.run("key", "new")
        folder = write_plugin(tmp_path / name, name)
        user.run("publish", str(folder), "--accept-registry", registry.id, *words)
        assert user.run("info", name, *words)["version"] == "1.0.0"
        assert user.run("install", name, *words)["installed"][0]["version"] == "1.0.0"
        user.run("update", *words)
    user.run("verify")


@pytest.mark.parametrize("how", ["PLUGREG_CA_FILE", "config.toml"])
def test_our_own_settings_name_the_authority_too(
    registry: RegistryProcess, ca: Authority, pem: str, tmp_path: Path, how: str
) -> None:
    user = User(tmp_path / "user")
    settings_of(user, how, pem)
    with fronted(registry.port, ca.server()) as port:
        user.run("registry", "add", f"https://localhost:{port}")


def test_t25_without_a_setting_the_certificate_its_issuer_and_the_three_ways_are_named(
    registry: RegistryProcess, ca: Authority, tmp_path: Path
) -> None:
    user = User(tmp_path / "user")
    with fronted(registry.port, ca.server()) as port:
        said = user.fails("registry", "add", f"https://localhost:{port}", code=7)
    assert said["code"] == "tls_failed"
    assert f"the certificate of https://localhost:{port} is not accepted" in said["detail"]
    assert "CN=plugreg test Inspection Services" in said["detail"]
    for way in ("--ca-file", *GENERAL):
        assert way in said["hint"]


@pytest.mark.parametrize("how", ["--ca-file", "SSL_CERT_FILE", "config.toml"])
@pytest.mark.parametrize("kind", ["missing", "text", "pipe"])
def test_a_file_of_authorities_that_is_none(tmp_path: Path, ca: Authority, how: str, kind: str) -> None:
    path = tmp_path / "ca.pem"
    if kind == "text":
        path.write_text("no certificate\n")
    elif kind == "pipe":
        os.mkfifo(path)
    user = User(tmp_path / "user")
    words = settings_of(user, how, str(path))
    with hello(ca) as url:
        said = user.fails("registry", "add", url, *words, code=2)
    assert said["code"] == "ca_file_invalid"
    assert str(path) in said["detail"]
    assert ("ca_file" if how == "config.toml" else how) in said["hint"]


def test_a_project_does_not_say_whose_certificates_are_believed(tmp_path: Path) -> None:
    (tmp_path / "plugreg.toml").write_text('ca_file = "mine.pem"')
    with pytest.raises(UsageError) as error:
        load({"PLUGREG_HOME": str(tmp_path)}, folder=tmp_path)
    assert error.value.code == "config_invalid"


def test_the_most_particular_setting_counts(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('ca_file = "user"')
    environ = {"PLUGREG_HOME": str(tmp_path), "REQUESTS_CA_BUNDLE": "requests"}
    empty = tmp_path / "empty"
    empty.mkdir()
    assert load({**environ, "PLUGREG_HOME": str(empty)}, folder=empty).ca_file == (
        "requests",
        "REQUESTS_CA_BUNDLE",
    )
    environ["SSL_CERT_FILE"] = "openssl"
    assert load({**environ, "PLUGREG_HOME": str(empty)}, folder=empty).ca_file.path == "openssl"
    assert load(environ, folder=empty).ca_file == ("user", "ca_file")
    environ["PLUGREG_CA_FILE"] = "ours"
    assert load(environ, folder=empty).ca_file == ("ours", "PLUGREG_CA_FILE")
    assert load(environ, folder=empty, ca_file="flag").ca_file == ("flag", "--ca-file")
    assert load({"PLUGREG_HOME": str(empty), "SSL_CERT_FILE": ""}, folder=empty).ca_file == SYSTEM_CA


def test_commands_that_need_no_certificate_do_not_look_at_authorities(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    user = User(tmp_path / "user", dict.fromkeys((*GENERAL, "PLUGREG_CA_FILE"), "/nowhere/ca.pem"))
    assert user.raw("--version").returncode == 0
    user.run("list")
    user.run("registry", "add", registry.url)
    user.run("registry", "add", registry.objects.as_uri(), "--name", "copy")
    network = Network(CaFile("/nowhere/ca.pem", "--ca-file"))
    with serving(lambda _: Answer(200, b"hello")) as server:
        assert said(server.url, network) == b"hello"
    assert "tls" not in vars(network)


# --- which certificates ----------------------------------------------------------------------------------------------


def test_a_file_takes_the_place_of_the_systems_authorities(ca: Authority, pem: str, tmp_path: Path) -> None:
    other = Authority("other").write(tmp_path / "other.pem")
    with hello(ca) as url:
        assert said(url, Network(CaFile(pem, "--ca-file"))) == b"hello"
        assert "Inspection Services" in refused(url, Network(CaFile(other, "--ca-file"))).message
    assert [a["subject"][0][0][1] for a in Network(CaFile(pem)).tls.get_ca_certs()] == [
        "plugreg test Inspection Services"
    ]


def test_a_file_of_several_authorities_with_words_between(ca: Authority, tmp_path: Path) -> None:
    path = tmp_path / "all.pem"
    path.write_bytes(Authority("other").pem + "# Zürich\n".encode() + ca.pem)
    with hello(ca) as url:
        assert said(url, Network(CaFile(str(path), "--ca-file"))) == b"hello"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl names the files of such a folder")
def test_a_folder_of_authorities(ca: Authority, pem: str, tmp_path: Path) -> None:
    asked = ["openssl", "x509", "-hash", "-noout", "-in", pem]
    name = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "folder").mkdir()
    ca.write(tmp_path / "folder" / f"{name}.0")
    with hello(ca) as url:
        assert said(url, Network(CaFile(str(tmp_path / "folder"), "REQUESTS_CA_BUNDLE"))) == b"hello"


@pytest.mark.parametrize(
    ("names", "days", "word"), [(["elsewhere.example"], 1, "match"), ([], -1, "expired")]
)
def test_a_certificate_that_no_authority_would_help(
    ca: Authority, pem: str, names: list[str], days: int, word: str
) -> None:
    with hello(ca, *names, days=days) as url:
        error = refused(url, Network(CaFile(pem, "--ca-file")))
    assert word in error.message
    assert "--ca-file" not in error.hint


def test_a_server_that_speaks_no_tls(registry: RegistryProcess) -> None:
    error = refused(registry.url.replace("http://", "https://"), Network())
    assert "certificate" not in error.message
    assert "TLS" in error.hint


def test_a_connection_that_ends_in_the_handshake_is_a_passing_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(f"https://127.0.0.1:{server.getsockname()[1]}", patience=QUICK)

        def serve() -> None:
            for _ in range(QUICK.tries):
                client, _address = server.accept()
                with client:
                    client.recv(1 << 12)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NotAvailable) as error:
            link.whole("GET", "x")
        thread.join()
    assert error.value.code == "registry_unreachable"


def test_the_look_at_a_refused_certificate_sends_no_request(ca: Authority) -> None:
    with (
        serving(lambda _: Answer(200, b"hello")) as server,
        fronted(port_of(server.url), ca.server()) as port,
    ):
        refused(f"https://127.0.0.1:{port}/", Network())
        assert server.requests == []


def test_the_place_of_a_redirect_is_named_not_the_registrys(ca: Authority) -> None:
    with hello(ca) as there, serving(lambda _: Answer(307, headers={"Location": there})) as server:
        assert origin(there) in refused(server.url, Network()).message


# --- the signing services --------------------------------------------------------------------------------------------


@contextmanager
def encrypted(sigstore: LocalSigstore, ca: Authority) -> Iterator[bytes]:
    """The trust configuration of an instance whose services are behind TLS."""
    with fronted(port_of(sigstore.url), ca.server()) as port:
        yield sigstore.trust_config().replace(sigstore.url.encode(), f"https://localhost:{port}".encode())


def test_signing_services_behind_a_private_authority(
    sigstore: LocalSigstore, ca: Authority, pem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REQUESTS_VARIABLE, "/nowhere/before.pem")
    with encrypted(sigstore, ca) as config:
        network = Network(CaFile(pem, "--ca-file"))
        envelope = KeylessSigner(sigstore.ci_token(), config, network=network).sign(publish("1.0.0"))
    assert envelope.payload == publish("1.0.0").payload()
    assert os.environ[REQUESTS_VARIABLE] == "/nowhere/before.pem"


def test_signing_services_whose_certificate_is_not_accepted(sigstore: LocalSigstore, ca: Authority) -> None:
    with encrypted(sigstore, ca) as config, pytest.raises(NotAvailable) as error:
        KeylessSigner(sigstore.ci_token(), config).sign(publish("1.0.0"))
    assert error.value.code == "tls_failed"
    assert "Inspection Services" in error.value.message
    assert "--ca-file" in error.value.hint
    assert REQUESTS_VARIABLE not in os.environ


def test_a_login_whose_certificate_is_not_accepted(
    sigstore: LocalSigstore, ca: Authority, tmp_path: Path
) -> None:
    with encrypted(sigstore, ca) as config:
        (tmp_path / "trust.json").write_bytes(config)
        settings = Config(tmp_path / "home", tmp_path / "root", trust_config=str(tmp_path / "trust.json"))
        with pytest.raises(NotAvailable) as error:
            choose_signer(settings, Wanted(oob=True), {}, lambda _: "")
    assert error.value.code == "tls_failed"
    assert "Inspection Services" in error.value.message


def test_signing_services_with_a_file_of_authorities_that_is_none(sigstore: LocalSigstore) -> None:
    network = Network(CaFile("/nowhere/ca.pem", "SSL_CERT_FILE"))
    with pytest.raises(UsageError) as error:
        KeylessSigner(sigstore.ci_token(), sigstore.trust_config(), network=network).sign(publish("1.0.0"))
    assert error.value.code == "ca_file_invalid"


def test_the_signing_library_believes_the_systems_authorities_and_not_its_own_list() -> None:
    paths = ssl.get_default_verify_paths()
    with Network().for_requests():
        assert os.environ.get(REQUESTS_VARIABLE) in {paths.cafile, paths.capath, None}
        assert (REQUESTS_VARIABLE in os.environ) is bool(paths.cafile or paths.capath)
    assert REQUESTS_VARIABLE not in os.environ


# --- L4: storage behind a redirect -----------------------------------------------------------------------------------


def test_t25_cut_downloads_from_a_strict_storage_behind_tls(
    registry: RegistryProcess, ca: Authority, pem: str, tmp_path: Path
) -> None:
    """The registry leads to a signed address of another origin, which cuts the first answer in the middle."""

    def strict(request: Request) -> Answer:
        extra = request.headers.keys() - {"Host", "User-Agent", "Accept-Encoding", "Range", "If-Range"}
        if extra or "?signature=1" not in request.path:
            return problem(400, "only_one_credential")
        found = ask(registry.url + request.path.partition("?")[0].lstrip("/"), headers=request.headers)
        head = {name: found.headers[name] for name in ("content-range", "etag") if name in found.headers}
        return Answer(
            found.status, found.body, head, sent=len(found.body) // 2 if request.number < 2 else None
        )

    def leading(request: Request) -> Answer:
        if "/blobs/" in request.path:
            return Answer(307, headers={"Location": f"https://127.0.0.1:{there}{request.path}?signature=1"})
        found = ask(
            registry.url + request.path.lstrip("/"), request.method, request.body or None, request.headers
        )
        return Answer(found.status, found.body, {"Content-Type": found.headers.get("content-type", "")})

    author = User(tmp_path / "author")
    author.run("key", "new")
    folder = write_plugin(tmp_path / "plugin", "cut", files={"data.bin": os.urandom(100_000)})
    author.run("publish", str(folder), "--registry", registry.url)
    user = User(tmp_path / "user", {"SSL_CERT_FILE": pem})
    with (
        serving(strict) as storage,
        fronted(port_of(storage.url), ca.server()) as there,
        serving(leading) as server,
        fronted(port_of(server.url), ca.server()) as here,
    ):
        user.run("registry", "add", f"https://localhost:{here}", "--name", "team")
        user.run("install", "cut")
        assert [("Range" in request.headers) for request in storage.requests] == [False, True, True]
    user.run("verify")


# --- proxies ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry_server() -> Iterator[Server]:
    with serving(lambda _: as_json({"path": "here"})) as server:
        yield server


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_registry_by_a_proxy(
    ca: Authority, pem: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with (
        serving(lambda _: Answer(200, b"hello")) as server,
        fronted(port_of(server.url), ca.server("plugins.example")) as port,
        tunnelling(port) as proxy,
    ):
        monkeypatch.setenv(variable, proxy.url)
        assert said("https://plugins.example/", Network(CaFile(pem, "--ca-file"))) == b"hello"
        assert proxy.targets == ["plugins.example:443"]
        error = refused("https://plugins.example/", Network())
    assert "Inspection Services" in error.message


def test_an_open_registry_by_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(lambda request: Answer(200, request.path.encode())) as server,
        tunnelling(port_of(server.url)) as proxy,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removeprefix("http://"))
        link = Link("http://plugins.example/", insecure_http=True, patience=QUICK)
        assert link.whole("GET", "x")[1] == b"/x"
        assert proxy.targets == ["http://plugins.example/x"]


@pytest.mark.parametrize(
    ("url", "without"),
    [
        ("https://127.0.0.1:8470/", ""),
        ("https://localhost/", ""),
        ("http://[::1]:8470/", ""),
        ("https://plugins.example/", "plugins.example"),
        ("https://plugins.example/", "other.example, .example"),
        ("https://plugins.example/", "example"),
        ("https://plugins.example:8443/", "plugins.example:8443"),
        ("https://plugins.example/", "*"),
        ("https:///", ""),
        ("https://[bad/", ""),
    ],
)
def test_the_direct_way(monkeypatch: pytest.MonkeyPatch, url: str, without: str) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", without)
    assert proxy_of(url) == ""
    assert proxy_of("https://ample/") == ("" if without == "*" else "http://proxy.example:3128")


def test_a_proxy_with_a_password(ca: Authority, pem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ann:s3:cret`, of which the URL must spell one colon otherwise."""
    network = CaFile(pem, "--ca-file")
    with (
        serving(lambda _: Answer(200, b"hello")) as server,
        fronted(port_of(server.url), ca.server("plugins.example")) as port,
        tunnelling(port, password="Basic YW5uOnMzOmNyZXQ=") as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//ann:s3%3Acret@"))
        assert said("https://plugins.example/", Network(network)) == b"hello"
        assert all("proxy-authorization" not in {n.lower() for n in r.headers} for r in server.requests)
        assert "Inspection Services" in refused("https://plugins.example/", Network()).message
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//ann:wr0ng@"))
        with pytest.raises(NotAvailable) as error:
            said("https://plugins.example/", Network(network))
    assert error.value.code == "registry_unreachable"
    assert "407" in error.value.message
    assert f"...@127.0.0.1:{proxy.port}" in error.value.message
    assert "wr0ng" not in str(error.value)


@pytest.mark.parametrize("proxy", ["socks5://ann:s3cret@proxy.example", "http://ann:s3cret@proxy.example:x"])
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(UsageError) as error:
        said("https://plugins.example/", Network())
    assert error.value.code == "proxy_invalid"
    assert "s3cret" not in str(error.value)
    assert "HTTPS_PROXY" in error.value.hint


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://ann:pw@proxy.example:1", "http://...@proxy.example:1"),
        ("http://proxy.example", "http://proxy.example"),
        ("http://a@b:pw@proxy.example/", "http://...@proxy.example/"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://A.example/x?y#z", "https://a.example:443"),
        ("http://a.example:80/", "http://a.example:80"),
        ("https://ann@a.example:8443", "https://a.example:8443"),
        ("https://[::1]/", "https://[::1]:443"),
        ("https://a.example:99999/", ""),
        ("https://[bad/", ""),
        ("nothing", ""),
    ],
)
def test_origins(url: str, same: str) -> None:
    assert origin(url) == same
