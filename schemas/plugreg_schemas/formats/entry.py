"""One entry of `mcpServers` while it is read: its fields, and what is found wrong with them.

A server is one closed variant: `closed` refuses every field that its `type` does not have. `text`,
`texts` and `mapping` return a value of the right type, or an empty one after reporting; reading goes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import pointer_to
from plugreg_schemas.errors import Boundary, Severity
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg_schemas.errors import Collector

PLACEHOLDER: Final = re.compile(r"\$\{[^{}]*\}")
EXPANDED: Final = frozenset({"${PLUGIN_ROOT}", "${PLUGIN_DATA}"})
"""The two tokens that hosts replace; every other placeholder reaches the server as it is written."""

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_SECRET_KEY: Final = re.compile(
    r"(?:^|[_-])(?:token|secret|password|passwd|apikey|api[_-]key|access[_-]key|private[_-]key|credentials?)$"
    r"|^(?:proxy-)?authorization$|^cookie$",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"\b(?:gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}|sk-[\w-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16})"
)


@dataclass(slots=True)
class Entry:
    """The server `name` of `mcp.json`."""

    name: str
    value: Mapping[str, Any]
    faults: Collector
    refused: bool = False

    def refuse(self, message: str, *steps: str | int) -> None:
        """Report a fault that skips this server."""
        self.refused = True
        where = pointer_to("mcpServers", self.name, *steps)
        said = f"server {quoted(self.name)}: {message}"
        self.faults.add("server_invalid", said, boundary=Boundary.ENTRY, file="mcp.json", pointer=where)

    def warn(self, code: str, message: str, *steps: str | int) -> None:
        """Report something that the author probably did not mean."""
        self.faults.add(
            code,
            f"server {quoted(self.name)}: {message}",
            severity=Severity.WARNING,
            boundary=Boundary.ENTRY,
            file="mcp.json",
            pointer=pointer_to("mcpServers", self.name, *steps),
        )

    def closed(self, *fields: str) -> None:
        """Refuse every field but `type` and `fields`."""
        for key in self.value:
            if key != "type" and key not in fields:
                self.refuse(f"the field {quoted(key)} is not one of this `type`", key)

    def text(self, key: str) -> str:
        """Return a required text of at least one character."""
        value = self.value.get(key)
        if isinstance(value, str) and value:
            return value
        if key not in self.value:
            self.refuse(f"there is no `{key}`")
        else:
            self.refuse(f"`{key}` must be text that is not empty", key)
        return ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an optional list of texts."""
        value = self.value.get(key, [])
        if not isinstance(value, list):
            self.refuse(f"`{key}` must be a list of texts", key)
            return ()
        for index, item in enumerate(value):
            if not isinstance(item, str):
                self.refuse(f"each of `{key}` must be text", key, index)
        return tuple(item for item in value if isinstance(item, str))

    def mapping(self, key: str) -> dict[str, str]:
        """Return an optional object whose values are texts."""
        value = self.value.get(key, {})
        if not isinstance(value, dict):
            self.refuse(f"`{key}` must be an object", key)
            return {}
        for name, item in value.items():
            if not isinstance(item, str):
                self.refuse(f"the value of {quoted(name)} in `{key}` must be text", key, name)
        return {name: item for name, item in value.items() if isinstance(item, str)}


def literal_placeholders(text: str) -> bool:
    """Whether `text` holds a placeholder that nobody expands.

    >>> literal_placeholders("${PLUGIN_ROOT}/x"), literal_placeholders("${API_KEY}")
    (False, True)
    """
    return any(token not in EXPANDED for token in PLACEHOLDER.findall(text))


def looks_secret(key: str, value: str) -> bool:
    """Whether `value` under `key` is probably a credential, which everybody could read."""
    if PLACEHOLDER.search(value):
        return False
    return bool(value and _SECRET_KEY.search(key)) or bool(_SECRET_VALUE.search(value))
