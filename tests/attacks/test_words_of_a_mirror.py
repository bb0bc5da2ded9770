"""A mirror or a network answers with refusals of its own, which sound as if this machine had said them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.fields import format_time
from tests.support.attacked import attacked
from tests.support.scripted import Answer, problem, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.attacked import Scene
    from tests.support.scripted import Request


def saying(scene: Scene, status: int, code: str, about: Callable[[str], bool]) -> Callable[[Request], Answer]:
    """The store as it is, but for some of its objects a problem document of the attacker."""
    return lambda request: (
        problem(status, code) if about(request.path.strip("/")) else scene.index.answer(request)
    )


@pytest.mark.parametrize("code", ["offline", "index_expired", "registry_unreachable"])
@pytest.mark.parametrize("status", [404, 410, 422])
@pytest.mark.parametrize("part", ["metadata", "list"])
def test_revocations_behind_a_refusal_that_this_machine_might_have_said(
    online: Scene, code: str, status: int, part: str
) -> None:
    """The same words mean here that nobody could be asked; then a newcomer is only warned."""
    at = format_time(online.index.now.replace(microsecond=0))
    online.index.revocations.append(
        {"kind": "name", "value": "demo", "level": "refuse", "reason": "steals tokens", "at": at}
    )
    online.index.publish()
    metadata = online.index.current("revocations")

    def is_hidden(path: str) -> bool:
        return (
            path == metadata
            if part == "metadata"
            else path.endswith(".revocations.json") and path != metadata
        )

    newcomer = online.newcomer()
    with serving(saying(online, status, code, is_hidden)) as server:
        _, said = newcomer.fails("install", "demo", "--registry", server.url)
    assert said["code"] in {"index_missing", "object_missing", "http_error", "index_expired"}, said
    assert newcomer.installed() == {}


@pytest.mark.parametrize("status", [404, 410, 422])
def test_name_that_one_registry_is_made_to_deny_and_another_offers(tmp_path: Path, status: int) -> None:
    """A name of the own registry must not come from elsewhere because somebody in between denies it."""
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    with attacked(tmp_path / "own") as own, attacked(tmp_path / "other") as other:
        own.publish("1.0.0")
        other.publish("9.9.9", author=other.stranger)
        denied = own.index.current(own.index.bin_of("demo"))
        with serving(saying(own, status, "plugin_not_found", denied.__eq__)) as server:
            own.person.run("registry", "add", server.url, "--name", "own")
            own.person.run("registry", "add", other.server.url, "--name", "other")
            _, said = own.person.fails("install", "demo")
        assert said["code"] in {"index_missing", "object_missing", "plugin_not_found"}, said
        assert own.person.installed() == {}
