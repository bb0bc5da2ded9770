"""What a server's tools are called over MCP, where only `A-Z a-z 0-9 _` may stand and names are short.

wire_name("cascade-ide", "a.b", "ide_")   ide_a_b       whatever else stands in a name becomes `_`
wire_name(server, a name that is long)    long_na_1f2e3d4c   always the same digits for the same tool
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from plugreg_schemas.errors import UsageError
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_WIRE: Final = 60
"""Characters of a server's and a tool's name together, because hosts join the two into one name."""
MAX_SERVER: Final = 40
"""Characters of a server's name: enough are left for its tools."""
_DIGITS: Final = 8
"""Hexadecimal digits that tell shortened names apart."""
_NOT_ON_THE_WIRE: Final = re.compile(r"[^A-Za-z0-9_]")


def wire_name(server: str, tool: str, prefix: str = "") -> str:
    """Return what a tool is called over MCP; one too long ends with digits made of its whole name.

    Raises:
        UsageError: `server_name_too_long`.

    >>> wire_name("cascade-ide", "intercom.reveal_attachment", "ide_")
    'ide_intercom_reveal_attachment'
    """
    if len(server) > MAX_SERVER:
        message = f"{quoted(server)} is too long for the name of a server"
        raise UsageError("server_name_too_long", message, hint=f"use at most {MAX_SERVER} characters")
    name = _NOT_ON_THE_WIRE.sub("_", prefix + tool)
    return name if len(server) + len(name) <= MAX_WIRE else _alias(server, tool, name)


def wire_names(server: str, tools: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return the name over MCP of each tool; where two would be alike, those that were changed get digits."""
    names = {tool: wire_name(server, tool, prefix) for tool in tools}
    alike = {name for name, count in Counter(names.values()).items() if count > 1}
    return {
        tool: _alias(server, tool, name) if name in alike and name != prefix + tool else name
        for tool, name in names.items()
    }


def _alias(server: str, tool: str, name: str) -> str:
    digits = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[: MAX_WIRE - len(server) - _DIGITS - 1]}_{digits}"
