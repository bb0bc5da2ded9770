"""Agent Skills: each directory of `skills/` that holds a file named exactly `SKILL.md`.

    skills/<name>/SKILL.md   ---         YAML front matter: `name` (that of the directory) and `description`,
                             name: ...   perhaps `license`, `compatibility`, `metadata`, `allowed-tools`
                             ---         then Markdown, which is not looked at

A fault of `name` or `description` skips the skill; other fields are only warned about: hosts load it.
Nothing below a skill's directory is a skill.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import parse_yaml, pointer_to
from plugreg_schemas.errors import Boundary, Collector, InvalidInput, Severity
from plugreg_schemas.formats.files import Misfit, collected, content, find, follow, shown
from plugreg_schemas.manifest import Skill, Verdict
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.errors import Finding
    from plugreg_schemas.tree import Tree

FOLDER: Final = "skills"
FILE: Final = "SKILL.md"

MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
"""Characters (Agent Skills specification)."""
MAX_FRONT_MATTER: Final = 32 * 1024
MAX_ALL_FRONT_MATTER: Final = 1024 * 1024
"""Bytes of YAML of one skill and of all skills of a plugin, because YAML costs up to 3 s for each MiB."""

_FRONT_MATTER: Final = re.compile(rb"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KNOWN: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})


@dataclass(frozen=True, slots=True)
class Skills:
    """What `skills/` gives: a verdict for each skill that was found, and those that load."""

    verdicts: tuple[Verdict, ...] = ()
    skills: tuple[Skill, ...] = ()
    findings: tuple[Finding, ...] = ()


def read(tree: Tree) -> Skills:
    """Find and read the skills of a plugin."""
    faults = Collector("skill_invalid", "a skill is not valid")
    folder = find(tree, "", FOLDER, "directory")
    if folder is None:
        return Skills()
    if isinstance(folder, Misfit):
        faults.add("component_invalid", folder.message, boundary=Boundary.COMPONENT, file=FOLDER)
        return Skills(findings=collected(faults, FOLDER))
    reader = _Reader(tree, faults)
    verdicts: list[Verdict] = []
    loaded: list[Skill] = []
    for name in tree.children(folder):
        where = reader.where(f"{folder}/{name}", name)
        if where is not None:
            skill = reader.skill(where, name)
            verdicts.append(Verdict(shown(name), "load" if skill else "skip"))
            loaded += [skill] if skill else []
    return Skills(tuple(verdicts), tuple(loaded), collected(faults, FOLDER))


@dataclass(slots=True)
class _Reader:
    tree: Tree
    faults: Collector
    spent: int = 0

    def where(self, path: str, name: str) -> str | Misfit | None:
        """Return where the `SKILL.md` of a child of `skills/` lies; None where that child is not a skill."""
        folder = follow(self.tree, path, "directory")
        if isinstance(folder, Misfit):
            return folder if folder.reason == "escape" else None
        found = find(self.tree, folder, FILE, "file")
        if found is None:
            self._warn_of_spelling(folder, name)
        return found

    def skill(self, where: str | Misfit, name: str) -> Skill | None:
        """Read one skill; None where a fault skips it."""
        report = _Report(f"{FOLDER}/{shown(name)}/{FILE}", self.faults)
        document = content(self.tree, where) if isinstance(where, str) else where
        matter = self._front_matter(document, report)
        if matter is None:
            return None
        _examine(matter, name, report)
        return None if report.refused else Skill(name, f"{FOLDER}/{name}", matter["description"])

    def _front_matter(self, document: bytes | Misfit, report: _Report) -> Mapping[str, Any] | None:
        if isinstance(document, Misfit):
            report.refuse(document.message)
            return None
        found = _FRONT_MATTER.match(document)
        if not found:
            report.refuse(f"`{FILE}` must begin with front matter: a line `---`, YAML, a line `---`")
            return None
        return self._parsed(found[1], report)

    def _parsed(self, matter: bytes, report: _Report) -> Mapping[str, Any] | None:
        self.spent += len(matter)
        if len(matter) > MAX_FRONT_MATTER or self.spent > MAX_ALL_FRONT_MATTER:
            report.refuse(
                f"the front matter has over {MAX_FRONT_MATTER} bytes, or that of all skills too many"
            )
            return None
        try:
            value = parse_yaml(matter, report.file, first_line=2)
        except InvalidInput as error:
            report.refuse(
                "the front matter is not YAML that plugreg accepts; text with a colon must be quoted"
            )
            self.faults.extend(replace(finding, boundary=Boundary.ENTRY) for finding in error.findings)
            return None
        if not isinstance(value, dict):
            report.refuse("the front matter must be a mapping with `name` and `description`")
            return None
        return value

    def _warn_of_spelling(self, where: str, name: str) -> None:
        near = [child for child in self.tree.children(where) if child.lower() == FILE.lower()]
        if near:
            message = f"{quoted(near[0])} is not a skill's file: the name is exactly `{FILE}`"
            _Report(f"{FOLDER}/{shown(name)}/{shown(near[0])}", self.faults).warn("skill_file_name", message)


@dataclass(slots=True)
class _Report:
    file: str
    faults: Collector
    refused: bool = False

    def refuse(self, message: str, *steps: str) -> None:
        self.refused = True
        where = pointer_to(*steps)
        self.faults.add("skill_invalid", message, boundary=Boundary.ENTRY, file=self.file, pointer=where)

    def warn(self, code: str, message: str, *steps: str) -> None:
        self.faults.add(
            code,
            message,
            severity=Severity.WARNING,
            boundary=Boundary.ENTRY,
            file=self.file,
            pointer=pointer_to(*steps),
        )


def _examine(matter: Mapping[str, Any], directory: str, report: _Report) -> None:
    name = matter.get("name")
    if not isinstance(name, str) or not name:
        report.refuse("`name` is missing or is not text", *(["name"] if "name" in matter else []))
    elif len(name) > MAX_NAME or not _NAME.fullmatch(name):
        report.refuse(
            f"`name` must be 1-{MAX_NAME} of a-z 0-9 -, without a hyphen at an end or two in a row", "name"
        )
    elif name != directory:
        report.refuse(
            f"`name` is {quoted(name)}, its directory is {quoted(directory)}: they must be equal", "name"
        )
    description = matter.get("description")
    if not isinstance(description, str) or not description.strip():
        report.refuse(
            "`description` is missing or is not text", *(["description"] if "description" in matter else [])
        )
    elif len(description) > MAX_DESCRIPTION:
        message = f"`description` has {len(description)} characters, at most {MAX_DESCRIPTION} are allowed"
        report.refuse(message, "description")
    _warn_of_optional(matter, report)


def _warn_of_optional(matter: Mapping[str, Any], report: _Report) -> None:
    for key in ("license", "allowed-tools", "compatibility"):
        if key in matter and not isinstance(matter[key], str):
            report.warn("skill_field_invalid", f"`{key}` should be text", key)
    compatibility = matter.get("compatibility")
    if isinstance(compatibility, str) and not 1 <= len(compatibility) <= MAX_COMPATIBILITY:
        message = f"`compatibility` should have 1-{MAX_COMPATIBILITY} characters"
        report.warn("skill_field_invalid", message, "compatibility")
    metadata = matter.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(item, str) for item in metadata.values()):
        report.warn("skill_field_invalid", "`metadata` should map texts to texts; quote numbers", "metadata")
    for key in matter:
        if key not in _KNOWN:
            report.warn("unknown_field_ignored", f"the field {quoted(key)} is not one of Agent Skills", key)
