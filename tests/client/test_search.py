"""`plugreg search`: all known registries, those that answer no questions too, and what strangers write."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_registry.app import compose, prepare
from plugreg_registry.listing import Lister
from plugreg_registry.settings import read_settings
from tests.registry.test_killed import publish
from tests.support.commands import User
from tests.support.publisher import Author, plugin
from tests.support.registries import running
from tests.support.scripted import Answer, Request, as_json, problem, serving
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.registries import RegistryProcess

NAMES = ("git-hub", "github-tools", "json-lint")
LINE = "An \x1b[31mevil\x1b[0m line\u202e"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("registry")) as found:
        author = Author(found.url, found.id)
        for name in NAMES:
            assert author.publish(plugin(name), name).status == 201
        assert author.state("status", "git-hub", state="deprecated", reason="old").status == 201
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The objects of a registry that has written its list, as any web server or folder may have them."""
    settings = read_settings({}, str(tmp_path_factory.mktemp("data")))
    author = Author("", prepare(settings).ref.id)
    here = compose(settings)
    try:
        for name in NAMES:
            publish(here.services.publishing, author, name)
        later = replace(here.index, now=lambda: here.index.now() + timedelta(seconds=61))
        Lister(later).round()
    finally:
        here.close()
    return settings.objects


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


def names(found: Any) -> list[str]:
    return [row["name"] for row in found["plugins"]]


def test_a_registry_is_asked(registry: RegistryProcess, user: User) -> None:
    user.run("registry", "add", registry.url)
    found = user.run("search", "git")
    assert names(found) == ["github-tools", "git-hub"]
    assert (found["more"], found["silent"]) == (False, [])
    row = found["plugins"][1]
    assert (row["latest"], row["status"], row["signed"]) == ("1.0.0", "deprecated", False)
    assert row["registry"]["id"] == registry.id
    assert names(user.run("search", "lint", "json", "--host", "cursor", "--runtime", "mcp_stdio")) == [
        "json-lint"
    ]
    assert names(user.run("search", "--language", "py", "--sort", "name")) == sorted(NAMES)
    assert user.run("search", "git", "--limit", "1")["more"]
    shown = user.raw("search", "git")
    assert shown.returncode == 0
    assert shown.stdout == "NAME          LATEST              DESCRIPTION\n" + "".join(
        f"{line}\n" for line in ("github-tools  1.0.0", "git-hub       1.0.0 (deprecated)")
    )


def test_nothing_found_is_no_failure(registry: RegistryProcess, user: User) -> None:
    user.run("registry", "add", registry.url)
    done = user.raw("search", "quokka")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing was found" in done.stderr
    assert names(user.run("search", '\' OR "1" * NEAR(')) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--host", "emacs"), "host_unknown"),
        (("--language", "cobol"), "language_unknown"),
        (("--runtime", "mcp"), "runtime_unknown"),
        (("--limit", "0"), "setting_invalid"),
        (("--limit", "1001"), "setting_invalid"),
        (("x" * 201,), "search_too_long"),
        (("--sort", "stars"), "usage_invalid"),
        (("git",), "no_registry"),
    ],
)
def test_questions_that_are_none(user: User, words: tuple[str, ...], code: str) -> None:
    assert user.fails("search", *words, code=2)["code"] == code


def test_a_folder_is_searched_by_its_signed_list(folder: Path, user: User) -> None:
    user.run("registry", "add", folder.as_uri())
    found = user.run("search", "git")
    assert names(found) == ["git-hub", "github-tools"]
    assert all(row["signed"] for row in found["plugins"])
    assert names(user.run("search", "hub", "--runtime", "mcp_stdio", "--limit", "1")) == ["git-hub"]
    assert names(user.run("search", "--runtime", "mcp_http")) == []
    for words in (("--host", "cursor"), ("--skill", "x"), ("--sort", "updated")):
        assert user.fails("search", *words, code=7)["code"] == "search_not_listed"


def test_a_list_that_was_altered_is_refused(folder: Path, user: User, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (page,) = (copy / "index" / "catalog").iterdir()
    page.chmod(0o644)
    page.write_bytes(page.read_bytes().replace(b"json-lint", b"json-lunt"))
    user.run("registry", "add", copy.as_uri())
    assert user.fails("search", "json", code=4)["code"] == "index_mismatch"


def test_without_a_network_what_was_read_once_is_searched(folder: Path, user: User) -> None:
    with serving(Static(folder)) as server:
        user.run("registry", "add", server.url)
        unread = user.fails("search", "git", "--offline", code=7)
        assert (unread["code"], "--signed" in unread["hint"]) == ("offline", True)
        found = user.run("search", "git", "--signed")
        assert names(found) == ["git-hub", "github-tools"]
    assert user.run("search", "git", "--offline") == found


def test_a_registry_that_answers_no_questions_has_its_list(folder: Path, user: User) -> None:
    with serving(Static(folder)) as server:
        user.run("registry", "add", server.url)
        done = user.raw("search", "git")
    assert (done.returncode, done.stdout.split()[3:4]) == (0, ["git-hub"])
    assert "answers no questions" in done.stderr


def test_one_registry_that_is_away_is_told_and_all_of_them_is_a_failure(
    registry: RegistryProcess, folder: Path, user: User
) -> None:
    with serving(Static(folder)) as server:
        user.run("registry", "add", server.url, "--name", "away")
    assert user.fails("search", "git", code=7)["code"] == "registry_unreachable"
    user.run("registry", "add", registry.url, "--name", "here")
    found = user.run("search", "git")
    assert (names(found), [one["code"] for one in found["silent"]]) == (
        ["github-tools", "git-hub"],
        ["registry_unreachable"],
    )


def test_of_several_registries_each_row_says_its_own(
    registry: RegistryProcess, folder: Path, user: User
) -> None:
    user.run("registry", "add", registry.url, "--name", "here")
    user.run("registry", "add", folder.as_uri(), "--name", "copy")
    lines = user.raw("search", "git").stdout.splitlines()
    assert lines[0].split() == ["NAME", "LATEST", "REGISTRY", "DESCRIPTION"]
    assert [line.split()[0] for line in lines[1:]] == ["github-tools", "git-hub", "git-hub", "github-tools"]
    assert [line.split()[-1] for line in lines[1:]] == ["here", "here", "copy", "copy"]
    assert names(user.run("search", "git", "--registry", "copy")) == ["git-hub", "github-tools"]


def test_words_of_strangers_move_no_cursor_and_make_no_lines(user: User) -> None:
    row = {
        "name": "evil",
        "latest": "1.0.0",
        "description": LINE + "\nsecond 9.9.9",
        "published_at": "2026-01-31T12:00:00Z",
    }
    with serving(Asked({"plugins": [row]})) as server:
        user.run("registry", "add", server.url)
        done = user.raw("search")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert not set(done.stdout) & {"\x1b", "\u202e"}


@pytest.mark.parametrize(
    "page",
    [
        {"plugins": [{"name": "../evil", "latest": "1.0.0", "published_at": "2026-01-31T12:00:00Z"}]},
        {"plugins": [{"name": "evil", "latest": "one", "published_at": "2026-01-31T12:00:00Z"}]},
        {"plugins": "none"},
        [],
        None,
    ],
)
def test_an_answer_that_is_none_counts_as_no_answer(user: User, page: object) -> None:
    with serving(Asked(page)) as server:
        user.run("registry", "add", server.url)
        done = user.raw("search", "evil")
    assert (done.returncode, done.stdout) == (0, "")
    assert "answers no questions, so its signed list is searched" in done.stderr


def test_a_registry_that_never_comes_to_an_end_is_left(user: User) -> None:
    row = {"name": "more", "latest": "1.0.0", "published_at": "2026-01-31T12:00:00Z"}
    with serving(Asked({"plugins": [row] * 300, "next": "again"})) as server:
        user.run("registry", "add", server.url)
        assert len(names(user.run("search", "--limit", "150"))) == 150
        with serving(Asked({"plugins": [], "next": "again"})) as empty:
            user.run("registry", "remove", server.url)
            user.run("registry", "add", empty.url)
            assert names(user.run("search")) == []


class Static:
    """A web server that has the objects of a registry and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, request: Request) -> Answer:
        path = self.folder / request.path.partition("?")[0].lstrip("/")
        return Answer(200, path.read_bytes()) if path.is_file() else problem(404, "not_found")


class Asked(SmallRegistry):
    """A registry that gives one answer to every search."""

    def __init__(self, page: object) -> None:
        super().__init__(before=lambda request: self.search(request, page))

    def search(self, request: Request, page: object) -> Answer | None:
        return as_json(page) if request.path.startswith("/v1/plugins") else None
