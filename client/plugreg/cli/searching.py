"""The command for looking around: search."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from plugreg import config
from plugreg.registries import Registries

if TYPE_CHECKING:
    import argparse

    from plugreg.console import Console
    from plugreg_schemas.listing import Listed


def search(args: argparse.Namespace, console: Console) -> int:
    """Run `plugreg search`."""
    from plugreg import search as searching
    from plugreg_schemas.search import FACETS

    facets = {facet: getattr(args, facet) for facet in FACETS}
    question = searching.question_of(" ".join(args.words), facets, args.sort, args.limit, signed=args.signed)
    settings = config.of_command(args, os.environ)
    found = searching.search(Registries(settings, console.note).remotes(), question, console.note)
    several = len(found.answers) > 1
    rows = [
        (row.name, _version(row), *((answer.registry.name or answer.registry.url,) * several), _line(row))
        for answer in found.answers
        for row in answer.rows
    ]
    if rows:
        console.table(rows, ("NAME", "LATEST", *(("REGISTRY",) * several), "DESCRIPTION"))
    else:
        console.note("nothing was found")
    if any(answer.more for answer in found.answers):
        console.note("there is more: add a word, or raise `--limit`")
    console.result(found.as_dict())
    return 0


def _version(row: Listed) -> str:
    marks = {"deprecated": row.status == "deprecated", "yanked": getattr(row, "yanked", False)}
    shown = ", ".join(mark for mark, holds in marks.items() if holds)
    return f"{row.latest} ({shown})" if shown else row.latest


def _line(row: Listed) -> str:
    from plugreg_schemas.listing import one_line

    return one_line(row.description)
