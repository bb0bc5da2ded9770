"""Write the converted plugin into a new folder, whole or not at all, and check it.

files of the source     copied, those of a skill into `skills/<its name>/`
plugin.json, mcp.json   made from the draft
left out                version control, what became part of the two, what looks like a secret
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg.check import check
from plugreg.convert.identity import manifest_of
from plugreg.convert.sources import as_json, draft_of, listed_folders
from plugreg.new_folder import new_folder
from plugreg_schemas import acceptance, formats
from plugreg_schemas.bundle.paths import left_out
from plugreg_schemas.errors import Conflict, InvalidInput, NotAvailable, Severity
from plugreg_schemas.formats import detection, mcp, near_miss, skills
from plugreg_schemas.names import quoted
from plugreg_schemas.tree import DirectoryTree, MemoryTree, PathEscapesError, locate, read, walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg.check import Checked
    from plugreg.convert.draft import Draft
    from plugreg_schemas.errors import Finding
    from plugreg_schemas.formats.near_miss import NearMiss
    from plugreg_schemas.tree import Tree

SUFFIX: Final = "-agent-plugin"
"""What the new folder is called after the old one."""
MCP_SCHEMA: Final = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"

_SKILL_NAME: Final = re.compile(
    rb"\A---[ \t]*\r?\n(?:(?!---).*\n)*?name:[ \t]*[\"']?([a-z0-9-]{1,64})[\"']?[ \t]*\r?\n"
)
_SLUG: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Converted:
    """A package that was written. `losses` are places of the source; `checked` is what `check` says now."""

    source: NearMiss
    path: Path
    files: int
    losses: tuple[Finding, ...]
    checked: Checked

    def as_dict(self) -> dict[str, object]:
        """Return what `plugreg convert --json` prints."""
        return {
            "path": str(self.path),
            "from": {"kind": self.source.kind, "file": self.source.file},
            "files": self.files,
            "losses": [finding.as_dict() for finding in self.losses],
            "check": self.checked.as_dict(),
        }


def convert(folder: Path, output: Path | None = None, name: str = "") -> Converted:
    """Make an Agent Plugins package of a folder, in the new folder `output` (default: beside the old one).

    Raises:
        NotAvailable: `path_not_found`, `nothing_recognised`.
        Conflict: `format_known` (there is nothing to convert), `folder_not_empty`.
        InvalidInput: `marketplace`, `nothing_to_convert`, `source_invalid`, `name_invalid`, or a fault of the
            source's JSON.
    """
    folder = folder.resolve()
    tree = DirectoryTree(folder)
    source = _source(folder, tree)
    draft = draft_of(tree, source)
    manifest = manifest_of(draft, source.file, folder.name, name)
    placed = _placed(tree, draft, source)
    _keep_what_loads(manifest, draft)
    _require_something(draft, source)
    copies = _copies(tree, draft, placed)
    target = (output or folder.with_name(folder.name + SUFFIX)).absolute()
    made = {"plugin.json": as_json(manifest)}
    if draft.servers:
        made[mcp.FILE] = as_json({"$schema": MCP_SCHEMA, "mcpServers": draft.servers})
    _write(folder, target, copies, made)
    return Converted(source, target, len(copies) + len(made), tuple(draft.losses), check(target))


def _source(folder: Path, tree: Tree) -> NearMiss:
    if not folder.is_dir():
        raise NotAvailable("path_not_found", f"there is no folder `{folder}`")
    announced = detection.announcements(tree)
    if announced:
        message = f"`{folder}` is a plugin of a format that plugreg reads: {', '.join(announced)}"
        raise Conflict("format_known", message, hint=f"`plugreg check {folder}` says what is wrong with it")
    source = near_miss.recognise(tree)
    if source is None:
        message = f"`{folder}` holds nothing that plugreg knows how to convert"
        raise NotAvailable("nothing_recognised", message, hint="`plugreg init` starts a new plugin")
    if source.kind == "marketplace":
        message = f"{quoted(source.file)} is {source.what}, not a plugin"
        here = [f"`plugreg convert {folder / path}`" for path in listed_folders(tree, source.file)]
        raise InvalidInput("marketplace", message, hint=f"run {', '.join(here)}" if here else source.advice)
    return source


def _placed(tree: Tree, draft: Draft, source: NearMiss) -> dict[str, str]:
    """Return where each skill's folder goes: a skill is named after its folder, so the name decides."""
    placed: dict[str, str] = {}
    for directory, path in draft.skills.items():
        file = f"{path}/{skills.FILE}" if path else skills.FILE
        stated = _stated_name(tree, file)
        called = stated or directory or "skill"
        target = f"{skills.FOLDER}/{called}"
        if target in placed.values():
            draft.lose("skill_repeated", f"a second skill is called {quoted(called)}; it is left out", file)
            continue
        if directory and called != directory:
            message = f"the folder of the skill {quoted(called)} is named after it now"
            draft.note("skill_renamed", message, file, "name")
        placed[path] = target
    if source.kind == "skill":
        draft.taken.discard(source.file)
    return placed


def _stated_name(tree: Tree, file: str) -> str:
    try:
        where, _ = locate(tree, file)
        found = _SKILL_NAME.match(read(tree, where, skills.MAX_FRONT_MATTER * 32))
    except (OSError, InvalidInput):
        return ""
    name = found[1].decode() if found else ""
    return name if _SLUG.fullmatch(name) else ""


def _keep_what_loads(manifest: dict[str, Any], draft: Draft) -> None:
    """Leave out the servers that the format's own reader would skip, with its reasons."""
    document = as_json({"$schema": MCP_SCHEMA, "mcpServers": draft.servers})
    reading = formats.read(MemoryTree.of({"plugin.json": as_json(manifest), mcp.FILE: document}))
    places = {found.name: found for found in draft.found}
    for verdict in reading.servers:
        if verdict.verdict == "skip":
            del draft.servers[verdict.name]
            place = places[verdict.name]
            prefix = f"server {quoted(verdict.name)}: "
            reasons = [
                f.message.removeprefix(prefix) for f in reading.findings if f.message.startswith(prefix)
            ]
            message = f"server {quoted(verdict.name)} is left out: {'; '.join(reasons)}"
            draft.lose("server_invalid", message, place.file, *place.steps)


def _require_something(draft: Draft, source: NearMiss) -> None:
    if draft.servers or draft.skills or (draft.declares_skills and not draft.found):
        return
    if draft.found or any(f.severity is Severity.WARNING and "server" in f.code for f in draft.losses):
        message = f"no server of {quoted(source.file)} has a form in Agent Plugins"
    else:
        message = f"{quoted(source.file)} declares no server and no skill that could be taken over"
    raise InvalidInput(
        "nothing_to_convert", message, hint="the findings say what stood in the way", findings=draft.losses
    )


def _copies(tree: Tree, draft: Draft, placed: dict[str, str]) -> dict[str, str]:
    """Return the files to copy: the path of each in the source and in the new folder."""
    copies: dict[str, str] = {}
    for path in _files(tree, draft):
        target = _target(path, placed)
        if target in {"plugin.json", mcp.FILE} or path in draft.taken:
            if path not in draft.taken:
                draft.lose("file_replaced", f"{quoted(path)} is replaced by the one that was made", path)
            continue
        if acceptance.sensitive(path):
            draft.lose("sensitive_file", f"{quoted(path)} usually holds a secret and is not copied", path)
            continue
        copies[path] = target
    return copies


def _files(tree: Tree, draft: Draft) -> Iterator[str]:
    for path, node in walk(tree):
        if any(left_out(part) for part in path.split("/")):
            continue
        if node.kind == "link":
            try:
                _, end = locate(tree, path)
            except PathEscapesError:
                end = None
            if end is None:
                draft.lose("link_dropped", f"{quoted(path)} is a link that leads nowhere in the plugin", path)
                continue
        elif node.kind != "file":
            draft.lose("file_dropped", f"{quoted(path)} is neither a file nor a folder", path)
            continue
        yield path


def _target(path: str, placed: dict[str, str]) -> str:
    for source, target in sorted(placed.items(), key=lambda item: -len(item[0])):
        if not source or path.startswith(f"{source}/"):
            return f"{target}/{path.removeprefix(source).removeprefix('/')}"
    return path


def _write(folder: Path, target: Path, copies: dict[str, str], made: dict[str, str]) -> None:
    """Write the new package, as a whole or not at all."""
    with new_folder(target, hint="name a new folder with `-o`") as staged:
        for source, name in copies.items():
            copy = staged / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / source, copy, follow_symlinks=source != name)
        for name, text in made.items():
            (staged / name).write_text(text, encoding="utf-8")
