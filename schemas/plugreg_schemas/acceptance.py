"""What the registry demands of a plugin beyond its own format's rules.

    a name that it can give out, a version that can be ordered, commands that can be started on any machine,
    documents that every reader reads alike

Client and registry call the same functions, so `plugreg check` says what `plugreg publish` will meet. Every
finding has the boundary `registry`. What should not leave the author's machine (`sensitive`) is asked only
when publishing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from plugreg_schemas import formats, launchers
from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Collector, Finding, InvalidInput, Severity
from plugreg_schemas.formats import agent_plugins, keel, mcp, skills, stdio
from plugreg_schemas.names import PluginName, Version, quoted
from plugreg_schemas.runtimes import Command
from plugreg_schemas.tiers import examine_tier
from plugreg_schemas.tree import PathEscapesError, locate, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugreg_schemas.manifest import Component, Manifest, Reading
    from plugreg_schemas.tree import Tree

MAX_SHEBANG: Final = 256
"""Bytes of a first line that Linux looks at (`BINPRM_BUF_SIZE`)."""

AMBIGUOUS: Final = frozenset(
    {
        "json_duplicate_key",
        "json_number",
        "json_surrogate",
        "json_too_deep",
        "text_encoding",
        "yaml_duplicate_key",
        "yaml_alias",
        "yaml_tag",
        "yaml_too_deep",
    }
)
"""Faults that one reader refuses and another reads, or that two read differently."""

_SENSITIVE: Final = re.compile(
    r"\.env(?:\.(?!example$|sample$|template$|dist$|defaults?$).+)?|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)|\.npmrc|\.pypirc|\.netrc|_netrc|\.git-credentials"
    r"|\.htpasswd|\.dockercfg|\.pgpass|credentials(?:\.json)?|client_secret.*\.json|service[-_]account.*\.json"
    r"|secrets?\.(?:json|ya?ml|toml|env)",
    re.IGNORECASE,
)
_SENSITIVE_FOLDERS: Final = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure"})
_PUBLIC: Final = frozenset({"cacert.pem", "ca-bundle.pem", "ca-certificates.pem", "roots.pem"})
"""Certificates of authorities, which many packages carry."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What the registry would say. `name` and `version` are None where there is no valid one."""

    loads: bool
    name: PluginName | None
    version: Version | None
    findings: tuple[Finding, ...]

    @property
    def publishable(self) -> bool:
        """Whether the registry would take the plugin."""
        return self.loads and not any(f.severity is Severity.ERROR for f in self.findings)


def examine(reading: Reading, tree: Tree, version: str | None = None, *, packed: bool = False) -> Acceptance:
    """Judge a plugin that was read from `tree`.

    `version` is the one given beside the plugin, for a manifest that has none. Unless `packed`, the files of
    commands count as executable, because packing makes them so.
    """
    faults = Collector("not_publishable", "the registry does not take this plugin")
    faults.extend(
        f for f in reading.findings if f.severity is Severity.ERROR and f.boundary is Boundary.REGISTRY
    )
    _examine_documents(reading, faults)
    manifest = reading.manifest
    if manifest is None:
        return Acceptance(loads=False, name=None, version=None, findings=tuple(faults.findings))
    file = manifest.file or formats.MANIFEST_FILES[manifest.format]
    key = formats.NAME_KEYS.get(manifest.format, "name")
    name = _name(manifest.name, file, (*manifest.at, key), faults)
    found_version = _version(manifest, version, file, faults)
    _examine_links(manifest, tree, faults)
    for component in manifest.components:
        _examine_component(manifest, component, tree, faults, packed=packed)
    faults.extend(examine_tier(manifest.tier, manifest.components, file))
    if manifest.runtime_kind == keel.BUILT_IN:
        message = f"a plugin of the kind `{keel.BUILT_IN}` is compiled into its host and cannot be published"
        _refuse(faults, "kind_not_published", message, file, "kind")
    # Only so many findings are kept: advice comes last, or enough of it would hide a reason to refuse.
    for component in manifest.components:
        faults.extend(_advice(manifest, component))
    if not manifest.components and not manifest.skills:
        message = "0 servers and 0 skills load: hosts will find nothing in this plugin"
        faults.add("no_components", message, severity=Severity.NOTE, boundary=Boundary.REGISTRY)
    return Acceptance(loads=True, name=name, version=found_version, findings=tuple(faults.findings))


def executables(manifest: Manifest) -> frozenset[str]:
    """Return the paths that `./` commands name, which must be executable; links are not followed."""
    return frozenset(path for component in manifest.components for path in _own_commands(component))


def sensitive(path: str) -> bool:
    """Whether a file with this path usually holds a secret: keys, tokens, passwords.

    >>> sensitive("config/.env"), sensitive(".env.example"), sensitive("deploy/id_ed25519")
    (True, False, True)
    """
    *folders, name = path.split("/")
    if not _SENSITIVE_FOLDERS.isdisjoint(folders):
        return True
    return bool(_SENSITIVE.fullmatch(name)) and name not in _PUBLIC


def _name(text: str, file: str, steps: tuple[str, ...], faults: Collector) -> PluginName | None:
    try:
        return PluginName(text)
    except InvalidInput as error:
        _refuse(faults, error.code, _with_hint(error), file, *steps)
        return None


def _version(manifest: Manifest, given: str | None, file: str, faults: Collector) -> Version | None:
    """Return the version: stated in the manifest or given beside it, and equal where it is both."""
    stated, steps = manifest.version, (*manifest.at, "version")
    if not stated and given is None:
        _refuse(
            faults,
            "version_missing",
            "the manifest has no `version`; add one, or give it with `--version`",
            file,
        )
        return None
    version = _parsed_version(stated, file, *steps, faults=faults) if stated else None
    asked = _parsed_version(given, "", faults=faults) if given is not None else None
    if stated and given is not None and stated != given:
        message = f"the manifest says version {quoted(stated)}, asked for is {quoted(given)}"
        _refuse(faults, "version_mismatch", message, file, *steps)
        return None
    return version or asked


def _parsed_version(text: str, file: str, *steps: str, faults: Collector) -> Version | None:
    try:
        return Version(text)
    except InvalidInput as error:
        _refuse(faults, error.code, _with_hint(error), file, *steps)
        return None


def _examine_documents(reading: Reading, faults: Collector) -> None:
    """Refuse documents that a lenient reader would read, and perhaps differently."""
    for file in dict.fromkeys(f.file for f in reading.findings if f.code in AMBIGUOUS):
        message = f"{quoted(file)} could be read in more than one way, or not at all"
        _refuse(faults, "document_ambiguous", message, file)


def _examine_links(manifest: Manifest, tree: Tree, faults: Collector) -> None:
    """Refuse a link to a file of another name: its content is not kept when a bundle is read as a stream."""
    paths = [agent_plugins.FILE, mcp.FILE] if manifest.format == "agent-plugins" else []
    paths += [manifest.file] if manifest.file else []
    for path in (*paths, *(f"{skill.path}/{skills.FILE}" for skill in manifest.skills)):
        where = _inside(tree, path)
        if where and not formats.is_wanted(where[0]):
            message = f"{quoted(path)} is a link to {quoted(where[0])}; link to a file of the same name"
            _refuse(faults, "manifest_link", message, path)


def _examine_component(
    manifest: Manifest, component: Component, tree: Tree, faults: Collector, *, packed: bool
) -> None:
    for path in _own_commands(component):
        where = _inside(tree, path)
        if where is None:
            message = f"the command `./{path}` is not in the plugin"
            _refuse(faults, "command_missing", message, *formats.command_place(manifest, component.id))
            continue
        if packed and not where[1]:
            message = f"the command `./{path}` is not executable"
            _refuse(faults, "command_not_executable", message, where[0])
        if _has_cr_in_shebang(tree, where[0]):
            message = (
                f"line 1 of {quoted(where[0])} ends with CR LF: its interpreter is not found; save it with LF"
            )
            _refuse(faults, "shebang_cr", message, where[0])
    for runtime in component.runtimes:
        folder = stdio.root_path(runtime.cwd) if isinstance(runtime, Command) and runtime.cwd else None
        if folder and not _holds_files(tree, folder):
            message = (
                f"the `cwd` of server {quoted(component.id)} holds no file: bundles carry no empty folders"
            )
            _refuse(faults, "cwd_missing", message, mcp.FILE, "mcpServers", component.id, "cwd")


def _advice(manifest: Manifest, component: Component) -> Iterator[Finding]:
    """Yield what the author should know of the commands, and the registry does not mind."""
    file, *steps = formats.command_place(manifest, component.id)
    for advice in (*launchers.advise(component), *_native_commands(component)):
        yield replace(advice, file=file, pointer=pointer_to(*steps))


def _own_commands(component: Component) -> Iterator[str]:
    for runtime in component.runtimes:
        if isinstance(runtime, Command) and runtime.own is not None:
            yield runtime.own


def _native_commands(component: Component) -> Iterator[Finding]:
    """Note once of each native program that the component starts where it runs."""
    commands = [runtime for runtime in component.runtimes if isinstance(runtime, Command)]
    for path, platforms in {c.own: c.platforms for c in commands if c.own and c.platforms}.items():
        shown = ", ".join(map(quoted, platforms))
        message = f"the command `./{path}` is a native program: it runs on {shown}"
        yield Finding("native_binary", message, Severity.NOTE, Boundary.REGISTRY)


def _inside(tree: Tree, path: str) -> tuple[str, bool] | None:
    """Return where the regular file `path` lies and whether it is executable; None where there is none."""
    try:
        where, node = locate(tree, path)
    except PathEscapesError:
        return None
    return (where, node.executable) if node is not None and node.kind == "file" else None


def _holds_files(tree: Tree, path: str) -> bool:
    try:
        where, node = locate(tree, path)
    except PathEscapesError:
        return False
    return node is not None and node.kind == "directory" and next(walk(tree, where), None) is not None


def _has_cr_in_shebang(tree: Tree, path: str) -> bool:
    """Whether the first line is a shebang that ends with CR LF; of a file without one no content is kept."""
    try:
        with tree.open(path) as file:
            line = file.read(MAX_SHEBANG).partition(b"\n")[0]
    except FileNotFoundError:
        return False
    return line.startswith(b"#!") and line.endswith(b"\r")


def _with_hint(error: InvalidInput) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _refuse(faults: Collector, code: str, message: str, file: str, *steps: str) -> None:
    faults.add(code, message, boundary=Boundary.REGISTRY, file=file, pointer=pointer_to(*steps))
