"""`plugreg export` and `plugreg import`: a registry in one file, for machines without a network."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from plugreg import export_file
from plugreg_schemas.bundle.header import END, Member, encode, padded
from plugreg_schemas.errors import IntegrityError, InvalidInput
from tests.support.attacked import attacked
from tests.support.commands import User
from tests.support.publisher import Author, plugin
from tests.support.registries import running

if TYPE_CHECKING:
    from pathlib import Path

DISCOVERY = ".well-known/plugreg.json"
STATEMENT = f"attestations/sha256/{hashlib.sha256(b'{}').hexdigest()}.json"
BLOB = f"blobs/sha256/{hashlib.sha256(b'blob').hexdigest()}"
PAGE = "index/metadata/1.root.json"
GOOD = ((DISCOVERY, b"{}"), (STATEMENT, b"{}"), (BLOB, b"blob"), (PAGE, b"{}"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """An export of a registry, one of it from later, and the registry's id."""
    folder = tmp_path_factory.mktemp("exported")
    user = User(folder / "author")
    with running(folder / "registry") as registry:
        author = Author(registry.url, registry.id)
        for name in ("demo", "other"):
            assert author.publish(plugin(name, "1.0.0"), name, "1.0.0").status == 201
        done = user.run("export", str(folder / "first"), "--registry", registry.url)
        assert (done["plugins"], done["size"]) == (2, (folder / "first").stat().st_size)
        user.run("export", str(folder / "again"), "--registry", registry.url)
        assert (folder / "again").read_bytes() == (folder / "first").read_bytes()
        assert author.publish(plugin("demo", "1.1.0"), "demo", "1.1.0").status == 201
        user.run("export", str(folder / "second"), "--registry", registry.url)
        user.run("export", str(folder / "demo"), "demo@1.0.0", "--registry", registry.url)
        user.run("export", str(folder / "latest"), "--latest", "--registry", registry.url)
        assert user.fails("export", str(folder / "no"), "absent", "--registry", registry.url, code=7)
        assert user.fails("export", str(folder / "no"), "demo@^9", "--registry", registry.url, code=7)
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        "first", "again", "second", "demo", "latest",
    }  # fmt: skip
    return folder / "first", folder / "second", registry.id


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


def versions(user: User) -> dict[str, str]:
    return {row["name"]: row["version"] for row in user.run("list")["plugins"]}


def packed(
    members: list[tuple[bytes, bytes]] | None = None, *, checksum: str = "", end: bytes = END
) -> bytes:
    """Return a file of members, each a header and a content, with the digest at its end."""
    members = [(encode(Member(name, len(text))), text) for name, text in GOOD] if members is None else members
    body = b"".join(head + text.ljust(padded(len(text)), b"\0") for head, text in members)
    digits = (checksum or hashlib.sha256(body).hexdigest()).encode()
    return body + encode(Member("sha256", 64)) + digits.ljust(512, b"\0") + end


def refused(path: Path, content: bytes) -> IntegrityError:
    path.write_bytes(content)
    with pytest.raises(IntegrityError) as caught:
        export_file.check(path)
    assert caught.value.code == "export_damaged"
    assert "at byte" in caught.value.message
    return caught.value


def with_member(place: int, head: bytes, text: bytes = b"") -> bytes:
    good = [(encode(Member(name, len(content))), content) for name, content in GOOD]
    return packed([*good[:place], (head, text), *good[place:]])


def from_tarfile(member: tarfile.TarInfo, content: bytes = b"") -> bytes:
    member.size = len(content)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()[:-10240] or file.getvalue()[:512]


def test_an_import_is_a_registry_that_is_updated_by_a_newer_one(
    exported: tuple[Path, Path, str], user: User
) -> None:
    first, second, registry = exported
    done = user.run("import", str(first), "--name", "team")
    assert (done["plugins"], done["registry"]["id"], done["registry"]["name"]) == (2, registry, "team")
    user.run("install", "demo", "other")
    again = user.run("import", str(second))
    assert again["registry"] == done["registry"]
    assert again["fetched"] < done["fetched"]
    user.run("update")
    assert versions(user) == {"demo": "1.1.0", "other": "1.0.0"}
    assert [row["name"] for row in user.run("registry", "list")["registries"]] == ["team"]
    assert {row["verdict"] for row in user.run("verify")["plugins"]} == {"verified"}


def test_rollback_an_older_export_is_not_imported_over_a_newer_one(
    exported: tuple[Path, Path, str], user: User, tmp_path: Path
) -> None:
    first, second, _ = exported
    there = tmp_path / "there"
    user.run("import", str(second), str(there))
    assert user.fails("import", str(first), str(there), code=4)["code"] == "index_rolled_back"
    stranger = User(tmp_path / "stranger")  # who has seen nothing but the folder
    assert stranger.fails("import", str(first), str(there), code=4)["code"] == "index_rolled_back"
    User(tmp_path / "reader").run("install", "demo@1.1.0", "--registry", there.as_uri())


def test_an_export_is_a_registry_by_itself(exported: tuple[Path, Path, str], user: User) -> None:
    user.run("install", "demo", "--registry", exported[0].as_uri())
    assert versions(user) == {"demo": "1.0.0"}


def test_only_what_was_wished_for_is_in_an_export(exported: tuple[Path, Path, str], user: User) -> None:
    chosen = user.run("import", str(exported[0].with_name("demo")))
    assert chosen["plugins"] == 1
    user.run("install", "demo@1.0.0")
    assert user.fails("install", "other", code=7)
    blobs = [key for key in export_file.check(exported[0].with_name("latest")) if key.startswith("blobs/")]
    assert len(blobs) == 2


def test_the_root_that_the_operator_says_is_demanded(exported: tuple[Path, Path, str], user: User) -> None:
    wrong = "sha256:" + "0" * 64
    assert user.fails("import", str(exported[0]), "--root-digest", wrong, code=4)
    assert user.run("registry", "list")["registries"] == []


def test_a_folder_that_is_no_import_stays_as_it_is(
    exported: tuple[Path, Path, str], user: User, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    assert user.fails("import", str(exported[0]), str(tmp_path / "mine"), code=6)["code"] == "not_ours"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter"]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\0" * 2048, b"x" * 5000], ids=["empty", "json", "zeros", "x"]
)
def test_what_is_no_export_is_invalid_input(content: bytes, user: User, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert user.fails("import", str(tmp_path / "file"), code=3)["code"] == "not_an_export"


def test_a_file_that_is_not_there_and_a_folder_are_said_to_be_that(user: User, tmp_path: Path) -> None:
    assert user.fails("import", str(tmp_path / "nothing"), code=7)["code"] == "file_not_readable"
    assert user.fails("import", str(tmp_path), code=7)["code"] == "file_not_readable"
    assert (
        user.fails("export", str(tmp_path), "--registry", tmp_path.as_uri(), code=3)["code"] == "not_a_file"
    )


def test_altered_or_cut_off_an_export_is_refused_with_the_place(
    exported: tuple[Path, Path, str], user: User, tmp_path: Path
) -> None:
    """Every kind of place: a flipped bit in headers, contents and fillings; a cut at any length."""
    content = exported[0].read_bytes()
    path = tmp_path / "file"
    begin = len(DISCOVERY) + 1
    for offset in range(begin, len(content), max(1, len(content) // 150)):
        flipped = bytearray(content)
        flipped[offset] ^= 1
        refused(path, bytes(flipped))
        refused(path, content[:offset])
    refused(path, content + b"\0")
    assert user.fails("import", str(path), code=4)["code"] == "export_damaged"
    assert not (user.folder / "home" / "mirrors").exists()


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "index/../../x.json", "index\\x.json", "index/plugins/demo.json",
     "index/metadata/../x.json", "blobs/sha256/x", ".plugreg-mirror/registry", "blobs/sha256/" + "A" * 64,
     "index/metadata/1.root.json\n", "index/metadata/1.r\u00f6ot.json", "zzz"],
)  # fmt: skip
def test_attack_a_name_that_is_no_object(name: str, tmp_path: Path) -> None:
    for place in range(len(GOOD) + 1):
        head = encode(Member(name, 2))
        path = tmp_path / "file"
        if place:
            refused(path, with_member(place, head, b"{}"))
            continue
        path.write_bytes(with_member(place, head, b"{}"))
        with pytest.raises(InvalidInput, match="not a file that"):
            export_file.check(path)


def test_attack_links_programs_duplicates_and_other_orders(tmp_path: Path) -> None:
    path = tmp_path / "file"
    refused(path, with_member(3, encode(Member(f"blobs/sha256/{'f' * 64}", target="../../etc/passwd"))))
    refused(path, with_member(3, encode(Member(f"blobs/sha256/{'f' * 64}", 2, executable=True)), b"{}"))
    refused(path, with_member(1, encode(Member(DISCOVERY, 2)), b"{}"))
    refused(path, with_member(3, encode(Member(BLOB, 4)), b"blob"))
    refused(path, with_member(4, encode(Member(BLOB, 4)), b"blob"))


@pytest.mark.parametrize(
    "kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, b"S", b"L"]
)
def test_attack_a_member_that_is_no_regular_file(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo(f"blobs/sha256/{'f' * 64}")
    member.type, member.linkname = kind, "../../etc/passwd"
    refused(tmp_path / "file", with_member(3, member.tobuf(tarfile.USTAR_FORMAT)))


@pytest.mark.parametrize(
    "records",
    [{"path": "../../etc/passwd"}, {"size": "9999999999"}, {"GNU.sparse.major": "1"}, {"linkpath": "/etc"},
     {"mtime": "1.5"}, {"path": BLOB}],
    ids=str,
)  # fmt: skip
def test_attack_an_extended_header_that_says_something_else(records: dict[str, str], tmp_path: Path) -> None:
    member = tarfile.TarInfo(f"blobs/sha256/{'f' * 64}")
    member.pax_headers = records
    refused(tmp_path / "file", with_member(3, member.tobuf(tarfile.PAX_FORMAT)))


@pytest.mark.parametrize("size", [600, 1 << 20, (1 << 24) + 1, 1 << 30, (1 << 33) - 1])
def test_attack_a_size_that_is_not_that_of_the_content(size: int, tmp_path: Path) -> None:
    refused(tmp_path / "file", with_member(4, encode(Member("index/metadata/2.root.json", size)), b"{}"))


def test_attack_a_digest_or_an_end_that_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(packed())
    assert list(export_file.check(path)) == [*(name for name, _ in GOOD), "sha256"]
    refused(path, packed(checksum="0" * 64))
    refused(path, packed(end=b""))
    refused(path, packed(end=END + END))
    refused(path, packed(end=b"x" * len(END)))


def test_attack_an_export_whose_index_is_signed_by_nobody(user: User, tmp_path: Path) -> None:
    """Its form is right to the last byte; what it says is not believed."""
    (tmp_path / "file").write_bytes(packed())
    assert user.fails("import", str(tmp_path / "file"), code=3)["code"] == "not_an_export"
    with attacked(tmp_path / "scene") as scene:
        scene.publish("1.0.0")
        scene.write()
        root = next(scene.mirror.glob("index/metadata/1.root.json"))
        document = json.loads(root.read_bytes())
        document["signatures"][0]["sig"] = "00" * 64
        root.write_text(json.dumps(document))
        with (tmp_path / "forged").open("wb") as file:
            export_file.write(scene.mirror, file)
    user.fails("import", str(tmp_path / "forged"), code=4)
    assert user.run("registry", "list")["registries"] == []


KILLED = """
import os, signal, sys
from plugreg import mirror
moves, move = int(sys.argv.pop(1)), mirror.move
def killing(source, target):
    global moves
    if not moves:
        os.kill(os.getpid(), signal.SIGKILL)
    moves -= 1
    move(source, target)
mirror.move = killing
from plugreg.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("moves", [0, 2, 5])
def test_killed_at_any_time_the_import_before_is_there_or_the_new_one(
    exported: tuple[Path, Path, str], user: User, tmp_path: Path, moves: int
) -> None:
    first, second, _ = exported
    there = tmp_path / "there"
    user.run("import", str(first), str(there))
    words = [sys.executable, "-c", KILLED, str(moves), "import", str(second), str(there)]
    done = subprocess.run(words, env=user.env(), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    User(tmp_path / "reader").run("install", "demo", "other", "--registry", there.as_uri())
    user.run("import", str(second), str(there))
    user.run("install", "demo@1.1.0")
