"""A real Caddy with one of the configurations of `infra/`.

with caddy("Caddyfile", PLUGREG_REGISTRIES="127.0.0.1:8470 127.0.0.1:8471") as url: ...
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.nginx import INFRA, READY_S, free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM: Final = Path(sys.executable).with_name("caddy")


@contextmanager
def caddy(configuration: str, **settings: str) -> Iterator[str]:
    """Caddy on a free port of this machine; the value is its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="caddy-") as home:
        process = subprocess.Popen(
            [PROGRAM, "run", "--adapter", "caddyfile", "--config", str(INFRA / configuration)],
            env={"HOME": home, "PLUGREG_SITE": url, **settings},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(process, port)
            yield f"{url}/"
        finally:
            process.terminate()
            process.communicate(timeout=READY_S)
