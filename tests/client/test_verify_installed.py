"""Verify: every byte, mode and link of an installed plugin against the signed bundle beside it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from plugreg.inventory import locate, verify
from plugreg_schemas.errors import IntegrityError, NotAllowed, NotAvailable, Unverifiable
from tests.support.roots import Here

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from plugreg.plugins_root import StoreEntry


@pytest.fixture
def here(tmp_path: Path) -> Here:
    found = Here(tmp_path)
    found.publish(files={"bin/run": "#!/bin/sh\n", "data.bin": "some bytes"}, links={"run": "bin/run"})
    found.install()
    return found


def entry_of(here: Here) -> StoreEntry:
    entry = here.root.active("demo")
    assert entry
    return entry


def _outside(tree: Path) -> None:
    (tree / "bin").rename(tree.parent / "elsewhere")
    (tree / "bin").symlink_to("../elsewhere")


def _swap(tree: Path, name: str, target: str) -> None:
    (tree / name).unlink()
    (tree / name).symlink_to(target)


ALTERATIONS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "one byte": (lambda tree: (tree / "data.bin").write_text("some byteZ"), "file_altered", "data.bin"),
    "shorter": (lambda tree: os.truncate(tree / "data.bin", 3), "file_altered", "data.bin"),
    "longer": (
        lambda tree: (tree / "data.bin").write_text("some bytes and more"),
        "file_altered",
        "data.bin",
    ),
    "missing": (lambda tree: (tree / "data.bin").unlink(), "file_missing", "data.bin"),
    "extra": (lambda tree: (tree / "bin" / "extra.py").write_text(""), "file_extra", "bin/extra.py"),
    "extra folder": (lambda tree: (tree / "new").mkdir(), "file_extra", "new"),
    "not executable": (lambda tree: (tree / "bin" / "run").chmod(0o644), "mode_altered", "bin/run"),
    "setuid": (lambda tree: (tree / "bin" / "run").chmod(0o4755), "mode_altered", "bin/run"),
    "writable folder": (lambda tree: (tree / "bin").chmod(0o777), "mode_altered", "bin"),
    "link to elsewhere": (lambda tree: _swap(tree, "run", "/bin/sh"), "link_altered", "run"),
    "file becomes a link": (lambda tree: _swap(tree, "data.bin", "bin/run"), "file_altered", "data.bin"),
    "folder becomes a link": (_outside, "file_extra", "bin"),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_every_alteration_of_the_tree_is_found_and_named(here: Here, alteration: str) -> None:
    alter, code, file = ALTERATIONS[alteration]
    verify(here.root).raise_if_any()
    alter(here.tree())
    error = verify(here.root).error
    assert isinstance(error, IntegrityError)
    assert error.code == "tree_altered"
    assert (code, file) in {(finding.code, finding.file) for finding in error.findings}


def test_all_alterations_are_named_at_once(here: Here) -> None:
    (here.tree() / "data.bin").write_text("other")
    (here.tree() / "extra").write_text("")
    (here.tree() / "v.txt").unlink()
    (row,) = verify(here.root).plugins
    assert {finding["file"] for finding in row.as_dict()["findings"]} == {"data.bin", "extra", "v.txt"}  # type: ignore[attr-defined]
    assert row.verdict == "invalid"


def _facts(entry: StoreEntry, **members: object) -> None:
    facts = json.loads(entry.facts.read_bytes())
    entry.facts.write_text(json.dumps(facts | members))


BESIDE: dict[str, tuple[Callable[[StoreEntry], object], type[Exception], str]] = {
    "bundle altered": (lambda e: e.bundle.write_bytes(b"x"), IntegrityError, "bundle_altered"),
    "bundle gone": (lambda e: e.bundle.unlink(), Unverifiable, "bundle_missing"),
    "statement altered": (lambda e: e.attestation.write_text("{}"), IntegrityError, "attestation_altered"),
    "statement gone": (lambda e: e.attestation.unlink(), Unverifiable, "attestation_missing"),
    "key gone": (lambda e: _facts(e, public_key=""), Unverifiable, "public_key_missing"),
    "other key": (lambda e: _facts(e, public_key="AAAA"), IntegrityError, "public_key_mismatch"),
    "facts gone": (lambda e: e.facts.unlink(), IntegrityError, "facts_damaged"),
    "facts of another release": (lambda e: _facts(e, version="9.9.9"), IntegrityError, "facts_damaged"),
    "other registry": (
        lambda e: _facts(e, registry={"id": "https://other.example"}),
        IntegrityError,
        "facts_contradict_statement",
    ),
}


@pytest.mark.parametrize("alteration", BESIDE)
def test_t23_altered_and_missing_proofs_are_told_apart(here: Here, alteration: str) -> None:
    alter, kind, code = BESIDE[alteration]
    alter(entry_of(here))
    error = verify(here.root).error
    assert (type(error), getattr(error, "code", "")) == (kind, code)
    assert verify(here.root).plugins[0].verdict == ("unverifiable" if kind is Unverifiable else "invalid")


def test_every_byte_of_statement_and_bundle_counts(here: Here) -> None:
    entry = entry_of(here)
    for part in (entry.attestation, entry.bundle):
        right = part.read_bytes()
        for place in range(0, len(right), 7):
            part.write_bytes(right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :])
            assert isinstance(verify(here.root).error, IntegrityError | Unverifiable)
        part.write_bytes(right)
    verify(here.root).raise_if_any()


def test_a_release_of_another_signer_than_the_pinned_one_is_found(here: Here) -> None:
    state = json.loads(here.root.state("demo").read_bytes())
    state["pin"]["signer"] = here.stranger.signer.words
    here.root.state("demo").write_text(json.dumps(state))
    error = verify(here.root).error
    assert isinstance(error, IntegrityError)
    assert error.code == "pin_mismatch"
    assert here.author.signer.words in error.message
    assert here.stranger.signer.words in error.message


def test_a_link_to_another_version_of_the_store_is_verified_as_that_version(here: Here) -> None:
    here.publish("1.1.0")
    old = entry_of(here)
    here.update()
    here.root.link("demo").unlink()
    here.root.link("demo").symlink_to(old.target)
    (row,) = verify(here.root).plugins
    assert (row.version, row.verdict) == ("1.0.0", "verified")


def test_one_altered_plugin_speaks_louder_than_one_that_cannot_be_judged(here: Here) -> None:
    here.offers.publish(here.author, "second", "1.0.0")
    here.install("second")
    entry_of(here).attestation.unlink()
    (here.tree("second") / "v.txt").write_text("other")
    result = verify(here.root)
    assert [row.verdict for row in result.plugins] == ["unverifiable", "invalid"]
    assert isinstance(result.error, IntegrityError)
    assert result.error.code == "tree_altered"
    assert "attestation_missing" in result.error.message
    assert verify(here.root, ["demo"]).error is not result.error


def test_verify_needs_neither_registry_nor_lock_nor_the_right_to_write(here: Here) -> None:
    for path in [here.root.path, *here.root.path.rglob("*")]:
        if path.is_dir() and not path.is_symlink() and here.tree() not in [path, *path.parents]:
            path.chmod(0o555)
    before = {path: path.lstat().st_mtime_ns for path in here.root.path.rglob("*")}
    here.offers.forget("demo")
    assert verify(here.root, ["demo"]).error is None
    assert {path: path.lstat().st_mtime_ns for path in here.root.path.rglob("*")} == before


def test_names_that_are_not_installed_or_not_ours_are_refused(here: Here) -> None:
    (here.root.path / "theirs").mkdir()
    with pytest.raises(NotAvailable, match="not_installed"):
        verify(here.root, ["nothing"])
    for look in (lambda: verify(here.root, ["theirs"]), lambda: locate(here.root, "theirs")):
        with pytest.raises(NotAllowed, match="not_ours"):
            look()


def test_locate_gives_the_place_of_a_whole_plugin_only(here: Here) -> None:
    row = locate(here.root, "demo")
    assert (row.root, row.data) == (here.tree(), here.root.data("demo"))
    with pytest.raises(NotAvailable, match="not_installed"):
        locate(here.root, "nothing")
    entry_of(here).bundle.unlink()
    with pytest.raises(IntegrityError, match="plugin_damaged"):
        locate(here.root, "demo")
