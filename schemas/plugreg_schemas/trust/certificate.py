"""Whose certificate it is: from the certificate of a keyless signature to the identity that signed.

    subject name   extensions (1.3.6.1.4.1.57264.1.n)                              identity
    an e-mail      .8 issuer                                                       a person
    a URI          .8 issuer, .12 repository, .15 .17 numeric ids, .18 config      a CI workflow
    otherwise                                                                      nobody: it is refused

The ids survive a rename and are never given twice; the names beside them are only shown. The workflow is the
path inside the repository, without the ref that ends the config URI: a release from the next tag is by the
same signer. The subject URI of a CI certificate is not used: it ends in the ref, and names the repository of
a reusable workflow instead of the one that ran it.

Nothing is verified here: `plugreg_schemas.trust.sigstore` does that, for this very certificate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat import asn1
from pydantic import ValidationError

from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.trust.identity import CiSigner, OidcSigner

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ARC: Final = "1.3.6.1.4.1.57264.1."
"""The arc under which Fulcio numbers its certificate extensions."""
ISSUER: Final = f"{ARC}8"
REPOSITORY: Final = f"{ARC}12"
REF: Final = f"{ARC}14"
REPOSITORY_ID: Final = f"{ARC}15"
OWNER_ID: Final = f"{ARC}17"
CONFIG: Final = f"{ARC}18"
_ONLY_CI: Final = (REPOSITORY, REPOSITORY_ID, OWNER_ID, CONFIG)


def read_signer(certificate: bytes) -> OidcSigner | CiSigner:
    """Return the identity that a certificate (DER) claims.

    Raises:
        InvalidInput: `certificate_invalid`; `certificate_identity`: it names neither a person nor a CI
            workflow.
    """
    try:
        read = x509.load_der_x509_certificate(certificate)
        texts = _texts(read)
        names = list(read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except Exception as error:  # noqa: BLE001 - anybody's certificate, and parsers that raise what they like
        raise InvalidInput(
            "certificate_invalid", f"the signing certificate cannot be read: {type(error).__name__}"
        ) from None
    try:
        return _identity(names, texts)
    except ValidationError:
        raise _nobody("a part of the identity has characters or a length that no identity has") from None


def _identity(names: list[x509.GeneralName], texts: dict[str, str]) -> OidcSigner | CiSigner:
    if len(names) != 1:
        raise _nobody("it has several subject names")
    if ISSUER not in texts:
        raise _nobody("it does not say which identity provider vouches for it")
    if isinstance(names[0], x509.RFC822Name):
        if any(oid in texts for oid in _ONLY_CI):
            raise _nobody("it is a person's and a CI workflow's at once")
        return OidcSigner(issuer=texts[ISSUER], subject=names[0].value)
    if not isinstance(names[0], x509.UniformResourceIdentifier):
        raise _nobody("its subject is neither an e-mail address nor a URI")
    missing = [oid for oid in _ONLY_CI if not texts.get(oid)]
    if missing:
        raise _nobody(f"it lacks the extensions of a CI workflow: {', '.join(missing)}")
    return CiSigner(
        issuer=texts[ISSUER],
        repository_id=texts[REPOSITORY_ID],
        owner_id=texts[OWNER_ID],
        workflow=_workflow(texts),
        repository=texts[REPOSITORY],
        ref=texts.get(REF, ""),
    )


def _workflow(texts: dict[str, str]) -> str:
    """Return the path of the workflow in its repository, without the ref."""
    prefix = texts[REPOSITORY] + "/"
    if not texts[CONFIG].startswith(prefix):
        raise _nobody("its workflow is not one of its repository")
    path = texts[CONFIG].removeprefix(prefix).lstrip("/")
    ref = "@" + texts.get(REF, "")
    if len(ref) > 1 and path.endswith(ref):
        return path.removesuffix(ref)
    workflow, at, rest = path.partition("@")
    if (
        not at or "@" in rest
    ):  # where a path could end in several places, it could end where an attacker wants
        raise _nobody("its workflow cannot be told from its ref")
    return workflow


def _texts(certificate: Certificate) -> dict[str, str]:
    """Return the text extensions by their OID; they hold a DER UTF8String each."""
    found: dict[str, str] = {}
    wanted = {ISSUER, REF, *_ONLY_CI}
    for extension in certificate.extensions:
        value = extension.value
        if extension.oid.dotted_string in wanted and isinstance(value, x509.UnrecognizedExtension):
            found[extension.oid.dotted_string] = asn1.decode_der(str, value.value)
    return found


def _nobody(reason: str) -> InvalidInput:
    return InvalidInput(
        "certificate_identity",
        f"the signing certificate names nobody who can own a plugin: {reason}",
        hint="sign with an e-mail identity or from a CI that Fulcio knows by repository id, or with a key",
    )
