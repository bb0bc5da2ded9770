"""JSON and YAML are read strictly: two readers can never see two different documents."""

from __future__ import annotations

import contextlib
import doctest
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg_schemas import documents
from plugreg_schemas.documents import (
    MAX_DEPTH,
    canonical_json,
    json_digest,
    parse_json,
    parse_yaml,
    pointer_to,
)
from plugreg_schemas.errors import MAX_FINDINGS, InvalidInput

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_the_examples_in_the_docstrings_run() -> None:
    failed, tried = doctest.testmod(documents)
    assert tried > 0
    assert failed == 0


@given(values)
def test_what_json_can_hold_survives(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(canonical_json(value)) == value


@given(values)
def test_the_canonical_encoding_is_one(value: object) -> None:
    encoded = canonical_json(value)
    assert canonical_json(parse_json(encoded)) == encoded
    assert json_digest(value) == json_digest(json.loads(encoded))


def test_canonical_json_sorts_and_leaves_text_unescaped() -> None:
    assert canonical_json({"b": [1, True], "a": "\u00e9"}) == '{"a":"\u00e9","b":[1,true]}'.encode()


@pytest.mark.parametrize(
    ("content", "code", "pointer"),
    [
        (b'{"a":1,"a":2}', "json_duplicate_key", "/a"),
        (b'{"a":{"b~":1,"b~":1}}', "json_duplicate_key", "/a/b~0"),
        (b'[{"a":1,"a":1}]', "json_duplicate_key", "/0/a"),
        (b'{"a":1,"\\u0061":2}', "json_duplicate_key", "/a"),
        (b"NaN", "json_number", ""),
        (b"[Infinity]", "json_number", ""),
        (b"[-Infinity]", "json_number", ""),
        (b"1e999", "json_number", ""),
        (b"9007199254740992", "json_number", ""),
        (b"-9007199254740992", "json_number", ""),
        (b"1" * 5000, "json_number", ""),
        (b'"\\ud800"', "json_surrogate", ""),
        (b'{"a":"\\udfff x"}', "json_surrogate", "/a"),
        (b'{"\\ud800":1}', "json_surrogate", ""),
        (b"[" * 65 + b"]" * 65, "json_too_deep", "/0/0/0"),
        (b"[" * 100_000 + b"]" * 100_000, "json_too_deep", ""),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "json_too_deep", ""),
        (b"", "json_invalid", ""),
        (b"{", "json_invalid", ""),
        (b"{} {}", "json_invalid", ""),
        (b"{'a':1}", "json_invalid", ""),
        (b'{"a":1,}', "json_invalid", ""),
        (b"// c\n{}", "json_invalid", ""),
        (b'"\n"', "json_invalid", ""),
        (b"01", "json_invalid", ""),
        (b"\xef\xbb\xbf{}", "text_encoding", ""),
        (b"\xff\xfe{\x00}\x00", "text_encoding", ""),
        (b'"\xff"', "text_encoding", ""),
        (b'"\xed\xa0\x80"', "text_encoding", ""),
        (b'"\xc0\xaf"', "text_encoding", ""),
    ],
)
def test_json_that_is_refused_with_its_place(content: bytes, code: str, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_json(content, "x.json")
    assert caught.value.code == code
    assert [(f.code, f.file, f.pointer) for f in caught.value.findings] == [(code, "x.json", pointer)]
    assert "!" not in caught.value.message


@pytest.mark.parametrize(
    "content",
    [
        b"9007199254740991",
        b"-9007199254740991",
        b'"\\ud83d\\ude00"',
        b"[" * 64 + b"]" * 64,
        b" {} \n",
        b"1e300",
    ],
)
def test_json_at_the_limit_passes(content: bytes) -> None:
    assert parse_json(content) == json.loads(content)


def test_every_duplicate_is_reported_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_json(b'{"a":1,"a":1,"a":1,"b":{"c":1,"c":1}}')
    assert [f.pointer for f in caught.value.findings] == ["/a", "/b/c"]


def test_a_mebibyte_of_faults_is_cheap() -> None:
    hostile = b"[" + b'{"":0,"":0},' * 87_000 + b"0]"
    tracemalloc.start()
    with pytest.raises(InvalidInput) as caught:
        parse_json(hostile)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(caught.value.findings) == MAX_FINDINGS
    assert peak < 150 * 1024 * 1024


def test_pointers_escape() -> None:
    assert pointer_to() == ""
    assert pointer_to("a/b", "~", 0) == "/a~1b/~0/0"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_refused(content: bytes) -> None:
    for parse in (parse_json, parse_yaml):
        with contextlib.suppress(InvalidInput):
            parse(content)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"", None),
        (b"a: 1", {"a": 1}),
        (b"a: [x, 'y', \"z\"]", {"a": ["x", "y", "z"]}),
        (b"a: true\nb: no\nc: null\nd: ~\ne:", {"a": True, "b": False, "c": None, "d": None, "e": None}),
        (b"a: 1.5", {"a": 1.5}),
        (b"a: 2024-01-01", {"a": "2024-01-01"}),
        (b"a: 0x1F\nb: 1:30\nc: .inf\nd: .nan", {"a": "0x1F", "b": "1:30", "c": ".inf", "d": ".nan"}),
        (b"a: 123456789012345678901234567890", {"a": "123456789012345678901234567890"}),
        (b"1: x\ntrue: y", {"1": "x", "true": "y"}),
        (b"a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: \u00e9".encode(), {"a": "\u00e9"}),
    ],
)
def test_plain_yaml(content: bytes, value: object) -> None:
    assert parse_yaml(content) == value


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"a: 1\na: 2", "yaml_duplicate_key"),
        (b"a: {b: 1, b: 1}", "yaml_duplicate_key"),
        (b"a: &x 1", "yaml_alias"),
        (b"a: &x [*x]", "yaml_alias"),
        (b"a: *x", "yaml_alias"),
        (b"a: !!python/object/apply:os.system [id]", "yaml_tag"),
        (b"a: !!str 1", "yaml_tag"),
        (b"a: ! x", "yaml_tag"),
        (b"[" * 65 + b"]" * 65, "yaml_too_deep"),
        (b"? [a]\n: 1", "yaml_invalid"),
        (b"a: b: c", "yaml_invalid"),
        (b"a: 1\n---\nb: 1", "yaml_invalid"),
        (b"a: \x00", "yaml_invalid"),
        (b"\t- a", "yaml_invalid"),
        (b"\xef\xbb\xbfa: 1", "text_encoding"),
        (b"\xff", "text_encoding"),
    ],
)
def test_yaml_that_is_refused(content: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_yaml(content, "x.yaml")
    assert caught.value.code == code
    assert {f.file for f in caught.value.findings} == {"x.yaml"}
    assert "\n" not in caught.value.message


def test_billion_laughs_are_refused_before_anything_is_built() -> None:
    lines = ["a0: &a0 x"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(InvalidInput) as caught:
        parse_yaml("\n".join(lines).encode())
    assert caught.value.code == "yaml_alias"


def test_yaml_at_the_limit_of_depth_passes() -> None:
    assert parse_yaml(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None


def test_lines_count_from_where_the_yaml_begins() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_yaml(b"a: 1\nb: c: d", first_line=10)
    assert "line 11" in caught.value.message
