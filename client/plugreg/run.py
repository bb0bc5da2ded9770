"""Operations on a plugin that is in its place: what would be started, which tools there are, call one.

    plan         Target > chosen > launch_of for each server     nothing is started, nothing changed
    list_tools   Target > chosen > open_session > tools > close  all servers at once, or the one named
    call_tool    Target > chosen > open_session > call > close

By which of its runtimes a component is run, `resolve` decides as for every host, here for `PLUGREG`.

All are synchronous: they run an event loop of their own and leave no process behind, whatever ends them.
Which place a name stands for is the plugins root's business, not ours. A server that fails never takes
another one with it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from plugreg.environment import launch_of, launcher_state, remote_of
from plugreg.launch import JsonObject, Session, Terms, open_session
from plugreg.machine import this_platform
from plugreg.programs import as_declared
from plugreg.supervision import run_supervised
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.errors import NotAvailable, PlugregError, ResolutionError
from plugreg_schemas.hosts import MCP, Host
from plugreg_schemas.names import quoted
from plugreg_schemas.resolve import NOT_SUPPORTED, resolve
from plugreg_schemas.runtimes import McpHttp, McpStdio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from plugreg.environment import Launch
    from plugreg_schemas.errors import NotAllowed
    from plugreg_schemas.manifest import Component, Manifest
    from plugreg_schemas.resolve import Outcome
    from plugreg_schemas.runtimes import Runtime


T = TypeVar("T")

PLUGREG: Final = Host(
    "plugreg",
    supports=MCP,
    host_class="desktop",
    transports=frozenset({"stdio", "streamable-http"}),
    platform=this_platform() or None,
    screen="none",
)
"""This program as a host: it starts servers, and reaches others by URL. It loads no code.

It runs on this machine, so a program for another one is refused before it is started."""


@dataclass(frozen=True, slots=True)
class Target:
    """A plugin in its place: its name, its folder, the folder of its data, and what it declares."""

    name: str
    root: Path
    data: Path
    manifest: Manifest
    refusal: NotAllowed | None = None
    """Why none of its servers may be started, such as `revoked`."""

    def check_allowed(self) -> None:
        """Raise `refusal` if there is one."""
        if self.refusal is not None:
            raise self.refusal


def plan(
    *targets: Target, host_env: Mapping[str, str] | None = None, inherit_env: bool = False
) -> JsonObject:
    """Return exactly what would be started for each plugin: the object that `plan --json` prints.

    A server whose launcher is missing on this machine is shown as declared, with an `error`; one that must
    not or cannot be started stands under `skipped`, with its `error`. Where that is because of what it
    declares, the error has the `refusals`: one for each runtime.
    """
    terms = Terms(os.environ if host_env is None else host_env, inherit_env=inherit_env)
    return {"plugins": [_plan_one(target, terms) for target in targets]}


def _plan_one(target: Target, terms: Terms) -> JsonObject:
    servers: list[JsonObject] = []
    skipped: list[JsonObject] = []
    for component_id, runtime in chosen(target.manifest).items():
        try:
            servers.append(_planned(target, component_id, runtime, terms))
        except PlugregError as error:
            skipped.append({"name": component_id, "error": problem_of(error)})
    root = target.root.resolve()
    return {
        "root": str(root),
        "data": os.path.abspath(target.data),  # noqa: PTH100 - as the child will see it, links kept
        "skills": [{"name": skill.name, "path": str(root / skill.path)} for skill in target.manifest.skills],
        "servers": servers,
        "skipped": skipped,
        "launchers": launcher_state(target.manifest.launchers, terms.host_env),
    }


def chosen(manifest: Manifest, host: Host = PLUGREG) -> dict[str, Runtime | ResolutionError]:
    """Return for each component the runtime that the host uses, or the refusal of all that it declares.

    The refusal is not raised: a component that cannot be used takes no other with it. Its code is that of the
    only runtime, else `runtime_not_supported`.
    """
    outcomes = resolve(Offer.of(manifest), host).components
    return {
        component.id: _not_run(outcome) if outcome.index is None else component.runtimes[outcome.index]
        for component, outcome in zip(manifest.components, outcomes, strict=True)
    }


_FOREIGN_HINT: Final = "use it on such a machine, or ask the plugin's author for a program for this one"


def _not_run(outcome: Outcome) -> ResolutionError:
    refusals = outcome.refusals
    return ResolutionError(
        refusals[0].code if len(refusals) == 1 else NOT_SUPPORTED,
        f"no runtime of {quoted(outcome.id)} can be used: "
        + ("; ".join(f"`{refusal.runtime}`: {refusal.reason}" for refusal in refusals) or "it declares none"),
        hint=_FOREIGN_HINT
        if any(refusal.code == "platform_unsupported" for refusal in refusals)
        else "plugreg runs `mcp_stdio` and `mcp_http`; `plugreg resolve` tells what other hosts run",
        details={"refusals": [refusal.as_dict() for refusal in refusals]},
    )


def _planned(
    target: Target, component_id: str, runtime: Runtime | ResolutionError, terms: Terms
) -> JsonObject:
    target.check_allowed()
    if isinstance(runtime, PlugregError):
        raise runtime
    if isinstance(runtime, McpHttp):
        return remote_of(component_id, runtime)
    if not isinstance(runtime, McpStdio):
        raise ResolutionError(NOT_SUPPORTED, f"{quoted(component_id)} is not a server that plugreg can start")
    place, inherit = (target.root, target.data, terms.host_env), terms.inherit_env
    try:
        return _shown(launch_of(component_id, runtime, *place, inherit=inherit))
    except NotAvailable as error:
        if error.code != "launcher_missing":
            raise
        declared = launch_of(component_id, runtime, *place, inherit=inherit, find=as_declared)
        return _shown(declared) | {"error": problem_of(error)}


def _shown(launch: Launch) -> JsonObject:
    return {
        "name": launch.name,
        "type": "stdio",
        "command": launch.argv[0],
        "args": list(launch.argv[1:]),
        "env": dict(launch.env),
        "cwd": str(launch.cwd),
    }


def list_tools(target: Target, server: str | None = None, *, terms: Terms | None = None) -> JsonObject:
    """Start every server of the plugin, or the one named, and return its tools.

    The result is `{"servers": [{"name", "tools"} or {"name", "error": {"code", "detail", "hint"}}]}`.

    Raises:
        NotAvailable: `server_unknown`.
        NotAllowed: the target's `refusal`.
        PlugregError: no server worked: the error of the only one, or `servers_unavailable` with all of them
        in its details.
    """
    target.check_allowed()
    components = [_component(target, server)] if server is not None else list(target.manifest.components)
    terms = terms or Terms()
    runtimes = chosen(target.manifest)

    async def ask_all() -> list[list[JsonObject] | PlugregError]:
        return await asyncio.gather(
            *(_ask(target, c.id, runtimes[c.id], terms, lambda session: session.tools()) for c in components)
        )

    answers = run_supervised(ask_all)
    failures = [answer for answer in answers if isinstance(answer, PlugregError)]
    servers: list[JsonObject] = [
        {"name": component.id, "error": problem_of(answer)}
        if isinstance(answer, PlugregError)
        else {"name": component.id, "tools": answer}
        for component, answer in zip(components, answers, strict=True)
    ]
    if failures and len(failures) == len(answers):
        raise _none_worked(target, failures, servers)
    return {"servers": servers}


def call_tool(
    target: Target, server: str, tool: str, arguments: Mapping[str, object], *, terms: Terms | None = None
) -> JsonObject:
    """Start the server, call the tool once and return the MCP result, also one with `isError`.

    Raises:
        NotAvailable: `server_unknown`.
        NotAllowed: the target's `refusal`.
        PlugregError: what `open_session` and `Session.call` raise.
    """
    target.check_allowed()
    runtime = chosen(target.manifest)[_component(target, server).id]

    async def ask() -> JsonObject | PlugregError:
        return await _ask(target, server, runtime, terms or Terms(), lambda s: s.call(tool, arguments))

    answer = run_supervised(ask)
    if isinstance(answer, PlugregError):
        raise answer
    return answer


async def _ask(
    target: Target,
    component_id: str,
    runtime: Runtime | ResolutionError,
    terms: Terms,
    question: Callable[[Session], Awaitable[T]],
) -> T | PlugregError:
    """Open a session for one question; a failure is returned, so that it does not end the other sessions."""
    if isinstance(runtime, PlugregError):
        return runtime
    try:
        session = await open_session(component_id, runtime, target.root, target.data, terms)
        try:
            return await question(session)
        finally:
            await session.close()
    except PlugregError as error:
        return error


def _component(target: Target, server: str) -> Component:
    for component in target.manifest.components:
        if component.id == server:
            return component
    names = ", ".join(quoted(component.id) for component in target.manifest.components)
    raise NotAvailable(
        "server_unknown",
        f"{quoted(target.name)} has no server {quoted(server)}",
        hint=f"its servers are {names}" if names else "it has no servers",
    )


def _none_worked(target: Target, failures: list[PlugregError], servers: list[JsonObject]) -> PlugregError:
    if len(failures) == 1:
        return failures[0]
    sentences = "\n".join(f"- {failure.message}" for failure in failures)
    return NotAvailable(
        "servers_unavailable",
        f"none of the {len(failures)} servers of {quoted(target.name)} works:\n{sentences}",
        hint=failures[0].hint,
        details={"servers": servers},
    )


def problem_of(error: PlugregError) -> JsonObject:
    """Return the members of a problem document that say what went wrong with one server."""
    refusals = {"refusals": error.details["refusals"]} if "refusals" in error.details else {}
    return {"code": error.code, "detail": error.message, "hint": error.hint, **refusals}
