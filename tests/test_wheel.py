"""The built wheel carries everything it needs: it works in a clean environment, away from the source tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it with its locked dependencies into a new environment, return its programs' folder."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=REPOSITORY)
    [wheel] = folder.glob("plugreg-*.whl")
    environment = folder / "environment"
    run("uv", "venv", "-q", "--python", sys.executable, str(environment))
    python = environment / "bin" / "python"
    locked = REPOSITORY / "requirements" / "runtime.txt"
    run("uv", "pip", "install", "-q", "--python", str(python), "--require-hashes", "-r", str(locked))
    run("uv", "pip", "install", "-q", "--python", str(python), "--no-deps", str(wheel))
    return environment / "bin"


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command that must succeed; a program of this environment is found beside its interpreter."""
    program = shutil.which(command[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program, f"{command[0]} is not installed"
    done = subprocess.run(
        [program, *command[1:]], cwd=cwd, env=env, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_installed_wheel_packs_a_plugin(programs: Path, tmp_path: Path) -> None:
    env = clean(tmp_path)
    assert run(str(programs / "plugreg"), "--version", env=env, cwd=tmp_path).startswith("plugreg ")
    run(str(programs / "plugreg"), "init", "my-plugin", env=env, cwd=tmp_path)
    checked = json.loads(
        run(str(programs / "plugreg"), "check", "my-plugin", "--json", env=env, cwd=tmp_path)
    )
    assert checked["publishable"]


def test_installed_wheel_migrates_a_registry(programs: Path, tmp_path: Path) -> None:
    run(str(programs / "plugreg-registry"), "init", "--data", "data", env=clean(tmp_path), cwd=tmp_path)
    run(str(programs / "plugreg-registry"), "migrate", "--data", "data", env=clean(tmp_path), cwd=tmp_path)


def test_installed_wheel_carries_the_published_schemas(programs: Path, tmp_path: Path) -> None:
    run(
        str(programs / "python"), "-m", "plugreg_schemas.export", "--check", env=clean(tmp_path), cwd=tmp_path
    )


def clean(home: Path) -> dict[str, str]:
    """Return an environment that leads nowhere near the source tree."""
    return {"PATH": os.defpath, "HOME": str(home), "PLUGREG_HOME": str(home / "plugreg")}
