"""Plugins are found: the same ones in the same order on every database, page by page, and as the index shows them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import text

from plugreg_registry.app import compose, prepare
from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import upgrade
from plugreg_registry.metadata.search import FEW, DatabaseSearch
from plugreg_registry.records import ACTIVE, DEPRECATED, UNLISTED, Lookup, SearchRow
from plugreg_registry.search_questions import read_search
from plugreg_registry.settings import read_settings
from plugreg_schemas.errors import UsageError
from plugreg_schemas.search import Subject, Wanted, levels, lexemes, rank
from tests.registry.test_formats import publish as publish_files
from tests.registry.test_killed import publish
from tests.support.postgres import INSTALLED
from tests.support.publisher import Author, ask, bundle_of, plugin, plugin_files
from tests.support.registries import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine

    from plugreg_registry.records import Place, SearchSort
    from plugreg_schemas.search import Condition
    from tests.support.postgres import PostgresServer
    from tests.support.registries import RegistryProcess

LISTED = (ACTIVE, DEPRECATED)
SORTS: tuple[SearchSort, ...] = ("relevance", "name", "updated")
QUESTIONS = (
    "",
    "git",
    "git hub",
    "git-hub",
    "json-lint",
    "json-linter-0007",
    "hub",
    "nter",
    "eader",
    "fin",
    "baum",
    "BÄUME",
    "文",
    "文件",
    "readfile",
    "read",
    "skill 3",
    "quickly",
    "q",
    "00",
    "a\0b",
    "nothing",
    "😀",
    "' OR 1=1 --",
    '"git" OR "hub"',
    "git*",
    "NEAR(git hub)",
    "n:git",
    "git NOT hub",
    "g_t",
    "g%t",
    "\\",
    "(",
    ":* & !",
)


def row(number: int, chance: random.Random) -> SearchRow:
    """A plugin of some kind; most names and descriptions share words with others."""
    name = f"{chance.choice(['json', 'git', 'pdf', 'web'])}{chance.choice('-._')}{chance.choice(['linter', 'hub', 'reader'])}-{number:04}"
    found = chance.choice(["files", "rows", "Bäume", "文件", "'or' NEAR * %_"])
    subject = Subject(
        name,
        f"Finds {found} in {chance.choice(['git', 'json', 'text'])} quickly 😀",
        ("main",),
        ("readFile",) if number % 3 == 0 else (),
        (f"skill-{number % 7}",),
        ("mcp_http",) if number % 40 == 0 else ("mcp_stdio",),
    )
    standing = (ACTIVE, ACTIVE, DEPRECATED, UNLISTED)[number % 4]
    return SearchRow(name, 1, 1, standing, -(number % 50), lexemes(subject), f'"{name}"')


ROWS = [row(number, random.Random(number)) for number in range(2 * FEW)]


@pytest.fixture(scope="module", params=["sqlite", *INSTALLED])
def filled(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Callable[[str], PostgresServer],
) -> Iterator[DatabaseSearch]:
    """So many plugins that some questions are answered from the index of words, and others along the order."""
    if request.param == "sqlite":
        database = tmp_path_factory.mktemp("search") / "registry.sqlite3"
        upgrade(database)
        engine = open_database(database)
    else:
        server = postgres(request.param)
        engine = open_database(server.create(server.migrated))
    search = DatabaseSearch(engine)
    search.keep(ROWS)
    yield search
    engine.dispose()


KEPT = [frozenset(row.lexemes) for row in ROWS]


@cache
def ranks(wanted: tuple[Condition, ...]) -> list[int | None]:
    """The level of every plugin, by the rule itself."""
    return [rank(kept, wanted) for kept in KEPT]


def expected(lookup: Lookup) -> list[str]:
    """The names that are found, by the rule itself."""
    found: list[tuple[tuple[int | str, ...], str]] = []
    for one, level in zip(ROWS, ranks(lookup.levels), strict=True):
        if level is not None and one.standing in lookup.standings:
            orders: dict[SearchSort, tuple[int | str, ...]] = {
                "relevance": (level, one.standing, one.name),
                "name": (one.name,),
                "updated": (one.age, one.name),
            }
            found.append((orders[lookup.sort], one.name))
    return [name for _, name in sorted(found)]


def names(search: DatabaseSearch, lookup: Lookup) -> list[str]:
    return [hit.place.name for hit in search.find(lookup)]


def page_by_page(search: DatabaseSearch, lookup: Lookup) -> list[str]:
    found: list[str] = []
    after: Place | None = None
    while hits := search.find(replace(lookup, after=after)):
        found += [hit.place.name for hit in hits]
        after = hits[-1].place
        if len(hits) < lookup.limit:
            break
    return found


class TestSearch:
    """`Search`."""

    def test_the_same_plugins_in_the_same_order_on_every_database(self, filled: DatabaseSearch) -> None:
        for words in QUESTIONS:
            lookup = Lookup(levels(Wanted(words)), "relevance", LISTED, 2 * FEW)
            assert names(filled, lookup) == expected(lookup), words

    @pytest.mark.parametrize(
        "wanted", [Wanted(runtime="mcp_http"), Wanted("fin", skill="skill-3"), Wanted("00")]
    )
    def test_what_must_be_met_exactly_and_the_other_orders(
        self, filled: DatabaseSearch, wanted: Wanted
    ) -> None:
        for sort in SORTS:
            conditions = levels(wanted) if sort == "relevance" else levels(wanted)[-1:]
            lookup = Lookup(conditions, sort, LISTED, 25)
            assert names(filled, lookup) == expected(lookup)[:25]
            assert page_by_page(filled, replace(lookup, limit=300)) == expected(lookup)

    def test_a_page_ends_anywhere_and_the_next_one_begins_there(self, filled: DatabaseSearch) -> None:
        for wanted in (Wanted("json hub"), Wanted("json-linter", runtime="mcp_http"), Wanted("q")):
            lookup = Lookup(levels(wanted), "relevance", LISTED, 77)
            assert page_by_page(filled, lookup) == expected(lookup)

    def test_only_what_stands_so(self, filled: DatabaseSearch) -> None:
        for standings in ((ACTIVE,), (DEPRECATED,)):
            for words in ("", "git", "0007"):
                lookup = Lookup(levels(Wanted(words)), "relevance", standings, 2 * FEW)
                assert names(filled, lookup) == expected(lookup)

    @pytest.fixture
    def search(self, engine: Engine) -> DatabaseSearch:
        return DatabaseSearch(engine)

    def everything(self, search: DatabaseSearch) -> list[str]:
        return [hit.shown for hit in search.find(Lookup(levels(Wanted("demo")), "name", LISTED, 10))]

    def test_a_newer_row_takes_the_place_of_an_older_one_and_never_the_other_way(
        self, search: DatabaseSearch
    ) -> None:
        first = SearchRow("demo", 2, 2, ACTIVE, 0, ("n:demo", "d:old"), "first")
        search.keep([])
        search.keep([first, replace(first, name="other", shown="other")])
        for older in (replace(first, revision=1, shown="older"), replace(first, made=1, shown="older")):
            search.keep([older])
            assert self.everything(search) == ["first", "other"]
        search.keep([replace(first, lexemes=("n:demo", "d:new"), shown="again")])
        search.keep([replace(first, revision=3, lexemes=("n:demo", "d:new"), shown="newer")])
        assert self.everything(search) == ["newer", "other"]
        for words, found in (("old", ["other"]), ("new", ["demo"])):
            assert names(search, Lookup(levels(Wanted(words)), "relevance", LISTED, 10)) == found
        search.keep([replace(first, revision=4, standing=UNLISTED, lexemes=())])
        assert self.everything(search) == ["other"]
        if search.engine.dialect.name == "sqlite":
            with (
                search.engine.begin() as connection
            ):  # raises if the index of the words is not that of the rows
                connection.execute(text("INSERT INTO search_words (search_words) VALUES ('integrity-check')"))

    def test_plugins_that_come_and_go_move_nothing_that_follows(self, search: DatabaseSearch) -> None:
        rows = [
            SearchRow(f"demo-{number:02}", 1, 1, ACTIVE, 0, ("n:demo",), str(number)) for number in range(30)
        ]
        search.keep(rows[::2])
        lookup = Lookup(levels(Wanted("demo")), "relevance", LISTED, 5)
        first = search.find(lookup)
        search.keep(rows[1::2])
        search.keep([replace(rows[0], revision=2, standing=UNLISTED)])
        rest = page_by_page_after(search, lookup, first[-1].place)
        seen = [hit.place.name for hit in first] + rest
        assert len(seen) == len(set(seen))
        assert {one.name for one in rows[::2]} <= set(seen)

    def test_what_is_behind(self, engine: Engine, search: DatabaseSearch) -> None:
        plugins = {"unseen": 0, "missing": 1, "older": 3, "right": 2, "of-an-older-rule": 1}
        with engine.begin() as connection:
            for name, indexed in plugins.items():
                values = {"name": name, "indexed": indexed}
                connection.execute(text("INSERT INTO plugins VALUES (:name, :name, 9, :indexed)"), values)
        row = SearchRow("right", 2, 5, ACTIVE, 0, ("n:x",), "")
        search.keep([row, replace(row, name="older"), replace(row, name="of-an-older-rule", made=4)])
        assert search.behind(5, 10) == ("missing", "of-an-older-rule", "older")
        assert search.behind(5, 1) == ("missing",)
        assert search.behind(4, 10) == ("missing", "older")


def page_by_page_after(search: DatabaseSearch, lookup: Lookup, place: Place) -> list[str]:
    found: list[str] = []
    after: Place | None = place
    while after is not None:
        hits = search.find(replace(lookup, after=after))
        found += [hit.place.name for hit in hits]
        after = hits[-1].place if hits else None
    return found


class TestQuestion:
    """What `GET /v1/plugins` reads."""

    def test_an_empty_question_asks_for_everything(self) -> None:
        for query in ([], [("q", " "), ("host", "")]):
            lookup = read_search(query).lookup
            assert (lookup.sort, lookup.standings, lookup.limit, lookup.after) == (
                "relevance",
                LISTED,
                20,
                None,
            )
            assert len(lookup.levels) == 1

    @pytest.mark.parametrize(
        ("query", "code"),
        [
            ("query=x", "parameter_unknown"),
            ("q=a&q=b", "parameter_repeated"),
            ("limit=101", "limit_too_large"),
            ("limit=" + "9" * 5000, "limit_too_large"),
            ("limit=0", "parameter_invalid"),
            ("limit=-1", "parameter_invalid"),
            ("limit=٣", "parameter_invalid"),
            ("sort=stars", "parameter_invalid"),
            ("status=removed", "parameter_invalid"),
            ("host=emacs", "host_unknown"),
            ("language=cobol", "language_unknown"),
            ("runtime=mcp", "runtime_unknown"),
            ("q=" + "x" * 201, "search_too_long"),
            ("skill=" + "x" * 201, "search_too_long"),
            ("host=emacs&limit=101", "question_invalid"),
            *(
                (f"cursor={cursor}", "cursor_invalid")
                for cursor in ("x", "é", "W10", "bnVsbA", "MQ", "=", "A" * 3)
            ),
        ],
    )
    def test_what_is_no_question(self, query: str, code: str) -> None:
        with pytest.raises(UsageError) as caught:
            read_search([tuple(part.split("=", 1)) for part in query.split("&")])  # type: ignore[misc]
        assert caught.value.code == code
        assert "q, runtime" in caught.value.hint


def found(registry: RegistryProcess, **question: str) -> list[str]:
    return [plugin["name"] for plugin in answer(registry, **question)["plugins"]]


def answer(registry: RegistryProcess, **question: str) -> Any:
    got = ask(f"{registry.url}v1/plugins?{urlencode(question)}")
    assert got.status == 200, got.body
    return got.json()


def refused(registry: RegistryProcess, **question: str) -> str:
    got = ask(f"{registry.url}v1/plugins?{urlencode(question)}")
    assert got.status == 400, got.body
    return got.code


def test_a_plugin_is_found_by_what_its_latest_version_says(registry: RegistryProcess, author: Author) -> None:
    skill = "---\nname: tidy-tables\ndescription: Tidies tables.\n---\n"
    files = plugin_files("ledger.book", "1.0.0", skills__tidy_tables__SKILL_md="")
    del files["skills/tidy_tables/SKILL_md"]
    manifest = json.loads(files["plugin.json"]) | {"description": "Zählt Erbsen.\nUnd mehr."}
    files |= {"plugin.json": json.dumps(manifest), "skills/tidy-tables/SKILL.md": skill}
    assert author.publish(bundle_of(files), "ledger.book").status == 201
    (row,) = answer(registry, q="ledger")["plugins"]
    assert row.pop("published_at").endswith("Z")
    assert row == {
        "name": "ledger.book",
        "latest": "1.0.0",
        "description": "Zählt Erbsen.",
        "runtimes": ["mcp_stdio"],
        "status": "active",
        "yanked": False,
    }
    for words in ("Ledger-Book", "book", "zahlt", "ERBSEN", "tidy", "dgerb", "mehr ledg"):
        assert found(registry, q=words) == ["ledger.book"], words
    assert found(registry, q="ledger", skill="tidy-tables", host="cursor", runtime="mcp_stdio") == [
        "ledger.book"
    ]
    assert found(registry, q="ledger", skill="tidy") == found(registry, q="ledger", runtime="mcp_http") == []
    assert author.publish(plugin("ledger.book", "2.0.0"), "ledger.book", "2.0.0").status == 201
    assert found(registry, q="erbsen") == found(registry, skill="tidy-tables") == []
    assert answer(registry, q="ledger")["plugins"][0]["latest"] == "2.0.0"


def test_a_plugin_is_found_by_the_tools_that_its_manifest_lists(
    registry: RegistryProcess, author: Author
) -> None:
    manifest = "id: keyed\nversion: 1.0.0\nkind: sidecar\nentry: {command: node, args: [main.js]}\n"
    files: dict[str, bytes | str] = {"plugin.yaml": f"{manifest}provides: {{tools: [transposeKey]}}\n"}
    assert publish_files(author, files, "keyed", kind="keel").status == 201
    assert found(registry, tool="TransposeKey", host="keel") == ["keyed"]
    assert found(registry, q="transpose") == ["keyed"]
    assert found(registry, tool="transpose") == found(registry, tool="transposeKey", host="zed") == []


def test_deprecated_is_lower_and_yanked_is_marked(registry: RegistryProcess, author: Author) -> None:
    for name in ("quokka-a", "quokka-b", "quokka-c"):
        assert author.publish(plugin(name), name).status == 201
    assert author.state("status", "quokka-a", state="deprecated", reason="old").status == 201
    assert author.state("yank", "quokka-b", version="1.0.0", yanked=True, reason="eats data").status == 201
    assert found(registry, q="quokka") == ["quokka-b", "quokka-c", "quokka-a"]
    rows = answer(registry, q="quokka")["plugins"]
    assert [(row["status"], row["yanked"]) for row in rows] == [
        ("active", True),
        ("active", False),
        ("deprecated", False),
    ]
    assert found(registry, q="quokka", status="deprecated") == ["quokka-a"]
    assert found(registry, q="quokka", status="active", sort="name") == ["quokka-b", "quokka-c"]
    assert found(registry, q="quokka-a") == ["quokka-a"]


def test_pages_and_their_cursors(registry: RegistryProcess, author: Author) -> None:
    every = [f"wombat{number}" for number in range(5)]
    for name in every:
        assert author.publish(plugin(name), name).status == 201
    pages, cursor = [], ""
    while True:
        page = answer(registry, q="wombat", limit="2", **({"cursor": cursor} if cursor else {}))
        pages.append([row["name"] for row in page["plugins"]])
        if "next" not in page:
            break
        cursor = page["next"]
    assert pages == [every[:2], every[2:4], every[4:]]
    assert found(registry, q="wombat", limit="3", cursor=cursor) == every[4:]
    assert refused(registry, q="wombats", cursor=cursor) == "cursor_invalid"
    assert refused(registry, q="wombat", sort="name", cursor=cursor) == "cursor_invalid"
    assert refused(registry, q="wombat", cursor=cursor[:-2]) == "cursor_invalid"
    assert refused(registry, q="wombat", limit="101") == "limit_too_large"
    newest = found(registry, q="wombat", sort="updated")
    assert sorted(newest) == every


def test_the_api_says_what_can_be_asked(registry: RegistryProcess) -> None:
    described = ask(f"{registry.url}openapi.json").json()["paths"]["/v1/plugins"]["get"]["parameters"]
    by_name = {one["name"]: one["schema"] for one in described}
    assert by_name["limit"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    assert "cursor" in by_name["host"]["enum"]
    assert by_name["sort"]["default"] == "relevance"


def test_what_is_in_quarantine_or_removed_is_not_found(tmp_path: Path) -> None:
    admin = Author("", "")
    with running(
        tmp_path / "registry", environment={"PLUGREG_REGISTRY_ADMINS": f"key:{admin.key.id}"}
    ) as registry:
        author, admin = (
            Author(registry.url, registry.id),
            Author(registry.url, registry.id, admin.key),
        )
        for name in ("kept", "held", "gone"):
            assert author.publish(plugin(name), name).status == 201
        assert admin.state("status", "held", state="quarantined", reason="looked at").status == 201
        assert admin.state("status", "gone", state="removed", reason="spam").status == 201
        assert found(registry) == ["kept"]
        assert admin.state("status", "held", state="active", reason="clean").status == 201
        assert found(registry) == ["held", "kept"]


def test_a_registry_from_before_gets_its_rows_while_it_serves(tmp_path: Path) -> None:
    settings = read_settings({}, str(tmp_path / "data"))
    author = Author("", prepare(settings).ref.id)
    registry = compose(settings)
    try:
        for name in ("one", "two"):
            publish(registry.services.publishing, author, name)
        finder, everything = registry.services.finder, read_search([])
        assert [row.name for row in finder.page(everything).plugins] == ["one", "two"]
        engine = open_database(settings.database)
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM search"))
        engine.dispose()
        assert finder.page(everything).plugins == ()
        assert (finder.round(), finder.round()) == (2, 0)
        assert [row.name for row in finder.page(everything).plugins] == ["one", "two"]
    finally:
        registry.close()
