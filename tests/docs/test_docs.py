"""The documents say what is there: their links, commands, codes, settings and module tables are compared with it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from plugreg.cli.parser import build_parser
from plugreg_registry.settings import unknown_settings
from plugreg_schemas.errors import PlugregError

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
    *sorted((ROOT / "infra").glob("*.md")),
]
PACKAGES = {
    "plugreg_schemas": ROOT / "schemas/plugreg_schemas",
    "plugreg": ROOT / "client/plugreg",
    "plugreg_registry": ROOT / "registry/plugreg_registry",
}

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>\S*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
WORD = re.compile(r"`(?P<word>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
VARIABLE = re.compile(r"\bPLUGREG_[A-Z][A-Z_]*[A-Z]\b")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(document: Path) -> str:
    return FENCE.sub("", document.read_text("utf-8"))


def anchors(document: Path) -> set[str]:
    """The anchors that the usual viewers make of headings."""
    headings = (found["text"].replace("`", "") for found in HEADING.finditer(prose(document)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def sources() -> str:
    files = [
        path for package in PACKAGES.values() for end in ("*.py", "*.json") for path in package.rglob(end)
    ]
    return "\n".join(path.read_text("utf-8") for path in sorted(files))


@cache
def source_words() -> frozenset[str]:
    modules = (path.stem for package in PACKAGES.values() for path in package.rglob("*.py"))
    return frozenset(re.findall(r"\w+", sources())) | frozenset(modules)


def commands() -> list[tuple[str, str]]:
    """Every `$ plugreg ...` line of a block marked `console`, with its document."""
    return [
        (name_of(document), line.strip().removeprefix("$ "))
        for document in DOCUMENTS
        for block in FENCE.finditer(document.read_text("utf-8"))
        if block["kind"] == "console"
        for line in block["body"].splitlines()
        if line.strip().startswith("$ plugreg ")
    ]


def codes_of(document: Path) -> list[str]:
    """What stands in the column `code` of the document's tables and looks like an error's code."""
    found: list[str] = []
    column: int | None = None
    for line in prose(document).splitlines():
        if not line.startswith("|"):
            column = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if "code" in cells:
            column = cells.index("code")
        elif column is not None:
            found += re.findall(r"`([a-z][a-z0-9_]*)`", cells[column])
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    for target in (found["target"] for found in LINK.finditer(prose(document))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        where = (document.parent / path).resolve() if path else document
        assert where.exists(), f"{name_of(document)} links to {target}, which is not there"
        assert where.is_relative_to(ROOT), f"{name_of(document)} links out of the repository: {target}"
        assert not anchor or anchor in anchors(where), (
            f"{name_of(document)} links to {target}: no such heading"
        )


def test_help_texts_in_the_documents_are_those_of_the_programs() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs/help_blocks.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("document", "command"), commands())
def test_every_command_in_the_documents_is_one_that_the_parser_takes(document: str, command: str) -> None:
    try:
        build_parser().parse_args(shlex.split(command, comments=True)[1:])
    except (SystemExit, PlugregError) as refusal:
        pytest.fail(f"{document}: `{command}` is not a command: {refusal}")


def test_the_readme_shows_commands() -> None:
    assert any(document == "README.md" for document, _ in commands())


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_code_in_a_table_is_one_that_the_sources_raise(document: Path) -> None:
    unknown = [code for code in codes_of(document) if f'"{code}"' not in sources()]
    assert not unknown, f"{name_of(document)} has codes that nothing raises: {unknown}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_word_with_an_underscore_stands_in_the_sources(document: Path) -> None:
    words = {found["word"] for found in WORD.finditer(prose(document))}
    unknown = sorted(words - source_words())
    assert not unknown, f"{name_of(document)} has words that no source has: {unknown}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_variable_is_a_setting(document: Path) -> None:
    found = set(VARIABLE.findall(document.read_text("utf-8")))
    of_registry = {name for name in found if name.startswith("PLUGREG_REGISTRY_")}
    misspelt = unknown_settings(dict.fromkeys(of_registry, ""))
    assert not misspelt, f"{name_of(document)} has settings that the registry does not know: {misspelt}"
    spelled = {name for name in found - of_registry if not re.search(rf"\b{name}\b", sources())}
    assert not spelled, f"{name_of(document)} has variables that nothing reads: {sorted(spelled)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_names_every_module_and_no_other(package: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    found = re.search(rf"^### {package}: .*?\n(?P<table>.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/architecture.md has no section for {package}"
    rows = [line.split("|")[1:3] for line in found["table"].splitlines() if line.startswith("| `")]
    named = {name for first, _ in rows for name in re.findall(r"`(\w+)`", first)}
    everywhere = {name for row in rows for cell in row for name in re.findall(r"`(\w+)`", cell)}
    folder = PACKAGES[package]
    there = {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}
    there |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert named <= there, f"docs/architecture.md names modules that are not there: {sorted(named - there)}"
    assert there <= everywhere, f"docs/architecture.md does not name: {sorted(there - everywhere)}"


def test_the_walks_of_the_architecture_name_functions_that_are_there() -> None:
    """Such as `publish.prepare` or `Remote.upload`: both halves are a name in the sources."""
    text = prose(ROOT / "docs/architecture.md")
    pairs = {pair for pair in re.findall(r"`(?:\w+/)*(\w+)\.(\w+)`", text) if pair[1] not in {"py", "toml"}}
    defined = set(re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", sources(), re.MULTILINE))
    known = source_words()
    unknown = sorted(f"{owner}.{name}" for owner, name in pairs if owner not in known or name not in defined)
    assert not unknown, f"docs/architecture.md names what is not there: {unknown}"
