"""TOML bytes to the plain values that JSON has, strictly.

Refused, with the place: bytes that are not UTF-8, a byte order mark, dates and times, `nan`, `inf`, integers
that other languages cannot hold, nesting over `MAX_DEPTH`. Duplicate keys are no TOML at all.

The parser of the standard library trusts its input: a key of 200,000 parts keeps it busy for minutes. Such
a key is refused before it is called.
"""

from __future__ import annotations

import math
import re
import tomllib
from datetime import date, time
from typing import TYPE_CHECKING, Final

from plugreg_schemas.documents import MAX_DEPTH, MAX_INTEGER, pointer_to, refused, utf8_text
from plugreg_schemas.errors import Collector, TooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugreg_schemas.documents import Json

MAX_TOML: Final = 1024 * 1024
"""Bytes of a document, as of every manifest: one megabyte of the worst TOML takes a few seconds."""
MAX_KEY_PARTS: Final = 16
"""Parts of a dotted key or of the name of a table, because each costs as much as all before it."""

_STRINGS: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|' + r"'''.*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*+"?' + r"|'[^'\n]*+'?|\#[^\n]*+",
    re.DOTALL,
)
"""Every string and comment. What is not closed goes on to the end: no text is looked at twice."""
_LONG_KEY: Final = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def parse_toml(content: bytes, file: str = "", within: Sequence[str] = ()) -> dict[str, Json]:
    """Read one TOML document.

    `within` names the one table whose values are judged: the rest of such a file belongs to other programs.

    Raises:
        InvalidInput: `toml_invalid`, `toml_date`, `toml_number`, `toml_too_deep`, `text_encoding`; every
            fault with its JSON pointer where one can be given.
        TooLarge: `file_too_large`.
    """
    if len(content) > MAX_TOML:
        raise TooLarge("file_too_large", f"`{file or 'the document'}` is larger than {MAX_TOML} bytes")
    text = utf8_text(content, file, "TOML")
    if _LONG_KEY.search(_STRINGS.sub(_masked, text)):
        raise refused("toml_too_deep", f"a key has more than {MAX_KEY_PARTS} parts", file)
    try:
        value: dict[str, Json] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refused("toml_invalid", f"not valid TOML: {_lower(str(error))}", file) from None
    except RecursionError:
        raise refused("toml_too_deep", f"nested deeper than {MAX_DEPTH} levels", file) from None
    except ValueError:  # an integer of more digits than Python converts, a day that no month has
        raise refused("toml_invalid", "not valid TOML: a number or date that cannot be", file) from None
    faults = Collector("toml_invalid", "not a TOML document that plugreg accepts")
    judged: object = value
    for key in within:
        judged = judged.get(key) if isinstance(judged, dict) else None
    _examine(judged, tuple(within), 1 + len(within), faults, file)
    faults.raise_if_any()
    return value


def _masked(found: re.Match[str]) -> str:
    return "" if found[0].startswith("#") else "s"


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _examine(value: object, at: tuple[str | int, ...], depth: int, faults: Collector, file: str) -> None:
    """Report every value that JSON could not carry."""
    if depth > MAX_DEPTH:
        message = f"nested deeper than {MAX_DEPTH} levels"
        faults.add("toml_too_deep", message, file=file, pointer=pointer_to(*at[:3]))
    elif isinstance(value, dict):
        for key, item in value.items():
            _examine(item, (*at, key), depth + 1, faults, file)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _examine(item, (*at, index), depth + 1, faults, file)
    elif isinstance(value, float) and not math.isfinite(value):
        message = "`nan` and `inf` are not accepted"
        faults.add("toml_number", message, file=file, pointer=pointer_to(*at))
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        message = "the number is larger than 2^53 - 1, not every reader can hold it"
        faults.add("toml_number", message, file=file, pointer=pointer_to(*at))
    elif isinstance(value, (date, time)):
        message = "dates and times are not accepted; write text between quotes"
        faults.add("toml_date", message, file=file, pointer=pointer_to(*at))
