"""A plugin in a temporary folder, ready to run, and the check that nothing of it is left running."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from plugreg.escapees import TAG
from plugreg.launch import Terms
from plugreg.run import Target
from plugreg_schemas.manifest import Component, Manifest
from plugreg_schemas.runtimes import McpStdio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.runtimes import Runtime

HERE = Path(__file__).parent
ECHO = str(HERE / "echo.py")
HOSTILE = str(HERE / "hostile.py")


def python(script: str, *args: str, env: Mapping[str, str] | None = None, cwd: str | None = None) -> McpStdio:
    """Return the declaration of a server that is a script run by this Python."""
    return McpStdio(argv=("python", script, *args), env=dict(env or {}), cwd=cwd, expand=True)


def place(folder: Path, servers: Mapping[str, Runtime], *, root: str = "root", data: str = "data") -> Target:
    """Make a plugin with these servers in `folder`."""
    (folder / root).mkdir(exist_ok=True)
    components = tuple(Component(name, (runtime,)) for name, runtime in servers.items())
    manifest = Manifest(format="agent-plugins", name="demo", components=components)
    return Target("demo", folder / root, folder / data, manifest)


def host_env(**more: str) -> dict[str, str]:
    """Return a host's environment in which `python` is the one that runs the tests."""
    bin_folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", **more}


def terms(
    *,
    grace_s: float = 2,
    term_s: float = 1,
    startup_timeout_s: float = 30,
    env: Mapping[str, str] | None = None,
) -> Terms:
    """Return terms whose patience is short enough for tests and long enough for a busy machine."""
    return Terms(
        host_env=host_env(**(env or {})),
        startup_timeout_s=startup_timeout_s,
        call_timeout_s=30,
        grace_s=grace_s,
        term_s=term_s,
    )


def left_running(host_pid: int) -> list[str]:
    """Return what is running with a run tag of the host."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG, "").startswith(f"{host_pid}-"):
                found.append(str(process))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def ends(pid: int) -> bool:
    """Whether the process ends within ten seconds, or has ended."""
    try:
        psutil.Process(pid).wait(10)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True
