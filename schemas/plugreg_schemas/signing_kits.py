"""The library that signs and verifies for python-tuf, without the kits of the clouds that it could sign with.

It imports these kits at once where they are installed. That takes longer than an installation, and much of
the memory of a registry. So the library is told that there are none, until a key in such a place is named.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

_KITS: Final = ("boto3", "azure.core", "google.cloud.kms", "hvac", "pkcs11")


def import_without_kits() -> None:
    """Import the library, before python-tuf does. Whoever else wants a kit may import it as ever."""
    absent = [kit for kit in _KITS if kit not in sys.modules]
    try:
        sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: there is no such module
        import securesystemslib.signer  # noqa: F401, PLC0415 - this is what it is about
    finally:
        for kit in absent:
            del sys.modules[kit]


def signer_with_kit(scheme: str) -> type[Signer]:
    """Return the library's signer for URIs of `scheme`, with its kit where that is installed.

    Raises:
        KeyError: the library knows no such scheme.
    """
    import_without_kits()
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME  # noqa: PLC0415 - it needs the line above

    known = SIGNER_FOR_URI_SCHEME[scheme]
    module = importlib.reload(sys.modules[known.__module__])
    return cast("type[Signer]", getattr(module, known.__name__))
