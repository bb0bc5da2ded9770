"""Whose certificate it is: the identity that a signing certificate names, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.trust.certificate import read_signer
from plugreg_schemas.trust.identity import CiSigner, OidcSigner
from tests.support.authorities import ARC, Fulcio, extensions_of, new_key
from tests.support.local_sigstore import CI

CLAIMS: dict[str, Any] = {"iss": "https://id.example", **CI}
FULCIO = Fulcio()


def certificate(without: str = "", **claims: Any) -> bytes:
    fulcio = Fulcio(without=frozenset(without.split()))
    return fulcio.issue({**CLAIMS, **claims}, new_key().public_key()).public_bytes(Encoding.DER)


def made(names: list[x509.GeneralName], extensions: dict[str, bytes]) -> bytes:
    """A certificate with any subject names and extensions; nothing here is verified."""
    key = FULCIO.key
    template = FULCIO.issue(CLAIMS, key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(template.issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
    )
    for number, value in extensions.items():
        oid = x509.ObjectIdentifier(ARC + number)
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, value), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def refused(content: bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as error:
        read_signer(content)
    return error.value


EMAIL = x509.RFC822Name("ada@example.com")
URI = x509.UniformResourceIdentifier("https://ci.example/acme/demo/.ci/publish.yml@refs/tags/v1")


def test_a_person_is_issuer_and_email() -> None:
    content = FULCIO.issue({"iss": "https://id.example", "email": "ada@example.com"}, new_key().public_key())
    assert read_signer(content.public_bytes(Encoding.DER)) == OidcSigner(
        issuer="https://id.example", subject="ada@example.com"
    )


def test_a_workflow_is_ids_and_path_and_shows_repository_and_ref() -> None:
    assert read_signer(certificate()) == CiSigner(
        issuer="https://id.example",
        repository_id="1001",
        owner_id="2002",
        workflow=".ci/publish.yml",
        repository="https://ci.example/acme/demo",
        ref="refs/tags/v1",
    )


def test_the_repository_of_a_reusable_workflow_is_not_the_signer() -> None:
    found = read_signer(certificate(job_workflow_ref="shared/flows/.ci/build.yml@refs/heads/main"))
    assert isinstance(found, CiSigner)
    assert found.workflow == ".ci/publish.yml"


@pytest.mark.parametrize(
    ("workflow_ref", "ref", "workflow"),
    [
        ("acme/demo/.ci/publish.yml@refs/heads/main", "refs/heads/main", ".ci/publish.yml"),
        ("acme/demo//.ci.yml@refs/heads/main", "refs/heads/main", ".ci.yml"),
        ("acme/demo/.ci/publish.yml@refs/tags/v1@2", "refs/tags/v1@2", ".ci/publish.yml"),
        ("acme/demo/a@b.yml@refs/heads/main", "refs/heads/main", "a@b.yml"),
        (
            "acme/demo/.ci/publish.yml@refs/heads/x@refs/heads/main",
            "refs/heads/main",
            ".ci/publish.yml@refs/heads/x",
        ),
        ("acme/demo/.ci/publish.yml@" + "b" * 40, "refs/heads/main", ".ci/publish.yml"),
    ],
)
def test_the_path_of_the_workflow_without_the_ref(workflow_ref: str, ref: str, workflow: str) -> None:
    found = read_signer(certificate(workflow_ref=workflow_ref, ref=ref))
    assert isinstance(found, CiSigner)
    assert found.workflow == workflow


@pytest.mark.parametrize(
    "workflow_ref",
    [
        "acme/demo/.ci/publish.yml",
        "acme/demo/.ci/publish.yml@refs/heads/x@refs/heads/other",
        "other/demo/.ci/publish.yml@refs/tags/v1",
        "acme/demo-two/.ci/publish.yml@refs/tags/v1",
        "acme/demo/@refs/tags/v1",
        "acme/demo/a#b.yml@refs/tags/v1",
    ],
    ids=["no ref", "two refs", "other repository", "longer name", "no path", "separator of the words"],
)
def test_a_workflow_that_cannot_be_told(workflow_ref: str) -> None:
    assert refused(certificate(workflow_ref=workflow_ref)).code == "certificate_identity"


@pytest.mark.parametrize("number", ["8", "12", "15", "17", "18"])
def test_a_ci_certificate_without_an_extension_is_nobody(number: str) -> None:
    assert refused(certificate(without=number)).code == "certificate_identity"


def test_the_ref_is_only_shown() -> None:
    found = read_signer(certificate(without="14"))
    assert isinstance(found, CiSigner)
    assert (found.ref, found.workflow) == ("", ".ci/publish.yml")


@pytest.mark.parametrize(
    ("names", "claims"),
    [
        pytest.param([EMAIL], CLAIMS, id="person and workflow at once"),
        pytest.param([EMAIL, URI], {"iss": "https://id.example"}, id="two names"),
        pytest.param([URI], {"iss": "https://id.example"}, id="URI alone"),
        pytest.param([x509.DNSName("id.example")], {"iss": "https://id.example"}, id="other kind of name"),
        pytest.param([EMAIL], {"iss": "https://id.example/#fragment"}, id="issuer with a separator"),
        pytest.param([EMAIL], {"iss": ""}, id="empty issuer"),
    ],
)
def test_a_certificate_that_names_nobody(names: list[x509.GeneralName], claims: dict[str, Any]) -> None:
    assert refused(made(names, extensions_of(claims))).code == "certificate_identity"


@pytest.mark.parametrize("value", [b"", b"plain text", b"\x0c\x05ab", b"\x04\x02ab", b"\x0c\x01\xff"])
def test_an_extension_that_is_no_text(value: bytes) -> None:
    assert refused(made([EMAIL], {"8": value})).code == "certificate_invalid"


@pytest.mark.parametrize("content", [b"", b"\x30\x00", b"x" * 1000])
def test_bytes_that_are_no_certificate(content: bytes) -> None:
    assert refused(content).code == "certificate_invalid"


def test_the_old_issuer_extension_is_not_read() -> None:
    """It is not DER, and verifiers that took either of the two have been confused by it."""
    assert refused(made([EMAIL], {"1": b"https://id.example"})).code == "certificate_identity"
