"""Whom this machine trusts with a name: `<home>/trust.toml`, written by its user or its administrator.

    first_use = "refuse"
    [signers]
    "acme-*" = ["ci:https://token.actions.githubusercontent.com#1234#56#.github/workflows/release.yml"]

A name that matches a pattern must be signed by one of its identities. Of several patterns the one with the
most characters that are no wildcard decides; where these are equal, each of them must allow the signer. What
matches none is a matter of the first use: its signer is pinned then, or refused.

The file is never a project's: what was cloned does not say whom to trust.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from plugreg.own_files import read_small
from plugreg_schemas.errors import IntegrityError, NotAllowed, UsageError
from plugreg_schemas.names import quoted
from plugreg_schemas.trust.policy import matches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from plugreg.config import Config

FILE: Final = "trust.toml"
FIRST_USES: Final = ("pin", "refuse")
KINDS: Final = ("key:", "oidc:", "ci:")
"""How identities begin; one that begins otherwise could match no signer, and nobody would notice."""
_NAME_PATTERN: Final = re.compile(r"[a-z0-9._*?-]+")

FirstUse = Literal["pin", "refuse"]


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """What the file says. `signers` are the identities, which may have wildcards, by pattern of names."""

    first_use: FirstUse = "pin"
    signers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    file: str = FILE
    """Where it was read, for messages."""

    def deciding(self, name: str) -> tuple[str, ...]:
        """Return the patterns that decide on a name: those with the most characters that are no wildcard."""
        found = [pattern for pattern in self.signers if matches(name, pattern)]
        most = max(map(_weight, found), default=0)
        return tuple(pattern for pattern in found if _weight(pattern) == most)

    def check(self, name: str, signer: str, *, known: bool) -> None:
        """Refuse a signer that this machine does not trust with a name.

        `signer` is an identity in words; `known`: the name is pinned here, or this very signer was accepted.

        Raises:
            IntegrityError: `signer_not_trusted`.
            NotAllowed: `first_use_refused`.
        """
        patterns = self.deciding(name)
        for pattern in patterns:
            if not any(matches(signer, identity) for identity in self.signers[pattern]):
                raise IntegrityError(
                    "signer_not_trusted",
                    f"{quoted(name)} must be signed by {_any_of(self.signers[pattern])}, "
                    f"and this release is signed by `{signer}`",
                    hint=f"the rule is `{pattern}` in {self.file}; ask the author who signs it now",
                    details={"pattern": pattern, "offered": signer},
                )
        if not patterns and not known and self.first_use == "refuse":
            raise NotAllowed(
                "first_use_refused",
                f"{quoted(name)} was never used on this machine, and its signer `{signer}` is in no rule",
                hint=f"add the name and its signer to {self.file}, or accept this signer: "
                f"`--accept-signer {signer}`",
                details={"offered": signer},
            )


NO_RULES: Final = TrustPolicy()
"""The policy of a machine without the file: whoever is first is pinned."""


def _weight(pattern: str) -> int:
    return len(pattern) - pattern.count("*") - pattern.count("?")


def _any_of(identities: tuple[str, ...]) -> str:
    return " or ".join(f"`{identity}`" for identity in identities)


def load(settings: Config) -> TrustPolicy:
    """Read the file of this machine; without one, first use pins. The stricter of all settings counts.

    Raises:
        UsageError: `trust_policy_invalid`.
    """
    path = settings.home / FILE
    try:
        content: dict[str, Any] = tomllib.loads(read_small(path).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        content = {}
    except (ValueError, OSError, RecursionError) as error:
        raise _invalid(path, f"it cannot be read: {error}") from None
    unknown = [key for key in content if key not in {"first_use", "signers"}]
    if unknown:
        raise _invalid(
            path, f"`first_use` and `signers` are known, and not {', '.join(map(quoted, unknown))}"
        )
    said = content.get("first_use", "pin")
    if said not in FIRST_USES:
        raise _invalid(path, '`first_use` is `"pin"` or `"refuse"`')
    return TrustPolicy(
        first_use="refuse" if "refuse" in {said, settings.first_use} else "pin",
        signers=_signers(path, content.get("signers", {})),
        file=str(path),
    )


def _signers(path: Path, table: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        raise _invalid(path, "`signers` is a table of patterns and identities")
    for pattern, identities in table.items():
        place = f"signers.{quoted(pattern)}"
        if not _NAME_PATTERN.fullmatch(pattern):
            raise _invalid(path, f"{place} can match no name of a plugin")
        if not isinstance(identities, list) or not identities:
            raise _invalid(path, f"{place} is a list of identities, at least one")
        wrong = [i for i in identities if not (isinstance(i, str) and i.startswith(KINDS))]
        if wrong:
            raise _invalid(path, f"{place}: {quoted(str(wrong[0]))} is not an identity")
    return {pattern: tuple(identities) for pattern, identities in table.items()}


def _invalid(path: Path, reason: str) -> UsageError:
    return UsageError(
        "trust_policy_invalid",
        f"{path}: {reason}",
        hint='write for example `"acme-*" = ["key:sha256:..."]` below `[signers]`; '
        "`plugreg info NAME` prints who signed",
    )
