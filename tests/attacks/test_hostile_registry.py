"""A registry that wants something else than to serve plugins."""

from __future__ import annotations

import pytest

from plugreg.link import Link, Patience, raise_for
from plugreg_schemas.errors import NotAvailable, PlugregError
from tests.support.scripted import Answer, serving

ONCE = Patience(tries=1)


@pytest.mark.parametrize(
    "way",
    [
        "http://127.0.0.1:2375/containers/prune",
        "http://localhost:9/x",
        "http://[::1]:9/x",
        "https://127.0.0.1:9/x",
        "//localhost:9/x",
        "https://LOCALHOST.:9/x",
        "https://a.localhost:9/x",
        "https://127.1:9/x",
        "https://2130706433:9/x",
        "https://0.0.0.0:9/x",
        "https://[::]:9/x",
        "https://[::ffff:127.0.0.1]:9/x",
    ],
)
@pytest.mark.parametrize("insecure", [False, True])
def test_a_registry_elsewhere_leads_to_this_machine(way: str, *, insecure: bool) -> None:
    """Upload and commit addresses are the registry's words: no request is made for it behind the firewall."""
    link = Link("https://plugins.example.com/", insecure_http=insecure, patience=ONCE)
    with pytest.raises(NotAvailable, match="registry_url_insecure"):
        link.once("POST", way)


@pytest.mark.parametrize(
    "content",
    [
        b'{"title":"t","status":404,"code":"x","extra":NaN}',
        b'{"title":"t","status":404,"code":"x","extra":1e999}',
        b'{"title":"t","status":404,"code":"x","code":"y"}',
        b'{"title":"t","status":404,"code":""}',
        b'{"title":"t","status":404,"code":"\\u001b[31m"}',
        b'{"title":"t","status":404,"code":"two words"}',
        b'{"title":"t","status":404,"code":"' + b"a" * 5000 + b'"}',
        b'{"title":"t","status":404,"code":"x","detail":"\\ud800"}',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_a_problem_document_that_a_program_could_not_read(content: bytes) -> None:
    """What `--json` prints of it would be no JSON, and its code nothing to branch on."""
    with (
        serving(lambda _: Answer(500, content, {"Content-Type": "application/problem+json"})) as server,
        pytest.raises(PlugregError, match="http_error"),
    ):
        raise_for(Link(server.url, patience=ONCE).once("GET", "x"))


@pytest.mark.parametrize("status", [300, 304, 399])
def test_a_status_that_is_neither_success_nor_error(status: int) -> None:
    """It is not the user's input that is wrong."""
    with (
        serving(lambda _: Answer(status, b"")) as server,
        pytest.raises(NotAvailable, match="http_error"),
    ):
        raise_for(Link(server.url, patience=ONCE).once("GET", "x"))
