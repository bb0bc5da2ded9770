"""What certificates are judged by on this machine.

A trust configuration that the user names, else the registry's own, else the public instance.

It is read when the first certificate comes along: with keys only, neither file nor library is touched.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from plugreg.own_files import read_small
from plugreg_schemas.errors import IntegrityError, NotAvailable, Unverifiable
from plugreg_schemas.trust.material import public_trust_config
from plugreg_schemas.trust.sigstore import SigstoreVerifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg.config import Config


def trust_config(settings: Config) -> bytes:
    """Return the trust configuration as JSON bytes.

    Raises:
        Unverifiable: `trust_material_missing`: the file that the settings name cannot be read.
    """
    if not settings.trust_config:
        return public_trust_config()
    path = Path(settings.trust_config).expanduser()
    try:
        return read_small(path)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "there is no home folder"
        raise Unverifiable(
            "trust_material_missing",
            f"the trust configuration {path} cannot be read: {reason}",
            hint="correct `--trust-config` or `PLUGREG_TRUST_CONFIG`; "
            "without one the public instance is trusted",
        ) from None


def verifier(settings: Config) -> SigstoreVerifier:
    """Return the verifier of certificates, which reads its material when it is needed."""
    return SigstoreVerifier(lambda: trust_config(settings))


def judges(settings: Config) -> Callable[[str], SigstoreVerifier]:
    """Return what gives the verifier of what was installed from a registry, by its id. No network is used."""

    @cache
    def judge(registry: str) -> SigstoreVerifier:
        if settings.trust_config:
            return verifier(settings)
        return SigstoreVerifier(lambda: _kept(settings, registry) or public_trust_config())

    return judge


def _kept(settings: Config, registry: str) -> bytes | None:
    """Return the trust configuration of a registry as this machine keeps it, or None where there is none."""
    from plugreg.index.signed import from_kept
    from plugreg.index.terms import Terms

    terms = Terms(settings.home, offline=True, allow_old_index=True)
    try:
        return from_kept(registry, registry, terms).sigstore
    except NotAvailable:
        return None
    except IntegrityError as error:
        raise Unverifiable(
            "trust_material_missing",
            f"what this machine keeps of the registry's trust configuration is damaged: {error.message}",
            hint="`plugreg update` gets it again; or name a configuration with `--trust-config`",
        ) from None
