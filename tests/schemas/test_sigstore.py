"""Keyless signatures against a local Sigstore: what verifies, and every attack that must not."""

from __future__ import annotations

import base64
import copy
import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.api import PluginDocument
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import (
    IntegrityError,
    InvalidInput,
    NotAllowed,
    PlugregError,
    Unverifiable,
    UsageError,
)
from plugreg_schemas.fields import read_model
from plugreg_schemas.history import append, begin
from plugreg_schemas.names import Digest
from plugreg_schemas.statement import Owners, owner_of, successor_statement
from plugreg_schemas.trust.envelope import Envelope, parse_envelope, read_envelope
from plugreg_schemas.trust.identity import CiSigner, OidcSigner
from plugreg_schemas.trust.material import MAX_TRUST_CONFIG, public_trust_config, read_trust_config
from plugreg_schemas.trust.policy import check_publish, check_release_signer
from plugreg_schemas.trust.proof import prove_history, prove_release
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import Signed, verify
from tests.support.local_sigstore import LocalSigstore
from tests.support.record import OTHER_REGISTRY, REGISTRY, author, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plugreg_schemas.statement import Statement


@pytest.fixture
def verifier(sigstore: LocalSigstore) -> SigstoreVerifier:
    return SigstoreVerifier(sigstore.trust_config)


@pytest.fixture(scope="module")
def foreign(sigstore: LocalSigstore) -> Iterator[LocalSigstore]:
    """Another instance, for which the same identity provider vouches."""
    with LocalSigstore(issuer=sigstore.issuer).serving() as instance:
        yield instance


def signed_value(
    sigstore: LocalSigstore, statement: Statement | None = None, token: str = "", rekor: int = 2
) -> dict[str, Any]:
    payload = (statement or publish("1.0.0")).payload()
    return sigstore.sign(payload, token or sigstore.ci_token(), rekor)


def signed(sigstore: LocalSigstore, statement: Statement | None = None, token: str = "") -> Signed:
    envelope = read_envelope(signed_value(sigstore, statement, token))
    return verify(envelope, {}, SigstoreVerifier(sigstore.trust_config))


def refused(verifier: SigstoreVerifier, value: Any) -> PlugregError:
    with pytest.raises(PlugregError) as error:
        verify(read_envelope(value), {}, verifier)
    return error.value


@pytest.mark.parametrize(
    ("rekor", "timestamps"),
    [(1, False), (1, True), (2, True)],
    ids=["Rekor 1", "Rekor 1 and timestamp", "Rekor 2"],
)
def test_a_ci_workflow_and_a_person_are_verified(
    sigstore: LocalSigstore, verifier: SigstoreVerifier, rekor: int, timestamps: bool
) -> None:
    statement = publish("1.0.0")
    for token, signer in (
        (
            sigstore.ci_token("refs/tags/v1"),
            CiSigner(
                issuer=sigstore.issuer,
                repository_id="1001",
                owner_id="2002",
                workflow=".ci/publish.yml",
                repository="https://ci.example/acme/demo",
                ref="refs/tags/v1",
            ),
        ),
        (
            sigstore.token(email="ada@example.com"),
            OidcSigner(issuer=sigstore.issuer, subject="ada@example.com"),
        ),
    ):
        value = sigstore.sign(statement.payload(), token, rekor, timestamps=timestamps)
        envelope = parse_envelope(canonical_json(value))
        found = verify(envelope, {}, verifier)
        assert (found.signer, found.statement, found.public_key) == (signer, statement, b"")
        assert found.digest == Digest.of(envelope.content)


def test_the_next_tag_of_the_same_workflow_is_the_same_signer(sigstore: LocalSigstore) -> None:
    one, two = (signed(sigstore, token=sigstore.ci_token(f"refs/tags/v{n}")).signer for n in (1, 2))
    assert one != two
    assert one.words == two.words


def test_other_artifact(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    """K5: the payload of another statement under a genuine signature."""
    value = signed_value(sigstore)
    value["dsseEnvelope"]["payload"] = base64.b64encode(publish("1.0.1").payload()).decode()
    assert refused(verifier, value).code == "signature_invalid"


def test_other_identity_of_the_same_authority(sigstore: LocalSigstore) -> None:
    """K6: the signature is genuine, the signer is not an owner."""
    owner = signed(sigstore)
    other = signed(sigstore, publish("1.1.0"), sigstore.token(email="mallory@example.com"))
    with pytest.raises(IntegrityError) as error:
        check_release_signer(begin(owner), other.signer, None)
    assert error.value.code == "signer_not_owner"


@pytest.mark.parametrize("claim", ["repository_id", "repository_owner_id"])
def test_same_repository_name_with_another_numeric_id(sigstore: LocalSigstore, claim: str) -> None:
    history = begin(signed(sigstore))
    other = signed(sigstore, publish("1.1.0"), sigstore.ci_token(**{claim: "9"})).signer
    assert isinstance(other, CiSigner)
    assert other.repository == "https://ci.example/acme/demo"
    with pytest.raises(NotAllowed) as error:
        check_publish(publish("1.1.0").predicate, other, history, (), Digest.of(b"x"))  # type: ignore[arg-type]
    assert error.value.code == "not_owner"


def test_other_identity_cannot_follow_in_the_history(sigstore: LocalSigstore) -> None:
    history = begin(signed(sigstore))
    place: dict[str, Any] = {"registry": REGISTRY, "plugin": "demo", "revision": 1, "previous": history.head}
    mallory = OidcSigner(issuer=sigstore.issuer, subject="mallory@example.com")
    statement = successor_statement(Owners(**place, add=(owner_of(mallory),)))
    with pytest.raises(NotAllowed) as error:
        append(history, signed(sigstore, statement, sigstore.token(email="mallory@example.com")))
    assert error.value.code == "not_owner"
    after = append(history, signed(sigstore, statement))
    assert after.owned_by(mallory)


def _entry(value: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = value["verificationMaterial"]["tlogEntries"][0]
    return entry


def _no_time(value: dict[str, Any]) -> None:
    value["verificationMaterial"].pop("timestampVerificationData", None)
    for member in ("inclusionPromise", "integratedTime"):
        _entry(value).pop(member, None)


@pytest.mark.parametrize("rekor", [1, 2])
def test_time_removed(sigstore: LocalSigstore, verifier: SigstoreVerifier, rekor: int) -> None:
    """K3: a bundle with no trusted time fails saying so."""
    value = signed_value(sigstore, rekor=rekor)
    _no_time(value)
    error = refused(verifier, value)
    assert (type(error), error.code) == (Unverifiable, "no_trusted_time")


def test_promise_removed_and_its_time_kept(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    value = signed_value(sigstore, rekor=1)
    del _entry(value)["inclusionPromise"]
    assert refused(verifier, value).code == "signature_invalid"


def test_time_of_the_log_added_without_a_promise(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    value = signed_value(sigstore)
    _entry(value)["integratedTime"] = "1700000000"
    assert refused(verifier, value).code == "signature_invalid"


def test_time_of_the_log_changed(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    value = signed_value(sigstore, rekor=1)
    _entry(value)["integratedTime"] = str(int(_entry(value)["integratedTime"]) + 1)
    assert refused(verifier, value).code == "signature_invalid"


def test_timestamp_of_another_signature(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    value, other = signed_value(sigstore), signed_value(sigstore)
    value["verificationMaterial"]["timestampVerificationData"] = other["verificationMaterial"][
        "timestampVerificationData"
    ]
    assert refused(verifier, value).code == "signature_invalid"


def test_timestamp_after_the_certificate_ended() -> None:
    with LocalSigstore().serving() as late:
        late.timestamps.at = datetime.now(UTC) + timedelta(days=1)
        value = signed_value(late)
        assert refused(SigstoreVerifier(late.trust_config), value).code == "signature_invalid"


@pytest.mark.parametrize("rekor", [1, 2])
def test_foreign_instance_with_equal_claims(
    sigstore: LocalSigstore, foreign: LocalSigstore, verifier: SigstoreVerifier, rekor: int
) -> None:
    value = signed_value(foreign, rekor=rekor)
    assert read_envelope(value).signer.words == signed(sigstore).signer.words
    error = refused(verifier, value)
    assert (error.code, error.details) == ("trust_material_missing", {"missing": "certificate authority"})


PARTS = {
    "certificateAuthorities": "certificate authority",
    "ctlogs": "certificate transparency log",
    "tlogs": "transparency log",
    "timestampAuthorities": "timestamp authority",
}


@pytest.mark.parametrize("how", ["absent", "of another instance", "retired before"])
@pytest.mark.parametrize("part", PARTS)
def test_each_trust_piece_missing_is_named(
    sigstore: LocalSigstore, foreign: LocalSigstore, part: str, how: str
) -> None:
    """K4: the message names the role. K11: a key that was retired by then proves nothing."""
    config = json.loads(sigstore.trust_config())
    root = config["trustedRoot"]
    if how == "absent":
        root[part] = []
    elif how == "of another instance":
        root[part] = foreign.trusted_root()[part]
    else:
        for entry in root[part]:
            entry.get("publicKey", entry)["validFor"] = {
                "start": "2020-01-01T00:00:00Z",
                "end": "2021-01-01T00:00:00.000Z",
            }
    error = refused(SigstoreVerifier(lambda: json.dumps(config).encode()), signed_value(sigstore))
    assert (type(error), error.code) == (Unverifiable, "trust_material_missing")
    assert error.details == {"missing": PARTS[part]}
    assert PARTS[part] in error.message


def test_certificate_of_another_signer(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    value, other = signed_value(sigstore), signed_value(sigstore, token=sigstore.token(email="m@example.com"))
    value["verificationMaterial"]["certificate"] = other["verificationMaterial"]["certificate"]
    assert refused(verifier, value).code == "signature_invalid"


def test_log_entry_of_another_signature(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    value, other = signed_value(sigstore), signed_value(sigstore, publish("1.0.1"))
    value["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    assert refused(verifier, value).code == "signature_invalid"


def test_certificate_bundle_on_a_key_name(sigstore: LocalSigstore) -> None:
    """Neither verifier falls back to the other, and a certificate never is the key that owns a name."""
    by = author()
    envelope = read_envelope(signed_value(sigstore))
    with pytest.raises(Unverifiable) as error:
        verify(envelope, {by.signer.id: by.spki})
    assert error.value.code == "trust_material_missing"
    with pytest.raises(IntegrityError):
        check_release_signer(begin(by.signed(publish("1.0.0"))), signed(sigstore).signer, None)


def test_key_bundle_on_a_certificate_name(sigstore: LocalSigstore, verifier: SigstoreVerifier) -> None:
    by = author()
    envelope = by.sign(publish("1.0.0"))
    with pytest.raises(IntegrityError) as error:
        verifier.verify(envelope)
    assert error.value.code == "signature_invalid"
    with pytest.raises(Unverifiable):
        verify(envelope, {}, verifier)
    with pytest.raises(IntegrityError):
        check_release_signer(begin(signed(sigstore)), by.signer, None)


def test_bundle_with_a_key_and_a_certificate(sigstore: LocalSigstore) -> None:
    value = signed_value(sigstore)
    hint = base64.b64encode(bytes.fromhex(author().signer.id[7:])).decode()
    value["verificationMaterial"]["publicKey"] = {"hint": hint}
    with pytest.raises(InvalidInput) as error:
        read_envelope(value)
    assert error.value.code == "envelope_invalid"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda v: _entry(v).update(extra=1), id="member of the entry"),
        pytest.param(lambda v: _entry(v).update(logIndex="0" + _entry(v)["logIndex"]), id="number"),
        pytest.param(
            lambda v: _entry(v)["logId"].update(keyId=_entry(v)["logId"]["keyId"] + "\n"), id="base64"
        ),
        pytest.param(
            lambda v: v["verificationMaterial"].update(tlogEntries=[_entry(v)] * 2), id="two entries"
        ),
        pytest.param(lambda v: v["verificationMaterial"].update(tlogEntries=[]), id="no entry"),
        pytest.param(lambda v: v["verificationMaterial"].update(more={}), id="member of the material"),
        pytest.param(lambda v: v["dsseEnvelope"]["signatures"][0].update(keyid="x"), id="key id"),
        pytest.param(lambda v: v["dsseEnvelope"]["signatures"].append({"sig": "AAAA"}), id="two signatures"),
        pytest.param(lambda v: v["dsseEnvelope"].update(payloadType="text/plain"), id="payload type"),
        pytest.param(
            lambda v: v["verificationMaterial"]["certificate"].update(rawBytes="AAAA"), id="no certificate"
        ),
        pytest.param(lambda v: v.update(messageSignature={"signature": "AAAA"}), id="message signature"),
    ],
)
def test_a_member_that_nothing_verifies_or_another_spelling(
    sigstore: LocalSigstore, verifier: SigstoreVerifier, change: Callable[[dict[str, Any]], object]
) -> None:
    value = signed_value(sigstore)
    change(value)
    assert refused(verifier, value).code in {
        "certificate_invalid",
        "envelope_invalid",
        "envelope_not_canonical",
        "signature_invalid",
    }


def test_random_changes_are_never_accepted_and_never_a_traceback(
    sigstore: LocalSigstore, verifier: SigstoreVerifier
) -> None:
    """What is still accepted says the same as before: the hint of a log's key is not signed."""
    chance = random.Random(4)
    for rekor in (1, 2):
        value = signed_value(sigstore, rekor=rekor)
        content = canonical_json(value)
        genuine = read_envelope(value)
        for _ in range(300):
            changed = bytearray(content)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            try:
                envelope = parse_envelope(bytes(changed))
                verifier.verify(envelope)
            except PlugregError:
                continue
            assert (envelope.payload, envelope.signer, envelope.certificate) == (
                genuine.payload,
                genuine.signer,
                genuine.certificate,
            )


class Offer:
    """A document over keyless statements, to be forged."""

    def __init__(self, sigstore: LocalSigstore, *statements: Statement) -> None:
        self.verifier = SigstoreVerifier(sigstore.trust_config)
        self.envelopes = [read_envelope(signed_value(sigstore, statement)) for statement in statements]
        signer = self.envelopes[0].signer.model_dump()
        self.value: dict[str, Any] = {
            "name": "demo",
            "history": [self.envelopes[0].digest],
            "owners": [signer],
            "signers": [{"signer": signer}],
            "versions": [_version(envelope, f"1.0.{n}") for n, envelope in enumerate(self.envelopes)],
        }

    def fetch(self, digest: Digest) -> bytes:
        return next(e.content for e in self.envelopes if e.digest == digest)

    def prove(self) -> list[str]:
        document = read_model(PluginDocument, canonical_json(self.value), code="document_invalid")
        history = prove_history(document, self.fetch, REGISTRY, sigstore=self.verifier)
        return [
            prove_release(document, entry, self.fetch, history, sigstore=self.verifier).version
            for entry in document.versions
        ]


def _version(envelope: Envelope, version: str) -> dict[str, Any]:
    subject = json.loads(envelope.payload)["subject"][0]
    return {
        "version": version,
        "digest": "sha256:" + subject["digest"]["sha256"],
        "size": 1,
        "published_at": "2026-01-31T12:00:00Z",
        "format": "agent-plugins",
        "signer": 0,
        "attestations": [envelope.digest],
    }


def test_a_document_of_keyless_statements_is_proved(sigstore: LocalSigstore) -> None:
    assert Offer(sigstore, publish("1.0.0"), publish("1.0.1")).prove() == ["1.0.0", "1.0.1"]


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        pytest.param((publish("1.0.0"), publish("1.0.0")), "release_mismatch", id="re-labelled version"),
        pytest.param(
            (publish("1.0.0"), publish("1.0.1", plugin="other")), "release_mismatch", id="re-labelled plugin"
        ),
        pytest.param(
            (publish("1.0.0"), publish("1.0.1", registry=OTHER_REGISTRY)),
            "registry_mismatch",
            id="statement for another registry",
        ),
    ],
)
def test_genuine_statement_served_as_another(
    sigstore: LocalSigstore, statements: tuple[Statement, ...], code: str
) -> None:
    """T24."""
    with pytest.raises(IntegrityError) as error:
        Offer(sigstore, *statements).prove()
    assert error.value.code == code


def test_unsigned_successor(sigstore: LocalSigstore) -> None:
    """K7."""
    offer = Offer(sigstore, publish("1.0.0"), publish("1.0.1"))
    offer.value["versions"][1]["attestations"] = []
    with pytest.raises(NotAllowed) as error:
        offer.prove()
    assert error.value.code == "unsigned"


def test_document_without_trust_material_cannot_be_judged(sigstore: LocalSigstore) -> None:
    offer = Offer(sigstore, publish("1.0.0"))
    offer.verifier = SigstoreVerifier()
    with pytest.raises(Unverifiable) as error:
        offer.prove()
    assert error.value.code == "trust_material_missing"


def test_a_bare_trusted_root_verifies_too(sigstore: LocalSigstore) -> None:
    root = json.dumps(sigstore.trusted_root()).encode()
    verify(read_envelope(signed_value(sigstore)), {}, SigstoreVerifier(lambda: root))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"mediaType":1}',
        b'{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}',
        b'{"mediaType":"application/vnd.dev.sigstore.clienttrustconfig.v0.1+json","trustedRoot":[]}',
        b" " * (MAX_TRUST_CONFIG + 1),
    ],
    ids=["empty", "object", "list", "number", "no parts", "no root", "large"],
)
def test_a_file_that_is_no_trust_configuration(content: bytes) -> None:
    with pytest.raises(UsageError) as error:
        read_trust_config(content)
    assert error.value.code == "trust_config_invalid"


def test_the_public_instance_comes_with_the_library() -> None:
    assert read_trust_config(public_trust_config())["signingConfig"]["caUrls"]


def test_material_is_read_once_and_only_when_needed(sigstore: LocalSigstore) -> None:
    reads = []

    def read() -> bytes:
        reads.append(1)
        return sigstore.trust_config()

    verifier, by = SigstoreVerifier(read), author()
    verify(by.sign(publish("1.0.0")), {by.signer.id: by.spki}, verifier)
    assert reads == []
    value = signed_value(sigstore)
    for _ in range(3):
        verify(read_envelope(copy.deepcopy(value)), {}, verifier)
    assert reads == [1]
