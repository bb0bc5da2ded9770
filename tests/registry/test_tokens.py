"""A registry that is read with tokens: nothing is shown without one, and a removed one soon opens nothing."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry import token_desk, tokens
from plugreg_registry.gate import KEPT_SECONDS, Doorkeeper
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.tokens import DatabaseTokens
from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import InvalidInput, NotAllowed, Temporary, Unauthenticated, UsageError
from tests.registry.test_command import command, refused
from tests.support.publisher import Answer, Author, ask, digest_of, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from plugreg_registry.records import Scope, Token

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
CDN = "https://cdn.example/{key}"
NOBODYS = "plugreg_read_" + "x" * 43
BUNDLE = plugin()
STATIC = (".well-known/plugreg.json", "index/metadata/timestamp.json", "index/plugins/demo.json")
BLOB = f"blobs/sha256/{digest_of(BUNDLE)[7:]}"
QUERIES = (
    "v1/plugins/demo",
    "v1/plugins/demo/1.0.0",
    "v1/resolve?plugin=demo&language=python",
    "v1/changes",
    "openapi.json",
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    settings = {"PLUGREG_REGISTRY_READERS": "tokens", "PLUGREG_REGISTRY_DOWNLOADS": f"cdn:{CDN}"}
    with running(tmp_path_factory.mktemp("registry"), environment=settings) as registry:
        yield registry


@pytest.fixture(scope="module")
def published(registry: RegistryProcess) -> RegistryProcess:
    assert Author(registry.url, registry.id).publish(BUNDLE).status == 201, "a publish needs no token"
    return registry


def given_out(registry: RegistryProcess, scope: Scope = "read") -> tuple[Token, str]:
    """A new token and its secret, made as `token add` does."""
    token, secret = tokens.issue("somebody", scope, datetime.now(UTC))
    engine = open_database(registry.data / "registry.sqlite3")
    DatabaseTokens(engine).add(token)
    engine.dispose()
    return token, secret


def get(registry: RegistryProcess, path: str, secret: str = "", method: str = "GET", **more: str) -> Answer:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return ask(registry.url + path, method, headers=headers | more)


@pytest.mark.parametrize("path", [*STATIC, BLOB, *QUERIES, "v1/audit", "index/plugins/none.json", "nothing"])
def test_without_a_token_nothing_is_shown_not_even_what_is_there(
    published: RegistryProcess, path: str
) -> None:
    for answer, code in (
        (get(published, path), "token_missing"),
        (get(published, path, NOBODYS), "token_invalid"),
        (get(published, path, "what is that"), "token_invalid"),
        (get(published, path, Authorization="Basic YTpi"), "token_missing"),
    ):
        assert (answer.status, answer.code) == (401, code)
        assert answer.headers["www-authenticate"].startswith('Bearer realm="plugreg"')
        assert answer.headers["cache-control"] == "no-store"
        assert "location" not in answer.headers
        assert "PLUGREG_TOKEN" in answer.json()["hint"]
    assert get(published, path, method="HEAD").status == 401


def test_whether_it_lives_is_told_to_everybody(registry: RegistryProcess) -> None:
    assert {get(registry, path).status for path in ("livez", "readyz")} == {200}
    assert get(registry, "readyz").json()["warnings"] == ["downloads_without_token", "root_keys_online"]
    assert get(registry, STATIC[0], method="OPTIONS").status == 204


def test_a_new_token_opens_everything_at_once(published: RegistryProcess) -> None:
    _, secret = given_out(published)
    answers = {path: get(published, path, secret) for path in (*STATIC, *QUERIES)}
    assert {answer.status for answer in answers.values()} == {200}
    for answer in answers.values():
        assert answer.headers["vary"] == "Authorization"
        assert answer.headers["cache-control"] in {"private, no-cache", "no-store", "private"}, answer.headers


def test_what_a_token_opens_no_shared_cache_may_keep(published: RegistryProcess) -> None:
    _, secret = given_out(published)
    [version] = get(published, "index/plugins/demo.json", secret).json()["versions"]
    digest = version.get("attestations", [version.get("attestation")])[0][7:]
    fixed = get(published, f"attestations/sha256/{digest}.json", secret)
    assert fixed.headers["cache-control"] == "private, max-age=31536000, immutable"
    tag = {"If-None-Match": fixed.headers["etag"]}
    unchanged = get(published, f"attestations/sha256/{digest}.json", secret, **tag)
    assert (unchanged.status, unchanged.headers["vary"]) == (304, "Authorization")


def test_a_way_to_the_store_is_shown_only_after_the_token(published: RegistryProcess) -> None:
    _, secret = given_out(published)
    answer = get(published, BLOB, secret)
    assert answer.headers["location"] == CDN.replace("{key}", BLOB)
    assert answer.headers["cache-control"] == "no-store"


def test_who_has_done_what_is_for_auditors(published: RegistryProcess) -> None:
    (_, reader), (_, auditor) = given_out(published), given_out(published, "audit")
    answer = get(published, "v1/audit", reader)
    assert (answer.status, answer.code) == (403, "token_scope")
    assert (answer.json()["needed"], answer.json()["held"]) == ("audit", "read")
    assert 'scope="audit"' in answer.headers["www-authenticate"]
    assert get(published, "v1/audit", auditor).status == 200
    assert get(published, "index/plugins/demo.json", auditor).status == 200, "`audit` includes `read`"


def test_a_removed_token_opens_nothing_within_seconds(registry: RegistryProcess) -> None:
    token, secret = given_out(registry)
    assert get(registry, STATIC[0], secret).status == 200
    said = command("token", "remove", token.id, "--data", str(registry.data)).stdout
    assert said == f"removed   {token.id}  within {tokens.FRESH_SECONDS} seconds it opens nothing\n"
    end = time.monotonic() + tokens.FRESH_SECONDS + 2
    while get(registry, STATIC[0], secret).status == 200:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_secret_is_printed_once_and_kept_nowhere(registry: RegistryProcess) -> None:
    data = ("--data", str(registry.data))
    made = command("token", "add", "the CI", "--scope", "audit", "--expires", "2099-01-01T00:00:00Z", *data)
    secret = made.stdout.removesuffix("\n")
    assert secret.startswith("plugreg_audit_")
    assert secret not in made.stderr
    assert get(registry, "v1/audit", secret).status == 200
    shown = json.loads(command("token", "list", "--json", *data).stdout)["tokens"]
    [row] = [row for row in shown if row["name"] == "the CI"]
    assert row.pop("id") in made.stderr
    assert row.pop("created").endswith("Z")
    assert row == {
        "name": "the CI",
        "scope": "audit",
        "state": "valid",
        "expires": "2099-01-01T00:00:00Z",
        "used": None,
    }
    kept = [path.read_bytes() for path in registry.data.rglob("*") if path.is_file()]
    assert not any(secret.encode() in content for content in kept)
    assert not any(secret in line for line in registry.log)


def test_commands_about_tokens_that_are_refused(registry: RegistryProcess, tmp_path: Path) -> None:
    data = ("--data", str(registry.data))
    assert "no token `1234`" in refused(command("token", "remove", "1234", *data), 7)
    settings, over = read_settings({}, str(registry.data)), datetime(2000, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="token_over"):
        token_desk.add(settings, "x", "read", over)
    with pytest.raises(UsageError, match="data_missing"):
        token_desk.listed(read_settings({}, str(tmp_path)), as_json=False)


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "x" * 101])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(InvalidInput, match="token_name_invalid"):
        tokens.issue(name, "read", NOW)


def test_a_setting_that_is_neither() -> None:
    with pytest.raises(UsageError, match="neither `anyone` nor `tokens`"):
        read_settings({"PLUGREG_REGISTRY_READERS": "nobody"})


def test_a_token_ends_at_its_time() -> None:
    token, secret = tokens.issue("x", "read", NOW, NOW + timedelta(hours=1))
    assert tokens.check(secret, token, "read", NOW + timedelta(minutes=59)) == token
    with pytest.raises(Unauthenticated, match="token_invalid"):
        tokens.check(secret, token, "read", NOW + timedelta(hours=1))


def test_a_hash_that_was_found_for_another_secret_opens_nothing() -> None:
    (token, _), (_, other) = tokens.issue("x", "read", NOW), tokens.issue("y", "read", NOW)
    with pytest.raises(Unauthenticated, match="token_invalid"):
        tokens.check(other, token, "read", NOW)


class Shelf:
    """Tokens in memory: an adapter that counts how often it is read, and can be out of order."""

    def __init__(self, *kept: Token) -> None:
        self.kept = list(kept)
        self.reads = 0
        self.broken = False
        self.uses: dict[str, datetime] = {}

    def add(self, token: Token) -> None:
        self.kept.append(token)

    def remove(self, token: str) -> bool:
        before = len(self.kept)
        self.kept = [one for one in self.kept if one.id != token]
        return len(self.kept) < before

    def all(self) -> Sequence[Token]:
        self.reads += 1
        time.sleep(0.02)
        if self.broken:
            raise Temporary("store_unavailable", "the database cannot be used now")
        return tuple(self.kept)

    def note_uses(self, times: Mapping[str, datetime]) -> None:
        self.uses |= times


def bearer(secret: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {secret}".encode())]


def test_who_guesses_many_at_once_costs_two_looks() -> None:
    shelf = Shelf()
    doorkeeper = Doorkeeper(shelf, lambda: NOW, KEPT_SECONDS)

    async def guess() -> list[Any]:
        tries = [doorkeeper.admit(bearer(f"plugreg_read_{n:043}"), "read") for n in range(50)]
        return await asyncio.gather(*tries, return_exceptions=True)

    answers = asyncio.run(guess())
    assert {answer.code for answer in answers} == {"token_invalid"}
    assert shelf.reads <= 2


def test_a_known_token_is_good_while_the_database_is_gone_and_an_unknown_one_may_be() -> None:
    (token, known), (_, unknown) = tokens.issue("x", "read", NOW), tokens.issue("y", "read", NOW)
    shelf = Shelf(token)
    doorkeeper = Doorkeeper(shelf, lambda: NOW, KEPT_SECONDS)

    async def ask_twice() -> None:
        await doorkeeper.admit(bearer(known), "read")
        shelf.broken = True
        await doorkeeper.admit(bearer(known), "read")
        with pytest.raises(Temporary, match="store_unavailable"):
            await doorkeeper.admit(bearer(unknown), "read")

    asyncio.run(ask_twice())
    doorkeeper.note_uses()
    assert shelf.uses == {token.id: NOW}


def test_where_the_registry_is_open_every_auditor_is_looked_up() -> None:
    token, secret = tokens.issue("x", "audit", NOW)
    shelf = Shelf(token)
    doorkeeper = Doorkeeper(shelf, lambda: NOW)

    async def use_and_lose() -> None:
        await doorkeeper.admit(bearer(secret), "audit")
        shelf.remove(token.id)
        with pytest.raises(Unauthenticated):
            await doorkeeper.admit(bearer(secret), "audit")

    asyncio.run(use_and_lose())


def test_two_tokens_in_one_request_are_none() -> None:
    _, secret = tokens.issue("x", "read", NOW)
    with pytest.raises(NotAllowed, match="token_invalid"):
        tokens.secret_in([*bearer(secret), *bearer(secret)])
