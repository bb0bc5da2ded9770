"""The tokens of readers and auditors: who may read here, beside what everybody may.

    plugreg_read_<43 characters>     reads whatever the registry offers, where it is not open to anyone
    plugreg_audit_<43 characters>    that, and who has done what

The secret is 256 random bits, so a plain hash of it tells nothing, and nothing else is kept. Its beginning
says what it is: to people, and to those who look for secrets where none belong.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

from plugreg_registry.records import Token
from plugreg_schemas.errors import InvalidInput, NotAllowed, NotAvailable, Unauthenticated, UsageError
from plugreg_schemas.fields import format_time
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from plugreg_registry.ports import Tokens
    from plugreg_registry.records import Scope

SECRET_BYTES: Final = 32
ID_BYTES: Final = 4
MAX_NAME: Final = 100
_SECRET: Final = re.compile(r"plugreg_(?:read|audit)_[A-Za-z0-9_-]{43}")
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(.*)")
FRESH_SECONDS: Final = 5
"""Between two looks at all tokens: for so long a removed one may still be used."""
HINT: Final = (
    "the registry's operator gives tokens out; then set `PLUGREG_TOKEN`, "
    "or add the registry with `plugreg registry add URL --token-file FILE`"
)


def issue(name: str, scope: Scope, now: datetime, expires: datetime | None = None) -> tuple[Token, str]:
    """Return a new token and its secret.

    Raises:
        InvalidInput: `token_name_invalid`. UsageError: `token_over`: its end is in the past.
    """
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInput(
            "token_name_invalid", f"{quoted(name)} cannot name a token: write at most {MAX_NAME} characters"
        )
    if expires is not None and expires <= now:
        raise UsageError("token_over", "the end of the token is in the past", hint="give a later `--expires`")
    secret = f"plugreg_{scope}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return Token(secrets.token_hex(ID_BYTES), name.strip(), scope, hash_of(secret), now, expires), secret


def remove(tokens: Tokens, token: str) -> None:
    """Forget a token by its id.

    Raises:
        NotAvailable: `token_unknown`.
    """
    if not tokens.remove(token):
        raise NotAvailable(
            "token_unknown",
            f"there is no token {quoted(token)}",
            hint="`plugreg-registry token list` shows the ids",
        )


def row(token: Token, now: datetime) -> dict[str, str | None]:
    """Return what operators are shown of a token."""
    over = token.expires is not None and token.expires <= now
    times = {"created": token.created, "expires": token.expires, "used": token.used}
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "state": "expired" if over else "valid",
        **{name: format_time(time) if time else None for name, time in times.items()},
    }


def hash_of(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def by_hash(tokens: Iterable[Token]) -> Mapping[str, Token]:
    """Return tokens by the hash of their secret."""
    return {token.hash: token for token in tokens}


def secret_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the secret that a request brings along.

    Raises:
        Unauthenticated: `token_missing`; `token_invalid`: what is there cannot be one of ours.
    """
    given = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
    bearers = [found[1].strip() for value in given if (found := _BEARER.fullmatch(value))]
    if not bearers:
        raise Unauthenticated("token_missing", "a token is needed to read this", hint=HINT)
    if len(given) > 1 or not _SECRET.fullmatch(bearers[0]):
        raise _invalid()
    return bearers[0]


def check(secret: str, token: Token | None, scope: Scope, now: datetime) -> Token:
    """Return the token that was found for a secret, if it may be used for a scope now.

    Raises:
        Unauthenticated: `token_invalid`. NotAllowed: `token_scope`.
    """
    if token is None or not hmac.compare_digest(token.hash, hash_of(secret)):
        raise _invalid()
    if token.expires is not None and token.expires <= now:
        raise _invalid()
    if scope == "audit" and token.scope != "audit":
        raise NotAllowed(
            "token_scope",
            "this needs a token of the scope `audit`, and this one has the scope `read`",
            hint="the registry's operator makes one with `plugreg-registry token add NAME --scope audit`",
            details={"needed": "audit", "held": token.scope},
        )
    return token


def _invalid() -> Unauthenticated:
    return Unauthenticated("token_invalid", "the token is unknown here, was removed, or is over", hint=HINT)
