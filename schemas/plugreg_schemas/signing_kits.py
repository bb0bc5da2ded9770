"""The library that signs and verifies for python-tuf, without the kits of the clouds that it could sign with.

It imports these kits at once where they are installed. That takes longer than an installation, and much of
the memory of a registry. Nothing here signs with them, so the library is told that there are none.
"""

from __future__ import annotations

import sys
from typing import Final

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
