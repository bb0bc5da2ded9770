"""`plugreg search`: which plugins there are, in all known registries.

    the registry is asked > its answer is a claim that nobody signed
    or the signed list of plugins is read (`--signed`, `--offline`, `file://`, no answer) > searched here

Both find by the same rule (`plugreg_schemas.search`). The list has names, descriptions and runtimes only, so
what it cannot answer is refused. Nothing is installed by this: `info` and `install` prove what they show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg.link import LINK_CODES
from plugreg_schemas.errors import (
    InvalidInput,
    NotAllowed,
    NotAvailable,
    PlugregError,
    Temporary,
    UsageError,
)
from plugreg_schemas.search import FACETS, Subject, Wanted, levels, lexemes, rank, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from plugreg.remote import Remote
    from plugreg_schemas.api import RegistryRef
    from plugreg_schemas.listing import Listed

MOST: Final = 1000
"""Plugins of one registry that are shown at most."""
_PAGE: Final = 100
_LISTED_FACETS: Final = ("runtime",)
"""What the signed list says of a plugin."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for. `signed`: only what the registry has signed is searched."""

    wanted: Wanted
    sort: str = "relevance"
    limit: int = 20
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What one registry has: rows in order, whether there are more, and whether they were proved."""

    registry: RegistryRef
    rows: tuple[Listed, ...]
    more: bool
    signed: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """What all registries have, and which did not answer, by URL."""

    answers: tuple[Answer, ...]
    silent: tuple[tuple[str, PlugregError], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return what `plugreg search --json` prints."""
        return {
            "plugins": [
                {
                    **row.model_dump(mode="json"),
                    "registry": answer.registry.model_dump(),
                    "signed": answer.signed,
                }
                for answer in self.answers
                for row in answer.rows
            ],
            "more": any(answer.more for answer in self.answers),
            "silent": [
                {"url": url, "code": error.code, "message": error.message} for url, error in self.silent
            ],
        }


def question_of(words: str, facets: dict[str, str], sort: str, limit: int, *, signed: bool) -> Question:
    """Return the question that the words of a command make.

    Raises:
        UsageError: `search_too_long`, `runtime_unknown`, `language_unknown`, `host_unknown`,
            `setting_invalid`.
    """
    if not 1 <= limit <= MOST:
        raise UsageError("setting_invalid", f"`--limit` is {limit}", hint=f"write a number from 1 to {MOST}")
    given = {facet: spelled(facet, value.strip()) for facet, value in facets.items() if value.strip()}
    wanted = Wanted(words.strip(), **given)
    levels(wanted)
    return Question(wanted, sort, limit, signed)


def search(remotes: Sequence[Remote], question: Question, say: Callable[[str], None]) -> Findings:
    """Ask all registries. One that does not answer is said; of several with one id the first answers.

    Raises:
        IntegrityError: what a registry has signed is not what it offers.
        PlugregError: no registry answers; it is the error of the first.
    """
    answers: dict[str, Answer] = {}
    silent: list[tuple[str, PlugregError]] = []
    for remote in remotes:
        try:
            registry = remote.ref
            if registry.id not in answers:
                answers[registry.id] = _answer(remote, registry, question, say)
        except (InvalidInput, NotAllowed, NotAvailable, Temporary) as error:
            silent.append((remote.url, error))
    if silent and not answers:
        raise silent[0][1]
    for url, reason in silent:
        say(f"warning: {url} does not answer: {reason.message}")
    return Findings(tuple(answers.values()), tuple(silent))


def _answer(remote: Remote, registry: RegistryRef, question: Question, say: Callable[[str], None]) -> Answer:
    """Ask a registry, or search its signed list if that is wanted, or if nothing there answers."""
    if question.signed or not remote.can_be_asked:
        return _listed(remote, registry, question)
    try:
        rows = tuple(_asked(remote, question))
    except (NotAvailable, Temporary) as error:
        if error.code in LINK_CODES:
            raise
        say(f"note: {remote.url} answers no questions, so its signed list is searched")
        return _listed(remote, registry, question)
    return Answer(registry, rows[: question.limit], len(rows) > question.limit, signed=False)


def _asked(remote: Remote, question: Question) -> Iterator[Listed]:
    """Yield what a registry finds, at most one row more than is wanted."""
    facets = {facet: getattr(question.wanted, facet) for facet in FACETS}
    words = {"q": question.wanted.text, **facets, "sort": question.sort}
    left, cursor = question.limit + 1, ""
    while left > 0:
        parameters = {**words, "limit": str(min(left, _PAGE)), "cursor": cursor}
        page = remote.search({key: value for key, value in parameters.items() if value})
        yield from page.plugins[:left]
        left -= len(page.plugins)
        cursor = page.next or ""
        if not cursor or not page.plugins:
            return


def _listed(remote: Remote, registry: RegistryRef, question: Question) -> Answer:
    """Search the signed list of a registry.

    Raises:
        NotAvailable: `search_not_listed`; PlugregError: as `Reader.listing`.
    """
    asked = [facet for facet in FACETS if getattr(question.wanted, facet) and facet not in _LISTED_FACETS]
    asked += ["sort"] * (question.sort == "updated")
    if asked:
        raise NotAvailable(
            "search_not_listed",
            f"the signed list of {remote.url} does not say what `--{asked[0]}` asks for",
            hint="leave it out, or ask a registry that answers questions",
        )
    wanted = levels(question.wanted)
    found = []
    for row in _listing(remote):
        level = rank(_lexemes(row), wanted)
        if level is not None:
            order = (level, row.status == "deprecated", row.name)
            found.append((order if question.sort == "relevance" else (row.name,), row))
    found.sort(key=lambda one: one[0])
    rows = tuple(row for _, row in found)
    return Answer(registry, rows[: question.limit], len(rows) > question.limit, signed=True)


def _listing(remote: Remote) -> tuple[Listed, ...]:
    try:
        return remote.listing()
    except NotAvailable as error:
        if error.code != "offline":
            raise
        hint = "run `plugreg search --signed` once without `--offline`: what it reads is kept"
        raise NotAvailable(error.code, error.message, hint=hint) from None


def _lexemes(row: Listed) -> frozenset[str]:
    return frozenset(lexemes(Subject(row.name, row.description, runtimes=row.runtimes)))
