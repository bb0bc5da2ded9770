"""The registry as its container runs it: a user without a name, and nothing can be written but the data and `/tmp`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.publisher import Author, ask, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from pathlib import Path

USER: Final = 54_321
WITHIN: Final = (
    'mount --make-rprivate / && mount --bind "$0" /mnt && mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp'
    " && mount --bind /mnt/keys /mnt/keys && mount -o remount,bind,ro /mnt/keys && mount -o remount,bind,ro /"
    f' && exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs --inh-caps=-all "$@"'
)


def within(folder: Path) -> list[str]:
    """What starts a command there, with the folder as `/mnt` and its `keys` read-only."""
    return ["unshare", "--mount", "--", "sh", "-c", WITHIN, str(folder)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of a registry that was made elsewhere, as a secret is mounted: the group may read them."""
    for name in ("data", "keys", "objects"):
        (tmp_path / name).mkdir()
    environment = {
        "PLUGREG_REGISTRY_KEYS": str(tmp_path / "keys"),
        "PLUGREG_REGISTRY_BLOBS": f"file:{tmp_path / 'objects'}",
    }
    with running(tmp_path / "data", environment=environment):
        pass
    shutil.move(tmp_path / "keys" / "offline", tmp_path / "drawer")
    for place in (tmp_path / "data", tmp_path / "objects"):
        for path in (place, *place.rglob("*")):
            os.chown(path, USER, USER)
    for place in (tmp_path, tmp_path / "keys"):
        place.chmod(0o755)
    for key in (tmp_path / "keys").iterdir():
        os.chown(key, 0, USER)
        key.chmod(0o440)
    return tmp_path


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root may mount")
def test_it_serves_and_publishes_from_a_read_only_root(folder: Path) -> None:
    probe = [*within(folder), sys.executable, "-c", "open('/probe', 'w')"]
    refused = subprocess.run(probe, capture_output=True, text=True, check=False)
    if "Read-only file system" not in refused.stderr:
        pytest.skip(
            f"mounting is not possible here, or another user cannot run Python: {refused.stderr[-200:]}"
        )
    environment = {
        "HOME": "/tmp",
        "PLUGREG_REGISTRY_KEYS": "/mnt/keys",
        "PLUGREG_REGISTRY_BLOBS": "file:/mnt/objects",
        "PLUGREG_REGISTRY_ADMISSION": "anyone",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    registry = RegistryProcess(folder / "data", environment=environment, prefix=within(folder))
    registry.data = type(folder)("/mnt/data")
    try:
        registry.start()
        assert Author(registry.url, registry.id).publish(plugin()).status == 201
        assert ask(registry.url + "readyz").json()["warnings"] == []
        assert not [line for line in registry.log if "Read-only" in line or "Traceback" in line]
    finally:
        registry.stop()
