"""`entry_point` of dagstack: what it says about the language of a plugin, and the file that it names.

    module:Class                        python      `module.py` in the plugin, `a.b:Class`, `a/b:Class` too
    ./path.js#Export, ./path.js         typescript  that file
    @scope/package#Class                typescript  a package of the host: no file of the plugin
    anything                            as `x-language` says

The implementation language has no field of its own in dagstack; `x-language` is the author's way to state it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugreg_schemas.formats.files import Misfit, follow
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.tree import Tree

ALIASES: Final[Mapping[str, str]] = {
    "node": "typescript",
    "javascript": "typescript",
    "js": "typescript",
    "ts": "typescript",
    "py": "python",
    "golang": "go",
}
"""Other names of languages."""

_SCRIPT: Final = re.compile(r"([^#]+\.(?:js|mjs|cjs|ts))(?:#[^#]+)?")
_PACKAGE: Final = re.compile(
    r"@[a-z0-9~_-][a-z0-9._~-]*+/[a-z0-9~_-][a-z0-9._~-]*+(?:#[^#]+)?|[a-z0-9~_-][a-z0-9._~-]*+#[^#]+"
)
"""A package of npm: with its scope or with what it exports, for a bare word says nothing."""
_CLASS: Final = re.compile(r"([^:#]+):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


def language_of(entry_point: str | None, stated: str | None = None) -> str | None:
    """Return the language of a plugin, None where nothing says it.

    >>> language_of("plugin:Echo"), language_of("./dist/index.js#Echo"), language_of("plugin:New", "golang")
    ('python', 'typescript', 'go')
    """
    if stated:
        return ALIASES.get(stated.lower(), stated.lower())
    if not entry_point:
        return None
    if _SCRIPT.fullmatch(entry_point):
        return "typescript"
    if _CLASS.fullmatch(entry_point):
        return "python"
    return "typescript" if _PACKAGE.fullmatch(entry_point) else None


def fault_of(entry_point: str, language: str | None) -> str | None:
    """Return what is wrong with the spelling, or None."""
    if _CONTROL.search(entry_point):
        return "holds a control character or a backslash"
    if language == "python" and not _CLASS.fullmatch(entry_point):
        return 'must be "module:ClassName"'
    if language is None:
        return 'must be "module:ClassName" or "./path.js#Export"; state another language in `x-language`'
    return None


def files_of(entry_point: str, language: str | None) -> tuple[str, ...]:
    """Return where the code may lie in the plugin, the likeliest first; () where nothing says it."""
    script = _SCRIPT.fullmatch(entry_point)
    if language == "typescript":
        return (script[1],) if script else ()
    found = _CLASS.fullmatch(entry_point)
    if language != "python" or not found:
        return ()
    module = found[1]
    path = module.replace(".", "/") if _MODULE.fullmatch(module) else module
    return (f"{path}.py", f"{path}/__init__.py")


def absent_file(tree: Tree, entry_point: str, language: str | None) -> Misfit | None:
    """Return why the file of an entry point cannot be used, None where it can or no file is named."""
    files = files_of(entry_point, language)
    found = [_follow(tree, path) for path in files]
    faults = [fault for fault in found if isinstance(fault, Misfit)]
    escapes = next((fault for fault in faults if fault.reason == "escape"), None)
    if escapes is not None or len(faults) < len(found):
        return escapes
    return Misfit("dangling", f"there is no {quoted(files[0])} in the plugin") if files else None


def _follow(tree: Tree, path: str) -> str | Misfit:
    if path.startswith("/"):
        return Misfit("escape", f"{quoted(path)} leads out of the plugin")
    return follow(tree, path, "file")
