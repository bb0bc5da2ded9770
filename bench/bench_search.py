"""A search among 1,000, 10,000 and 100,000 plugins, on SQLite and on PostgreSQL.

The rows are written through the adapter, as the publisher of the index writes them. Each question is asked as
the API asks: one page of 20, and one more to know whether more follow. The slope is how often as long it
takes among a hundred times as many plugins; what a row costs to write stands beside it.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import text
from tests.support.postgres import INSTALLED, NEWEST, PostgresServer

from plugreg_registry.metadata.database import open_database
from plugreg_registry.metadata.migrate import upgrade
from plugreg_registry.metadata.search import DatabaseSearch
from plugreg_registry.records import ACTIVE, DEPRECATED, Lookup, SearchRow
from plugreg_schemas.search import Subject, Wanted, levels, lexemes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Engine

    from plugreg_registry.records import SearchSort

SIZES = (1_000, 10_000, 100_000)
BATCH = 500
ROUNDS = 15
PAGE = 21
WANTED_MS = 50
WANTED_SLOPE = 10
"""Where a question costs less than `LITTLE_MS` among 100,000, no slope is looked at."""
LITTLE_MS = 5

KINDS = ("json", "git", "pdf", "sql", "web", "mail", "test", "code", "image", "cloud")
JOBS = ("linter", "reader", "tools", "search", "server", "bridge", "format", "notes", "graph", "agent")

QUESTIONS: dict[str, tuple[Wanted, SearchSort]] = {
    "everything": (Wanted(), "relevance"),
    "everything, the newest first": (Wanted(), "updated"),
    "a name": (Wanted("pdf-reader-00017"), "relevance"),
    "a rare word": (Wanted("rare00017"), "relevance"),
    "two words": (Wanted("git linter"), "relevance"),
    "the beginning of a word": (Wanted("js"), "relevance"),
    "one letter": (Wanted("s"), "relevance"),
    "a word of every description": (Wanted("plugin"), "relevance"),
    "inside names": (Wanted("eader"), "relevance"),
    "nothing": (Wanted("zzzzzz"), "relevance"),
    "a word, for a host": (Wanted("notes", host="chatgpt"), "relevance"),
    "for a host, the newest first": (Wanted(host="chatgpt"), "updated"),
    "a skill": (Wanted(skill="skill-17"), "name"),
}


def row_of(number: int, chance: random.Random) -> SearchRow:
    """Return the row of a plugin of a usual kind."""
    name = f"{chance.choice(KINDS)}-{chance.choice(JOBS)}-{number:05}"
    other = f"{chance.choice(JOBS)} {chance.choice(KINDS)}"
    hosts = ("cursor", "claude-code", "vscode", *(("chatgpt", "claude-ai") if number % 5 == 0 else ()))
    subject = Subject(
        name=name,
        description=f"A plugin that brings {other} to agents, with rare{number:05} words of its own.",
        components=("main",),
        skills=(f"skill-{number % 5000}",),
        runtimes=("mcp_http",) if number % 5 == 0 else ("mcp_stdio",),
        languages=("python", "typescript", "go", "rust", "java", "csharp"),
        hosts=hosts,
    )
    standing = DEPRECATED if number % 20 == 0 else ACTIVE
    return SearchRow(name, 1, 1, standing, -number, lexemes(subject), '{"name":"' + name + '"}' + " " * 300)


def fill(engine: Engine, first: int, last: int) -> float:
    """Write rows, and return the milliseconds that one took."""
    search, chance = DatabaseSearch(engine), random.Random(first)
    rows = [row_of(number, chance) for number in range(first, last)]
    begun = time.perf_counter()
    for at in range(0, len(rows), BATCH):
        search.keep(rows[at : at + BATCH])
    taken = (time.perf_counter() - begun) * 1000 / len(rows)
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE search"))  # as autovacuum does by and by
    return taken


def ask(engine: Engine, wanted: Wanted, sort: SearchSort) -> tuple[float, int]:
    """Return the milliseconds that a question takes, the median of some rounds, and how much is found."""
    search, found = DatabaseSearch(engine), 0
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        conditions = levels(wanted)
        conditions = conditions if sort == "relevance" else conditions[-1:]
        lookup = Lookup(conditions, sort, (ACTIVE, DEPRECATED), PAGE)
        hits = search.find(lookup)
        if hits and len(hits) == PAGE:
            found = len(search.find(replace(lookup, after=hits[-1].place))) + PAGE
        taken.append((time.perf_counter() - begun) * 500 if len(hits) == PAGE else _since(begun))
        found = found or len(hits)
    return statistics.median(taken), found


def _since(begun: float) -> float:
    return (time.perf_counter() - begun) * 1000


def measure(name: str, engine: Engine) -> bool:
    """Fill a database step by step, ask everything at every step, and print what it costs."""
    costs: dict[str, list[float]] = {question: [] for question in QUESTIONS}
    writes = []
    for before, size in zip((0, *SIZES), SIZES, strict=False):
        writes.append(fill(engine, before, size))
        for question, (wanted, sort) in QUESTIONS.items():
            costs[question].append(ask(engine, wanted, sort)[0])
    heads = " ".join(f"{size:>9,}" for size in SIZES)
    print(f"{name + ', ms':42} {heads}   slope")
    good = [_line(question, found) for question, found in costs.items()]
    _line("one row more", writes)
    return all(good)


def _line(what: str, costs: Sequence[float]) -> bool:
    slope = costs[-1] / costs[0]
    flat = costs[-1] <= LITTLE_MS or (slope <= WANTED_SLOPE and costs[-1] <= WANTED_MS)
    numbers = " ".join(f"{cost:9.2f}" for cost in costs)
    print(f"  {what:40} {numbers} {slope:7.1f}{'' if flat else '   NOT FLAT'}", flush=True)
    return flat


@contextmanager
def sqlite() -> Iterator[Engine]:
    """Yield an empty database in a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "registry.sqlite3"
        upgrade(file)
        engine = open_database(file)
        yield engine
        engine.dispose()


@contextmanager
def postgres() -> Iterator[Engine]:
    """Yield an empty database on a server."""
    with PostgresServer(INSTALLED[NEWEST]) as server:
        engine = open_database(server.create(server.migrated))
        yield engine
        engine.dispose()


def main() -> int:
    """Measure both; 1 if a question costs more where there are more plugins."""
    print(f"A search, a page of {PAGE - 1} and the one after it, among so many plugins; and what a row costs")
    good = True
    for name, opened in (("SQLite", sqlite), ("PostgreSQL", postgres)):
        with opened() as engine:
            good = measure(name, engine) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
