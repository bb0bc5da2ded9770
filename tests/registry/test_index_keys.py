"""The keys of the signed index, what is signed again in time, and what an operator is told."""

from __future__ import annotations

import io
import json
import shutil
import stat
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tuf.api.metadata import Metadata

from plugreg_registry.renewal import Warnings
from plugreg_registry.settings import read_settings
from plugreg_registry.signed_files import SignedFiles
from plugreg_registry.signers import Keys
from plugreg_schemas.errors import NotAvailable, Temporary, UsageError
from tests.registry.test_command import command
from tests.registry.test_index import Reader, here
from tests.registry.test_killed import publish
from tests.support.publisher import Author, Key, ask, digest_of, plugin
from tests.support.registries import running

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg_registry.app import Registry
    from plugreg_registry.index import Index
    from plugreg_registry.signed_files import State
    from tests.support.local_sigstore import LocalSigstore

YEARS = timedelta(days=730)


def days(number: float) -> timedelta:
    return timedelta(days=number)


class TestKeys:
    def test_init_makes_six_private_keys_and_prints_the_root(self, tmp_path: Path) -> None:
        done = command("init", cwd=tmp_path)
        data = tmp_path / "plugreg-data"
        root = (data / "objects" / "index" / "metadata" / "1.root.json").read_bytes()
        assert f"root      {digest_of(root)}\n" in done.stdout
        keys = data / "keys"
        online = {"snapshot.pem", "timestamp.pem", "index.pem", "revocations.pem"}
        assert {path.name for path in keys.glob("*.pem")} == online
        assert {path.name for path in keys.glob("offline/*")} == {"root.pem", "targets.pem"}
        for path in (keys, *keys.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path

    def test_another_folder_for_the_keys(self, tmp_path: Path) -> None:
        command("init", cwd=tmp_path, environment={"PLUGREG_REGISTRY_KEYS": str(tmp_path / "secret")})
        assert (tmp_path / "secret" / "offline" / "root.pem").is_file()
        assert not (tmp_path / "plugreg-data" / "keys").exists()

    def test_without_the_offline_keys_everything_goes_on(self, tmp_path: Path) -> None:
        with running(tmp_path / "data") as registry:
            assert ask(registry.url + "readyz").json()["warnings"] == ["root_keys_online"]
            (registry.data / "keys" / "offline").rename(tmp_path / "offline")
            assert ask(registry.url + "readyz").json()["warnings"] == []
            author = Author(registry.url, registry.id)
            assert author.publish(plugin("demo"), "demo").status == 201
            registry.stop()
            registry.start()
            assert author.publish(plugin("demo", "2.0.0"), "demo", "2.0.0").status == 201
            assert Reader(registry.url, tmp_path / "reader").versions("demo") == ["1.0.0", "2.0.0"]

    def test_a_missing_key_is_said_and_what_was_accepted_comes_when_it_is_back(self, tmp_path: Path) -> None:
        with running(tmp_path / "data") as registry:
            key = registry.data / "keys" / "index.pem"
            key.rename(tmp_path / "index.pem")
            author = Author(registry.url, registry.id)
            answer = author.publish(plugin("demo"), "demo")
            assert (answer.status, answer.code) == (503, "index_key_missing")
            assert ask(author.at("index/plugins/demo.json")).status == 404
            registry.stop()
            registry.start()  # readers are served all the same
            assert ask(author.at("index/trust.json")).status == 200
            (tmp_path / "index.pem").rename(key)
            again = author.publish(plugin("demo"), "demo")
            assert (again.status, again.json()["index"]) == (200, "published")
            assert Reader(registry.url, tmp_path / "reader").versions("demo") == ["1.0.0"]

    def test_a_key_that_the_index_does_not_name_signs_nothing(self, tmp_path: Path) -> None:
        with here(tmp_path / "data") as (settings, registry):
            author = Author("", registry.ref.id)
            Keys(tmp_path / "foreign").make("index")
            (tmp_path / "foreign" / "index.pem").replace(settings.keys / "index.pem")
            with pytest.raises(Temporary, match="index_key_missing"):
                publish(registry.services.publishing, author, "demo")
            assert not (settings.objects / "index" / "plugins" / "demo.json").exists()

    def test_of_several_files_of_a_role_the_named_key_signs(self, tmp_path: Path) -> None:
        keys = Keys(tmp_path)
        one, next_one = keys.make("index"), keys.make("index", "next")
        assert keys.make("index").public_key == one.public_key
        for key in (one, next_one):
            named = [key.public_key.keyid]
            assert keys.signer("index", named).public_key == key.public_key
        (tmp_path / "index.broken.pem").write_bytes(b"no key")
        assert len(keys.all("index")) == 2
        with pytest.raises(NotAvailable, match="offline_keys_missing"):
            keys.signer("root", ["0" * 64])

    def test_a_folder_for_keys_that_cannot_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(UsageError, match="keys_unusable"):
            Keys(tmp_path / "file" / "keys").make("index")


class TestSettings:
    def test_administrators_are_signed_at_init_and_a_change_is_only_warned_of(self, tmp_path: Path) -> None:
        one, other = f"key:{Key().id}", f"oidc:https://issuer.example.com#{'ada@example.com'}"
        with here(tmp_path / "data", ADMINS=f"{one} {other}") as (settings, registry):
            trust = json.loads((settings.objects / "index" / "trust.json").read_bytes())
            assert [row["signer"]["kind"] for row in trust["admins"]] == ["key", "oidc"]
            assert registry.services.warnings() == ("root_keys_online",)
            signed = registry.index.files.state().targets.version
        for wanted, warned in ((one, True), ("none", True), (f"{other} {one}", False), ("", False)):
            with here(tmp_path / "data", ADMINS=wanted) as (_, registry):
                assert ("admins_differ" in registry.services.warnings()) == warned, wanted
                assert registry.index.files.state().targets.version == signed

    def test_a_setting_that_names_no_identity(self) -> None:
        with pytest.raises(UsageError, match="setting_invalid"):
            read_settings({"PLUGREG_REGISTRY_ADMINS": "ada"})

    def test_a_private_sigstore_is_a_target(self, tmp_path: Path, sigstore: LocalSigstore) -> None:
        config = tmp_path / "trust.json"
        config.write_bytes(sigstore.trust_config())
        with here(tmp_path / "data", TRUST_CONFIG=str(config)) as (settings, registry):
            assert (settings.objects / "index" / "sigstore.json").read_bytes() == config.read_bytes()
            assert "admins_differ" not in registry.services.warnings()
        with here(tmp_path / "data") as (_, registry):
            assert "admins_differ" in registry.services.warnings()


def at(registry: Registry, later: timedelta) -> Index:
    """The publisher of a registry in which time has passed."""
    then = datetime.now().astimezone() + later
    return replace(registry.index, now=lambda: then)


def versions(state: State) -> dict[str, int]:
    names = ("index", "revocations", "targets", "bin-0", "bin-f")
    return {
        "root": state.root.version,
        "timestamp": state.timestamp.version,
        "snapshot": state.timestamp.snapshot_meta.version,
        **{name: state.version(name) for name in names},
    }


class TestRenewal:
    @pytest.mark.parametrize(
        ("later", "renewed"),
        [
            (days(0.5), set()),
            (days(-1), {"timestamp", "snapshot", "revocations"}),
            (days(1.1), {"timestamp", "snapshot", "revocations"}),
            (days(46), {"timestamp", "snapshot", "revocations", "index", "bin-0", "bin-f"}),
            (
                YEARS - days(89),
                {"root", "timestamp", "snapshot", "revocations", "index", "bin-0", "bin-f", "targets"},
            ),
        ],
        ids=[
            "half a day",
            "the clock went back",
            "a day",
            "half of the online lifetime",
            "three months before the root ends",
        ],
    )
    def test_what_is_signed_again(self, tmp_path: Path, later: timedelta, renewed: set[str]) -> None:
        with here(tmp_path / "data") as (settings, registry):
            publish(registry.services.publishing, Author("", registry.ref.id), "demo")
            before = versions(registry.index.files.state())
            document = (settings.objects / "index" / "plugins" / "demo.json").read_bytes()
            at(registry, later).renew()
            state = SignedFiles(registry.blobs, registry.index.files.keys).state()
            after = versions(state)
            assert {role for role in after if after[role] > before[role]} == renewed
            listed = registry.index.files.bin(state, state.bins.get_role_for_target("plugins/demo.json"))
            assert listed.targets["plugins/demo.json"].hashes["sha256"] == digest_of(document)[7:]
            at(registry, later).renew()
            assert versions(registry.index.files.state()) == after, "once is enough"
            root = json.loads((settings.objects / ".well-known" / "plugreg.json").read_bytes())["trust"][
                "root"
            ]
            assert root == {"version": after["root"], "digest": state.root.digest}

    def test_a_reader_with_the_first_root_follows_a_renewed_one(self, tmp_path: Path) -> None:
        with here(tmp_path / "data") as (_, registry):
            publish(registry.services.publishing, Author("", registry.ref.id), "demo")
            at(registry, YEARS - days(89)).renew()
        with running(tmp_path / "data") as served:
            reader = Reader(served.url, tmp_path / "reader")
            assert reader.versions("demo") == ["1.0.0"]
            assert Metadata.from_file(str(tmp_path / "reader" / "root.json")).signed.version == 2

    def test_without_their_keys_root_and_targets_are_warned_of(self, tmp_path: Path) -> None:
        with here(tmp_path / "data") as (settings, registry):
            shutil.move(settings.keys / "offline", tmp_path / "offline")
            warnings = Warnings(registry.index.files, registry.trusted)
            then = datetime.now().astimezone() + YEARS
            assert warnings.now(then - days(91)) == ()
            assert warnings.now(then - days(89)) == ("root_expires", "targets_expires")
            before = versions(registry.index.files.state())
            at(registry, YEARS - days(89)).renew()
            after = versions(registry.index.files.state())
            assert (after["root"], after["targets"]) == (before["root"], before["targets"])
            assert after["timestamp"] > before["timestamp"]

    def test_a_start_renews_what_is_due_and_the_log_says_what_to_look_at(self, tmp_path: Path) -> None:
        with here(tmp_path / "data") as (settings, registry):
            at(registry, days(-3)).renew()
            timestamp = settings.objects / "index" / "metadata" / "timestamp.json"
            _sign_again(registry, days(-3))
            old = timestamp.read_bytes()
        with running(tmp_path / "data") as served:
            assert ask(served.url + "index/metadata/timestamp.json").body != old
            served.stop()
            assert any("root_keys_online" in line for line in served.log)


def _sign_again(registry: Registry, later: timedelta) -> None:
    """Write the present state as if it had been signed at another time."""
    index = at(registry, later)
    index.files.next(index.files.state(), index.now()).publish()


class TestAltered:
    """Somebody can write to the store, and has no keys."""

    def test_an_entry_that_was_slipped_in_is_never_signed(self, tmp_path: Path) -> None:
        with here(tmp_path / "data") as (settings, registry):
            author = Author("", registry.ref.id)
            publish(registry.services.publishing, author, "demo")
        state_file = settings.objects / "index" / "metadata"
        for path in state_file.glob("*.bin-*.json"):
            content: Any = json.loads(path.read_bytes())
            content["signed"]["targets"]["plugins/evil.json"] = {"length": 1, "hashes": {"sha256": "0" * 64}}
            path.write_text(json.dumps(content))
        with here(tmp_path / "data") as (_, registry), pytest.raises(Temporary, match="index_unusable"):
            publish(registry.services.publishing, author, "demo2")

    @pytest.mark.parametrize("name", ["timestamp.json", "2.snapshot.json", "1.index.json", "1.root.json"])
    def test_altered_files_of_other_roles(self, tmp_path: Path, name: str) -> None:
        with here(tmp_path / "data") as (settings, registry):
            author = Author("", registry.ref.id)
            publish(registry.services.publishing, author, "demo")
            path = settings.objects / "index" / "metadata" / name
            path.write_bytes(path.read_bytes().replace(b'"version":', b'"version": '))
            files = SignedFiles(registry.blobs, registry.index.files.keys)
            files.state()  # the same values in other bytes are the same to the signature
            path.write_bytes(path.read_bytes().replace(b'"expires":"20', b'"expires":"21'))
            with pytest.raises(Temporary, match="index_unusable"):
                SignedFiles(registry.blobs, registry.index.files.keys).state()

    def test_a_root_that_the_one_before_does_not_vouch_for_is_none(self, tmp_path: Path) -> None:
        with here(tmp_path / "one") as (_, registry), here(tmp_path / "other") as (_, foreign):
            at(foreign, YEARS - days(89)).renew()
            with foreign.blobs.open("index/metadata/2.root.json") as file:
                registry.blobs.put("index/metadata/2.root.json", io.BytesIO(file.read()))
            with pytest.raises(Temporary, match="index_unusable"):
                registry.index.files.state()
