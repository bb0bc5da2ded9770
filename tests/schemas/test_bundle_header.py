"""The tar header of a member: vectors that never change, and other programs read it as it was meant."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg_schemas.bundle.header import BLOCK, END, Member, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = Path(__file__).parent / "vectors"
HEADERS: list[dict[str, Any]] = json.loads((VECTORS / "headers.json").read_text("utf-8"))


def _reader(content: bytes) -> Callable[[int], bytes]:
    return io.BytesIO(content).read


def _member(vector: dict[str, Any]) -> Member:
    return Member(vector["path"], vector["size"], vector["executable"], vector["target"])


@pytest.mark.parametrize("vector", HEADERS, ids=[vector["id"] for vector in HEADERS])
class TestVectors:
    def test_the_encoder_writes_the_vector(self, vector: dict[str, Any]) -> None:
        assert base64.b64encode(encode(_member(vector))).decode() == vector["header"]

    def test_the_decoder_reads_the_vector_without_a_fault(self, vector: dict[str, Any]) -> None:
        entry = decode(_reader(base64.b64decode(vector["header"])))
        assert entry is not None
        assert entry.faults == ()
        assert entry.member == _member(vector)

    def test_the_standard_library_reads_the_same_member(self, vector: dict[str, Any]) -> None:
        member = _member(vector)
        tar = base64.b64decode(vector["header"]) + bytes(member.span) + END
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", encoding="utf-8") as archive:
            (found,) = archive.getmembers()
        assert (found.name, found.size, found.linkname) == (member.path, member.size, member.target)
        assert found.mode == member.mode
        assert found.issym() is bool(member.target)
        assert found.isreg() is not bool(member.target)
        assert (found.mtime, found.uid, found.gid, found.uname, found.gname) == (0, 0, 0, "", "")


def test_a_header_changed_in_any_one_byte_never_means_the_same_member() -> None:
    """D5: only the records of an extended header have no checksum, and there a change is another path."""
    member = Member("caf\u00e9/run", 3, executable=True)
    good = encode(member)
    for at in range(len(good)):
        for change in (0x01, 0x20, 0x80):
            bad = bytearray(good)
            bad[at] ^= change
            entry = decode(_reader(bytes(bad) + bytes(64 * BLOCK)))
            assert entry is not None
            assert entry.faults or (entry.member != member and BLOCK <= at < 2 * BLOCK)


@given(
    st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), min_size=1, max_size=240),
    st.integers(0, 8**11 - 1),
    st.booleans(),
)
def test_what_is_encoded_is_decoded(path: str, size: int, executable: bool) -> None:
    member = Member(path, size, executable)
    encoded = encode(member)
    entry = decode(_reader(encoded))
    assert len(encoded) % BLOCK == 0
    assert entry is not None
    assert (entry.member, entry.faults, entry.lost) == (member, (), False)


@given(st.binary(max_size=4 * BLOCK))
def test_no_bytes_at_all_make_the_decoder_fail(content: bytes) -> None:
    entry = decode(_reader(content + bytes(64 * BLOCK)))
    assert entry is None or entry.faults


@pytest.mark.parametrize("length", [90, 91, 99, 100, 101, 989, 990, 991])
def test_a_record_counts_its_own_digits(length: int) -> None:
    header = encode(Member("p" * length))
    if length <= 100:
        assert len(header) == BLOCK
    else:
        count, _, rest = header[BLOCK : BLOCK + 1100].partition(b" ")
        assert rest[: int(count) - len(count) - 1] == b"path=" + b"p" * length + b"\n"
