"""The reader of Keel's `plugin.yaml`: a plugin is exactly one of three kinds of thing.

    kind         entry                     becomes
    in-process   empty                     main: in_process, compiled into the host
    sidecar      command, args, env        main: sidecar
    webview      empty                     main: webview, the page `ui/<provides.ui.entry>`
                 command, args, env        ui: webview, and its backend: sidecar

Every fault rejects the plugin: there is no smaller part that could be left out. Fields that are not known are
warned about, except in `entry`, where one of them could change what is run. No placeholder is expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import parse_yaml, pointer_to
from plugreg_schemas.errors import Collector, Conflict, InvalidInput, Severity
from plugreg_schemas.formats import keel_entry
from plugreg_schemas.formats.files import Misfit, collected, content, find
from plugreg_schemas.manifest import Component, Manifest, Reading
from plugreg_schemas.names import Version, quoted
from plugreg_schemas.runtimes import InProcess, Sidecar, Webview
from plugreg_schemas.tiers import KEY, declared_tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.tree import Tree

FILE: Final = "plugin.yaml"
KINDS: Final = ("in-process", "sidecar", "webview")
BUILT_IN: Final = "in-process"
"""The kind of what is compiled into a host: it can be described by a manifest, and not be downloaded."""
MAX_DOCUMENT: Final = 64 * 1024
"""Bytes of the manifest, because YAML costs up to 3 s for each MiB; what is written by hand has a few KiB."""
MAX_ID: Final = 64

_ID: Final = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_TEXTS: Final = ("name", "description", "license", "homepage", "repository")
_LISTS: Final = ("authors", "keywords")
_KNOWN: Final = frozenset({"id", "kind", "version", "entry", "provides", "config", *_TEXTS, *_LISTS})


@dataclass(slots=True)
class Report:
    """What is found wrong with the manifest."""

    faults: Collector = field(
        default_factory=lambda: Collector("manifest_invalid", "the manifest is not valid")
    )

    def refuse(self, message: str, *steps: str | int) -> None:
        """Report a fault, which rejects the plugin."""
        self.faults.add("manifest_invalid", message, file=FILE, pointer=pointer_to(*steps))

    def warn(self, code: str, message: str, *steps: str | int) -> None:
        """Report something that the author probably did not mean."""
        where = pointer_to(*steps)
        self.faults.add(code, message, severity=Severity.WARNING, file=FILE, pointer=where)

    def texts(self, value: object, *steps: str) -> tuple[str, ...]:
        """Return a list of texts, or an empty one after reporting."""
        if not isinstance(value, list):
            self.refuse(f"`{steps[-1]}` must be a list of texts", *steps)
            return ()
        for index, item in enumerate(value):
            if not isinstance(item, str):
                self.refuse(f"each of `{steps[-1]}` must be text; put it into quotes", *steps, index)
        return tuple(item for item in value if isinstance(item, str))


def has_kind(document: bytes | Misfit) -> bool:
    """Whether `plugin.yaml` announces a Keel plugin; one that cannot be judged does.

    Better a conflict that is none than two plugins in one.
    """
    if isinstance(document, Misfit):
        return True
    try:
        value = parse_yaml(document, FILE)
    except InvalidInput:
        return True
    return isinstance(value, dict) and "kind" in value


def read(tree: Tree) -> Reading:
    """Read the plugin, with every fault of its manifest."""
    report = Report()
    value = _document(tree, report)
    manifest = _manifest(value, tree, report) if value is not None else None
    failed = report.faults.failed
    if manifest is not None and value is not None:
        tier, faults = declared_tier(value.get(KEY), FILE, KEY)
        manifest = replace(manifest, tier=tier)
        report.faults.extend(faults)
    return Reading("keel", None if failed else manifest, findings=collected(report.faults, FILE))


def check_kind(name: str, before: str, now: str) -> None:
    """Refuse a version whose kind (`Manifest.runtime_kind`) is not that of the versions before it.

    `before` is "" where no earlier version had a kind.

    Raises:
        Conflict: `kind_immutable`.
    """
    if before and before != now:
        what = quoted(now) if now else "a plugin without a kind"
        message = f"{name} is a {quoted(before)} and cannot become {what}"
        hint = "the kind of a plugin never changes; publish this under another name"
        raise Conflict("kind_immutable", message, hint=hint)


def _document(tree: Tree, report: Report) -> dict[str, Any] | None:
    where = find(tree, "", FILE, "file")
    if where is None:
        report.faults.add("manifest_missing", f"`{FILE}` is missing", file=FILE)
        return None
    document = content(tree, where, MAX_DOCUMENT) if isinstance(where, str) else where
    if isinstance(document, Misfit):
        code = "manifest_escape" if document.reason == "escape" else "manifest_invalid"
        report.faults.add(code, document.message, file=FILE)
        return None
    try:
        value = parse_yaml(document, FILE)
    except InvalidInput as error:
        report.refuse(f"`{FILE}` is not a YAML document that plugreg accepts")
        report.faults.extend(replace(finding, file=FILE) for finding in error.findings)
        return None
    if not isinstance(value, dict):
        report.refuse(f"`{FILE}` must hold a mapping with `id`, `version`, `kind` and `entry`")
        return None
    return value


def _manifest(value: Mapping[str, Any], tree: Tree, report: Report) -> Manifest:
    """Return the normal form, which counts only where nothing was refused."""
    kind = _kind(value, report)
    texts = {key: _text(value, key, report) for key in _TEXTS}
    found = Manifest(
        format="keel",
        name=_id(value, report),
        version=_version(value, report),
        description=texts["description"],
        license=texts["license"],
        homepage=texts["homepage"],
        repository=texts["repository"],
        authors=report.texts(value.get("authors", []), "authors"),
        keywords=report.texts(value.get("keywords", []), "keywords"),
        components=_components(value, kind, tree, report),
        tools=_tools(value.get("provides")),
        runtime_kind=kind,
        details=dict(value),
    )
    if not isinstance(value.get("config", {}), dict):
        report.refuse("`config` must be a mapping", "config")
    for key in value:
        if key not in _KNOWN and not key.startswith("x-"):
            message = f"the field {quoted(key)} is not one of Keel and is ignored; own fields begin with `x-`"
            report.warn("unknown_field_ignored", message, key)
    return found


def _kind(value: Mapping[str, Any], report: Report) -> str:
    kind = value.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    if "kind" not in value:
        report.refuse("there is no `kind`; it is one of `in-process`, `sidecar`, `webview`")
    elif isinstance(kind, list):
        report.refuse("a plugin has exactly one `kind`; a webview with a backend is a `webview`", "kind")
    elif isinstance(kind, str) and kind.lower().replace("_", "-").replace(" ", "-") in KINDS:
        near = kind.lower().replace("_", "-").replace(" ", "-")
        report.refuse(f"`kind` is {quoted(kind)}; it is spelled `{near}` here", "kind")
    else:
        report.refuse("`kind` must be `in-process`, `sidecar` or `webview`", "kind")
    return ""


def _id(value: Mapping[str, Any], report: Report) -> str:
    name = value.get("id")
    if "id" not in value:
        report.refuse("there is no `id`")
    elif not isinstance(name, str):
        report.refuse("`id` must be text; put it into quotes", "id")
    elif len(name) > MAX_ID or not _ID.fullmatch(name):
        rule = f"1-{MAX_ID} of a-z 0-9 . -, a letter or digit at both ends, no doubled separator"
        report.refuse(f"`id` {quoted(name)} is not the id of a plugin: {rule}", "id")
    else:
        return name
    return ""


def _version(value: Mapping[str, Any], report: Report) -> str:
    version = value.get("version")
    if "version" not in value:
        report.refuse("there is no `version`")
    elif not isinstance(version, str):
        report.refuse('`version` must be text with three numbers, as in `version: "1.0.0"`', "version")
    else:
        try:
            return Version(version).text
        except InvalidInput as error:
            report.refuse(f"{error.message}; {error.hint}" if error.hint else error.message, "version")
    return ""


def _text(value: Mapping[str, Any], key: str, report: Report) -> str:
    text = value.get(key, "")
    if isinstance(text, str):
        return text
    report.refuse(f"`{key}` must be text; put it into quotes", key)
    return ""


def _components(value: Mapping[str, Any], kind: str, tree: Tree, report: Report) -> tuple[Component, ...]:
    command = keel_entry.read(value.get("entry", {}), kind, tree, report)
    page = _provides(value.get("provides", {}), kind, tree, report)
    if kind == BUILT_IN:
        return (Component("main", (InProcess(entry_point=""),)),)
    if kind == "webview" and command:
        page = page.model_copy(update={"backend": "backend"})
        return Component("ui", (page,)), Component("backend", (command,))
    runtime: Sidecar | Webview | None = page if kind == "webview" else command
    return (Component("main", (runtime,)),) if runtime else ()


def _tools(provides: object) -> tuple[str, ...]:
    """Return the names of the tools; what is wrong with them was said by `_provides`."""
    names = provides.get("tools") if isinstance(provides, dict) else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _provides(value: object, kind: str, tree: Tree, report: Report) -> Webview:
    """Read what the plugin gives to its host: the names of its tools, and the page of a webview."""
    if not isinstance(value, dict):
        report.refuse("`provides` must be a mapping", "provides")
        value = {}
    tools = report.texts(value.get("tools", []), "provides", "tools")
    if len(set(tools)) < len(tools):
        report.refuse("a tool stands twice in `tools`", "provides", "tools")
    for key in value:
        if key not in {"tools", "ui"}:
            message = f"the field {quoted(key)} is not one of `provides` and is ignored"
            report.warn("unknown_field_ignored", message, "provides", key)
    if kind in {BUILT_IN, "sidecar"} and "ui" in value:
        report.refuse(
            f"`provides.ui` is not for `{kind}`; a plugin with a page is a `webview`", "provides", "ui"
        )
    page = value.get("ui", {})
    if not isinstance(page, dict):
        report.refuse("`provides.ui` must be a mapping with `entry`", "provides", "ui")
        page = {}
    if kind != "webview":
        return Webview()
    for key in page:
        if key != "entry":
            message = f"the field {quoted(key)} is not one of `provides.ui` and is ignored"
            report.warn("unknown_field_ignored", message, "provides", "ui", key)
    return Webview(ui_entry=keel_entry.page(page.get("entry", "index.html"), tree, report))
