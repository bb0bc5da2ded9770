"""Installing as a program of its own, for tests that need another mount namespace: one word or code for each result."""

from __future__ import annotations

import sys
from pathlib import Path

from plugreg.inventory import list_installed, verify
from plugreg.plugins_root import PluginsRoot
from plugreg_schemas.errors import PlugregError
from tests.support.roots import Job, assert_settled


def main(root: str, registry: str, verb: str, *names: str) -> None:
    """Do one thing and print how it ended."""
    place = PluginsRoot.at(root)
    try:
        if verb == "list":
            for row in list_installed(place).plugins:
                print(row.name, row.version, row.status)  # noqa: T201 - its output is its purpose
            return
        if verb == "verify":
            print(*[row.verdict for row in verify(place).plugins])  # noqa: T201
            return
        if verb == "settled":
            assert_settled(place)
            print("settled")  # noqa: T201
            return
        Job(Path(root), Path(registry), (verb, *names)).run(lambda _: None)
    except PlugregError as error:
        print(type(error).__name__, error.code)  # noqa: T201
        return
    print("done")  # noqa: T201


main(*sys.argv[1:])
