"""Where settings come from: flag > environment > project > user > default."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from plugreg.config import Config, load, write_atomically
from plugreg.registries import KnownRegistry, Registries
from plugreg_schemas.errors import InvalidInput, NotAllowed, NotAvailable, UsageError
from tests.support.record import OTHER_REGISTRY, REGISTRY


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


SOURCES = ("flag", "environment", "project", "user")


@pytest.mark.parametrize("setting", ["root", "registry"])
@pytest.mark.parametrize("given", range(len(SOURCES) + 1))
def test_the_first_source_wins(home: Path, project: Path, setting: str, given: int) -> None:
    """With all sources from number `given` on, the value is that of `given`."""
    sources = SOURCES[given:]
    environ = {"PLUGREG_HOME": str(home)}
    if "environment" in sources:
        environ[f"PLUGREG_{setting.upper()}"] = "/environment"
    if "project" in sources:
        (project / "plugreg.toml").write_text(f'{setting} = "/project"')
    if "user" in sources:
        (home / "config.toml").write_text(f'{setting} = "/user"')
    flags = {setting: "/flag"} if "flag" in sources else {}
    default = str(Path("~/.agents/plugins").expanduser()) if setting == "root" else ""
    found = getattr(load(environ, folder=project, **flags), setting)
    assert str(found) == (f"/{sources[0]}" if sources else default)


def test_an_empty_variable_is_none(home: Path, project: Path) -> None:
    (home / "config.toml").write_text('registry = "team"')
    assert load({"PLUGREG_HOME": str(home), "PLUGREG_REGISTRY": ""}, folder=project).registry == "team"


def test_the_project_is_the_working_directory(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "plugreg.toml").write_text('registry = "team"')
    monkeypatch.chdir(project)
    assert load({"PLUGREG_HOME": str(home)}).registry == "team"


def test_the_home_folder_has_a_default(project: Path) -> None:
    assert load({}, folder=project).home.name == "plugreg"
    assert load({"PLUGREG_HOME": "~/x"}, folder=project).home == Path("~/x").expanduser()


def test_keys_lie_in_the_home_folder(home: Path, project: Path) -> None:
    assert load({"PLUGREG_HOME": str(home)}, folder=project).keys == home / "keys"


@pytest.mark.parametrize("where", ["root", "home"])
def test_home_of_somebody_who_is_not_known(home: Path, project: Path, where: str) -> None:
    environ = {"PLUGREG_HOME": "~nobody-of-this-name/x" if where == "home" else str(home)}
    with pytest.raises(UsageError) as refused:
        load(environ, folder=project, root="~nobody-of-this-name/x" if where == "root" else "")
    assert refused.value.code == "config_invalid"


@pytest.mark.parametrize(
    "content",
    [
        b"root = ",
        b"root",
        b"\xff",
        b"root = 1",
        b"registry = ['a']",
        b'color = "red"',
        b"[root]\nx = 1",
        b'root = "a"\nroot = "b"',
        b'root = "a\\u0000b"',
        b"root = " + b"[" * 100_000,
    ],
    ids=["cut", "no value", "no text", "number", "list", "unknown", "table", "twice", "nul", "deep"],
)
@pytest.mark.parametrize("source", ["project", "user"])
def test_broken_settings_name_their_file(home: Path, project: Path, content: bytes, source: str) -> None:
    path = project / "plugreg.toml" if source == "project" else home / "config.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        load({"PLUGREG_HOME": str(home)}, folder=project)
    assert refused.value.code == "config_invalid"
    assert str(path) in refused.value.message


def test_unknown_settings_are_named(home: Path, project: Path) -> None:
    (project / "plugreg.toml").write_text('rot = "x"')
    with pytest.raises(UsageError, match="`rot`") as refused:
        load({"PLUGREG_HOME": str(home)}, folder=project)
    assert refused.value.hint == "known are: root, registry"


def test_a_project_does_not_say_whom_to_trust(home: Path, project: Path) -> None:
    """A cloned folder would otherwise bring its own certificate authority."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('trust_config = "mine.json"')
    assert load({"PLUGREG_HOME": str(home)}, folder=project).trust_config == "mine.json"
    environ = {"PLUGREG_HOME": str(home), "PLUGREG_TRUST_CONFIG": "theirs.json"}
    assert load(environ, folder=project).trust_config == "theirs.json"
    assert load(environ, folder=project, trust_config="flag.json").trust_config == "flag.json"
    (project / "plugreg.toml").write_text('trust_config = "evil.json"')
    with pytest.raises(UsageError, match="`trust_config`") as refused:
        load(environ, folder=project)
    assert refused.value.code == "config_invalid"


def test_settings_that_are_a_folder(home: Path, project: Path) -> None:
    (project / "plugreg.toml").mkdir()
    with pytest.raises(UsageError) as refused:
        load({"PLUGREG_HOME": str(home)}, folder=project)
    assert refused.value.code == "config_invalid"


TEAM = KnownRegistry(id=REGISTRY, url="https://team.example/", name="team")
OTHER = KnownRegistry(id=OTHER_REGISTRY, url="https://other.example/x/", name="other")


def config(home: Path, registry: str = "") -> Config:
    return Config(home=home, root=home / "root", registry=registry)


def test_registries_are_remembered(home: Path) -> None:
    assert Registries(config(home)).known() == ()
    Registries(config(home)).remember((TEAM, OTHER))
    assert Registries(config(home)).known() == (TEAM, OTHER)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"registries": [{"id": "x", "url": "u", "name": "n"}]}',
        b'{"registries": [{"id": "", "url": "u", "name": "n"}]}',
        b'{"registries": [], "registries": []}',
        b'{"registries": ' + b"[" * 100_000,
    ],
    ids=["empty", "cut", "list", "no text", "bad id", "no id", "twice", "deep"],
)
def test_a_broken_list_of_registries(home: Path, content: bytes) -> None:
    (home / "registries.json").write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        Registries(config(home)).known()
    assert refused.value.code == "registries_invalid"
    assert str(home / "registries.json") in refused.value.message


def test_no_registry(home: Path) -> None:
    for ask in (Registries(config(home)).remotes, Registries(config(home)).remote):
        with pytest.raises(UsageError) as refused:
            ask()
        assert refused.value.code == "no_registry"


def test_several_registries_are_no_target(home: Path) -> None:
    Registries(config(home)).remember((TEAM, OTHER))
    assert [remote.url for remote in Registries(config(home)).remotes()] == [TEAM.url, OTHER.url]
    with pytest.raises(UsageError) as refused:
        Registries(config(home)).remote()
    assert refused.value.code == "registry_ambiguous"
    assert "team, other" in refused.value.message


@pytest.mark.parametrize(
    "words", ["other", OTHER_REGISTRY, "https://other.example/x", "https://other.example/x/"]
)
def test_a_registry_is_chosen_by_name_id_or_url(home: Path, words: str) -> None:
    Registries(config(home)).remember((TEAM, OTHER))
    assert Registries(config(home, words)).remote().url == OTHER.url


def test_a_registry_that_was_never_added(home: Path) -> None:
    Registries(config(home)).remember((TEAM,))
    with pytest.raises(NotAvailable) as refused:
        Registries(config(home, "teem")).remote()
    assert refused.value.code == "registry_unknown"
    assert Registries(config(home, "https://new.example")).remote().url == "https://new.example/"
    with pytest.raises(UsageError) as open_http:
        Registries(config(home, "http://new.example")).remote()
    assert open_http.value.code == "registry_url_insecure"


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, b"old")
    assert path.read_bytes() == b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    write_atomically(path, b"new", mode=0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_writing_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").write_bytes(b"old")
    with pytest.raises(NotAllowed, match="not_a_file"):
        write_atomically(tmp_path / "taken", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken" / "inside").read_bytes() == b"old"
