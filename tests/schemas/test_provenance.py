"""SLSA provenance beside a release: by the same CI, about the same bundle, shown as it was proved."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pytest

from plugreg_schemas.api import PluginDocument
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, InvalidInput, PlugregError, TooLarge, Unverifiable
from plugreg_schemas.fields import read_model
from plugreg_schemas.names import Digest
from plugreg_schemas.trust.envelope import MAX_ENVELOPE, parse_envelope, read_envelope
from plugreg_schemas.trust.proof import prove_history, prove_release
from plugreg_schemas.trust.provenance import Provenance, check_provenance, read_provenance
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
from tests.support.local_sigstore import LocalSigstore
from tests.support.record import REGISTRY, author, bundle_digest, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.identity import AnySigner
    from plugreg_schemas.trust.proof import ProvedRelease

DIGEST = bundle_digest("1.0.0")
COMMIT = "c" * 40


def statement(digest: Digest = DIGEST, **changes: Any) -> dict[str, Any]:
    """A statement as the attest action of a CI makes it."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "dist/other.txt", "digest": {"sha256": "0" * 64}},
            {"name": "dist/demo-1.0.0.tar.zst", "digest": {"sha256": digest.hex, "sha512": "1" * 128}},
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://ci.example/buildtypes/workflow/v1",
                "externalParameters": {
                    "workflow": {"ref": "refs/tags/v9", "repository": "https://evil.example"}
                },
                "internalParameters": {"ci": {"event_name": "push"}},
                "resolvedDependencies": [
                    {"uri": "git+https://ci.example/acme/demo@refs/tags/v1", "digest": {"gitCommit": COMMIT}}
                ],
            },
            "runDetails": {
                "builder": {"id": "https://ci.example/runner/hosted"},
                "metadata": {"invocationId": "https://ci.example/acme/demo/actions/runs/7/attempts/1"},
            },
        },
        **changes,
    }


def signed(sigstore: LocalSigstore, said: dict[str, Any], token: str = "", rekor: int = 2) -> dict[str, Any]:
    return sigstore.sign(canonical_json(said), token or sigstore.ci_token(), rekor)


def signer(sigstore: LocalSigstore, token: str = "") -> AnySigner:
    """Who signed the release."""
    return read_envelope(sigstore.sign(publish("1.0.0").payload(), token or sigstore.ci_token())).signer


def check(
    sigstore: LocalSigstore, value: Any, by: AnySigner | None = None, digest: str = DIGEST
) -> Provenance:
    return check_provenance(
        read_provenance(value),
        digest=digest,
        signer=by or signer(sigstore),
        sigstore=SigstoreVerifier(sigstore.trust_config),
    )


def refused(sigstore: LocalSigstore, value: Any, by: AnySigner | None = None) -> PlugregError:
    with pytest.raises(PlugregError) as error:
        check(sigstore, value, by)
    return error.value


@pytest.mark.parametrize("rekor", [1, 2])
def test_what_is_shown_is_in_the_certificate_and_else_what_the_builder_says(
    sigstore: LocalSigstore, rekor: int
) -> None:
    found = check(sigstore, signed(sigstore, statement(), rekor=rekor))
    assert found == Provenance(
        builder="https://ci.example/runner/hosted",
        build_type="https://ci.example/buildtypes/workflow/v1",
        repository="https://ci.example/acme/demo",
        workflow=".ci/publish.yml",
        ref="refs/tags/v1",
        commit=COMMIT,
        invocation="https://ci.example/acme/demo/actions/runs/7/attempts/1",
    )


def test_another_workflow_and_ref_of_the_repository_may_build(sigstore: LocalSigstore) -> None:
    workflow = "acme/demo/.ci/build.yml@refs/heads/main"
    token = sigstore.ci_token("refs/heads/main", workflow_ref=workflow, job_workflow_ref=workflow)
    found = check(sigstore, signed(sigstore, statement(), token))
    assert (found.workflow, found.ref) == (".ci/build.yml", "refs/heads/main")


def test_what_a_builder_leaves_out_is_empty(sigstore: LocalSigstore) -> None:
    said = statement()
    said["predicate"] = {
        "buildDefinition": {"buildType": "https://ci.example/b", "externalParameters": {}},
        "runDetails": {"builder": {"id": "https://ci.example/runner"}},
    }
    assert astuple(check(sigstore, signed(sigstore, said)))[-2:] == ("", "")


def test_provenance_of_another_bundle(sigstore: LocalSigstore) -> None:
    error = refused(sigstore, signed(sigstore, statement(bundle_digest("1.0.1"))))
    assert (type(error), error.code) == (IntegrityError, "provenance_mismatch")


def test_digest_of_the_bundle_under_another_algorithm(sigstore: LocalSigstore) -> None:
    subject = [{"name": "x", "digest": {"sha512": DIGEST.hex}}]
    assert refused(sigstore, signed(sigstore, statement(subject=subject))).code == "provenance_mismatch"


@pytest.mark.parametrize("claim", ["repository_id", "repository_owner_id"])
def test_provenance_by_a_repository_of_the_same_name(sigstore: LocalSigstore, claim: str) -> None:
    error = refused(sigstore, signed(sigstore, statement(), sigstore.ci_token(**{claim: "9"})))
    assert (type(error), error.code) == (IntegrityError, "provenance_mismatch")


def test_provenance_by_another_identity_provider(sigstore: LocalSigstore) -> None:
    by = signer(sigstore).model_copy(update={"issuer": "https://other.example"})
    assert refused(sigstore, signed(sigstore, statement()), by).code == "provenance_mismatch"


def test_provenance_by_a_person_or_for_one_or_for_a_key(sigstore: LocalSigstore) -> None:
    token = sigstore.token(email="ada@example.com")
    person = signer(sigstore, token)
    for value, by in (
        (signed(sigstore, statement(), token), None),
        (signed(sigstore, statement(), token), person),
        (signed(sigstore, statement()), person),
        (signed(sigstore, statement()), author().signer),
    ):
        assert refused(sigstore, value, by).code == "provenance_mismatch"


def test_provenance_signed_by_a_key(sigstore: LocalSigstore) -> None:
    by = author()
    value = json.loads(by.sign_payload(canonical_json(statement())).content)
    for release in (None, by.signer):
        assert refused(sigstore, value, release).code == "provenance_mismatch"


def test_foreign_instance_with_equal_claims(sigstore: LocalSigstore) -> None:
    with LocalSigstore(issuer=sigstore.issuer).serving() as foreign:
        error = refused(sigstore, signed(foreign, statement()))
    assert (type(error), error.code) == (Unverifiable, "trust_material_missing")


def test_forged_provenance(sigstore: LocalSigstore) -> None:
    value, other = signed(sigstore, statement(bundle_digest("1.0.1"))), signed(sigstore, statement())
    value["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"]
    assert refused(sigstore, value).code == "signature_invalid"


def test_without_trust_material(sigstore: LocalSigstore) -> None:
    envelope = read_provenance(signed(sigstore, statement()))
    with pytest.raises(Unverifiable) as error:
        check_provenance(envelope, digest=DIGEST, signer=signer(sigstore), sigstore=None)
    assert error.value.code == "trust_material_missing"


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(predicateType="https://slsa.dev/provenance/v0.2"),
        lambda v: v.update(predicateType="https://plugreg.dev/attestation/publish/v1"),
        lambda v: v.pop("predicate"),
        lambda v: v["predicate"].pop("runDetails"),
        lambda v: v["predicate"]["runDetails"].update(builder={}),
        lambda v: v["predicate"]["runDetails"]["builder"].update(id="\x1b[2Jhttps://ci.example"),
        lambda v: v["predicate"]["runDetails"]["builder"].update(id=7),
        lambda v: v["predicate"]["buildDefinition"].update(buildType=""),
        lambda v: v["predicate"]["buildDefinition"].update(resolvedDependencies={}),
    ],
    ids=[
        "older",
        "publish",
        "no predicate",
        "no run",
        "no builder",
        "control characters",
        "number",
        "no build type",
        "no list",
    ],
)
def test_a_statement_that_is_no_provenance_v1(
    sigstore: LocalSigstore, change: Callable[[dict[str, Any]], object]
) -> None:
    said = statement()
    change(said)
    error = refused(sigstore, signed(sigstore, said))
    assert (type(error), error.code) == (InvalidInput, "provenance_invalid")


def test_a_bundle_from_outside_is_spelled_anew(sigstore: LocalSigstore) -> None:
    """Members in any order, empty where other writers leave them out: what is stored has one spelling."""
    value = signed(sigstore, statement())
    stored = read_provenance(value).content
    other = dict(reversed(value.items()))
    other["verificationMaterial"] = {**value["verificationMaterial"], "publicKey": None}
    with pytest.raises(InvalidInput):
        read_envelope(other)
    assert read_provenance(other).content == stored
    assert parse_envelope(stored).content == stored
    check(sigstore, json.loads(stored))


def test_a_key_id_that_says_nothing_is_no_fault(sigstore: LocalSigstore) -> None:
    value = signed(sigstore, statement())
    value["dsseEnvelope"]["signatures"][0]["keyid"] = ""
    check(sigstore, value)
    assert parse_envelope(read_provenance(value).content).payload == canonical_json(statement())


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"verificationMaterial": {"certificate": {}}},
        {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"certificate": 1},
        },
    ],
)
def test_values_that_are_no_bundle(value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        read_provenance(value)
    assert error.value.code == "envelope_invalid"


def test_a_bundle_over_the_limit() -> None:
    with pytest.raises(TooLarge) as error:
        read_provenance({"verificationMaterial": {"certificate": "x" * MAX_ENVELOPE}})
    assert error.value.code == "envelope_too_large"


class Offer:
    """A document with one release and its provenance, to be forged."""

    def __init__(self, sigstore: LocalSigstore, provenance: Envelope | None) -> None:
        self.verifier = SigstoreVerifier(sigstore.trust_config)
        self.release = read_envelope(sigstore.sign(publish("1.0.0").payload(), sigstore.ci_token()))
        self.kept = {e.digest: e.content for e in (self.release, provenance) if e is not None}
        self.attestations = list(self.kept)

    def fetch(self, digest: Digest) -> bytes:
        if digest not in self.kept:
            raise Unverifiable("attestation_missing", "not here")
        return self.kept[digest]

    def prove(self) -> ProvedRelease:
        by = self.release.signer.model_dump()
        version = {
            "version": "1.0.0",
            "digest": DIGEST,
            "size": 1,
            "published_at": "2026-01-31T12:00:00Z",
            "format": "agent-plugins",
            "signer": 0,
            "attestations": self.attestations,
        }
        value = {
            "name": "demo",
            "history": [self.release.digest],
            "owners": [by],
            "signers": [{"signer": by}],
            "versions": [version],
        }
        document = read_model(PluginDocument, canonical_json(value), code="document_invalid")
        history = prove_history(document, self.fetch, REGISTRY, sigstore=self.verifier)
        return prove_release(document, document.versions[0], self.fetch, history, sigstore=self.verifier)


def test_a_release_is_proved_with_its_provenance_and_without(sigstore: LocalSigstore) -> None:
    assert Offer(sigstore, None).prove().provenance is None
    release = Offer(sigstore, read_provenance(signed(sigstore, statement()))).prove()
    assert release.provenance is not None
    assert release.provenance.commit == COMMIT
    assert release.signed_at == verify(parse_envelope(release.attestation), {}, _verifier(sigstore)).time


def _verifier(sigstore: LocalSigstore) -> SigstoreVerifier:
    return SigstoreVerifier(sigstore.trust_config)


def test_dropped_provenance(sigstore: LocalSigstore) -> None:
    offer = Offer(sigstore, read_provenance(signed(sigstore, statement())))
    del offer.kept[Digest(offer.attestations[1])]
    with pytest.raises(Unverifiable) as error:
        offer.prove()
    assert error.value.code == "attestation_missing"


def test_provenance_of_another_release_beside_this_one(sigstore: LocalSigstore) -> None:
    offer = Offer(sigstore, read_provenance(signed(sigstore, statement(bundle_digest("1.0.1")))))
    with pytest.raises(IntegrityError) as error:
        offer.prove()
    assert error.value.code == "provenance_mismatch"


@pytest.mark.parametrize(
    ("order", "code"),
    [((1,), "statement_unsupported"), ((1, 0), "statement_unsupported"), ((0, 0), "provenance_invalid")],
    ids=["instead of", "before", "a publish statement as provenance"],
)
def test_provenance_is_never_a_publish_statement_nor_the_reverse(
    sigstore: LocalSigstore, order: tuple[int, ...], code: str
) -> None:
    one = statement(subject=[{"name": "demo-1.0.0.tar.zst", "digest": {"sha256": DIGEST.hex}}])
    offer = Offer(sigstore, read_provenance(signed(sigstore, one)))
    offer.attestations = [offer.attestations[place] for place in order]
    with pytest.raises(IntegrityError) as error:
        offer.prove()
    assert error.value.code == code
