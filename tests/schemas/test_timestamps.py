"""When a signature was made: what a stamp proves, what it does not prove, and what is a forgery."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.errors import IntegrityError, PlugregError, Unverifiable
from plugreg_schemas.history import append, begin
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import KeyOwner, Owners, owner_of, successor_statement
from plugreg_schemas.trust.envelope import MAX_TIMESTAMPS, Envelope, parse_envelope, read_envelope
from plugreg_schemas.trust.keys import sign
from plugreg_schemas.trust.policy import check_release_signer
from plugreg_schemas.trust.proof import prove_history, prove_release
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.timestamps import judge
from plugreg_schemas.trust.verify import verify
from tests.support.record import REGISTRY, Record, author, publish
from tests.support.timestamps import TimestampAuthority

if TYPE_CHECKING:
    from plugreg_schemas.statement import Statement
    from plugreg_schemas.trust.verify import Signed
    from tests.support.local_sigstore import LocalSigstore
    from tests.support.record import Author

ADA, BOB = author(), author("ecdsa-p256")
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
STRANGER = TimestampAuthority()


def stamp(authority: TimestampAuthority, message: bytes, at: datetime = NOW) -> bytes:
    from rfc3161_client import TimestampRequestBuilder

    authority.at = at
    try:
        return authority.answer(TimestampRequestBuilder().data(message).nonce(nonce=True).build().as_bytes())
    finally:
        authority.at = None


def stamped(
    authority: TimestampAuthority, statement: Statement, *times: datetime, by: Author = ADA
) -> Envelope:
    bare = by.sign(statement)
    stamps = [stamp(authority, bare.signature, at) for at in times]
    return Envelope.make(bare.payload, bare.signature, by.signer, timestamps=stamps)


def proved(sigstore: LocalSigstore, envelope: Envelope) -> Signed:
    keys = {by.signer.id: by.spki for by in (ADA, BOB)}
    return verify(parse_envelope(envelope.content), keys, SigstoreVerifier(sigstore.trust_config))


def refused(sigstore: LocalSigstore, envelope: Envelope) -> PlugregError:
    with pytest.raises(PlugregError) as error:
        proved(sigstore, envelope)
    return error.value


def config_with(sigstore: LocalSigstore, change: Any) -> SigstoreVerifier:
    config = json.loads(sigstore.trust_config())
    change(config["trustedRoot"])
    return SigstoreVerifier(lambda: json.dumps(config).encode())


def test_a_signature_by_a_key_with_a_stamp_has_a_proved_time(sigstore: LocalSigstore) -> None:
    envelope = stamped(sigstore.timestamps, publish("1.0.0"), NOW + DAY)
    assert parse_envelope(envelope.content) == envelope
    signed = proved(sigstore, envelope)
    assert (signed.time, signed.time_missing) == (NOW + DAY, "")
    assert (signed.statement, signed.signer, signed.public_key) == (publish("1.0.0"), ADA.signer, ADA.spki)


def test_of_several_stamps_the_earliest_counts(sigstore: LocalSigstore) -> None:
    """Each proves that the signature existed at its time."""
    envelope = stamped(sigstore.timestamps, publish("1.0.0"), NOW + 3 * DAY, NOW + DAY, NOW + 2 * DAY)
    assert proved(sigstore, envelope).time == NOW + DAY


def test_an_envelope_without_stamps_is_spelled_as_before(sigstore: LocalSigstore) -> None:
    bare = ADA.sign(publish("1.0.0"))
    assert b"timestampVerificationData" not in bare.content
    assert Envelope.make(bare.payload, bare.signature, ADA.signer, timestamps=()) == bare
    assert proved(sigstore, bare).time is None


def test_the_same_signature_with_a_stamp_has_another_name_and_says_the_same(sigstore: LocalSigstore) -> None:
    statement = publish("1.0.0")
    bare, timed = ADA.sign(statement), stamped(sigstore.timestamps, statement, NOW)
    assert bare.digest != timed.digest
    assert proved(sigstore, bare).statement == proved(sigstore, timed).statement


def test_stamp_of_another_signature(sigstore: LocalSigstore) -> None:
    bare = ADA.sign(publish("1.0.0"))
    other = stamp(sigstore.timestamps, ADA.sign(publish("1.0.1")).signature)
    error = refused(sigstore, Envelope.make(bare.payload, bare.signature, ADA.signer, timestamps=[other]))
    assert (type(error), error.code) == (IntegrityError, "signature_invalid")


def test_stamp_of_the_payload_instead_of_the_signature(sigstore: LocalSigstore) -> None:
    bare = ADA.sign(publish("1.0.0"))
    over = stamp(sigstore.timestamps, bare.payload)
    error = refused(sigstore, Envelope.make(bare.payload, bare.signature, ADA.signer, timestamps=[over]))
    assert error.code == "signature_invalid"


def test_stamp_by_another_key_in_the_name_of_a_known_authority(sigstore: LocalSigstore) -> None:
    forger = TimestampAuthority(root_key=sigstore.timestamps.root_key)
    forger.certificate = sigstore.timestamps.certificate
    error = refused(sigstore, stamped(forger, publish("1.0.0"), NOW))
    assert (type(error), error.code) == (IntegrityError, "signature_invalid")


def test_a_forged_stamp_beside_a_good_one(sigstore: LocalSigstore) -> None:
    bare = ADA.sign(publish("1.0.0"))
    stamps = [stamp(sigstore.timestamps, bare.signature), stamp(sigstore.timestamps, b"another")]
    error = refused(sigstore, Envelope.make(bare.payload, bare.signature, ADA.signer, timestamps=stamps))
    assert error.code == "signature_invalid"


def test_stamp_from_before_the_certificate_of_its_authority(sigstore: LocalSigstore) -> None:
    """Whoever vouches for the authority from earlier on does not make its certificate older."""
    envelope = stamped(sigstore.timestamps, publish("1.0.0"), NOW - DAY)
    assert proved(sigstore, envelope).time is None

    def stretch(root: dict[str, Any]) -> None:
        root["timestampAuthorities"][0]["validFor"] = {"start": (NOW - 2 * DAY).isoformat()}

    with pytest.raises(IntegrityError) as error:
        verify(envelope, {ADA.signer.id: ADA.spki}, config_with(sigstore, stretch))
    assert error.value.code == "signature_invalid"


def test_stamp_by_an_authority_that_nobody_here_knows(sigstore: LocalSigstore) -> None:
    signed = proved(sigstore, stamped(STRANGER, publish("1.0.0"), NOW))
    assert signed.time is None
    assert "plugreg test timestamp root" in signed.time_missing
    assert str(STRANGER.certificate.serial_number) in signed.time_missing


def test_a_stamp_of_a_stranger_does_not_harm_a_known_one(sigstore: LocalSigstore) -> None:
    bare = ADA.sign(publish("1.0.0"))
    stamps = [
        stamp(STRANGER, bare.signature, NOW),
        stamp(sigstore.timestamps, bare.signature, NOW + DAY),
    ]
    envelope = Envelope.make(bare.payload, bare.signature, ADA.signer, timestamps=stamps)
    assert (proved(sigstore, envelope).time, proved(sigstore, envelope).time_missing) == (NOW + DAY, "")


def test_without_trust_material_there_is_no_time_and_the_signature_stands(sigstore: LocalSigstore) -> None:
    envelope = stamped(sigstore.timestamps, publish("1.0.0"), NOW)
    assert verify(envelope, {ADA.signer.id: ADA.spki}).time is None


@pytest.mark.parametrize(
    ("start", "end", "time"),
    [
        (NOW - DAY, None, NOW),
        (NOW, NOW, NOW),
        (NOW + DAY, None, None),
        (NOW - 2 * DAY, NOW - DAY, None),
    ],
    ids=["valid", "just", "not yet", "retired"],
)
def test_an_authority_counts_only_while_it_was_valid(
    sigstore: LocalSigstore, start: datetime, end: datetime | None, time: datetime | None
) -> None:
    def limit(root: dict[str, Any]) -> None:
        validity = {"start": start.isoformat()} | ({"end": end.isoformat()} if end else {})
        root["timestampAuthorities"][0]["validFor"] = validity

    envelope = stamped(sigstore.timestamps, publish("1.0.0"), NOW)
    signed = verify(envelope, {ADA.signer.id: ADA.spki}, config_with(sigstore, limit))
    assert (signed.time, bool(signed.time_missing)) == (time, time is None)


@pytest.mark.parametrize("junk", [b"", b"\0", b"stamp", b"\x30\x03\x02\x01\x00", b"\x30" * 5000])
def test_bytes_that_are_no_stamp(sigstore: LocalSigstore, junk: bytes) -> None:
    bare = ADA.sign(publish("1.0.0"))
    error = refused(sigstore, Envelope.make(bare.payload, bare.signature, ADA.signer, timestamps=[junk]))
    assert error.code in {"signature_invalid", "envelope_invalid"}


def test_changed_bytes_of_a_stamp_never_move_the_time(sigstore: LocalSigstore) -> None:
    root = sigstore.trusted_root()
    good = stamp(sigstore.timestamps, b"a signature", NOW)
    for position in range(0, len(good), 3):
        changed = bytearray(good)
        changed[position] ^= 0x11
        try:
            found = judge([bytes(changed)], b"a signature", root)
        except IntegrityError:
            continue
        assert found.time in {None, NOW}


def test_more_stamps_than_anybody_needs(sigstore: LocalSigstore) -> None:
    envelope = stamped(sigstore.timestamps, publish("1.0.0"), *[NOW] * (MAX_TIMESTAMPS + 1))
    with pytest.raises(PlugregError) as error:
        parse_envelope(envelope.content)
    assert error.value.code == "envelope_invalid"


def test_key_outside_its_validity_by_the_time_that_is_proved(sigstore: LocalSigstore) -> None:
    """K11 with stamps: the registry may say what it likes about when a release came."""
    start = begin(ADA.signed(publish("1.0.0")))
    place: dict[str, Any] = {"registry": REGISTRY, "plugin": "demo", "revision": 1, "previous": start.head}
    bounds = (
        KeyOwner(id=ADA.signer.id, not_after=NOW + DAY),
        KeyOwner(id=BOB.signer.id, not_before=NOW + DAY),
    )
    history = append(start, ADA.signed(successor_statement(Owners(**place, add=bounds))))
    for by, at, good in (
        (ADA, NOW + DAY - timedelta(seconds=1), True),
        (ADA, NOW + DAY + timedelta(seconds=1), False),
        (BOB, NOW + DAY + timedelta(seconds=1), True),
        (BOB, NOW + DAY - timedelta(seconds=1), False),
    ):
        signed = proved(sigstore, stamped(sigstore.timestamps, publish("1.1.0"), at, by=by))
        if good:
            check_release_signer(history, signed.signer, signed.time)
        else:
            with pytest.raises(IntegrityError) as error:
                check_release_signer(history, signed.signer, signed.time)
            assert error.value.code == "key_outside_validity"


def _handed_over(authority: TimestampAuthority, at: datetime) -> Record:
    """1.0.0 by Ada with a stamp; then the name goes to Bob, in a document that has no times."""
    record = Record()
    statement = publish("1.0.0")
    first = record.keep(ADA, stamped(authority, statement, at))
    record.statements.append(first)
    record.releases.append(("1.0.0", ADA, Digest(statement.digest), first))
    change = Owners(**record.place(), add=(owner_of(BOB.signer),), remove=(ADA.signer,))
    record.statements.append(
        record.keep(ADA, stamped(authority, successor_statement(change), NOW + 10 * DAY))
    )
    record.authors[BOB.signer.id] = BOB
    return record


def test_a_stamped_release_of_a_former_owner_needs_no_times_of_the_registry(sigstore: LocalSigstore) -> None:
    verifier = SigstoreVerifier(sigstore.trust_config)
    record = _handed_over(sigstore.timestamps, NOW + DAY)
    document = record.document()
    history = prove_history(document, record.fetch, REGISTRY, sigstore=verifier)
    assert history.removed_at == {ADA.signer.words: NOW + 10 * DAY}
    release = prove_release(document, document.versions[0], record.fetch, history, sigstore=verifier)
    assert release.signed_at == NOW + DAY


def test_the_refusal_names_the_authority_that_would_be_needed(sigstore: LocalSigstore) -> None:
    record = _handed_over(sigstore.timestamps, NOW + DAY)
    document = record.document()

    def forget(root: dict[str, Any]) -> None:
        root["timestampAuthorities"] = []

    verifier = config_with(sigstore, forget)
    history = prove_history(document, record.fetch, REGISTRY, sigstore=verifier)
    with pytest.raises(Unverifiable) as error:
        prove_release(document, document.versions[0], record.fetch, history, sigstore=verifier)
    assert (error.value.code, error.value.details) == ("no_trusted_time", {"missing": "timestamp authority"})
    assert str(sigstore.timestamps.certificate.serial_number) in error.value.message


@pytest.mark.parametrize(("rekor", "timestamps"), [(1, False), (1, True), (2, True)])
def test_a_keyless_signature_has_a_proved_time(sigstore: LocalSigstore, rekor: int, timestamps: bool) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    value = sigstore.sign(publish("1.0.0").payload(), sigstore.ci_token(), rekor, timestamps=timestamps)
    signed = verify(read_envelope(value), {}, SigstoreVerifier(sigstore.trust_config))
    assert signed.time is not None
    assert before <= signed.time <= datetime.now(UTC)


def test_a_stamp_that_nobody_judged_gives_a_keyless_signature_no_time(sigstore: LocalSigstore) -> None:
    """The library takes a bundle with one good time, and passes over the stamps that it cannot judge."""
    value = sigstore.sign(publish("1.0.0").payload(), sigstore.ci_token(), 2)
    genuine = verify(read_envelope(value), {}, SigstoreVerifier(sigstore.trust_config)).time
    signature = read_envelope(value).signature
    early = base64.b64encode(stamp(STRANGER, signature, NOW - timedelta(minutes=2))).decode()
    value["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"].append(
        {"signedTimestamp": early}
    )
    assert verify(read_envelope(value), {}, SigstoreVerifier(sigstore.trust_config)).time == genuine


def test_a_key_without_stamps_costs_no_library() -> None:
    code = """
import sys
from tests.support.record import author, publish
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
by = author()
assert verify(by.sign(publish("1.0.0")), {by.signer.id: by.spki}, SigstoreVerifier()).time is None
costly = [name for name in ("sigstore", "rfc3161_client", "tuf") if name in sys.modules]
assert not costly, costly
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_signature_itself_is_still_what_counts(sigstore: LocalSigstore) -> None:
    """A stamp over a signature that another key made proves when, and not who."""
    payload = publish("1.0.0").payload()
    bare = ADA.sign_payload(payload)
    wrong = sign(BOB.key, bare.signed_bytes)
    stamps = [stamp(sigstore.timestamps, wrong)]
    error = refused(sigstore, Envelope.make(payload, wrong, ADA.signer, timestamps=stamps))
    assert error.code == "signature_invalid"
