"""Somebody signs the index who may not: a stranger, or a role in the place of another."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, TargetFile

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.index import hashed_target_key, metadata_key
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import KeyOwner, Owners, Status, successor_statement
from plugreg_schemas.trust.envelope import encode_base64
from tests.support.scripted import serving
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.attacked import Scene
    from tests.support.offers import Author

FORGED = "index_forged"
OTHER_ROOT = {FORGED, "root_changed"}
"""A root that does not follow from the pinned one: said as the one or the other."""
ROLES = ["targets", "snapshot", "timestamp", "index", "the bin", "revocations"]
OTHER_ID = "urn:uuid:00000000-0000-4000-8000-00000000000f"


def named(scene: Scene, role: str) -> str:
    return scene.index.bin_of("demo") if role == "the bin" else role


def sign_anew(scene: Scene, role: str) -> None:
    """Write the next version of a role and a state that names it."""
    if role not in {"snapshot", "timestamp"}:
        scene.index.put(role)
    scene.index.seal()


def everybody(scene: Scene, **expected: Any) -> None:
    """Who has seen the registry before and who comes new are both refused."""
    scene.refused("update", **expected)
    scene.refused("install", "demo", person=scene.newcomer(), **expected)


def admin(author: Author) -> dict[str, Any]:
    return {"signer": author.signer.model_dump(mode="json"), "since": "2026-01-01T00:00:00Z"}


# --- strangers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_foreign_key(scene: Scene, role: str) -> None:
    """A key that neither the root nor a delegation names signs a role."""
    role = named(scene, role)
    scene.index.sign_with[role] = CryptoSigner.generate_ed25519()
    sign_anew(scene, role)
    everybody(scene, exits=4, codes=FORGED)


@pytest.mark.parametrize("role", ROLES)
def test_unsigned_role(scene: Scene, role: str) -> None:
    role = named(scene, role)
    sign_anew(scene, role)
    place = scene.index.current(role)
    value = json.loads(scene.index.store[place])
    value["signatures"] = []
    content = canonical_json(value)
    scene.index.store[place] = content
    if role == "snapshot":
        found = scene.index.signed["timestamp"].snapshot_meta
        found.length, found.hashes = len(content), {"sha256": Digest.of(content).hex}
        scene.index.put("timestamp")
    everybody(scene, exits=4, codes=FORGED)


def test_foreign_key_signs_the_next_root(scene: Scene) -> None:
    """The next root counts only if the present one signs it too."""
    thief = TufRepository(scene.index.registry)
    thief.signed["root"].version = scene.index.signed["root"].version + 1
    scene.index.store[metadata_key("root", thief.signed["root"].version)] = thief.resign("root")
    scene.refused("update", exits=4, codes=FORGED)


def test_next_root_that_the_present_one_signs_and_itself_not(scene: Scene) -> None:
    root = scene.index.signed["root"]
    root.revoke_key(scene.index.keys["root"].public_key.keyid, "root")
    root.add_key(CryptoSigner.generate_ed25519().public_key, "root")
    scene.index.next_root()
    scene.refused("update", exits=4, codes=OTHER_ROOT)


def test_root_that_is_not_signed_at_all_for_a_newcomer(scene: Scene) -> None:
    place = metadata_key("root", 1)
    value = json.loads(scene.index.store[place])
    value["signatures"] = []
    scene.index.store[place] = canonical_json(value)
    scene.index._discover()  # noqa: SLF001 - the discovery names the root as it is served
    scene.refused("install", "demo", exits=4, person=scene.newcomer())


def test_signature_that_counts_twice(scene: Scene) -> None:
    """Two signatures are demanded, and one key signs under two names."""
    root = scene.index.signed["root"]
    root.roles["timestamp"].threshold = 2
    second = CryptoSigner.generate_ed25519()
    root.add_key(second.public_key, "timestamp")
    scene.index.next_root()
    scene.index.put("timestamp")
    value = json.loads(scene.index.store[metadata_key("timestamp")])
    value["signatures"].append(value["signatures"][0] | {"keyid": second.public_key.keyid})
    scene.index.store[metadata_key("timestamp")] = canonical_json(value)
    everybody(scene, exits=4, codes=FORGED)


# --- one role in the place of another --------------------------------------------------------------------------------


@pytest.mark.parametrize("thief", ["index", "revocations", "snapshot", "timestamp", "targets"])
def test_online_key_replaces_the_trust_root(scene: Scene, thief: str) -> None:
    """Whoever has the server has its keys. The next root is signed by the present root's key alone."""
    scene.index.sign_with["root"] = scene.index.keys[thief]
    scene.index.signed["root"].add_key(scene.index.keys[thief].public_key, "root")
    scene.index.next_root()
    scene.refused("update", exits=4, codes=OTHER_ROOT)


@pytest.mark.parametrize("thief", ["index", "revocations", "snapshot", "timestamp"])
def test_online_key_replaces_the_administrators(scene: Scene, thief: str) -> None:
    scene.index.admins = [admin(scene.stranger)]
    scene.index.sign_with["targets"] = scene.index.keys[thief]
    scene.index.publish()
    everybody(scene, exits=4, codes=FORGED)


@pytest.mark.parametrize("thief", ["index", "snapshot", "timestamp"])
def test_online_key_signs_the_revocations(scene: Scene, thief: str) -> None:
    scene.index.sign_with["revocations"] = scene.index.keys[thief]
    scene.index.publish()
    scene.index.put("revocations")
    scene.index.seal()
    everybody(scene, exits=4, codes=FORGED)


def test_key_of_the_revocations_lists_a_plugin(scene: Scene) -> None:
    """It is a key of its own because it may do one thing."""
    role = scene.index.bin_of("demo")
    scene.index.sign_with[role] = scene.index.keys["revocations"]
    scene.publish("1.1.0", author=scene.author)
    everybody(scene, exits=4, codes=FORGED)


def list_in(scene: Scene, role: str, target: str, content: bytes) -> None:
    """Let a role list a target that is not its business."""
    scene.index.signed[role].targets[target] = TargetFile.from_data(target, content, ["sha256"])
    scene.index.store[hashed_target_key(target, Digest.of(content))] = content
    scene.index.put(role)
    scene.index.seal()


def test_online_key_lists_a_plugin_in_the_offline_role(scene: Scene) -> None:
    """The role `targets` comes before all others: what it lists is asked for nowhere else."""
    content = scene.index.documents["demo"].replace(b"agent-plugins", b"agent-plugin5")
    scene.index.sign_with["targets"] = scene.index.keys["index"]
    list_in(scene, "targets", "plugins/demo.json", content)
    everybody(scene, exits=4, codes=FORGED)


def append_anyway(scene: Scene, by: Author, make: Callable[[dict[str, Any]], Owners | Status]) -> None:
    """Write the document of `demo` with one more statement in it, as a server can that asks for no rule."""
    document = json.loads(scene.index.documents["demo"])
    common = {
        "registry": scene.index.registry,
        "plugin": "demo",
        "revision": len(document["history"]),
        "previous": document["history"][-1],
    }
    said = make(common)
    envelope = by.sign(successor_statement(said))
    scene.index.store[f"attestations/sha256/{envelope.digest.hex}.json"] = envelope.content
    document["history"].append(envelope.digest)
    document["history_times"] = ["2026-01-31T12:00:00Z" for _ in document["history"]]
    signer = {
        "signer": by.signer.model_dump(mode="json"),
        "public_key": encode_base64(by.public),
    }
    if signer not in document["signers"]:
        document["signers"].append(signer)
    if isinstance(said, Status):
        document["status"] |= {"state": said.state, "reason": said.reason}
    else:
        document["owners"] += [owner.model_dump(mode="json") for owner in said.add]
    scene.index.documents["demo"] = canonical_json(document)
    scene.index.publish()


def quarantine(common: dict[str, Any]) -> Status:
    return Status(**common, state="quarantined", reason="a competitor's")


@pytest.mark.parametrize("role", ["index", "revocations", "the bin"])
def test_trust_document_in_an_online_role(scene: Scene, role: str) -> None:
    """An online role lists a `trust.json` of its own, in which the attacker is an administrator."""
    append_anyway(scene, scene.stranger, quarantine)
    trust = {
        "api-version": "1",
        "registry": scene.index.registry,
        "admins": [admin(scene.stranger)],
    }
    list_in(scene, named(scene, role), "trust.json", canonical_json(trust))
    scene.refused("info", "demo", exits=4, codes="history_invalid")


def test_administrator_of_the_trust_document_may(scene: Scene) -> None:
    """The counter-test: the same statement counts when the offline role names its signer."""
    scene.index.admins = [admin(scene.stranger)]
    scene.index.publish()
    append_anyway(scene, scene.stranger, quarantine)
    assert scene.run("info", "demo")["status"]["state"] == "quarantined"


def test_stranger_signs_owners_with_all_online_keys(scene: Scene) -> None:
    """The server can write any document, and cannot give a name away."""
    mine = KeyOwner.model_validate(scene.stranger.signer.model_dump())
    append_anyway(scene, scene.stranger, lambda common: Owners(**common, add=(mine,)))
    everybody(scene, exits=4, codes="history_invalid")


def test_index_writes_another_plugin_of_a_name_that_somebody_pinned(scene: Scene) -> None:
    """All online keys at once: whoever pinned the name is not fooled."""
    scene.offers.forget("demo")
    scene.publish("9.9.9", author=scene.stranger)
    scene.refused("update", exits=6, codes="signer_changed")


# --- roots and ids ---------------------------------------------------------------------------------------------------


def twin(scene: Scene) -> TufRepository:
    """The same registry id and the same plugins under another root."""
    other = TufRepository(scene.index.registry)
    other.take(scene.offers)
    return other


def test_same_id_with_another_root(scene: Scene) -> None:
    """The sentence names both roots; nothing but the flag of its own accepts the new one."""
    other, old = twin(scene), scene.index.root_digest
    scene.index.store = other.store
    said = scene.refused("update", exits=4, codes="root_changed")
    assert old in said
    assert other.root_digest in said
    scene.refused("update", "--yes", exits=4, codes="root_changed")
    scene.refused("update", "--accept-root", old, exits=4, codes="root_changed")
    scene.run("update", "--accept-root", other.root_digest)
    scene.run("update")


def test_same_id_with_another_root_at_another_address(online: Scene) -> None:
    """A phishing mirror."""
    other = twin(online)
    with serving(other.answer) as mirror:
        online.server = mirror
        online.refused("install", "demo", exits=4, codes="root_changed")


def test_first_use_with_a_digest_takes_only_that_root(scene: Scene) -> None:
    good, person = scene.index.root_digest, scene.newcomer()
    scene.index.store = twin(scene).store
    words = ("registry", "add", scene.url, "--root-digest", good)
    scene.refused(*words, exits=4, codes="root_mismatch", person=person)


def test_discovery_that_names_another_root_than_is_served(scene: Scene) -> None:
    """A claim and no proof: the pin is what was verified."""
    value = json.loads(scene.index.store[".well-known/plugreg.json"])
    value["trust"]["root"]["digest"] = twin(scene).root_digest
    scene.index.store[".well-known/plugreg.json"] = canonical_json(value)
    scene.refused("install", "demo", exits=4, person=scene.newcomer())


def test_root_that_was_skipped(scene: Scene) -> None:
    """From 2 to 4: a client goes step by step, or an attacker with an old key would choose the way."""
    scene.index.rotate("root")
    scene.run("update")
    scene.index.rotate("root", "timestamp")
    scene.index.rotate("root", "timestamp")
    del scene.index.store[metadata_key("root", 3)]
    scene.refused("update", exits=4, codes={FORGED, "root_changed"})
    scene.index.store[metadata_key("root", 3)] = scene.index.store[metadata_key("root", 4)]
    scene.refused("update", exits=4)


def test_client_that_was_away_for_many_rotations_follows_step_by_step(scene: Scene) -> None:
    """K11."""
    for number in range(5):
        scene.index.rotate("root", *(("targets", "index") if number % 2 else ("snapshot", "timestamp")))
    scene.publish("1.1.0")
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.1.0"}
    newcomer = scene.newcomer()
    scene.run("install", "demo", person=newcomer)
    assert newcomer.installed() == {"demo": "1.1.0"}


def test_key_that_a_rotation_replaced_signs_no_more(scene: Scene) -> None:
    """K11: what key 1 signs after its end is refused, and what key 2 signs is taken."""
    stolen = scene.index.keys["index"]
    scene.index.rotate("index")
    scene.run("update")
    role = scene.index.bin_of("demo")
    scene.index.sign_with[role] = stolen
    scene.publish("1.1.0")
    everybody(scene, exits=4, codes=FORGED)
    del scene.index.sign_with[role]
    scene.index.put(role)
    scene.index.seal()
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.1.0"}


@pytest.mark.parametrize("where", ["discovery", "root"])
def test_root_and_discovery_name_two_registries(scene: Scene, where: str) -> None:
    if where == "discovery":
        value = json.loads(scene.index.store[".well-known/plugreg.json"])
        value["registry"]["id"] = OTHER_ID
        scene.index.store[".well-known/plugreg.json"] = canonical_json(value)
    else:
        root = Metadata.from_bytes(scene.index.store[metadata_key("root", 1)]).signed
        root.unrecognized_fields["plugreg"]["registry"] = OTHER_ID
        scene.index.signed["root"] = root
        scene.index.resign("root")
        scene.index._discover()  # noqa: SLF001 - the discovery names the root as it is served
    scene.refused("install", "demo", exits=4, person=scene.newcomer())


def test_next_root_names_another_registry(scene: Scene) -> None:
    """Signed as it must be, and still not the registry that was pinned."""
    scene.index.signed["root"].unrecognized_fields["plugreg"]["registry"] = OTHER_ID
    scene.index.next_root()
    scene.refused("update", exits=4)


@pytest.mark.parametrize("how", ["no metadata", "no word of it"])
def test_registry_that_has_lost_its_signed_index(scene: Scene, how: str) -> None:
    """Downgrade: the plain documents are still there, and nobody vouches for them."""
    for path in [path for path in scene.index.store if path.startswith("index/metadata/")]:
        del scene.index.store[path]
    if how == "no word of it":
        value = json.loads(scene.index.store[".well-known/plugreg.json"])
        del value["trust"]
        scene.index.store[".well-known/plugreg.json"] = canonical_json(value)
    scene.refused("update", exits=7)
    scene.refused("install", "demo", exits=7, codes="index_missing", person=scene.newcomer())


def test_index_key_delegates_to_a_key_of_its_own(scene: Scene) -> None:
    """Whoever stole the online key for a moment does not stay: a rotation ends what it delegated."""
    mine = CryptoSigner.generate_ed25519()
    index = scene.index.signed["index"]
    index.add_key(mine.public_key)
    scene.index.put("index")
    scene.index.seal()
    stolen = scene.index.store[scene.index.current("index")]
    scene.index.rotate("index")
    scene.run("update")
    scene.index.put("index")
    scene.index.seal()
    scene.index.store[scene.index.current("index")] = stolen
    scene.refused("update", exits=4)


def test_lifetime_longer_than_a_role_has(online: Scene) -> None:
    """Metadata that ends in ten years makes freezing free; it is what a wrong clock looks like, too."""
    online.index.lifetimes["timestamp"] = timedelta(days=3650)
    online.index.put("timestamp")
    online.refused("update", exits=7, codes="clock_suspect")
    online.refused("install", "demo", exits=7, codes="clock_suspect", person=online.newcomer())


def test_the_forger_of_these_tests_signs_well(scene: Scene) -> None:
    """The counter-test: what is signed as it must be goes through."""
    for role in ROLES:
        sign_anew(scene, named(scene, role))
    scene.publish("1.1.0")
    scene.run("update")
    assert scene.person.installed() == {"demo": "1.1.0"}
