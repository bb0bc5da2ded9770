"""Seeded changes of bytes that mean something: bits, pieces, and values inside JSON.

for changed in mutations(content, count=1000, seed=4): ...
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 1e300, "", "0", "a" * 300, "\u0000", "\ud7ff", [], {}, [[]], [None],
    {"": None}, "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "sha256:" + "0" * 64, "../..", "key",
)  # fmt: skip


def mutations(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield as many changed copies; none of them is equal to the original."""
    chance = random.Random(seed)
    done = 0
    while done < count:
        changed = chance.choice(CHANGES)(content, chance)
        if changed != content:
            done += 1
            yield changed


def flipped_bit(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def dropped_piece(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + content[start + chance.choice((1, 1, 2, 16, 300)) :]


def doubled_piece(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    end = start + chance.choice((1, 1, 2, 16, 300))
    return content[:end] + content[start:]


def inserted_byte(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + bytes([chance.choice(b' \n\t\x00"{}[],:09aA\xff')]) + content[start:]


def cut_off(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def other_value(content: bytes, chance: random.Random) -> bytes:
    """One value somewhere in the JSON is another one."""
    value = json.loads(content)
    holder, key = chance.choice(places(value))
    holder[key] = chance.choice(VALUES)
    return canonical_json(value)


def dropped_member(content: bytes, chance: random.Random) -> bytes:
    value = json.loads(content)
    holder, key = chance.choice(places(value))
    del holder[key]
    return canonical_json(value)


def swapped_values(content: bytes, chance: random.Random) -> bytes:
    """Two simple values change places."""
    value = json.loads(content)
    leaves = [(holder, key) for holder, key in places(value) if not isinstance(holder[key], (dict, list))]
    (one, first), (other, second) = (chance.choice(leaves) for _ in range(2))
    one[first], other[second] = other[second], one[first]
    return canonical_json(value)


def added_member(content: bytes, chance: random.Random) -> bytes:
    value = json.loads(content)
    tables = [value, *(holder[key] for holder, key in places(value) if isinstance(holder[key], dict))]
    chance.choice(tables)[chance.choice(("x", "", "version", "_type", "registry", "keyid"))] = chance.choice(
        VALUES
    )
    return canonical_json(value)


CHANGES: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    flipped_bit, dropped_piece, doubled_piece, inserted_byte, cut_off, other_value, dropped_member, swapped_values,
    added_member,
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key or number there."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in list(keys):
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])
    return found
