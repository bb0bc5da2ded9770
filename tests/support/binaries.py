"""The beginnings of native programs, as linkers write them, and a plugin that starts some."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Final

from plugreg_schemas.bundle import pack
from plugreg_schemas.tree import MemoryTree, Node

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMAS: Final = "https://agent-plugins.org/schemas/1.0.0"
X86_64, ARM64 = 0x01000007, 0x0100000C


def elf(machine: int = 62, *, bits: int = 2, data: int = 1, abi: int = 0, kind: int = 3) -> bytes:
    order = ">" if data == 2 else "<"
    head = b"\x7fELF" + bytes([bits, data, 1, abi]) + bytes(8) + struct.pack(order + "HHI", kind, machine, 1)
    return head.ljust(64 if bits == 2 else 52, b"\0")


def macho(cpu: int, *, kind: int = 2) -> bytes:
    magic = 0xFEEDFACF if cpu & 0x01000000 else 0xFEEDFACE
    return struct.pack("<7I", magic, cpu, 3, kind, 16, 1800, 0x85).ljust(32, b"\0")


def fat(*cpus: int, wide: bool = False) -> bytes:
    head = struct.pack(">II", 0xCAFEBABF if wide else 0xCAFEBABE, len(cpus))
    shape = ">IIQQII" if wide else ">IIIII"
    rest = (0,) if wide else ()
    return head + b"".join(struct.pack(shape, cpu, 3, 0x4000, 0x4000, 14, *rest) for cpu in cpus)


def pe(machine: int, *, offset: int = 0x80, traits: int = 0x0022) -> bytes:
    stub = b"MZ".ljust(0x3C, b"\x90") + struct.pack("<I", offset)
    return stub.ljust(offset, b"\0") + b"PE\0\0" + struct.pack("<HHIIIHH", machine, 3, 0, 0, 0, 0xF0, traits)


def plugin_of(commands: Mapping[str, bytes], called: str = "demo", **more: object) -> MemoryTree:
    """A plugin with one server for each program, called as its file in `bin`; `more` are other servers."""
    servers = {name: {"type": "stdio", "command": f"./bin/{name}"} for name in commands} | more
    manifest = {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": called, "version": "1.0.0"}
    files = {
        "plugin.json": json.dumps(manifest).encode(),
        "mcp.json": json.dumps({"$schema": f"{SCHEMAS}/mcp.schema.json", "mcpServers": servers}).encode(),
    }
    programs = {f"bin/{name}": content for name, content in commands.items()}
    nodes = {path: Node("file", len(content)) for path, content in files.items()}
    nodes |= {path: Node("file", len(content), executable=True) for path, content in programs.items()}
    return MemoryTree(nodes, files | programs)


def packed(tree: MemoryTree) -> bytes:
    return pack(tree).content
