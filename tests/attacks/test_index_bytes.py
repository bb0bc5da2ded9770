"""Bytes of the index are longer, shorter, other or no sense at all: on the way, in the bucket, in the cache."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.index import metadata_key
from tests.support.attacked import attacked
from tests.support.scripted import Answer, serving
from tests.support.tuf_repository import TufRepository

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.attacked import Person, Scene
    from tests.support.scripted import Request

MIXED = "index_mismatch"
MEBIBYTE = 1 << 20
ROLES = ["root", "timestamp", "snapshot", "targets", "index", "the bin", "revocations"]


def place_of(scene: Scene, role: str) -> str:
    """Where the newest metadata of a role lie."""
    return scene.index.current(scene.index.bin_of("demo") if role == "the bin" else role)


# --- more than announced ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [*ROLES, "the document", "trust.json", "the statement"])
def test_endless_data(tmp_path: Path, what: str) -> None:
    """64 MiB are offered. A person reads no more than a role may have, 5 MB; the rest is in the sockets."""
    with attacked(tmp_path) as scene:
        scene.publish("1.0.0")
        if what == "the document":
            place = scene.index.document_key("demo")
        elif what == "the statement":
            place = next(path for path in scene.index.store if path.startswith("attestations/"))
        elif what == "trust.json":
            place = next(path for path in scene.index.store if path.endswith(".trust.json"))
        else:
            place = place_of(scene, what)
        endless = scene.index.store[place] + b" " * (64 * MEBIBYTE)

        def answer(request: Request) -> Answer:
            if request.path.strip("/") == place:
                return Answer(200, endless, {"Content-Type": "application/json"})
            return scene.index.answer(request)

        with serving(answer) as server:
            scene.server = server
            code, problem = scene.person.fails("install", "demo", "--registry", server.url)
            assert code in {3, 4, 7}, problem
            assert scene.person.installed() == {}
            assert server.sent < 12 * MEBIBYTE, f"{server.sent} bytes of {what} went out"


@pytest.mark.parametrize("what", ["snapshot", "the document"])
def test_one_byte_more_than_announced(scene: Scene, what: str) -> None:
    """A blank at the end changes no signature, and is not what was announced."""
    scene.publish("1.1.0")
    place = scene.index.document_key("demo") if what == "the document" else place_of(scene, what)
    scene.index.store[place] += b" "
    scene.refused("update", exits=4, codes=MIXED)


# --- other bytes -----------------------------------------------------------------------------------------------------


def test_document_altered_on_the_way(scene: Scene) -> None:
    """As long as before, with another reason in it."""
    scene.publish("1.1.0")
    place = scene.index.document_key("demo")
    content = scene.index.store[place]
    altered = content.replace(b'"agent-plugins"', b'"agent-plugin5"', 1)
    assert (altered != content, len(altered)) == (True, len(content))
    scene.index.store[place] = altered
    scene.refused("update", exits=4, codes=MIXED)
    scene.refused("install", "demo", exits=4, codes=MIXED, person=scene.newcomer())


def test_plain_copy_of_the_document_altered(scene: Scene) -> None:
    """It is for readers that verify nothing. This client never reads it."""
    scene.index.store["index/plugins/demo.json"] = b'{"name": "demo", "versions": []}'
    scene.run("install", "demo", person=scene.newcomer())


def test_document_of_another_plugin_under_the_name(scene: Scene) -> None:
    scene.publish("1.0.0", "other", scene.stranger)
    theirs = scene.index.documents["other"]
    scene.index.store[scene.index.document_key("demo")] = theirs
    scene.refused("install", "demo", exits=4, codes=MIXED, person=scene.newcomer())
    scene.index.documents["demo"] = theirs
    scene.index.publish()
    for person in (scene.person, scene.newcomer()):
        scene.refused("install", "demo", exits=4, person=person)
    assert scene.person.installed() == {"demo": "1.0.0"}


def test_older_document_that_the_index_key_lists_again(scene: Scene) -> None:
    """All online keys: versions may be withheld, and what a person has seen of the history may not."""
    first = scene.index.documents["demo"]
    scene.publish("1.1.0")
    second = scene.index.documents["demo"]
    scene.offers.yank(scene.author, "demo", "1.0.0", "loses data")
    scene.index.take(scene.offers)
    scene.run("update")
    for older, exits, code in ((second, 4, "history_forked"), (first, 7, "version_withheld")):
        scene.index.documents["demo"] = older
        scene.index.publish()
        scene.refused("update", exits=exits, codes=code)


def no_json(_: bytes) -> bytes:
    return b"\xff\x00no json"


def deep(_: bytes) -> bytes:
    return b"[" * 100_000


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def nothing(_: bytes) -> bytes:
    return b""


def other_type(content: bytes) -> bytes:
    value = json.loads(content)
    value["signed"]["_type"] = "mirrors"
    return canonical_json(value)


def other_shape(content: bytes) -> bytes:
    value = json.loads(content)
    value["signed"] = ["as", 1, "pleases"]
    return canonical_json(value)


def version_of_text(content: bytes) -> bytes:
    value = json.loads(content)
    value["signed"]["version"] = "1"
    return canonical_json(value)


def huge_number(content: bytes) -> bytes:
    return content.replace(b'"version":', b'"version":1' + b"0" * 5000 + b',"was":', 1)


def year_zero(content: bytes) -> bytes:
    value = json.loads(content)
    value["signed"]["expires"] = "0000-00-00T00:00:00Z"
    return canonical_json(value)


NONSENSE: list[Callable[[bytes], bytes]] = [
    no_json, deep, half, nothing, other_type, other_shape, version_of_text, huge_number, year_zero,
]  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("change", NONSENSE, ids=lambda change: change.__name__)
def test_metadata_that_make_no_sense(scene: Scene, role: str, change: Callable[[bytes], bytes]) -> None:
    """Refused with a code, and never a traceback."""
    scene.publish("1.1.0")
    if role in {"targets", "index", "revocations"}:
        scene.index.put(role)
        scene.index.seal()
    if role == "root":
        scene.index.next_root()
    place = place_of(scene, role)
    scene.index.store[place] = change(scene.index.store[place])
    scene.refused("update", exits=4)


@pytest.mark.parametrize("role", ["snapshot", "targets", "index", "the bin"])
def test_metadata_that_are_missing(scene: Scene, role: str) -> None:
    scene.publish("1.1.0")
    if role in {"targets", "index"}:
        scene.index.put(role)
        scene.index.seal()
    del scene.index.store[place_of(scene, role)]
    scene.refused("update", exits=7)


def test_target_path_that_leaves_the_registry(scene: Scene) -> None:
    """A name is what is typed and never a way somewhere else."""
    for name in ("../demo", "demo/../demo", "..", "/etc/passwd", "demo%2f..", "DEMO"):
        code, problem = scene.newcomer().fails("install", name, "--registry", scene.url)
        assert code in {2, 3, 7}, problem


# --- the cache -------------------------------------------------------------------------------------------------------


def cached(person: Person) -> list[Path]:
    """Everything that this machine keeps of the index."""
    files = [path for path in (person.home / "index").rglob("*") if path.is_file()]
    return sorted(path for path in files if path.stat().st_size and not path.is_symlink())


def flip(path: Path, place: int) -> bytes:
    """Change one bit of a file; returns what was in it."""
    content = path.read_bytes()
    altered = bytearray(content)
    altered[place % len(content)] ^= 1
    path.write_bytes(bytes(altered))
    return content


@pytest.mark.parametrize("part", [3, 2])
def test_k10_flipped_bit_in_a_cached_file(online: Scene, part: int) -> None:
    """K10: fetched again online; offline refused, and never believed. Every file of the cache, one by one.

    What offline goes through has not read the file: the pinned root stands elsewhere as well.
    """
    files = cached(online.person)
    assert files
    for path in files:
        before = flip(path, path.stat().st_size // part)
        code, said, _ = online.person.raw("install", "demo", "--offline", "--registry", online.url, "--json")
        assert code in ({0, 4, 7} if path.name in {"1.root.json", "registry.json"} else {4, 7}), (
            f"{path}: {said}"
        )
        online.run("install", "demo")
        online.person.run("install", "demo", "--offline", "--registry", online.url)
        if path.exists():
            path.write_bytes(before)


def test_cache_that_is_replaced_by_a_strangers(online: Scene) -> None:
    """A restored CI cache comes from somewhere else: the pin decides, not the cache."""
    other = TufRepository(online.index.registry)
    other.take(online.offers)
    with serving(other.answer) as server:
        stranger = online.newcomer()
        stranger.run("install", "demo", "--registry", server.url)
    theirs = {path.name: path for path in cached(stranger)}
    replaced = [path for path in cached(online.person) if path.name in theirs]
    assert replaced
    for path in replaced:
        path.write_bytes(theirs[path.name].read_bytes())
    online.publish("1.1.0")
    online.run("update")
    assert online.person.installed() == {"demo": "1.1.0"}


@pytest.mark.parametrize("kind", ["folder", "link to nowhere", "link elsewhere", "pipe", "empty"])
def test_something_else_in_the_place_of_a_cached_file(online: Scene, kind: str) -> None:
    """Never a traceback; online the command goes through or says what stands in the way."""
    elsewhere = online.folder / "elsewhere"
    elsewhere.write_text("precious")
    for path in cached(online.person):
        before = path.read_bytes()
        path.unlink()
        match kind:
            case "folder":
                path.mkdir()
            case "link to nowhere":
                path.symlink_to("nowhere")
            case "link elsewhere":
                path.symlink_to(elsewhere)
            case "pipe":
                os.mkfifo(path)
            case _:
                path.touch()
        online.person.raw("install", "demo", "--offline", "--registry", online.url)
        online.person.raw("install", "demo", "--registry", online.url)
        assert online.person.installed() == {"demo": "1.0.0"}
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(before)
    online.run("install", "demo")
    assert elsewhere.read_text() == "precious"


@pytest.mark.parametrize("place", ["index", "the registry's folder", "lock"])
def test_something_else_in_the_place_of_the_folder(online: Scene, place: str) -> None:
    """The refusal names the place, and what helps: not another plugins root."""
    (folder,) = (online.person.home / "index").iterdir()
    path = {"index": folder.parent, "lock": folder / "lock"}.get(place, folder)
    shutil.move(path, online.folder / "away")
    if place == "lock":
        path.mkdir()
    else:
        path.write_text("precious")
    for words in (("install", "demo"), ("info", "demo")):
        code, problem = online.person.fails(*words, "--registry", online.url)
        assert (code, problem["code"]) == (6, "root_damaged"), problem
        assert str(path) in problem["detail"]
        assert "PLUGREG_HOME" in problem["hint"]
    assert place == "lock" or path.read_text() == "precious"


def test_offline_after_the_index_was_seen_and_the_registry_is_gone(online: Scene) -> None:
    """`--offline` asks nobody: the server counts no request."""
    before = len(online.server.requests)
    online.person.run("install", "demo", "--offline", "--registry", online.url)
    assert len(online.server.requests) == before
    newcomer = online.newcomer()
    code, problem = newcomer.fails("install", "demo", "--offline", "--registry", online.url)
    assert (code, len(online.server.requests)) == (7, before), problem


def test_an_unchanged_index_costs_little(online: Scene) -> None:
    """One request and at most 1 KiB of metadata for who has seen it all."""
    before, sent = len(online.server.requests), online.server.sent
    online.run("update")
    asked = online.server.paths[before:]
    metadata = [path for path in asked if "/index/" in path]
    assert len(metadata) <= 2, metadata  # the next root, which is not there, and the timestamp
    assert online.server.sent - sent < 2 * 1024, asked
    assert "/" + metadata_key("timestamp") in metadata
