"""A whole Sigstore on loopback for tests: identity provider, Fulcio with its log, Rekor 1 and 2, timestamps.

The unmodified `sigstore` library signs and verifies against it. It is a double for the services, never for the
cryptography, and its keys live as long as the object.

    sigstore = LocalSigstore()                      with sigstore.serving(): ...
    sigstore.trust_config(rekor=2)                  the trust configuration, as bytes
    sigstore.ci_token(ref="refs/tags/v2")           what a CI would hand to a workflow
    sigstore.token(email="ada@example.com")         what a person gets
"""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.authorities import Fulcio, b64, new_key, spki
from tests.support.timestamps import TimestampAuthority
from tests.support.transparency import Log, Rekor1, Rekor2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.x509 import Certificate

CI: dict[str, str] = {
    "sub": "repo:acme/demo:ref:refs/tags/v1",
    "repository": "acme/demo",
    "repository_id": "1001",
    "repository_owner": "acme",
    "repository_owner_id": "2002",
    "workflow_ref": "acme/demo/.ci/publish.yml@refs/tags/v1",
    "job_workflow_ref": "acme/demo/.ci/publish.yml@refs/tags/v1",
    "ref": "refs/tags/v1",
    "sha": "a" * 40,
    "event_name": "push",
    "runner_environment": "hosted",
}


class LocalSigstore:
    """One instance. `hang` names the paths of services that take a request and never answer."""

    def __init__(self, issuer: str = "") -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.issuer = issuer or f"{self.url}/oidc"
        self.issuer_key = new_key()
        self.fulcio = Fulcio()
        self.rekor1, self.rekor2 = Rekor1(), Rekor2()
        self.timestamps = TimestampAuthority()
        self.hang: set[str] = set()
        self.released = threading.Event()

    @contextmanager
    def serving(self) -> Iterator[LocalSigstore]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self.server.shutdown()
            self.server.server_close()
            thread.join(5)

    def token(self, *, seconds: int = 600, audience: str = "sigstore", **claims: str) -> str:
        now = int(time.time())
        body = {"iss": self.issuer, "aud": audience, "iat": now, "exp": now + seconds, **claims}
        return jwt.encode({"sub": "someone", **body}, self.issuer_key, algorithm="ES256")

    def ci_token(self, ref: str = "refs/tags/v1", **claims: str) -> str:
        """A workflow's token; another `repository` moves its workflow along."""
        repository = claims.get("repository", CI["repository"])
        workflow = f"{repository}/.ci/publish.yml@{ref}"
        refs = {"ref": ref, "workflow_ref": workflow, "job_workflow_ref": workflow}
        said: dict[str, Any] = {**CI, "sub": f"repo:{repository}:ref:{ref}", **refs, **claims}
        return self.token(**said)

    def sign(self, payload: bytes, token: str, rekor: int = 2, *, timestamps: bool = True) -> dict[str, Any]:
        """A bundle as the unmodified library makes it, as parsed JSON."""
        from sigstore import dsse
        from sigstore.models import ClientTrustConfig
        from sigstore.oidc import IdentityToken
        from sigstore.sign import SigningContext

        config = ClientTrustConfig.from_json(self.trust_config(rekor, timestamps=timestamps).decode())
        with SigningContext.from_trust_config(config).signer(IdentityToken(token)) as signer:
            bundle: dict[str, Any] = json.loads(signer.sign_dsse(dsse.Statement(payload)).to_json())
        return bundle

    def claims(self, token: str) -> dict[str, Any]:
        found: dict[str, Any] = jwt.decode(
            token, self.issuer_key.public_key(), algorithms=["ES256"], audience="sigstore"
        )
        return found

    def trusted_root(self) -> dict[str, Any]:
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self._log(log, kind) for log, kind in ((self.rekor1, P256), (self.rekor2, ED25519))],
            "ctlogs": [_log("ct.plugreg.test", self.fulcio.log_key, P256, self.fulcio.log_id)],
            "certificateAuthorities": [self._authority(self.fulcio.chain)],
            "timestampAuthorities": [self._authority(self.timestamps.chain)],
        }

    def trust_config(self, rekor: int = 2, *, timestamps: bool = True) -> bytes:
        signing = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": self._service(),
            "oidcUrls": self._service("/oidc"),
            "rekorTlogUrls": self._service(version=rekor),
            "tsaUrls": self._service("/timestamps") if timestamps else [],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaConfig": {"selector": "ANY"},
        }
        config = {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": signing,
        }
        return json.dumps(config, indent=1).encode()

    def answer(self, path: str, body: bytes, token: str) -> tuple[int, Any]:
        """What the services say to a POST."""
        match path:
            case "/api/v2/signingCert":
                request = base64.b64decode(json.loads(body)["certificateSigningRequest"])
                chain = self.fulcio.certify(self.claims(token), request)
                return 200, {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}
            case "/api/v1/log/entries":
                return 201, self.rekor1.add(json.loads(body))
            case "/api/v2/log/entries":
                return 201, self.rekor2.add(json.loads(body))
            case "/timestamps":
                return 201, self.timestamps.answer(body)
            case "/oidc/token":
                code = parse_qs(body.decode())["code"][0]
                return 200, {"access_token": self.token(email=code, email_verified="true")}
        return 404, {}

    def discovery(self) -> dict[str, str]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.url}/oidc/auth",
            "token_endpoint": f"{self.url}/oidc/token",
        }

    def _service(self, path: str = "", version: int = 1) -> list[dict[str, Any]]:
        return [
            {
                "url": self.url + path,
                "majorApiVersion": version,
                "operator": "plugreg.test",
                "validFor": {"start": _start()},
            }
        ]

    def _log(self, log: Log, kind: str) -> dict[str, Any]:
        return _log(log.origin, getattr(log, "key"), kind, log.log_id)  # noqa: B009 - each log has its own type

    def _authority(self, chain: list[Certificate]) -> dict[str, Any]:
        certificates = [{"rawBytes": b64(c.public_bytes(Encoding.DER))} for c in chain]
        return {
            "subject": {"organization": "plugreg.test", "commonName": "plugreg test"},
            "uri": self.url,
            "certChain": {"certificates": certificates},
            "validFor": {"start": _start()},
        }


P256, ED25519 = "PKIX_ECDSA_P256_SHA_256", "PKIX_ED25519"


def _start() -> str:
    return (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _log(origin: str, key: Any, kind: str, log_id: bytes) -> dict[str, Any]:
    return {
        "baseUrl": f"https://{origin}",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": b64(spki(key)), "keyDetails": kind, "validFor": {"start": _start()}},
        "logId": {"keyId": b64(log_id)},
    }


def _handler(sigstore: LocalSigstore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match urlsplit(self.path).path:
                case "/oidc/.well-known/openid-configuration":
                    self._send(200, sigstore.discovery())
                case "/oidc/ci-token":
                    self._send(200, {"value": sigstore.ci_token()})
                case _:
                    self._send(404, {})

        def do_POST(self) -> None:
            path = urlsplit(self.path).path
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if path in sigstore.hang:
                sigstore.released.wait()
                return
            try:
                self._send(*sigstore.answer(path, body, self.headers.get("authorization", "")[7:]))
            except Exception as error:  # noqa: BLE001 - a test double says what it did not like
                self._send(400, {"code": 3, "message": f"{type(error).__name__}: {error}"})

        def _send(self, status: int, body: Any) -> None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
