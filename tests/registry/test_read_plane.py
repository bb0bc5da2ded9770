"""The read plane as hosts and caches see it: conditions, ranges, headers, and paths that are not there."""

from __future__ import annotations

import gzip
import socket
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from plugreg_schemas.api import Discovery, Problem
from plugreg_schemas.documents import canonical_json
from tests.support.publisher import Author, ask, digest_of, plugin
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.publisher import Answer

YEAR = "public, max-age=31536000, immutable"


def raw(registry: RegistryProcess, path: str, method: str = "GET") -> bytes:
    """The answer to a request line as it stands: no client tidies it up."""
    with socket.create_connection((registry.host, registry.port), timeout=10) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return plugin("stored")


@pytest.fixture(scope="module")
def places(registry: RegistryProcess, bundle: bytes) -> Mapping[str, str]:
    """One object of each kind."""
    author = Author(registry.url, registry.id)
    receipt = author.publish(bundle, "stored").json()
    return {
        "blob": registry.url + f"blobs/sha256/{receipt['digest'][7:]}",
        "attestation": registry.url + f"attestations/sha256/{receipt['attestation'][7:]}.json",
        "document": registry.url + "index/plugins/stored.json",
        "discovery": registry.url + ".well-known/plugreg.json",
    }


@pytest.mark.parametrize(
    ("kind", "type_", "cache"),
    [
        ("blob", "application/vnd.plugreg.bundle.v1+tar.zst", YEAR + ", no-transform"),
        ("attestation", "application/json", YEAR),
        ("document", "application/json", "no-cache"),
        ("discovery", "application/json", "no-cache"),
    ],
)
def test_the_headers_of_each_kind(places: Mapping[str, str], kind: str, type_: str, cache: str) -> None:
    answer = ask(places[kind])
    found = answer.headers
    assert answer.status == 200
    assert (found["content-type"], found["cache-control"]) == (type_, cache)
    assert found["access-control-allow-origin"] == "*"
    assert found["x-content-type-options"] == "nosniff"
    assert found["content-length"] == str(len(answer.body))
    assert "content-encoding" not in found
    assert "set-cookie" not in found
    head = ask(places[kind], "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert {k: v for k, v in head.headers.items() if k != "date"} == {
        k: v for k, v in found.items() if k != "date"
    }


@pytest.mark.parametrize("kind", ["blob", "attestation", "document", "discovery"])
def test_a_strong_etag_saves_the_body(places: Mapping[str, str], kind: str) -> None:
    first = ask(places[kind])
    etag = first.headers["etag"]
    assert etag == f'"{digest_of(first.body)[7:]}"'
    for condition in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        for method in ("GET", "HEAD"):
            again = ask(places[kind], method, headers={"if-none-match": condition})
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == etag
            assert again.headers["cache-control"] == first.headers["cache-control"]
    assert ask(places[kind], headers={"if-none-match": '"other"'}).status == 200


def test_t02_the_document_changes_its_etag_with_the_next_release(registry: RegistryProcess) -> None:
    author = Author(registry.url, registry.id)
    author.publish(plugin("growing"), "growing")
    url = registry.url + "index/plugins/growing.json"
    etag = ask(url).headers["etag"]
    assert ask(url, headers={"if-none-match": etag}).status == 304
    author.publish(plugin("growing", "1.1.0"), "growing", "1.1.0")
    newer = ask(url, headers={"if-none-match": etag})
    assert (newer.status, len(newer.json()["versions"])) == (200, 2)
    assert newer.headers["etag"] != etag


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=10-", 10, None),
        ("bytes=-5", -5, None),
        ("bytes=5-99999999", 5, None),
        ("bytes=0-0", 0, 1),
        ("bytes=-99999999", 0, None),
    ],
)
def test_j10_a_range_of_a_blob(
    places: Mapping[str, str], bundle: bytes, asked: str, start: int, end: int | None
) -> None:
    part = bundle[start:end]
    first = start if start >= 0 else len(bundle) + start
    for method in ("GET", "HEAD"):
        answer = ask(places["blob"], method, headers={"range": asked})
        assert answer.status == 206
        assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/{len(bundle)}"
        assert answer.headers["content-length"] == str(len(part))
        assert answer.headers["accept-ranges"] == "bytes"
        assert answer.body == (part if method == "GET" else b"")


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0"])
def test_a_range_outside_of_a_blob(places: Mapping[str, str], bundle: bytes, asked: str) -> None:
    answer = ask(places["blob"], headers={"range": asked})
    assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{len(bundle)}")
    assert Problem.model_validate_json(answer.body).code == "range_invalid"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,3-4", "lines=1-2", "bytes=", "bytes=-", "bytes=9-1", "bytes=a-b", "x"]
)
def test_a_range_that_is_not_understood_is_answered_with_all(
    places: Mapping[str, str], bundle: bytes, asked: str
) -> None:
    answer = ask(places["blob"], headers={"range": asked})
    assert (answer.status, answer.body) == (200, bundle)


def test_if_range(places: Mapping[str, str], bundle: bytes) -> None:
    etag = ask(places["blob"]).headers["etag"]
    same = ask(places["blob"], headers={"range": "bytes=0-9", "if-range": etag})
    assert (same.status, same.body) == (206, bundle[:10])
    for other in ('"other"', f"W/{etag}", "Mon, 30 Nov 2026 00:00:00 GMT"):
        changed = ask(places["blob"], headers={"range": "bytes=0-9", "if-range": other})
        assert (changed.status, changed.body) == (200, bundle)


def test_documents_are_not_sent_in_parts(places: Mapping[str, str]) -> None:
    answer = ask(places["document"], headers={"range": "bytes=0-9"})
    assert answer.status == 200
    assert "accept-ranges" not in answer.headers


@pytest.mark.parametrize("kind", ["blob", "attestation", "document", "discovery"])
def test_other_methods(places: Mapping[str, str], kind: str) -> None:
    asked = ask(
        places[kind],
        "OPTIONS",
        headers={"origin": "https://host.example", "access-control-request-method": "GET"},
    )
    assert (asked.status, asked.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert asked.headers["access-control-allow-origin"] == "*"
    assert "Range" in asked.headers["access-control-allow-headers"]
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = ask(places[kind], method, b"x")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert Problem.model_validate_json(answer.body).code == "method_not_allowed"


@pytest.mark.parametrize(
    "path",
    [
        "/index/../../registry.sqlite3",
        "/index/plugins/../../../registry.sqlite3",
        "/index/plugins/..%2f..%2f..%2fregistry.sqlite3",
        "/index/plugins/%2e%2e/plugins/stored.json",
        "/%69ndex/plugins/stored.json",
        "/index/plugins/stored%2ejson",
        "/index/plugins/stored.json%00",
        "/index/plugins/.hidden.json",
        "/index/plugins//stored.json",
        "/index/plugins/STORED.json",
        "/index/plugins/",
        "/index/",
        "/index",
        "/blobs/sha256/" + "0" * 64,
        "/blobs/sha256/" + "A" * 64,
        "/blobs/sha256/",
        "/blobs/sha256/.unfinished-0000000000000000",
        "/blobs/sha256/../../../registry.sqlite3",
        "/attestations/sha256/" + "0" * 64,
        "/attestations/sha256/" + "0" * 64 + ".json",
        "/.well-known/plugreg",
        "/.well-known/../../registry.sqlite3",
        "/uploads/" + "0" * 64,
        "//index/plugins/stored.json",
        "/index\\plugins\\stored.json",
    ],
)
def test_a_path_that_is_not_there(registry: RegistryProcess, places: Mapping[str, str], path: str) -> None:
    answer = raw(registry, path)
    assert answer.startswith(b"HTTP/1.1 404 "), answer
    assert b"cache-control: no-store" in answer
    assert Problem.model_validate_json(answer.partition(b"\r\n\r\n")[2]).code == "not_found"


def test_a_question_mark_changes_nothing(places: Mapping[str, str]) -> None:
    assert ask(places["document"] + "?x=/../y").status == 200


def test_the_discovery_document(registry: RegistryProcess) -> None:
    found = Discovery.model_validate_json(ask(registry.url + ".well-known/plugreg.json").body)
    assert found.registry.id == registry.id
    assert found.limits.compressed == 64 << 20
    assert found.urls.plugin == "index/plugins/{name}.json"
    assert found.trust.kinds == ("key", "certificate")


def test_the_objects_on_disk_are_the_read_plane(registry: RegistryProcess, places: Mapping[str, str]) -> None:
    for url in places.values():
        assert (registry.objects / url.removeprefix(registry.url)).read_bytes() == ask(url).body


def test_a_registry_with_settings_of_its_own(tmp_path: Path) -> None:
    environment = {
        "PLUGREG_REGISTRY_INDEX_MAX_AGE": "60",
        "PLUGREG_REGISTRY_PUBLIC_URL": "https://plugins.example.com/registry",
        "PLUGREG_REGISTRY_NAME": "Example",
        "PLUGREG_REGISTRY_LIMITS_COMPRESSED": "2000",
        "PLUGREG_REGISTRY_RESERVED": "acme-*",
    }
    with running(tmp_path / "data", environment=environment) as registry:
        answer = ask(registry.url + ".well-known/plugreg.json")
        assert answer.headers["cache-control"] == "public, max-age=60"
        found = Discovery.model_validate_json(answer.body)
        assert (found.registry.name, found.registry.url) == (
            "Example",
            "https://plugins.example.com/registry/",
        )
        assert found.limits.compressed == 2000
        author = Author(registry.url, registry.id)
        assert author.begin(plugin(mark="x" * 20_000) + bytes(2000)).code == "bundle_too_large"
        held = author.begin(plugin("acme-tools"), "acme-tools")
        assert (held.status, held.code) == (403, "name_held")
        upload = author.begin(plugin()).json()["upload"]
        assert upload.startswith("https://plugins.example.com/registry/v1/uploads/")


def test_a_store_that_is_gone_is_told_and_the_process_lives(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        (registry.objects / ".well-known" / "plugreg.json").unlink()
        answer = ask(registry.url + "readyz")
        assert (answer.status, answer.code) == (503, "store_unavailable")
        assert (answer.json()["retryable"], answer.headers["retry-after"]) == (True, "5")
        assert ask(registry.url + "livez").status == 200


def test_a_fault_of_ours_tells_nothing_but_where_the_log_has_it(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        Author(registry.url, registry.id).publish(plugin())
        with closing(sqlite3.connect(registry.data / "registry.sqlite3", isolation_level=None)) as database:
            database.execute("UPDATE releases SET facts = 'damaged'")
            database.execute("UPDATE plugins SET revision = revision + 1")  # or what is in memory is shown
        answer = ask(registry.url + "v1/plugins/demo")
        found = Problem.model_validate_json(answer.body)
        assert (answer.status, found.code, found.retryable) == (500, "internal_error", True)
        assert "damaged" not in answer.body.decode()
    entry = next(line for line in registry.log if "internal error" in line)
    assert found.request_id in entry
    assert "trace" in entry


def test_only_listed_identities_may_claim_names(tmp_path: Path) -> None:
    data = tmp_path / "data"
    admitted = Author("", "")
    with running(data, environment={"PLUGREG_REGISTRY_ADMISSION": f"key:{admitted.key.id}"}) as registry:
        known = Author(registry.url, registry.id, admitted.key)
        other = Author(registry.url, registry.id)
        refused = other.publish(plugin())
        assert (refused.status, refused.code) == (403, "not_admitted")
        assert known.publish(plugin()).status == 201
        assert known.state("owners", add=[other.key.identity]).status == 201
        assert other.publish(plugin("demo", "1.1.0"), "demo", "1.1.0").status == 201, (
            "owners are always admitted"
        )


def test_the_api_describes_itself_and_answers_everything_with_problems(registry: RegistryProcess) -> None:
    described = ask(registry.url + "openapi.json").json()
    assert {
        "/v1/publish",
        "/v1/uploads/{secret}",
        "/v1/uploads/{secret}/commit",
        "/v1/statements",
    } <= described["paths"].keys()
    assert ask(registry.url + "livez").json() == {"live": True}
    assert ask(registry.url + "readyz").json() == {
        "ready": True,
        "store": {"kind": "folder"},
        "warnings": ["root_keys_online"],
    }
    cases: list[tuple[str, str, int, str]] = [
        ("GET", "", 404, "not_found"),
        ("GET", "v1", 404, "not_found"),
        ("GET", "v1/publish", 405, "method_not_allowed"),
        ("DELETE", "v1/plugins/x", 405, "method_not_allowed"),
        ("POST", "livez", 405, "method_not_allowed"),
        ("GET", "v1/plugins/Not-A-Name", 422, "name_invalid"),
        ("GET", "v1/plugins/stored/v1", 422, "version_invalid"),
        ("GET", "v1/plugins/stored/7.0.0", 404, "version_not_found"),
        ("GET", "v1/plugins/nothing/7.0.0", 404, "plugin_not_found"),
        ("GET", "v1/plugins/" + "a" * 5000, 422, "name_invalid"),
        ("GET", "v1/plugins/%00", 422, "name_invalid"),
        ("GET", "v1/plugins/%ff", 422, "name_invalid"),
        ("PATCH", "v1/publish", 405, "method_not_allowed"),
    ]
    for method, path, status, code in cases:
        answer = ask(registry.url + path, method)
        found = Problem.model_validate_json(answer.body)
        assert (answer.status, found.code, found.status) == (status, code, status), (method, path, answer)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-request-id"] == found.request_id


def _shape(answer: Answer) -> set[str]:
    return set(answer.json())


def test_one_version_of_a_plugin(registry: RegistryProcess, places: Mapping[str, str]) -> None:
    answer = ask(registry.url + "v1/plugins/stored/1.0.0")
    assert {"name", "version", "digest", "size", "signer", "status", "yanked"} <= _shape(answer)
    assert answer.json()["signer"]["kind"] == "key"
    whole = ask(registry.url + "v1/plugins/stored")
    assert whole.json() == ask(places["document"]).json()


@pytest.fixture(scope="module")
def large(registry: RegistryProcess) -> tuple[str, bytes]:
    """The address and the bytes of a document that is worth compressing."""
    content = canonical_json({"versions": [{"version": f"1.0.{n}", "yanked": False} for n in range(2000)]})
    (registry.objects / "index" / "plugins" / "large.json").write_bytes(content)
    return registry.url + "index/plugins/large.json", content


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip", "gzip;q=0.5, identity", "deflate , gzip ; q=1.0"])
def test_a_large_document_is_sent_compressed_to_those_who_take_it(
    large: tuple[str, bytes], accepted: str
) -> None:
    address, content = large
    plain, packed = ask(address), ask(address, headers={"accept-encoding": accepted})
    assert (plain.body, gzip.decompress(packed.body)) == (content, content)
    assert len(packed.body) < len(content) / 4
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-length"] == str(len(packed.body))
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] != packed.headers["etag"], "a strong ETag is of one sequence of bytes"


def test_each_form_of_a_document_has_conditions_of_its_own(large: tuple[str, bytes]) -> None:
    address, _ = large
    packed = {"accept-encoding": "gzip"}
    tag, packed_tag = ask(address).headers["etag"], ask(address, headers=packed).headers["etag"]
    assert ask(address, headers={"if-none-match": tag}).status == 304
    unchanged = ask(address, headers={**packed, "if-none-match": packed_tag})
    assert (unchanged.status, unchanged.headers["etag"]) == (304, packed_tag)
    assert "content-encoding" not in unchanged.headers
    assert ask(address, headers={**packed, "if-none-match": tag}).status == 200
    assert ask(address, "HEAD", headers=packed).headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0", "gzip;q=0.000", "x-gzip", "gzip2", ""])
def test_who_does_not_take_gzip_gets_none(large: tuple[str, bytes], accepted: str) -> None:
    address, content = large
    answer = ask(address, headers={"accept-encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.body == content


def test_a_small_document_is_sent_as_it_is(places: Mapping[str, str]) -> None:
    answer = ask(places["document"], headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in answer.headers
    assert "vary" not in answer.headers


def test_a_document_that_was_replaced_is_compressed_anew(registry: RegistryProcess) -> None:
    file = registry.objects / "index" / "plugins" / "changing.json"
    for letter in "ab":
        content = canonical_json({"text": letter * 50_000})
        file.with_suffix(".new").write_bytes(content)
        file.with_suffix(".new").rename(file)
        answer = ask(registry.url + "index/plugins/changing.json", headers={"accept-encoding": "gzip"})
        assert gzip.decompress(answer.body) == content
