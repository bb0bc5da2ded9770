"""Where the records are kept: the file of a SQLite database, or a database on a PostgreSQL server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMES: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Server:
    """A database on a PostgreSQL server, by the address that libpq knows: it may hold a password."""

    address: str = field(repr=False)
    shown: str
    """The address as people may see it: without user, password and options."""

    def __str__(self) -> str:
        """Return what people may see."""
        return self.shown

    def parameters(self) -> Mapping[str, Any]:
        """Return what the address says, by libpq's words. What it leaves open, libpq's own variables say."""
        return _parameters(self.address)


Database = Path | Server


def read_server(address: str) -> Server:
    """Read an address such as `postgresql://user@host:5432/name?sslmode=verify-full`.

    Raises:
        UsageError: `setting_invalid`; the message repeats nothing of the address, which may hold a password.
    """
    if not address.startswith(SCHEMES):
        raise _invalid()
    given = _parameters(address)
    host, port = str(given.get("host", "")), str(given.get("port", ""))
    if "@" in host + port + str(given.get("dbname", "")) or not _is_port(port):
        raise _invalid()  # a password with `@`, `/` or `:` that is not written as `%40`, `%2F`, `%3A`
    place = host or str(given.get("hostaddr", ""))
    return Server(address, f"postgresql://{place}{':' if port else ''}{port}/{given.get('dbname', '')}")


def _parameters(address: str) -> Mapping[str, Any]:
    from psycopg import ProgrammingError  # noqa: PLC0415 - only who uses PostgreSQL has it
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        return conninfo_to_dict(address)
    except ProgrammingError:
        raise _invalid() from None


def _is_port(text: str) -> bool:
    """Whether this is a port, or one for each of several hosts."""
    return all(not one or (one.isascii() and one.isdigit()) for one in text.split(","))


def _invalid() -> UsageError:
    return UsageError(
        "setting_invalid",
        "write `sqlite:FILE` or `postgresql://USER@HOST:PORT/NAME`; in a user or password, `%40` stands for "
        "`@` and `%2F` for `/`",
    )
