"""The token of a private registry: sent to its own origin, kept for nobody else to read, shown nowhere."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from plugreg import config, tokens
from plugreg.index.terms import Terms
from plugreg.link import Link, Patience
from plugreg.registries import KnownRegistry, Registries
from plugreg.remote import Remote
from plugreg_registry import tokens as registry_tokens
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.tokens import DatabaseTokens
from plugreg_schemas.errors import InvalidInput, NotAllowed, NotAvailable, Unauthenticated, UsageError
from plugreg_schemas.names import Digest
from tests.client.test_remote import BUNDLE, DIGEST, LIMITS
from tests.support.commands import User, write_plugin
from tests.support.record import OTHER_REGISTRY, REGISTRY
from tests.support.registries import RegistryProcess, running
from tests.support.scripted import Answer, Request, Server, as_json, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "plugreg_read_" + "t" * 43
OTHER = "plugreg_read_" + "o" * 43
ONCE = Patience(tries=1)
TEAM = KnownRegistry(id=REGISTRY, url="https://team.example/", name="team")
OTHERS = KnownRegistry(id=OTHER_REGISTRY, url="https://others.example/", name="others")


def discovery(**urls: str) -> Answer:
    return as_json({"api-versions": ["1"], "registry": {"id": REGISTRY}, "limits": LIMITS, "urls": urls})


def credentials(server: Server) -> set[str | None]:
    return {request.headers.get("Authorization") for request in server.requests}


def token_file(folder: Path, token: str = TOKEN, mode: int = 0o600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "token"
    path.write_text(token + "\n")
    path.chmod(mode)
    return path


# --- where it goes ---------------------------------------------------------------------------------------------------


def test_l4_a_redirect_to_another_origin_sees_no_token(tmp_path: Path) -> None:
    def store(request: Request) -> Answer:
        return (
            Answer(400, b"one mechanism only") if "Authorization" in request.headers else Answer(200, BUNDLE)
        )

    with serving(store) as other:

        def registry(request: Request) -> Answer:
            if request.path == "/.well-known/plugreg.json":
                return discovery()
            return Answer(307, headers={"Location": other.url + "bucket?X-Amz-Signature=s"})

        with serving(registry) as server:
            into = io.BytesIO()
            remote = Remote(server.url, Terms(tmp_path), patience=ONCE, token=TOKEN)
            remote.download(DIGEST, len(BUNDLE), into)
            assert into.getvalue() == BUNDLE
            assert credentials(server) == {f"Bearer {TOKEN}"}
        assert credentials(other) == {None}


def test_an_address_of_another_origin_in_the_discovery_document_sees_no_token(tmp_path: Path) -> None:
    with serving(lambda _: Answer(200, BUNDLE)) as mirror:
        place = mirror.url + "blobs/{hex}"
        with serving(lambda _: discovery(blob=place, attestation=place)) as server:
            remote = Remote(server.url, Terms(tmp_path), patience=ONCE, token=TOKEN)
            remote.download(DIGEST, len(BUNDLE), io.BytesIO())
            remote.attestation(Digest.of(b"x"))
        assert credentials(mirror) == {None}


def test_who_is_led_away_and_back_has_lost_the_token() -> None:
    with serving(lambda _: Answer(307, headers={"Location": server.url + "home"})) as other:

        def registry(request: Request) -> Answer:
            there = Answer(307, headers={"Location": other.url})
            return Answer(200, b"x") if request.path == "/home" else there

        with serving(registry) as server:
            Link(server.url, patience=ONCE, token=TOKEN).whole("GET", "away")
            assert [request.headers.get("Authorization") for request in server.requests] == [
                f"Bearer {TOKEN}",
                None,
            ]


@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_401_is_told_in_our_words_and_never_has_the_token(token: str) -> None:
    def registry(request: Request) -> Answer:
        echo = {"title": "no", "status": 401, "code": "offline", "detail": str(dict(request.headers))}
        return as_json(echo, 401)

    with serving(registry) as server, pytest.raises(Unauthenticated) as caught:
        Link(server.url, patience=ONCE, token=token).whole("GET", "x")
    assert caught.value.code == ("token_invalid" if token else "token_missing")
    for word in ("PLUGREG_TOKEN", "--token-file", "--registry"):
        assert word in caught.value.hint
    assert TOKEN not in repr(vars(caught.value))


def test_a_token_does_not_go_over_an_open_line() -> None:
    with pytest.raises(UsageError, match="registry_url_insecure"):
        Link("http://plugins.example/", token=TOKEN)


# --- whose it is -----------------------------------------------------------------------------------------------------


def registries(tmp_path: Path, *known: KnownRegistry, project: str = "", **environment: str) -> Registries:
    environ = {"PLUGREG_HOME": str(tmp_path / "home"), "PLUGREG_TOKEN": TOKEN, **environment}
    (tmp_path / "project").mkdir()
    if project:
        (tmp_path / "project" / "plugreg.toml").write_text(f"registry = {json.dumps(project)}\n")
    found = Registries(config.load(environ, folder=tmp_path / "project"))
    found.remember(known)
    return found


@pytest.mark.parametrize("named", ["others", "https://others.example", OTHER_REGISTRY])
def test_the_variable_is_for_the_registry_that_the_user_names(tmp_path: Path, named: str) -> None:
    found = registries(tmp_path, TEAM, OTHERS, PLUGREG_REGISTRY=named)
    assert (found.token(TEAM.url), found.token(OTHERS.url)) == ("", TOKEN)


def test_the_variable_is_for_the_only_registry(tmp_path: Path) -> None:
    assert registries(tmp_path, TEAM).token(TEAM.url) == TOKEN


def test_the_variable_goes_to_none_of_several(tmp_path: Path) -> None:
    found = registries(tmp_path, TEAM, OTHERS)
    assert (found.token(TEAM.url), found.token(OTHERS.url)) == ("", "")


@pytest.mark.parametrize("project", ["https://evil.example/", "others"])
def test_a_project_that_was_cloned_does_not_say_who_gets_the_variable(tmp_path: Path, project: str) -> None:
    found = registries(tmp_path, TEAM, *([OTHERS] if project == "others" else []), project=project)
    assert found.config.registry == project
    assert found.token("https://evil.example/") == ""
    assert found.token(OTHERS.url) == ""


@pytest.mark.parametrize("token", ["two words", "line\nX-Other: 1", "ümlaut", "a" * 5000])
def test_a_variable_that_is_no_token(tmp_path: Path, token: str) -> None:
    found = registries(tmp_path, TEAM, PLUGREG_TOKEN=token)
    with pytest.raises(UsageError, match="token_malformed") as caught:
        found.token(TEAM.url)
    assert token not in str(caught.value)


def test_settings_are_shown_without_the_token(tmp_path: Path) -> None:
    assert TOKEN not in repr(registries(tmp_path, TEAM))


# --- how it is kept --------------------------------------------------------------------------------------------------


def test_a_token_is_kept_for_one_address(tmp_path: Path) -> None:
    tokens.keep(tmp_path, "https://team.example/a/", TOKEN)
    tokens.keep(tmp_path, "https://team.example/b/", OTHER)
    assert tokens.kept(tmp_path, "https://team.example/a") == TOKEN
    assert tokens.kept(tmp_path, "https://team.example/") == ""
    assert tokens.kept(tmp_path, "http://team.example/a/") == ""
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
    tokens.forget(tmp_path, ["https://team.example/a/"])
    assert tokens.kept(tmp_path, "https://team.example/a/") == ""
    assert tokens.kept(tmp_path, "https://team.example/b/") == OTHER


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = token_file(tmp_path, mode=mode)
    with pytest.raises(NotAllowed, match="token_file_exposed") as caught:
        tokens.of_file(str(path))
    assert caught.value.hint.startswith(f"run `chmod 600 {path}`")
    tokens.keep(tmp_path, TEAM.url, TOKEN)
    (tmp_path / "tokens.json").chmod(mode)
    with pytest.raises(NotAllowed, match="token_file_exposed"):
        tokens.kept(tmp_path, TEAM.url)


def test_files_that_have_no_token(tmp_path: Path) -> None:
    for content in ("", "two words", "\0"):
        with pytest.raises(UsageError, match="token_malformed"):
            tokens.of_file(str(token_file(tmp_path, content)))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "folder", "pipe", "nul\0"):
        with pytest.raises(NotAvailable, match="token_file_unreadable"):
            tokens.of_file(str(tmp_path / name))


def test_a_damaged_file_of_ours_is_refused_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"tokens": [TOKEN]}))
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="tokens_invalid") as caught:
        tokens.kept(tmp_path, TEAM.url)
    assert TOKEN not in repr(vars(caught.value))


# --- all of it -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    settings = {"PLUGREG_REGISTRY_READERS": "tokens"}
    with running(tmp_path_factory.mktemp("registry"), environment=settings) as found:
        yield found


@pytest.fixture(scope="module")
def secret(registry: RegistryProcess) -> str:
    token, secret = registry_tokens.issue("user", "read", datetime.now(UTC))
    engine = open_database(registry.data / "registry.sqlite3")
    DatabaseTokens(engine).add(token)
    engine.dispose()
    return secret


def test_everything_works_at_a_private_registry_and_nothing_shows_the_token(
    registry: RegistryProcess, secret: str, tmp_path: Path
) -> None:
    user = User(tmp_path / "user")
    problem = user.fails("registry", "add", registry.url, code=6)
    assert problem["code"] == "token_missing"
    exposed = token_file(tmp_path / "given", secret, 0o644)
    assert user.fails("registry", "add", registry.url, "--token-file", str(exposed), code=6)["code"] == (
        "token_file_exposed"
    )
    exposed.chmod(0o600)
    said = [user.run("registry", "add", registry.url, "--name", "team", "--token-file", str(exposed))]
    said.append(user.run("registry", "list"))
    assert said[-1]["registries"][0]["token_kept"] is True
    user.run("key", "new")
    hello = write_plugin(user.folder / "hello", name="hello")
    commands = (
        ("publish", str(hello)),
        ("install", "hello", "--yes"),
        ("info", "hello"),
        ("mirror", str(tmp_path / "mirror")),
    )
    said.extend(user.run(*words) for words in commands)
    assert secret not in json.dumps(said)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert set(kept) == {exposed, user.folder / "home" / "tokens.json"}
    assert not any(secret in line for line in registry.log)


def test_the_variable_opens_a_private_registry_and_is_not_kept(
    registry: RegistryProcess, secret: str, tmp_path: Path
) -> None:
    user = User(tmp_path / "user", {"PLUGREG_TOKEN": secret})
    user.run("registry", "add", registry.url, "--name", "team")
    user.run("info", "hello")
    assert not (user.folder / "home" / "tokens.json").exists()
    del user.environment["PLUGREG_TOKEN"]
    assert user.fails("info", "hello", code=6)["code"] == "token_missing"
    user.environment["PLUGREG_TOKEN"] = OTHER
    done = user.raw("info", "hello")
    assert done.returncode == 6
    assert "does not accept the token" in done.stderr
    assert OTHER not in done.stderr + done.stdout


def test_a_registry_that_is_removed_takes_its_token_along(
    registry: RegistryProcess, secret: str, tmp_path: Path
) -> None:
    user = User(tmp_path / "user")
    given = token_file(tmp_path / "given", secret)
    user.run("registry", "add", registry.url, "--name", "team", "--token-file", str(given))
    user.run("registry", "remove", "team")
    assert json.loads((user.folder / "home" / "tokens.json").read_text()) == {"tokens": {}}
    copy = user.folder.as_uri()
    assert (
        user.fails("registry", "add", copy, "--token-file", str(given), code=2)["code"] == "token_not_wanted"
    )
