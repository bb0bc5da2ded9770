"""A plugin with native programs in a real registry: its document says where they run, and hosts choose by it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from plugreg_schemas import formats
from plugreg_schemas.alternatives import Offer
from plugreg_schemas.api import PluginDocument
from plugreg_schemas.hosts import host_from
from plugreg_schemas.resolve import resolve
from tests.support.binaries import ARM64, X86_64, elf, fat, packed, plugin_of
from tests.support.publisher import ask

if TYPE_CHECKING:
    from tests.support.publisher import Author

PROGRAMS = {"one": elf(), "two": fat(X86_64, ARM64) + bytes(5000)}


def test_the_document_says_where_commands_run(author: Author, name: str) -> None:
    tree = plugin_of(PROGRAMS, name, near={"type": "stdio", "command": "node"})
    answer = author.publish(packed(tree), name)
    assert answer.status == 201, answer
    findings = [(f["code"], f["severity"]) for f in answer.json()["findings"]]
    assert findings == [("native_binary", "note"), ("native_binary", "note"), ("one_owner", "note")]
    document = author.document(name)
    entry = document["versions"][0]
    assert document["offers"][entry["offer"]]["alternatives"] == [
        [{"runtime": "mcp_stdio", "platforms": ["linux-x86_64"]}],
        [{"runtime": "mcp_stdio", "platforms": ["macos-arm64", "macos-x86_64"]}],
        [],
    ]
    assert "platforms" not in entry


def test_registry_and_client_choose_alike_by_platform(author: Author, name: str) -> None:
    tree = plugin_of(PROGRAMS, name)
    assert author.publish(packed(tree), name).status == 201
    document = PluginDocument.model_validate(author.document(name))
    assert document.versions[0].platforms == ("linux-x86_64", "macos-arm64", "macos-x86_64")
    manifest = formats.read(tree).manifest
    assert manifest is not None
    for platform in ("linux-x86_64", "macos-arm64", "windows-x86_64"):
        words = {"language": "go", "platform": platform}
        expected = resolve(Offer.of(manifest), host_from({key: [word] for key, word in words.items()}))
        proved = Offer.of_document(name, document.versions[0])
        assert resolve(proved, host_from({key: [word] for key, word in words.items()})) == expected
        asked = ask(f"{author.url}v1/resolve?{urlencode({'plugin': name, **words})}")
        assert asked.json() == expected.as_dict(), platform
