"""People with machines of their own, who know one registry.

ann = person(tmp_path / "ann", registry)            with a key; `identity(ann)` is what it is known by
publish(ann, "demo", "1.0.0")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.commands import User, write_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.registries import RegistryProcess


def person(
    folder: Path, registry: RegistryProcess, *, key: bool = True, environment: Mapping[str, str] | None = None
) -> User:
    """Somebody who knows the registry, with a key unless told otherwise."""
    made = User(folder, dict(environment or {}))
    folder.mkdir(parents=True)
    made.run("registry", "add", registry.url)
    if key:
        made.run("key", "new")
    return made


def identity(user: User, key: str = "default") -> str:
    """The identity of one of somebody's keys, in words."""
    return str(user.run("key", "show", key)["id"])


def publish(user: User, name: str, version: str, *more: str) -> Any:
    """Publish a small plugin, and return what the command printed."""
    return user.run("publish", str(write_plugin(user.folder / f"{name}-{version}", name, version)), *more)


def status(user: User, name: str) -> tuple[str, str]:
    """What `list` shows of an installed plugin: its status, and the reason for it."""
    (row,) = [row for row in user.run("list")["plugins"] if row["name"] == name]
    return row["status"], row["reason"]
