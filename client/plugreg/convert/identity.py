"""Who the plugin is, as `plugin.json` says it: a name that a registry takes, texts that are texts.

What has the wrong shape and a plain meaning is brought into the right one (`{"url": ...}` as repository, an
author as `Name <mail>`); the rest is a loss.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.formats.agent_plugins import SCHEMA
from plugreg_schemas.names import PluginName, Version, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg.convert.draft import Draft

MAX_NAME: Final = 64

_AUTHOR: Final = re.compile(r"([^<>()]*)(?:<([^<>]*)>)?\s*(?:\(([^()]*)\))?")
_TEMPLATE: Final = re.compile(r"\$\{[^{}]*\}|<<[^<>]*>>|\{\{[^{}]*\}\}")


def manifest_of(draft: Draft, file: str, folder: str, given: str = "") -> dict[str, Any]:
    """Return `plugin.json`. The name is `given`, or the stated one, or that of the folder.

    Raises:
        InvalidInput: `name_invalid`: there is no name that a registry would take.
    """
    stated = draft.manifest
    found: dict[str, Any] = {"$schema": SCHEMA, "name": _name(stated.get("name"), draft, file, folder, given)}
    if version := _version(stated.get("version"), draft, file):
        found["version"] = version
    for key in ("description", "homepage", "repository", "license"):
        if text := _text(stated.get(key), key, draft, file):
            found[key] = text
    if author := _author(stated.get("author"), draft, file):
        found["author"] = author
    if keywords := _keywords(stated.get("keywords"), draft, file):
        found["keywords"] = keywords
    if "extensions" in stated:
        draft.lose("field_dropped", "`extensions` were written for another format", file, "extensions")
    return found


def slug(text: str) -> str:
    """Return the nearest text that has the form of a plugin name, "" where there is none.

    >>> slug("HIPAA Guardian"), slug("io.github.acme/Weather_MCP"), slug("<<Name>>")
    ('hipaa-guardian', 'weather-mcp', 'name')
    """
    plain = re.sub(r"[^a-z0-9.]+", "-", text.rpartition("/")[2].lower())
    plain = re.sub(r"[.-]{2,}", "-", plain)[:MAX_NAME]
    return plain.strip(".-")


def _name(stated: object, draft: Draft, file: str, folder: str, given: str) -> str:
    if given:
        return PluginName(given)
    text = stated if isinstance(stated, str) and not _TEMPLATE.search(stated) else ""
    for candidate in (text, slug(text), slug(folder)):
        try:
            name = PluginName(candidate)
        except InvalidInput:
            continue
        if name != stated:
            what = (
                f"the name {quoted(text)} became {quoted(name)}"
                if text
                else f"the plugin is named {quoted(name)}"
            )
            draft.note("name_changed", what, file, *(["name"] if text else []))
        return name
    raise InvalidInput(
        "name_invalid", "there is no name that a registry would take", hint="give one with `--name`"
    )


def _version(stated: object, draft: Draft, file: str) -> str:
    if stated is None:
        return ""
    if not isinstance(stated, str) or _TEMPLATE.search(stated):
        message = "`version` is not a version; give one with `--version` when publishing"
        draft.lose("version_dropped", message, file, "version")
        return ""
    text = stated.strip().removeprefix("v")
    try:
        version = Version(text).text
    except InvalidInput as error:
        draft.lose("version_invalid", error.message, file, "version")
        return stated
    if version != stated:
        draft.note("version_changed", f"the version {quoted(stated)} became `{version}`", file, "version")
    return version


def _text(stated: object, key: str, draft: Draft, file: str) -> str:
    if stated is None or isinstance(stated, str):
        return stated or ""
    if isinstance(stated, dict):
        inner = stated.get("url", stated.get("type") if key == "license" else None)
        if isinstance(inner, str):
            return inner
    draft.lose("field_dropped", f"`{key}` is not text", file, key)
    return ""


def _author(stated: object, draft: Draft, file: str) -> Mapping[str, str]:
    if isinstance(stated, list) and stated:
        if len(stated) > 1:
            draft.lose("field_dropped", "only the first author has a place", file, "author")
        stated = stated[0]
    if stated is None:
        return {}
    if isinstance(stated, str):
        found = _AUTHOR.fullmatch(stated.strip())
        parts = zip(("name", "email", "url"), found.groups() if found else (stated,), strict=False)
        return {key: text.strip() for key, text in parts if text and text.strip()}
    if not isinstance(stated, dict):
        draft.lose("field_dropped", "`author` is not a person", file, "author")
        return {}
    for key, item in stated.items():
        if key not in {"name", "email", "url"} or not isinstance(item, str):
            draft.lose("field_dropped", f"{quoted(key)} of `author` has no counterpart", file, "author", key)
    return {key: stated[key] for key in ("name", "email", "url") if isinstance(stated.get(key), str)}


def _keywords(stated: object, draft: Draft, file: str) -> list[str]:
    listed = stated.split(",") if isinstance(stated, str) else stated
    if listed is None:
        return []
    if not isinstance(listed, list):
        draft.lose("field_dropped", "`keywords` are not a list", file, "keywords")
        return []
    return [word.strip() for word in listed if isinstance(word, str) and word.strip()]
