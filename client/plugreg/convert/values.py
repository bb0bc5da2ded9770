"""Values of `env` and `headers`: which of them can stand in a package that everybody reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugreg_schemas.formats.entry import literal_placeholders, looks_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

REASONS: Final[Mapping[str, str]] = {
    "env_not_expanded": "nothing is expanded in a value; users store it with `plugreg env set`",
    "header_not_expanded": "nothing is expanded in a value, so the header would be sent as it is written",
    "credential_dropped": "it looks like a credential, and everybody could read it",
    "env_reserved": "the host sets it",
    "value_dropped": "it has no value",
}


def reason_to_leave(name: str, text: str, key: str) -> str:
    """Return the code for leaving out a value of `env` or `headers`, "" where it can stay."""
    if key == "env" and name in {"PLUGIN_ROOT", "PLUGIN_DATA"}:
        return "env_reserved"
    if not text:
        return "value_dropped" if key == "env" else ""
    if literal_placeholders(text) or re.fullmatch(r"\$[A-Za-z_]\w*|\{\{[^{}]*\}\}|<[^<>]+>", text):
        return "env_not_expanded" if key == "env" else "header_not_expanded"
    return "credential_dropped" if looks_secret(name, text) else ""


def as_text(value: object) -> str:
    """Return a plain value as text, "" where it is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else ""
