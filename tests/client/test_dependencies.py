"""What depends on what: installed together, refused together, missed when it goes, and shown by `plugreg deps`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.cli import main
from plugreg.dependencies import report
from plugreg.plugins_root import PluginsRoot
from plugreg_schemas.errors import IntegrityError, NotAllowed, NotAvailable, ResolutionError
from tests.support.commands import User
from tests.support.offers import Offers
from tests.support.registries import running
from tests.support.roots import Here, assert_settled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from plugreg.install import Installation


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def files(
    name: str, version: str = "1.0.0", *needs: str | dict[str, str], kind: str = "tool"
) -> dict[str, str]:
    """Return a dagstack plugin that depends on these: a name, or a table with its fields."""
    tables = [need if isinstance(need, str) else {"name": need["name"]} | need for need in needs]
    lines = [
        "[plugin]",
        f'schema_version = "1"\nname = "{name}"\nversion = "{version}"',
        f'kind = "{kind}"\nkind_api_version = "1"\ncore_version = ">=0.2.0,<0.3.0"',
        'runtime = "in_process"\nentry_point = "plugin:Echo"',
        f"depends_on = [{', '.join(map(_toml, tables))}]",
    ]
    return {"dagstack.toml": "\n".join(lines) + "\n", "plugin.py": ""}


def _toml(value: str | dict[str, str]) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return "{" + ", ".join(f'{key} = "{text}"' for key, text in value.items()) + "}"


def need(name: str, version: str = "", kind: str = "tool") -> dict[str, str]:
    return {"kind": kind, "name": name} | ({"version": version} if version else {})


def publish(
    here: Here, name: str, version: str = "1.0.0", *needs: str | dict[str, str], kind: str = "tool"
) -> None:
    here.offers.publish(here.author, name, version, files(name, version, *needs, kind=kind))


def rows(done: Installation) -> list[tuple[str, str, str]]:
    return [(row.facts.name, row.facts.version, row.change) for row in done.installed]


# --- install -----------------------------------------------------------------------------------------------------


def test_what_a_plugin_depends_on_is_installed_before_it(here: Here) -> None:
    publish(here, "top", "1.0.0", "left", "right")
    publish(here, "left", "1.0.0", "root")
    publish(here, "right", "1.0.0", "root")
    publish(here, "root")
    done = here.install("top")
    assert [name for name, _, _ in rows(done)] == ["root", "left", "right", "top"]
    assert [member["name"] for member in done.as_dict()["installed"]] == ["root", "left", "right", "top"]  # type: ignore[attr-defined]
    assert here.listed() == dict.fromkeys(("left", "right", "root", "top"), "1.0.0")
    assert_settled(here.root)


def test_names_that_do_not_depend_on_each_other_stay_in_the_order_given(here: Here) -> None:
    for name in ("b", "a"):
        publish(here, name)
    assert [name for name, _, _ in rows(here.install("b", "a"))] == ["b", "a"]


def test_what_is_installed_and_fits_is_left_alone(here: Here) -> None:
    publish(here, "echo")
    here.install("echo")
    publish(here, "echo", "1.1.0")
    publish(here, "top", "1.0.0", need("echo", "^1"))
    assert rows(here.install("top")) == [("top", "1.0.0", "installed")]
    assert here.listed() == {"echo": "1.0.0", "top": "1.0.0"}


def test_what_is_installed_and_does_not_fit_is_updated_within_its_own_range(here: Here) -> None:
    publish(here, "echo")
    here.install("echo@^1")
    publish(here, "echo", "1.2.0")
    publish(here, "echo", "2.0.0")
    publish(here, "top", "1.0.0", need("echo", ">=1.1"))
    assert rows(here.install("top")) == [("echo", "1.2.0", "updated"), ("top", "1.0.0", "installed")]


def test_a_dependency_that_was_uninstalled_comes_back(here: Here) -> None:
    publish(here, "echo")
    publish(here, "top", "1.0.0", "echo")
    here.install("top")
    here.uninstall("echo")
    assert rows(here.install("top")) == [("echo", "1.0.0", "installed"), ("top", "1.0.0", "unchanged")]


def test_one_version_is_chosen_for_all_that_need_it(here: Here) -> None:
    """`low` is found only after `echo` was chosen by the wider range."""
    publish(here, "top", "1.0.0", need("echo", ">=1"), "low")
    publish(here, "low", "1.0.0", "lower")
    publish(here, "lower", "1.0.0", need("echo", "<2"))
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        publish(here, "echo", version)
    done = here.install("top")
    assert here.listed()["echo"] == "1.5.0"
    assert [name for name, _, _ in rows(done)] == ["echo", "lower", "low", "top"]
    assert here.offers.downloads == 4


def test_a_plugin_named_in_the_same_command_is_chosen_for_the_others_too(here: Here) -> None:
    publish(here, "echo", "1.0.0")
    publish(here, "echo", "2.0.0")
    publish(here, "top", "1.0.0", need("echo", "^1"))
    assert rows(here.install("echo", "top")) == [
        ("echo", "1.0.0", "installed"),
        ("top", "1.0.0", "installed"),
    ]


def test_dependencies_come_without_prereleases_and_without_yanked_versions(here: Here) -> None:
    publish(here, "echo", "1.0.0")
    publish(here, "echo", "1.1.0")
    publish(here, "echo", "1.2.0-rc.1")
    here.offers.yank(here.author, "echo", "1.1.0")
    publish(here, "top", "1.0.0-rc.1", need("echo", "^1"))
    here.install("top", prereleases=True)
    assert here.listed() == {"echo": "1.0.0", "top": "1.0.0-rc.1"}


def test_a_dependency_is_taken_from_the_registry_that_has_it(here: Here, tmp_path: Path) -> None:
    other = Offers.create(tmp_path / "other", "other")
    publish(here, "top", "1.0.0", "echo")
    other.publish(here.stranger, "echo", "1.0.0", files("echo"))
    done = here.install("top", registries=[here.offers, other])
    assert [row.facts.registry.id for row in done.installed] == [other.ref.id, here.offers.ref.id]


def test_a_dependency_in_two_registries_is_refused_and_named(here: Here, tmp_path: Path) -> None:
    other = Offers.create(tmp_path / "other", "other")
    publish(here, "top", "1.0.0", "echo")
    publish(here, "echo")
    other.publish(here.stranger, "echo", "1.0.0", files("echo"))
    refusal = here.refused(here.install, "top", registries=[here.offers, other])
    assert isinstance(refusal, NotAllowed)
    assert refusal.code == "name_in_several_registries"
    assert refusal.message.endswith("`top` cannot be without it")


def test_the_pin_holds_for_dependencies(here: Here) -> None:
    publish(here, "echo")
    here.install("echo")
    here.uninstall("echo")
    here.offers.forget("echo")
    here.offers.publish(here.stranger, "echo", "1.0.0", files("echo"))
    publish(here, "top", "1.0.0", "echo")
    assert here.refused(here.install, "top").code == "data_belongs_to_other_signer"


# --- refusals, all before a download -----------------------------------------------------------------------------


def refused(here: Here, *refs: str) -> ResolutionError:
    refusal = here.refused(here.install, *refs)
    assert isinstance(refusal, ResolutionError)
    assert here.offers.downloads == 0
    return refusal


def test_a32_a_cycle_is_refused_with_its_chain(here: Here) -> None:
    publish(here, "top", "1.0.0", "a")
    publish(here, "a", "1.0.0", "b")
    publish(here, "b", "1.0.0", "a")
    refusal = refused(here, "top")
    assert (refusal.code, refusal.details["cycle"]) == ("dependency_cycle", ["a", "b"])
    assert "`a` -> `b` -> `a`" in refusal.message


def test_a33_what_no_registry_has_is_named_with_who_needs_it(here: Here) -> None:
    publish(here, "top", "1.0.0", "mid")
    publish(here, "mid", "1.0.0", "gone", "Not A Name", "con")
    refusal = refused(here, "top")
    assert {finding.code for finding in refusal.findings} == {"missing_dependency"}
    assert refusal.code == "missing_dependency"
    assert refusal.details["missing"] == [
        {"plugin": "mid", "missing": name} for name in ("gone", "Not A Name", "con")
    ]
    assert refusal.findings[0].message == (
        "`mid` depends on `gone`, which is neither installed nor in any known registry"
    )


@pytest.mark.parametrize(
    "wanted", [need("echo", "^2"), need("echo", kind="orchestrator")], ids=["version", "kind"]
)
def test_a_version_or_kind_that_does_not_fit_is_refused(here: Here, wanted: dict[str, str]) -> None:
    publish(here, "echo")
    publish(here, "top", "1.0.0", wanted)
    assert refused(here, "top").code == "dependency_version"


def test_ranges_that_no_version_is_in_together_are_refused_with_all_who_need_it(here: Here) -> None:
    publish(here, "echo", "1.0.0")
    publish(here, "echo", "2.0.0")
    publish(here, "a", "1.0.0", need("echo", "^1"))
    publish(here, "b", "1.0.0", need("echo", "^2"))
    refusal = refused(here, "a", "b")
    assert refusal.code == "dependency_version"
    assert [f.message.split(",")[0] for f in refusal.findings] == [
        "`a` depends on `echo` `^1` of the kind `tool`",
        "`b` depends on `echo` `^2` of the kind `tool`",
    ]


def test_an_installed_dependency_is_never_taken_back(here: Here) -> None:
    publish(here, "echo", "1.0.0")
    publish(here, "echo", "2.0.0")
    here.install("echo")
    publish(here, "top", "1.0.0", need("echo", "^1"))
    refusal = here.refused(here.install, "top")
    assert (refusal.code, here.offers.downloads) == ("dependency_version", 1)
    assert refusal.message.endswith("what there is is `2.0.0`")


def test_a_registry_that_says_other_requirements_than_were_signed_is_refused(here: Here) -> None:
    publish(here, "top", "1.0.0", "echo")
    publish(here, "echo")
    publish(here, "evil")

    def add(document: dict[str, Any]) -> None:
        document["versions"][0]["requires"].append({"name": "evil", "kind": "", "range": ""})

    def drop(document: dict[str, Any]) -> None:
        document["versions"][0]["requires"] = []

    for change in (add, drop):
        here.offers.alter("top", change)
        refusal = here.refused(here.install, "top")
        assert isinstance(refusal, IntegrityError)
        assert refusal.code == "manifest_mismatch"
        assert "`echo`" in refusal.message


def test_a_registry_that_says_another_kind_than_was_signed_is_refused(here: Here) -> None:
    publish(here, "top", "1.0.0", need("echo", kind="orchestrator"))
    publish(here, "echo")
    here.offers.alter("echo", lambda document: document["versions"][0].update(capability_kind="orchestrator"))
    assert here.refused(here.install, "top").code == "manifest_mismatch"


def test_a_range_that_cannot_be_read_lets_no_version_through(here: Here) -> None:
    publish(here, "top", "1.0.0", need("echo", "^1"))
    publish(here, "echo")
    here.offers.alter("top", lambda d: d["versions"][0]["requires"][0].update(range="one"))
    assert refused(here, "top").code == "dependency_version"


def test_a_registry_cannot_name_dependencies_without_end(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugreg.closure.MAX_PLUGINS", 5)
    for number in range(8):
        publish(here, f"p{number}", "1.0.0", f"p{number + 1}")
    refusal = here.refused(here.install, "p0")
    assert (refusal.code, here.offers.downloads) == ("dependencies_too_many", 0)


# --- update and uninstall ----------------------------------------------------------------------------------------


def test_an_update_brings_what_the_new_version_depends_on(here: Here) -> None:
    publish(here, "top")
    here.install("top")
    publish(here, "top", "1.1.0", "echo")
    publish(here, "echo")
    assert rows(here.update("top")) == [("echo", "1.0.0", "installed"), ("top", "1.1.0", "updated")]


def test_an_update_takes_plugins_and_their_dependencies_on_together(here: Here) -> None:
    publish(here, "top", "1.0.0", need("echo", "^1"))
    publish(here, "echo", "1.0.0")
    here.install("top")
    publish(here, "echo", "2.0.0")
    here.update()
    assert here.listed() == {"echo": "1.0.0", "top": "1.0.0"}
    publish(here, "top", "2.0.0", need("echo", "^2"))
    here.update()
    assert here.listed() == {"echo": "2.0.0", "top": "2.0.0"}


def test_an_update_of_one_plugin_respects_those_that_depend_on_it(here: Here) -> None:
    publish(here, "top", "1.0.0", need("echo", "^1"))
    publish(here, "echo", "1.0.0")
    here.install("top")
    publish(here, "echo", "1.1.0")
    publish(here, "echo", "2.0.0")
    done = here.update("echo")
    assert rows(done) == [("echo", "1.1.0", "updated")]
    assert any("stays within `^1`; 2.0.0 is available" in note for note in done.notes)


def test_a_version_that_is_asked_for_is_installed_with_a_warning_of_who_loses(here: Here) -> None:
    publish(here, "top", "1.0.0", need("echo", "^1"))
    publish(here, "echo", "1.0.0")
    here.install("top")
    publish(here, "echo", "2.0.0")
    done = here.install("echo@2.0.0")
    assert done.notes == ("warning: `top` depends on `echo` `^1`, and this installs `2.0.0`",)


def test_uninstalling_what_others_depend_on_warns_and_names_them(here: Here) -> None:
    publish(here, "a", "1.0.0", "echo")
    publish(here, "b", "1.0.0", "echo")
    publish(here, "echo")
    here.install("a", "b")
    done = here.uninstall("echo")
    assert done.notes == ("warning: `a`, `b` depend on `echo`, which is uninstalled",)
    assert here.said[-1:] == list(done.notes)
    assert set(here.listed()) == {"a", "b"}


def test_uninstalling_all_of_it_warns_of_nothing(here: Here) -> None:
    publish(here, "a", "1.0.0", "echo")
    publish(here, "echo")
    here.install("a")
    assert here.uninstall("echo", "a").notes == ()


# --- deps --------------------------------------------------------------------------------------------------------


def write(folder: Path, name: str, *needs: str | dict[str, str]) -> str:
    folder.mkdir()
    for path, text in files(name, "1.0.0", *needs).items():
        (folder / path).write_text(text)
    return str(folder)


def asked(here: Here, target: str) -> dict[str, object]:
    def registries() -> Sequence[Offers]:
        return [here.offers]

    return report(target, here.root, registries).as_dict()


def test_deps_says_of_each_requirement_where_it_is(here: Here, tmp_path: Path) -> None:
    publish(here, "there")
    publish(here, "old")
    publish(here, "offered", "1.0.0", "below")
    publish(here, "below")
    here.install("there", "old")
    folder = write(tmp_path / "p", "top", "there", "offered", need("old", "^2"), "gone")
    assert asked(here, folder) == {
        "name": "top",
        "requires": [
            {"name": "there", "kind": None, "range": None, "state": "installed", "version": "1.0.0"},
            {"name": "offered", "kind": None, "range": None, "state": "available", "version": "1.0.0"},
            {"name": "old", "kind": "tool", "range": "^2", "state": "unfit", "version": "1.0.0"},
            {"name": "gone", "kind": None, "range": None, "state": "missing", "version": None},
        ],
        "order": ["there", "below", "offered", "top"],
    }


def test_deps_of_an_installed_plugin_needs_no_registry(here: Here) -> None:
    publish(here, "top", "1.0.0", "echo")
    publish(here, "echo")
    here.install("top")

    def nobody() -> Sequence[Offers]:
        raise AssertionError("a registry was asked")

    assert report("top", here.root, nobody).as_dict()["order"] == ["echo", "top"]


def test_deps_of_a_plugin_in_a_registry(here: Here) -> None:
    publish(here, "top", "1.0.0", "echo")
    publish(here, "echo")
    found = asked(here, "top")
    assert found["order"] == ["echo", "top"]
    assert not here.root.path.exists()


def test_a32_deps_of_a_cycle_names_the_chain(here: Here, tmp_path: Path) -> None:
    publish(here, "echo", "1.0.0", "top")
    with pytest.raises(ResolutionError) as refusal:
        asked(here, write(tmp_path / "p", "top", "echo"))
    assert (refusal.value.code, refusal.value.details["cycle"]) == ("dependency_cycle", ["top", "echo"])


def test_deps_of_what_is_nowhere(here: Here) -> None:
    with pytest.raises(NotAvailable) as refusal:
        asked(here, "gone")
    assert refusal.value.code == "plugin_not_found"


@pytest.fixture
def words(here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUGREG_REGISTRY", raising=False)
    return ["--root", str(here.root.path)]


def test_the_command_prints_a_tree_and_the_order(
    here: Here, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(here, "echo", "1.2.0", "root")
    publish(here, "root")
    here.install("echo")
    folder = write(tmp_path / "p", "top", need("echo", "^1"), "root", "gone")
    assert main(["deps", folder, *words]) == 0
    assert capsys.readouterr().out == (
        "top 1.0.0\n"
        "  echo ^1 (tool): installed 1.2.0\n"
        "    root: installed 1.0.0\n"
        "  root: installed 1.0.0\n"
        "  gone: missing\n"
        "order: root, echo, top\n"
    )


def test_the_command_prints_json_for_programs(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deps", write(tmp_path / "p", "top"), "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "top", "requires": [], "order": ["top"]}


def test_a_root_that_is_not_there_is_not_made(tmp_path: Path, words: list[str]) -> None:
    root = PluginsRoot.at(tmp_path / "root")
    assert main(["deps", write(tmp_path / "p", "top"), *words]) == 0
    assert not root.path.exists()


# --- with a registry that runs -----------------------------------------------------------------------------------


def test_a_plugin_and_what_it_depends_on_from_publish_to_uninstall(tmp_path: Path) -> None:
    """The registry's document says what the manifests say, and all commands go by it."""
    with running(tmp_path / "registry") as registry:
        user = User(tmp_path / "user")
        user.run("registry", "add", registry.url)
        user.run("key", "new")
        user.run("publish", write(tmp_path / "echo", "echo"))
        user.run("publish", write(tmp_path / "top", "top", need("echo", "^1")))
        user.run("publish", write(tmp_path / "lost", "lost", "gone"))
        wanted = {"name": "echo", "kind": "tool", "range": "^1", "version": "1.0.0"}
        before = user.run("deps", "top")
        assert before == {
            "name": "top",
            "requires": [wanted | {"state": "available"}],
            "order": ["echo", "top"],
        }
        done = user.run("install", "top")
        assert [row["name"] for row in done["installed"]] == ["echo", "top"]
        assert user.run("deps", "top")["requires"] == [wanted | {"state": "installed"}]
        assert user.fails("install", "lost", code=5)["code"] == "missing_dependency"
        assert "`top` depends on `echo`" in user.run("uninstall", "echo")["notes"][0]
