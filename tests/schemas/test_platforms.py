"""Where native programs run: told by their first bytes, kept in bundles, asked when a host chooses."""

from __future__ import annotations

import io
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg.machine import this_platform
from plugreg_schemas import acceptance, formats
from plugreg_schemas.alternatives import Alternative, Offer
from plugreg_schemas.bundle import DEFAULT_LIMITS, outline
from plugreg_schemas.errors import Boundary, Severity
from plugreg_schemas.hosts import Host
from plugreg_schemas.platforms import HEAD, native_head, normal_platform, platforms_of, runs_on
from plugreg_schemas.resolve import resolve
from plugreg_schemas.runtimes import Command
from plugreg_schemas.tree import MemoryTree, Node
from tests.support.binaries import ARM64, X86_64, elf, fat, macho, packed, pe, plugin_of

if TYPE_CHECKING:
    from plugreg_schemas.manifest import Manifest

PROGRAMS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "linux": (elf(62), ("linux-x86_64",)),
    "linux-not-pie": (elf(62, kind=2), ("linux-x86_64",)),
    "linux-gnu-abi": (elf(62, abi=3), ("linux-x86_64",)),
    "linux-arm64": (elf(183), ("linux-arm64",)),
    "linux-riscv64": (elf(243), ("linux-riscv64",)),
    "linux-arm": (elf(40, bits=1), ("linux-arm",)),
    "linux-x86": (elf(3, bits=1), ("linux-x86",)),
    "linux-big-endian": (elf(22, data=2), ("linux-s390x",)),
    "freebsd": (elf(62, abi=9), ("freebsd-x86_64",)),
    "freebsd-arm64": (elf(183, abi=9), ("freebsd-arm64",)),
    "macos-intel": (macho(X86_64), ("macos-x86_64",)),
    "macos-arm64": (macho(ARM64), ("macos-arm64",)),
    "macos-universal": (fat(X86_64, ARM64), ("macos-arm64", "macos-x86_64")),
    "macos-universal-64": (fat(ARM64, X86_64, wide=True), ("macos-arm64", "macos-x86_64")),
    "macos-universal-one-unknown": (fat(18, ARM64), ("macos-arm64",)),
    "windows": (pe(0x8664), ("windows-x86_64",)),
    "windows-arm64": (pe(0xAA64, offset=0xF8), ("windows-arm64",)),
    "windows-x86": (pe(0x14C), ("windows-x86",)),
    "windows-late-header": (pe(0x8664, offset=HEAD - 24), ("windows-x86_64",)),
}
ANYWHERE: dict[str, bytes] = {
    "empty": b"",
    "script": b"#!/usr/bin/env python3\n",
    "text": b"MZ is how this sentence begins",
    "elf-cut": elf()[:19],
    "elf-object": elf(kind=1),
    "elf-core": elf(kind=4),
    "elf-unknown-machine": elf(0xFFFF),
    "elf-unknown-system": elf(abi=255),
    "elf-x32": elf(62, bits=1),
    "elf-no-byte-order": elf(data=0),
    "macho-cut": macho(ARM64)[:15],
    "macho-library": macho(ARM64, kind=6),
    "macho-powerpc": macho(18),
    "fat-cut": fat(X86_64, ARM64)[:-1],
    "fat-empty": fat(),
    "fat-count-lies": b"\xca\xfe\xba\xbe\xff\xff\xff\xff" + bytes(HEAD),
    "java-class": bytes.fromhex("cafebabe00000041") + bytes(2000),
    "pe-cut": pe(0x8664)[:-1],
    "pe-dll": pe(0x8664, traits=0x2022),
    "pe-object": pe(0x8664, traits=0),
    "pe-unknown-machine": pe(0x9999),
    "pe-offset-too-far": b"MZ".ljust(0x3C, b"\0") + b"\xff\xff\xff\xff" + bytes(HEAD),
    "pe-header-behind-the-head": pe(0x8664, offset=HEAD)[:HEAD],
    "dos": b"MZ" + bytes(200),
    "polyglot": b"MZqFpD='\n" + pe(0x8664)[9:],
    "webassembly": b"\0asm\1\0\0\0",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_where_it_runs(name: str) -> None:
    head, platforms = PROGRAMS[name]
    assert platforms_of(head) == platforms
    assert platforms_of(head + b"\xff" * 5000) == platforms


@pytest.mark.parametrize("name", ANYWHERE)
def test_what_is_no_known_program_runs_anywhere(name: str) -> None:
    assert platforms_of(ANYWHERE[name]) == ()
    assert native_head(ANYWHERE[name]) == b""


HOSTILE = st.builds(
    bytes.__add__, st.sampled_from([b"", *(head[:20] for head, _ in PROGRAMS.values())]), st.binary()
)


@given(head=st.one_of(HOSTILE, st.binary()))
def test_no_header_however_hostile_raises(head: bytes) -> None:
    found = platforms_of(head)
    assert found == tuple(sorted(set(found)))
    assert platforms_of(native_head(head[:HEAD])) == platforms_of(head[:HEAD])


@given(name=st.sampled_from(sorted(PROGRAMS)), cut=st.integers(0, HEAD), at=st.integers(0, 70), byte=st.binary(min_size=1, max_size=1))  # fmt: skip
def test_no_cut_and_no_flipped_byte_raises(name: str, cut: int, at: int, byte: bytes) -> None:
    head = PROGRAMS[name][0]
    assert platforms_of(head[:cut]) in {(), PROGRAMS[name][1]}
    assert isinstance(platforms_of(head[:at] + byte + head[at + 1 :]), tuple)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/bin/true is an ELF program on Linux only")
def test_the_programs_of_this_machine_run_on_this_machine() -> None:
    for program in (Path("/bin/true"), Path(sys.executable)):
        with program.resolve().open("rb") as file:
            assert runs_on(platforms_of(file.read(HEAD)), this_platform()), program


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("Linux-AMD64", "linux-x86_64"),
        ("darwin-arm64", "macos-arm64"),
        ("linux", "linux"),
        ("a-b-c", "a-b-c"),
    ],
)
def test_platforms_go_by_other_names_too(written: str, usual: str) -> None:
    assert normal_platform(written) == usual
    assert runs_on((usual,), written)


def test_windows_runs_its_older_programs_and_nobody_elses() -> None:
    assert runs_on(("windows-x86",), "windows-x86_64")
    assert runs_on(("windows-x86_64",), "windows-arm64")
    assert not runs_on(("windows-arm64",), "windows-x86_64")
    assert not runs_on(("linux-x86_64", "macos-x86_64"), "windows-x86_64")
    assert not runs_on(("macos-x86_64",), "macos-arm64")


# --- a plugin


def manifest_of(tree: MemoryTree) -> Manifest:
    manifest = formats.read(tree).manifest
    assert manifest is not None
    return manifest


def places(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    return {c.id: r.platforms for c in manifest.components for r in c.runtimes if isinstance(r, Command)}


SCRIPT = b"#!/bin/sh\n"
PYTHON = {"type": "stdio", "command": "python3"}
REMOTE = {"type": "streamable-http", "url": "https://mcp.example.com/v1"}


def test_each_command_has_its_platforms_and_the_plugin_all_of_them() -> None:
    manifest = manifest_of(plugin_of({"one": elf(183), "two": fat(X86_64, ARM64)}, far=REMOTE))
    assert places(manifest) == {"one": ("linux-arm64",), "two": ("macos-arm64", "macos-x86_64")}
    assert manifest.platforms == ("linux-arm64", "macos-arm64", "macos-x86_64")


@pytest.mark.parametrize(
    "tree",
    [plugin_of({"one": elf(), "two": SCRIPT}), plugin_of({"one": elf()}, two=PYTHON), plugin_of({}, far=REMOTE)],
    ids=["script", "launcher", "no-command"],
)  # fmt: skip
def test_a_plugin_of_which_something_runs_anywhere_names_no_platform(tree: MemoryTree) -> None:
    assert manifest_of(tree).platforms == ()


def test_a_command_that_is_a_link_has_the_platforms_of_its_end() -> None:
    plain = plugin_of({"one": elf(), "real": pe(0x8664)})
    nodes = dict(plain.nodes) | {"bin/one": Node("link", target="real")}
    assert places(manifest_of(MemoryTree(nodes, plain.contents)))["one"] == ("windows-x86_64",)


@pytest.mark.parametrize(
    "text",
    [
        'id: demo\nversion: "1.0.0"\nkind: sidecar\nentry: {command: ./bin/one}\n',
        'id: demo\nversion: "1.0.0"\nkind: webview\nentry: {command: ./bin/one}\nprovides: {ui: {entry: index.html}}\n',
    ],
    ids=["sidecar", "backend"],
)
def test_keel_commands_have_platforms_too(text: str) -> None:
    tree = MemoryTree.of({"plugin.yaml": text, "ui/index.html": "x", "bin/one": elf(183)})
    assert manifest_of(tree).platforms == ("linux-arm64",)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_bundle_read_as_a_stream_tells_what_the_folder_tells(name: str) -> None:
    head, platforms = PROGRAMS[name]
    tree = plugin_of({"one": head + bytes(9000), "two": SCRIPT})
    carried = outline(io.BytesIO(packed(tree)), DEFAULT_LIMITS, formats.is_wanted)
    assert places(manifest_of(carried)) == places(manifest_of(tree)) == {"one": platforms, "two": ()}
    assert len(carried.contents["bin/one"]) <= HEAD


def test_many_native_files_do_not_make_a_bundle_too_large() -> None:
    noise = random.Random(1)
    libraries = {f"l{number}.so": elf() + noise.randbytes(HEAD) for number in range(9000)}
    carried = outline(io.BytesIO(packed(MemoryTree.of(libraries))), DEFAULT_LIMITS, formats.is_wanted)
    assert sum(map(len, carried.contents.values())) == 9000 * 64


def test_the_registry_notes_each_native_command_and_takes_the_plugin() -> None:
    tree = plugin_of({"one": fat(X86_64, ARM64), "two": SCRIPT})
    found = acceptance.examine(formats.read(tree), tree, packed=True)
    assert found.publishable
    (note,) = found.findings
    assert (note.code, note.severity, note.boundary) == ("native_binary", Severity.NOTE, Boundary.REGISTRY)
    assert (note.file, note.pointer) == ("mcp.json", "/mcpServers/one/command")
    assert note.message == (
        "the command `./bin/one` is a native program: it runs on `macos-arm64`, `macos-x86_64`"
    )


# --- a host that asks

ASKING = Host("h", supports=frozenset({"mcp_stdio", "mcp_http"}))


def test_a_host_is_refused_exactly_the_programs_of_other_platforms() -> None:
    offer = Offer.of(manifest_of(plugin_of({"one": elf(), "two": pe(0x8664), "three": SCRIPT}, far=REMOTE)))
    for platform, refused in {
        "linux-x86_64": {"two"},
        "linux-amd64": {"two"},
        "windows-x86_64": {"one"},
        "macos-arm64": {"one", "two"},
        None: set(),
    }.items():
        found = resolve(offer, replace(ASKING, platform=platform)).components
        assert {o.id for o in found if o.runtime is None} == refused, platform
        assert {r.code for o in found for r in o.refusals} == ({"platform_unsupported"} if refused else set())


def test_the_refusal_names_both_platforms() -> None:
    found = resolve(
        Offer.of(manifest_of(plugin_of({"one": elf(183)}))), replace(ASKING, platform="plan9-x86")
    )
    assert found.code == "runtime_not_supported"
    assert found.components[0].refusals[0].reason == "its command runs on `linux-arm64`, not on `plan9-x86`"


def test_the_platform_is_asked_after_the_tier_and_before_the_runtime() -> None:
    """The order of the grounds: what is refused for two reasons is refused for the first."""
    offer = Offer.of(manifest_of(plugin_of({"one": elf(183)})))
    web = Host("w", host_class="web", platform="macos-arm64", supports=frozenset(), can_spawn=False)
    assert resolve(offer, web).components[0].refusals[0].code == "platform_unsupported"
    tiered = replace(offer, tier="A")
    assert resolve(tiered, web).components[0].refusals[0].code == "transport_forbidden"


def test_an_alternative_travels_with_its_platforms_only_where_it_has_some() -> None:
    one, two = manifest_of(plugin_of({"one": elf(), "two": SCRIPT})).components
    assert Alternative.of(one.runtimes[0]).as_dict() == {
        "runtime": "mcp_stdio",
        "platforms": ("linux-x86_64",),
    }
    assert Alternative.of(two.runtimes[0]).as_dict() == {"runtime": "mcp_stdio"}
