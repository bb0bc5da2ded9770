"""Trust material: what a Sigstore instance is trusted by, as bytes, as it was at one time, and what it lacks.

    trust configuration   trusted root and where to sign, one JSON file for one instance
    trusted root          its certificate authorities, logs and timestamp authorities, each with a validity

The library asks the wall clock whether an authority is valid yet. Here the signed time counts instead:
`root_at` keeps what was valid then and says of it that it always was.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import InvalidInput, Unverifiable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.x509 import Certificate
    from sigstore.models import Bundle, TrustedRoot

MAX_TRUST_CONFIG: Final = 1 << 20
"""Bytes of a trust configuration; that of the public instance has 9,000."""
CONFIG_TYPE: Final = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
ROOT_TYPE: Final = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
PUBLIC_INSTANCE: Final = "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"
"""The folder of the public instance in the store that comes with the library."""
ALWAYS: Final = {"start": "1970-01-01T00:00:00Z"}
PARTS: Final = ("tlogs", "certificateAuthorities", "ctlogs", "timestampAuthorities")

CA: Final = "certificate authority"
CT_LOG: Final = "certificate transparency log"
LOG: Final = "transparency log"
TIMESTAMPS: Final = "timestamp authority"

Root = dict[str, Any]


def read_trust_config(content: bytes) -> dict[str, Any]:
    """Read a trust configuration; a bare trusted root becomes one that can verify and not sign.

    Raises:
        UsageError: `trust_config_invalid`.
    """
    if len(content) > MAX_TRUST_CONFIG:
        raise _unusable(f"it has more than {MAX_TRUST_CONFIG} bytes")
    try:
        value = parse_json(content, "trust configuration")
    except InvalidInput as error:
        raise _unusable(error.message) from None
    kind = value.get("mediaType") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind not in {CONFIG_TYPE, ROOT_TYPE}:
        raise _unusable(f"its `mediaType` is neither `{CONFIG_TYPE}` nor `{ROOT_TYPE}`")
    if kind == ROOT_TYPE:
        value = {"mediaType": CONFIG_TYPE, "trustedRoot": value}
    try:
        load_root(value["trustedRoot"])
        root_at(value["trustedRoot"], [datetime.fromisoformat(ALWAYS["start"])])
    except Exception as error:  # noqa: BLE001 - a file from anywhere, and a library that raises what it likes
        raise _unusable(f"its trusted root is not one ({type(error).__name__})") from None
    return value


def public_trust_config() -> bytes:
    """Return the trust configuration of the public instance, as the library ships it."""
    from importlib.resources import files  # noqa: PLC0415 - only for a signature that needs it

    folder = files("sigstore._store") / PUBLIC_INSTANCE
    root, signing = (
        json.loads((folder / name).read_bytes()) for name in ("trusted_root.json", "signing_config.v0.2.json")
    )
    return canonical_json({"mediaType": CONFIG_TYPE, "trustedRoot": root, "signingConfig": signing})


def load_root(root: Root) -> TrustedRoot:
    """Return the library's view of a trusted root; it raises what it likes."""
    from sigstore.models import TrustedRoot  # noqa: PLC0415 - costly
    from sigstore_models.trustroot.v1 import TrustedRoot as Parsed  # noqa: PLC0415 - costly

    return TrustedRoot(Parsed.from_json(canonical_json(root)))


def root_at(root: Root, times: Iterable[datetime]) -> Root:
    """Return what of a trusted root was valid at all of these times, as if it always were."""
    asked = list(times)
    cut: Root = {"mediaType": ROOT_TYPE}
    for part in PARTS:
        cut[part] = [_always(entry) for entry in root.get(part) or [] if covers(entry, asked)]
    return cut


def covers(entry: dict[str, Any], times: Iterable[datetime]) -> bool:
    """Whether an entry of a trusted root was valid at all of these times."""
    validity = entry.get("publicKey", entry).get("validFor") or ALWAYS
    start = datetime.fromisoformat(validity.get("start", ALWAYS["start"]))
    end = datetime.fromisoformat(validity["end"]) if validity.get("end") else None
    return all(start <= time and (end is None or time <= end) for time in times)


def chain_of(entry: dict[str, Any]) -> list[Certificate]:
    """Return the certificates of an authority in a trusted root, its own first."""
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415 - keys need none

    return [
        load_der_x509_certificate(base64.b64decode(certificate["rawBytes"]))
        for certificate in entry["certChain"]["certificates"]
    ]


def missing_part(root: Root, bundle: Bundle) -> str:
    """Return which part of a root a bundle was made by and the root does not have, or nothing."""
    if not _has_authority(root, bundle.signing_certificate):
        return CA
    if not _has_ct_log(root, bundle.signing_certificate):
        return CT_LOG
    entry = json.loads(bundle.to_json())["verificationMaterial"]["tlogEntries"][0]
    if entry["logId"]["keyId"] not in {log["logId"]["keyId"] for log in root["tlogs"]}:
        return LOG
    return "" if _has_timestamps(root, bundle) else TIMESTAMPS


def lacks(part: str) -> Unverifiable:
    """Return the refusal of a signature that cannot be judged without this part."""
    return Unverifiable(
        "trust_material_missing",
        f"the signature cannot be judged: the {part} that it needs is not in the trust material, "
        "or was not valid when it was made",
        hint="name the trust configuration of the Sigstore that signed it: `PLUGREG_TRUST_CONFIG=FILE`",
        details={"missing": part},
    )


def _always(entry: dict[str, Any]) -> dict[str, Any]:
    if "publicKey" in entry:
        return {**entry, "publicKey": {**entry["publicKey"], "validFor": ALWAYS}}
    return {**entry, "validFor": ALWAYS}


def _chains(root: Root, part: str) -> list[list[Certificate]]:
    return [chain_of(entry) for entry in root[part]]


def _has_authority(root: Root, certificate: Certificate) -> bool:
    from cryptography import x509  # noqa: PLC0415 - keys need none

    try:
        wanted = certificate.extensions.get_extension_for_class(
            x509.AuthorityKeyIdentifier
        ).value.key_identifier
        return any(
            issuer.subject == certificate.issuer
            and issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest == wanted
            for chain in _chains(root, "certificateAuthorities")
            for issuer in chain
        )
    except x509.ExtensionNotFound:
        return True  # nobody can tell, so the verdict of the library stands


def _has_ct_log(root: Root, certificate: Certificate) -> bool:
    from cryptography import x509  # noqa: PLC0415 - keys need none

    kind = x509.PrecertificateSignedCertificateTimestamps
    try:
        stamps = certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return True
    known = {log["logId"]["keyId"] for log in root["ctlogs"]}
    return any(base64.b64encode(stamp.log_id).decode() in known for stamp in stamps)


def _has_timestamps(root: Root, bundle: Bundle) -> bool:
    stamps = bundle.verification_material.timestamp_verification_data
    if not stamps:
        return True
    known = {(chain[0].issuer, chain[0].serial_number) for chain in _chains(root, "timestampAuthorities")}
    return all(
        any((signer.issuer, signer.serial_number) in known for signer in stamp.signed_data.signer_infos)
        for stamp in stamps.rfc3161_timestamps
    )


def _unusable(reason: str) -> UsageError:
    return UsageError(
        "trust_config_invalid",
        f"the trust configuration cannot be used: {reason}",
        hint="get the file from whoever runs the Sigstore instance; "
        "without one the public instance is trusted",
    )
