"""Keel from `plugin.yaml` to the answer: who uses which kind, and what is never published (D1, D3, D7, D8, D10, D26)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugreg_schemas import acceptance, formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.errors import Conflict
from plugreg_schemas.hosts import PROFILES, Host
from plugreg_schemas.resolve import resolve
from plugreg_schemas.tree import MemoryTree

HEAD = 'id: acme.notes\nversion: "1.0.0"\n'
KEEL, TUI = PROFILES["keel"], PROFILES["keel-tui"]


def tree(kind: str, more: str = "", **files: str) -> MemoryTree:
    return MemoryTree.of({"plugin.yaml": f"{HEAD}kind: {kind}\n{more}", **files})


def answer(files: MemoryTree, asking: Host) -> dict[str, str]:
    """The runtime of each component, or the code of its refusal."""
    manifest = formats.read(files).manifest
    assert manifest is not None
    return {
        outcome.id: outcome.runtime or outcome.refusals[0].code
        for outcome in resolve(Offer.of(manifest), asking).components
    }


@pytest.mark.parametrize("entry", ["", "entry: {}\n"], ids=["D1-entry-absent", "D1-entry-empty"])
def test_d1_a_built_in_plugin_is_used_by_the_host_that_has_it(entry: str) -> None:
    files = tree("in-process", entry)
    assert answer(files, replace(KEEL, built_in=frozenset({"acme.notes"}))) == {"main": "in_process"}


def test_d3_a_plugin_of_somebody_else_is_not_compiled_in_and_not_published() -> None:
    files = tree("in-process")
    assert answer(files, KEEL) == {"main": "not_built_in"}
    found = acceptance.examine(formats.read(files), files)
    assert [finding.code for finding in found.findings] == ["kind_not_published"]
    assert not found.publishable


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(KEEL, {"ui": "webview", "backend": "sidecar"}, id="D8"),
        pytest.param(
            replace(KEEL, can_spawn=False),
            {"ui": "backend_unavailable", "backend": "process_unavailable"},
            id="D8-no-processes",
        ),
        pytest.param(TUI, {"ui": "webview", "backend": "sidecar"}, id="D26-opener"),
        pytest.param(replace(TUI, screen="none"), {"ui": "webview_unavailable", "backend": "sidecar"}, id="D26-no-screen"),
        pytest.param(
            PROFILES["cursor"], {"ui": "runtime_not_supported", "backend": "runtime_not_supported"}, id="D8-another-host"
        ),
    ],
)  # fmt: skip
def test_d8_a_page_with_a_process_of_its_own(asking: Host, expected: dict[str, str]) -> None:
    files = tree("webview", "entry: {command: ./run}\n", **{"ui/index.html": "", "run": "#!/bin/sh\n"})
    assert answer(files, asking) == expected


def test_d7_a_page_that_is_not_there_rejects_the_plugin() -> None:
    (fault,) = formats.read(tree("webview")).findings
    assert (fault.code, fault.file) == ("manifest_invalid", "plugin.yaml")
    assert "`ui/index.html`" in fault.message


def test_d10_an_upgrade_to_another_kind_is_refused() -> None:
    before = formats.read(tree("sidecar", "entry: {command: ./run}\n", run="")).manifest
    after = formats.read(tree("webview", **{"ui/index.html": ""})).manifest
    assert before is not None
    assert after is not None
    with pytest.raises(Conflict) as refused:
        formats.check_kind(after.name, before.runtime_kind, after.runtime_kind)
    assert refused.value.code == "kind_immutable"
