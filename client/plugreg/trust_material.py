"""What certificates are judged by on this machine: one trust configuration, or the public instance.

It is read when the first certificate comes along: with keys only, neither file nor library is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plugreg.own_files import read_small
from plugreg_schemas.errors import Unverifiable
from plugreg_schemas.trust.material import public_trust_config
from plugreg_schemas.trust.sigstore import SigstoreVerifier

if TYPE_CHECKING:
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
