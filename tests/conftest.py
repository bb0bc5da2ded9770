"""What tests of several folders share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.local_sigstore import LocalSigstore


@pytest.fixture(scope="session")
def sigstore() -> Iterator[LocalSigstore]:
    """A Sigstore of this machine; one serves all tests of a process."""
    from tests.support.local_sigstore import LocalSigstore

    with LocalSigstore().serving() as instance:
        yield instance
