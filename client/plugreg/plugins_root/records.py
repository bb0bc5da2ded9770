"""Facts, state and pin as files: small JSON documents that a reader always sees whole.

    Facts   beside a release, written before it becomes active: what was proved when it was installed
    State   one for each plugin: the range that was asked for, and the pin
    Pin     registry, signer and newest statement; kept as long as the plugin's PLUGIN_DATA is

Facts repeat range and head, so a state that a killed command did not write can be made from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.own_files import WrongKindError, read_small
from plugreg.plugins_root.durability import write_file
from plugreg_schemas.api import RegistryRef
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput
from plugreg_schemas.fields import (
    DigestField,
    NameField,
    Open,
    RegistryIdField,
    TimeField,
    VersionField,
    read_model,
)
from plugreg_schemas.statement import State as PluginState
from plugreg_schemas.trust.identity import Signer

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from plugreg.plugins_root.layout import PluginsRoot, StoreEntry


class Facts(Open):
    """What was proved of a release when it was installed. `public_key` is base64 of the DER SPKI."""

    name: NameField
    version: VersionField
    digest: DigestField
    size: int
    registry: RegistryRef
    signer: Signer
    public_key: str
    head: DigestField
    installed_at: TimeField
    range: str = ""
    yanked: str | None = None
    """The reason, where the release was yanked already."""
    published_at: TimeField | None = None
    """When the registry took it, as its signed index says."""
    signed_at: TimeField | None = None
    """The proved time of its signature, where there is one."""
    index_time: TimeField | None = None
    """When the index by which it was chosen was made; None where it was not signed."""


class Pin(Open):
    """Whom a name belongs to on this machine.

    `signer` is an identity in words, `head` the newest statement seen.
    """

    registry: RegistryIdField
    signer: str
    head: DigestField


class Seen(Open):
    """What a plugin's history said of it as a whole, when this machine last looked."""

    state: PluginState = "active"
    reason: str = ""


class State(Open):
    """The record of a plugin. `digest` is empty where only its data is left."""

    name: NameField
    pin: Pin
    version: str = ""
    digest: str = ""
    range: str = ""
    yanked: str | None = None
    """The reason, where the active release is known to be yanked."""
    seen: Seen = Seen()
    allowed: str = ""
    """Why it was installed although it was in quarantine."""

    @classmethod
    def of(cls, facts: Facts) -> State:
        """Return the record of a plugin whose active release has these facts."""
        return cls(
            name=facts.name,
            pin=Pin(registry=facts.registry.id, signer=facts.signer.words, head=facts.head),
            version=facts.version,
            digest=facts.digest,
            range=facts.range,
            yanked=facts.yanked,
        )


def read_facts(entry: StoreEntry) -> Facts:
    """Read the facts of a release.

    Raises:
        IntegrityError: `facts_damaged`: they are missing, unreadable or about another release.
    """
    hint = f"install it again: `plugreg install {entry.name}`"
    try:
        facts = read_model(Facts, read_small(entry.facts), code="facts_damaged", file=entry.facts.name)
    except FileNotFoundError:
        raise IntegrityError("facts_damaged", f"{entry.facts} is missing", hint=hint) from None
    except WrongKindError as error:
        raise IntegrityError("facts_damaged", f"{entry.facts}: {error.strerror}", hint=hint) from None
    except InvalidInput as error:
        raise IntegrityError(
            "facts_damaged", f"{entry.facts}: {error.message}", hint=hint, findings=error.findings
        ) from None
    if (facts.name, f"{facts.version}-{facts.digest[7:19]}") != (entry.name, entry.key):
        raise IntegrityError(
            "facts_damaged", f"{entry.facts} is about `{facts.name} {facts.version}`", hint=hint
        )
    return facts


def read_state(root: PluginsRoot, name: str) -> State | None:
    """Read the record of a plugin, or return None where there is none.

    Raises:
        IntegrityError: `state_damaged`: whom the plugin's data belongs to cannot be told.
    """
    path = root.state(name)
    try:
        state = read_model(State, read_small(path), code="state_damaged", file=path.name)
    except FileNotFoundError:
        return None
    except WrongKindError as error:
        raise _damaged(path, error.strerror or "", name) from None
    except InvalidInput as error:
        raise _damaged(path, error.message, name) from None
    if state.name != name:
        raise _damaged(path, f"it is about `{state.name}`", name)
    return state


def write_record(staging: Path, target: Path, record: BaseModel) -> None:
    """Replace the record `target`, which a reader sees old or new and whole."""
    write_file(staging, target, canonical_json(record.model_dump(mode="json")) + b"\n")


def _damaged(path: Path, reason: str, name: str) -> IntegrityError:
    return IntegrityError(
        "state_damaged",
        f"{path} does not say whom the data of `{name}` belongs to: {reason}",
        hint=f"restore the file, or give up the data: `plugreg uninstall {name} --purge-data`",
    )
