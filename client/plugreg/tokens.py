"""The tokens by which this machine reads registries that are not open to everybody.

PLUGREG_TOKEN          for the one registry that the command means; it is not kept
<home>/tokens.json     {"tokens": {URL: token}}, mode 0600: what `registry add --token-file FILE` was given

A token belongs to one address and goes to the origin of that address only (`link`). It is never an argument
of a command, and no output has it. A file that others may read is refused: its token is not a secret.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field

from plugreg.config import write_atomically
from plugreg.own_files import WrongKindError, open_regular
from plugreg.plugins_root.locking import held
from plugreg_schemas.errors import InvalidInput, NotAllowed, NotAvailable, UsageError
from plugreg_schemas.fields import Open, read_model
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FILE: Final = "tokens.json"
MODE: Final = 0o600
OTHERS: Final = 0o077
"""What nobody but the owner may."""
MAX_FILE: Final = 1 << 20
PATIENCE_S: Final = 30
"""Seconds to wait for another command that changes the file, which takes it milliseconds."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,4096}=*")
"""What may stand behind `Bearer` (RFC 6750, 2.1): neither spaces nor ends of lines."""


class _Kept(Open):
    tokens: dict[str, str] = Field(default_factory=dict)


def checked(text: str, where: str) -> str:
    """Return a token without the space around it. `where` is where it comes from; it is never shown itself.

    Raises:
        UsageError: `token_malformed`.
    """
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            "token_malformed",
            f"what {where} has is no token",
            hint="a token is one word, such as `plugreg_read_...`; the registry's operator gives it out",
        )
    return token


def of_file(name: str) -> str:
    """Read a token from a file, or from the standard input where it is named `-`.

    Raises:
        NotAvailable: `token_file_unreadable`. NotAllowed: `token_file_exposed`.
        UsageError: `token_malformed`.
    """
    if name == "-":
        content, where = sys.stdin.buffer.read(MAX_FILE), "the standard input"
    else:
        content, where = _private(Path(name)), f"the file {quoted(name)}"
    return checked(content.decode("utf-8", "replace"), where)


def kept(home: Path, url: str) -> str:
    """Return the token that is kept for the address of a registry, nothing if there is none.

    Raises:
        NotAllowed: `token_file_exposed`. NotAvailable: `token_file_unreadable`. InvalidInput:
        `tokens_invalid`.
    """
    token = _all(home).get(_address(url), "")
    return checked(token, f"{home / FILE}") if token else ""


def keep(home: Path, url: str, token: str) -> None:
    """Keep the token for an address, in place of the one before.

    Raises:
        Temporary: `root_locked`; and as `kept`.
    """
    _change(home, lambda tokens: {**tokens, _address(url): token})


def forget(home: Path, urls: Iterable[str]) -> None:
    """Forget the tokens for these addresses. Raises as `keep`."""
    gone = {_address(url) for url in urls}
    if gone & _all(home).keys():
        _change(home, lambda tokens: {url: token for url, token in tokens.items() if url not in gone})


def _change(home: Path, decide: Callable[[dict[str, str]], dict[str, str]]) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(home / f"{FILE}.lock", PATIENCE_S, lambda _: None):
        content = json.dumps({"tokens": decide(_all(home))}, indent=2).encode() + b"\n"
        write_atomically(home / FILE, content, mode=MODE)


def _all(home: Path) -> dict[str, str]:
    path = home / FILE
    if not os.path.lexists(path):
        return {}
    try:
        return dict(read_model(_Kept, _private(path), code="tokens_invalid", file=FILE).tokens)
    except InvalidInput:
        raise InvalidInput(
            "tokens_invalid",
            f"{path} cannot be used: it does not have the form that plugreg gives it",
            hint=f"delete {path}, and add the registries again with `--token-file`",
        ) from None  # what is wrong in it may be a token


def _private(path: Path) -> bytes:
    """Return the content of a file that nobody else may read."""
    try:
        with open_regular(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & OTHERS:
                raise NotAllowed(
                    "token_file_exposed",
                    f"others may use {path}: it has the mode {mode:04o}, so what it holds is no secret",
                    hint=f"run `chmod 600 {path}`; if others were there, ask for a new token",
                )
            content = file.read(MAX_FILE + 1)
    except (WrongKindError, OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "that is not a file name"
        raise NotAvailable("token_file_unreadable", f"{quoted(str(path))} cannot be read: {reason}") from None
    if len(content) > MAX_FILE:
        raise NotAvailable("token_file_unreadable", f"{path} is larger than {MAX_FILE} bytes")
    return content


def _address(url: str) -> str:
    return url.rstrip("/")
