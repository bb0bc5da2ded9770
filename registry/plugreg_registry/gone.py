"""What a newer state of a registry had and a backup has not: releases, and statements of histories.

The newer state is what is left of its objects, or a mirror of them. Of it only the signed index is believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugreg_registry.signed_files import digest_of
from plugreg_schemas.api import PluginDocument
from plugreg_schemas.fields import read_model
from plugreg_schemas.index import hashed_target_key
from plugreg_schemas.names import Digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from plugreg_registry.signed_files import SignedFiles


class Gone(NamedTuple):
    """One thing that is lost: a version of a plugin, or a statement about it."""

    plugin: str
    version: str
    """Empty for a statement."""
    digest: Digest


def gone(
    newer: SignedFiles, kept: Collection[str], versions: Collection[tuple[str, str]], digests: Collection[str]
) -> Iterator[Gone]:
    """Yield what a newer state lists and a backup has not.

    `kept` are the keys of the objects in the backup, `versions` its releases as (plugin, version), `digests`
    those of its statements.

    Raises:
        NotAvailable: `index_missing`. Temporary: `index_unusable`. InvalidInput: `document_invalid`.
    """
    state = newer.state()
    for name in state.bins.get_roles():
        signed = newer.bin(state, name)
        for path, target in signed.targets.items():
            if hashed_target_key(path, digest_of(target)) in kept:
                continue
            document = read_model(PluginDocument, newer.target(signed, path), code="document_invalid")
            for entry in document.versions:
                if (document.name, entry.version) not in versions:
                    yield Gone(document.name, entry.version, Digest(entry.digest))
            for digest in document.history:
                if digest not in digests:
                    yield Gone(document.name, "", Digest(digest))
