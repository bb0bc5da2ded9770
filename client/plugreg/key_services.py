"""Signing by a key that is kept in a service or a device, and named by a URI; see `plugreg_schemas.key_uris`.

What was signed there is verified here before anybody sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plugreg.signing import KeyFile, read_key
from plugreg_schemas.key_uris import FILE_SCHEME, explaining, file_of, open_key, scheme_of, secrets_of
from plugreg_schemas.trust.envelope import Envelope, encode_base64, pre_authentication_encoding
from plugreg_schemas.trust.identity import KeySigner, key_signer
from plugreg_schemas.trust.keys import verify_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from securesystemslib.signer import Signer

    from plugreg_schemas.statement import Statement


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """A key in a service or a device. `public` is its public half (DER SPKI), `service` what signs."""

    uri: str
    public: bytes
    service: Signer = field(repr=False)
    timestamp: Callable[[bytes], bytes] | None = None
    """See `KeyFile`."""

    @property
    def identity(self) -> KeySigner:
        """Who the signatures are by."""
        return key_signer(self.public)

    @property
    def public_key(self) -> str:
        """See `Signer`."""
        return encode_base64(self.public)

    def sign(self, statement: Statement) -> Envelope:
        """See `Signer`.

        Raises:
            IntegrityError: `signature_invalid`: the service signed with another key, or something else.
            UsageError: `key_passphrase_missing`.
            NotAvailable: `key_service_failed`.
            Temporary: `key_service_unreachable`; and what `timestamp` raises.
        """
        payload = statement.payload()
        with explaining(self.uri):
            answer = self.service.sign(pre_authentication_encoding(payload))
            signature = bytes.fromhex(answer.signature)
        envelope = Envelope.make(payload, signature, self.identity)
        verify_signature(envelope, self.public)
        if self.timestamp is None:
            return envelope
        return Envelope.make(payload, signature, self.identity, timestamps=(self.timestamp(signature),))

    def as_dict(self) -> dict[str, str]:
        """Return what `plugreg key show --json` prints."""
        return {"id": self.identity.words, "path": self.uri, "public": self.public_key}


def load_uri(
    uri: str, environ: Mapping[str, str], ask: Callable[[str], str] | None = None
) -> KeyFile | ServiceKey:
    """Return the key that a URI names, ready to sign.

    Raises:
        UsageError: `key_uri_invalid`, `key_version_old`, `key_library_missing`, `key_passphrase_missing`.
        InvalidInput: `key_invalid`, `key_passphrase_wrong`.
        NotAvailable: `key_not_found`, `key_service_failed`.
        Temporary: `key_service_unreachable`.
    """
    if scheme_of(uri) == FILE_SCHEME:
        return read_key(file_of(uri, environ), environ, ask)
    service, public = open_key(uri, secrets_of(uri, environ, ask))
    return ServiceKey(uri, public, service)
