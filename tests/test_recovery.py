"""What owners do when a key or a repository is lost, replaced, at its end, or stolen. Users go on, thieves do not.

Commands are processes, the registry is real, and so are the keys, the tokens and the timestamps.
"""

from __future__ import annotations

import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.fields import format_time
from tests.support.commands import PROGRAMS, User, write_plugin
from tests.support.people import identity, person, publish
from tests.support.registries import RegistryProcess, registry_environment, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.local_sigstore import LocalSigstore

A_SECOND = 1.1
"""The registry dates to the second: what is to come later must be in a later one."""


@pytest.fixture(scope="module")
def registry(sigstore: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    folder = tmp_path_factory.mktemp("recovery")
    (folder / "trust.json").write_bytes(sigstore.trust_config())
    settings = {"PLUGREG_REGISTRY_TRUST_CONFIG": str(folder / "trust.json")}
    with running(folder / "data", environment=settings) as process:
        yield process


@pytest.fixture
def ann(tmp_path: Path, registry: RegistryProcess) -> User:
    """An author with a key for every day, and a spare one in a safe."""
    signs_by = {"PLUGREG_TRUST_CONFIG": registry.environment["PLUGREG_REGISTRY_TRUST_CONFIG"]}
    made = person(tmp_path / "ann", registry, environment=signs_by)
    made.run("key", "new", "spare")
    return made


@pytest.fixture
def bob(tmp_path: Path, registry: RegistryProcess) -> User:
    """Somebody who has the first version."""
    return person(tmp_path / "bob", registry, key=False)


@pytest.fixture
def fresh(tmp_path: Path, registry: RegistryProcess) -> User:
    """Somebody who comes later. Like bob they know of the Sigstore what the registry's index says."""
    return person(tmp_path / "fresh", registry, key=False)


def soon(seconds: float = 0) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)


def wait_for(moment: datetime) -> None:
    time.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()) + 0.1)


def versions(user: User, *words: str) -> list[str]:
    return [row["version"] for row in user.run(*words)["installed"]]


def test_a_lost_or_replaced_key_is_taken_out_by_another_owner_and_its_versions_stay(
    ann: User, bob: User, fresh: User
) -> None:
    old = identity(ann)
    publish(ann, "rotated", "1.0.0", "--key", "default")
    bob.run("install", "rotated")
    ann.run("owner", "add", "rotated", identity(ann, "spare"), "--key", "default")
    time.sleep(A_SECOND)
    ann.run("owner", "remove", "rotated", old, "--key", "spare")
    publish(ann, "rotated", "1.1.0", "--key", "spare")
    assert versions(bob, "update") == ["1.1.0"]
    assert versions(fresh, "install", "rotated@1.0.0") == ["1.0.0"]
    assert fresh.run("info", "rotated@1.0.0")["verdict"] == "verified"
    folder = str(write_plugin(ann.folder / "thief", "rotated", "1.2.0"))
    assert ann.fails("publish", folder, "--key", "default", code=6)["code"] == "not_owner"


def test_a_key_at_its_end_publishes_no_more_and_its_versions_stay(ann: User, fresh: User) -> None:
    publish(ann, "ended", "1.0.0", "--key", "default")
    ann.run("owner", "add", "ended", identity(ann, "spare"), "--key", "default")
    end = soon(3)
    ann.run("owner", "add", "ended", identity(ann), "--not-after", format_time(end), "--key", "spare")
    wait_for(end)
    folder = str(write_plugin(ann.folder / "late", "ended", "1.1.0"))
    problem = ann.fails("publish", folder, "--key", "default", code=4)
    assert problem["code"] == "key_outside_validity"
    assert format_time(end) in problem["detail"]
    assert versions(fresh, "install", "ended") == ["1.0.0"]
    ann.run("publish", folder, "--key", "spare")
    assert versions(fresh, "update") == ["1.1.0"]


def revoke(registry: RegistryProcess, *words: str) -> None:
    done = subprocess.run(
        [PROGRAMS / "plugreg-registry", "revoke", *words, "--data", str(registry.data)],
        env=registry_environment(registry.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stamped", [False, True], ids=["dated by the index", "dated by a timestamp"])
def test_of_a_stolen_key_what_was_signed_before_stays_and_the_rest_is_refused(
    ann: User, fresh: User, registry: RegistryProcess, sigstore: LocalSigstore, stamped: bool
) -> None:
    more = ["--key", "default"] + (["--timestamp-url", f"{sigstore.url}/timestamps"] if stamped else [])
    name = "stamped" if stamped else "dated"
    publish(ann, name, "1.0.0", *more)
    assert bool(fresh.run("info", name)["signed_at"]) == stamped
    time.sleep(A_SECOND)
    stolen = soon()
    time.sleep(A_SECOND)
    publish(ann, name, "1.1.0", *more)
    words = ["signer", identity(ann), "--level", "refuse", "--reason", "stolen"]
    revoke(registry, *words, "--before", format_time(stolen))
    assert versions(fresh, "install", name) == ["1.0.0"]
    assert fresh.fails("install", f"{name}@1.1.0", code=6)["code"] == "revoked"


def test_of_a_stolen_key_without_a_date_nothing_is_left(
    ann: User, fresh: User, registry: RegistryProcess
) -> None:
    publish(ann, "undated", "1.0.0", "--key", "default")
    revoke(registry, "signer", identity(ann), "--level", "refuse", "--reason", "stolen")
    assert fresh.fails("install", "undated", code=6)["code"] == "revoked"


def by_ci(user: User, name: str, version: str, token: str) -> list[str]:
    path = user.folder / "token"
    path.write_text(token)
    folder = write_plugin(user.folder / f"ci-{name}-{version}", name, version)
    return ["publish", str(folder), "--identity-token-file", str(path)]


def test_a_lost_ci_repository_is_replaced_by_another_owner_and_its_versions_stay(
    ann: User, bob: User, fresh: User, sigstore: LocalSigstore
) -> None:
    ci = f"ci:{sigstore.issuer}#{{}}#2002#.ci/publish.yml"
    lost, new = ci.format(1001), ci.format(3003)
    ann.run(*by_ci(ann, "moved", "1.0.0", sigstore.ci_token()))
    bob.run("install", "moved")
    token = ["--identity-token-file", str(ann.folder / "token")]
    ann.run("owner", "add", "moved", identity(ann), *token)
    time.sleep(A_SECOND)

    elsewhere = sigstore.ci_token(repository_id="3003")
    assert ann.fails(*by_ci(ann, "moved", "1.1.0", elsewhere), code=6)["code"] == "not_owner"
    ann.run("owner", "add", "moved", new, "--refs", "refs/tags/v*", "--key", "default")
    ann.run("owner", "remove", "moved", lost, "--key", "default")
    ann.run(*by_ci(ann, "moved", "1.1.0", elsewhere))
    assert versions(bob, "update") == ["1.1.0"]
    assert versions(fresh, "install", "moved@1.0.0") == ["1.0.0"]
    branch = sigstore.ci_token("refs/heads/main", repository_id="3003")
    assert ann.fails(*by_ci(ann, "moved", "1.2.0", branch), code=4)["code"] == "ref_not_allowed"


def test_a_renamed_organisation_is_the_same_owner_and_users_notice_nothing(
    ann: User, bob: User, sigstore: LocalSigstore
) -> None:
    ann.run(*by_ci(ann, "renamed", "1.0.0", sigstore.ci_token()))
    bob.run("install", "renamed")
    token = sigstore.ci_token(
        "refs/tags/v2",
        repository="acme-new/demo",
        workflow_ref="acme-new/demo/.ci/publish.yml@refs/tags/v2",
    )
    ann.run(*by_ci(ann, "renamed", "1.1.0", token))
    assert versions(bob, "update") == ["1.1.0"]
    assert bob.run("info", "renamed")["signer"]["repository"].endswith("acme-new/demo")
