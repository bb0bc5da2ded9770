"""Which registries are known, and which of them a command may use.

<home>/registries.json    {"registries": [{"id", "url", "name", "insecure_http"}]}
<home>/index/             what is kept of each one's index, and the root that is pinned (`index.folder`)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plugreg import tokens, trust_policy
from plugreg.config import write_atomically
from plugreg.histories import Histories
from plugreg.index.folder import IndexFolder
from plugreg.index.terms import Terms, silent
from plugreg.own_files import WrongKindError, read_small
from plugreg.plugins_root.locking import held
from plugreg.trust_material import verifier
from plugreg_schemas.errors import InvalidInput, NotAvailable, UsageError
from plugreg_schemas.fields import Open, RegistryIdField, read_model
from plugreg_schemas.names import Digest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from plugreg.config import Config
    from plugreg.lock_file import LockFile
    from plugreg.network import Network
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

    def connect(
        self,
        terms: Terms,
        sigstore: SigstoreVerifier | None = None,
        network: Network | None = None,
        token: str = "",
    ) -> Remote:
        """Return the registry, not contacted yet. `sigstore` judges the certificates of signers."""
        from plugreg.remote import Remote

        return Remote(
            self.url,
            terms,
            expected_id=self.id,
            name=self.name,
            insecure_http=self.insecure_http,
            sigstore=sigstore,
            network=network,
            token=token,
        )


class _Registries(Open):
    registries: tuple[KnownRegistry, ...] = ()


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries that were added, and the one that the settings choose.

    `say` is told what a person should know of a registry, such as that its root was pinned. With a `lock`
    file their roots are compared, and what they serve may be older.
    """

    config: Config
    say: Callable[[str], None] = silent
    lock: LockFile | None = None

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

    def forget(self, ids: Iterable[str]) -> None:
        """Forget what was kept of registries, their pinned roots with it; what was seen revoked is kept.

        Raises:
            Temporary: `root_locked`.
        """
        for registry in ids:
            folder = IndexFolder.of(self.config.home, registry)
            if folder.path.exists():
                with folder.lock(PATIENCE_S):
                    folder.forget()

    def remotes(self) -> tuple[Remote, ...]:
        """Return the registries that this command may use: the chosen one, else all that were added.

        Raises:
            UsageError: `no_registry`, `registry_url_invalid`.
        """
        remotes = self._remotes(self.known())
        for remote in remotes:
            remote.histories = Histories(self.config.home / "histories")
        return remotes

    def _remotes(self, known: tuple[KnownRegistry, ...]) -> tuple[Remote, ...]:
        if self.config.registry:
            return (self._chosen(known),)
        if not known:
            raise UsageError(
                "no_registry",
                "no registry is known",
                hint="add one: `plugreg registry add URL`, or give `--registry URL`",
            )
        network, sigstore, terms = self.network(), self.sigstore(), self.terms()
        return tuple(entry.connect(terms, sigstore, network, self.token(entry.url)) for entry in known)

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

    def network(self) -> Network:
        """Return the way to registries that the settings say."""
        from plugreg.network import Network

        return Network(self.config.ca_file)

    def token(self, url: str) -> str:
        """Return the token by which the registry at an address is read, nothing if there is none.

        Raises:
            UsageError: `token_malformed`. PlugregError: as `tokens.kept`.
        """
        if self.config.token and self._is_meant(url):
            return tokens.checked(self.config.token, "`PLUGREG_TOKEN`")
        return tokens.kept(self.config.home, url)

    def _is_meant(self, url: str) -> bool:
        """Whether an address is that of the registry which the user names, else of the only one added."""
        known, named = self.known(), self.config.token_for
        if not named:
            return len(known) == 1 and known[0].url.rstrip("/") == url.rstrip("/")
        here = {word for k in known if k.url.rstrip("/") == url.rstrip("/") for word in (k.name, k.id)}
        return named in here or named.rstrip("/") == url.rstrip("/")

    def sigstore(self) -> SigstoreVerifier | None:
        """Return what judges certificates because the user chose it; None leaves it to each registry."""
        return verifier(self.config) if self.config.trust_config else None

    def terms(self, root_digest: str = "") -> Terms:
        """Return how indexes may be read in this command; `root_digest` is what a registry is added by."""
        return Terms(
            home=self.config.home,
            first_use=trust_policy.load(self.config).first_use,
            offline=self.config.offline,
            allow_old_index=self.config.allow_old_index,
            accept_root=Digest(self.config.accept_root) if self.config.accept_root else "",
            root_digest=root_digest,
            say=self.say,
            locked_roots=self.lock.roots if self.lock else None,
        )

    def _chosen(self, known: tuple[KnownRegistry, ...]) -> Remote:
        from plugreg.remote import Remote

        for entry in known:
            if self.config.registry in {entry.name, entry.id} or self.config.registry.rstrip(
                "/"
            ) == entry.url.rstrip("/"):
                return entry.connect(self.terms(), self.sigstore(), self.network(), self.token(entry.url))
        if "://" not in self.config.registry:
            raise NotAvailable(
                "registry_unknown",
                f"no registry named {quoted(self.config.registry)} is known",
                hint="`plugreg registry list` shows them",
            )
        return Remote(
            self.config.registry,
            self.terms(),
            insecure_http=False,
            sigstore=self.sigstore(),
            network=self.network(),
            token=self.token(self.config.registry),
        )


def _unusable(path: Path, reason: str, findings: Sequence[Finding] = ()) -> InvalidInput:
    return InvalidInput(
        "registries_invalid",
        f"{path} cannot be used: {reason}",
        hint=f"correct {path}, or delete it and add the registries again",
        findings=findings,
    )
