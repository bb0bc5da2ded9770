"""Install: which release, proved how, written where, and what is refused without a trace."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.install import install
from plugreg.inventory import list_installed, verify
from plugreg.plugins_root import PluginsRoot
from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NotAllowed,
    NotAvailable,
    PlugregError,
    TooLarge,
    UsageError,
)
from plugreg_schemas.names import Digest, Ref
from tests.support import hostile_bundles as hostile
from tests.support.offers import Offers, plugin_files
from tests.support.roots import Here, assert_settled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def modes(tree: Path) -> dict[str, int]:
    return {
        str(path.relative_to(tree)): stat.S_IMODE(path.lstat().st_mode)
        for path in [tree, *tree.rglob("*")]
        if not path.is_symlink()
    }


def test_the_result_has_the_documented_shape(here: Here) -> None:
    digest = here.publish()
    row = here.install().installed[0].as_dict()
    assert row == {
        "name": "demo",
        "version": "1.0.0",
        "digest": digest,
        "signer": {"kind": "key", "id": here.author.signer.id},
        "registry": here.offers.ref.model_dump(),
        "root": str(here.tree()),
        "data": str(here.root.path / ".data" / "demo"),
        "change": "installed",
        "previous": None,
        "launchers": [],
    }
    listed = list_installed(here.root).plugins[0].as_dict()
    same = ("name", "version", "digest", "signer", "registry", "root", "data")
    assert {key: listed[key] for key in same} == {key: row[key] for key in same}
    assert listed["status"] == "active"
    assert_settled(here.root)


def test_the_link_is_relative_and_the_data_folder_is_private_and_empty(here: Here) -> None:
    digest = here.publish()
    here.install()
    assert str(here.root.link("demo").readlink()) == f".store/demo/1.0.0-{digest[7:19]}"
    data = here.root.data("demo")
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert list(data.iterdir()) == []


def test_launchers_that_the_plugin_needs_are_named(here: Here) -> None:
    servers = {"one": {"type": "stdio", "command": "npx", "args": ["-y", "x"]}}
    schema = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
    here.publish(files={"mcp.json": json.dumps({"$schema": schema, "mcpServers": servers})})
    assert here.install().installed[0].launchers == ("npx",)


# --- which version -----------------------------------------------------------------------------------------------


def test_installing_again_changes_nothing_and_succeeds(here: Here) -> None:
    here.publish()
    here.install()
    before = here.tree().stat()
    (row,) = here.install().installed
    assert row.change == "unchanged"
    assert here.offers.downloads == 1
    assert here.tree().stat() == before


def test_a5_install_of_an_installed_plugin_upgrades_within_its_range(here: Here) -> None:
    here.publish("1.0.0")
    here.install()
    here.publish("1.2.0")
    (row,) = here.install().installed
    assert (row.change, row.previous, row.facts.version) == ("updated", "1.0.0", "1.2.0")


def test_a5_an_exact_version_stays_and_the_newer_one_is_named(here: Here) -> None:
    here.publish("1.0.0")
    here.install("demo@1.0.0")
    here.publish("1.2.0")
    result = here.install()
    assert result.installed[0].change == "unchanged"
    assert any("1.2.0 is available" in note for note in result.notes)
    assert here.said == list(result.notes)


def test_a11_a_prerelease_is_taken_only_when_it_is_asked_for(here: Here) -> None:
    here.publish("1.4.0")
    here.publish("2.0.0-beta.1")
    here.install()
    assert here.listed() == {"demo": "1.4.0"}
    here.install(prereleases=True)
    assert here.listed() == {"demo": "2.0.0-beta.1"}
    here.install("demo@1.4.0")
    here.install("demo@2.0.0-beta.1")
    assert here.listed() == {"demo": "2.0.0-beta.1"}


def test_an_installed_prerelease_is_not_silently_taken_back(here: Here) -> None:
    here.publish("1.4.0")
    here.publish("2.0.0-beta.1")
    here.install(prereleases=True)
    assert here.install().installed[0].change == "unchanged"
    assert here.update().installed[0].change == "unchanged"
    assert here.listed() == {"demo": "2.0.0-beta.1"}


def test_a4_an_exact_request_never_yields_another_version(here: Here) -> None:
    here.publish("2.0.0-rc.1")
    error = here.refused(here.install, "demo@2.0.0-rc.2")
    assert isinstance(error, NotAvailable)
    assert error.code == "version_not_found"


def test_i12_a_yanked_version_is_not_chosen_and_by_name_comes_with_a_warning(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    here.offers.yank(here.author, "demo", "1.1.0", "eats data")
    here.install()
    assert here.listed() == {"demo": "1.0.0"}
    result = here.install("demo@1.1.0")
    assert any("yanked: eats data" in note for note in result.notes)
    (row,) = list_installed(here.root).plugins
    assert (row.version, row.status, row.reason) == ("1.1.0", "yanked", "eats data")


def test_i12_a_version_yanked_after_its_install_shows_in_the_list_after_an_update(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    here.install()
    here.offers.yank(here.author, "demo", "1.1.0", "eats data")
    here.update()
    (row,) = list_installed(here.root).plugins
    assert (row.version, row.status, row.reason) == ("1.1.0", "yanked", "eats data")


def test_only_yanked_versions_left_is_said(here: Here) -> None:
    here.publish("1.0.0")
    here.offers.yank(here.author, "demo", "1.0.0")
    error = here.refused(here.install)
    assert (error.code, "yanked are 1.0.0" in error.message) == ("version_not_found", True)


def test_a6_a_manifest_without_a_version_gets_the_signed_one(here: Here) -> None:
    here.offers.publish(here.author, "demo", "3.1.4", plugin_files("demo", None))
    here.install()
    assert here.listed() == {"demo": "3.1.4"}
    assert here.tree().name.startswith("3.1.4-")


# --- which registry ----------------------------------------------------------------------------------------------


def test_t06_look_alike_names_of_two_registries_live_side_by_side(here: Here, tmp_path: Path) -> None:
    second = Offers.create(tmp_path / "second", "second")
    here.offers.publish(
        here.author, "acme.tools", "1.0.0", plugin_files("acme.tools", "1.0.0", {"who": "dot"})
    )
    second.publish(here.stranger, "acme-tools", "1.0.0", plugin_files("acme-tools", "1.0.0", {"who": "dash"}))
    here.install("acme.tools", "acme-tools", registries=[here.offers, second])
    rows = list_installed(here.root).plugins
    assert len({row.root for row in rows}) == len({row.data for row in rows}) == 2
    assert [(row.root / "who").read_text() for row in rows] == ["dash", "dot"]
    assert_settled(here.root)


def test_i11_a_name_in_several_registries_is_a_question(here: Here, tmp_path: Path) -> None:
    second = Offers.create(tmp_path / "second", "second")
    here.publish()
    second.publish(here.stranger, "demo", "99.0.0")
    error = here.refused(here.install, registries=[here.offers, second])
    assert isinstance(error, NotAllowed)
    assert error.code == "name_in_several_registries"
    assert here.offers.ref.id in error.message
    assert second.ref.id in error.message


def test_i11_a_pinned_name_comes_from_its_registry_only(here: Here, tmp_path: Path) -> None:
    second = Offers.create(tmp_path / "second", "second")
    here.publish()
    here.install()
    second.publish(here.stranger, "demo", "99.0.0")
    assert here.install(registries=[second, here.offers]).installed[0].change == "unchanged"
    assert here.update(registries=[second, here.offers]).installed[0].change == "unchanged"
    error = here.refused(here.update, registries=[second])
    assert error.code == "registry_changed"
    assert second.ref.id in error.message
    assert here.offers.ref.id in error.message


def test_b6_when_the_pinned_registry_is_down_no_other_one_steps_in(here: Here, tmp_path: Path) -> None:
    class Down(Offers):
        def document(self, name: str) -> bytes:
            raise NotAvailable("registry_unreachable", f"no connection to {self.ref.url}")

    second = Offers.create(tmp_path / "second", "second")
    here.publish()
    here.install()
    second.publish(here.stranger, "demo", "2.0.0")
    error = here.refused(here.update, registries=[Down(here.offers.folder), second])
    assert error.code == "registry_unreachable"
    assert second.ref.id in error.message
    assert here.offers.ref.url in error.message


def test_a_registry_that_cannot_be_asked_ends_the_search_for_a_new_name(here: Here, tmp_path: Path) -> None:
    class Down(Offers):
        def document(self, name: str) -> bytes:
            raise NotAvailable("registry_unreachable", "no connection")

    second = Down(Offers.create(tmp_path / "second", "second").folder)
    here.publish()
    assert here.refused(here.install, registries=[here.offers, second]).code == "registry_unreachable"


def test_mirrors_of_one_registry_are_one_registry(here: Here) -> None:
    here.publish()
    here.install(registries=[here.offers, Offers(here.offers.folder)])
    assert here.listed() == {"demo": "1.0.0"}


def test_a_pinned_registry_that_is_not_known_any_more_is_named(here: Here, tmp_path: Path) -> None:
    empty = Offers.create(tmp_path / "second", "second")
    here.publish()
    here.install()
    error = here.refused(here.update, registries=[empty])
    assert (error.code, here.offers.ref.id in error.message) == ("registry_unknown", True)


def test_a10_a_registry_named_like_the_plugin_nests_nothing(tmp_path: Path) -> None:
    here = Here(tmp_path)
    offers = Offers.create(tmp_path / "ghx", "ghx")
    offers.publish(here.author, "ghx", "1.0.0")
    here.install("ghx", registries=[offers])
    for path in here.root.path.rglob("*"):
        assert path.relative_to(here.root.path).parts.count("ghx") <= 1


@pytest.mark.parametrize(
    ("refs", "code"), [(("demo", "demo@1.0.0"), "name_repeated"), (("nothing",), "plugin_not_found")]
)
def test_wrong_requests_are_refused(here: Here, refs: tuple[str, ...], code: str) -> None:
    here.publish()
    here.install()
    assert here.refused(here.install, *refs).code == code


def test_without_a_registry_nothing_can_be_installed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no registry is known"):
        install(PluginsRoot.at(tmp_path / "root"), [Ref.parse("demo")], [])


# --- what is proved ----------------------------------------------------------------------------------------------


def test_t01_other_bytes_for_the_installed_version_are_an_error_never_up_to_date(here: Here) -> None:
    digest = here.publish(files={"v.txt": "A"})
    here.install()
    document = json.loads(here.offers.document("demo"))
    files = plugin_files("demo", "1.0.0", {"v.txt": "B"})
    other = here.offers.publish(here.author, "demo", "2.0.0", files)
    here.offers.alter("demo", _set("versions", to=[document["versions"][0] | {"digest": other}]))
    for operation in (here.install, here.update):
        error = here.refused(operation)
        assert (type(error), error.code) == (IntegrityError, "content_changed")
        assert digest in error.message
        assert other in error.message
    assert (here.tree() / "v.txt").read_text() == "A"


def _set(*path: str | int, to: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *way, last = path
        place: Any = document
        for step in way:
            place = place[step]
        place[last] = to

    return change


def _signed_by_other(document: dict[str, Any]) -> None:
    document["signers"].append({"signer": {"kind": "key", "id": "sha256:" + "1" * 64}, "public_key": "AAAA"})
    document["versions"][0]["signer"] = 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(_set("name", to="other"), "document_mismatch", id="name"),
        pytest.param(_set("versions", 0, "version", to="1.0.1"), "release_mismatch", id="version"),
        pytest.param(_set("versions", 0, "digest", to="sha256:" + "0" * 64), "release_mismatch", id="digest"),
        pytest.param(_signed_by_other, "release_mismatch", id="signer"),
        pytest.param(_set("history", to=[]), "history_invalid", id="history-empty"),
        pytest.param(_set("history", 0, to="sha256:" + "0" * 64), "attestation_missing", id="history-other"),
        pytest.param(_set("versions", 0, "yanked", to=True), "document_contradicts_history", id="yank"),
        pytest.param(_set("status", "state", to="deprecated"), "document_contradicts_history", id="status"),
        pytest.param(_set("owners", to=[]), "document_contradicts_history", id="owners"),
        pytest.param(_set("versions", 0, "attestations", to=[]), "unsigned", id="unsigned"),
        pytest.param(_set("signers", 0, "public_key", to=None), "public_key_missing", id="key-gone"),
    ],
)
def test_t24_a_document_that_contradicts_a_signed_statement_is_refused(
    here: Here, change: Callable[[dict[str, Any]], None], code: str
) -> None:
    here.publish()
    here.offers.alter("demo", change)
    assert here.refused(here.install, "demo").code == code
    assert here.offers.downloads == 0


def test_x8_a_bad_signature_is_found_before_anything_is_downloaded_or_parsed(here: Here) -> None:
    digest = here.offers.publish_bundle(here.author, "demo", "1.0.0", b"not an archive")
    (attestation,) = (here.offers.folder / "attestations").iterdir()
    attestation.write_bytes(attestation.read_bytes().replace(b'"sig":"', b'"sig":"AAAA', 1))
    assert here.refused(here.install).code == "attestation_altered"
    assert here.offers.downloads == 0
    assert here.offers.blob(Digest(digest)).exists()


def test_one_byte_changed_anywhere_in_the_bundle_is_refused(here: Here) -> None:
    blob = here.offers.blob(Digest(here.publish()))
    right = blob.read_bytes()
    for place in range(len(right)):
        blob.write_bytes(right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :])
        with pytest.raises(IntegrityError, match="digest_mismatch"):
            here.install()
    assert here.listed() == {}
    assert_settled(here.root)


def test_one_byte_changed_anywhere_in_the_statement_is_refused(here: Here) -> None:
    here.publish()
    (attestation,) = (here.offers.folder / "attestations").iterdir()
    right = attestation.read_bytes()
    for place in range(len(right)):
        attestation.write_bytes(right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :])
        with pytest.raises(IntegrityError, match="attestation_altered"):
            here.install()
    assert here.offers.downloads == 0


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_truncated_bundle_is_refused(here: Here, cut: int) -> None:
    blob = here.offers.blob(Digest(here.publish()))
    blob.write_bytes(blob.read_bytes()[:cut])
    assert here.refused(here.install).code == "digest_mismatch"


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([hostile.raw("../x", b"out")], id="traversal"),
        pytest.param([hostile.raw("/tmp/plugreg-x", b"out")], id="absolute"),
        pytest.param([hostile.link("a", ".."), hostile.member("a/x", b"out")], id="t08-through-a-link"),
        pytest.param([hostile.link("a", "/etc/passwd")], id="t08-absolute-link"),
        pytest.param([hostile.link("a", "nothing")], id="dangling-link"),
        pytest.param([hostile.raw("x", mode=0o4755)], id="c11-setuid"),
        pytest.param([hostile.raw("x", mode=0)], id="c11-mode-0"),
        pytest.param([hostile.raw("x", mode=0o666)], id="c11-mode-666"),
        pytest.param([hostile.raw("d", mode=0o555, kind=b"5")], id="c11-folder"),
        pytest.param([hostile.raw("fifo", kind=b"6")], id="fifo"),
    ],
)
def test_t08_t10_a_signed_bundle_that_is_hostile_leaves_nothing(here: Here, members: list[bytes]) -> None:
    here.offers.publish_bundle(here.author, "demo", "1.0.0", hostile.bundle(*members))
    before = {path for path in here.folder.rglob("*") if here.root.path not in path.parents}
    error = here.refused(here.install)
    assert isinstance(error, InvalidInput)
    assert error.findings
    after = {path for path in here.folder.rglob("*") if here.root.path not in path.parents}
    assert after - before <= {here.root.path}


@pytest.mark.parametrize(
    ("files", "code"),
    [
        pytest.param(plugin_files("other", "1.0.0"), "manifest_mismatch", id="name"),
        pytest.param(plugin_files("demo", "1.0.1"), "manifest_mismatch", id="version"),
        pytest.param({"plugin.json": "{"}, "plugin_invalid", id="broken"),
        pytest.param({"readme": "no manifest"}, "plugin_invalid", id="missing"),
    ],
)
def test_a_manifest_that_is_not_the_signed_plugin_is_refused(
    here: Here, files: dict[str, str | bytes], code: str
) -> None:
    here.offers.publish(here.author, "demo", "1.0.0", files)
    assert here.refused(here.install).code == code


def test_the_smaller_of_the_registrys_limits_and_our_own_holds(here: Here) -> None:
    here.publish(files={"big": os.urandom(4000)})
    here.offers.limits = Limits(compressed=2000)
    error = here.refused(here.install)
    assert (type(error), error.code) == (TooLarge, "bundle_too_large")
    here.offers.limits = DEFAULT_LIMITS.scaled(1000)
    here.offers.alter("demo", _set("versions", 0, "size", to=DEFAULT_LIMITS.compressed * 4 + 1))
    assert here.refused(here.install).code == "bundle_too_large"
    assert here.offers.downloads == 0


def test_all_plugins_of_a_command_are_proved_before_one_is_downloaded(here: Here) -> None:
    here.publish()
    here.offers.publish(here.author, "second", "1.0.0")
    here.offers.alter("second", _set("versions", 0, "digest", to="sha256:" + "0" * 64))
    assert here.refused(here.install, "demo", "second").code == "release_mismatch"
    assert here.offers.downloads == 0


def test_all_plugins_of_a_command_are_downloaded_before_one_is_active(here: Here) -> None:
    here.publish()
    blob = here.offers.blob(here.offers.publish(here.author, "second", "1.0.0"))
    blob.write_bytes(b"x")
    assert here.refused(here.install, "demo", "second").code == "digest_mismatch"
    assert here.listed() == {}


# --- how it is written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o077, 0o000, 0o022])
def test_c12_t07_modes_are_the_documented_ones_under_every_umask(here: Here, umask: int) -> None:
    here.publish(files={"bin/server": "#!/bin/sh\n", "bin/data": "x"}, links={"run": "bin/server"})
    before = os.umask(umask)
    try:
        here.install()
    finally:
        os.umask(before)
    found = modes(here.tree())
    assert found == {
        ".": 0o755,
        "bin": 0o755,
        "bin/server": 0o755,
        "bin/data": 0o644,
        "plugin.json": 0o644,
        "v.txt": 0o644,
    }
    assert (here.tree() / "run").resolve() == here.tree() / "bin" / "server"
    for path in here.root.path.rglob("*"):
        assert path.is_symlink() or not stat.S_IMODE(path.stat().st_mode) & 0o022
    assert stat.S_IMODE(here.root.data("demo").stat().st_mode) == 0o700
    assert_settled(here.root)


def test_e1_e10_nothing_is_written_outside_the_root(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("TMPDIR", "HOME", "XDG_CACHE_HOME"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    here.publish()
    here.install()
    verify(here.root).raise_if_any()
    assert [list((tmp_path / variable).iterdir()) for variable in ("TMPDIR", "HOME", "XDG_CACHE_HOME")] == [
        [],
        [],
        [],
    ]


def test_c10_a_path_too_long_for_this_root_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) < 3800:
        deep = deep / ("d" * min(200, 3800 - len(str(deep))))
    here = Here(tmp_path)
    here.root = PluginsRoot.at(deep)
    here.publish("1.0.0", {"a" * 150 + "/" + "b" * 85: "long"})
    error = here.refused(here.install)
    assert (type(error), error.code) == (InvalidInput, "path_too_long_here")
    assert "aaa" in error.message
    here.publish("1.0.1", {"short": "x"})
    here.install()
    assert here.listed() == {"demo": "1.0.1"}


def test_names_in_unicode_do_not_depend_on_the_locale(here: Here) -> None:
    here.publish(files={"größe/ключ.txt": "x"})
    here.install()
    assert os.stat(os.fsencode(here.tree()) + "/größe/ключ.txt".encode()).st_size == 1  # noqa: PTH116 - bytes
    assert_settled(here.root)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link", "link to another release"])
def test_not_ours_is_never_touched(here: Here, kind: str, tmp_path: Path) -> None:
    here.publish()
    here.root.path.mkdir()
    entry = here.root.link("demo")
    target = {
        "link": str(tmp_path),
        "dangling link": "nowhere",
        "link to another release": ".store/other/1.0.0-000000000000",
    }
    if kind == "file":
        entry.write_text("mine")
    elif kind == "folder":
        entry.mkdir()
    else:
        entry.symlink_to(target[kind])
    before = entry.lstat()
    for operation in (here.install, here.uninstall):
        with pytest.raises(NotAllowed) as caught:
            operation("demo")
        assert caught.value.code == "not_ours"
        assert str(entry) in caught.value.message
    assert entry.lstat() == before
    assert list_installed(here.root).plugins == ()
    assert here.offers.downloads == 0


def test_other_entries_of_the_root_stay_as_they_are(here: Here) -> None:
    here.publish()
    here.root.path.mkdir()
    (here.root.path / "theirs").mkdir()
    (here.root.path / "theirs" / "plugin.json").write_text("{}")
    (here.root.path / "notes.txt").write_text("x")
    here.install()
    here.uninstall(purge_data=True)
    assert (here.root.path / "theirs" / "plugin.json").read_text() == "{}"
    assert (here.root.path / "notes.txt").read_text() == "x"


def test_b10_a_release_whose_files_are_gone_is_shown_and_brought_back(here: Here) -> None:
    here.publish()
    here.install()
    (here.root.data("demo") / "db").write_text("kept")
    entry = here.root.active("demo")
    assert entry
    for part in entry.parts:
        if part.is_dir():
            for file in part.iterdir():
                file.unlink()
            part.rmdir()
        else:
            part.unlink()
        (row,) = list_installed(here.root).plugins
        assert (row.name, row.version, row.status) == ("demo", "1.0.0", "damaged")
        here.install()
        assert here.listed() == {"demo": "1.0.0"}
        assert_settled(here.root)
    assert (here.root.data("demo") / "db").read_text() == "kept"


def test_a_release_still_in_the_store_is_not_downloaded_again(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    here.install("demo@1.0.0")
    here.install("demo@1.1.0")
    here.install("demo@1.0.0")
    assert here.offers.downloads == 2
    assert_settled(here.root)


def test_an_altered_release_in_the_store_is_not_used_again(here: Here) -> None:
    here.publish("1.0.0")
    here.publish("1.1.0")
    here.install("demo@1.0.0")
    (here.tree() / "v.txt").write_text("altered")
    here.install("demo@1.1.0")
    here.install("demo@1.0.0")
    assert here.offers.downloads == 3
    assert (here.tree() / "v.txt").read_text() == "1.0.0"


def test_progress_is_reported(here: Here) -> None:
    here.publish(files={"big": os.urandom(600_000)})
    seen: list[tuple[str, int, int]] = []
    install(here.root, [Ref.parse("demo")], [here.offers], progress=lambda *step: seen.append(step))
    assert seen[-1][1] == seen[-1][2] > 600_000
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)


def test_every_refusal_says_what_to_do(here: Here) -> None:
    here.publish()
    here.install()
    here.offers.forget("demo")
    here.offers.publish(here.stranger, "demo", "2.0.0")
    error = here.refused(here.update)
    assert isinstance(error, PlugregError)
    assert error.hint
