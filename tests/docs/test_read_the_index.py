"""The programs of `docs/read-the-index.md`, against the files of a registry that no registry serves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugreg_registry.app import compose, prepare
from plugreg_registry.listing import Lister
from plugreg_registry.settings import read_settings
from plugreg_schemas.names import Digest
from tests.registry.test_killed import publish
from tests.support.publisher import Author, plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "read-the-index.md"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the library
        pass


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a plain file server over the objects of a registry with the plugin `hello`."""
    settings = read_settings({}, str(tmp_path_factory.mktemp("registry") / "data"))
    author = Author("", prepare(settings).ref.id)
    registry = compose(settings)
    try:
        publish(registry.services.publishing, author, "hello")
        assert Lister(registry.index).round()
    finally:
        registry.close()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(settings.objects)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def program(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def run(command: list[str], files: str, folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "REGISTRY": files},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is not installed")
def test_curl_lists_and_downloads(files: str, tmp_path: Path) -> None:
    out = run(["sh", "-euc", program("sh")], files, tmp_path)
    assert out.startswith("hello 1.0.0")
    assert out.endswith("hello-1.0.0.tar.zst: OK\n")


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_node_lists_and_downloads(files: str, tmp_path: Path) -> None:
    (tmp_path / "list.mjs").write_text(program("js"), "utf-8")
    assert run(["node", "list.mjs"], files, tmp_path).startswith("hello 1.0.0")
    assert Digest.of((tmp_path / "hello.tar.zst").read_bytes()) == Digest.of(plugin("hello"))
