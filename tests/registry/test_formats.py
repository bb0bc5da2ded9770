"""Plugins of every format in a real registry: published, shown in the plugin document, and resolved for hosts."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from plugreg_registry.documents import plain_document
from plugreg_registry.examination import examine
from plugreg_registry.policy import Arrival, Rules, with_release
from plugreg_registry.records import PluginRecord, StoredRelease, StoredStatement
from plugreg_schemas import formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.api import PluginDocument
from plugreg_schemas.bundle import DEFAULT_LIMITS
from plugreg_schemas.documents import canonical_json
from plugreg_schemas.errors import Conflict
from plugreg_schemas.hosts import host_from
from plugreg_schemas.index import Admins
from plugreg_schemas.names import Digest
from plugreg_schemas.resolve import resolve
from plugreg_schemas.statement import Publish
from plugreg_schemas.tiers import TierPolicy
from plugreg_schemas.tree import MemoryTree
from plugreg_schemas.trust.envelope import read_envelope
from plugreg_schemas.trust.policy import Admission
from plugreg_schemas.trust.verify import verify
from tests.support.publisher import (
    SCHEMA,
    Author,
    Key,
    ask,
    bundle_of,
    canonical,
    plugin,
    plugin_files,
    publish_statement,
)
from tests.support.registries import RegistryProcess, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.publisher import Answer

Files = dict[str, bytes | str]
RULES = Rules(Admission(), Admins(), datetime(2026, 2, 1, tzinfo=UTC))


def dagstack(name: str, version: str = "1.0.0") -> Files:
    manifest = f"""
[plugin]
schema_version = "1"
name = "{name}"
version = "{version}"
kind = "tool"
kind_api_version = "1"
core_version = ">=0.2.0,<0.3.0"
runtime = ["mcp_http", "in_process", "mcp_stdio"]
entry_point = "plugin:Echo"
[plugin.mcp_stdio]
command = ["python", "-m", "echo.server"]
[plugin.mcp_http]
url = "https://plugins.example.com/tool/v1"
"""
    return {"dagstack.toml": manifest, "plugin.py": "class Echo: ...\n"}


def keel(name: str, version: str = "1.0.0", kind: str = "sidecar") -> Files:
    manifest = f'id: {name}\nversion: "{version}"\nkind: {kind}\n'
    if kind == "sidecar":
        return {"plugin.yaml": f"{manifest}entry: {{command: node, args: [main.js]}}\n"}
    page = f"{manifest}provides: {{ui: {{entry: index.html}}}}\n"
    return {"plugin.yaml": page, "ui/index.html": "<!doctype html>"}


def agent_plugin(name: str, servers: Mapping[str, object], tier: str = "", version: str = "1.0.0") -> Files:
    manifest: dict[str, Any] = {"$schema": SCHEMA, "name": name, "version": version}
    if tier:
        manifest["extensions"] = {"dev.plugreg": {"tier": tier}}
    schema = SCHEMA.replace("plugin.schema", "mcp.schema")
    return {
        "plugin.json": json.dumps(manifest),
        "mcp.json": json.dumps({"$schema": schema, "mcpServers": servers}),
    }


REGISTRY = "https://plugins.example.com"
HTTP = {"remote": {"type": "streamable-http", "url": "https://mcp.example.com/v1"}}
STDIO = {"near": {"type": "stdio", "command": "node", "args": ["server.js"]}}


def begin(author: Author, files: Files, name: str, version: str, kind: str) -> tuple[Answer, bytes]:
    bundle = bundle_of(files)
    statement = publish_statement(author.registry, name, version, bundle, format=kind)
    return author.begin_with(author.key.envelope(statement), bundle), bundle


def publish(
    author: Author, files: Files, name: str, version: str = "1.0.0", kind: str = "agent-plugins"
) -> Answer:
    return author.finish(*begin(author, files, name, version, kind))


def question(registry: RegistryProcess | Author, **words: object) -> Answer:
    return ask(f"{registry.url}v1/resolve?{urlencode(words, doseq=True)}")


def codes(answer: Answer) -> list[str]:
    return [fault["code"] for fault in answer.json()["errors"]]


class TestEndToEnd:
    @pytest.mark.parametrize(
        ("kind", "make"), [("dagstack", dagstack), ("keel", keel)], ids=["dagstack", "keel"]
    )
    def test_the_document_lets_every_host_choose_as_the_manifest_does(
        self, author: Author, name: str, kind: str, make: Callable[[str], Files]
    ) -> None:
        files = make(name)
        answer = publish(author, files, name, kind=kind)
        assert answer.status == 201, answer
        document = PluginDocument.model_validate(author.document(name))
        manifest = formats.read(MemoryTree.of(files)).manifest
        assert manifest is not None
        entry = document.versions[0]
        assert entry.format == kind
        for words in (
            {"language": "python"},
            {"language": "python", "core_version": "0.2.5", "isolate": "true"},
            {"language": "go", "core_version": "9.0.0"},
            {"language": "go", "kind": "theme"},
            {"host": "claude-ai"},
            {"host": "keel"},
            {"host": "cursor", "prefer": "mcp_http,mcp_stdio"},
        ):
            expected = resolve(Offer.of(manifest), host_from({key: [word] for key, word in words.items()}))
            assert (
                resolve(Offer.of_document(name, entry), host_from({k: [w] for k, w in words.items()}))
                == expected
            )
            asked = question(author, plugin=name, **words)
            assert (asked.status, asked.json()) == (200, expected.as_dict()), words

    def test_what_a_host_chooses_by_is_in_the_document(self, author: Author, name: str) -> None:
        assert publish(author, dagstack(name), name, kind="dagstack").status == 201
        document = author.document(name)
        entry = document["versions"][0]
        (component,) = entry["components"]
        assert component == {"id": "main", "runtimes": ["mcp_http", "in_process", "mcp_stdio"]}
        offer = document["offers"][entry["offer"]]
        assert (offer["core_version"], offer["capability_kind"]) == (">=0.2.0,<0.3.0", "tool")
        alternatives = [
            {"runtime": "mcp_http"},
            {"runtime": "in_process", "language": "python"},
            {"runtime": "mcp_stdio"},
        ]
        assert offer["alternatives"] == [alternatives]
        assert ask(author.at(f"v1/plugins/{name}")).json() == document
        alone = ask(author.at(f"v1/plugins/{name}/{entry['version']}")).json()
        assert alone["components"] == [component | {"alternatives": alternatives}]
        assert "offer" not in alone
        assert {key: alone[key] for key in offer if key != "alternatives"} == {
            key: offer[key] for key in offer if key != "alternatives"
        }

    def test_versions_that_say_the_same_say_it_once(self, author: Author, name: str) -> None:
        for version, core in (("1.0.0", "2.0"), ("1.1.0", "2.0"), ("1.2.0", "3.0")):
            files: Files = {
                path: text.replace(">=0.2.0,<0.3.0", f">={core}")
                for path, text in dagstack(name, version).items()
                if isinstance(text, str)
            }
            assert publish(author, files, name, version, kind="dagstack").status == 201
        document = author.document(name)
        assert [entry["offer"] for entry in document["versions"]] == [0, 0, 1]
        read = PluginDocument.model_validate(document)
        assert [entry.core_version for entry in read.versions] == [">=2.0", ">=2.0", ">=3.0"]
        assert all(entry.components[0].alternatives for entry in read.versions)

    def test_what_says_nothing_is_left_out_of_the_document(self, author: Author, name: str) -> None:
        assert author.publish(plugin(name), name).status == 201
        entry = author.document(name)["versions"][0]
        assert entry["components"] == [{"id": "main", "runtimes": ["mcp_stdio"]}]
        assert not {"tier", "core_version", "capability_kind", "platforms", "requires"} & entry.keys()


class TestKindImmutable:
    """D10."""

    def test_d10_a_version_of_another_kind_is_refused_and_leaves_nothing(
        self, author: Author, name: str, stored: Callable[[], set[str]]
    ) -> None:
        assert publish(author, keel(name), name, kind="keel").status == 201
        before, document = stored(), author.document(name)
        for version, files, kind in (
            ("1.1.0", keel(name, "1.1.0", "webview"), "keel"),
            ("1.1.0", agent_plugin(name, STDIO, version="1.1.0"), "agent-plugins"),
        ):
            answer = publish(author, files, name, version, kind)
            assert (answer.status, answer.code) == (409, "kind_immutable"), answer
        assert (stored(), author.document(name)) == (before, document)
        assert publish(author, keel(name, "1.1.0"), name, "1.1.0", kind="keel").status == 201

    def test_d10_two_kinds_that_come_together(self, author: Author, name: str) -> None:
        one, first = begin(author, keel(name), name, "1.0.0", "keel")
        two, second = begin(author, keel(name, "2.0.0", "webview"), name, "2.0.0", "keel")
        assert (one.status, two.status) == (202, 202)
        assert author.finish(one, first).status == 201
        assert author.finish(two, second).code == "kind_immutable"

    def test_d10_the_transaction_decides(self) -> None:
        record, arrival, release = thousandth(keel("demo"), "keel", 1)
        other = examined(keel("demo", "9.0.0", "webview"), "keel", "9.0.0")
        with pytest.raises(Conflict, match="kind_immutable"):
            with_release(record, arrival, replace(release, version="9.0.0", facts=other), RULES)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry whose operator has something to say about tiers."""
    folder = tmp_path_factory.mktemp("tiers")
    (folder / "tiers.toml").write_text('[tiers]\nlocal-only = "A"\nfreed = "C"\nbridged = "B"\n')
    environment = {"PLUGREG_REGISTRY_TIERS": str(folder / "tiers.toml")}
    with running(folder / "data", environment=environment) as registry:
        yield registry


class TestTiers:
    def test_b12_tier_a_with_a_server_over_http(
        self, author: Author, name: str, stored: Callable[[], set[str]]
    ) -> None:
        before = stored()
        answer = publish(author, agent_plugin(name, {**STDIO, **HTTP}, "A"), name)
        assert (answer.status, answer.code) == (422, "transport_forbidden")
        assert stored() == before
        assert publish(author, agent_plugin(name, STDIO, "A"), name).status == 201
        assert author.document(name)["versions"][0]["tier"] == "A"

    def test_x06_tier_a_by_the_operator_alone(self, strict: RegistryProcess) -> None:
        author = Author(strict.url, strict.id)
        answer = publish(author, agent_plugin("local-only", HTTP), "local-only")
        assert (answer.status, answer.code) == (422, "transport_forbidden")
        assert "policy of this registry" in answer.json()["hint"]
        assert publish(author, agent_plugin("local-only", STDIO), "local-only").status == 201
        assert author.document("local-only")["versions"][0]["tier"] == "A"
        (outcome,) = question(author, plugin="local-only", host="claude-ai").json()["components"]
        assert [refusal["code"] for refusal in outcome["refusals"]] == ["transport_forbidden"]

    def test_the_operator_wins_over_the_author(self, strict: RegistryProcess) -> None:
        author = Author(strict.url, strict.id)
        assert publish(author, agent_plugin("freed", HTTP, "A"), "freed").status == 201
        assert author.document("freed")["versions"][0]["tier"] == "C"

    def test_b13_tier_b_without_a_bridge_is_taken_with_a_warning(
        self, author: Author, name: str, strict: RegistryProcess
    ) -> None:
        declared = publish(author, agent_plugin(name, HTTP, "B"), name)
        by_policy = publish(Author(strict.url, strict.id), agent_plugin("bridged", HTTP), "bridged")
        for answer in (declared, by_policy):
            assert answer.status == 201, answer
            warned = [(f["code"], f["severity"]) for f in answer.json()["findings"]]
            assert ("bridge_missing", "warning") in warned

    def test_a_changed_policy_reaches_what_was_published_before(self, tmp_path: Path) -> None:
        policy = tmp_path / "tiers.toml"
        policy.write_text("")
        registry = RegistryProcess(tmp_path / "data", environment={"PLUGREG_REGISTRY_TIERS": str(policy)})

        def shown() -> tuple[object, object]:
            registry.start()
            tier = ask(registry.url + "index/plugins/demo.json").json()["versions"][0].get("tier")
            outcome = question(registry, plugin="demo", host="claude-ai").json()["components"][0]
            registry.stop()
            return tier, outcome["runtime"]

        with running(registry.data) as first:
            author = Author(first.url, first.id)
            assert publish(author, agent_plugin("demo", HTTP), "demo").status == 201
        assert shown() == (None, "mcp_http")
        policy.write_text('[tiers]\ndemo = "A"\nunheard-of = "B"\n')
        assert shown() == ("A", None)
        assert shown() == ("A", None)
        policy.write_text("[tiers]\n")
        assert shown() == (None, "mcp_http")


class TestQuestions:
    def test_x10_the_same_question_has_the_same_bytes(self, author: Author, name: str) -> None:
        assert publish(author, dagstack(name), name, kind="dagstack").status == 201
        first = question(author, plugin=name, host="cursor", supports=["mcp_http", "mcp_stdio"])
        assert first.status == 200
        assert {
            question(author, plugin=name, host="cursor", supports=["mcp_http", "mcp_stdio"]).body,
            question(author, supports="mcp_stdio,mcp_http", host="Cursor", range="*", plugin=name).body,
        } == {first.body}

    def test_nothing_usable_is_an_answer_with_a_code(self, author: Author, name: str) -> None:
        assert publish(author, keel(name), name, kind="keel").status == 201
        answer = question(author, plugin=name, host="claude-desktop")
        assert (answer.status, answer.code) == (200, "runtime_not_supported")
        (outcome,) = answer.json()["components"]
        assert (outcome["runtime"], [r["runtime"] for r in outcome["refusals"]]) == (None, ["sidecar"])
        assert question(author, plugin=name, host="keel").code == ""
        assert question(author, plugin=name, host="keel", supports="").code == "runtime_not_supported"

    def test_the_version_is_the_one_that_would_be_installed(self, author: Author, name: str) -> None:
        for version in ("1.0.0", "1.1.0", "1.2.0", "2.0.0-rc.1"):
            assert author.publish(plugin(name, version), name, version).status == 201
        assert author.state("yank", name, version="1.2.0", yanked=True, reason="broken").status == 201

        def chosen(wanted: str) -> object:
            answer = question(author, plugin=name, language="python", range=wanted)
            return answer.json()["version"] if answer.status == 200 else (answer.status, answer.code)

        assert chosen("") == chosen("^1") == chosen(">=1.0,<3") == "1.1.0"
        assert (chosen("1.2.0"), chosen("2.0.0-rc.1"), chosen("~1.0")) == ("1.2.0", "2.0.0-rc.1", "1.0.0")
        assert chosen("^2") == chosen(">=1.2") == (404, "version_not_found")

    def test_plugins_that_are_not_there(self, author: Author, name: str) -> None:
        answer = question(author, plugin=name, language="go")
        assert (answer.status, answer.code) == (404, "plugin_not_found")

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ({"plugin": "demo"}, ["host_missing"]),
            ({"language": "go"}, ["parameter_missing"]),
            ({"plugin": "", "host": "", "language": ""}, ["parameter_missing", "host_missing"]),
            ({"plugin": "demo", "language": "go", "suports": "x"}, ["parameter_unknown"]),
            ({"plugin": "demo", "language": "cobol"}, ["language_unknown"]),
            ({"plugin": "demo", "host": "emacs"}, ["host_unknown"]),
            ({"plugin": "A", "language": "go", "range": "x y"}, ["name_invalid", "range_invalid"]),
            ({"plugin": ["a", "b"], "language": "go"}, ["parameter_repeated"]),
            ({"plugin": "a", "language": "go,python"}, ["parameter_repeated"]),
            (
                {
                    "plugin": "demo",
                    "host": "emacs",
                    "supports": "mcp_stdio,telepathy",
                    "prefer": "magic",
                    "isolate": "1",
                    "core_version": "new",
                    "tunnel": "wide",
                },
                ["host_unknown", *["setting_invalid"] * 2, "core_version_invalid", *["runtime_unknown"] * 2],
            ),
            ({"plugin": "demo", "language": "go", "kind": "k" * 65}, ["setting_invalid"]),
            (
                {"plugin": "demo\0", "language": "\udcff".encode("utf-8", "surrogateescape")},
                ["name_invalid", "language_unknown"],
            ),
        ],
        ids=",".join,
    )
    def test_every_fault_of_a_question_is_named(
        self, author: Author, words: dict[str, Any], expected: list[str]
    ) -> None:
        answer = question(author, **words)
        assert answer.status == 400, answer
        assert sorted(codes(answer)) == sorted(expected)
        assert answer.code == (expected[0] if len(set(expected)) == 1 else "question_invalid")

    def test_more_faults_than_are_shown(self, author: Author) -> None:
        answer = ask(f"{author.url}v1/resolve?{urlencode([(f'x{n}', 'y') for n in range(300)])}")
        assert (answer.status, len(codes(answer))) == (400, 100)


def examined(files: Files, kind: str, version: str) -> Any:
    said = Publish(registry=REGISTRY, plugin="demo", version=version, format=kind)  # type: ignore[arg-type]
    return examine(io.BytesIO(bundle_of(files)), DEFAULT_LIMITS, said, TierPolicy()).facts


def thousandth(files: Files, kind: str, count: int) -> tuple[PluginRecord, Arrival, StoredRelease]:
    """A record with `count` versions, and a publish that arrives for it."""
    key, bundle = Key(), bundle_of(files)
    statement = publish_statement(REGISTRY, "demo", "1.0.0", bundle, format=kind)
    envelope = read_envelope(key.envelope(statement))
    signed = verify(envelope, {key.id: key.spki})
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    facts = examined(files, kind, "1.0.0")
    release = StoredRelease(
        version="1.0.0",
        digest=Digest.of(bundle),
        size=len(bundle),
        format=kind,  # type: ignore[arg-type]
        published_at=now,
        attestation=signed.digest,
        signer=signed.signer,
        public_key=key.spki,
        facts=facts,
    )
    releases = tuple(
        replace(release, version=f"1.{number}.0", digest=Digest.of(canonical(number)))
        for number in range(count)
    )
    record = PluginRecord(
        "demo", (StoredStatement(signed.digest, envelope.content, key.spki, now),), releases
    )
    said = signed.statement.predicate
    assert isinstance(said, Publish)
    return record, Arrival(signed, replace_version(said, "9.0.0"), envelope.content), release


def replace_version(said: Publish, version: str) -> Publish:
    return said.model_copy(update={"version": version})


@pytest.mark.parametrize(
    ("files", "kind", "most"),
    [
        (plugin_files("demo"), "agent-plugins", 500_000),
        (keel("demo"), "keel", 500_000),
        (dagstack("demo"), "dagstack", 600_000),
    ],
    ids=["one usual runtime", "another", "three runtimes of which one says more than its name"],
)
def test_a_document_of_1000_versions_stays_small(files: Files, kind: str, most: int) -> None:
    record, _, _ = thousandth(files, kind, 1000)
    content = canonical_json(plain_document(record, TierPolicy()))
    assert len(content) <= most
    assert len(PluginDocument.model_validate_json(content).versions) == 1000


def test_a_release_from_before_alternatives_were_kept_resolves_by_names(tmp_path: Path) -> None:
    with running(tmp_path / "data") as registry:
        author = Author(registry.url, registry.id)
        assert publish(author, dagstack("demo"), "demo", kind="dagstack").status == 201
    facts = {"components": [{"id": "main", "runtimes": ["mcp_stdio"]}], "counts": {"servers": 1, "skills": 0}}
    with sqlite3.connect(tmp_path / "data" / "registry.sqlite3") as database:
        database.execute("UPDATE releases SET facts = ?", (json.dumps(facts),))
    database.close()
    with running(tmp_path / "data") as registry:
        answer = question(registry, plugin="demo", language="go")
        assert answer.json()["components"] == [{"id": "main", "runtime": "mcp_stdio", "refusals": []}]
