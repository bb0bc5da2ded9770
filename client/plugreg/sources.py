"""Which registry a plugin comes from: the one that is locked, or pinned, else the only one that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from plugreg.pinning import other_registry
from plugreg_schemas.errors import NotAllowed, NotAvailable, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import BinaryIO

    from plugreg.histories import Histories
    from plugreg.lock_file import LockedPlugin
    from plugreg.pinning import Options, Wish
    from plugreg_schemas.api import RegistryRef
    from plugreg_schemas.bundle import Limits
    from plugreg_schemas.index import Admins, RevocationList
    from plugreg_schemas.names import Digest
    from plugreg_schemas.trust.sigstore import SigstoreVerifier

    Progress = Callable[[str, int, int], None]


class Registry(Protocol):
    """What this needs of a registry; `plugreg.remote.Remote` is one."""

    @property
    def ref(self) -> RegistryRef:
        """Its id, URL and name. Raises NotAvailable `registry_unreachable`."""
        ...

    @property
    def sigstore(self) -> SigstoreVerifier | None:
        """What judges its certificates; None where only keys are accepted."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits on its bundles."""
        ...

    @property
    def admins(self) -> Admins:
        """Its administrators, as its trust target lists them."""
        ...

    @property
    def revocations(self) -> RevocationList:
        """What it withdraws, with everything that this machine ever saw there."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it: a root that was pinned, an old index."""
        ...

    @property
    def index_time(self) -> datetime | None:
        """When its index was made; None where it is not signed."""
        ...

    @property
    def histories(self) -> Histories | None:
        """What this machine has seen of its plugins; None where nothing is kept."""
        ...

    def document(self, name: str) -> bytes:
        """Return a plugin's document. Raises NotAvailable: `plugin_not_found`, `registry_unreachable`."""
        ...

    def attestation(self, digest: Digest) -> bytes:
        """Return a signed statement. Raises Unverifiable `attestation_missing`."""
        ...

    def download(self, digest: Digest, size: int, into: BinaryIO, progress: Progress) -> None:
        """Write a bundle of this digest, at most `size` bytes. Raises IntegrityError `digest_mismatch`."""
        ...


def find(wish: Wish, registries: Sequence[Registry], options: Options) -> tuple[Registry, bytes]:
    """Return the registry that the name belongs to, with the plugin's document.

    Raises:
        UsageError: `no_registry`.
        NotAvailable: `plugin_not_found`, `registry_unknown`, `registry_unreachable`.
        NotAllowed: `name_in_several_registries`, `registry_changed`, `data_belongs_to_other_signer`.
    """
    if not registries:
        raise UsageError("no_registry", "no registry is known", hint="add one: `plugreg registry add URL`")
    if wish.locked is not None:
        return _of_lock(wish, wish.locked, registries, options)
    if wish.pin is None:
        return _only_offer(wish.name, registries)
    wanted = options.accept_registry or wish.pin.registry
    known, silent = _by_id(registries)
    if wanted in known:
        return known[wanted], _document(known[wanted], wish, known)
    if silent:
        raise silent[0]
    offers = _offers(wish.name, list(known.values()))
    if offers:
        raise other_registry(wish, offers[0][0].ref.id)
    raise NotAvailable(
        "registry_unknown",
        f"`{wish.name}` belongs to the registry `{wanted}`, which is not among the known ones",
        hint="add it: `plugreg registry add URL`",
    )


def _of_lock(
    wish: Wish, locked: LockedPlugin, registries: Sequence[Registry], options: Options
) -> tuple[Registry, bytes]:
    """Return the registry that a lock file names, if it is known here; the file makes none known."""
    if wish.pin is not None and locked.registry not in {wish.pin.registry, options.accept_registry}:
        raise other_registry(wish, locked.registry)
    known, silent = _by_id(registries)
    if locked.registry in known:
        return known[locked.registry], _document(known[locked.registry], wish, known)
    if silent:
        raise silent[0]
    told = options.lock.registries.get(locked.registry) if options.lock else None
    root = f" --root-digest {told.root}" if told and told.root else ""
    where = quoted(f"plugreg registry add {told.url if told and told.url else 'URL'}{root}")
    raise NotAvailable(
        "registry_unknown",
        f"{quoted(wish.name)} is locked from the registry `{locked.registry}`, "
        "which is not among the known ones",
        hint=f"the lock file makes no registry known; if you trust this one: {where}",
    )


def _document(registry: Registry, wish: Wish, known: dict[str, Registry]) -> bytes:
    """Return the document; where it is not given, say which registries are not asked instead."""
    try:
        return registry.document(wish.name)
    except NotAvailable as error:
        others = [r.ref.id for r in known.values() if r is not registry]
        if not others:
            raise
        rest = ", ".join(others)
        message = f"{error.message}; `{wish.name}` belongs to that registry, so others are not asked: {rest}"
        raise type(error)(error.code, message, hint=error.hint) from None


def _only_offer(name: str, registries: Sequence[Registry]) -> tuple[Registry, bytes]:
    known, silent = _by_id(registries)
    if silent:
        raise silent[0]
    offers = _offers(name, list(known.values()))
    places = ", ".join(f"{r.ref.name or r.ref.url} (`{r.ref.id}`)" for r, _ in offers)
    if len(offers) > 1:
        raise NotAllowed(
            "name_in_several_registries",
            f"`{name}` is in several registries: {places}",
            hint="choose one: `--registry NAME`",
        )
    if not offers:
        asked = ", ".join(r.ref.url for r in known.values())
        raise NotAvailable(
            "plugin_not_found",
            f"`{name}` is not in any known registry: {asked}",
            hint="look at the spelling of the name",
        )
    return offers[0]


def _by_id(registries: Sequence[Registry]) -> tuple[dict[str, Registry], list[NotAvailable]]:
    """Registries by id, of mirrors with one id the first; and why some do not say which they are."""
    known: dict[str, Registry] = {}
    silent: list[NotAvailable] = []
    for registry in registries:
        try:
            known.setdefault(registry.ref.id, registry)
        except NotAvailable as error:
            silent.append(error)
    return known, silent


def _offers(name: str, registries: Sequence[Registry]) -> list[tuple[Registry, bytes]]:
    """Those that have the name. One that cannot be asked ends the command: it might have it as well."""
    found = []
    for registry in registries:
        try:
            found.append((registry, registry.document(name)))
        except NotAvailable as error:
            if error.code != "plugin_not_found":
                raise
    return found
