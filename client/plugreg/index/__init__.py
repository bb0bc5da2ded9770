"""The signed index of a registry: what it offers, who administers it, what is revoked; all of it verified.

terms      what a command may do
folder     what this machine keeps, and which root it trusts
roots      which root that is: pinned, given, accepted, or the first one seen
online     the newest state, by python-tuf
walk       a state without a network, of any bearable age
sources    where a walk reads: a folder, or what was kept
verdicts   what is wrong, in our own words
signed     the documents of one verified state

The library under python-tuf can sign with cloud services, and imports their kits at once where they are
installed. That takes longer than an installation. Here nothing is signed: it is told that there are none.
"""

from __future__ import annotations

import sys
from typing import Final

_KITS: Final = ("boto3", "azure.core", "google.cloud.kms", "hvac", "pkcs11")


def _import_without_kits() -> None:
    absent = [kit for kit in _KITS if kit not in sys.modules]
    try:
        sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: there is no such module
        import securesystemslib.signer  # noqa: F401
    finally:
        for kit in absent:
            del sys.modules[kit]


_import_without_kits()
