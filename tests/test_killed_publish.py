"""A publish whose client is killed at any moment leaves nothing half visible, and repeating it succeeds."""

from __future__ import annotations

import hashlib
import json
import random
import time
import urllib.request
from typing import TYPE_CHECKING

from tests.support.commands import User, write_plugin
from tests.support.registries import running

if TYPE_CHECKING:
    from pathlib import Path

MOMENTS = 25


def test_client_killed_at_any_moment_of_a_publish(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "plugin", files={"big.bin": random.Random(1).randbytes(3_000_000)})
    with running(tmp_path / "registry") as registry:
        ann = User(tmp_path / "ann")
        ann.run("registry", "add", registry.url)
        ann.run("key", "new")
        began = time.monotonic()
        ann.run("publish", str(folder))
        whole = time.monotonic() - began
        seen = 0
        for moment in range(1, MOMENTS + 1):
            write_plugin(folder, version=f"1.0.{moment}")
            process = ann.start("publish", str(folder))
            time.sleep(whole * moment / MOMENTS)
            process.kill()
            process.communicate()
            before = served(registry.url)
            seen += f"1.0.{moment}" in before
            ann.run("publish", str(folder))
            after = served(registry.url)
            assert before.items() <= after.items()
            assert f"1.0.{moment}" in after
        assert seen < MOMENTS, "no publish was cut short"


def served(url: str) -> dict[str, str]:
    """Return the digests by version that the index shows, each of them fetched and proved."""
    with urllib.request.urlopen(f"{url}index/plugins/demo.json") as answer:
        document = json.load(answer)
    found = {}
    for entry in document["versions"]:
        hexadecimal = entry["digest"].removeprefix("sha256:")
        with urllib.request.urlopen(f"{url}blobs/sha256/{hexadecimal}") as answer:
            assert hashlib.sha256(answer.read()).hexdigest() == hexadecimal
        for attestation in entry["attestations"]:
            name = attestation.removeprefix("sha256:")
            with urllib.request.urlopen(f"{url}attestations/sha256/{name}.json") as answer:
                assert hashlib.sha256(answer.read()).hexdigest() == name
        found[entry["version"]] = entry["digest"]
    return found
