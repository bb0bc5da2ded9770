"""One server of a client's configuration as a server of Agent Plugins, or the reason why it cannot be one.

    type       missing, `http`, `local`, ...   `stdio`, `streamable-http`, `sse`
    command    a path in the plugin            `./path`; a well-known absolute path: its bare name
    args, cwd  the client's root placeholder   `${PLUGIN_ROOT}`
    env        `${NAME}`, credentials          left out: nothing is expanded, and everybody could read it
    headers    the same                        left out

A placeholder that nobody expands would arrive as it is written, so a value that holds one is worth nothing.
Only in arguments it stays, because leaving out a word changes what the others mean; it is reported.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from plugreg.convert.values import REASONS, as_text, reason_to_leave
from plugreg_schemas.formats.entry import literal_placeholders
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugreg.convert.draft import Draft, Found
    from plugreg_schemas.documents import Json

ROOT: Final = "${PLUGIN_ROOT}"

_ROOTS: Final = re.compile(
    r"\$\{(?:CLAUDE_PLUGIN_ROOT|CODEX_PLUGIN_ROOT|CURSOR_PLUGIN_ROOT|PLUGIN_ROOT|PLUGIN_DIR|extensionPath"
    r"|__dirname)\}"
)
"""How the clients spell the plugin's own folder."""
_DATA: Final = re.compile(r"\$\{(?:CLAUDE_PLUGIN_DATA|PLUGIN_DATA)\}")
_SEPARATORS: Final = re.compile(r"\$\{(?:/|pathSeparator)\}")
_DEFAULT: Final = re.compile(r"\$\{[A-Za-z_]\w*:-([^{}]*)\}")
_VARIABLE: Final = re.compile(r"\$\{[^{}]*\}|\$[A-Za-z_]\w*|\{\{[^{}]*\}\}")

_TYPES: Final[Mapping[str, str]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "remote": "streamable-http",
    "streamable-http": "streamable-http",
    "streamable_http": "streamable-http",
    "streamablehttp": "streamable-http",
    "sse": "sse",
}
_SYSTEM: Final = re.compile(
    r"(?:/usr)?(?:/local)?/bin/([A-Za-z0-9._+-]+)|/opt/homebrew/bin/([A-Za-z0-9._+-]+)"
)
_URL_KEYS: Final = ("url", "httpUrl", "serverUrl")
_USED: Final = frozenset({"type", "command", "args", "env", "cwd", "headers", "http_headers", *_URL_KEYS})


class CannotConvertError(Exception):
    """A server has no form in Agent Plugins: a code, a sentence, and the field that is in the way."""

    def __init__(self, code: str, message: str, *steps: str | int) -> None:
        super().__init__(message)
        self.code, self.message, self.steps = code, message, steps


def turn(found: Found, draft: Draft) -> None:
    """Add the server to the draft, or record why it is lost."""
    if found.name in draft.servers:
        message = f"server {quoted(found.name)} is declared twice; the first declaration is taken"
        draft.note("server_repeated", message, found.file, *found.steps)
        return
    try:
        draft.servers[found.name] = _Turning(found, draft).server()
    except CannotConvertError as error:
        message = f"server {quoted(found.name)} is left out: {error.message}"
        draft.lose(error.code, message, found.file, *found.steps, *error.steps)


class _Turning:
    """The conversion of one server."""

    def __init__(self, found: Found, draft: Draft) -> None:
        self.found, self.draft = found, draft
        self.value: Mapping[str, Any] = {key: self._with_default(item) for key, item in found.value.items()}

    def server(self) -> dict[str, Any]:
        """Return the server of Agent Plugins.

        Raises:
            CannotConvertError: it has no such form.
        """
        kind = self._kind()
        for key in self.value:
            if key not in _USED:
                self._lose("field_dropped", f"the field {quoted(key)} has no counterpart", key)
        return self._stdio() if kind == "stdio" else self._remote(kind)

    def _with_default(self, value: Json) -> Json:
        """Replace `${NAME:-text}` by that text: it is what a client starts with where nobody sets `NAME`."""
        if isinstance(value, str) and _DEFAULT.search(value):
            message = f"server {quoted(self.found.name)}: a placeholder with a default became its default"
            self.draft.note("default_taken", message, self.found.file, *self.found.steps)
            return _DEFAULT.sub(lambda found: found[1], value)
        if isinstance(value, list):
            return [self._with_default(item) for item in value]
        if isinstance(value, dict):
            return {key: self._with_default(item) for key, item in value.items()}
        return value

    def _kind(self) -> str:
        stated = self.value.get("type", self.value.get("transport"))
        if isinstance(stated, str):
            kind = _TYPES.get(stated.lower())
            if kind is None:
                raise CannotConvertError(
                    "transport_unsupported", f"its type {quoted(stated)} is unknown", "type"
                )
            return kind
        if "command" in self.value:
            return "stdio"
        if not any(key in self.value for key in _URL_KEYS):
            raise CannotConvertError("server_invalid", "it has neither `command` nor `url`")
        return "streamable-http"

    def _stdio(self) -> dict[str, Any]:
        command, *rest = self._command()
        args = [*rest, *self._args()]
        server: dict[str, Any] = {"type": "stdio", "command": command}
        if args:
            server["args"] = args
        if env := self._texts("env"):
            server["env"] = env
        if cwd := self._cwd():
            server["cwd"] = cwd
        return server

    def _command(self) -> list[str]:
        stated = self.value.get("command")
        if isinstance(stated, list) and stated and all(isinstance(word, str) for word in stated):
            words = list(stated)
        elif isinstance(stated, str) and stated.strip():
            words = [stated.strip()]
        else:
            raise CannotConvertError("server_invalid", "its `command` is not text", "command")
        command = self._path(words[0])
        if re.search(r"\s", command) and not command.startswith("./"):
            words = [*self._split(command), *words[1:]]
            command = words[0]
            self.draft.note(
                "command_split",
                f"the command of {quoted(self.found.name)} was split into program and arguments",
                self.found.file,
                *self.found.steps,
                "command",
            )
        return [self._checked(command), *(self._placed(word) for word in words[1:])]

    def _split(self, command: str) -> list[str]:
        try:
            return shlex.split(command)
        except ValueError:
            message = "its `command` is a line for a shell"
            raise CannotConvertError("command_shell", message, "command") from None

    def _checked(self, command: str) -> str:
        system = _SYSTEM.fullmatch(command)
        if system:
            name = system[1] or system[2]
            message = (
                f"an absolute path became the bare command {quoted(name)}, which is searched on the PATH"
            )
            self.draft.note("command_path", message, self.found.file, *self.found.steps, "command")
            return name
        if _VARIABLE.search(command):
            message = "its `command` needs a placeholder that nobody expands"
            raise CannotConvertError("placeholder_literal", message, "command")
        if command.startswith(("/", "~")) or re.match(r"[A-Za-z]:", command):
            message = "its `command` is a path on one machine, not in the plugin"
            raise CannotConvertError("command_absolute", message, "command")
        if "/" not in command:
            return command
        path = posixpath.normpath(command)
        if path.startswith("../") or path == "..":
            raise CannotConvertError("command_escape", "its `command` leads out of the plugin", "command")
        return f"./{path}"

    def _path(self, text: str) -> str:
        """Return a path of the source with `/` and `./` for the plugin's own folder."""
        text = _SEPARATORS.sub("/", text)
        text = text.replace("\\", "/") if _ROOTS.match(text) or text.startswith(".\\") else text
        found = _ROOTS.match(text)
        return "." + text[found.end() :] if found and text[found.end() : found.end() + 1] == "/" else text

    def _placed(self, text: str) -> str:
        return _DATA.sub("${PLUGIN_DATA}", _ROOTS.sub(ROOT, _SEPARATORS.sub("/", text)))

    def _args(self) -> list[str]:
        stated = self.value.get("args", [])
        if stated is None:
            return []
        if not isinstance(stated, list):
            raise CannotConvertError("server_invalid", "its `args` are not a list", "args")
        args = []
        for index, item in enumerate(stated):
            if isinstance(item, bool) or not isinstance(item, (str, int, float)):
                raise CannotConvertError("server_invalid", "one of its `args` is not text", "args", index)
            args.append(self._placed(str(item)))
            if literal_placeholders(args[-1]):
                message = "the placeholder in this argument is not expanded, it arrives as it is written"
                self._lose("placeholder_literal", message, "args", index)
        return args

    def _texts(self, key: str) -> dict[str, str]:
        """Return `env` or `headers` without what would arrive unexpanded and what nobody should read."""
        stated = self.value.get(key) or {}
        if not isinstance(stated, dict):
            raise CannotConvertError("server_invalid", f"its `{key}` is not an object", key)
        kept = {}
        for name, item in stated.items():
            text = self._placed(as_text(item))
            code = reason_to_leave(name, text, key)
            if code:
                message = f"{quoted(name)} of `{key}` is left out: {REASONS[code]}"
                self._lose(code, message, key, name)
            else:
                kept[name] = text
        return kept

    def _cwd(self) -> str:
        stated = self.value.get("cwd")
        if not isinstance(stated, str) or not stated.strip():
            return ""
        path = self._path(stated.strip())
        if _ROOTS.fullmatch(path) or path in {".", "./"}:
            return ""  # the plugin's folder is where a server starts anyway
        path = self._placed(path)
        if path.startswith("${PLUGIN_DATA}"):
            return path
        if path.startswith(("/", "~", "..")) or _VARIABLE.search(path) or re.match(r"[A-Za-z]:", path):
            self._lose(
                "cwd_dropped", "`cwd` is not a folder of the plugin; servers start in the plugin", "cwd"
            )
            return ""
        return f"./{posixpath.normpath(path)}"

    def _remote(self, kind: str) -> dict[str, Any]:
        key = next((key for key in _URL_KEYS if isinstance(self.value.get(key), str)), "")
        if not key:
            raise CannotConvertError("server_invalid", "it has no `url`")
        url = self.value[key].strip()
        if _VARIABLE.search(url) or re.search(r"\{[^{}]*\}|<[^<>]*>", url):
            message = "its `url` has a placeholder that nobody expands"
            raise CannotConvertError("placeholder_literal", message, key)
        server: dict[str, Any] = {"type": kind, "url": url}
        headers = {**self._texts("http_headers"), **self._texts("headers")}
        if headers:
            server["headers"] = headers
        return server

    def _lose(self, code: str, message: str, *steps: str | int) -> None:
        said = f"server {quoted(self.found.name)}: {message}"
        self.draft.lose(code, said, self.found.file, *self.found.steps, *steps)
