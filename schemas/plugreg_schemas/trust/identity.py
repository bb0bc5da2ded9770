"""The identities that can sign a statement and own a plugin name.

Each has one spelling in words, which is its identity: two signers are the same exactly where their words are.

    key:sha256:<hex>                                          a key, by the digest of its DER SPKI
    oidc:<issuer>#<subject>                                   a person, by issuer and e-mail or subject
    ci:<issuer>#<repository id>#<owner id>#<workflow>         a CI workflow, by ids that survive renames
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from plugreg_schemas.errors import InvalidInput
from plugreg_schemas.fields import Closed, DigestField
from plugreg_schemas.names import Digest, quoted

_Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^#\s\x00-\x1f\x7f-\x9f]+$")]

_Shown = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]


class KeySigner(Closed):
    """A signing key, known by the digest of its public half."""

    kind: Literal["key"] = "key"
    id: DigestField

    @property
    def words(self) -> str:
        """The identity in words."""
        return f"key:{self.id}"


class OidcSigner(Closed):
    """A person, known to an identity provider."""

    kind: Literal["oidc"] = "oidc"
    issuer: _Text
    subject: _Text

    @property
    def words(self) -> str:
        """The identity in words."""
        return f"oidc:{self.issuer}#{self.subject}"


class CiSigner(Closed):
    """A CI workflow. `repository` and `ref` are shown to people and never compared."""

    kind: Literal["ci"] = "ci"
    issuer: _Text
    repository_id: _Text
    owner_id: _Text
    workflow: _Text
    repository: _Shown = ""
    ref: _Shown = ""

    @property
    def words(self) -> str:
        """The identity in words."""
        return f"ci:{self.issuer}#{self.repository_id}#{self.owner_id}#{self.workflow}"


AnySigner = KeySigner | OidcSigner | CiSigner
Signer = Annotated[KeySigner | OidcSigner | CiSigner, Field(discriminator="kind")]
_SIGNER: TypeAdapter[KeySigner | OidcSigner | CiSigner] = TypeAdapter(Signer)


def key_signer(spki: bytes) -> KeySigner:
    """Return the identity of the key with this public half (DER SubjectPublicKeyInfo)."""
    return KeySigner(id=Digest.of(spki))


def parse_signer(words: str) -> KeySigner | OidcSigner | CiSigner:
    """Read an identity in words.

    Raises:
        InvalidInput: `signer_invalid`.
    """
    kind, _, rest = words.partition(":")
    parts = rest.split("#")
    fields = {
        "key": ("id",),
        "oidc": ("issuer", "subject"),
        "ci": ("issuer", "repository_id", "owner_id", "workflow"),
    }.get(kind, ())
    try:
        if len(parts) == len(fields):
            return _SIGNER.validate_python({"kind": kind, **dict(zip(fields, parts, strict=True))})
    except ValidationError:
        pass
    raise InvalidInput(
        "signer_invalid",
        f"{quoted(words)} is not an identity",
        hint="write `key:sha256:<hex>`, `oidc:<issuer>#<subject>` or "
        "`ci:<issuer>#<repository id>#<owner id>#<workflow>`; "
        "`plugreg key show` and `plugreg info` print them",
    )
