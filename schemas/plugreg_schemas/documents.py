"""JSON and YAML bytes to plain values, strictly: two readers can never see two different documents.

Refused, with the place: bytes that are not UTF-8, a byte order mark, duplicate keys, `NaN` and `Infinity`,
lone surrogates, numbers that other languages cannot hold, nesting over `MAX_DEPTH`; in YAML also anchors,
aliases and tags.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Never

from plugreg_schemas.errors import Collector, InvalidInput
from plugreg_schemas.names import Digest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import yaml

MAX_DEPTH: Final = 64
MAX_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly (RFC 7493, I-JSON, clause 2.2)."""

Json = dict[str, Any] | list[Any] | str | int | float | bool | None


def canonical_json(value: object) -> bytes:
    """Return the one encoding of `value` that digests and signatures are made over.

    Keys sorted, no spaces, UTF-8. For the strings, integers and booleans that plugreg signs this is RFC 8785.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def json_digest(value: object) -> Digest:
    """Return the digest of the canonical encoding of `value`."""
    return Digest.of(canonical_json(value))


def pointer_to(*parts: str | int) -> str:
    """Return the JSON pointer (RFC 6901) with these steps.

    >>> pointer_to("mcpServers", "a/b", 0)
    '/mcpServers/a~1b/0'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


class _Object(dict[str, Any]):
    """A JSON object that remembers which of its keys came twice."""

    __slots__ = ("repeated",)
    repeated: Sequence[str]


class _BadNumberError(ValueError):
    pass


def parse_json(content: bytes, file: str = "") -> Json:
    """Read one JSON document.

    Raises:
        InvalidInput: `json_invalid`, `json_duplicate_key`, `json_number`, `json_surrogate`, `json_too_deep`,
            `text_encoding`; every fault with its JSON pointer where one can be given.
    """
    text = utf8_text(content, file, "JSON")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_float
        )
    except RecursionError:
        raise refused("json_too_deep", f"nested deeper than {MAX_DEPTH} levels", file) from None
    except _BadNumberError as error:
        raise refused("json_number", str(error), file) from None
    except json.JSONDecodeError as error:
        message = f"not valid JSON: {error.msg} at line {error.lineno} column {error.colno}"
        raise refused("json_invalid", message, file) from None
    faults = Collector("json_invalid", "not a JSON document that plugreg accepts")
    _examine(value, (), 1, faults, file)
    faults.raise_if_any()
    plain: Json = value
    return plain


def parse_yaml(content: bytes, file: str = "", first_line: int = 1) -> Json:
    """Read one YAML document of plain mappings, sequences and scalars.

    Timestamps stay the text that they were. `first_line` is the line of `file` on which `content` begins.

    Raises:
        InvalidInput: `yaml_invalid`, `yaml_duplicate_key`, `yaml_alias`, `yaml_tag`, `yaml_too_deep`,
            `text_encoding`.
    """
    import yaml  # noqa: PLC0415 - 50 ms, only plugins with skills or a YAML manifest need it

    text = utf8_text(content, file, "YAML")
    try:
        for _ in _plain_events(yaml.parse(text, Loader=_loader()), file, first_line):
            pass
        node = yaml.compose(text, Loader=_loader())
        faults = Collector("yaml_invalid", "not a YAML document that plugreg accepts")
        value: Json = _construct(node, (), faults, file)
    except yaml.YAMLError as error:
        raise refused("yaml_invalid", _yaml_message(error, first_line), file) from None
    faults.raise_if_any()
    return value


def utf8_text(content: bytes, file: str, kind: str) -> str:
    """Return the text of a document of this `kind`.

    Raises:
        InvalidInput: `text_encoding`: it begins with a byte order mark or is not UTF-8.
    """
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise refused(
            "text_encoding", f"begins with a byte order mark; save it as UTF-8 {kind} without one", file
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused("text_encoding", f"not UTF-8 at byte {error.start}", file) from None


def refused(code: str, message: str, file: str, *steps: str | int) -> InvalidInput:
    """Return the refusal of a document for one fault, which is its only finding."""
    faults = Collector(code, "cannot be read")
    faults.add(code, message, file=file, pointer=pointer_to(*steps))
    return InvalidInput(code, f"{file}: {message}" if file else message, findings=faults.findings)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = _Object(pairs)
    value.repeated = ()
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        value.repeated = [key for key, count in counts.items() if count > 1]
    return value


def _constant(text: str) -> Never:
    raise _BadNumberError(f"{quoted(text)} is not a JSON number")


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_INTEGER:  # noqa: PLR2004 - digits of MAX_INTEGER and a sign
        raise _BadNumberError(f"{quoted(text)} is larger than 2^53 - 1, not every reader can hold it")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise _BadNumberError(f"{quoted(text)} is larger than a double can hold")
    return value


def _examine(value: object, at: tuple[str | int, ...], depth: int, faults: Collector, file: str) -> None:
    if depth > MAX_DEPTH:
        faults.add(
            "json_too_deep", f"nested deeper than {MAX_DEPTH} levels", file=file, pointer=pointer_to(*at[:3])
        )
        return
    if isinstance(value, _Object):
        for key in value.repeated:
            where = pointer_to(*at, _shown(key))
            faults.add(
                "json_duplicate_key",
                f"the key {quoted(key)} stands twice in one object",
                file=file,
                pointer=where,
            )
        for key, item in value.items():
            _examine_text(key, at, faults, file)
            _examine(item, (*at, _shown(key)), depth + 1, faults, file)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _examine(item, (*at, index), depth + 1, faults, file)
    elif isinstance(value, str):
        _examine_text(value, at, faults, file)


def _examine_text(text: str, at: tuple[str | int, ...], faults: Collector, file: str) -> None:
    if re.search("[\ud800-\udfff]", text):
        faults.add(
            "json_surrogate", "a lone surrogate is not a character", file=file, pointer=pointer_to(*at)
        )


def _shown(key: str) -> str:
    return key.encode("utf-8", "backslashreplace").decode()


def _loader() -> type[yaml.SafeLoader | yaml.CSafeLoader]:
    """Return the loader built on libyaml where there is one: ten times faster."""
    import yaml  # noqa: PLC0415

    return yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def _plain_events(events: Iterable[Any], file: str, first_line: int) -> Iterator[Any]:
    """Pass the events on, refusing anchors, aliases, tags and deep nesting before anything is built."""
    import yaml  # noqa: PLC0415

    depth = 0
    for event in events:
        line = event.start_mark.line + first_line
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise refused("yaml_alias", f"anchors and aliases are not accepted (line {line})", file)
        if getattr(event, "tag", None):
            raise refused("yaml_tag", f"tags are not accepted (line {line})", file)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise refused("yaml_too_deep", f"nested deeper than {MAX_DEPTH} levels (line {line})", file)
        yield event


def _construct(node: yaml.Node | None, at: tuple[str | int, ...], faults: Collector, file: str) -> Json:
    """Build the plain value of a composed node; a scalar that JSON could not carry stays text."""
    import yaml  # noqa: PLC0415

    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            if not isinstance(key_node, yaml.ScalarNode):
                faults.add("yaml_invalid", "a key must be plain text", file=file, pointer=pointer_to(*at))
            elif key in mapping:
                message = f"the key {quoted(key)} stands twice in one mapping"
                faults.add("yaml_duplicate_key", message, file=file, pointer=pointer_to(*at, key))
            mapping[key] = _construct(value_node, (*at, key), faults, file)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*at, index), faults, file) for index, item in enumerate(node.value)]
    if node is None:
        return None
    try:
        return _YAML_SCALARS.get(node.tag, str)(node.value)
    except ValueError:
        return str(node.value)


def _yaml_bool(text: str) -> bool:
    return text.lower() in {"yes", "true", "on"}


def _yaml_null(_: str) -> None:
    return None


_YAML_SCALARS: Final[Mapping[str, Callable[[str], Json]]] = {
    "tag:yaml.org,2002:null": _yaml_null,
    "tag:yaml.org,2002:bool": _yaml_bool,
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": _float,
}
"""How plain scalars are read; the rest, timestamps among them, stays text."""


def _yaml_message(error: Exception, first_line: int) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"not valid YAML: {problem}" + (f" at line {mark.line + first_line}" if mark else "")
