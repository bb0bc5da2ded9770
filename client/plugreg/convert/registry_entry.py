"""An entry of the MCP registry: how a server is got (`packages`) or reached (`remotes`).

    npm     npx -y NAME@VERSION        oci     docker run -i --rm IMAGE
    pypi    uvx NAME==VERSION          nuget   dnx NAME@VERSION --yes

They are ways to the same server, so the first that can be taken over is taken: packages before remotes, since
a package runs with the version that was published.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from plugreg.convert.draft import Found
from plugreg.convert.values import as_text
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugreg.convert.draft import Draft

_TEMPLATE: Final = re.compile(r"\$\{[^{}]*\}|<<[^<>]*>>|\{\{[^{}]*\}\}|\{[A-Za-z_][\w-]*\}")
_ASKING: Final = frozenset({"isRequired", "valueHint", "placeholder", "choices", "variables", "format"})
"""Keys of an argument whose value comes from the user; one without them and without a value is a flag."""
_REMOTE_TYPES: Final = ("streamable-http", "sse")


def servers(file: str, value: Mapping[str, Any], draft: Draft) -> list[Found]:
    """Return the one server of the entry, or none after recording why."""
    stated = value.get("name")
    name = stated.rpartition("/")[2] if isinstance(stated, str) and stated else "server"
    ways = [*_ways(value, "packages"), *_ways(value, "remotes")]
    taken: list[Found] = []
    for key, index, way in ways:
        if taken:
            message = "another way to the same server; the first one is taken"
            draft.note("alternative_dropped", message, file, key, index)
            continue
        server, problem = (
            _package(way, draft, file, index) if key == "packages" else _remote(way, draft, file, index)
        )
        if server is None:
            draft.lose("package_unsupported", problem, file, key, index)
        else:
            taken.append(Found(_label(name), server, file, (key, str(index))))
    return taken


def _label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "server"


def _ways(value: Mapping[str, Any], key: str) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    listed = value.get(key)
    for index, way in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(way, dict):
            yield key, index, way


def _package(
    way: Mapping[str, Any], draft: Draft, file: str, index: int
) -> tuple[dict[str, Any] | None, str]:
    kind = way.get("registryType", way.get("registry_type", way.get("registry_name")))
    name, version = way.get("identifier", way.get("name")), way.get("version", "")
    transport = way.get("transport")
    if isinstance(transport, dict) and transport.get("type", "stdio") != "stdio":
        return None, "a package that is reached by URL after somebody started it has no counterpart"
    if not isinstance(name, str) or not isinstance(version, str) or not name:
        return None, "the package has no `identifier`"
    if _TEMPLATE.search(name) or _TEMPLATE.search(version):
        return None, "the entry is a template: its `identifier` or `version` was never filled in"
    started = _started(str(kind), name, version)
    if started is None:
        return None, f"packages of the type {quoted(str(kind))} have no counterpart"
    at = ("packages", index)
    env, passed = _environment(way, draft, file, at)
    command, before, package = started
    runtime = _words(way, "runtimeArguments", "runtime_arguments", draft, file, at)
    extra = [word for item in passed for word in ("-e", item)] if kind == "oci" else []
    after = _words(way, "packageArguments", "package_arguments", draft, file, at)
    tail = ["--yes"] if kind == "nuget" else []
    words = [*before, *runtime, *extra, package, *tail, *(["--"] if tail and after else []), *after]
    return {"command": command, "args": words, **({"env": env} if env else {})}, ""


def _started(kind: str, name: str, version: str) -> tuple[str, list[str], str] | None:
    """Return launcher, its first words, and the package with its version."""
    if kind == "npm":
        return "npx", ["-y"], f"{name}@{version}" if version else name
    if kind == "pypi":
        return "uvx", [], f"{name}=={version}" if version else name
    if kind == "nuget":
        return "dnx", [], f"{name}@{version}" if version else name
    if kind == "oci":
        tagged = ":" in name.rpartition("/")[2] or "@" in name
        return "docker", ["run", "-i", "--rm"], name if tagged or not version else f"{name}:{version}"
    return None


def _words(
    way: Mapping[str, Any], key: str, old: str, draft: Draft, file: str, at: tuple[str, int]
) -> list[str]:
    """Return the arguments of the entry that have a value; required ones without are a loss."""
    words: list[str] = []
    listed = way.get(key, way.get(old))
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(item, dict):
            continue
        text = as_text(item.get("value", item.get("default")))
        name = item.get("name") if item.get("type") == "named" else None
        named = [name] if isinstance(name, str) and name else []
        if _TEMPLATE.search(text) or (not text and (not named or not _ASKING.isdisjoint(item))):
            message = "an argument that the user would be asked for is left out"
            draft.lose("argument_unset", message, file, *at, key, index)
        else:
            words += [*named, *([text] if text else [])]
    return words


def _environment(
    way: Mapping[str, Any], draft: Draft, file: str, at: tuple[str, int]
) -> tuple[dict[str, str], list[str]]:
    """Return the variables that have a value, and the names of all for a container to be given."""
    env: dict[str, str] = {}
    names: list[str] = []
    listed = way.get("environmentVariables", way.get("environment_variables"))
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            continue
        names.append(name)
        value = as_text(item.get("value", item.get("default")))
        if value and item.get("isSecret") is not True and not _TEMPLATE.search(value):
            env[name] = value
        else:
            message = f"the variable {quoted(name)} has no value here; users store it with `plugreg env set`"
            draft.lose("env_unset", message, file, *at, "environmentVariables", index)
    return env, names


def _remote(way: Mapping[str, Any], draft: Draft, file: str, index: int) -> tuple[dict[str, Any] | None, str]:
    kind, url = way.get("type", way.get("transport_type")), way.get("url")
    if kind not in _REMOTE_TYPES or not isinstance(url, str):
        return None, "the remote has no `url`, or a type other than `streamable-http` and `sse`"
    if _TEMPLATE.search(url):
        return None, "the `url` is a template that the user would be asked to fill in"
    headers: dict[str, str] = {}
    listed = way.get("headers")
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            continue
        value = as_text(item.get("value", item.get("default")))
        if value and item.get("isSecret") is not True and not _TEMPLATE.search(value):
            headers[name] = value
        else:
            message = f"the header {quoted(name)} has no value here and is not sent"
            draft.lose("header_unset", message, file, "remotes", index, "headers", number)
    return {"type": kind, "url": url, **({"headers": headers} if headers else {})}, ""
