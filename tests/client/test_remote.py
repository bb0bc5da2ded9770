"""A registry over HTTP as it is on bad days: cut, slow, lying, gone, another one. All against a real server."""

from __future__ import annotations

import gzip
import io
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugreg.cli import exit_code
from plugreg.index.terms import Terms
from plugreg.link import MAX_DOCUMENT, MAX_REDIRECTS, Link, Patience, check_url, error_of
from plugreg.network import is_loopback
from plugreg.reader import CLIENT_LIMITS
from plugreg.remote import Remote
from plugreg_schemas.api import Problem, PublishSession, Receipt
from plugreg_schemas.errors import (
    INTEGRITY_CODES,
    STATUSES,
    UNVERIFIABLE_CODES,
    Conflict,
    Gone,
    IntegrityError,
    InvalidInput,
    NoSpace,
    NotAllowed,
    NotAvailable,
    PlugregError,
    ResolutionError,
    Temporary,
    TooLarge,
    TooMany,
    Unverifiable,
    UsageError,
)
from plugreg_schemas.names import Digest
from tests.support.record import OTHER_REGISTRY, PUBLISHED_AT, REGISTRY, author
from tests.support.scripted import Answer, Request, Server, as_json, problem, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK = Patience(tries=4, first_pause_s=0.001, longest_pause_s=0.01)
BUNDLE = bytes(range(256)) * 4000
DIGEST = Digest.of(BUNDLE)
BLOB = f"/blobs/sha256/{DIGEST.hex}"
STATEMENT = f"/attestations/sha256/{DIGEST.hex}.json"
DISCOVERY = "/.well-known/plugreg.json"
LIMITS = {
    "compressed": 64 << 20,
    "unpacked": 1 << 29,
    "members": 20000,
    "path": 240,
    "component": 200,
    "ratio": 200,
}

Handle = "Callable[[Request], Answer]"


def discovery(**changes: Any) -> Answer:
    return as_json(
        {"api-versions": ["1"], "registry": {"id": REGISTRY, "name": "team"}, "limits": LIMITS} | changes
    )


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with a home of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Serve the discovery document, and everything else by the function that is given."""
    with ExitStack() as stack:

        def start(answer: Callable[[Request], Answer], **changes: Any) -> Server:
            def route(request: Request) -> Answer:
                return discovery(**changes) if request.path == DISCOVERY else answer(request)

            return stack.enter_context(serving(route))

        yield start


def connect(server: Server, **options: Any) -> Remote:
    return Remote(server.url, Terms(Path("home")), **{"patience": QUICK, **options})


def downloaded(remote: Remote, *, size: int = len(BUNDLE), digest: Digest = DIGEST) -> bytes:
    into = io.BytesIO()
    remote.download(digest, size, into)
    return into.getvalue()


def part_of(request: Request, *, sent: int | None = None) -> Answer:
    """Answer as a server that knows ranges does."""
    asked = request.headers.get("Range")
    if asked is None:
        return Answer(200, BUNDLE, sent=sent)
    start = int(asked.removeprefix("bytes=").split("-")[0])
    span = f"bytes {start}-{len(BUNDLE) - 1}/{len(BUNDLE)}"
    return Answer(206, BUNDLE[start:], {"Content-Range": span}, sent=sent)


# --- downloads -------------------------------------------------------------------------------------------------------


def test_a_cut_download_goes_on_where_it_stopped(serve: Callable[..., Server]) -> None:
    server = serve(lambda request: part_of(request, sent=300_000 if request.number < 2 else None))
    assert downloaded(connect(server)) == BUNDLE
    assert [request.headers.get("Range") for request in server.of("GET", BLOB)] == [
        None,
        f"bytes=300000-{len(BUNDLE) - 1}",
        f"bytes=600000-{len(BUNDLE) - 1}",
    ]
    assert server.sent < len(BUNDLE) + 10_000


def test_a_server_that_ignores_range_begins_again(serve: Callable[..., Server]) -> None:
    server = serve(lambda request: Answer(200, BUNDLE, sent=300_000 if request.number == 0 else None))
    assert downloaded(connect(server)) == BUNDLE


def test_a_body_in_chunks_that_ends_early_goes_on(serve: Callable[..., Server]) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    whole = f"{1000:x}\r\n".encode() + BUNDLE[:1000] + b"\r\n"
    for cut in (b"", b"1000", f"{5000:x}\r\n".encode() + BUNDLE[1000:1500]):
        wire = head + whole + cut

        def answer(request: Request, wire: bytes = wire) -> Answer:
            return Answer(wire=wire) if request.number == 0 else part_of(request)

        assert downloaded(connect(serve(answer))) == BUNDLE


def test_a_length_that_is_none(serve: Callable[..., Server]) -> None:
    """Without a length nothing tells that the first answer was cut but the size in the signed document."""
    negative = {"Content-Length": "-1"}

    def answer(request: Request) -> Answer:
        return Answer(200, BUNDLE, negative, sent=300_000) if request.number == 0 else part_of(request)

    server = serve(answer)
    assert downloaded(connect(server)) == BUNDLE
    with pytest.raises(Temporary) as refused:
        downloaded(connect(serve(lambda _: Answer(200, BUNDLE, negative, sent=1000))))
    assert refused.value.code == "download_incomplete"


def test_a_part_that_begins_elsewhere_is_dropped_and_everything_asked_for_again(
    serve: Callable[..., Server],
) -> None:
    def answer(request: Request) -> Answer:
        if "Range" not in request.headers:
            return Answer(200, BUNDLE, sent=300_000 if request.number == 0 else None)
        return Answer(206, BUNDLE[1000:], {"Content-Range": f"bytes 1000-{len(BUNDLE) - 1}/{len(BUNDLE)}"})

    server = serve(answer)
    assert downloaded(connect(server)) == BUNDLE
    assert [request.headers.get("Range") for request in server.of("GET", BLOB)] == [
        None,
        f"bytes=300000-{len(BUNDLE) - 1}",
        None,
    ]


@pytest.mark.parametrize("headers", [{}, {"Content-Range": "bytes */1024000"}, {"Content-Range": "x"}])
def test_a_part_that_does_not_say_where_it_begins_is_never_used(
    serve: Callable[..., Server], headers: dict[str, str]
) -> None:
    def answer(request: Request) -> Answer:
        if request.number == 0:
            return Answer(200, BUNDLE, sent=300_000)
        return Answer(206, BUNDLE[300_000:], headers)

    with pytest.raises(Temporary) as refused:
        downloaded(connect(serve(answer)))
    assert refused.value.code == "download_incomplete"


OTHER = bytes(reversed(BUNDLE))


def test_an_object_that_changed_between_two_parts_is_asked_for_by_its_tag(
    serve: Callable[..., Server],
) -> None:
    def answer(request: Request) -> Answer:
        if request.number == 0:
            return Answer(200, OTHER, {"ETag": '"old"'}, sent=300_000)
        if request.headers.get("If-Range", '"new"') != '"new"':
            return Answer(200, BUNDLE, {"ETag": '"new"'})
        return part_of(request)

    server = serve(answer)
    assert downloaded(connect(server)) == BUNDLE
    assert [request.headers.get("If-Range") for request in server.of("GET", BLOB)] == [None, '"old"']


@pytest.mark.parametrize("tags", [('"old"', '"new"'), ("", ""), ('W/"a"', 'W/"a"')], ids=str)
def test_parts_of_two_objects_are_not_called_tampering(
    serve: Callable[..., Server], tags: tuple[str, str]
) -> None:
    """Whether the second part shows its tag or not: what does not fit together is fetched again, whole."""

    def answer(request: Request) -> Answer:
        if request.number == 0:
            return Answer(200, OTHER, {"ETag": tags[0]}, sent=300_000)
        made = part_of(request)
        return replace(made, headers={**made.headers, "ETag": tags[1]})

    server = serve(answer)
    assert downloaded(connect(server)) == BUNDLE
    asked = server.of("GET", BLOB)
    assert len(asked) == 3
    assert "Range" not in asked[2].headers
    assert all('W/"' not in request.headers.get("If-Range", "") for request in asked)


def test_whole_bytes_that_are_wrong_are_tampering_after_a_cut_too(serve: Callable[..., Server]) -> None:
    server = serve(lambda request: Answer(200, OTHER, sent=300_000 if request.number == 0 else None))
    with pytest.raises(IntegrityError) as refused:
        downloaded(connect(server))
    assert refused.value.code == "digest_mismatch"


def test_a_download_that_never_completes_is_temporary(serve: Callable[..., Server]) -> None:
    with pytest.raises(Temporary) as refused:
        downloaded(connect(serve(lambda request: part_of(request, sent=10))))
    assert refused.value.code == "download_incomplete"
    assert f"incomplete: got 40 of {len(BUNDLE)} bytes" in refused.value.message


def test_wrong_bytes_of_the_right_size(serve: Callable[..., Server]) -> None:
    with pytest.raises(IntegrityError) as refused:
        downloaded(connect(serve(lambda _: Answer(200, BUNDLE[:-1] + b"x"))))
    assert refused.value.code == "digest_mismatch"


def test_a_bundle_larger_than_announced_is_not_read_to_its_end(serve: Callable[..., Server]) -> None:
    into = io.BytesIO()
    server = serve(lambda _: Answer(200, bytes(64 << 20)))
    with pytest.raises(IntegrityError) as refused:
        connect(server).download(DIGEST, 1000, into)
    assert refused.value.code == "digest_mismatch"
    assert len(into.getvalue()) <= 1000
    assert server.sent < 32 << 20


def test_a_size_over_the_limits_is_refused_before_a_byte_is_read(serve: Callable[..., Server]) -> None:
    server = serve(lambda _: Answer(200, BUNDLE), limits=LIMITS | {"compressed": 1 << 50})
    with pytest.raises(TooLarge) as refused:
        downloaded(connect(server), size=CLIENT_LIMITS.compressed + 1)
    assert refused.value.code == "bundle_too_large"
    assert server.of("GET", BLOB) == []


def test_progress_is_told_up_to_the_last_byte(serve: Callable[..., Server]) -> None:
    told: list[tuple[str, int, int]] = []
    connect(serve(part_of)).download(DIGEST, len(BUNDLE), io.BytesIO(), lambda *facts: told.append(facts))
    assert told[-1] == ("download", len(BUNDLE), len(BUNDLE))
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("status", "kind", "code"), [(404, NotAvailable, "bundle_missing"), (410, Gone, "object_missing")]
)
def test_a_bundle_that_is_not_there(
    serve: Callable[..., Server], status: int, kind: type[PlugregError], code: str
) -> None:
    with pytest.raises(kind) as refused:
        downloaded(connect(serve(lambda _: problem(status, "plugin_removed"))))
    assert refused.value.code == code


# --- passing faults --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_passing_fault_is_tried_again(serve: Callable[..., Server], status: int) -> None:
    server = serve(lambda request: Answer(status) if request.number < 2 else Answer(200, b"{}"))
    assert connect(server).attestation(DIGEST) == b"{}"
    assert len(server.of("GET", STATEMENT)) == 3


@pytest.mark.parametrize(
    "wanted", ["1", "86400", "9" * 400, "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "\u00b2", ""]
)
def test_retry_after_is_obeyed_only_as_long_as_is_bearable(serve: Callable[..., Server], wanted: str) -> None:
    head = {"Retry-After": wanted}
    server = serve(lambda request: Answer(503, headers=head) if request.number == 0 else Answer(200, b"{}"))
    assert connect(server).attestation(DIGEST) == b"{}"


def test_retry_after_beats_our_own_pause() -> None:
    assert Patience().asked("3", 0.2) == 3.0
    assert Patience().asked("86400", 0.2) == Patience().longest_pause_s
    assert Patience().asked("soon", 0.2) == 0.2


def test_a_fault_that_stays_is_temporary_with_the_registrys_own_words(serve: Callable[..., Server]) -> None:
    server = serve(lambda _: problem(503, "store_unavailable", hint="wait", retryable=True, request_id="r1"))
    with pytest.raises(Temporary) as refused:
        connect(server).attestation(DIGEST)
    assert (refused.value.code, refused.value.hint, refused.value.details["request_id"]) == (
        "store_unavailable",
        "wait",
        "r1",
    )
    assert len(server.of("GET", STATEMENT)) == QUICK.tries


def test_who_asks_too_often_waits_and_then_ends_as_with_any_passing_fault(
    serve: Callable[..., Server],
) -> None:
    server = serve(lambda _: problem(429, "rate_limited", retryable=True, retry_after=1))
    with pytest.raises(TooMany) as refused:
        connect(server).attestation(DIGEST)
    assert (refused.value.code, refused.value.details["retry_after"]) == ("rate_limited", 1)
    assert exit_code(refused.value) == 8
    assert len(server.of("GET", STATEMENT)) == QUICK.tries


@pytest.mark.parametrize(
    "broken", [Answer(silent=True), Answer(200, b'{"name": "demo"}', sent=5)], ids=["silent", "cut"]
)
def test_an_answer_that_breaks_off_is_asked_for_again(serve: Callable[..., Server], broken: Answer) -> None:
    server = serve(lambda request: broken if request.number == 0 else Answer(200, b"{}"))
    assert connect(server).attestation(DIGEST) == b"{}"


def test_an_answer_that_always_breaks_off(serve: Callable[..., Server]) -> None:
    with pytest.raises(NotAvailable) as refused:
        connect(serve(lambda _: Answer(200, b'{"name": "demo"}', sent=5))).attestation(DIGEST)
    assert refused.value.code == "registry_unreachable"


def test_unreachable_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        remote = Remote(url, Terms(Path("home")), patience=QUICK)
        with pytest.raises(NotAvailable) as refused:
            _ = remote.discovery
    assert refused.value.code == "registry_unreachable"


# --- what is not a registry, or not this one -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<!doctype html><title>Welcome</title>", {"Content-Type": "text/html"}),
        Answer(200, b"{}"),
        Answer(200, b"[]"),
        Answer(200, b""),
        Answer(404, b"not found"),
        Answer(200, b"\xff\xfe"),
        Answer(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"}),
    ],
    ids=["html", "object", "list", "empty", "404", "no text", "gzip"],
)
def test_not_a_registry(answer: Answer) -> None:
    with serving(lambda _: answer) as server, pytest.raises(NotAvailable) as refused:
        _ = connect(server).discovery
    assert refused.value.code == "not_a_registry"


def test_another_registry_answers_at_the_url(serve: Callable[..., Server]) -> None:
    remote = connect(serve(part_of, registry={"id": OTHER_REGISTRY}), expected_id=REGISTRY)
    for ask in (lambda: remote.attestation(DIGEST), lambda: downloaded(remote), lambda: remote.ref):
        with pytest.raises(IntegrityError) as refused:
            ask()
        assert refused.value.code == "registry_changed"


def test_a_registry_of_another_age(serve: Callable[..., Server]) -> None:
    with pytest.raises(NotAvailable) as refused:
        connect(serve(part_of, **{"api-versions": ["2"]})).attestation(DIGEST)
    assert refused.value.code == "api_version_unsupported"


def test_the_name_that_was_given_at_home_wins(serve: Callable[..., Server]) -> None:
    server = serve(part_of)
    assert connect(server).ref.name == "team"
    assert connect(server, name="mine").ref.name == "mine"
    assert connect(server).ref.url == server.url


def test_the_smaller_limits_count(serve: Callable[..., Server]) -> None:
    assert connect(serve(part_of, limits=LIMITS | {"members": 5})).limits.members == 5
    assert connect(serve(part_of, limits=LIMITS | {"members": 10**9})).limits == replace(
        connect(serve(part_of)).limits, members=CLIENT_LIMITS.members
    )


def test_document_without_end_is_cut_off(serve: Callable[..., Server]) -> None:
    with pytest.raises(TooLarge) as refused:
        connect(serve(lambda _: Answer(200, b" " * (MAX_DOCUMENT + 1)))).attestation(DIGEST)
    assert refused.value.code == "document_too_large"


def test_a_bomb_in_the_content_encoding_is_not_unpacked(serve: Callable[..., Server]) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    got = connect(serve(lambda _: Answer(200, bomb, {"Content-Encoding": "gzip"}))).attestation(DIGEST)
    assert got == bomb


def test_nothing_there_is_said_in_terms_of_what_was_asked_for(serve: Callable[..., Server]) -> None:
    remote = connect(serve(lambda _: Answer(404)))
    with pytest.raises(Unverifiable) as no_index:
        remote.document("demo")
    assert no_index.value.code == "index_missing"
    with pytest.raises(Unverifiable) as missing:
        remote.attestation(DIGEST)
    assert missing.value.code == "attestation_missing"


# --- redirects -------------------------------------------------------------------------------------------------------


def test_redirect_to_another_origin_carries_nothing_of_ours(serve: Callable[..., Server]) -> None:
    with serving(part_of) as elsewhere:
        server = serve(lambda _: Answer(307, headers={"Location": elsewhere.url + "there?signature=1"}))
        assert downloaded(connect(server)) == BUNDLE
        (request,) = elsewhere.requests
    assert request.path == "/there?signature=1"
    assert request.headers.keys() <= {"Host", "User-Agent", "Accept-Encoding"}


def test_credentials_stay_with_the_registry(serve: Callable[..., Server]) -> None:
    """Storage refuses a signed address that comes with a second credential, and should not learn ours."""
    ours = {"Authorization": "Bearer s3cret", "Cookie": "a=b", "X-Api-Key": "s3cret", "Range": "bytes=5-9"}

    def strict(request: Request) -> Answer:
        seen = request.headers.keys() & ours.keys()
        return (
            Answer(307, headers={"Location": server.url + "back"}) if seen == {"Range"} else problem(400, "x")
        )

    with serving(strict) as storage:
        server = serve(
            lambda request: (
                Answer(200, b"done")
                if request.path == "/back"
                else Answer(307, headers={"Location": storage.url + "signed?signature=1"})
            )
        )
        link = Link(server.url, patience=QUICK)
        with link.once("GET", "blob", headers=ours) as answer:
            assert answer.status == 200
        asked = [request.headers.keys() & ours.keys() for request in server.requests]
        assert asked == [ours.keys(), {"Range"}]
        with link.once("GET", storage.url + "named-by-the-registry", headers=ours) as answer:
            assert answer.status == 200


def test_redirect_in_a_circle(serve: Callable[..., Server]) -> None:
    server = serve(lambda request: Answer(302, headers={"Location": request.path}))
    with pytest.raises(NotAvailable) as refused:
        connect(server).attestation(DIGEST)
    assert refused.value.code == "too_many_redirects"
    assert len(server.requests) == 1 + MAX_REDIRECTS + 1


@pytest.mark.parametrize("kind", ["redirect", "template"])
@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("http://plugins.example/x", "registry_url_insecure"),
        ("http://[bad/x", "registry_url_invalid"),
        ("file:///etc/passwd", "registry_url_invalid"),
        ("ftp://plugins.example/x", "registry_url_invalid"),
    ],
)
def test_a_registry_cannot_lead_to_an_open_or_foreign_place(
    serve: Callable[..., Server], kind: str, to: str, code: str
) -> None:
    if kind == "redirect":
        server = serve(lambda _: Answer(302, headers={"Location": to}))
    else:
        server = serve(part_of, urls={"attestation": to})
    with pytest.raises(NotAvailable) as refused:
        connect(server).attestation(DIGEST)
    assert refused.value.code == code


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
def test_what_is_sent_is_never_redirected(serve: Callable[..., Server], status: int) -> None:
    server = serve(lambda _: Answer(status, headers={"Location": "/elsewhere"}))
    remote = connect(server)
    with pytest.raises(PlugregError):
        remote.begin_publish({}, 1, "")
    with pytest.raises(PlugregError):
        remote.upload(session(), BUNDLE)
    assert "/elsewhere" not in server.paths


# --- publishing ------------------------------------------------------------------------------------------------------

UPLOAD, COMMIT = "/v1/uploads/secret", "/v1/uploads/secret/commit"


def session(offset: int = 0) -> PublishSession:
    value = {"session": "s", "upload": UPLOAD, "commit": COMMIT, "offset": offset, "expires": PUBLISHED_AT}
    return PublishSession.model_validate(value)


class Upload:
    """A registry's end of an upload; `cut` says after how many bytes each PUT is lost."""

    def __init__(self, *cuts: int, content: bytes = b"") -> None:
        self.content = content
        self.cuts = list(cuts)

    def __call__(self, request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(200, headers={"Upload-Offset": str(len(self.content))})
        start = int(request.headers["Content-Range"].removeprefix("bytes ").split("-")[0])
        if start != len(self.content):
            return Answer(409, headers={"Upload-Offset": str(len(self.content))})
        if self.cuts:
            self.content += request.body[: self.cuts.pop(0)]
            return Answer(silent=True)
        self.content += request.body
        return Answer(204, headers={"Upload-Offset": str(len(self.content))})


def test_an_upload_in_one_go(serve: Callable[..., Server]) -> None:
    upload = Upload()
    server = serve(upload)
    connect(server).upload(session(), BUNDLE)
    assert upload.content == BUNDLE
    (put,) = server.of("PUT", UPLOAD)
    assert put.headers["Content-Range"] == f"bytes 0-{len(BUNDLE) - 1}/{len(BUNDLE)}"
    assert put.headers["Content-Length"] == str(len(BUNDLE))


def test_a_bundle_goes_straight_to_the_store_where_that_is_offered(serve: Callable[..., Server]) -> None:
    taken: list[Request] = []

    def store(request: Request) -> Answer:
        taken.append(request)
        return Answer(200)

    server = serve(Upload())
    with serving(store) as other:
        offered = session().model_copy(update={"direct": f"{other.url}staging?signature=x"})
        connect(server).upload(offered, BUNDLE)
    assert [request.body for request in taken] == [BUNDLE]
    assert "Authorization" not in taken[0].headers
    assert "Transfer-Encoding" not in taken[0].headers
    assert server.of("PUT", UPLOAD) == []


@pytest.mark.parametrize("answer", [Answer(403), Answer(503), Answer(silent=True)])
def test_a_store_that_does_not_take_the_bundle_stops_nobody(
    serve: Callable[..., Server], answer: Answer
) -> None:
    upload = Upload()
    with serving(lambda _: answer) as other:
        offered = session().model_copy(update={"direct": f"{other.url}staging"})
        connect(serve(upload)).upload(offered, BUNDLE)
    assert upload.content == BUNDLE


def test_a_cut_upload_goes_on_where_the_registry_is(serve: Callable[..., Server]) -> None:
    upload = Upload(100_000, 0, 200_000)
    server = serve(upload)
    connect(server).upload(session(), BUNDLE)
    assert upload.content == BUNDLE
    assert [len(put.body) for put in server.of("PUT", UPLOAD)] == [
        len(BUNDLE),
        len(BUNDLE) - 100_000,
        len(BUNDLE) - 100_000,
        len(BUNDLE) - 300_000,
    ]


def test_an_upload_whose_answer_was_lost_is_not_sent_again(serve: Callable[..., Server]) -> None:
    server = serve(Upload(len(BUNDLE)))
    connect(server).upload(session(), BUNDLE)
    assert len(server.of("PUT", UPLOAD)) == 1


def test_wrong_offset_is_corrected_by_the_registry(serve: Callable[..., Server]) -> None:
    upload = Upload(content=BUNDLE[:70_000])
    connect(serve(upload)).upload(session(), BUNDLE)
    assert upload.content == BUNDLE


def test_an_upload_that_is_there_already_sends_nothing(serve: Callable[..., Server]) -> None:
    server = serve(Upload(content=BUNDLE))
    connect(server).upload(session(len(BUNDLE)), BUNDLE)
    assert server.requests == []


def test_an_upload_that_never_completes(serve: Callable[..., Server]) -> None:
    with pytest.raises(Temporary) as refused:
        connect(serve(Upload(*[1] * 50))).upload(session(), BUNDLE)
    assert refused.value.code == "upload_incomplete"


@pytest.mark.parametrize("offset", ["-1", "x", "", "\u00b2", "9" * 30, str(len(BUNDLE) + 1), "1.5"])
@pytest.mark.parametrize("status", [204, 409])
def test_an_offset_that_is_none(serve: Callable[..., Server], offset: str, status: int) -> None:
    with pytest.raises(NotAvailable) as refused:
        connect(serve(lambda _: Answer(status, headers={"Upload-Offset": offset}))).upload(session(), BUNDLE)
    assert refused.value.code == "answer_invalid"


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (problem(404, "session_unknown"), NotAvailable, "session_unknown"),
        (problem(413, "bundle_too_large"), TooLarge, "bundle_too_large"),
        (problem(507, "disk_full"), NoSpace, "disk_full"),
        (problem(409, "version_exists"), Conflict, "version_exists"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_upload_that_is_refused(
    serve: Callable[..., Server], answer: Answer, kind: type[PlugregError], code: str
) -> None:
    with pytest.raises(kind) as refused:
        connect(serve(lambda _: answer)).upload(session(), BUNDLE)
    assert refused.value.code == code


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"session": 1}', b'{"a":1,"a":2}', b""])
def test_answers_that_no_registry_gives(serve: Callable[..., Server], answer: bytes) -> None:
    remote = connect(serve(lambda _: Answer(202, answer)))
    for ask in (
        lambda: remote.begin_publish({}, 1, ""),
        lambda: remote.commit(session()),
        lambda: remote.submit({}, ""),
    ):
        with pytest.raises(NotAvailable) as refused:
            ask()
        assert refused.value.code in {"answer_invalid", "not_a_registry"}


def test_exactly_this_is_published_already(serve: Callable[..., Server]) -> None:
    receipt = {
        "name": "demo",
        "version": "1.0.0",
        "digest": DIGEST,
        "size": 1,
        "published_at": PUBLISHED_AT,
        "registry": {"id": REGISTRY},
        "signer": author().signer.model_dump(),
        "url": "x",
        "attestation": DIGEST,
        "already": True,
    }
    answer = connect(serve(lambda _: as_json(receipt))).begin_publish({}, 1, "")
    assert isinstance(answer, Receipt)
    assert answer.already


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(STATUSES, key=str), ids=str)
def test_a_problem_comes_back_as_the_class_that_was_raised(kind: type[PlugregError]) -> None:
    if kind in {IntegrityError, Unverifiable}:
        codes = sorted(INTEGRITY_CODES if kind is IntegrityError else UNVERIFIABLE_CODES)
    else:
        codes = ["some_code"]
    same = (
        InvalidInput if kind in {UsageError, ResolutionError} else kind
    )  # a request is never the words of a command
    for code in codes:
        raised = error_of(
            Problem(title="t", status=STATUSES[kind], code=code, detail="d", hint="h"), STATUSES[kind]
        )
        assert (type(raised), raised.code, raised.message, raised.hint) == (same, code, "d", "h")


def test_findings_and_details_come_along(serve: Callable[..., Server]) -> None:
    finding = {
        "code": "name_invalid",
        "severity": "error",
        "boundary": "plugin",
        "file": "plugin.json",
        "pointer": "/name",
        "message": "m",
    }
    odd = {"code": "x", "severity": "fatal", "boundary": "moon", "message": "m2"}
    answer = problem(422, "manifest_invalid", errors=[finding, odd], digest="sha256:1")
    with pytest.raises(InvalidInput) as refused:
        connect(serve(lambda _: answer)).submit({}, "")
    first, second = refused.value.findings
    assert first.as_dict() == finding
    assert (second.severity, second.boundary) == ("error", "registry")
    assert refused.value.details["digest"] == "sha256:1"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidInput), (403, NotAllowed), (418, InvalidInput), (500, Temporary)],
)
@pytest.mark.parametrize("body", [b"<html>no", b"", b'{"code": 5}', b"[" * 10_000])
def test_errors_that_are_no_problem_documents(
    serve: Callable[..., Server], status: int, kind: type[PlugregError], body: bytes
) -> None:
    with pytest.raises(kind) as refused:
        connect(serve(lambda _: Answer(status, body))).submit({}, "")
    assert refused.value.code == "http_error"


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://plugins.example", "https://plugins.example/"),
        ("https://plugins.example/a/", "https://plugins.example/a/"),
        ("http://127.0.0.1:8470", "http://127.0.0.1:8470/"),
        ("http://[::1]:8470/", "http://[::1]:8470/"),
        ("http://localhost", "http://localhost/"),
    ],
)
def test_addresses_of_registries(url: str, same: str) -> None:
    assert check_url(url) == same


@pytest.mark.parametrize(
    "url",
    [
        "",
        "plugins.example",
        "ftp://plugins.example",
        "file:///srv",
        "https://",
        "https://x:port/",
        "https://x:99999/",
        "https://user:hunter2@x/",
        "https://:hunter2@x/",
        "https://x/?token=1",
        "https://x/?",
        "https://x/#a",
        "https://x\n.example/",
        "https://x y/",
        "http://[::1/",
        "https://\u0435xample.com/",
        "https://x\\@y/",
    ],
)
def test_what_is_no_address_of_a_registry(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_url(url)
    assert refused.value.code == "registry_url_invalid"
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://plugins.example", "http://10.0.0.1", "http://127.0.0.1.example/", "http://0.0.0.0/"]
)
def test_open_http_only_to_this_machine_unless_it_is_asked_for(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_url(url)
    assert refused.value.code == "registry_url_insecure"
    assert check_url(url, insecure_http=True).startswith("http://")


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(host: str, here: bool) -> None:
    assert is_loopback(host) is here
