"""The operator's tier policy: its file, and which plugins it has changed since the last start.

    PLUGREG_REGISTRY_TIERS > TierPolicy > publish, plugin documents, `/v1/resolve`
    <data>/tiers.json      what the plugin documents show, so that a changed policy reaches them

Releases keep what their authors declared. The policy is laid over that whenever it is shown, so it holds for
what was published before it, and taking it back is enough to undo it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import InvalidInput, UsageError
from plugreg_schemas.names import quoted
from plugreg_schemas.tiers import MAX_POLICY, TierPolicy, parse_tier_policy

if TYPE_CHECKING:
    from pathlib import Path


def read_tiers(file: Path) -> TierPolicy:
    """Read the policy file.

    Raises:
        InvalidInput: `tier_policy_invalid`, with every fault in its findings; `tier_policy_unreadable`.
    """
    try:
        if not file.is_file():
            raise InvalidInput("tier_policy_unreadable", f"there is no file {quoted(str(file))}")
        with file.open("rb") as stream:
            content = stream.read(MAX_POLICY + 1)
    except OSError as error:
        raise InvalidInput(
            "tier_policy_unreadable", f"{quoted(str(file))} cannot be read: {error.strerror}"
        ) from None
    return parse_tier_policy(content, file.name)


def changed_tiers(shown: Path, policy: TierPolicy) -> tuple[str, ...]:
    """Return the names whose documents show another tier than `policy` gives them, sorted."""
    before = _shown(shown)
    names = before.keys() | policy.tiers.keys()
    return tuple(sorted(name for name in names if before.get(name) != policy.tiers.get(name)))


def remember_tiers(shown: Path, policy: TierPolicy) -> None:
    """Note that the documents show `policy` now. A note that is lost costs writing them again."""
    new = shown.with_suffix(".new")
    new.write_bytes(canonical_json(dict(policy.tiers)))
    new.replace(shown)


def _shown(file: Path) -> dict[str, object]:
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    raise UsageError("data_unusable", f"{quoted(str(file))} is not what was written", hint="remove this file")
