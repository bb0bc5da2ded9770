"""The verifier of keyless signatures: certificate, transparency log and trusted time, judged by `sigstore`.

    envelope > bundle, spelled alike > trusted root at the signed time > `sigstore` verifies > same payload

Offline and without a clock. A certificate lives minutes, so what counts is the signed time: that of the log
entry or of the timestamp, which the library proves. A verdict does not change with the day it is given on,
and a key that was retired before the signature was made proves nothing.

What cannot be judged is kept apart from what is forged: where a certificate authority, log or timestamp
authority made a part of the bundle and is not in the trust material, the refusal names it.

The library is imported at the first signature that it must judge: it costs more than all else together.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import IntegrityError, Unverifiable
from plugreg_schemas.statement import PAYLOAD_TYPE
from plugreg_schemas.trust.material import (
    CA,
    LOG,
    lacks,
    load_root,
    missing_part,
    public_trust_config,
    read_trust_config,
    root_at,
)
from plugreg_schemas.trust.timestamps import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.x509 import Certificate
    from sigstore.models import Bundle
    from sigstore.verify import Verifier

    from plugreg_schemas.trust.envelope import Envelope
    from plugreg_schemas.trust.material import Root

VERIFIERS_KEPT: Final = 8
"""Verifiers kept ready, one for each period in which the same authorities are valid."""


class SigstoreVerifier:
    """Judges envelopes with a certificate by the trust material of one Sigstore instance.

    Threads may share it.

    `read` returns a trust configuration or a trusted root as JSON bytes; it is called once, when the first
    certificate is judged. Without it the public instance is trusted, as the library ships it.
    """

    def __init__(self, read: Callable[[], bytes] = public_trust_config) -> None:
        self._read = read
        self._root: Root | None = None
        self._lock = Lock()

    def verify(self, envelope: Envelope) -> datetime:
        """Prove that the identity which `envelope.signer` names signed the payload, and return when.

        The time is the earliest that is proved: a timestamp, or the log, saw the signature then.

        Raises:
            IntegrityError: `signature_invalid`, `envelope_not_canonical`.
            Unverifiable: `trust_material_missing`, with the part in `details`; `no_trusted_time`.
            UsageError: `trust_config_invalid`; and what `read` raises.
        """
        if envelope.certificate is None:
            raise IntegrityError("signature_invalid", "a signature by a key is not one by a certificate")
        bundle, times = _read_bundle(envelope)
        root = root_at(self.trusted_root(), times)
        _check_usable(root)
        try:
            policy = _ThisCertificate(envelope.certificate)
            kind, payload = _verifier(canonical_json(root)).verify_dsse(bundle, policy)
        except Exception as error:  # noqa: BLE001 - it raises what it likes, and none of it means verified
            raise _refusal(envelope, root, bundle, error) from None
        if (kind, payload) != (PAYLOAD_TYPE, envelope.payload):
            raise IntegrityError("signature_invalid", "another payload was signed than the one to be read")
        return _proved_time(envelope, root)

    def trusted_root(self) -> Root:
        """Return the trusted root, which is read now unless it was.

        Raises:
            UsageError: `trust_config_invalid`; and what `read` raises.
        """
        with self._lock:
            if self._root is None:
                self._root = read_trust_config(self._read())["trustedRoot"]
            return self._root


class _ThisCertificate:
    """The library's policy about the signer: the certificate is the one whose identity was read.

    Whether that identity may is decided where owners are known. There is no list here that could be empty.
    """

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate

    def verify(self, cert: Certificate) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - keys need none

        if cert.public_bytes(Encoding.DER) != self._certificate:
            raise ValueError("another certificate than the one that names the signer")


@lru_cache(VERIFIERS_KEPT)
def _verifier(root: bytes) -> Verifier:
    from sigstore.verify import Verifier  # noqa: PLC0415 - costly

    return Verifier(trusted_root=load_root(json.loads(root)))


def _read_bundle(envelope: Envelope) -> tuple[Bundle, list[datetime]]:
    """Let the library read the bundle, and return it with the times that it claims.

    Raises:
        IntegrityError: `signature_invalid`; `envelope_not_canonical`: a member is lost or spelled otherwise.
        Unverifiable: `no_trusted_time`.
    """
    from sigstore.models import Bundle  # noqa: PLC0415 - costly

    material = json.loads(envelope.content)["verificationMaterial"]
    entry = material["tlogEntries"][0]
    _check_timed(envelope, material, entry)
    try:
        bundle = Bundle.from_json(envelope.content)
        again = canonical_json(json.loads(bundle.to_json()))
        times = _times(entry, bundle)
    except Exception as error:  # noqa: BLE001 - as in `verify`
        raise _invalid(envelope, error) from None
    if again != envelope.content:
        raise IntegrityError(
            "envelope_not_canonical", "the signed statement is not spelled in its one canonical form"
        )
    return bundle, times


def _times(entry: dict[str, Any], bundle: Bundle) -> list[datetime]:
    promised = bool(entry.get("inclusionPromise"))
    if promised != bool(int(entry.get("integratedTime", 0))):
        raise ValueError("a time of the log without its promise, or a promise without its time")
    stamps = bundle.verification_material.timestamp_verification_data
    return _log_times(entry) + (
        [stamp.tst_info.gen_time for stamp in stamps.rfc3161_timestamps] if stamps else []
    )


def _proved_time(envelope: Envelope, root: Root) -> datetime:
    """Return the earliest proved time of a verified bundle; a time that nobody judged does not count."""
    material = json.loads(envelope.content)["verificationMaterial"]
    (entry,) = material["tlogEntries"]
    stamps = (material.get("timestampVerificationData") or {}).get("rfc3161Timestamps") or []
    signed = [base64.b64decode(stamp["signedTimestamp"]) for stamp in stamps]
    stamped = judge(signed, envelope.signature, root).time
    return min([*_log_times(entry), *([stamped] if stamped else [])])


def _log_times(entry: dict[str, Any]) -> list[datetime]:
    promised = bool(entry.get("inclusionPromise"))
    return [datetime.fromtimestamp(int(entry["integratedTime"]), UTC)] if promised else []


def _check_timed(envelope: Envelope, material: dict[str, Any], entry: dict[str, Any]) -> None:
    stamps = (material.get("timestampVerificationData") or {}).get("rfc3161Timestamps")
    if not stamps and not entry.get("inclusionPromise"):
        raise Unverifiable(
            "no_trusted_time",
            f"nothing proves when `{envelope.signer.words}` signed: "
            "there is no timestamp, and no time of the log",
            hint="publish it again; with Rekor 2 the signing configuration needs a timestamp authority",
        )


def _check_usable(root: Root) -> None:
    """Refuse a root that the library would not even begin with."""
    for name, part in (("certificateAuthorities", CA), ("tlogs", LOG)):
        if not root[name]:
            raise lacks(part)


def _refusal(
    envelope: Envelope, root: Root, bundle: Bundle, error: Exception
) -> Unverifiable | IntegrityError:
    try:
        part = missing_part(root, bundle)
    except Exception:  # noqa: BLE001 - what cannot even be read is not merely unknown
        part = ""
    return lacks(part) if part else _invalid(envelope, error)


def _invalid(envelope: Envelope, error: Exception) -> IntegrityError:
    return IntegrityError(
        "signature_invalid",
        f"the signature is not one by `{envelope.signer.words}` over this statement ({type(error).__name__})",
    )
