"""Four verdicts that never become one another: verified (0), unsigned (6), invalid (4), unverifiable (7)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.attacked import Person, Scene, attacked
from tests.support.commands import User, write_plugin
from tests.support.registries import running
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.local_sigstore import LocalSigstore


@dataclass(frozen=True)
class Fault:
    """What was done to the release 1.1.0, and what is said to that: exit code, code, and a word of the text."""

    do: Callable[[Scene], None]
    exits: int
    code: str
    word: str


def statement_of(scene: Scene, version: str = "1.1.0") -> str:
    (row,) = (v for v in json.loads(scene.offers.document("demo"))["versions"] if v["version"] == version)
    digest: str = row["attestations"][0]
    return f"attestations/sha256/{digest.removeprefix('sha256:')}.json"


def bundle_of(scene: Scene, version: str = "1.1.0") -> str:
    (row,) = (v for v in json.loads(scene.offers.document("demo"))["versions"] if v["version"] == version)
    return f"blobs/sha256/{row['digest'].removeprefix('sha256:')}"


def flip(scene: Scene, path: str) -> None:
    content = bytearray(scene.index.store[path])
    content[len(content) // 2] ^= 1
    scene.index.store[path] = bytes(content)


def document(scene: Scene, change: Callable[[dict[str, Any]], None]) -> None:
    """The registry itself lists something else, under its signature."""
    scene.offers.alter("demo", change)
    scene.index.take(scene.offers)


def unsigned(scene: Scene) -> None:
    document(scene, lambda d: d["versions"][-1].update(attestations=[]))


def without_public_key(scene: Scene) -> None:
    document(scene, lambda d: d["signers"][0].update(public_key=None))


def without_statement(scene: Scene) -> None:
    del scene.index.store[statement_of(scene)]


def relabelled(scene: Scene) -> None:
    def change(found: dict[str, Any]) -> None:
        old, new = found["versions"]
        new.update({key: old[key] for key in ("attestations", "digest", "size")})

    document(scene, change)


FAULTS = {
    "tampered bundle": Fault(lambda s: flip(s, bundle_of(s)), 4, "digest_mismatch", "altered"),
    "tampered statement": Fault(lambda s: flip(s, statement_of(s)), 4, "attestation_altered", "altered"),
    "re-labelled": Fault(relabelled, 4, "release_mismatch", "was signed as"),
    "no signature": Fault(unsigned, 6, "unsigned", "no signed statement"),
    "statement missing": Fault(without_statement, 7, "attestation_missing", "does not have"),
    "public key missing": Fault(without_public_key, 7, "public_key_missing", "not at hand"),
}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """`demo` 1.0.0 and 1.1.0 are there and good."""
    with attacked(tmp_path) as scene:
        scene.publish("1.0.0")
        scene.publish("1.1.0")
        yield scene


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", ["install", "update"])
def test_each_kind_of_fault_has_its_own_exit_code_and_text(scene: Scene, command: str, fault: str) -> None:
    """None installs anything, and only what is altered is called so."""
    case = FAULTS[fault]
    person = scene.person
    if command == "update":
        scene.run("install", "demo@1.0.0")
        state = person.root / ".state/demo.json"
        state.write_text(json.dumps(json.loads(state.read_bytes()) | {"range": ""}))
    case.do(scene)
    said = scene.refused(command, "demo", exits=case.exits, codes=case.code)
    assert case.word in said
    assert ("altered" in said) == (case.word == "altered")
    assert not list((person.root / ".store").rglob("1.1.0-*"))
    assert list((person.root / ".store/.staging").iterdir()) == []


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"tampered bundle", "statement missing"}))
def test_info_says_the_same(scene: Scene, fault: str) -> None:
    case = FAULTS[fault]
    case.do(scene)
    assert case.word in scene.refused("info", "demo", exits=case.exits, codes=case.code)


def test_info_shows_a_release_whose_statement_is_missing_as_not_verified(scene: Scene) -> None:
    FAULTS["statement missing"].do(scene)
    assert scene.run("info", "demo")["verdict"] == "attestation_missing"


def test_the_unsigned_successor_of_a_signed_version_is_refused_whatever_is_accepted(scene: Scene) -> None:
    """A registry that was taken over serves 1.1.0 without a signature."""
    scene.run("install", "demo@1.0.0")
    unsigned(scene)
    words = scene.author.signer.words
    for more in ((), ("--yes",), ("--yes", "--accept-signer", words)):
        scene.refused("install", "demo@1.1.0", *more, exits=6, codes="unsigned")


# what is installed


def beside(person: Person, end: str) -> Path:
    (found,) = (person.root / ".store/demo").glob(f"*{end}")
    return found


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize(
    ("end", "do", "exits", "code"),
    [
        (".tar.zst", cut, 4, "bundle_altered"),
        (".sigstore.json", cut, 4, "attestation_altered"),
        (".tar.zst", Path.unlink, 7, "bundle_missing"),
        (".sigstore.json", Path.unlink, 7, "attestation_missing"),
    ],
)
def test_verify_tells_altered_from_missing(
    scene: Scene, end: str, do: Callable[[Path], None], exits: int, code: str
) -> None:
    scene.run("install", "demo")
    do(beside(scene.person, end))
    found, problem = scene.person.fails("verify")
    assert (found, problem["code"]) == (exits, code)
    (row,) = problem["plugins"]
    assert row["verdict"] == ("invalid" if exits == 4 else "unverifiable")


def test_trust_material_that_cannot_be_read_is_missing_and_not_a_forgery(
    tmp_path: Path, sigstore: LocalSigstore
) -> None:
    config = tmp_path / "trust.json"
    config.write_bytes(sigstore.trust_config())
    user = User(tmp_path / "ann", {"PLUGREG_TRUST_CONFIG": str(config)})
    other = User(tmp_path / "bob", {"PLUGREG_TRUST_CONFIG": str(tmp_path / "nowhere.json")})
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(config)}
    with running(tmp_path / "registry", environment=settings) as registry:
        user.environment["PLUGREG_IDENTITY_TOKEN"] = sigstore.ci_token()
        plugin = str(write_plugin(tmp_path / "demo"))
        user.run("publish", plugin, "--registry", registry.url)
        user.run("install", "demo", "--registry", registry.url)
        problem = other.fails("install", "demo", "--registry", registry.url, code=7)
        assert (problem["code"], "nowhere.json" in problem["detail"]) == ("trust_material_missing", True)
        assert not any((other.root / ".store").glob("demo*"))
    assert user.run("verify")["plugins"][0]["verdict"] == "verified"
    config.unlink()
    problem = user.fails("verify", code=7)
    assert problem["code"] == "trust_material_missing"
    assert problem["plugins"][0]["verdict"] == "unverifiable"


# what no yes accepts


@pytest.mark.parametrize("command", ["install", "update"])
def test_yes_accepts_no_other_signer(scene: Scene, command: str) -> None:
    scene.run("install", "demo")
    scene.offers.forget("demo")
    scene.publish("2.0.0", author=scene.stranger)
    said = scene.refused(command, "demo", "--yes", exits=6, codes="signer_changed")
    assert scene.author.signer.words in said
    assert scene.stranger.signer.words in said
    assert f"--accept-signer {scene.stranger.signer.words}" in said


@pytest.mark.parametrize("command", ["install", "update"])
def test_yes_accepts_no_other_root(scene: Scene, command: str) -> None:
    scene.run("install", "demo@1.0.0")
    other = TufRepository(scene.offers.ref.id)
    other.take(scene.offers)
    scene.index.store.clear()
    scene.index.store.update(other.store)
    scene.refused(command, "demo", "--yes", exits=4, codes="root_changed")


@pytest.mark.parametrize("command", ["install", "update"])
def test_yes_accepts_no_other_registry(scene: Scene, tmp_path: Path, command: str) -> None:
    scene.run("install", "demo")
    with attacked(tmp_path / "other") as other:
        other.publish("2.0.0", author=scene.author)
        said = other.refused(command, "demo", "--yes", exits=6, codes="registry_changed", person=scene.person)
    assert scene.offers.ref.id in said
    assert other.offers.ref.id in said
