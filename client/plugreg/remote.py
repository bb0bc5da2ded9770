"""One registry as those see it who publish: a `Reader` that also takes bundles and statements.

Every request may be repeated and is, after passing faults (see `link`); uploads go on where they stopped.
Errors of the registry come back as the same classes that it raised.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel

from plugreg.link import TRANSIENT, raise_for
from plugreg.objects import offline
from plugreg.reader import Reader, no_progress
from plugreg_schemas.api import PublishSession, Receipt, SearchPage, StatementReceipt
from plugreg_schemas.documents import canonical_json, parse_json
from plugreg_schemas.errors import InvalidInput, NotAllowed, NotAvailable, PlugregError, Temporary
from plugreg_schemas.fields import Open, check_model
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import urllib3

    from plugreg.link import Link
    from plugreg.reader import Progress

CHUNK: Final = 1 << 18
PENDING_S: Final = 60.0
"""Seconds that a publish waits until readers can see it; it is accepted for good before."""
FIRST_LOOK_S: Final = 0.2
LONGEST_LOOK_S: Final = 2.0
_Model = TypeVar("_Model", bound=BaseModel)


class Shown(Open):
    """What the address of a pending receipt shows."""

    index: Literal["published", "pending"] = "published"


class Remote(Reader):
    """A registry to read from and to publish to; see `Reader`."""

    @property
    def can_be_asked(self) -> bool:
        """Whether there is a registry behind it that answers questions, and it may be asked."""
        return self._link is not None and not self._terms.offline

    def search(self, parameters: Mapping[str, str]) -> SearchPage:
        """Return a page of plugins, as the registry says without a signature.

        Raises:
            NotAvailable: nothing here answers questions. Temporary: it cannot answer now.
            InvalidInput: it does not understand the question.
        """
        path = f"{self.discovery.urls.search}?{urlencode(parameters)}"
        return _answer(SearchPage, self._parsed(self._way.whole("GET", path)[1]))

    def begin_publish(
        self,
        statement: Mapping[str, Any],
        size: int,
        public_key: str,
        provenance: Mapping[str, Any] | None = None,
    ) -> PublishSession | Receipt:
        """Offer a signed statement; a `Receipt` means that exactly this is published already."""
        body = {"statement": statement, "size": size, "public_key": public_key}
        if provenance is not None:
            body["provenance"] = provenance
        status, answer = self._post(self.discovery.urls.publish, body)
        if status == 200:  # noqa: PLR2004 - it is there
            return self.settled(_answer(Receipt, answer))
        return _answer(PublishSession, answer)

    def upload(self, session: PublishSession, content: bytes, progress: Progress = no_progress) -> None:
        """Send the bundle to a session, going on from the offset that the registry has.

        Raises:
            Temporary: `upload_incomplete`.
        """
        offset = session.offset
        if offset == len(content) or (offset == 0 and self._put_directly(session, content, progress)):
            return
        for pause in self._patience.pauses():
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
        """Make an uploaded bundle a release, and wait a while until readers can see it.

        Where that takes too long, the receipt says `pending`: the release is accepted all the same.
        """
        receipt = self.settled(_answer(Receipt, self._post(session.commit, None)[1]))
        self.refresh()
        return receipt

    def settled(self, receipt: Receipt) -> Receipt:
        """Return a receipt that says `published`, or after `PENDING_S` seconds the newest one there is."""
        end, pause = time.monotonic() + PENDING_S, FIRST_LOOK_S
        while receipt.index == "pending" and time.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK_S)
            shown = _answer(Shown, self._parsed(self._way.whole("GET", receipt.url)[1]))
            receipt = receipt.model_copy(update={"index": shown.index})
        return receipt

    def submit(self, statement: Mapping[str, Any], public_key: str) -> StatementReceipt:
        """Submit an owners, yank or status statement. After it the index is read anew."""
        body = {"statement": statement, "public_key": public_key}
        try:
            answer = self._post(self.discovery.urls.statements, body)[1]
        finally:
            self.refresh()
        return _answer(StatementReceipt, answer)

    @property
    def _way(self) -> Link:
        """How the registry is told something.

        Raises:
            NotAllowed: `registry_read_only`.
            NotAvailable: `offline`.
        """
        if self._link is None:
            raise NotAllowed(
                "registry_read_only",
                f"{self.url} is a copy of a registry in a folder: it takes nothing",
                hint="name the registry itself with `--registry URL`",
            )
        if self._terms.offline:
            raise offline(f"the registry {self.url} is not asked")
        return self._link

    def _post(self, path: str, body: object | None) -> tuple[int, object]:
        content = canonical_json(body) if body is not None else b""
        status, answer = self._way.whole(
            "POST", path, body=content, headers={"Content-Type": "application/json"}
        )
        return status, self._parsed(answer)

    def _parsed(self, answer: bytes) -> object:
        try:
            return parse_json(answer, "answer")
        except InvalidInput:
            raise NotAvailable("not_a_registry", f"{self.url} did not answer as a registry does") from None

    def _put_directly(self, session: PublishSession, content: bytes, progress: Progress) -> bool:
        """Put a bundle into the registry's store, if that is offered; return whether it took it.

        Whatever stands in the way of that, the registry itself takes the bundle as well.
        """
        if session.direct is None:
            return False
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(content))}
        try:
            body = _reading(content, 0, progress)
            with self._way.once("PUT", session.direct, body=body, headers=headers) as response:
                return response.status == 200  # noqa: PLR2004
        except PlugregError:
            return False

    def _put(self, path: str, content: bytes, offset: int, progress: Progress) -> int:
        """Send from `offset` on; return how far the registry is, or `offset` where nothing was heard."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {offset}-{len(content) - 1}/{len(content)}",
            "Content-Length": str(len(content) - offset),
        }
        try:
            response = self._way.once("PUT", path, body=_reading(content, offset, progress), headers=headers)
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
        with self._way.request("HEAD", path) as response:
            return _upload_offset(response, size, missing=0)


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
