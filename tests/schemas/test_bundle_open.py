"""Opening a bundle: one attack, one test; what is accepted has exactly one reading."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits, open_bundle, outline, pack
from plugreg_schemas.bundle.header import encode
from plugreg_schemas.errors import InvalidInput, TooLarge
from plugreg_schemas.tree import MemoryTree
from plugreg_schemas.tree import read as read_file
from tests.support import hostile_bundles as hostile

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = Path(__file__).parent / "vectors"
PLUGIN = MemoryTree.of(
    {
        "plugin.json": hostile.PLUGIN_JSON,
        "bin/server": "#!/bin/sh\necho\n",
        "skills/caf\u00e9/SKILL.md": "# Caf\u00e9\n",
    },
    links={"bin/tool": "server"},
)


def _contents(bundle: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, tuple[bool, str, bytes]]:
    found = {}
    for member, pieces in open_bundle(io.BytesIO(bundle), limits):
        found[member.path] = (member.executable, member.target, b"".join(pieces))
    return found


def _refusal(bundle: bytes, limits: Limits = DEFAULT_LIMITS) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        _contents(bundle, limits)
    return caught.value


def _cases(cases: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in cases])  # type: ignore[attr-defined]


class TestHostileBundles:
    @_cases(hostile.bad_names())
    def test_a_bad_name_is_refused_with_its_path(self, case: hostile.Hostile) -> None:
        """T09."""
        self._refused(case)

    @_cases(hostile.traversals())
    def test_a_path_out_of_the_folder_is_refused(self, case: hostile.Hostile) -> None:
        """T10."""
        self._refused(case)

    @_cases(hostile.bad_links())
    def test_a_link_out_of_the_bundle_or_through_a_link_is_refused(self, case: hostile.Hostile) -> None:
        """T08."""
        self._refused(case)

    @_cases(hostile.odd_members())
    def test_an_odd_member_or_header_is_refused(self, case: hostile.Hostile) -> None:
        """T10."""
        self._refused(case)

    @_cases(hostile.bad_frames())
    def test_what_is_not_one_plain_frame_is_refused(self, case: hostile.Hostile) -> None:
        """D9, D10."""
        self._refused(case)

    @staticmethod
    def _refused(case: hostile.Hostile) -> None:
        error = _refusal(case.content)
        assert (case.code, case.path) in {(finding.code, finding.file) for finding in error.findings}
        assert error.hint
        assert all(finding.message.isprintable() for finding in error.findings)

    @_cases(hostile.bad_links())
    def test_nothing_below_a_link_is_ever_handed_out(self, case: hostile.Hostile) -> None:
        """D2."""
        links: set[str] = set()
        with pytest.raises(InvalidInput):  # noqa: PT012 - what came before the refusal is the point
            for member, _ in open_bundle(io.BytesIO(case.content)):
                assert not any(member.path.casefold().startswith(f"{path}/".casefold()) for path in links)
                links |= {member.path} if member.target else set()


class TestAllFaultsAtOnce:
    def test_every_fault_is_named_and_nothing_after_the_first_is_yielded(self) -> None:
        bundle = hostile.bundle(
            hostile.member("a"),
            hostile.raw("b", kind=b"6"),
            hostile.member("c"),
            hostile.member("con"),
            hostile.raw("d", b"x" * 700, mode=0o600),
            hostile.link("l", "nowhere"),
        )
        seen = []
        with pytest.raises(InvalidInput) as caught:  # noqa: PT012 - what came before the refusal is the point
            for member, _ in open_bundle(io.BytesIO(bundle)):
                seen.append(member.path)
        assert seen == ["a"]
        assert caught.value.code == "bundle_invalid"
        assert [(fault.code, fault.file) for fault in caught.value.findings] == [
            ("member_type", "b"),
            ("path_windows_name", "con"),
            ("member_header", "d"),
            ("link_dangling", "l"),
        ]

    def test_faults_before_a_cut_are_named_with_it(self) -> None:
        bundle = hostile.frame(hostile.archive(hostile.member("con"), hostile.raw("d", size=4096)))
        assert [fault.code for fault in _refusal(bundle).findings] == [
            "bundle_truncated",
            "path_windows_name",
        ]

    def test_a_bundle_of_an_ordinary_tar_names_each_member(self, tmp_path: Path) -> None:
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo/plugin.json").write_bytes(hostile.PLUGIN_JSON)
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.add(tmp_path / "demo", "demo-1.0.0")
        error = _refusal(hostile.frame(stream.getvalue()))
        assert [(fault.code, fault.file) for fault in error.findings] == [
            ("member_type", "demo-1.0.0/"),
            ("member_header", "demo-1.0.0/plugin.json"),
            ("bundle_end", ""),
        ]

    def test_hostile_faults_are_counted_not_kept(self) -> None:
        error = _refusal(hostile.bundle(*(hostile.member(f"f{n:04}/con") for n in range(300))))
        assert len(error.findings) == 100
        assert error.details == {"findings_not_shown": 200}


class TestIntegrity:
    def test_one_byte_changed_anywhere_is_refused_or_gives_the_same_files(self) -> None:
        good = pack(PLUGIN).content
        expected = _contents(good)
        for at in range(len(good)):
            for change in (1, 2, 4, 8, 16, 32, 64, 128, 255):
                bad = bytearray(good)
                bad[at] ^= change
                try:
                    found = _contents(bytes(bad))
                except InvalidInput:
                    continue
                assert found == expected  # the digest differs all the same

    @settings(deadline=None, max_examples=400)
    @given(st.integers(0, 7 * 512 - 1), st.integers(0, 255), st.booleans())
    def test_what_is_accepted_is_the_canonical_encoding_of_what_was_read(
        self, at: int, value: int, keep_checksum: bool
    ) -> None:
        """D5: bytes of the tar are changed, with the checksums of the frame and mostly of the header set right."""
        tar = bytearray(zstandard.decompress(pack(PLUGIN).content))
        tar[at] = value
        block = at // 512 * 512
        if not keep_checksum and tar[block + 257 : block + 262] == b"ustar":
            tar[block + 148 : block + 156] = b" " * 8
            tar[block + 148 : block + 156] = b"%06o\0 " % sum(tar[block : block + 512])
        try:
            found = [
                (member, b"".join(pieces))
                for member, pieces in open_bundle(io.BytesIO(hostile.frame(bytes(tar))))
            ]
        except InvalidInput:
            return
        parts = [encode(member) + content.ljust(member.span, b"\0") for member, content in found]
        assert b"".join(parts) + bytes(1024) == tar

    def test_a_bundle_cut_anywhere_is_refused(self) -> None:
        good = pack(PLUGIN).content
        codes = {_refusal(good[:length]).code for length in range(1, len(good))}
        assert codes == {"bundle_truncated"}

    def test_a_stream_that_gives_single_bytes_is_read_alike(self) -> None:
        class Slow(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                return super().read(min(1, size or 0))

        good = pack(PLUGIN).content
        found = {member.path: b"".join(pieces) for member, pieces in open_bundle(Slow(good))}
        assert found == {path: content for path, (_, _, content) in _contents(good).items()}

    def test_the_standard_library_reads_the_same_files(self) -> None:
        packed = pack(PLUGIN)
        tar = zstandard.decompress(packed.content)
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", encoding="utf-8") as archive:
            theirs = {
                info.name: (
                    info.isreg() and info.mode == 0o755,
                    info.linkname,
                    b"" if info.issym() else archive.extractfile(info).read(),  # type: ignore[union-attr]
                )
                for info in archive
            }
        assert theirs == _contents(packed.content)


class TestReading:
    def test_a_content_may_be_left_unread_or_half_read(self) -> None:
        large = hashlib.shake_256(b"large").digest(300_000)
        packed = pack(MemoryTree.of({"a": large, "b": "b", "c": large, "d": "d"}))
        found = {}
        for member, pieces in open_bundle(io.BytesIO(packed.content)):
            found[member.path] = next(pieces)
        assert (found["b"], found["d"]) == (b"b", b"d")
        assert large.startswith(found["a"])

    def test_an_unread_content_cannot_be_read_later(self) -> None:
        packed = pack(PLUGIN)
        pieces = [pieces for _, pieces in open_bundle(io.BytesIO(packed.content))]
        with pytest.raises(RuntimeError, match="before the next member"):
            next(pieces[0])

    def test_an_inside_link_and_a_chain_of_links_are_accepted(self) -> None:
        """C4, T08: `bin/tool -> ../lib/tool` lies inside; so does a library's usual chain."""
        links = {
            "bin/tool": "../lib/tool",
            "lib/tool": "tool.1",
            "lib/tool.1": "tool.1.2",
            "lib/here": ".",
            "all": "lib",
        }
        bundle = pack(MemoryTree.of({"lib/tool.1.2": "x"}, links=links)).content
        assert {path: target for path, (_, target, _) in _contents(bundle).items() if target} == links

    def test_a_link_chain_that_systems_give_up_on_is_refused(self) -> None:
        links = [hostile.link(f"l{n:03}", f"l{n + 1:03}") for n in range(60)]
        error = _refusal(hostile.bundle(*links, hostile.member("l060")))
        assert {fault.code for fault in error.findings} == {"link_dangling"}

    def test_one_directory_too_deep_is_a_bundle_whose_root_has_no_manifest(self) -> None:
        """C13."""
        tree = outline(
            io.BytesIO(
                hostile.frame(hostile.archive(hostile.member("demo-1.0.0/plugin.json", hostile.PLUGIN_JSON)))
            ),
            DEFAULT_LIMITS,
            lambda path: path.endswith("plugin.json"),
        )
        assert tree.node("plugin.json") is None
        assert tree.children("") == ["demo-1.0.0"]


class TestVector:
    def test_a_bundle_kept_as_bytes_is_read_for_ever(self) -> None:
        bundle = base64.b64decode((VECTORS / "plugin.tar.zst.b64").read_bytes())
        assert _contents(bundle) == _contents(pack(PLUGIN).content)

    def test_the_tar_of_a_tree_never_changes(self) -> None:
        """The frame may differ between versions of zstd, the tar may not."""
        tar = zstandard.decompress(pack(PLUGIN).content)
        assert hashlib.sha256(tar).hexdigest() == (VECTORS / "plugin.tar.sha256").read_text("ascii").strip()


class TestOutline:
    def test_wanted_files_are_kept_and_of_scripts_the_first_line(self) -> None:
        script = b"#!/usr/bin/env python3\r\n" + b"x" * 1000
        files = {"plugin.json": hostile.PLUGIN_JSON, "bin/run": script, "data": b"y" * 1000}
        bundle = pack(MemoryTree.of(files, links={"l": "data"})).content
        tree = outline(io.BytesIO(bundle), DEFAULT_LIMITS, lambda path: path.endswith(".json"))
        assert tree.contents == {"plugin.json": hostile.PLUGIN_JSON, "bin/run": script[:128]}
        assert [(path, node.kind, node.size, node.executable) for path, node in tree.nodes.items()] == [
            ("bin/run", "file", len(script), True),
            ("data", "file", 1000, False),
            ("l", "link", 0, False),
            ("plugin.json", "file", len(hostile.PLUGIN_JSON), False),
        ]

    def test_a_wanted_file_that_is_too_large_fails_when_it_is_read(self) -> None:
        content = hashlib.shake_256(b"").digest(2 << 20)
        bundle = pack(MemoryTree.of({"SKILL.md": content})).content
        tree = outline(io.BytesIO(bundle), DEFAULT_LIMITS, lambda _: True)
        with pytest.raises(TooLarge, match="larger than"):
            read_file(tree, "SKILL.md", 1 << 20)

    def test_wanted_files_together_are_limited(self) -> None:
        content = hashlib.shake_256(b"").digest(1 << 20)
        bundle = pack(MemoryTree.of({f"{n:02}/SKILL.md": content for n in range(33)})).content
        with pytest.raises(TooLarge) as caught:
            outline(io.BytesIO(bundle), DEFAULT_LIMITS, lambda _: True)
        assert caught.value.code == "bundle_wanted_too_large"


class TestLimits:
    def test_each_limit_is_enforced(self) -> None:
        bundle = pack(MemoryTree.of({"a/b": b"x" * 5000, "c": "", "d": ""})).content
        for limits, code in (
            (Limits(compressed=len(bundle) - 1), "bundle_too_large"),
            (Limits(unpacked=4096), "bundle_unpacked_too_large"),
            (Limits(members=2), "bundle_too_many_members"),
            (Limits(members=1), "bundle_too_many_members"),
        ):
            error = _refusal(bundle, limits)
            assert isinstance(error, TooLarge)
            assert error.code == code
        assert _refusal(bundle, Limits(path=2)).code == "path_too_long"
        assert _contents(bundle, Limits(compressed=len(bundle), members=3, path=3, component=1))

    def test_folders_count_by_themselves(self) -> None:
        bundle = pack(MemoryTree.of({"a/b/c/d": ""})).content
        assert _refusal(bundle, Limits(members=2)).code == "bundle_too_many_folders"

    def test_the_ratio_counts_after_the_first_mib(self) -> None:
        def zeros(size: int) -> bytes:
            return hostile.frame(hostile.archive(hostile.member("zeros", bytes(size))))

        assert len(_contents(zeros((1 << 20) - 4096))) == 1
        assert _refusal(zeros(2 << 20)).code == "bundle_ratio"

    def test_the_smaller_limits_are_obeyed(self) -> None:
        own = DEFAULT_LIMITS.scaled(4)
        assert (own.compressed, own.unpacked, own.members, own.path) == (256 << 20, 2 << 30, 80_000, 240)
        assert own.smaller(DEFAULT_LIMITS) == DEFAULT_LIMITS
        assert DEFAULT_LIMITS.smaller(Limits(path=100)) == Limits(path=100)


MEASURED = """
import io, resource, sys
from plugreg_schemas.bundle import DEFAULT_LIMITS, outline
from plugreg_schemas.errors import InvalidInput
bundle = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    outline(io.BytesIO(bundle), DEFAULT_LIMITS, lambda path: True)
except InvalidInput as error:
    code = error.code
else:
    code = ""
print(code, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(
    ("make", "code"),
    [
        pytest.param(hostile.zero_bomb, "bundle_unpacked_too_large", id="D4-zeros"),
        pytest.param(lambda: hostile.zero_bomb(500 << 20), "bundle_ratio", id="D4-zeros-within-the-limit"),
        pytest.param(hostile.many_files, "bundle_too_many_members", id="D4-200000-empty-files"),
        pytest.param(hostile.many_directories, "bundle_invalid", id="D4-200000-directories"),
        pytest.param(hostile.deep_folders, "bundle_too_many_folders", id="D4-deep-folders"),
        pytest.param(lambda: hostile.empty_blocks(1 << 24), "bundle_frame_blocks", id="D4-empty-blocks"),
    ],
)
def test_a_bomb_costs_little_memory_and_is_refused(make: Callable[[], bytes], code: str) -> None:
    """T10."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], input=make(), capture_output=True, check=True, timeout=60
    )
    found, mebibytes = done.stdout.decode().split()
    assert found == code
    assert int(mebibytes) < 150
