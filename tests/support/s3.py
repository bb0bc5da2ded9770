"""A real S3 for tests: one SeaweedFS for all test processes of a run, and a prefix of its own for each test.

server = shared_server(tmp_path_factory)          started by the first who asks, stopped with the last
store = StoreProcess(tmp_path / "store")          one that may be killed and started again
bucket = server.bucket()                          a `Bucket` that nobody else uses
with opened(bucket) as client: ...                a client for it
environment = server.environment(bucket)          what a registry process needs to use it
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from plugreg_registry.blobs.bucket import open_bucket
from plugreg_registry.storage import Bucket
from tests.support.scripted import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plugreg_registry.blobs.bucket import OpenBucket, Patience
    from tests.support.scripted import Request

ACCESS_KEY: Final = "AKADMIN"
SECRET_KEY: Final = "SKADMIN-a-secret-that-must-not-be-printed"
BUCKET: Final = "plug"
OPEN: Final = "open/"
"""What lies below this prefix may be read by anybody, as in a public bucket."""
IDENTITIES: Final = (
    {
        "name": "admin",
        "credentials": ({"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY},),
        "actions": ("Admin", "Read", "Write", "List", "Tagging"),
    },
    {"name": "anonymous", "actions": (f"Read:{BUCKET}/{OPEN}*",)},
)
"""Who may do what."""
START_SECONDS: Final = 60
_PORTS: Final = range(20_000, 50_000)
"""Each is also used plus 10,000."""
_STARTED: Final[dict[int, subprocess.Popen[bytes]]] = {}


@dataclass(frozen=True, slots=True)
class S3Server:
    """A store that runs."""

    endpoint: str

    def bucket(self, endpoint: str = "", below: str = "") -> Bucket:
        """A place of its own; through another endpoint if one stands in front."""
        return Bucket(BUCKET, f"{below}{secrets.token_hex(8)}/", endpoint or self.endpoint)

    def environment(self, bucket: Bucket) -> dict[str, str]:
        """The settings of a registry that keeps its objects there."""
        return {
            "PLUGREG_REGISTRY_BLOBS": bucket.url.rstrip("/"),
            "PLUGREG_REGISTRY_S3_ENDPOINT": bucket.endpoint,
            **credentials(),
        }


def credentials() -> dict[str, str]:
    """The environment that boto3 finds the credentials of the store in, and nothing else of this machine."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def opened(bucket: Bucket, patience: Patience | None = None) -> Iterator[OpenBucket]:
    """A client for a bucket, with the credentials of the store, closed afterwards."""
    before = dict(os.environ)
    os.environ.update(credentials())
    try:
        client = open_bucket(bucket, patience)
    finally:
        os.environ.clear()
        os.environ.update(before)
    try:
        yield client
    finally:
        client.client.close()


@contextmanager
def shared_server(folder: Path) -> Iterator[S3Server]:
    """One server for all processes that name the same folder, as long as one of them uses it.

    Each user holds a shared lock; who can have it alone is the first, and starts it, or the last, and stops
    it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users").open("a") as users, (folder / "turn").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        facts = folder / "server.json"
        if not facts.exists():
            facts.write_text(json.dumps(_start(folder)))
        started = json.loads(facts.read_text())
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        try:
            yield S3Server(started["endpoint"])
        finally:
            fcntl.flock(turn, fcntl.LOCK_EX)
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _stop(started["pid"])
                facts.unlink()


@dataclass
class StoreProcess:
    """A SeaweedFS of its own over `folder`, on ports that it keeps.

    store.start(); store.kill(); store.start()          the same objects, at the same endpoint
    """

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    ports: tuple[int, ...] = field(default_factory=lambda: tuple(_free_ports(5)))

    @property
    def server(self) -> S3Server:
        return S3Server(f"http://127.0.0.1:{self.ports[3]}")

    def start(self) -> None:
        """Start it and return when objects can be put."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "id.json").write_text(json.dumps({"identities": IDENTITIES}))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        try:
            _wait(self.server.endpoint, self.process, self.folder / "log")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End it as a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _command(self) -> list[str]:
        master, volume, filer, s3, admin = self.ports
        command = [str(Path(sys.executable).with_name("weed")), "mini", f"-dir={self.folder}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}"]
        command += [f"-filer.port={filer}", f"-s3.port={s3}", f"-admin.port={admin}", "-webdav=false"]
        command += ["-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-bucket={BUCKET}"]
        sockets = Path("/tmp") / f"plugreg-weed-{secrets.token_hex(6)}"  # the name of a socket must be short
        command += [f"-filer.localSocket={sockets}-f", f"-s3.localSocket={sockets}-s"]
        return [*command, f"-s3.config={self.folder / 'id.json'}"]


def _start(folder: Path) -> dict[str, object]:
    store = StoreProcess(folder / secrets.token_hex(4))
    store.start()
    assert store.process is not None
    _STARTED[store.process.pid] = store.process
    return {"pid": store.process.pid, "endpoint": store.server.endpoint}


def _wait(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when a first object can be put: the server says earlier that it is well."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(
        signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}
    )
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
        config=config,
    )
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            client.put_object(Bucket=BUCKET, Key="first", Body=b"1")
        except (BotoCoreError, ClientError):
            time.sleep(0.1)
        else:
            client.close()
            return
    raise RuntimeError(f"the store did not start: {log.read_text(errors='replace')[-2000:]}")


def _stop(pid: int) -> None:
    """End it at once: nobody wants its data."""
    process = _STARTED.pop(pid, None)
    if process is not None:
        process.kill()
        process.wait()
    else:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _free_ports(number: int) -> list[int]:
    """Ports below the ones that the system gives to outgoing connections where that is possible."""
    found: list[int] = []
    while len(found) < number:
        port = secrets.choice(_PORTS)
        if port not in found and all(map(_is_free, (port, port + 10_000))):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def forwarding(endpoint: str) -> Callable[[Request], Answer]:
    """What stands in front of a store and lets everything through: the beginning of one that does not."""
    parts = urlsplit(endpoint)

    def forward(request: Request) -> Answer:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(request.body)
            answer = connection.getresponse()
            kept = {
                n: v for n, v in answer.getheaders() if n.lower() not in {"connection", "transfer-encoding"}
            }
            return Answer(answer.status, answer.read(), kept)
        finally:
            connection.close()

    return forward


def refusal(status: int, code: str) -> Answer:
    """How a store says no."""
    content = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return Answer(status, content, {"Content-Type": "application/xml"})
