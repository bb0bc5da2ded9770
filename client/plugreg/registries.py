"""Which registries are known, and which of them a command may use.

<home>/registries.json    {"registries": [{"id", "url", "name", "insecure_http"}]}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg.config import write_atomically
from plugreg.own_files import WrongKindError, read_small
from plugreg.plugins_root.locking import held
from plugreg.trust_material import verifier
from plugreg_schemas.errors import InvalidInput, NotAvailable, UsageError
from plugreg_schemas.fields import Open, RegistryIdField, read_model
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from plugreg.config import Config
    from plugreg.remote import Remote
    from plugreg_schemas.errors import Finding
    from plugreg_schemas.trust.sigstore import SigstoreVerifier


LOCK: Final = "registries.json.lock"
PATIENCE_S: Final = 30
"""Seconds to wait for another command that changes the list, which takes it milliseconds."""


class KnownRegistry(Open):
    """A registry that was added: its URL is where it is, its id is what it is."""

    id: RegistryIdField
    url: str
    name: str
    insecure_http: bool = False

    def connect(self, sigstore: SigstoreVerifier | None = None) -> Remote:
        """Return the registry, not contacted yet. `sigstore` judges certificates."""
        from plugreg.remote import Remote

        return Remote(
            self.url,
            expected_id=self.id,
            name=self.name,
            insecure_http=self.insecure_http,
            sigstore=sigstore,
        )


class _Registries(Open):
    registries: tuple[KnownRegistry, ...] = ()


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries that were added, and the one that the settings choose."""

    config: Config

    def known(self) -> tuple[KnownRegistry, ...]:
        """Return the registries that were added.

        Raises:
            InvalidInput: `registries_invalid`: the file that lists them is damaged.
        """
        path = self.config.home / "registries.json"
        try:
            return read_model(
                _Registries, read_small(path), code="registries_invalid", file=path.name
            ).registries
        except FileNotFoundError:
            return ()
        except WrongKindError as error:
            raise _unusable(path, error.strerror or "") from None
        except InvalidInput as error:
            raise _unusable(path, error.message, error.findings) from None

    def remember(self, registries: tuple[KnownRegistry, ...]) -> None:
        """Replace the list of known registries."""
        value = {"registries": [r.model_dump() for r in registries]}
        write_atomically(self.config.home / "registries.json", json.dumps(value, indent=2).encode() + b"\n")

    def change(self, decide: Callable[[tuple[KnownRegistry, ...]], tuple[KnownRegistry, ...]]) -> None:
        """Replace the list by what `decide` makes of it; changes at the same time come one after the other.

        Raises:
            Temporary: `root_locked`.
            PlugregError: what `decide` raises, and nothing is changed.
        """
        self.config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(self.config.home / LOCK, PATIENCE_S, lambda _: None):
            self.remember(decide(self.known()))

    def remotes(self) -> tuple[Remote, ...]:
        """Return the registries that this command may use: the chosen one, else all that were added.

        Raises:
            UsageError: `no_registry`, `registry_url_invalid`.
        """
        known = self.known()
        if self.config.registry:
            return (self._chosen(known),)
        if not known:
            raise UsageError(
                "no_registry",
                "no registry is known",
                hint="add one: `plugreg registry add URL`, or give `--registry URL`",
            )
        return tuple(entry.connect(verifier(self.config)) for entry in known)

    def remote(self) -> Remote:
        """Return the one registry that this command must mean.

        Raises:
            UsageError: `no_registry`, `registry_ambiguous`.
        """
        remotes = self.remotes()
        if len(remotes) > 1:
            names = ", ".join(entry.name for entry in self.known())
            raise UsageError(
                "registry_ambiguous",
                f"several registries are known: {names}",
                hint="choose one with `--registry NAME`",
            )
        return remotes[0]

    def _chosen(self, known: tuple[KnownRegistry, ...]) -> Remote:
        from plugreg.remote import Remote

        for entry in known:
            if self.config.registry in {entry.name, entry.id} or self.config.registry.rstrip(
                "/"
            ) == entry.url.rstrip("/"):
                return entry.connect(verifier(self.config))
        if "://" not in self.config.registry:
            raise NotAvailable(
                "registry_unknown",
                f"no registry named {quoted(self.config.registry)} is known",
                hint="`plugreg registry list` shows them",
            )
        return Remote(self.config.registry, insecure_http=False, sigstore=verifier(self.config))


def _unusable(path: Path, reason: str, findings: Sequence[Finding] = ()) -> InvalidInput:
    return InvalidInput(
        "registries_invalid",
        f"{path} cannot be used: {reason}",
        hint=f"correct {path}, or delete it and add the registries again",
        findings=findings,
    )
