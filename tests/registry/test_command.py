"""`plugreg-registry` as operators type it: settings, exit codes, and never a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.metadata.migrate import HEAD
from plugreg_registry.settings import check_exposure, read_settings
from plugreg_schemas.errors import NotAllowed, UsageError
from tests.support.publisher import Author, ask, plugin
from tests.support.registries import registry_environment, running

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def command(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "plugreg_registry", *arguments],
        env=registry_environment(environment),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The words of a command that refused, as it should."""
    assert done.returncode == code, done
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_init_makes_a_data_folder_and_repeats(tmp_path: Path) -> None:
    first = command("init", cwd=tmp_path)
    assert first.returncode == 0, first
    assert "registry  urn:uuid:" in first.stdout
    assert (tmp_path / "plugreg-data" / "registry.sqlite3").is_file()
    assert command("init", cwd=tmp_path).stdout == first.stdout
    assert f"{HEAD} already" in command("migrate", cwd=tmp_path).stdout


def test_an_id_is_chosen_once(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert (
        "https://plugins.example.com"
        in command("init", "--data", data, "--id", "https://plugins.example.com").stdout
    )
    told = refused(command("init", "--data", data, "--id", "https://other.example.com"), 2)
    assert "`https://plugins.example.com`" in told
    assert "hint: " in told
    assert "an https origin" in refused(command("init", "--data", data, "--id", "http://x"), 3)


def test_the_id_survives_restarts_and_moves(tmp_path: Path) -> None:
    with running(tmp_path / "here") as registry:
        author = Author(registry.url, registry.id)
        author.publish(plugin())
    (tmp_path / "here").rename(tmp_path / "there")
    with running(tmp_path / "there") as registry:
        assert registry.id == author.registry
        assert ask(registry.url + "v1/plugins/demo/1.0.0").status == 200


def test_serve_ends_well_when_it_is_told_to(tmp_path: Path) -> None:
    for workers in (1, 2):
        with running(tmp_path / "data", workers=workers) as registry:
            process = registry.process
            assert process is not None
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in {0, -signal.SIGTERM}
            with pytest.raises(OSError, match=r"refused|reset"):
                ask(registry.url + "livez")
        assert not any("Traceback" in line for line in registry.log)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = refused(command("serve", "--port", port, "--data", str(tmp_path)), 2)
    assert f"port `{port}`" in told
    assert "--port" in told


def test_an_address_that_is_not_here(tmp_path: Path) -> None:
    environment = {"PLUGREG_REGISTRY_ADMISSION": "anyone"}
    for host in ("203.0.113.1", "no.such.host.invalid", ""):
        refused(command("serve", "--host", host, "--data", str(tmp_path), environment=environment), 2)


def test_anyone_from_the_network_must_be_chosen(tmp_path: Path) -> None:
    told = refused(command("serve", "--host", "::", "--data", str(tmp_path / "data")), 6)
    assert "PLUGREG_REGISTRY_ADMISSION" in told
    assert not (tmp_path / "data").exists()
    settings = read_settings({}, str(tmp_path))
    for host in ("::", "192.0.2.1", "example.com"):
        with pytest.raises(NotAllowed, match="admission_not_chosen"):
            check_exposure(settings, host)
        check_exposure(read_settings({"PLUGREG_REGISTRY_ADMISSION": "anyone"}), host)
        check_exposure(read_settings({"PLUGREG_REGISTRY_ADMISSION": "oidc:https://id.example#*"}), host)
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        check_exposure(settings, host)


def test_all_bad_settings_are_named_at_once(tmp_path: Path) -> None:
    environment = {
        "PLUGREG_REGISTRY_INDEX_MAX_AGE": "-1",
        "PLUGREG_REGISTRY_PUBLIC_URL": "ftp://user:secret@example.com",
        "PLUGREG_REGISTRY_ADMISSION": "someone",
        "PLUGREG_REGISTRY_DATABASE": "postgresql://user:secret@word@host/db",
        "PLUGREG_REGISTRY_BLOBS": "s3://",
        "PLUGREG_REGISTRY_LIMITS_MEMBERS": "many",
        "PLUGREG_REGISTRY_LIMITS_RATIO": "0",
    }
    told = refused(command("serve", "--data", str(tmp_path), environment=environment), 2)
    assert all(f"`{name}`" in told for name in environment)
    assert "secret" not in told


def test_a_setting_that_is_misspelt_is_told(tmp_path: Path) -> None:
    done = command("init", "--data", str(tmp_path), environment={"PLUGREG_REGISTRY_ADMISION": "anyone"})
    assert done.returncode == 0
    assert done.stderr == "warning: `PLUGREG_REGISTRY_ADMISION` is not a setting of this version\n"


def test_settings_from_the_environment(tmp_path: Path) -> None:
    settings = read_settings(
        {
            "PLUGREG_REGISTRY_DATA": str(tmp_path),
            "PLUGREG_REGISTRY_BLOBS": f"file://{tmp_path}/objects-elsewhere",
            "PLUGREG_REGISTRY_DATABASE": f"sqlite:{tmp_path}/db",
            "PLUGREG_REGISTRY_LIMITS_COMPRESSED": "1000",
        }
    )
    assert (settings.data, settings.objects, settings.database) == (
        tmp_path,
        tmp_path / "objects-elsewhere",
        tmp_path / "db",
    )
    assert settings.limits.compressed == 1000
    assert settings.limits.members == 20_000
    assert read_settings({"PLUGREG_REGISTRY_DATA": "/elsewhere"}, str(tmp_path)).data == tmp_path
    with pytest.raises(UsageError, match="setting_invalid"):
        read_settings({"PLUGREG_REGISTRY_LIMITS_COMPRESSED": "1e3"})


@pytest.mark.parametrize("arguments", [["serve", "--workers", "0"], ["serve", "--port", "x"], ["what"], []])
def test_what_is_no_command(arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert "usage: plugreg-registry" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_folder_that_cannot_be_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("a file")
    refused(command("init", "--data", str(file)), 2)
    refused(command("init", "--data", str(file / "below")), 2)
    refused(command("migrate", "--data", str(tmp_path / "nothing")), 2)


def test_a_database_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "registry.sqlite3").write_bytes(b"this is a text" * 1000)
    refused(command("serve", "--port", "0", "--data", str(tmp_path)), 8)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused(command("init", "--data", str(tmp_path / "data")), 8)


def test_help_has_examples() -> None:
    for arguments in (["--help"], ["serve", "--help"], ["init", "--help"], ["migrate", "--help"]):
        done = command(*arguments)
        assert done.returncode == 0
        assert "Example: plugreg-registry" in done.stdout


@pytest.mark.parametrize("umask", ["077", "000"])
def test_permissions_are_what_they_should_be_whatever_the_umask_is(tmp_path: Path, umask: str) -> None:
    data = tmp_path / "data"
    shell = ("sh", "-c", f'umask {umask}; exec "$@"', "sh")
    with running(data, prefix=shell) as registry:
        author = Author(registry.url, registry.id)
        assert author.publish(plugin()).status == 201
        begun = author.begin(plugin(version="1.1.0"), version="1.1.0").json()
        assert ask(author.at(begun["upload"]), "PUT", plugin(version="1.1.0")).status == 204
        public = [data, data / "objects", *(data / "objects").rglob("*")]
        assert {path.name for path in public} >= {"plugreg.json", "demo.json", "sha256"}
        for path in public:
            assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
        databases = list(data.glob("registry.sqlite3*"))
        assert len(databases) == 3
        for path in [*databases, *(data / "uploads").iterdir()]:
            assert path.stat().st_mode & 0o777 == 0o600, path
        for folder in ("uploads", "locks"):
            assert (data / folder).stat().st_mode & 0o777 == 0o700


def test_permissions_from_before_are_put_right(tmp_path: Path) -> None:
    command("init", "--data", str(tmp_path))
    for path, mode in (("objects", 0o700), ("objects/blobs/sha256", 0o700), ("registry.sqlite3", 0o644)):
        (tmp_path / path).chmod(mode)
    (tmp_path / "uploads").chmod(0o755)
    assert command("init", "--data", str(tmp_path)).returncode == 0
    found = [(tmp_path / path).stat().st_mode & 0o777 for path in ("objects", "objects/blobs/sha256")]
    assert found == [0o755, 0o755]
    assert (tmp_path / "registry.sqlite3").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "uploads").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'[tiers]\ndemo = "D"\nNot_A_Name = "A"\n', ["`demo`", "Not_A_Name"]),
        (b"[tiers\n", ["tier_policy_invalid"]),
        (b"\xff\xfe", ["tier_policy_invalid"]),
        (b"tears = 1\n", ["`tears`"]),
        (b"#" * (1 << 21), ["at most"]),
        (None, ["there is no file"]),
    ],
    ids=["tiers", "no toml", "no text", "another key", "too large", "missing"],
)
def test_a_bad_tier_policy_stops_the_start(tmp_path: Path, content: bytes | None, told: list[str]) -> None:
    policy = tmp_path / "tiers.toml"
    if content is not None:
        policy.write_bytes(content)
    done = command("serve", "--port", "0", cwd=tmp_path, environment={"PLUGREG_REGISTRY_TIERS": "tiers.toml"})
    words = refused(done, 2)
    assert "PLUGREG_REGISTRY_TIERS" in words
    for word in told:
        assert word in words, words
    assert not (tmp_path / "plugreg-data").exists()
