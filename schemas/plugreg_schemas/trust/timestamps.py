"""When a signature was made, as a timestamp authority (RFC 3161) swears: over the bytes of the signature.

    stamp > whose it says it is > is that authority in the trust material, valid then > did it sign this

A stamp proves that a signature existed at its time, so the earliest one that is proved counts. A stamp of an
authority that is not known, or was not valid then, proves nothing and does no harm. One that a known
authority did not make, or made over another signature, is a forgery.

The library is imported at the first stamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plugreg_schemas.errors import IntegrityError
from plugreg_schemas.names import quoted
from plugreg_schemas.trust.material import chain_of, covers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

    from plugreg_schemas.trust.material import Root


@dataclass(frozen=True, slots=True)
class Stamped:
    """What the stamps of a signature prove: the time, or else which authority would be needed."""

    time: datetime | None = None
    missing: str = ""


def judge(stamps: Iterable[bytes], signature: bytes, root: Root) -> Stamped:
    """Return what `stamps` prove about `signature` by the timestamp authorities of a trusted root.

    Raises:
        IntegrityError: `signature_invalid`: a stamp is forged, or is of another signature.
    """
    times: list[datetime] = []
    missing: list[str] = []
    for stamp in stamps:
        try:
            response = _read(stamp)
            name, known = _authorities(response, root)
            proved = any(_proves(response, signature, chain) for chain in known)
        except Exception as error:  # noqa: BLE001 - anybody's bytes, and a library that raises what it likes
            raise IntegrityError(
                "signature_invalid", f"a timestamp is not one over this signature ({type(error).__name__})"
            ) from None
        if proved:
            times.append(response.tst_info.gen_time)
        else:
            missing.append(name)
    return Stamped(min(times)) if times else Stamped(missing=missing[0] if missing else "")


def _read(stamp: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response  # noqa: PLC0415 - costly

    return decode_timestamp_response(stamp)


def _authorities(response: TimeStampResponse, root: Root) -> tuple[str, list[list[Certificate]]]:
    """Return who says to have made a stamp, and the chains of this authority that were valid then."""
    (signer,) = response.signed_data.signer_infos
    chains = [
        chain
        for entry in _entries(root)
        if covers(entry, [response.tst_info.gen_time])
        and ((chain := chain_of(entry))[0].issuer, chain[0].serial_number)
        == (signer.issuer, signer.serial_number)
    ]
    return f"{quoted(signer.issuer.rfc4514_string())}, certificate {signer.serial_number}", chains


def _entries(root: Root) -> list[dict[str, Any]]:
    return root.get("timestampAuthorities") or []


def _proves(response: TimeStampResponse, signature: bytes, chain: Sequence[Certificate]) -> bool:
    """Return True, or raise what the library raises."""
    from rfc3161_client import VerifierBuilder  # noqa: PLC0415 - costly

    verifier = VerifierBuilder(
        tsa_certificate=chain[0], intermediates=list(chain[1:-1]), roots=[chain[-1]]
    ).build()
    return verifier.verify_message(response, signature)
