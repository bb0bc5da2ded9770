"""What this machine has seen of a history is kept, and a registry that shows less of it is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from plugreg.choosing import choose
from plugreg.histories import Histories
from plugreg.pinning import Options, Wish
from plugreg.proving import check_seen, prove, remember
from plugreg_schemas.errors import IntegrityError
from plugreg_schemas.names import VersionRange
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.proof import read_document
from tests.support.offers import Author, Offers

if TYPE_CHECKING:
    from pathlib import Path

    from plugreg.choosing import Choice
    from plugreg_schemas.history import History

ADA, MALLORY = Author(), Author()


@pytest.fixture
def offers(tmp_path: Path) -> Offers:
    """A registry with one plugin, and a home that remembers."""
    made = Offers.create(tmp_path / "registry")
    made.histories = Histories(tmp_path / "home" / "histories")
    made.publish(ADA, "demo", "1.0.0")
    return made


def look(offers: Offers) -> History:
    """What every command does that proves a history."""
    document = read_document(offers.document("demo"), "demo")
    history = prove(offers, document)
    check_seen(offers, history)
    remember(offers, document, history)
    return history


def wanted(offers: Offers, options: Options = Options()) -> Choice:  # noqa: B008 - frozen
    """The choice of somebody who has nothing installed, and so no pin."""
    return choose(Wish("demo", VersionRange("")), [offers], options)


def kept(offers: Offers) -> Path:
    assert offers.histories is not None
    (path,) = offers.histories.folder.rglob("demo.json")
    return path


def hide_a_yank(offers: Offers) -> None:
    """Let the history grow, be seen, and be as it was before."""
    path = offers.folder / "plugins" / "demo.json"
    before = path.read_bytes()
    offers.yank(ADA, "demo", "1.0.0")
    look(offers)
    path.write_bytes(before)


def test_every_statement_is_kept_byte_for_byte_with_its_key(offers: Offers) -> None:
    offers.yank(ADA, "demo", "1.0.0", "loses data")
    history = look(offers)
    assert offers.histories is not None
    seen = offers.histories.seen(offers.ref.id, "demo")
    assert seen is not None
    assert seen.digests == history.digests
    for statement, digest in zip(seen.statements, history.digests, strict=True):
        assert parse_envelope(statement.envelope.encode()).digest == digest
        assert offers.attestation(digest) == statement.envelope.encode()
        assert statement.public_key


def test_hidden_statement_is_noticed_without_a_pin(offers: Offers) -> None:
    hide_a_yank(offers)
    with pytest.raises(IntegrityError) as refused:
        wanted(offers)
    assert refused.value.code == "history_forked"
    assert "plugreg owner resend demo" in refused.value.hint


def test_hidden_statement_is_noticed_whatever_signer_is_accepted(offers: Offers) -> None:
    hide_a_yank(offers)
    with pytest.raises(IntegrityError) as refused:
        wanted(offers, Options(accept_signer=ADA.signer.words))
    assert refused.value.code == "history_forked"


def test_what_is_refused_is_not_kept(offers: Offers) -> None:
    hide_a_yank(offers)
    before = kept(offers).read_bytes()
    with pytest.raises(IntegrityError):
        look(offers)
    assert kept(offers).read_bytes() == before


def test_a_name_that_another_took_after_it_was_seen(offers: Offers) -> None:
    """A registry that is set up anew: only who names the new signer goes on, and remembers the new history."""
    look(offers)
    offers.forget("demo")
    offers.publish(MALLORY, "demo", "1.0.0")
    with pytest.raises(IntegrityError) as refused:
        wanted(offers)
    assert refused.value.code == "history_forked"
    accepted = Options(accept_signer=MALLORY.signer.words)
    assert wanted(offers, accepted).history.owned_by(MALLORY.signer)
    assert wanted(offers).history.owned_by(MALLORY.signer)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"registry": "x"}', b"\xff\xfe"])
def test_a_damaged_file_counts_as_nothing_seen_and_is_written_again(offers: Offers, content: bytes) -> None:
    look(offers)
    whole = kept(offers).read_bytes()
    kept(offers).write_bytes(content)
    look(offers)
    assert kept(offers).read_bytes() == whole


def test_the_history_of_another_plugin_in_the_place_of_this_one_counts_as_nothing(offers: Offers) -> None:
    offers.publish(ADA, "other", "1.0.0")
    look(offers)
    value = json.loads(kept(offers).read_bytes())
    kept(offers).write_text(json.dumps(value | {"plugin": "other"}))
    assert offers.histories is not None
    assert offers.histories.seen(offers.ref.id, "demo") is None


def test_a_home_that_takes_nothing_stops_nobody(offers: Offers, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "histories").write_text("a file in the way")
    look(offers)
    assert wanted(offers).entry.version == "1.0.0"
