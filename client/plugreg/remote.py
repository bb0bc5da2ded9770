"""One registry over HTTP, as few methods: read documents and bundles, publish, submit statements.

Every request may be repeated and is, after passing faults (see `link`); uploads and downloads go on
where they stopped. Errors of the registry come back as the same classes that it raised.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar
from urllib.parse import quote

import urllib3
from pydantic import BaseModel

from plugreg.link import LINK_CODES, PATIENT, TRANSIENT, Link, Patience, raise_for
from plugreg_schemas.api import (
    API_VERSION,
    DISCOVERY_PATH,
    Discovery,
    PublishSession,
    Receipt,
    RegistryRef,
    StatementReceipt,
)
from plugreg_schemas.bundle import DEFAULT_LIMITS, Limits
from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import (
    Gone,
    IntegrityError,
    InvalidInput,
    NotAvailable,
    Temporary,
    TooLarge,
    Unverifiable,
)
from plugreg_schemas.fields import check_model, read_model
from plugreg_schemas.names import Digest, quoted

if TYPE_CHECKING:
    from plugreg_schemas.trust.sigstore import SigstoreVerifier

Progress = Callable[[str, int, int], None]
"""Called with what is being moved, the bytes done and the bytes in all."""

CHUNK: Final = 1 << 18
CLIENT_LIMITS: Final = DEFAULT_LIMITS.scaled(4)
"""What this client accepts at most, whatever a registry allows."""
_Model = TypeVar("_Model", bound=BaseModel)


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


class Remote:
    """A registry reached by URL.

    `expected_id` is the id known for this URL: another one stops every operation (`registry_changed`).
    `sigstore` judges certificates; without it only keys are accepted.
    """

    def __init__(
        self,
        url: str,
        *,
        expected_id: str = "",
        name: str = "",
        insecure_http: bool = False,
        patience: Patience = PATIENT,
        sigstore: SigstoreVerifier | None = None,
    ) -> None:
        self._link = Link(url, insecure_http=insecure_http, patience=patience)
        self.url = self._link.url
        self._expected_id = expected_id
        self._name = name
        self.sigstore = sigstore

    @cached_property
    def discovery(self) -> Discovery:
        """The registry's own description of itself.

        Raises:
            NotAvailable: `not_a_registry`, `registry_unreachable`, `tls_failed`, `api_version_unsupported`.
            IntegrityError: `registry_changed`: another registry answers at this URL.
        """
        try:
            found = read_model(
                Discovery, self._get(DISCOVERY_PATH), code="discovery_invalid", file=DISCOVERY_PATH
            )
        except (NotAvailable, InvalidInput) as error:
            if error.code in LINK_CODES:
                raise
            raise NotAvailable(
                "not_a_registry",
                f"there is no plugreg registry at {self.url}",
                hint="is the address right?",
                findings=error.findings,
            ) from None
        if API_VERSION not in found.api_versions:
            raise NotAvailable(
                "api_version_unsupported",
                f"the registry at {self.url} does not speak version {API_VERSION} of the API",
                hint="use a plugreg that is as new as the registry",
            )
        if self._expected_id and found.registry.id != self._expected_id:
            raise IntegrityError(
                "registry_changed",
                f"the registry at {self.url} was `{self._expected_id}` and is now `{found.registry.id}`",
                hint="if that is intended, run `plugreg registry remove` and `plugreg registry add` again",
            )
        return found

    @property
    def ref(self) -> RegistryRef:
        """The registry's id, URL and name."""
        said = self.discovery.registry
        return RegistryRef(id=said.id, url=self.url, name=self._name or said.name)

    @property
    def limits(self) -> Limits:
        """The smaller of the registry's limits and our own."""
        return CLIENT_LIMITS.smaller(Limits(**self.discovery.limits.model_dump()))

    def document(self, name: str) -> bytes:
        """Return a plugin's document.

        Raises:
            NotAvailable: `plugin_not_found`.
        """
        path = self.discovery.urls.plugin.replace("{name}", quote(name, safe=""))
        try:
            return self._get(path)
        except NotAvailable as error:
            if error.code in LINK_CODES or isinstance(error, Gone):
                raise
            raise NotAvailable(
                "plugin_not_found",
                f"`{name}` is not in the registry {self.url}",
                hint="look at the spelling of the name",
            ) from None

    def attestation(self, digest: Digest) -> bytes:
        """Return a signed statement by its digest, unchecked.

        Raises:
            Unverifiable: `attestation_missing`.
        """
        path = self.discovery.urls.attestation.replace("{hex}", digest.hex)
        try:
            return self._get(path)
        except NotAvailable as error:
            if error.code in LINK_CODES:
                raise
            raise Unverifiable(
                "attestation_missing", f"the registry does not have the signed statement `{digest}`"
            ) from None

    def download(self, digest: Digest, size: int, into: BinaryIO, progress: Progress = no_progress) -> None:
        """Write a bundle into the empty file `into`, going on where a cut connection stopped.

        Stops at the first piece beyond `size` bytes.

        Raises:
            TooLarge: `bundle_too_large`: `size` is over our own limit or the registry's.
            IntegrityError: `digest_mismatch`: all bytes came and they are not the signed ones.
            NotAvailable: `bundle_missing`.
            Temporary: `download_incomplete`.
        """
        limit = self.limits.compressed
        if size > limit:
            raise TooLarge("bundle_too_large", f"the bundle has {size} bytes, at most {limit} are accepted")
        path = self.discovery.urls.blob.replace("{hex}", digest.hex)
        done = 0
        hashed = hashlib.sha256()
        for pause in self._link.patience.pauses():
            for chunk in self._part(path, done, size):
                done += len(chunk)
                if done > size:
                    raise IntegrityError(
                        "digest_mismatch", f"the bundle is larger than the {size} bytes that were announced"
                    )
                hashed.update(chunk)
                into.write(chunk)
                progress("download", done, size)
            if done == size:
                break
            if pause is None:
                raise Temporary(
                    "download_incomplete", f"got {done} of {size} bytes, then the connection ended"
                )
            time.sleep(pause)
        if hashed.hexdigest() != digest.hex:
            raise IntegrityError(
                "digest_mismatch",
                f"the bundle's digest is `sha256:{hashed.hexdigest()}`, signed is `{digest}`",
                hint="the bytes were altered on the way or in the store; do not use them",
            )

    def begin_publish(
        self, statement: Mapping[str, Any], size: int, public_key: str
    ) -> PublishSession | Receipt:
        """Offer a signed statement; a `Receipt` means that exactly this is published already."""
        body = {"statement": statement, "size": size, "public_key": public_key}
        status, answer = self._post(self.discovery.urls.publish, body)
        kind: type[PublishSession | Receipt] = Receipt if status == 200 else PublishSession  # noqa: PLR2004
        return _answer(kind, answer)

    def upload(self, session: PublishSession, content: bytes, progress: Progress = no_progress) -> None:
        """Send the bundle to a session, going on from the offset that the registry has.

        Raises:
            Temporary: `upload_incomplete`.
        """
        offset = session.offset
        if offset == len(content):
            return
        for pause in self._link.patience.pauses():
            offset = self._put(session.upload, content, offset, progress)
            if offset == len(content):
                return
            if pause is None:
                break
            time.sleep(pause)
            offset = self._offset(session.upload, len(content))
            if offset == len(content):
                return
        raise Temporary(
            "upload_incomplete", f"sent {offset} of {len(content)} bytes, then the connection ended"
        )

    def commit(self, session: PublishSession) -> Receipt:
        """Make an uploaded bundle a release."""
        return _answer(Receipt, self._post(session.commit, None)[1])

    def submit(self, statement: Mapping[str, Any], public_key: str) -> StatementReceipt:
        """Submit an owners, yank or status statement."""
        body = {"statement": statement, "public_key": public_key}
        answer = self._post(self.discovery.urls.statements, body)[1]
        return _answer(StatementReceipt, answer)

    def _get(self, path: str) -> bytes:
        return self._link.whole("GET", path)[1]

    def _post(self, path: str, body: object | None) -> tuple[int, object]:
        content = canonical_json(body) if body is not None else b""
        status, answer = self._link.whole(
            "POST", path, body=content, headers={"Content-Type": "application/json"}
        )
        try:
            return status, parse_json(answer, "answer")
        except InvalidInput:
            raise NotAvailable("not_a_registry", f"{self.url} did not answer as a registry does") from None

    def _put(self, path: str, content: bytes, offset: int, progress: Progress) -> int:
        """Send from `offset` on; return how far the registry is, or `offset` where nothing was heard."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {offset}-{len(content) - 1}/{len(content)}",
            "Content-Length": str(len(content) - offset),
        }
        try:
            response = self._link.once("PUT", path, body=_reading(content, offset, progress), headers=headers)
            with response:
                if response.status in TRANSIENT:
                    return offset
                if response.status != 409 or "Upload-Offset" not in response.headers:  # noqa: PLR2004
                    raise_for(response)
                return _upload_offset(response, len(content), missing=len(content))
        except Temporary as error:
            if error.code != "connection_failed":
                raise
            return offset

    def _offset(self, path: str, size: int) -> int:
        with self._link.request("HEAD", path) as response:
            return _upload_offset(response, size, missing=0)

    def _part(self, path: str, done: int, size: int) -> Iterator[bytes]:
        """Yield the bytes from `done` on until they end or the connection does."""
        headers = {"Range": f"bytes={done}-{size - 1}"} if done else {}
        try:
            response = self._link.request("GET", path, headers=headers)
        except NotAvailable as error:
            if error.code in LINK_CODES or isinstance(error, Gone):
                raise
            raise NotAvailable(
                "bundle_missing", f"the registry {self.url} does not have the bundle"
            ) from None
        skip = done if response.status != 206 or not _starts_at(response, done) else 0  # noqa: PLR2004
        try:
            for chunk in response.stream(CHUNK):
                fresh = chunk[min(skip, len(chunk)) :]
                skip -= len(chunk) - len(fresh)
                if fresh:
                    yield fresh
        except (urllib3.exceptions.HTTPError, OSError):
            return
        finally:
            response.close()


def _answer(kind: type[_Model], value: object) -> _Model:
    try:
        return check_model(kind, value, code="answer_invalid", file="answer")
    except InvalidInput as error:
        raise NotAvailable(
            error.code, f"the registry's answer is not understood: {error.message}", findings=error.findings
        ) from None


def _upload_offset(response: urllib3.BaseHTTPResponse, size: int, *, missing: int) -> int:
    """Return how much of an upload the registry has, as its answer says."""
    text = response.headers.get("Upload-Offset", str(missing))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(size)) and int(text) <= size):
        raise NotAvailable(
            "answer_invalid", f"the registry's answer is not understood: {quoted(text)} is not an offset"
        )
    return int(text)


def _reading(content: bytes, offset: int, progress: Progress) -> Iterator[bytes]:
    for start in range(offset, len(content), CHUNK):
        yield content[start : start + CHUNK]
        progress("upload", min(start + CHUNK, len(content)), len(content))


def _starts_at(response: urllib3.BaseHTTPResponse, offset: int) -> bool:
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {offset}-")
