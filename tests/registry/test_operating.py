"""`plugreg-registry rotate` and `revoke` as operators type them, on a registry that serves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.registry.test_command import command, refused
from tests.support.publisher import Author, Key, ask, plugin
from tests.support.registries import RegistryProcess, running
from tests.support.tuf_client import TufClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def client(registry: RegistryProcess, tmp_path: Path) -> TufClient:
    return TufClient(tmp_path / "client", registry.url)


def said(registry: RegistryProcess, *arguments: str, **environment: str) -> str:
    """What a command says that succeeds."""
    done = command(*arguments, "--data", str(registry.data), environment=environment)
    assert done.returncode == 0, done
    assert done.stderr == ""
    return done.stdout


def entries(client: TufClient) -> list[dict[str, Any]]:
    """The revocations as a client verifies them."""
    found: list[dict[str, Any]] = json.loads(client.target("revocations.json") or b"")["entries"]
    return found


def test_every_reader_sees_a_revocation_when_the_command_returns(
    registry: RegistryProcess, client: TufClient
) -> None:
    before = len(entries(client))
    key = f"key:{Key().id}"
    words = ("revoke", "signer", key, "--level", "refuse", "--reason", "the key was stolen")
    times = ("--before", "2026-05-01T02:00:00+02:00", "--expires", "2099-01-01T00:00:00Z")
    assert said(registry, *words, *times) == f"revoked   signer {key}  refuse\n"
    *_, entry = entries(client)
    assert len(entries(client)) == before + 1
    assert entry.pop("at").endswith("Z")
    assert entry == {
        "kind": "signer",
        "value": key,
        "level": "refuse",
        "reason": "the key was stolen",
        "before": "2026-05-01T00:00:00Z",
        "expires": "2099-01-01T00:00:00Z",
    }
    plain = ask(registry.url + "index/revocations.json")
    assert plain.json()["entries"] == [*entries(client)]
    assert plain.headers["cache-control"] == "no-cache"
    assert said(registry, *words, *times) == f"already   signer {key}  refuse\n"
    assert len(entries(client)) == before + 1


def test_closing_ends_an_entry_and_drops_none(registry: RegistryProcess, client: TufClient) -> None:
    said(registry, "revoke", "name", "closed", "--level", "warn", "--reason", "old")
    before = entries(client)
    close = ("revoke", "--close", "name", "closed", "--reason", "kept up again")
    assert said(registry, *close) == "closed    name closed\n"
    assert said(registry, *close) == "already   name closed\n"
    *others, entry = entries(client)
    assert others == before
    assert entry["expires"] == entry["at"]


def test_what_is_revoked_is_listed_for_people_and_for_programs(
    registry: RegistryProcess, client: TufClient
) -> None:
    said(registry, "revoke", "digest", DIGEST, "--level", "disable", "--reason", "it phones home")
    listed = said(registry, "revoke", "--list")
    (line,) = [line for line in listed.splitlines() if DIGEST in line]
    assert line.startswith(f"disable  digest  {DIGEST}  (since ")
    assert line.endswith("): it phones home")
    assert json.loads(said(registry, "revoke", "--list", "--json"))["entries"] == entries(client)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["digest", "sha256:ab", "--level", "warn", "--reason", "x"], 3, "64 lower-case hex digits"),
        (["signer", "ada", "--level", "warn", "--reason", "x"], 3, "is not an identity"),
        (["name", "No Name", "--level", "warn", "--reason", "x"], 3, "`No Name`"),
        (["name", "demo", "--level", "warn", "--reason", "x\ny"], 3, "the revocation"),
        (["name", "demo", "--level", "warn"], 2, "needs `--reason`"),
        (["name", "demo", "--reason", "x"], 2, "needs `--level`"),
        (["name", "--level", "warn", "--reason", "x"], 2, "needs `VALUE`"),
        ([], 2, "needs `KIND`"),
        (["--close", "name", "demo", "--level", "warn", "--reason", "x"], 2, "does not take `--level`"),
        (["--list", "name"], 2, "does not take `KIND`"),
        (["--close", "name", "unheard-of", "--reason", "x"], 7, "is not revoked"),
        (
            ["name", "demo", "--level", "warn", "--reason", "x", "--expires", "2020-01-01T00:00:00Z"],
            2,
            "not in the future",
        ),
    ],
)
def test_what_cannot_be_revoked_changes_nothing(
    registry: RegistryProcess, words: list[str], code: int, told: str
) -> None:
    before = (registry.objects / "index/metadata/timestamp.json").read_bytes()
    answer = refused(command("revoke", "--data", str(registry.data), *words), code)
    assert told in answer
    assert "hint: " in answer or code == 3
    assert (registry.objects / "index/metadata/timestamp.json").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ["plugin", "demo"],
        ["name", "demo", "--level", "ban"],
        ["name", "demo", "--before", "yesterday"],
        ["name", "demo", "--before", "2026-05-01T00:00:00"],
    ],
)
def test_words_that_mean_nothing(registry: RegistryProcess, words: list[str]) -> None:
    done = command("revoke", *words)
    assert done.returncode == 2
    assert "usage: plugreg-registry revoke" in done.stderr


@pytest.mark.parametrize("words", [["revoke", "--list"], ["rotate"]])
def test_a_registry_that_is_not_there_is_not_made(tmp_path: Path, words: list[str]) -> None:
    data = tmp_path / "data"
    assert "there is no registry" in refused(command(*words, "--data", str(data)), 2)
    assert not data.exists()


def test_rotate_prints_the_new_root_and_the_registry_goes_on(
    registry: RegistryProcess, client: TufClient
) -> None:
    author = Author(registry.url, registry.id)
    assert author.publish(plugin("before"), "before").status == 201
    admin = f"key:{Key().id}"
    answer = said(registry, "rotate", "--keep-keys", PLUGREG_REGISTRY_ADMINS=admin)
    facts = dict(line.split(maxsplit=1) for line in answer.splitlines())
    found = ask(registry.url + ".well-known/plugreg.json").json()["trust"]["root"]
    assert found == {"digest": facts["root"], "version": int(facts["version"])}
    assert f"admins    {admin}\n" in answer
    assert [row["signer"]["id"] for row in json.loads(client.target("trust.json") or b"")["admins"]] == [
        admin[4:]
    ]
    assert "new keys  snapshot timestamp index revocations\n" in said(registry, "rotate")
    assert author.publish(plugin("after"), "after").status == 201
    for name in ("before", "after"):
        assert client.document(name) is not None


def test_keeping_keys_and_naming_roles_contradict_each_other(registry: RegistryProcess) -> None:
    told = refused(command("rotate", "--keep-keys", "root", "--data", str(registry.data)), 2)
    assert "`--keep-keys`" in told


def test_without_the_offline_keys_nothing_is_rotated(registry: RegistryProcess, tmp_path: Path) -> None:
    elsewhere = command("rotate", "--offline-keys", str(tmp_path), "--data", str(registry.data))
    assert "--offline-keys" in refused(elsewhere, 7)
    assert list(tmp_path.iterdir()) == []
    assert "root, targets" in refused(command("rotate", "roots", "--data", str(registry.data)), 2)


@pytest.mark.parametrize("words", ["rotate", "revoke"])
def test_help_has_examples(words: str) -> None:
    done = command(words, "--help")
    assert done.returncode == 0
    assert f"Example: plugreg-registry {words}" in done.stdout
