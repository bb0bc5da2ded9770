"""Yanks and owners: signed after the proved head, again where somebody else came first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plugreg import statements
from plugreg.index.terms import Terms
from plugreg.link import Patience
from plugreg.publish import prepare, publish
from plugreg.remote import Remote
from plugreg.scaffold import init
from plugreg.signing import new_key
from plugreg_schemas.errors import Conflict, IntegrityError, InvalidInput, NotAllowed, NotAvailable
from plugreg_schemas.statement import Yank, successor_statement
from tests.support.record import OTHER_REGISTRY
from tests.support.scripted import Server, problem, serving
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from plugreg.signing import KeyFile
    from plugreg_schemas.history import History
    from tests.support.scripted import Answer, Request

QUICK = Patience(tries=2, first_pause_s=0.001, longest_pause_s=0.01)


@pytest.fixture
def registry() -> SmallRegistry:
    return SmallRegistry()


@pytest.fixture
def server(registry: SmallRegistry) -> Iterator[Server]:
    with serving(registry) as running:
        yield running


@pytest.fixture
def ada(tmp_path: Path) -> KeyFile:
    return new_key(tmp_path / "keys", "ada")


@pytest.fixture
def bob(tmp_path: Path) -> KeyFile:
    return new_key(tmp_path / "keys", "bob", algorithm="ecdsa-p256")


@pytest.fixture
def remote(server: Server, tmp_path: Path, ada: KeyFile) -> Remote:
    """A registry in which ada has published `demo` 0.1.0."""
    reached = Remote(server.url, Terms(tmp_path / "home"), patience=QUICK)
    init(tmp_path / "demo")
    publish(prepare(tmp_path / "demo"), reached, ada)
    return reached


def history_of(remote: Remote) -> History:
    return statements.proved(remote, "demo")[1]


def test_yank_and_unyank(remote: Remote, ada: KeyFile) -> None:
    done = statements.yank(remote, ada, "demo", "0.1.0", "loses data")
    history = history_of(remote)
    assert (done.digest, done.revision) == (history.head, 1)
    assert history.yanked == {"0.1.0": "loses data"}
    assert statements.unyank(remote, ada, "demo", "0.1.0").revision == 2
    assert history_of(remote).yanked == {}


def test_yank_of_what_is_not_there(remote: Remote, ada: KeyFile) -> None:
    with pytest.raises(NotAvailable) as refused:
        statements.yank(remote, ada, "demo", "9.9.9", "x")
    assert refused.value.code == "version_not_found"
    assert "0.1.0" in refused.value.hint
    with pytest.raises(NotAvailable) as missing:
        statements.yank(remote, ada, "domo", "0.1.0", "x")
    assert missing.value.code == "plugin_not_found"


@pytest.mark.parametrize("name", ["../demo", "", "Demo", "a\udcff", "demo?x=1"])
def test_names_that_are_none_are_never_asked_for(remote: Remote, server: Server, name: str) -> None:
    asked = len(server.requests)
    with pytest.raises(InvalidInput) as refused:
        statements.proved(remote, name)
    assert refused.value.code == "name_invalid"
    assert len(server.requests) == asked


def test_a_stranger_cannot_yank_or_take_the_name(remote: Remote, bob: KeyFile) -> None:
    with pytest.raises(NotAllowed) as refused:
        statements.yank(remote, bob, "demo", "0.1.0", "x")
    assert refused.value.code == "not_owner"
    with pytest.raises(NotAllowed):
        statements.change_owners(remote, bob, "demo", add=[bob.identity])
    assert history_of(remote).revision == 0


def test_owners_are_added_and_removed(remote: Remote, ada: KeyFile, bob: KeyFile) -> None:
    statements.change_owners(remote, ada, "demo", add=[bob.identity])
    statements.change_owners(remote, bob, "demo", remove=[ada.identity])
    assert [owner.words for owner in history_of(remote).owners] == [bob.identity.words]
    with pytest.raises(NotAllowed) as refused:
        statements.change_owners(remote, bob, "demo", remove=[bob.identity])
    assert refused.value.code == "last_owner"
    with pytest.raises(InvalidInput) as again:
        statements.change_owners(remote, bob, "demo", add=[bob.identity])
    assert again.value.code == "statement_without_effect"


def test_a_statement_that_was_overtaken_is_made_anew(
    remote: Remote, ada: KeyFile, bob: KeyFile, registry: SmallRegistry
) -> None:
    """Somebody adds an owner between our look at the head and our statement."""
    rounds: list[str] = []

    def overtake(request: Request) -> Answer | None:
        if request.path == "/v1/statements" and not rounds:
            rounds.append("overtaken")
            statements.change_owners(remote, ada, "demo", add=[bob.identity])
        return None

    registry.before = overtake
    assert statements.yank(remote, ada, "demo", "0.1.0", "x").revision == 2
    assert history_of(remote).owned_by(bob.identity)


def test_a_statement_that_is_always_overtaken_ends(
    remote: Remote, ada: KeyFile, registry: SmallRegistry
) -> None:
    registry.before = lambda request: (
        problem(409, "history_moved") if request.path == "/v1/statements" else None
    )
    with pytest.raises(Conflict) as refused:
        statements.yank(remote, ada, "demo", "0.1.0", "x")
    assert refused.value.code == "history_moved"


def test_nothing_is_signed_after_a_history_that_is_not_proved(
    remote: Remote, ada: KeyFile, registry: SmallRegistry, server: Server
) -> None:
    """The registry lists a statement by a stranger: no owner builds on it."""
    history = registry.histories["demo"]
    place: dict[str, Any] = {
        "registry": history.registry,
        "plugin": "demo",
        "revision": 1,
        "previous": history.head,
    }
    mallory = new_key(ada.path.parent, "mallory")
    forged = mallory.sign(successor_statement(Yank(**place, version="0.1.0", yanked=True)))
    registry.attestations[forged.digest] = forged.content
    registry.keys[mallory.identity.id] = mallory.public_key
    from dataclasses import replace

    registry.histories["demo"] = replace(
        history, digests=(*history.digests, forged.digest), yanked={"0.1.0": ""}
    )
    with pytest.raises(IntegrityError) as refused:
        statements.unyank(remote, ada, "demo", "0.1.0")
    assert refused.value.code == "history_invalid"
    assert "/v1/statements" not in server.paths


def test_nothing_is_signed_for_a_registry_whose_histories_are_of_another(
    remote: Remote, ada: KeyFile, registry: SmallRegistry, server: Server, tmp_path: Path
) -> None:
    registry.id = OTHER_REGISTRY
    other = Remote(server.url, Terms(tmp_path / "home"), patience=QUICK)
    with pytest.raises(IntegrityError) as refused:
        statements.yank(other, ada, "demo", "0.1.0", "x")
    assert refused.value.code == "registry_mismatch"
