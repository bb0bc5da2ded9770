"""The CI examples: valid YAML, commands that the parser takes, identities that can be owners."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugreg.cli.parser import build_parser
from plugreg_schemas.trust.identity import parse_signer

FILES = sorted((Path(__file__).parents[2] / "examples" / "ci").glob("*.yml"))


def texts(value: Any) -> list[str]:
    """Return every text in a document."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_is_one_that_plugreg_has(path: Path) -> None:
    lines = [
        line.strip() for text in texts(yaml.safe_load(path.read_text("utf-8"))) for line in text.splitlines()
    ]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("plugreg ")]
    assert [words[0] for words in commands] == ["check", "registry", "publish"]
    check, add, publish = (build_parser().parse_args(words) for words in commands)
    assert check.version == publish.version
    assert add.root_digest


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_example_publishes_to_a_registry_whose_root_is_not_pinned(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.index("--root-digest") < text.index("plugreg publish . ")
    assert "PLUGREG_FIRST_USE: refuse" in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_identity_can_be_an_owner(path: Path) -> None:
    found = re.findall(r"ci:https://\S+?(?='|\s|$)", path.read_text("utf-8"))
    assert bool(found) == path.stem.endswith("-keyless")
    for words in found:
        assert parse_signer(words).words == words
