"""Encrypted servers on loopback: an authority of one's own, a TLS front before any server, a proxy that tunnels.

ca = Authority("Inspection")                       ca.write(tmp_path / "ca.pem")
with fronted(server.port, ca.server()) as port:    https://localhost:port speaks to the server
with tunnelling(port) as proxy:                    CONNECT anything:443 leads to this port
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.authorities import authority, new_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

NAMES: Final = ("localhost", "127.0.0.1")


class Authority:
    """A certificate authority that no system knows."""

    def __init__(self, name: str = "inspection") -> None:
        self.key = new_key()
        self.certificate = authority(name, self.key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def write(self, path: Path) -> str:
        path.write_bytes(self.pem)
        return str(path)

    def server(self, *names: str, days: int = 1) -> ssl.SSLContext:
        """What a server for these names shows; with negative `days` it has expired."""
        key, now = new_key(), datetime.now(UTC)
        alternatives = [_name(name) for name in names or NAMES]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plugreg test server")]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=9))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
            .sign(self.key, hashes.SHA256())
        )
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.public_bytes(Encoding.PEM) + secret)
            file.flush()
            context.load_cert_chain(file.name)
        return context


@dataclass
class Tunnel:
    """A proxy. It keeps the heads of what it was asked for, and refuses who does not say `password`."""

    port: int = 0
    password: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [head.split()[1] for head in self.asked]


@contextmanager
def fronted(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Speak TLS on a port of its own, before the server at `port`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _joined(reader, writer, port)

    with _listening(handle, context) as own:
        yield own


@contextmanager
def tunnelling(port: int, *, password: str = "") -> Iterator[Tunnel]:
    """Run a proxy by which every host leads to the server at `port`: by CONNECT, or as an absolute address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        tunnel.asked.append(head)
        if tunnel.password and f"proxy-authorization: {tunnel.password}\r\n".lower() not in head.lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        elif head.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _joined(reader, writer, port)
        else:
            method, address, rest = head.split(" ", 2)
            target = urlsplit(address).path or "/"
            await _joined(reader, writer, port, f"{method} {target} {rest}".encode())

    tunnel = Tunnel(password=password)
    with _listening(handle) as tunnel.port:
        yield tunnel


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@contextmanager
def _listening(handle: Handle, context: ssl.SSLContext | None = None) -> Iterator[int]:
    ports: list[int] = []
    ready = threading.Event()

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # a refused handshake is no news
        server = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        stop.append((asyncio.get_running_loop(), asyncio.Event()))
        ready.set()
        await stop[0][1].wait()
        server.close()

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await handle(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield ports[0]
    finally:
        loop, event = stop[0]
        loop.call_soon_threadsafe(event.set)
        thread.join()


async def _joined(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, first: bytes = b""
) -> None:
    """Carry bytes both ways between a client and the server at `port`, until either ends."""
    back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
    back_writer.write(first)
    ways = [
        asyncio.create_task(_carried(reader, back_writer)),
        asyncio.create_task(_carried(back_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        back_writer.transport.abort()


async def _carried(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(1 << 16):
        writer.write(content)
        await writer.drain()
