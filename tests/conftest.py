"""What tests of several folders share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from plugreg.credentials import CI_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.local_sigstore import LocalSigstore


for name in CI_VARIABLES:
    os.environ.pop(
        name, None
    )  # the same answers on a person's machine and in a CI; tests set what they are about


@pytest.fixture(scope="session")
def sigstore() -> Iterator[LocalSigstore]:
    """A Sigstore of this machine; one serves all tests of a process."""
    from tests.support.local_sigstore import LocalSigstore

    with LocalSigstore().serving() as instance:
        yield instance
