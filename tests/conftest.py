"""What tests of several folders share."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from plugreg.credentials import CI_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.local_sigstore import LocalSigstore
    from tests.support.postgres import PostgresServer
    from tests.support.s3 import S3Server


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[str], PostgresServer]]:
    """Gives the PostgreSQL server of a version; one serves all tests of a process, from its first use on."""
    from tests.support.postgres import INSTALLED, PostgresServer

    servers: dict[str, PostgresServer] = {}
    with ExitStack() as stack:

        def server(version: str) -> PostgresServer:
            if version not in servers:
                servers[version] = stack.enter_context(PostgresServer(INSTALLED[version]))
            return servers[version]

        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[S3Server]:
    """An S3 of this machine; one serves all processes of a run, and each test takes a prefix of its own."""
    from tests.support.s3 import shared_server

    mine = tmp_path_factory.getbasetemp()
    with shared_server((mine if worker_id == "master" else mine.parent) / "s3") as server:
        yield server
