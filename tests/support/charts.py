"""The part of Helm's templates that the chart uses, and nothing beyond: there is no Helm among the packages.

{{ .Values.a.b }}  {{ .Release.Name }}  {{ .Chart.AppVersion }}       the value, as it is
{{ .Values.a.b | quote }}                                            in double quotes
{{- toYaml .Values.a.b | nindent 4 }}                                as YAML on lines of its own, indented
{{- if .Values.a.b }} ... {{- end }}                                 on lines of their own, with nesting

Whatever else stands between double braces is refused, so the chart stays within what is tested here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOCK: Final = re.compile(r"^\s*\{\{- (?:if (\.[\w.]+)|(end)) \}\}$")
_YAML: Final = re.compile(r"^\s*\{\{- toYaml (\.[\w.]+) \| nindent (\d+) \}\}$")
_VALUE: Final = re.compile(r"\{\{ (\.[\w.]+)( \| quote)? \}\}")


def rendered(template: str, names: Mapping[str, Any]) -> str:
    """Return a template filled in. `names` has what `.Values`, `.Release` and `.Chart` are.

    Raises:
        KeyError: a value that is not there. ValueError: what is not in the subset.
    """
    lines: list[str] = []
    open_blocks: list[bool] = []
    for line in template.splitlines():
        if block := _BLOCK.match(line):
            if block[2]:
                open_blocks.pop()
            else:
                open_blocks.append(bool(_value(names, block[1])))
        elif all(open_blocks):
            lines.append(_filled(line, names))
        else:
            _filled(line, names)
    if open_blocks:
        raise ValueError("an `if` has no `end`")
    return "\n".join(lines)


def _filled(line: str, names: Mapping[str, Any]) -> str:
    if block := _YAML.match(line):
        value, indent = _value(names, block[1]), " " * int(block[2])
        return "\n".join(indent + part for part in yaml.safe_dump(value).splitlines())
    filled = _VALUE.sub(lambda found: _text(_value(names, found[1]), quoted=bool(found[2])), line)
    if "{{" in filled or "}}" in filled:
        raise ValueError(f"this is not in the subset: {line.strip()}")
    return filled


def _value(names: Mapping[str, Any], path: str) -> Any:
    value: Any = names
    for name in path[1:].split("."):
        value = value[name]
    return value


def _text(value: object, *, quoted: bool) -> str:
    return json.dumps(str(value)) if quoted else str(value)
