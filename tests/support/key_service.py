"""A service that keeps keys, as far as signing takes it: two calls of AWS KMS on a port of this machine."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from tests.support.scripted import Answer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import rsa

    from tests.support.scripted import Request

SECRET_KEY: Final = "correct horse battery staple"
DER, SPKI = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo


@dataclass
class KeyService:
    """The two calls of AWS KMS that signing takes, over keys that are really there."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    shown: ec.EllipticCurvePublicKey | rsa.RSAPublicKey | None = None
    algorithm: str = "ECDSA_SHA_256"
    refusal: Answer | None = None
    others: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    """More keys, by what they are called."""

    def __call__(self, request: Request) -> Answer:
        if self.refusal:
            return self.refusal
        asked = json.loads(request.body)
        key = self.key if asked["KeyId"] == "alias/plugins" else self.others[asked["KeyId"]]
        if request.headers["X-Amz-Target"] == "TrentService.GetPublicKey":
            public = (self.shown or key.public_key()).public_bytes(DER, SPKI)
            said = {"PublicKey": base64.b64encode(public).decode(), "SigningAlgorithms": [self.algorithm]}
        else:
            digest = base64.b64decode(asked["Message"])
            signature = key.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
            said = {"Signature": base64.b64encode(signature).decode()}
        return Answer(200, json.dumps(said).encode(), {"Content-Type": "application/x-amz-json-1.1"})


def aws(url: str) -> dict[str, str]:
    """Where the kit finds the service and who it is there; nothing of this machine is asked."""
    return {
        "AWS_ENDPOINT_URL_KMS": url,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        "AWS_MAX_ATTEMPTS": "1",
    }
