"""Installing over HTTP from a registry that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plugreg.index.terms import Terms
from plugreg.install import install, update
from plugreg.inventory import list_installed, verify
from plugreg.plugins_root import PluginsRoot
from plugreg.remote import Remote
from plugreg_schemas.errors import IntegrityError, NotAvailable
from plugreg_schemas.names import Ref
from tests.support.publisher import Author, ask, digest_of, plugin
from tests.support.registries import running
from tests.support.roots import assert_settled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.registries import RegistryProcess

DEMO = [Ref.parse("demo")]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found


def test_t01_the_first_bytes_of_a_version_stay_its_bytes(registry: RegistryProcess, tmp_path: Path) -> None:
    author, root, terms = (
        Author(registry.url, registry.id),
        PluginsRoot.at(tmp_path / "root"),
        Terms(tmp_path / "home"),
    )
    first, second = plugin(mark="A"), plugin(mark="B")
    assert author.publish(first).status == 201
    (row,) = install(root, DEMO, [Remote(registry.url, terms)]).installed
    index = ask(f"{registry.url}index/plugins/demo.json").body
    assert author.publish(second).status == 409
    (again,) = install(root, DEMO, [Remote(registry.url, terms)]).installed
    assert (again.change, again.facts.digest) == ("unchanged", row.facts.digest)
    assert row.facts.digest == digest_of(first)
    assert ask(f"{registry.url}blobs/sha256/{row.facts.digest[7:]}").body == first
    assert ask(f"{registry.url}index/plugins/demo.json").body == index
    assert_settled(root)


def test_a_plugin_is_updated_and_its_yanks_are_seen(registry: RegistryProcess, tmp_path: Path) -> None:
    author, root, terms = (
        Author(registry.url, registry.id),
        PluginsRoot.at(tmp_path / "root"),
        Terms(tmp_path / "home"),
    )
    wanted = [Ref.parse("yanked")]
    assert author.publish(plugin("yanked", "1.0.0"), "yanked", "1.0.0").status == 201
    install(root, wanted, [Remote(registry.url, terms)])
    assert author.publish(plugin("yanked", "1.1.0"), "yanked", "1.1.0").status == 201
    assert update(root, [], [Remote(registry.url, terms)]).installed[0].facts.version == "1.1.0"
    assert author.state("yank", "yanked", version="1.1.0", yanked=True, reason="eats data").status == 201
    update(root, [], [Remote(registry.url, terms)])
    (row,) = list_installed(root).plugins
    assert (row.status, row.reason) == ("yanked", "eats data")
    verify(root).raise_if_any()
    other = PluginsRoot.at(tmp_path / "other")
    assert install(other, wanted, [Remote(registry.url, terms)]).installed[0].facts.version == "1.0.0"


def test_bytes_altered_in_the_store_are_refused(registry: RegistryProcess, tmp_path: Path) -> None:
    author, root = Author(registry.url, registry.id), PluginsRoot.at(tmp_path / "root")
    bundle = plugin("altered", "1.0.0")
    assert author.publish(bundle, "altered", "1.0.0").status == 201
    blob = registry.objects / "blobs" / "sha256" / digest_of(bundle)[7:]
    blob.chmod(0o644)
    blob.write_bytes(bundle[:50] + bytes([bundle[50] ^ 1]) + bundle[51:])
    with pytest.raises(IntegrityError, match="digest_mismatch"):
        install(root, [Ref.parse("altered")], [Remote(registry.url, Terms(tmp_path / "home"))])
    assert list_installed(root).plugins == ()
    assert_settled(root)


def test_a_name_that_is_not_there_is_not_found(registry: RegistryProcess, tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="plugin_not_found"):
        install(
            PluginsRoot.at(tmp_path / "root"),
            [Ref.parse("nothing")],
            [Remote(registry.url, Terms(tmp_path / "home"))],
        )
