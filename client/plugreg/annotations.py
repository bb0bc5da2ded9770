"""Findings as annotations of GitHub Actions: lines on standard output that a workflow shows at the file.

::warning file=plugins/demo/mcp.json,title=env_literal::the placeholder ... (/mcpServers/a/env/X)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from plugreg_schemas.errors import Finding

_COMMANDS: Final[Mapping[Severity, str]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "notice",
}


def github(findings: Iterable[Finding], plugin: Path) -> Iterator[str]:
    """Yield one line for each finding; files are named as seen from the current folder."""
    folder = plugin if plugin.is_dir() else None
    for finding in findings:
        file = os.path.relpath(folder / finding.file) if folder and finding.file else os.path.relpath(plugin)
        place = f" ({finding.pointer})" if finding.pointer else ""
        properties = f"file={_property(file)},title={_property(finding.code)}"
        yield f"::{_COMMANDS[finding.severity]} {properties}::{_escaped(finding.message + place)}"


def _escaped(text: str) -> str:
    """Keep a message on its line, so that no text of a plugin becomes a command of the workflow."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
